"""One tree of XGBoost: from splits of bins to splits of values, and the leaf of each row."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.engines.xgboost.binned import Layout
from rankwright.engines.xgboost.forest import GrownTree
from rankwright.kernels.bins import leaves_of_bins
from rankwright.kernels.threads import equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import AMONG, AT_MOST, NAN_TO_DEFAULT, TreeArrays

_ROWS_PER_THREAD = 100_000  # of a look-up: fewer are done before another thread has started
_NOTHING = np.empty(0, dtype=np.int64)


def read_tree(tree: dict[str, Any], layout: Layout) -> tuple[GrownTree, NDArray[np.int64]] | None:
    """Translate XGBoost's description of a tree; None if it has no split.

    Also returns the last bin on the left of each node, where it splits numbers.
    """
    bins = layout.bins
    left, right = (
        np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children")
    )
    inner = left >= 0
    if not inner.any():
        return None
    # Nodes and leaves are numbered apart, each in XGBoost's order, in which the root is the first.
    number = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))
    nodes = np.flatnonzero(inner)
    left, right = number[left[nodes]], number[right[nodes]]
    parts = np.array(tree["split_indices"], dtype=np.int64)[nodes]
    column = layout.column_of[parts]
    condition = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    sets = _sets(tree)
    n = len(nodes)
    threshold, last_bin = np.zeros(n), np.zeros(n, dtype=np.int64)
    decision, missing_left = np.full(n, AT_MOST, dtype=np.uint8), np.zeros(n, dtype=bool)
    categories = [_NOTHING] * n
    swapped = np.zeros(n, dtype=bool)  # the child that XGBoost calls left is on the right
    for i, node in enumerate(nodes.tolist()):
        n_bins = int(bins.n_bins[column[i]])
        if node in sets:  # XGBoost sends what is in the set to the right
            known = sets[node][sets[node] < n_bins]
            missing_left[i] = len(known) < len(sets[node])
            swapped[i], decision[i], categories[i] = True, AMONG, known
            if len(known) == 0:  # missing values alone are in the set
                swapped[i], decision[i], missing_left[i] = False, AT_MOST, False
                threshold[i], last_bin[i] = math.inf, n_bins - 1
            continue
        below = math.ceil(condition[node]) - 1  # the last value on the left
        if layout.missing_below[parts[i]]:
            below -= 1
            missing_left[i] = True
        if below < 0:  # missing values alone go left
            swapped[i], missing_left[i], below = True, False, n_bins - 1
        last_bin[i] = min(below, n_bins - 1)
        threshold[i] = bins.edges[column[i]][below] if below < n_bins - 1 else math.inf
        if not bins.has_missing[column[i]]:
            # Training says nothing about missing values here. They are read as 0, as LightGBM does,
            # so that search engines that serve an absent feature as 0 and as NaN agree.
            missing_left[i] = threshold[i] >= 0
    arrays = TreeArrays(
        feature=column.astype(np.int32),
        threshold=threshold,
        decision=decision,
        missing=np.full(n, NAN_TO_DEFAULT, dtype=np.uint8),
        default_left=missing_left,
        left=np.where(swapped, right, left).astype(np.int32),
        right=np.where(swapped, left, right).astype(np.int32),
        categories=tuple(categories),
        value=condition[~inner],
        gain=np.array(tree["loss_changes"], dtype=np.float32).astype(np.float64)[nodes],
    )
    cover = np.array(tree["sum_hessian"], dtype=np.float32).astype(np.float64)
    return GrownTree(arrays, cover[~inner]), last_bin


def _sets(tree: dict[str, Any]) -> dict[int, NDArray[np.int64]]:
    """The categories of each node that has a set, ascending."""
    every = np.array(tree["categories"], dtype=np.int64)
    starts, sizes = tree["categories_segments"], tree["categories_sizes"]
    return {
        node: np.sort(every[start : start + size])
        for node, start, size in zip(tree["categories_nodes"], starts, sizes, strict=True)
    }


class LeafFinder:
    """The children of a tree's nodes by bin, to find the leaf of each row of bins."""

    def __init__(
        self, tree: TreeArrays, last_bin: NDArray[np.int64], n_bins: NDArray[np.int64]
    ) -> None:
        self._column = tree.feature.astype(np.int64)
        self._n_bins = n_bins[self._column]
        widths = (
            self._n_bins + 2
        )  # one more for a category that is not known, and one for missing values
        self._first = np.cumsum(widths) - widths
        self._child = np.repeat(tree.right, widths)
        for i, first in enumerate(self._first.tolist()):
            if tree.decision[i] == AMONG:
                self._child[first + tree.categories[i]] = tree.left[i]
            else:
                self._child[first : first + last_bin[i] + 1] = tree.left[i]
            if tree.default_left[i]:
                self._child[first + self._n_bins[i] + 1] = tree.left[i]

    def leaves(self, codes: NDArray[Any], threads: int) -> NDArray[np.int64]:
        """Return the leaf of each row of bins."""
        leaves = np.empty(len(codes), dtype=np.int64)
        find = partial(
            leaves_of_bins,
            codes=codes,
            column=self._column,
            n_bins=self._n_bins,
            first=self._first,
            child=self._child,
            out=leaves,
        )
        n_threads = min(threads, 1 + len(codes) // _ROWS_PER_THREAD)
        run_ranges(find, equal_ranges(len(codes), n_threads))
        return leaves
