"""Rows that show a difference between an exported file and its model: at, next to and around every threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Blur, Floats, Trees
from rankwright.exporting.nodes import numeric_bounds
from rankwright.kernels.tree_arrays import AMONG, LARGEST_CATEGORY, ZERO, TreeArrays

_ROWS_AT_ONCE = 20_000
_MOST_CATEGORIES = 12  # of a set that are tried
_LARGEST = {True: float(np.finfo(np.float32).max), False: float(np.finfo(np.float64).max)}
_SPECIAL = (np.nan, 0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, 2 * ZERO, -2 * ZERO)


class Probes(NamedTuple):
    """A block of rows, and which of them have a value that the target may send to the wrong side."""

    rows: Floats
    blurred: NDArray[np.bool_]


def probe_rows(
    trees: Trees,
    rows: Floats,
    *,
    single: bool,
    blur: Blur | None = None,
    levels: Mapping[int, Sequence[Any] | None] | None = None,
) -> Iterator[Probes]:
    """Yield blocks of rows that reach every node of every tree with values around its threshold.

    The rows start as rows of the data. The features that decide on the way to a node get values that lead there; the
    feature of the node gets its threshold, the numbers just below and just above it, in double and in single
    precision, the largest numbers, zeros, numbers so small that they count as zeros, and a missing value. Sets of
    categories get members and others.

    Parameters
    ----------
    trees
        The model.
    rows
        Rows of data [rows, columns]; there must be some.
    single
        Whether the target holds features in 32 bits; the values are then rounded.
    blur
        For a bound, the range of values that the target may send to the wrong side, if any.
    levels
        Levels of the columns with categories; None for a column of codes.
    """
    blurred = _blurred_ranges(trees, blur)
    largest_codes: dict[int, int] = {}
    for column, texts in (levels or {}).items():
        # A column of codes without levels may have any code.
        largest_codes[column] = LARGEST_CATEGORY
        if texts is not None:
            largest_codes[column] = len(texts) - 1
    block: list[Floats] = []
    for number, tree in enumerate(trees):
        # Every tree has its own seed, so that a check of the same file gives the same result.
        draw = np.random.default_rng(number)
        for node, way in _ways(tree):
            # The other features keep values of the data, so that deeper nodes see likely rows.
            base = rows[draw.integers(len(rows))].copy()
            for feature, value in way.items():
                base[feature] = value
            feature = int(tree.feature[node])
            values = _values(tree, node, single)
            copies = np.repeat(base[None], len(values), axis=0)
            copies[:, feature] = values
            block += list(copies)
            # Large forests have millions of probes, so they are compared in blocks.
            if len(block) >= _ROWS_AT_ONCE:
                yield _finished(block, single, largest_codes, blurred)
                block = []
    # Without trees there is no threshold, and the constant score is compared on a row of data.
    if block or not trees:
        yield _finished(block or [rows[0]], single, largest_codes, blurred)


def _finished(
    block: list[Floats],
    single: bool,
    largest_codes: Mapping[int, int],
    blurred: Mapping[int, Floats],
) -> Probes:
    """Round a block of rows, and mark the rows with a value in a range [column, low and high]."""
    # Numbers beyond the range of the precision would become infinite, so they are cut to its ends.
    rows = np.clip(np.array(block), -_LARGEST[single], _LARGEST[single])
    # A code without a level has no text that a search engine could serve.
    for column, largest in largest_codes.items():
        rows[:, column] = np.trunc(np.clip(rows[:, column], 0, largest))
    if single:
        rows = rows.astype(np.float32).astype(np.float64)
    marked = np.zeros(len(rows), dtype=bool)
    for column, ranges in blurred.items():
        x = rows[:, column]
        # The ranges are sorted by their start; only the last range that starts below x can hold it.
        position = np.searchsorted(ranges[:, 0], x) - 1
        marked |= (position >= 0) & (x <= ranges[position, 1]) & (x != 0)
    return Probes(rows, marked)


def _values(tree: TreeArrays, node: int, single: bool) -> Floats:
    """Return values of a node's feature to try."""
    if tree.decision[node] == AMONG:
        members = tree.categories[node].tolist()
        # Some codes above the largest member stand for categories that training has not seen.
        outside = [code for code in range(max([0, *members]) + 3) if code not in set(members)]
        return np.array([np.nan, *members[:_MOST_CATEGORIES], *outside[:_MOST_CATEGORIES]])
    # Mistakes of rounding show at the next numbers, in the precision of the model and of the target.
    limit = _LARGEST[single]
    threshold = float(np.clip(tree.threshold[node], -limit, limit))
    nearest = np.float32(np.clip(threshold, -_LARGEST[True], _LARGEST[True]))
    with np.errstate(over="ignore"):
        around = [threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf)]
        around += [float(np.nextafter(nearest, np.float32(side))) for side in (-np.inf, np.inf)]
    around += [float(nearest), threshold - 1.0, threshold + 1.0, -limit, limit, *_SPECIAL]
    values: Floats = np.clip(np.array(around), -limit, limit)
    if single:
        values = values.astype(np.float32).astype(np.float64)
    return values


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
            # The features on the way keep the range that all splits above the child leave.
            between = (max(low, threshold), high)
            if side:
                between = (low, min(high, threshold))
            child_way = {**way, feature: _inside(*between)}
            waiting.append((child, child_way, {**ranges, feature: between}))


def _category(tree: TreeArrays, node: int, member: bool) -> float:
    members = tree.categories[node].tolist()
    if member:
        return float(members[0]) if members else 0.0
    # The least code that is not in the set: it is at most the number of members.
    return float(next(code for code in range(len(members) + 1) if code not in set(members)))


def _inside(low: float, high: float) -> float:
    """Return a number between two bounds; either may be infinite."""
    if np.isinf(low) and np.isinf(high):
        return 1.0
    if np.isinf(low):
        return high - max(1.0, abs(high) / 2)
    if np.isinf(high):
        return low + max(1.0, abs(low) / 2)
    return low / 2 + high / 2


def _blurred_ranges(trees: Trees, blur: Blur | None) -> dict[int, Floats]:
    """Return the ranges of each feature that a target may send the wrong way [ranges, low and high], ascending."""
    if blur is None:
        return {}
    # Many splits share a bound, so each bound is looked at only once.
    bounds: dict[int, set[float]] = {}
    for tree in trees:
        for feature, bound in zip(*numeric_bounds(tree), strict=True):
            bounds.setdefault(int(feature), set()).add(float(bound))
    ranges = {}
    for feature, values in bounds.items():
        found = [limits for limits in map(blur, sorted(values)) if limits is not None]
        if found:
            ranges[feature] = np.array(found)
    return ranges
