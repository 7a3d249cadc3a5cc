"""Matrices of features as they are given: checked, and turned into arrays of floats."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.on_disk import is_on_disk

Matrix = Any  # a NumPy 2-D array, in memory or mapped from a file, or a SciPy CSR matrix
_ROWS_PER_CHECK = 65_536  # checking for infinities in slices needs less memory


def is_sparse(X: Any) -> bool:
    """Return whether X is a SciPy sparse matrix, without importing SciPy."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def first_infinite(matrix: Matrix) -> tuple[int, int] | None:
    """Return row and column of an infinite value, or None where all are finite or NaN.

    Examples
    --------
    >>> first_infinite(np.array([[1.0, np.nan], [2.0, -np.inf]]))
    (1, 1)
    """
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
    """Turn a sparse matrix into a CSR matrix of floats whose entries are where they say.

    SciPy, LightGBM and the kernels follow the indices without looking: one that is out of range ends the process, or
    reads the memory of something else. Entries that occur twice are added up, as SciPy does.
    """
    from scipy.sparse import csr_matrix

    _check_sparse(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns; got a sparse array of shape {X.shape}."
        )
    matrix = csr_matrix(X)
    _check_sparse(matrix)  # again, for formats that are checked only here
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"X holds values of the type {matrix.dtype}, not numbers.")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    steps = np.diff(matrix.indices.astype(np.int64))
    starts = matrix.indptr[1:-1]
    ascending = steps > 0
    ascending[starts[(starts > 0) & (starts <= len(steps))] - 1] = True  # from one row to the next
    if not ascending.all():
        matrix = matrix.copy()
        matrix.has_canonical_format = matrix.has_sorted_indices = (
            False  # which may have been true once
        )
        matrix.sum_duplicates()
    return matrix


def _check_sparse(X: Any) -> None:
    """Raise ValueError where the arrays of a sparse matrix do not describe one."""
    if X.format in ("csr", "csc", "bsr"):
        block = X.blocksize if X.format == "bsr" else (1, 1)
        major, minor = (X.shape[1], X.shape[0]) if X.format == "csc" else X.shape
        major, minor = major // block[0], minor // block[1]
        pointers, indices = np.asarray(X.indptr), np.asarray(X.indices)
        kinds = {pointers.dtype.kind, indices.dtype.kind}
        entries = len(X.data)
        if not kinds <= {"i", "u"} or pointers.shape != (major + 1,) or indices.shape != (entries,):
            reason = (
                f"indptr must have {major + 1} entries, and indices as many as data ({entries})"
            )
        elif pointers[0] != 0 or pointers[-1] > entries or np.any(pointers[1:] < pointers[:-1]):
            reason = f"indptr must ascend from 0 to at most {entries}"
        elif len(indices) and not 0 <= indices.min() <= indices.max() < minor:
            reason = f"indices must be from 0 to {minor - 1}"
        else:
            return
    elif X.format == "coo":
        axes = (X.row, X.col) if X.ndim == 2 else X.coords
        if any(len(axis) != len(X.data) for axis in axes):
            reason = "row and col must have as many entries as data"
        elif any(
            len(axis) and not 0 <= axis.min() <= axis.max() < size
            for axis, size in zip(axes, X.shape, strict=True)
        ):
            reason = "row or col has an index outside of the matrix"
        else:
            return
    else:
        return
    raise ValueError(
        f"X is not a valid {X.format} matrix: {reason}. Build it again from its entries."
    )


def dense(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array; float32 and float64 are unchanged, other numbers become float64."""
    try:
        if np.ma.isMaskedArray(X):
            matrix: NDArray[Any] = np.ma.filled(X.astype(np.float64), np.nan)
        else:
            matrix = X if is_on_disk(X) else np.asarray(X)
    except ValueError:
        raise ValueError(
            "the rows of X have different lengths; give every row the same number of features."
        ) from None
    if matrix.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns; got shape {matrix.shape}. Reshape your data: a single feature "
            "is X.reshape(-1, 1)."
        )
    if matrix.dtype in (np.float32, np.float64):
        return matrix
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
