"""The leaf that a row falls into, and sums of leaf values; `tree_arrays` describes the arrays of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.arithmetic import lowest_bit
from rankwright.kernels.jit import allocating, inlined, internal, jit
from rankwright.kernels.tree_arrays import (
    AS_ZERO,
    AT_MOST,
    MISSING_LEFT,
    SPECIAL,
    WORD,
    ZERO,
    ZERO_TO_DEFAULT,
    PackedTrees,
)

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_NEXT = np.uint64(1)
_ROWS_AT_ONCE = 128  # rows whose columns stay in the cache
_ROWS_TO_COUNT = 1024  # rows whose changes stay in the cache


@inlined
def goes_left_at_special(x: Any, node: int, trees: PackedTrees) -> bool:
    """Decide at a special node, by all of its rule."""
    rule = trees.rule[node]
    decision = rule & 3
    missing = (rule >> 2) & 3
    left: Any = (rule & 16) != 0
    decided = False
    if x != x:
        decided = missing != AS_ZERO
        x = 0.0
    elif decision == AT_MOST and abs(x) <= ZERO:
        decided = missing == ZERO_TO_DEFAULT
        x = 0.0
    if not decided:
        if decision == AT_MOST:
            left = x <= trees.threshold[node]
        else:
            first = trees.set_start[node]
            bits = (trees.set_start[node + 1] - first) * WORD
            left = False
            if x > -1.0 and x < bits:
                category = np.int64(x)
                left = (
                    (trees.sets[first + category // WORD] >> np.uint32(category % WORD)) & 1
                ) != 0
    return left


@inlined
def _leaf(row: int, node: int, X: Any, trees: PackedTrees) -> int:
    """Walk down from a node; return ~leaf."""
    while node >= 0:
        x: Any = np.float64(X[row, trees.feature[node]])
        kind = trees.kind[node]
        if kind == SPECIAL:
            left = goes_left_at_special(x, node, trees)
        elif kind == MISSING_LEFT:
            left = not x > trees.bound[node]
        else:
            left = x <= trees.bound[node]
        node = trees.left[node] if left else trees.right[node]
    return node


@allocating
def score_rows(
    start: int, stop: int, X: Any, trees: PackedTrees, first: int, last: int, out: Any
) -> None:
    """Add the trees [first, last) to ``out`` for the rows [start, stop), in the order of the trees."""
    sets = trees.leaf_sets
    columns = np.empty((len(sets.columns), min(_ROWS_AT_ONCE, stop - start)))
    leaves = np.empty(columns.shape[1], np.uint64)
    for low in range(start, stop, _ROWS_AT_ONCE):
        n = np.uint64(min(_ROWS_AT_ONCE, stop - low))
        row = np.uint64(low)
        for c in range(np.uint64(len(sets.columns))):
            column = np.uint64(sets.columns[c])
            for i in range(n):
                columns[c, i] = X[row + i, column]
        for tree in range(first, last):
            if sets.whole[tree]:
                _exclude_leaves(low, n, tree, X, trees, columns, leaves)
                at = np.uint64(sets.first_leaf[tree])
                for i in range(n):
                    out[row + i] += sets.value[at + lowest_bit(leaves[i])]
            else:
                for i in range(n):
                    out[row + i] += trees.value[~_leaf(row + i, trees.root[tree], X, trees)]


@internal
def _exclude_leaves(
    row: int, n: int, tree: int, X: Any, trees: PackedTrees, columns: Any, leaves: Any
) -> None:
    """Leave in ``leaves`` those that no node excludes."""
    sets = trees.leaf_sets
    for i in range(n):
        leaves[i] = ALL
    for node in range(
        np.uint64(sets.starts[3 * tree]), np.uint64(sets.starts[3 * tree + 1]), np.uint64(2)
    ):
        c, d = np.uint64(sets.column[node]), np.uint64(sets.column[node + _NEXT])
        bound_c, bound_d = sets.bound[node], sets.bound[node + _NEXT]
        others_c, others_d = sets.others[node], sets.others[node + _NEXT]
        for i in range(n):
            remaining = ALL if columns[c, i] <= bound_c else others_c
            remaining &= ALL if columns[d, i] <= bound_d else others_d
            leaves[i] &= remaining
    for node in range(
        np.uint64(sets.starts[3 * tree + 1]), np.uint64(sets.starts[3 * tree + 2]), np.uint64(2)
    ):
        c, d = np.uint64(sets.column[node]), np.uint64(sets.column[node + _NEXT])
        bound_c, bound_d = sets.bound[node], sets.bound[node + _NEXT]
        others_c, others_d = sets.others[node], sets.others[node + _NEXT]
        for i in range(n):
            remaining = others_c if columns[c, i] > bound_c else ALL
            remaining &= others_d if columns[d, i] > bound_d else ALL
            leaves[i] &= remaining
    for node in range(np.uint64(sets.starts[3 * tree + 2]), np.uint64(sets.starts[3 * tree + 3])):
        column = columns[np.uint64(sets.column[node])]
        for i in range(n):
            if not goes_left_at_special(column[i], sets.node[node], trees):
                leaves[i] &= sets.others[node]


@allocating
def leaves_by_change(
    start: int, stop: int, before: Any, after: Any, middle: Any, leaf_at: Any, out: Any
) -> None:
    """Write the leaf of the rows [start, stop), found by the growth of their scores.

    ``middle`` [leaves - 1] separates the ascending values, ``leaf_at`` [leaves] has their leaves. Counting the values
    below a change is a loop that vectorises; up to about 600 leaves it is faster than a binary search.
    """
    change = np.empty(_ROWS_TO_COUNT)
    below = np.empty(_ROWS_TO_COUNT, np.int64)
    for low in range(start, stop, _ROWS_TO_COUNT):
        first = np.uint64(low)
        n = np.uint64(min(_ROWS_TO_COUNT, stop - low))
        for i in range(n):
            change[i] = after[first + i] - before[first + i]
            below[i] = 0
        _count_below(n, middle, change, below)
        for i in range(n):
            out[first + i] = leaf_at[np.uint64(below[i])]


@internal
def _count_below(n: int, middle: Any, change: Any, below: Any) -> None:
    """Add to ``below`` how many values are below each change, in a function that allocates nothing, to vectorise."""
    for m in middle:
        for i in range(n):
            below[i] += 1 if m < change[i] else 0


@jit
def add_leaf_values(start: int, stop: int, leaf: Any, values: Any, scores: Any) -> None:
    """Add to the scores of the rows [start, stop) the value of their leaf."""
    for row in range(np.uint64(start), np.uint64(stop)):
        scores[row] += values[np.uint64(leaf[row])]
