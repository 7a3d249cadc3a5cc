"""Exact SHAP values of trees: what each column adds to a score, averaged over all orders in which columns are known.

A leaf is reached by a path. Of the path's distinct columns u, the share z_u of the training rows (of their curvature)
goes the path's way at the splits of u, and o_u says whether the row in question does (0 or 1). If columns become known
in a random order, the row reaches the leaf with the expected weight of prod o over the known and prod z over the rest;
column u adds to the score

    value sum_S |S|! (m - |S| - 1)! / m!  prod_{S} o  prod_{not S} z  (o_u - z_u)        S without u, m columns

`_extend` builds the sums over sets of each size column by column, `_without` takes one column out again.

References: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature
Machine Intelligence 2020 (algorithm 2); Mitchell, Frank and Holmes, "GPUTreeShap", 2022 (path by path).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.jit import allocating, internal
from rankwright.kernels.tree_arrays import MISSING_LEFT, SPECIAL, PackedTrees
from rankwright.kernels.trees import goes_left_at_special


class Covers(NamedTuple):
    """Curvature of the training rows below each node and leaf."""

    node: NDArray[Any]
    leaf: NDArray[Any]


class Path(NamedTuple):
    """Memory for a path: its nodes from the root, and its distinct columns [levels + 1]."""

    node: NDArray[Any]
    side: NDArray[Any]  # 0 before the left child, 1 before the right one, 2 past both
    column: NDArray[Any]
    zero: NDArray[Any]
    one: NDArray[Any]
    weight: NDArray[Any]  # sums over sets of each size [levels + 2]


@internal
def _extend(weight: Any, size: int, zero: float, one: float) -> None:
    """Add a column to the sums over sets of each size."""
    weight[size] = 1.0 if size == 0 else 0.0
    for i in range(size - 1, -1, -1):
        weight[i + 1] += one * weight[i] * (i + 1) / (size + 1)
        weight[i] = zero * weight[i] * (size - i) / (size + 1)


@internal
def _without(weight: Any, size: int, zero: float, one: float) -> float:
    """Sum over all sets without a column: the sums of ``size`` columns with this one taken out again."""
    total = 0.0
    ahead = weight[size]
    for i in range(size - 1, -1, -1):
        if one != 0:
            before = ahead * (size + 1) / ((i + 1) * one)
            total += before
            ahead = weight[i] - before * zero * (size - i) / (size + 1)
        elif zero != 0:
            total += weight[i] * (size + 1) / (zero * (size - i))
    return total


@internal
def _left(row: int, node: int, X: Any, trees: PackedTrees) -> bool:
    x: Any = X[row, trees.feature[node]]
    kind = trees.kind[node]
    if kind == SPECIAL:
        return goes_left_at_special(x, node, trees)
    if kind == MISSING_LEFT:
        return not x > trees.bound[node]
    return x <= trees.bound[node]


@allocating
def add_shap_values(
    start: int, stop: int, X: Any, trees: PackedTrees, covers: Any, levels: int, out: Any
) -> None:
    """Add the SHAP values of the rows [start, stop) to ``out`` [rows, columns + 1], the mean score in the last column.

    Columns of ``out`` are float64. A walk through each tree keeps the path so far: by its distinct columns, the share
    that goes its way, for both children of each node one after the other.
    """
    expected = out.shape[1] - 1
    n = levels + 1
    path = Path(
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n),
        np.empty(n + 1),
    )
    for row in range(start, stop):
        for tree in range(trees.root.size):
            if trees.root[tree] < 0:
                out[row, expected] += trees.value[~trees.root[tree]]
                continue
            depth = 0
            path.node[0], path.side[0] = trees.root[tree], 0
            while depth >= 0:
                node = path.node[depth]
                if path.side[depth] == 2:
                    depth -= 1
                    continue
                child = trees.left[node] if path.side[depth] == 0 else trees.right[node]
                path.side[depth] += 1
                if child >= 0:
                    depth += 1
                    path.node[depth], path.side[depth] = child, 0
                    continue
                _add_leaf(row, depth, ~child, path, X, trees, covers, out)


@internal
def _add_leaf(
    row: int, depth: int, leaf: int, path: Any, X: Any, trees: PackedTrees, covers: Any, out: Any
) -> None:
    """Add what a leaf contributes; the path's side is 1 where it goes left and 2 where it goes right."""
    column, zero, one, weight = path.column, path.zero, path.one, path.weight
    size = 0
    share = 1.0
    for level in range(depth + 1):
        node = path.node[level]
        goes_left = path.side[level] == 1
        cover = covers.leaf[leaf] if level == depth else covers.node[path.node[level + 1]]
        sibling = trees.right[node] if goes_left else trees.left[node]
        other = covers.node[sibling] if sibling >= 0 else covers.leaf[~sibling]
        part = cover / (cover + other) if cover + other > 0 else 0.5
        share *= part
        follows = 1.0 if _left(row, node, X, trees) == goes_left else 0.0
        place = 0
        while place < size and column[place] != trees.feature[node]:
            place += 1
        if place == size:
            column[place], zero[place], one[place] = trees.feature[node], 1.0, 1.0
            size += 1
        zero[place] *= part
        one[place] *= follows
    value = trees.value[leaf]
    out[row, out.shape[1] - 1] += value * share
    _extend(weight, 0, 1.0, 1.0)
    for place in range(size):
        _extend(weight, place + 1, zero[place], one[place])
    for place in range(size):
        out[row, column[place]] += (
            value * _without(weight, size, zero[place], one[place]) * (one[place] - zero[place])
        )
