"""The leaf that a row falls into, and sums of leaf values; `tree_arrays` says what a tree is."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import inlined, jit
from rankwright.kernels.tree_arrays import AS_ZERO, AT_MOST, BELOW, WORD, ZERO, ZERO_TO_DEFAULT, PackedTrees

_ROWS_AT_ONCE = 64  # rows that a tree sees while it is in the cache
_ROWS_TO_COUNT = 1024  # rows whose changes stay in the cache


@inlined
def _leaf(row: int, node: int, X: Any, trees: PackedTrees) -> int:
    """Walk down from a node; returns ~leaf."""
    while node >= 0:
        x: Any = np.float64(X[row, trees.feature[node]])
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
            elif decision == BELOW:
                left = np.float32(x) < np.float32(trees.threshold[node])
            else:
                first = trees.set_start[node]
                bits = (trees.set_start[node + 1] - first) * WORD
                left = False
                if x > -1.0 and x < bits:
                    category = np.int64(x)
                    left = ((trees.sets[first + category // WORD] >> np.uint32(category % WORD)) & 1) != 0
        node = trees.left[node] if left else trees.right[node]
    return node


@jit
def score_rows(start: int, stop: int, X: Any, trees: PackedTrees, first: int, last: int, out: Any) -> None:
    """Sum the trees [first, last) for the rows [start, stop), each sum in the order of the trees."""
    for low in range(start, stop, _ROWS_AT_ONCE):
        high = min(low + _ROWS_AT_ONCE, stop)
        for row in range(low, high):
            out[row] = 0.0
        for tree in range(first, last):
            for row in range(low, high):
                out[row] += trees.value[~_leaf(row, trees.root[tree], X, trees)]


@jit
def leaves_of_rows(start: int, stop: int, X: Any, trees: PackedTrees, tree: int, out: Any) -> None:
    """Write the leaf of the rows [start, stop) in one tree; leaves are numbered throughout the forest."""
    for row in range(start, stop):
        out[row] = ~_leaf(row, trees.root[tree], X, trees)


@jit
def leaves_by_change(start: int, stop: int, before: Any, after: Any, middle: Any, leaf_at: Any, out: Any) -> None:
    """Write the leaf of the rows [start, stop), whose scores grew by the value of their leaf.

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
        for m in middle:
            for i in range(n):
                below[i] += 1 if m < change[i] else 0
        for i in range(n):
            out[first + i] = leaf_at[np.uint64(below[i])]


@jit
def add_leaf_values(start: int, stop: int, leaf: Any, values: Any, scores: Any) -> None:
    """Add to the scores of the rows [start, stop) the value of their leaf."""
    for row in range(np.uint64(start), np.uint64(stop)):
        scores[row] += values[np.uint64(leaf[row])]
