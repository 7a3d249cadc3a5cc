"""Arrow files (Feather): read whole and in blocks, and refused if they are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

import rankwright as rw
from rankwright.data.formats import contract

ROWS = 300
TABLE = pa.table(
    {
        "label": np.arange(ROWS) % 3,
        "qid": np.arange(ROWS) // 7,
        "a": np.random.default_rng(0).normal(size=ROWS),
        "kind": pa.array([f"k{row % 5}" for row in range(ROWS)]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_files_of_other_programs_are_read(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.feather"
    pyarrow.feather.write_feather(TABLE, path, compression=compression, chunksize=50)
    data = rw.read_data(path)
    expected = rw.RankingData(TABLE, "label", qid="qid")
    assert np.array_equal(data.X, expected.X)
    assert data.categories == {"kind": ("k0", "k1", "k2", "k3", "k4")}


def test_rows_in_blocks_are_the_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "LEAST_ROWS", 16)
    monkeypatch.setattr(contract, "BLOCK_BYTES", 1)
    data = rw.RankingData(TABLE, "label", qid="qid", sample_weight=1.0 + np.arange(ROWS) % 2)
    for number, queries in enumerate((range(20), range(20, data.n_queries))):
        rw.write_data(data.subset(queries), tmp_path / f"{number}.arrow")
    streamed = rw.stream_data(tmp_path)
    assert streamed.categories == data.categories
    assert np.array_equal(streamed.X, data.X)
    assert np.array_equal(streamed.y, data.y)
    assert np.array_equal(streamed.weights, data.weights)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    rw.write_data(rw.RankingData(TABLE, "label", qid="qid"), path)
    content = path.read_bytes()
    for cut in (3, 10, len(content) // 2, len(content) - 4):
        path.write_bytes(content[:cut])
        for read in (rw.read_data, rw.stream_data):
            with pytest.raises(ValueError, match=r"a\.arrow is not a valid Arrow file"):
                read(path)


def test_codes_outside_of_the_dictionary_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    codes = pa.DictionaryArray.from_arrays(
        pa.array([0, 7], pa.int32()), pa.array(["x", "y"]), safe=False
    )
    table = pa.table({"label": [0, 1], "qid": [1, 1], "kind": codes})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    for read in (rw.read_data, rw.stream_data):
        with pytest.raises(ValueError, match=r"a\.arrow is not a valid Arrow file"):
            read(path)


def test_a_description_of_weights_that_are_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    table = TABLE.replace_schema_metadata({"rankwright": '{"weighted": true}'})
    pyarrow.feather.write_feather(table, path)
    for read in (rw.read_data, rw.stream_data):
        with pytest.raises(ValueError, match=r"a\.arrow has no column 'weight'"):
            read(path)
