"""Features of a value within its query: its rank, and its distance from the level of the query.

Sums go over the values in ascending order, so that results do not depend on the order of the rows. They are rounded to
32 bits, so that matrices of 32 and of 64 bits get the same values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating, internal
from rankwright.kernels.ordering import longest_query, sort_descending, sort_scratch

RANK, Z, GAP, SHARE, MEAN, MAX, RRF = range(7)
N_KINDS = 7
RRF_OFFSET = 60.0  # the constant k of reciprocal rank fusion, 1 / (k + rank)
_MOST_Z = 4.0  # larger z of `fill_compared` are cut
_LARGEST = float(np.finfo(np.float32).max)
_SQUARES_OVERFLOW = (
    1e150  # larger numbers, and their reciprocals, are scaled before they are squared
)


@allocating
def fill_within_query(
    q0: int, q1: int, bounds: Any, matrix: Any, columns: Any, targets: Any
) -> None:
    """Write features of the rows of the queries [q0, q1) into columns of the matrix that they are read from.

    Parameters
    ----------
    bounds
        Query q owns the rows ``bounds[q]:bounds[q + 1]``.
    matrix
        Rows of values, NaN where missing [rows, columns].
    columns
        Columns to read [n].
    targets
        For each column that is read, the column to write each kind to, or -1 [n, N_KINDS].
    """
    longest = longest_query(q0, q1, bounds)
    scratch = sort_scratch(longest)
    values = np.empty(longest)
    rows = np.empty(longest, np.int64)
    order = np.empty(longest, np.int64)
    for q in range(q0, q1):
        for c in range(len(columns)):
            target = targets[c]
            m = 0
            for row in range(bounds[q], bounds[q + 1]):
                x = np.float64(matrix[row, columns[c]])
                values[m] = x
                rows[m] = row
                if x == x:
                    m += 1
                else:
                    for kind in range(N_KINDS):
                        if target[kind] >= 0:
                            matrix[row, target[kind]] = np.nan
            if m > 0:
                sort_descending(values, m, order, scratch)
                if target[RANK] >= 0 or target[RRF] >= 0:
                    _write_ranks(values, rows, order, m, matrix, target)
                if (
                    target[Z] >= 0
                    or target[GAP] >= 0
                    or target[SHARE] >= 0
                    or target[MEAN] >= 0
                    or target[MAX] >= 0
                ):
                    _write_levels(values, rows, order, m, matrix, target)


@allocating
def fill_compared(
    q0: int, q1: int, bounds: Any, matrix: Any, flagged: Any, steps: float, features: Any
) -> None:
    """Write rank and z of the rows of the queries [q0, q1), scaled to sizes up to 1, and flags of missing values.

    Parameters
    ----------
    bounds
        Query q owns the rows ``bounds[q]:bounds[q + 1]``.
    matrix
        Rows of values, NaN where missing [rows, columns].
    flagged
        Columns with a feature for missing values.
    steps
        Features are rounded to multiples of 1 / steps.
    features
        To write: ranks, then z of the columns, then flags [rows, 2 columns + flagged].
    """
    longest = longest_query(q0, q1, bounds)
    scratch = sort_scratch(longest)
    values = np.empty(longest)
    rows = np.empty(longest, np.int64)
    order = np.empty(longest, np.int64)
    target = np.full(N_KINDS, -1)
    n = matrix.shape[1]
    for q in range(q0, q1):
        for c in range(n):
            m = 0
            for row in range(bounds[q], bounds[q + 1]):
                x = np.float64(matrix[row, c])
                values[m] = x
                rows[m] = row
                if x == x:
                    m += 1
                else:
                    features[row, c] = features[row, n + c] = 0.0
            if m == 0:
                continue
            sort_descending(values, m, order, scratch)
            target[RANK], target[Z] = c, n + c
            _write_ranks(values, rows, order, m, features, target)
            _write_levels(values, rows, order, m, features, target)
            span = max(m - 1, 1)
            for i in range(m):
                row = rows[i]
                rank = (0.5 * (m + 1) - features[row, c]) / span
                z = min(max(features[row, n + c], -_MOST_Z), _MOST_Z) / _MOST_Z
                features[row, c] = np.rint(rank * steps) / steps
                features[row, n + c] = np.rint(z * steps) / steps
        for k in range(len(flagged)):
            for row in range(bounds[q], bounds[q + 1]):
                x = matrix[row, flagged[k]]
                features[row, 2 * n + k] = 1.0 if x != x else 0.0


@internal
def _write_ranks(values: Any, rows: Any, order: Any, m: int, matrix: Any, target: Any) -> None:
    """Write ranks, from 1 for the largest value, and their reciprocals; equal values share the mean of their ranks."""
    first = 0
    while first < m:
        last = first
        while last + 1 < m and values[order[last + 1]] == values[order[first]]:
            last += 1
        rank = 0.5 * (first + last) + 1.0
        for i in range(first, last + 1):
            if target[RANK] >= 0:
                matrix[rows[order[i]], target[RANK]] = np.float32(rank)
            if target[RRF] >= 0:
                matrix[rows[order[i]], target[RRF]] = np.float32(1.0 / (RRF_OFFSET + rank))
        first = last + 1


@internal
def _write_levels(values: Any, rows: Any, order: Any, m: int, matrix: Any, target: Any) -> None:
    """Write the kinds that depend on the mean, the spread, the sum of magnitudes or the maximum of the values."""
    highest = values[order[0]]
    biggest = max(abs(highest), abs(values[order[m - 1]]))
    scale = 1.0
    if biggest != 0.0 and not 1.0 / _SQUARES_OVERFLOW < biggest < _SQUARES_OVERFLOW:
        scale = biggest
    bottom = values[order[m - 1]] / scale
    mean = 0.0
    magnitude = 0.0
    # Mean distance from the lowest, which is exact if values are large and close together, unlike the mean.
    above = 0.0
    spread = 0.0
    if target[Z] >= 0 or target[SHARE] >= 0 or target[MEAN] >= 0:
        for i in range(m - 1, -1, -1):
            mean += values[order[i]] / scale
            magnitude += abs(values[order[i]] / scale)
            above += values[order[i]] / scale - bottom
        mean /= m
        above /= m
        if highest != values[order[m - 1]]:
            for i in range(m - 1, -1, -1):
                spread += (values[order[i]] / scale - bottom - above) ** 2
            spread = np.sqrt(spread / m)
        else:
            mean = bottom  # exactly, and without a spread
    for i in range(m):
        x = values[i] / scale
        row = rows[i]
        if target[Z] >= 0:
            matrix[row, target[Z]] = _rounded(
                (x - bottom - above) / spread if spread > 0.0 else 0.0
            )
        if target[GAP] >= 0:
            matrix[row, target[GAP]] = _rounded(highest - values[i])
        if target[SHARE] >= 0:
            matrix[row, target[SHARE]] = _rounded(x / magnitude if magnitude > 0.0 else 0.0)
        if target[MEAN] >= 0:
            matrix[row, target[MEAN]] = _rounded(mean * scale)
        if target[MAX] >= 0:
            matrix[row, target[MAX]] = _rounded(highest)


@internal
def _rounded(value: float) -> Any:
    """Round to 32 bits; numbers that are too large become the largest one."""
    return np.float32(min(max(value, -_LARGEST), _LARGEST))
