"""Exact SHAP values of trees: the mean gain of a column over all orders in which columns become known.

A leaf is reached by a path. The path has distinct columns u. z_u is the share of the training rows (weighted by their
curvature) that follows the path at the splits of u, and o_u is 1 if the row in question follows it there, otherwise 0.
If columns become known in a random order, the row reaches the leaf with the expected weight of prod o over the known
columns and prod z over the other ones. Column u adds to the score

    value sum_S |S|! (m - |S| - 1)! / m!  prod_{S} o  prod_{not S} z  (o_u - z_u)        S without u, m columns

`_extend` adds a column to the sums over sets of each size, `_remove` takes it out again, and `_sum_without` gives the
sum over all sets without it. All operations are in LightGBM's order, so that the bits are LightGBM's as well.

Reference: Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature
Machine Intelligence 2020 (algorithm 2). Departs from it: a subtree that no order of columns reaches is not visited.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.jit import allocating, internal
from rankwright.kernels.tree_arrays import MISSING_LEFT, SPECIAL, PackedTrees
from rankwright.kernels.trees import goes_left_at_special

Floats = NDArray[np.float64]


class Covers(NamedTuple):
    """Training rows, or the sum of their curvature, in each node and leaf."""

    node: Floats
    leaf: Floats

    @classmethod
    def of_leaves(cls, trees: PackedTrees, leaf: Floats) -> Covers:
        """Sum the leaves below each node, so that SHAP values add up to the score for any leaves."""
        first_leaf = trees.leaf_sets.first_leaf
        n_leaves = np.diff(np.append(first_leaf, len(leaf)))
        is_empty = np.add.reduceat(leaf, first_leaf) == 0
        # The leaves of a tree without any rows have equal weights, because a mean needs weights.
        leaf = np.where(np.repeat(is_empty, n_leaves), 1.0, leaf)
        levels = [trees.root[trees.root >= 0]]
        while len(levels[-1]):
            children = np.concatenate([trees.left[levels[-1]], trees.right[levels[-1]]])
            levels.append(children[children >= 0])
        node = np.zeros(len(trees.left))
        for level in reversed(levels):
            for child in (trees.left[level], trees.right[level]):
                is_node = child >= 0
                node[level[is_node]] += node[child[is_node]]
                node[level[~is_node]] += leaf[~child[~is_node]]
        return cls(node, leaf)


class Path(NamedTuple):
    """Memory for the path to a node, with a copy of the path for each level above the node.

    The first entry of each copy stands for no column.
    """

    column: NDArray[Any]  # distinct columns [levels + 1, levels + 2]
    zero: NDArray[Any]  # z of each column [levels + 1, levels + 2]
    one: NDArray[Any]  # o of each column [levels + 1, levels + 2]
    weight: NDArray[Any]  # sums over sets of each size [levels + 1, levels + 2]
    size: NDArray[Any]  # number of columns [levels + 1]
    node: NDArray[Any]  # [levels + 1]
    visits: NDArray[Any]  # children of the node that were visited [levels + 1]
    zero_before: NDArray[Any]  # z of the node's column by the splits above [levels + 1]
    one_before: NDArray[Any]  # o of the node's column by the splits above [levels + 1]


@allocating
def add_shap_values(
    start: int, stop: int, X: Any, trees: PackedTrees, covers: Any, levels: int, out: Any
) -> None:
    """Add the SHAP values of the rows [start, stop) to ``out`` [rows, columns + 1], with the mean score last."""
    n, m = levels + 1, levels + 2
    path = Path(
        np.empty((n, m), np.int64),
        np.empty((n, m)),
        np.empty((n, m)),
        np.empty((n, m)),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n),
    )
    mean = 0.0
    for tree in range(trees.root.size):
        mean += _mean_value(tree, trees, covers)
    for row in range(start, stop):
        out[row, out.shape[1] - 1] += mean
        for tree in range(trees.root.size):
            if trees.root[tree] >= 0:
                _add_tree(row, trees.root[tree], path, X, trees, covers, out)


@internal
def _mean_value(tree: int, trees: PackedTrees, covers: Any) -> float:
    """Mean of the leaf values, weighted by the rows in the leaves."""
    root = trees.root[tree]
    if root < 0:
        return trees.value[~root]
    first_leaf = trees.leaf_sets.first_leaf
    last = first_leaf[tree + 1] if tree + 1 < first_leaf.size else trees.value.size
    total = covers.node[root]
    mean = 0.0
    for leaf in range(first_leaf[tree], last):
        mean += covers.leaf[leaf] / total * trees.value[leaf]
    return mean


@internal
def _add_tree(
    row: int, root: int, path: Any, X: Any, trees: PackedTrees, covers: Any, out: Any
) -> None:
    """Add the SHAP values of one tree: a walk through all nodes, the child of the row before its sibling."""
    path.size[0] = 0
    _extend(path.weight[0], 0, 1.0, 1.0)
    path.column[0, 0], path.zero[0, 0], path.one[0, 0] = -1, 1.0, 1.0
    path.node[0], path.visits[0] = root, 0
    level = 0
    while level >= 0:
        node = path.node[level]
        if path.visits[level] == 2:
            level -= 1
            continue
        if path.visits[level] == 0:
            _take_out_column(level, trees.feature[node], path)
        is_followed = path.visits[level] == 0
        path.visits[level] += 1
        child, sibling = trees.left[node], trees.right[node]
        if _goes_left(row, node, X, trees) != is_followed:
            child, sibling = sibling, child
        zero = _share(child, sibling, covers) * path.zero_before[level]
        one = path.one_before[level] if is_followed else 0.0
        if zero == 0 and one == 0:
            # No order of columns leads here, and a zero on both sides could not be taken out again.
            continue
        _copy_with_column(level, trees.feature[node], zero, one, path)
        if child < 0:
            _add_leaf(row, level + 1, trees.value[~child], path, out)
        else:
            level += 1
            path.node[level], path.visits[level] = child, 0


@internal
def _share(child: int, sibling: int, covers: Any) -> float:
    """Share of the rows of a node that are in its child; a half if the node has no rows."""
    cover = covers.node[child] if child >= 0 else covers.leaf[~child]
    other = covers.node[sibling] if sibling >= 0 else covers.leaf[~sibling]
    return cover / (cover + other) if cover + other > 0 else 0.5


@internal
def _goes_left(row: int, node: int, X: Any, trees: PackedTrees) -> bool:
    x: Any = X[row, trees.feature[node]]
    kind = trees.kind[node]
    if kind == SPECIAL:
        return goes_left_at_special(x, node, trees)
    if kind == MISSING_LEFT:
        return not x > trees.bound[node]
    return x <= trees.bound[node]


@internal
def _take_out_column(level: int, column: int, path: Any) -> None:
    """Take an earlier split on the column of a node out of the path, so that it can be extended by both."""
    path.zero_before[level], path.one_before[level] = 1.0, 1.0
    for place in range(1, path.size[level] + 1):
        if path.column[level, place] == column:
            zero, one = path.zero[level, place], path.one[level, place]
            path.zero_before[level], path.one_before[level] = zero, one
            _remove(path.weight[level], path.size[level], zero, one)
            for later in range(place, path.size[level]):
                path.column[level, later] = path.column[level, later + 1]
                path.zero[level, later] = path.zero[level, later + 1]
                path.one[level, later] = path.one[level, later + 1]
            path.size[level] -= 1
            return


@internal
def _copy_with_column(level: int, column: int, zero: float, one: float, path: Any) -> None:
    """Copy the path of a level to the next one, with one more column."""
    size = path.size[level] + 1
    for place in range(size):
        path.column[level + 1, place] = path.column[level, place]
        path.zero[level + 1, place] = path.zero[level, place]
        path.one[level + 1, place] = path.one[level, place]
        path.weight[level + 1, place] = path.weight[level, place]
    path.column[level + 1, size] = column
    path.zero[level + 1, size], path.one[level + 1, size] = zero, one
    path.size[level + 1] = size
    _extend(path.weight[level + 1], size, zero, one)


@internal
def _extend(weight: Any, size: int, zero: float, one: float) -> None:
    """Add a column to the sums over sets of each size."""
    weight[size] = 1.0 if size == 0 else 0.0
    for i in range(size - 1, -1, -1):
        weight[i + 1] += one * weight[i] * (i + 1) / (size + 1)
        weight[i] = zero * weight[i] * (size - i) / (size + 1)


@internal
def _remove(weight: Any, size: int, zero: float, one: float) -> None:
    """Take a column out of the sums over sets of each size; zero and one are not both 0."""
    ahead = weight[size]
    for i in range(size - 1, -1, -1):
        if one != 0:
            before = weight[i]
            weight[i] = ahead * (size + 1) / ((i + 1) * one)
            ahead = before - weight[i] * zero * (size - i) / (size + 1)
        else:
            weight[i] = weight[i] * (size + 1) / (zero * (size - i))


@internal
def _sum_without(weight: Any, size: int, zero: float, one: float) -> float:
    """Sum over all sets without a column; zero and one are not both 0."""
    total = 0.0
    ahead = weight[size]
    for i in range(size - 1, -1, -1):
        if one != 0:
            before = ahead * (size + 1) / ((i + 1) * one)
            total += before
            ahead = weight[i] - before * zero * ((size - i) / (size + 1))
        else:
            total += weight[i] / zero / ((size - i) / (size + 1))
    return total


@internal
def _add_leaf(row: int, level: int, value: float, path: Any, out: Any) -> None:
    """Add the part of a leaf to each column of its path."""
    size = path.size[level]
    for place in range(1, size + 1):
        zero, one = path.zero[level, place], path.one[level, place]
        total = _sum_without(path.weight[level], size, zero, one)
        out[row, path.column[level, place]] += total * (one - zero) * value
