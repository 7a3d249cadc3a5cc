"""Rows that stay in files: files that change, pipes, and files that are small but would take much memory."""

from __future__ import annotations

import base64
import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwright as rw
from rankwright.data import streaming
from rankwright.data.formats import contract, letor

ROWS = 40


def text(factor: int) -> bytes:
    return b"".join(
        b"%d qid:%d 1:%d 2:%d\n" % (row % 3, row // 5, row * factor % 9, row % 7)
        for row in range(ROWS)
    )


def table(factor: int = 1, **others: Any) -> pa.Table:
    row = np.arange(ROWS)
    columns = {"label": row % 3.0, "qid": row // 5, "a": row * factor % 9.0, "b": row % 7.0}
    return pa.table(columns | others)


def write(path: Path, factor: int) -> Path:
    if path.suffix == ".txt":
        path.write_bytes(text(factor))
    else:
        pq.write_table(table(factor), path)
    now = os.stat(path).st_mtime_ns
    os.utime(path, ns=(now, now + factor))  # two writes within a tick of the clock differ too
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
def test_files_may_change_or_go_once_they_were_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, 2)
    data, known = rw.stream_data(path), rw.read_data(path)
    write(path, 4)
    assert np.array_equal(data.X, known.X)
    path.unlink()
    models = [rw.Ranker(n_estimators=2, verbose=0).fit(rows) for rows in (data, known)]
    assert models[0].forest_.dump() == models[1].forest_.dump()


@pytest.mark.parametrize("n_rows", [39, 41])
def test_another_number_of_rows_is_refused_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text(2))
    of = letor.Letor.blocks

    def change(*arguments: Any) -> Any:
        reader, status = of(*arguments), os.stat(path)
        rows = "".join(f"1 qid:{row} 2:1\n" for row in range(n_rows))
        path.write_text(rows.ljust(status.st_size, "\n"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return reader

    monkeypatch.setattr(letor.Letor, "blocks", change)
    with pytest.raises(ValueError, match=f"there are {n_rows} rows, and there were 40"):
        rw.stream_data(path)


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
def test_files_that_change_while_they_are_read_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "LEAST_ROWS", 10)
    monkeypatch.setattr(contract, "BLOCK_BYTES", 160)
    path = write(tmp_path / name, 2)

    def change(*_: Any) -> None:
        os.utime(path, ns=(1, 1))

    with pytest.raises(ValueError, match=f"{name} has changed since it was first read"):
        rw.stream_data(path, show=change)


def test_rows_of_few_entries_come_in_blocks_of_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sparse.txt"
    path.write_text("\n" + "".join(f"1 qid:{row} {row % 50 + 1}:{row}\n\n" for row in range(1000)))
    monkeypatch.setattr(contract, "LEAST_ROWS", 16)
    monkeypatch.setattr(contract, "BLOCK_BYTES", 50 * 8 * 100)
    sizes: list[int] = []
    write_rows = streaming.write_rows

    def watched(rows: Any, *arguments: Any) -> Any:
        return write_rows((sizes.append(len(block)) or block for block in rows), *arguments)

    monkeypatch.setattr(streaming, "write_rows", watched)
    data = rw.stream_data(path)
    assert max(sizes) <= 100
    assert sum(sizes) == 1000
    assert np.array_equal(data.X, rw.read_data(path).X)
    path.write_text(
        "".join(f"1 qid:{row} {row % 50 + 1}:{row}\n" for row in range(1000)) + "1 qid:7 1:x\n"
    )
    with pytest.raises(ValueError, match="line 1001: expected a number"):
        rw.stream_data(path)


def test_streamed_rows_can_be_used_as_rows_in_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 2)
    streamed, known = rw.stream_data(path), rw.read_data(path)
    options: dict[str, Any] = {"n_estimators": 3, "min_child_samples": 1, "verbose": 0}
    for within_query in (None, "rank"):
        model = rw.Ranker(within_query=within_query, **options).fit(known)
        for use in (
            lambda data, model=model: model.predict(data, contributions=True),
            lambda data, model=model: model.explain(data, 0, 1).features,
            lambda data, model=model: model.permutation_importance(data).losses,
            lambda data, model=model: list(model.staged_predict(data)),
            lambda data, model=model: model.score(data),
            lambda data: data.X[0],
        ):
            np.testing.assert_equal(use(streamed), use(known))
    for name in ("b.parquet", "b.txt", "b.csv"):
        rw.write_data(streamed, tmp_path / name)
        rw.write_data(known, tmp_path / f"known_{name}")
        assert (tmp_path / name).read_bytes() == (tmp_path / f"known_{name}").read_bytes()
    with pytest.raises(ValueError, match=r"give stream_data\(path\)"):
        list(model.staged_predict(path))


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is not a plain file"):
        rw.stream_data(tmp_path / name)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    rows = table()
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.Table.from_arrays([*rows.columns, rows["a"]], names=[*rows.column_names, "a"]), path
    )
    for read in (rw.read_data, rw.stream_data):
        with pytest.raises(ValueError, match=r"a\.parquet has two columns named 'a'"):
            read(path)


