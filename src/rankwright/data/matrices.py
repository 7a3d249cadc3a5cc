"""Matrices of features: how they are checked, and how blocks of their rows are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.on_disk import is_on_disk
from rankwright.support.other_libraries import refuse_other_table

Matrix = Any  # a NumPy 2-D array, in memory or mapped from a file, or a SciPy CSR matrix
_ROWS_PER_CHECK = 65_536  # checking for infinities in slices needs less memory
_ROWS_PER_BLOCK = 16_384


def is_sparse(X: Any) -> bool:
    """Return True if X is a SciPy sparse matrix, without importing SciPy."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def as_dense(X: Matrix) -> NDArray[Any]:
    """Return a matrix as an array; an array is returned as it is.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> as_dense(csr_matrix([[0.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """
    array: NDArray[Any] = X.toarray() if is_sparse(X) else X
    return array


def dense_blocks(X: Matrix, n_rows: int = _ROWS_PER_BLOCK) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield slices of at most ``n_rows`` rows, each with its rows as a dense array.

    Examples
    --------
    >>> [(rows.start, block.shape) for rows, block in dense_blocks(np.zeros((5, 2)), 3)]
    [(0, (3, 2)), (3, (2, 2))]
    """
    for start in range(0, X.shape[0], n_rows):
        rows = slice(start, start + n_rows)
        yield rows, as_dense(X[rows])


def first_infinite(matrix: Matrix) -> tuple[int, int] | None:
    """Return row and column of an infinite value, or None if all values are finite or NaN.

    Examples
    --------
    >>> first_infinite(np.array([[1.0, np.nan], [2.0, -np.inf]]))
    (1, 1)
    """
    # Only entries of a sparse matrix can be infinite, so the zeros are not looked at.
    if is_sparse(matrix):
        infinite = np.isinf(matrix.data)
        if not infinite.any():
            return None
        entries = matrix.tocoo()
        return int(entries.row[infinite][0]), int(entries.col[infinite][0])
    for start in range(0, matrix.shape[0], _ROWS_PER_CHECK):
        infinite = np.isinf(matrix[start : start + _ROWS_PER_CHECK])
        if infinite.any():
            row, column = np.argwhere(infinite)[0].tolist()
            return start + row, column
    return None


def checked_csr(X: Any) -> Any:
    """Turn a sparse matrix into a CSR matrix of floats, and raise ValueError if it is not valid.

    SciPy, LightGBM and the kernels follow indices unchecked. An index that is out of range would end the process, or
    read other memory. Entries that occur twice are added up, as SciPy does.
    """
    from scipy.sparse import csr_matrix

    _check_sparse(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns; got a sparse array of shape {X.shape}."
        )
    matrix = csr_matrix(X)
    _check_sparse(matrix)  # again, because some formats can only be checked as CSR
    # Kernels are compiled for floats.
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"X holds values of the type {matrix.dtype}, not numbers.")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if not _is_ascending(matrix):
        matrix = matrix.copy()
        # SciPy trusts these flags, which are wrong if indices were changed since they were set.
        matrix.has_canonical_format = matrix.has_sorted_indices = False
        matrix.sum_duplicates()
    return matrix


def _is_ascending(matrix: Any) -> bool:
    """Return True if the columns of each row of a CSR matrix ascend."""
    # The steps between all entries are compared at once, because a loop over rows would be
    # slow.
    ascending = np.diff(matrix.indices.astype(np.int64)) > 0
    starts = matrix.indptr[1:-1]
    starts = starts[(starts > 0) & (starts <= len(ascending))]
    ascending[starts - 1] = True  # a step from one row to the next may go back
    return bool(ascending.all())


def _check_sparse(X: Any) -> None:
    """Raise ValueError if the arrays of a sparse matrix contradict each other."""
    if X.format in ("csr", "csc", "bsr"):
        reason = _flaw_of_compressed(X)
    elif X.format == "coo":
        reason = _flaw_of_coo(X)
    else:
        return
    if reason is not None:
        raise ValueError(
            f"X is not a valid {X.format} matrix: {reason}. Build it again from its entries."
        )


def _flaw_of_compressed(X: Any) -> str | None:
    """Return the flaw in the arrays of a CSR, CSC or BSR matrix, or None."""
    # A BSR matrix has indices of blocks, and a CSC matrix has columns in place of rows.
    block = X.blocksize if X.format == "bsr" else (1, 1)
    n_rows, n_columns = X.shape[0] // block[0], X.shape[1] // block[1]
    major, minor = (n_columns, n_rows) if X.format == "csc" else (n_rows, n_columns)
    pointers, indices = np.asarray(X.indptr), np.asarray(X.indices)
    entries = len(X.data)
    are_whole = {pointers.dtype.kind, indices.dtype.kind} <= {"i", "u"}
    if not are_whole or pointers.shape != (major + 1,) or indices.shape != (entries,):
        return f"indptr must have {major + 1} entries, and indices as many as data ({entries})"
    if pointers[0] != 0 or pointers[-1] > entries or np.any(pointers[1:] < pointers[:-1]):
        return f"indptr must ascend from 0 to at most {entries}"
    if len(indices) and not 0 <= indices.min() <= indices.max() < minor:
        return f"indices must be from 0 to {minor - 1}"
    return None


def _flaw_of_coo(X: Any) -> str | None:
    """Return the flaw in the arrays of a COO matrix, or None."""
    axes = (X.row, X.col) if X.ndim == 2 else X.coords
    # A COO matrix has the row and column of each entry, which may be out of range.
    for axis, size in zip(axes, X.shape, strict=True):
        if len(axis) != len(X.data):
            return "row and col must have as many entries as data"
        if len(axis) and not 0 <= axis.min() <= axis.max() < size:
            return "row or col has an index outside of the matrix"
    return None


def dense(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array; float32 and float64 are unchanged, other numbers become float64."""
    refuse_other_table(X)
    try:
        # Masked values are missing values, which are NaN here.
        if np.ma.isMaskedArray(X):
            matrix: NDArray[Any] = np.ma.filled(X.astype(np.float64), np.nan)
        else:
            matrix = X if is_on_disk(X) else np.asarray(X)
    except ValueError:
        raise ValueError(
            "the rows of X have different lengths; give every row the same number of features."
        ) from None
    if isinstance(X, list) and len(X) > 0 and isinstance(X[0], dict):
        raise ValueError("X is a list of dicts; give a data frame, such as pandas.DataFrame(X).")
    if matrix.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns; got shape {matrix.shape}. Reshape your data: a single row is "
            "X.reshape(1, -1), and a single feature X.reshape(-1, 1)."
        )
    if matrix.dtype in (np.float32, np.float64):
        return matrix
    # Objects may be numbers, so they are converted, and errors are explained below.
    try:
        if matrix.dtype.kind in "biufO":
            return matrix.astype(np.float64)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ValueError(
            "X holds a whole number that is too large for a float; give smaller ones."
        ) from None
    if matrix.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: give real and imaginary parts as two features."
        )
    raise ValueError("X holds values that are not numbers; pass categories in a data frame.")
