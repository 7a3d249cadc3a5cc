"""A hash of each row's content: the same for any layout of the matrix, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import inlined, jit

_MULTIPLIER_0 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_1 = np.uint64(0x94D049BB133111EB)
_MISSING = np.uint64(0x7FF8000000000000)  # one NaN for all
_HIGH, _MIDDLE = np.uint64(32), np.uint64(29)


@inlined
def _hash(value: Any, salt: Any) -> Any:
    """Hash a value of the column with this salt; 0 for 0, which a sparse matrix does not store, and for -0."""
    wide = np.float64(value)
    bits = wide.view(np.uint64) if wide == wide else _MISSING
    word = (bits ^ salt) * _MULTIPLIER_0
    word = (word ^ (word >> _HIGH)) * _MULTIPLIER_1
    word ^= word >> _MIDDLE
    return word if wide != 0 else np.uint64(0)


@jit
def add_dense(r0: int, r1: int, X: Any, salts: Any, hashes: Any) -> None:
    """Add up hashes of rows r0 to r1 of a matrix [rows, columns]; salts [columns] and hashes [rows] are uint64."""
    for row in range(r0, r1):
        total = hashes[row]
        for column in range(X.shape[1]):
            total += _hash(X[row, column], salts[column])
        hashes[row] = total


@jit
def add_sparse(
    r0: int, r1: int, starts: Any, columns: Any, values: Any, salts: Any, hashes: Any
) -> None:
    """Do the same for a matrix in compressed rows, with each column at most once in a row."""
    for row in range(r0, r1):
        total = hashes[row]
        for entry in range(starts[row], starts[row + 1]):
            total += _hash(values[entry], salts[columns[entry]])
        hashes[row] = total