def test_a_damaged_description_is_refused_in_pieces_as_at_once(tmp_path: Path) -> None:
    rows = rw.RankingData(pa.table({"kind": ["x", "y"]}), [1, 0], qid=[1, 1], categorical=["kind"])
    path = tmp_path / "a.parquet"
    rw.write_data(rows, path)
    content = path.read_bytes()
    stored = pq.read_metadata(path).metadata[
        b"ARROW:schema"
    ]  # one of two copies, the one that counts
    damaged = base64.b64encode(base64.b64decode(stored).replace(b'["x", "y"]', b'\xae"x", "y"]'))
    path.write_bytes(content.replace(stored, damaged))
    for read in (rw.read_data, rw.stream_data):
        with pytest.raises(
            ValueError, match=r"a\.parquet: the file's description of its columns .* was damaged"
        ):
            read(path)
    path.write_bytes(content.replace(b'["x", "y"]', b'\xae"x", "y"]'))
    for read in (rw.read_data, rw.stream_data):
        assert read(path).categories == {"kind": ("x", "y")}


@pytest.mark.parametrize("kept", [0, 1])
def test_rows_that_cannot_be_read_are_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path)
    whole = pq.ParquetFile.iter_batches

    def shorter(
        file: Any, _: int, columns: Any = None
    ) -> Any:  # as Arrow does where the chunk of a column is damaged
        return islice(whole(file, 10), kept)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", shorter)
    with pytest.raises(
        ValueError, match=r"a\.parquet.*: it says that it has 40 rows; the file is damaged"
    ):
        rw.stream_data(path)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda file: table().slice(0, kept))
    with pytest.raises(
        ValueError, match=rf"a\.parquet says that it has 40 rows, and {kept} can be read"
    ):
        rw.read_data(path)


def test_lists_are_not_categories(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(kind=pa.array([[1, 2]] * ROWS)), path)
    for read in (rw.read_data, rw.stream_data):
        with pytest.raises(ValueError, match=r"a\.parquet: column 'kind' has the type List"):
            read(path, categorical=["kind"])


def test_a_small_file_of_many_rows_takes_no_gigabyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    zeros = pa.array(np.zeros(1_000_000))
    pq.write_table(pa.table(dict.fromkeys(("label", "qid", "a", "b"), zeros)), path)
    monkeypatch.setattr("rankwright.support.files.UNPACKED_FREELY", 1 << 20)
    with pytest.raises(ValueError, match=r"a\.parquet would take 0\.0 GB of memory.*stream_data"):
        rw.read_data(path)
    with pytest.raises(ValueError, match=r"a\.parquet would take 0\.1 GB of memory.*several files"):
        rw.stream_data(path)


def test_files_without_rows_are_one_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 2)
    model = rw.Ranker(n_estimators=1, min_child_samples=1, verbose=0).fit(rw.read_data(path))
    pq.write_table(table().slice(0, 0), path)
    for use in (rw.stream_data, model.predict):
        with pytest.raises(ValueError, match=r"the data is empty: no row is in .*a\.parquet"):
            use(path)


def test_whole_numbers_beyond_floats_are_rounded_in_every_container() -> None:
    numbers = np.array([2**53 + 1, 2**63 + 2**11, 3], dtype=np.uint64)
    frame = pa.table({"x": numbers, "label": [1.0, 0.0, 0.0], "qid": [1, 1, 1]})
    data = rw.RankingData(frame, "label", qid="qid")
    assert np.array_equal(data.X.ravel(), numbers.astype(np.float64))
