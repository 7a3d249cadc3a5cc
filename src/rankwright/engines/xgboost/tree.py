"""A tree of XGBoost: its splits of bins as splits of values, and the leaf of each row."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.engines.xgboost.binned import Layout
from rankwright.engines.xgboost.forest import GrownTree
from rankwright.kernels.bins import leaves_of_bins
from rankwright.kernels.threads import equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import AMONG, AT_MOST, NAN_TO_DEFAULT, TreeArrays

_ROWS_PER_THREAD = 100_000  # of a look-up: fewer are done before another thread has started


class _Split(NamedTuple):
    """The rule of one node."""

    threshold: float = 0.0
    last_bin: int = 0  # on the left; for numbers only
    categories: tuple[int, ...] | None = None  # on the left; None for numbers
    missing_left: bool = False
    swapped: bool = False  # the child that XGBoost calls left is on the right


def read_tree(tree: dict[str, Any], layout: Layout) -> tuple[GrownTree, NDArray[np.int64]] | None:
    """Translate XGBoost's description of a tree; return None if it has no split.

    Also returns the last bin on the left of each node that splits numbers.
    """
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
    # XGBoost holds numbers in single precision.
    condition = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    gain = np.array(tree["loss_changes"], dtype=np.float32).astype(np.float64)[nodes]
    cover = np.array(tree["sum_hessian"], dtype=np.float32).astype(np.float64)
    columns = np.array(tree["split_indices"], dtype=np.int64)[nodes]  # of XGBoost's matrix
    sets = _sets(tree)
    splits = []
    for node, column in zip(nodes.tolist(), columns.tolist(), strict=True):
        if node in sets:
            splits.append(_split_of_categories(sets[node], column, layout))
        else:
            splits.append(_split_of_numbers(condition[node], column, layout))
    swapped = np.array([split.swapped for split in splits])
    is_set = np.array([split.categories is not None for split in splits])
    arrays = TreeArrays(
        feature=layout.column_of[columns].astype(np.int32),
        threshold=np.array([split.threshold for split in splits]),
        decision=np.where(is_set, AMONG, AT_MOST).astype(np.uint8),
        missing=np.full(len(nodes), NAN_TO_DEFAULT, dtype=np.uint8),
        default_left=np.array([split.missing_left for split in splits]),
        left=np.where(swapped, right, left).astype(np.int32),
        right=np.where(swapped, left, right).astype(np.int32),
        categories=tuple(np.array(split.categories or (), dtype=np.int64) for split in splits),
        value=condition[~inner],
        gain=gain,
    )
    last_bin = np.array([split.last_bin for split in splits], dtype=np.int64)
    return GrownTree(arrays, cover[~inner]), last_bin


def _split_of_categories(categories: NDArray[np.int64], column: int, layout: Layout) -> _Split:
    """Translate a set of categories. XGBoost sends the set to the right, and `TreeArrays` to the left."""
    n_bins = int(layout.bins.n_bins[layout.column_of[column]])
    # Missing values are the category past the last one.
    has_missing = bool(np.any(categories >= n_bins))
    real = tuple(categories[categories < n_bins].tolist())
    if not real:
        # Missing values alone are in the set, so all numbers go left and missing values go right.
        return _Split(threshold=math.inf, last_bin=n_bins - 1)
    return _Split(categories=real, missing_left=has_missing, swapped=True)


def _split_of_numbers(condition: float, column: int, layout: Layout) -> _Split:
    """Translate a split between two bins."""
    bins, feature = layout.bins, layout.column_of[column]
    n_bins = int(bins.n_bins[feature])
    below = math.ceil(condition) - 1  # the last value on the left
    missing_left = bool(layout.missing_below[column])
    if missing_left:
        below -= 1  # in this column missing values are 0, and bins count from 1
    swapped = below < 0
    if swapped:
        # Missing values alone go left, so all numbers go left once the children are swapped.
        below, missing_left = n_bins - 1, False
    threshold, last_bin = math.inf, n_bins - 1
    if below < last_bin:
        threshold, last_bin = float(bins.edges[feature][below]), below
    if not bins.has_missing[feature]:
        # Training says nothing about missing values here. They are read as 0, as LightGBM does,
        # so that search engines that serve an absent feature as 0 and as NaN agree.
        missing_left = threshold >= 0
    return _Split(threshold, last_bin, missing_left=missing_left, swapped=swapped)


def _sets(tree: dict[str, Any]) -> dict[int, NDArray[np.int64]]:
    """Return the categories of each node that has a set, ascending."""
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
        # Two more than bins: for a category that was not in training, and for missing values.
        widths = self._n_bins + 2
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
