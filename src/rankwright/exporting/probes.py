"""Rows that tell an exported model from the one it should be: at, next to and on either side of every threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.tree_arrays import AMONG, ZERO, ZERO_TO_DEFAULT, TreeArrays

Floats = NDArray[np.float64]
Blur = Callable[[float], tuple[float, float] | None]

_ROWS_AT_ONCE = 20_000
_MOST_CATEGORIES = 12  # of a set that are tried
# The last numbers before the largest one: engines that compare by < have no threshold above it.
_LIMIT = {True: 3.4e38, False: 1.7e308}
_SPECIAL = (np.nan, 0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, 2 * ZERO, -2 * ZERO)


def probe_rows(
    trees: Sequence[TreeArrays], rows: Floats, *, single: bool, blur: Blur | None = None
) -> Iterator[Floats]:
    """Yield blocks of rows that reach every node of every tree with values around its threshold.

    The rows start as rows of the data. The features that decide on the way to a node get values that lead there; the
    feature of the node gets its threshold, the numbers just below and just above it, in double and in single
    precision, zeros, numbers so small that they count as zeros, and a missing value. Sets of categories get members
    and others.

    Parameters
    ----------
    trees
        The model.
    rows
        Rows of data [rows, columns], at least one.
    single
        Whether the target holds features in 32 bits; the values are then rounded.
    blur
        For a threshold, the range of values that the target is known to send the wrong way, if any: not probed.
    """
    blurred = _blurred_ranges(trees, blur)
    block: list[Floats] = []
    for number, tree in enumerate(trees):
        start = np.random.default_rng(number)
        for node, way in _ways(tree):
            base = rows[start.integers(len(rows))].copy()
            for feature, value in way.items():
                base[feature] = value
            feature = int(tree.feature[node])
            values = _values(tree, node, single)
            copies = np.repeat(base[None], len(values), axis=0)
            copies[:, feature] = values
            for column in {*way, feature}:
                for low, high in blurred.get(column, ()):
                    x = copies[:, column]
                    copies = copies[~((x > low) & (x <= high) & (x != 0))]
            block += list(copies)
            if len(block) >= _ROWS_AT_ONCE:
                yield _limited(block, single)
                block = []
    if block or not trees:
        yield _limited(block or [rows[0]], single)


def _limited(block: list[Floats], single: bool) -> Floats:
    rows = np.clip(np.array(block), -_LIMIT[single], _LIMIT[single])
    return rows.astype(np.float32).astype(np.float64) if single else rows


def _values(tree: TreeArrays, node: int, single: bool) -> Floats:
    """Values of a node's feature to try."""
    if tree.decision[node] == AMONG:
        members = tree.categories[node][:_MOST_CATEGORIES].tolist()
        largest = max([0, *tree.categories[node].tolist()])
        others = [
            code for code in range(largest + 3) if code not in set(tree.categories[node].tolist())
        ]
        return np.array([np.nan, *members, *others[:_MOST_CATEGORIES], largest + 1])
    limit = _LIMIT[single]
    threshold = float(np.clip(tree.threshold[node], -limit, limit))
    around = [threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf)]
    nearest = np.float32(np.clip(threshold, -_LIMIT[True], _LIMIT[True]))
    around += [float(np.nextafter(nearest, np.float32(side))) for side in (-np.inf, np.inf)]
    around += [float(nearest), threshold - 1.0, threshold + 1.0, *_SPECIAL]
    values: Floats = np.clip(np.array(around), -limit, limit)
    return values.astype(np.float32).astype(np.float64) if single else values


def _ways(tree: TreeArrays) -> Iterator[tuple[int, dict[int, float]]]:
    """Yield each node with values of the features that lead to it, as far as there are any."""
    if not len(tree.feature):
        return
    waiting: list[tuple[int, dict[int, float], dict[int, tuple[float, float]]]] = [(0, {}, {})]
    while waiting:
        node, way, ranges = waiting.pop()
        yield node, way
        feature = int(tree.feature[node])
        low, high = ranges.get(feature, (-np.inf, np.inf))
        threshold = float(tree.threshold[node])
        for child, side in ((int(tree.left[node]), True), (int(tree.right[node]), False)):
            if child < 0:
                continue
            if tree.decision[node] == AMONG:
                waiting.append((child, {**way, feature: _category(tree, node, side)}, ranges))
                continue
            between = (low, min(high, threshold)) if side else (max(low, threshold), high)
            waiting.append(
                (child, {**way, feature: _inside(*between)}, {**ranges, feature: between})
            )


def _category(tree: TreeArrays, node: int, member: bool) -> float:
    members = tree.categories[node].tolist()
    if member:
        return float(members[0]) if members else 0.0
    return float(next(code for code in range(len(members) + 1) if code not in set(members)))


def _inside(low: float, high: float) -> float:
    """A number between two bounds, of which either may be infinite."""
    if np.isinf(low) and np.isinf(high):
        return 1.0
    if np.isinf(low):
        return high - max(1.0, abs(high) / 2)
    if np.isinf(high):
        return low + max(1.0, abs(low) / 2)
    return low / 2 + high / 2


def _blurred_ranges(
    trees: Sequence[TreeArrays], blur: Blur | None
) -> dict[int, list[tuple[float, float]]]:
    """Ranges of each feature that a target sends the wrong way."""
    ranges: dict[int, list[tuple[float, float]]] = {}
    if blur is None:
        return ranges
    seen: set[tuple[int, float]] = set()
    for tree in trees:
        pairs: list[tuple[Any, Any]] = list(
            zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True)
        )
        # Zeros that count as missing are split from the other numbers, as by a threshold.
        pairs += [
            (feature, 0.0) for feature in tree.feature[tree.missing == ZERO_TO_DEFAULT].tolist()
        ]
        for feature, threshold in pairs:
            if (feature, threshold) not in seen:
                seen.add((feature, threshold))
                bounds = blur(threshold)
                if bounds is not None:
                    ranges.setdefault(feature, []).append(bounds)
    return ranges
