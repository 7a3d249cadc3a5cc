"""Values as bin numbers, and edges between bins; `rankwright.data.bins` says what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating, jit
from rankwright.kernels.tree_arrays import ZERO

_ROWS_AT_ONCE = 512  # rows of a column that stay in the cache


@jit
def choose_edges(values: Any, counts: Any, most: int, edges: Any) -> int:
    """Cut ascending distinct values into at most ``most`` bins of about as many rows; returns the number of edges.

    A value with as many rows as a mean bin gets a bin of its own. The others share what is left: a bin ends once it
    has the mean number of rows, or before a value that stands alone.
    """
    n = values.size
    n_edges = 0
    if n <= most:
        for i in range(n - 1):
            edges[i] = _between(values[i], values[i + 1])
        return n - 1
    total = 0
    for i in range(n):
        total += counts[i]
    mean = total / most
    bins_left, rows_left = most, total
    for i in range(n):
        if counts[i] >= mean:
            bins_left -= 1
            rows_left -= counts[i]
    mean_left = rows_left / max(1, bins_left)
    filled = 0
    for i in range(n - 1):
        alone = counts[i] >= mean
        if not alone:
            rows_left -= counts[i]
        filled += counts[i]
        if n_edges < most - 1 and (alone or filled >= mean_left or counts[i + 1] >= mean):
            # Before a value that stands alone, an almost empty bin is not worth an edge that others lack.
            if not alone and filled < mean_left / 2 and counts[i + 1] >= mean:
                continue
            edges[n_edges] = _between(values[i], values[i + 1])
            n_edges += 1
            filled = 0
            if not alone:
                bins_left -= 1
                mean_left = rows_left / max(1, bins_left)
    return n_edges


@jit
def _between(a: float, b: float) -> float:
    """A number from ``a`` up to but below ``b``, the middle if possible; never one that counts as zero but is not."""
    middle = a / 2 + b / 2
    if not (a <= middle and middle < b):
        middle = a
    if abs(middle) <= ZERO:
        middle = 0.0 if a == 0 or (a < 0 and b > 0) else a
    return middle


@allocating
def encode_rows(
    start: int, stop: int, X: Any, table: Any, n_bins: Any, is_category: Any, out: Any
) -> None:
    """Write the bin of each value of the rows [start, stop).

    ``table`` [columns, 2^k - 1] has the edges of each column, filled up with infinity: a value's bin is the number of
    edges below it, found by halving. A category's bin is its code, or ``n_bins`` [columns] for one past them. Missing
    values get the largest number that ``out`` holds.
    """
    missing = np.iinfo(out.dtype).max
    half = np.uint64((table.shape[1] + 1) // 2)
    column = np.empty(_ROWS_AT_ONCE)
    place = np.empty(_ROWS_AT_ONCE, np.uint64)
    for low in range(start, stop, _ROWS_AT_ONCE):
        n = np.uint64(min(_ROWS_AT_ONCE, stop - low))
        row = np.uint64(low)
        for c in range(np.uint64(X.shape[1])):
            if is_category[c]:
                for i in range(n):
                    x = np.float64(X[row + i, c])
                    if x != x:
                        out[row + i, c] = missing
                    else:
                        out[row + i, c] = min(np.int64(x), n_bins[c])
                continue
            edges = table[c]
            for i in range(n):
                x = np.float64(X[row + i, c])
                column[i] = 0.0 if abs(x) <= ZERO else x
                place[i] = np.uint64(0)
            step = half
            while step > np.uint64(0):
                for i in range(n):
                    ahead = place[i] + step
                    place[i] = ahead if edges[ahead - np.uint64(1)] < column[i] else place[i]
                step = step // np.uint64(2)
            for i in range(n):
                out[row + i, c] = place[i] if column[i] == column[i] else missing


@jit
def leaves_of_bins(
    start: int, stop: int, codes: Any, column: Any, n_bins: Any, first: Any, child: Any, out: Any
) -> None:
    """Write the leaf of the rows [start, stop) of a matrix of bins.

    Node i looks at ``column[i]``, and ``child[first[i] + b]`` is the child for bin b, a node or ~leaf. Past the
    ``n_bins[i]`` bins come the child of a category that is not known and that of missing values.
    """
    missing = np.iinfo(codes.dtype).max
    for row in range(start, stop):
        node = np.int64(0)
        while node >= 0:
            bin_number = np.int64(codes[row, column[node]])
            if bin_number == missing:
                bin_number = n_bins[node] + 1
            node = np.int64(child[first[node] + bin_number])
        out[row] = ~node
