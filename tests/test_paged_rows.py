"""Rows in a temporary file: what is written is read back, and only the rows in use take memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rankwright.data import paged_rows
from rankwright.data.paged_rows import PagedRows, empty_rows, row_blocks

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="rows are kept in memory on this system"
)


def test_rows_are_those_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_rows, "_BLOCK_BYTES", 64)
    values = np.random.default_rng(0).integers(0, 60_000, (1000, 7)).astype(np.uint16)
    rows = PagedRows(values.shape, np.uint16)
    for places in np.array_split(np.random.default_rng(1).permutation(1000), 5):
        rows[places] = values[places]
    assert len(rows) == 1000
    assert np.array_equal(rows[:], values)
    assert np.array_equal(rows[990:], values[990:])
    for matrix in (rows, values):
        blocks = [block.copy() for block in row_blocks(matrix)]
        assert {len(block) for block in blocks} == {4}
        assert np.array_equal(np.concatenate(blocks), values)


def resident(kind: str) -> int:
    """Bytes of this process in memory that are pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(kind))


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not say what is in memory"
)
def test_rows_that_are_not_in_use_take_no_memory() -> None:
    rows = empty_rows((1 << 16, 1 << 10), np.uint8)
    assert isinstance(rows, PagedRows)
    before = resident("RssFile") + resident("RssShmem")
    for low in range(0, len(rows), 1 << 12):
        rows[low : low + (1 << 12)] = 1
    total = most = 0
    for block in rows.blocks():
        total += int(block.sum())
        most = max(most, resident("RssFile") + resident("RssShmem") - before)
    assert total == 1 << 26
    assert most < 1 << 25


def test_without_space_on_the_disk_rows_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert isinstance(empty_rows((1 << 16, 1 << 10), np.uint8), np.ndarray)
