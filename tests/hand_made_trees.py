"""Trees as plain arrays, made by hand or at random, with every kind of node, for tests of scoring and of exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    BELOW,
    NAN_TO_DEFAULT,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
)

SPECIAL_THRESHOLDS = [
    1e300,
    np.inf,
    -np.inf,
    -1e300,
    0.0,
    -0.0,
    1e-36,
    -1e-36,
    ZERO,
    -ZERO,
    1e-35,
    -1e-35,
    1e-45,
    3.5e38,
    0.1,
]
NUMERIC, CATEGORY = 0, 3  # columns 0, 1 and 2 hold numbers, column 3 a category from 0 to 39


def leaf(value: float) -> TreeArrays:
    """A tree of one leaf."""
    empty = [
        np.empty(0, dtype=dtype)
        for dtype in (np.int32, float, np.uint8, np.uint8, bool, np.int32, np.int32)
    ]
    return TreeArrays(*empty, (), np.array([value]), np.empty(0))


def stump(
    threshold: float,
    decision: int = AT_MOST,
    missing: int = NAN_TO_DEFAULT,
    default_left: bool = False,
    categories: Sequence[int] = (),
    column: int = 0,
) -> TreeArrays:
    """A tree of one node, whose leaves are worth 1 (left) and 2."""
    return TreeArrays(
        np.array([column], dtype=np.int32),
        np.array([threshold]),
        np.array([decision], dtype=np.uint8),
        np.array([missing], dtype=np.uint8),
        np.array([default_left]),
        np.array([~0], dtype=np.int32),
        np.array([~1], dtype=np.int32),
        (np.array(categories, dtype=np.int64),),
        np.array([1.0, 2.0]),
        np.array([1.0]),
    )


def random_tree(
    seed: int,
    n_leaves: int = 12,
    decisions: Sequence[int] = (AT_MOST, BELOW, AMONG),
    missing: Sequence[int] = (AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT),
) -> TreeArrays:
    """A tree of any shape, with thresholds at special places and on the boundaries of single precision."""
    draw = np.random.default_rng(seed)
    n = n_leaves - 1
    decision = draw.choice(decisions, n).astype(np.uint8)
    threshold = np.where(
        draw.random(n) < 0.4, draw.choice(SPECIAL_THRESHOLDS, n), draw.normal(size=n)
    )
    threshold = np.where(
        draw.random(n) < 0.3, threshold.clip(-1e30, 1e30).astype(np.float32), threshold
    )
    child = np.empty((n, 2), dtype=np.int32)
    open_ends = []
    for node in range(n):  # each node takes the place of a random leaf
        if node:
            end = open_ends.pop(int(draw.integers(len(open_ends))))
            child[end] = node
        open_ends += [(node, 0), (node, 1)]
    for number, end in enumerate(draw.permutation(len(open_ends))):
        child[open_ends[end]] = ~number
    sets = [
        np.flatnonzero(draw.random(40) < 0.4) if kind == AMONG else np.empty(0, dtype=np.int64)
        for kind in decision
    ]
    return TreeArrays(
        np.where(decision == AMONG, CATEGORY, draw.integers(0, 3, n)).astype(np.int32),
        np.where(decision == AMONG, 0.0, threshold),
        decision,
        draw.choice(missing, n).astype(np.uint8),
        draw.random(n) < 0.5,
        child[:, 0],
        child[:, 1],
        tuple(sets),
        draw.normal(size=n_leaves),
        draw.random(n),
    )


@np.errstate(over="ignore")
def probe_rows(
    trees: Sequence[TreeArrays], n_columns: int = 4, *, single: bool = False, most: int = 4000
) -> Any:
    """Rows with values at, just below and just above every threshold, zeros, tiny numbers and missing values.

    With ``single`` the neighbours are those of single precision, and all values are such numbers.
    """
    number = np.float32 if single else np.float64
    largest = float(np.finfo(number).max)
    draw = np.random.default_rng(0)
    small = [0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, np.nan, largest, -largest]
    values: list[list[float]] = [list(small) for _ in range(n_columns)]
    categorical = set()
    for tree in trees:
        for column, threshold, decision in zip(
            tree.feature, tree.threshold, tree.decision, strict=True
        ):
            if decision == AMONG:
                categorical.add(int(column))
                continue
            at = number(np.clip(threshold, -largest, largest))
            values[column] += [
                at,
                np.nextafter(at, number(-np.inf)),
                np.nextafter(at, number(np.inf)),
            ]
            as_single = np.float32(np.clip(threshold, -3.4e38, 3.4e38))
            values[column] += [
                as_single,
                np.nextafter(as_single, np.float32(9)),
                np.nextafter(as_single, -as_single),
            ]
    columns = []
    for column, each in enumerate(values):
        usable = np.array(each, dtype=np.float64)
        usable = usable[~np.isinf(usable)]
        if column in categorical:
            usable = np.array([*range(45), 0, np.nan, 1e5])
        n = min(most, max(len(one) for one in values))
        columns.append(draw.permutation(np.resize(usable, max(n, 300))))
    length = max(map(len, columns))
    return np.column_stack([np.resize(column, length) for column in columns])
