"""Scores of rows by packed trees, for the forests of every engine: no engine's library is needed to predict."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.threads import equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import PackedTrees

_VISITS_PER_THREAD = 200_000  # rows times trees: fewer are done before another thread has started
_ROWS_AT_ONCE = 4096  # of a matrix that is not dense that are made dense at a time


def score(trees: PackedTrees, X: Any, start: int, stop: int, threads: int) -> NDArray[np.float64]:
    """Sum the trees [start, stop) for each row; the same bits for any number of threads."""
    from rankwright.kernels.trees import score_rows

    out = np.zeros(X.shape[0])
    if hasattr(X, "toarray"):  # sparse, or kept as bins
        for low in range(0, len(out), _ROWS_AT_ONCE):
            rows = X[low : low + _ROWS_AT_ONCE].toarray()
            out[low : low + _ROWS_AT_ONCE] = score(trees, rows, start, stop, threads)
        return out
    n_threads = min(threads, 1 + len(out) * (stop - start) // _VISITS_PER_THREAD)
    rows = np.ascontiguousarray(X)
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if len(out):
        scoring = partial(score_rows, X=rows, trees=trees, first=start, last=stop, out=out)
        run_ranges(scoring, equal_ranges(len(out), n_threads))
    return out
