"""Matrices in temporary files, for rows that do not fit in memory.

A matrix is an array in memory, a CSR matrix, or an array that is mapped from a file (`numpy.memmap`). Engines, kernels
and metrics use a mapped array like any other. Only functions that make a new matrix out of the rows of another matrix
come here, because the new rows must go to a file too if the old rows are in a file.

The operating system keeps as much of a mapped file in memory as is free, and gives up the rest when memory is short.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK_BYTES = 1 << 24  # of the rows that are held in memory at a time


def is_on_disk(X: Any) -> bool:
    """Return True if a matrix is mapped from a file."""
    return isinstance(X, np.memmap)


def write_rows(
    blocks: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: DTypeLike
) -> np.memmap[Any, Any]:
    """Write blocks of rows to a temporary file, one below the other, and return the array that is mapped from it.

    The file has no name, and is deleted with the last array that uses it, or with the process. It is in the folder
    `tempfile.gettempdir`, which the environment variable ``TMPDIR`` decides.

    Parameters
    ----------
    blocks
        Rows from the first to the last.
    shape, dtype
        Of the whole matrix.

    Examples
    --------
    >>> X = write_rows([np.ones((2, 3)), np.zeros((1, 3))], (3, 3), np.float32)
    >>> X.sum(axis=1).tolist(), X.dtype.name
    ([3.0, 3.0, 0.0], 'float32')
    """
    # A missing gigabyte is reported before anything is written.
    folder = tempfile.gettempdir()
    n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if shutil.disk_usage(folder).free < n_bytes:
        raise _no_space(folder, n_bytes)
    with tempfile.TemporaryFile(dir=folder) as file:
        for block in blocks:
            # Rows are written before they are mapped: a full disk is then an error here. A process that writes to a
            # mapped file is killed.
            _write(file, np.ascontiguousarray(block, dtype=dtype), folder, n_bytes)
        # Not "c": Linux refuses a private mapping that is larger than its memory.
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def _write(file: Any, block: NDArray[Any], folder: str, n_bytes: int) -> None:
    try:
        file.write(block.data)
        file.flush()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(folder, n_bytes) from None
        raise


def _no_space(folder: str, n_bytes: int) -> OSError:
    return OSError(
        errno.ENOSPC,
        f"{folder} has no space for {n_bytes} bytes ({n_bytes / 2**30:.1f} GB) of features. Set the environment "
        "variable TMPDIR to a folder with more space",
    )


def row_ranges(X: Any) -> Iterator[slice]:
    """Yield the rows of an array as slices of bounded memory.

    Examples
    --------
    >>> list(row_ranges(np.zeros((5, 2))))
    [slice(0, 5, None)]
    """
    n_rows, n_columns = X.shape
    # Wide rows give small steps, so that the bytes of a block stay the same.
    step = max(1, BLOCK_BYTES // max(1, n_columns * X.itemsize))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a matrix, by number or by a mask, in a file if the matrix is in a file.

    Examples
    --------
    >>> mapped = write_rows([np.arange(6.0).reshape(3, 2)], (3, 2), np.float64)
    >>> taken = take_rows(mapped, np.array([2, 0]))
    >>> taken.tolist(), is_on_disk(taken)
    ([[4.0, 5.0], [0.0, 1.0]], True)
    """
    if not is_on_disk(X):
        return X[rows]
    # Rows are copied in blocks, because the selection may be as large as the whole matrix.
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    shape = (len(numbers), X.shape[1])
    step = max(1, BLOCK_BYTES // max(1, X.shape[1] * X.itemsize))
    starts = range(0, len(numbers), step)
    return write_rows((X[numbers[start : start + step]] for start in starts), shape, X.dtype)


def to_disk(X: Any) -> Any:
    """Return an array as a mapped file; CSR matrices are returned as they are.

    Examples
    --------
    >>> is_on_disk(to_disk(np.eye(3)))
    True
    """
    if is_on_disk(X) or not isinstance(X, np.ndarray):
        return X
    return write_rows((X[rows] for rows in row_ranges(X)), X.shape, X.dtype)
