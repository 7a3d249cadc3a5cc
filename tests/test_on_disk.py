"""Matrices in temporary files: rows that are written are read back, take no private memory, and leave no file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import on_disk
from rankwright.data.on_disk import is_on_disk, row_ranges, take_rows, to_disk, write_rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_rows_are_those_that_were_written(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(on_disk, "BLOCK_BYTES", 64)
    values = np.random.default_rng(0).integers(0, 200, (1000, 7)).astype(dtype)
    rows = write_rows(np.array_split(values, 13), values.shape, dtype)
    assert is_on_disk(rows)
    assert rows.dtype == dtype
    assert np.array_equal(rows, values)
    assert max(part.stop - part.start for part in row_ranges(rows)) == 64 // (7 * rows.itemsize)
    order = np.random.default_rng(1).permutation(1000)
    for chosen in (order, order[:20], order > 500):
        taken = take_rows(rows, chosen)
        assert is_on_disk(taken)
        assert np.array_equal(taken, values[chosen])
        assert not is_on_disk(take_rows(values, chosen))
    assert np.array_equal(to_disk(values[:, ::-1]), values[:, ::-1])


def test_data_that_is_given_as_a_mapped_file_stays_in_files(tmp_path: Path) -> None:
    data = rw.make_web_search(20, n_features=20, random_state=1)
    np.save(tmp_path / "X.npy", data.X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    given = rw.RankingData(mapped, data.y, qid=data.qid, feature_names=data.feature_names)
    assert is_on_disk(given.X)
    assert is_on_disk(given.canonical().X)
    models = [
        rw.Ranker(n_estimators=3, within_query="z", n_jobs=1, verbose=0).fit(one)
        for one in (given, data)
    ]
    assert models[0].forest_.dump() == models[1].forest_.dump()


def test_no_file_is_left_even_after_a_crash(folder: Path) -> None:
    rows = to_disk(np.ones((1000, 10)))
    assert is_on_disk(rows)
    assert os.listdir(folder) == []
    script = (
        "import os, numpy as np\n"
        "from rankwright.data.on_disk import to_disk, write_rows\n"
        "rows = to_disk(np.ones((1000, 10)))\n"
        "def blocks():\n"
        "    yield np.ones((10, 10))\n"
        "    os._exit(9)\n"
        "write_rows(blocks(), (20, 10), np.float64)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(folder)}, check=False
    )
    assert done.returncode == 9
    assert os.listdir(folder) == []


def test_an_error_while_rows_are_read_leaves_no_file(folder: Path) -> None:
    def blocks() -> Any:
        yield np.ones((10, 10))
        raise KeyboardInterrupt("while rows are read")

    with pytest.raises(KeyboardInterrupt, match="while rows are read"):
        write_rows(blocks(), (20, 10), np.float64)
    assert os.listdir(folder) == []


def test_too_little_space_is_an_error_before_rows_are_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rw.make_web_search(20, n_features=20, random_state=1)
    rw.write_data(data, tmp_path / "a.parquet")
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
    n_bytes = 8 * data.n_rows * 20
    reason = rf"{re.escape(str(folder))} has no space for {n_bytes} bytes.*TMPDIR"
    with pytest.raises(OSError, match=reason):
        rw.stream_data(tmp_path / "a.parquet")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to try")
def test_a_disk_that_fills_up_is_the_same_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("r+b") as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: full)
        with pytest.raises(OSError, match=f"{re.escape(str(folder))} has no space for 8000 bytes"):
            to_disk(np.ones((100, 10)))


def private_memory() -> int:
    """Bytes of this process in memory that are no pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not say what is in memory"
)
def test_rows_take_no_private_memory() -> None:
    before = private_memory()
    block = np.ones((1 << 12, 1 << 10), dtype=np.uint8)
    rows = write_rows((block for _ in range(32)), (1 << 17, 1 << 10), np.uint8)
    taken = take_rows(rows, np.arange(len(rows))[::-1])
    assert taken.sum(dtype=np.int64) == 1 << 27
    assert private_memory() - before < 1 << 26
