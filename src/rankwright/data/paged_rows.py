"""A matrix in a temporary file: memory holds the rows that are being used, and no others.

Bins of rows in files are kept this way until an engine has made its own copy of them, and for as long as leaves are
looked up in them. The operating system keeps the file in whatever memory nobody else needs, so reading it again costs
little where there is room, and nothing breaks where there is not.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LEAST_BYTES = 1 << 25  # smaller matrices are kept in memory
_BLOCK_BYTES = 1 << 24  # of the rows that are used at a time


class PagedRows:
    """Rows of a matrix in a temporary file, which disappears with this object.

    Parameters
    ----------
    shape, dtype
        Of the matrix; its values are 0.

    Examples
    --------
    >>> rows = PagedRows((5, 2), np.uint8)
    >>> rows[np.array([4, 0])] = [[1, 2], [3, 4]]
    >>> rows[3:].tolist()
    [[0, 0], [1, 2]]
    """

    def __init__(self, shape: tuple[int, int], dtype: DTypeLike) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._pages = _file_of(shape[0] * shape[1] * self.dtype.itemsize)
        self._rows: NDArray[Any] = np.frombuffer(self._pages, dtype=dtype).reshape(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: Any, values: Any) -> None:
        self._rows[rows] = values
        self._leave()

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return a copy of some rows."""
        chosen = np.array(self._rows[rows])
        self._leave()
        return chosen

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in blocks, each of which may be used until the next is asked for."""
        for block in _slices(self._rows):
            yield block
            self._leave()

    def _leave(self) -> None:
        """Let go of the memory of all rows; what was written is in the file."""
        if hasattr(mmap, "MADV_DONTNEED"):  # other systems take memory back when they need it
            self._pages.madvise(mmap.MADV_DONTNEED)


def _file_of(n_bytes: int) -> mmap.mmap:
    """Map a temporary file of this size."""
    with tempfile.TemporaryFile() as file:
        # Disk space is reserved now: a mapped file that finds none later ends the process.
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return mmap.mmap(file.fileno(), n_bytes)


def empty_rows(shape: tuple[int, int], dtype: DTypeLike) -> PagedRows | NDArray[Any]:
    """Make room for a matrix: in a temporary file if it is large and there is space for it, otherwise in memory.

    Examples
    --------
    >>> type(empty_rows((5, 2), np.uint8)).__name__
    'ndarray'
    """
    if shape[0] * shape[1] * np.dtype(dtype).itemsize >= _LEAST_BYTES and hasattr(
        os, "posix_fallocate"
    ):
        try:
            return PagedRows(shape, dtype)
        except OSError:  # no space on the disk, or no folder for temporary files
            pass
    return np.empty(shape, dtype=dtype)


def row_blocks(matrix: PagedRows | NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield all rows of a matrix, in a file or in memory, in blocks of bounded size.

    Examples
    --------
    >>> [len(block) for block in row_blocks(np.zeros((5, 2)))]
    [5]
    """
    yield from matrix.blocks() if isinstance(matrix, PagedRows) else _slices(matrix)


def _slices(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    size = max(1, _BLOCK_BYTES // max(1, rows.shape[1] * rows.itemsize))
    for low in range(0, len(rows), size):
        yield rows[low : low + size]
