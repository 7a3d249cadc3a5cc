"""Trees with the same scores whose nodes are simple enough for a target.

Most tree formats know one kind of numeric node: left if x is at most a bound, and a side for missing values. Two kinds
of node need more than one of those, and a copy of the branches below them:

- zeros that count as missing and go to the other side than the numbers around them;
- a category that is missing and goes left, in formats that always send it right.

Copies are no larger than they must be: what a path knows of a feature (it is missing, it is zero) decides the nodes
below, which are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    MISSING_LEFT,
    NAN_TO_DEFAULT,
    SPECIAL,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
    plain_rules,
)

MOST_NODES = 100_000  # of a tree with its copies

_NAN, _ZERO, _OTHER = 1, 2, 4  # what a value may be
_BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))


class PlainTree(NamedTuple):
    """A tree of numeric nodes, left if x <= bound, and of nodes with categories; NaN goes by `missing_left`."""

    feature: NDArray[np.int32]
    bound: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    is_set: NDArray[np.bool_]
    categories: tuple[NDArray[np.int64], ...]
    left: NDArray[np.int32]  # a node, or ~leaf
    right: NDArray[np.int32]
    value: NDArray[np.float64]


def plain_tree(tree: TreeArrays, feature_names: Sequence[str]) -> PlainTree:
    """Turn a tree into one whose numeric nodes need only a bound and a side for missing values."""
    return without_zero_rules(expanded(tree, feature_names, zeros=True))


def without_zero_rules(tree: TreeArrays) -> PlainTree:
    """Read the rules of a tree that has no zeros apart from the numbers around them."""
    is_set = np.asarray(tree.decision) == AMONG
    bound, kind = _rules(tree)
    return PlainTree(
        tree.feature,
        bound,
        np.where(is_set, missing_category_left(tree), kind == MISSING_LEFT),
        is_set,
        tree.categories,
        tree.left,
        tree.right,
        tree.value,
    )


def missing_category_left(tree: TreeArrays) -> NDArray[np.bool_]:
    """Return whether a missing category goes left: a missing one that is read as 0 is looked up."""
    has_zero = np.array([len(one) > 0 and one[0] == 0 for one in tree.categories], dtype=bool)
    return np.where(np.asarray(tree.missing) == AS_ZERO, has_zero, tree.default_left).astype(bool)


def expanded(
    tree: TreeArrays,
    feature_names: Sequence[str],
    *,
    zeros: bool = False,
    missing_categories: bool = False,
) -> TreeArrays:
    """Split nodes that a target cannot express into several.

    Parameters
    ----------
    tree
        The tree.
    feature_names
        Names of the columns, for the error where a tree would grow too large.
    zeros
        Split nodes whose zeros are apart from the numbers around them.
    missing_categories
        Split nodes that send a missing category left.
    """
    is_set = np.asarray(tree.decision) == AMONG
    zero_apart = zeros & ~is_set & (_rules(tree)[1] == SPECIAL)
    nan_apart = missing_categories & is_set & missing_category_left(tree)
    if not (zero_apart.any() or nan_apart.any()):
        return tree
    return _Expansion(tree, feature_names, zero_apart, nan_apart).result()


def _rules(tree: TreeArrays) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    return plain_rules(
        np.asarray(tree.threshold, dtype=np.float64),
        np.asarray(tree.decision).astype(np.int64),
        np.asarray(tree.missing).astype(np.int64),
        np.asarray(tree.default_left, dtype=bool),
    )


class _Expansion:
    """Copies a tree from the root down; each place to fill is a child of a node that exists already."""

    def __init__(
        self,
        tree: TreeArrays,
        feature_names: Sequence[str],
        zero_apart: NDArray[Any],
        nan_apart: NDArray[Any],
    ) -> None:
        self.tree, self.names = tree, feature_names
        self.zero_apart, self.nan_apart = zero_apart, nan_apart
        is_set = np.asarray(tree.decision) == AMONG
        self.missing_left = np.where(
            is_set, missing_category_left(tree), _rules(tree)[1] == MISSING_LEFT
        )
        self.rows: list[
            list[Any]
        ] = []  # feature, threshold, decision, missing, default_left, left, right, categories
        self.gains: list[float] = []
        self.values: list[float] = []
        self.copied: set[int] = set()
        # Node of the source, what the path knows of features, and the place that waits for it.
        self.waiting: list[tuple[int, dict[int, int], int, int]] = []

    def result(self) -> TreeArrays:
        self._place(0, {}, -1, 0)
        while self.waiting:
            self._place(*self.waiting.pop())
        columns = list(zip(*self.rows, strict=True))
        kinds = (np.int32, np.float64, np.uint8, np.uint8, np.bool_, np.int32, np.int32)
        arrays: list[Any] = [
            np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=False)
        ]
        return TreeArrays._make([*arrays, columns[7], np.array(self.values), np.array(self.gains)])

    def _place(self, node: int, known: dict[int, int], parent: int, side: int) -> None:
        """Fill a place with a node of the source, or with the leaf or node below it that the path leads to."""
        tree = self.tree
        while node >= 0:
            feature = int(tree.feature[node])
            possible = known.get(feature, _NAN | _ZERO | _OTHER)
            if possible == _NAN:
                node = self._missing_child(node)
            elif (
                possible == _ZERO
                and tree.missing[node] == ZERO_TO_DEFAULT
                and tree.decision[node] == AT_MOST
            ):
                node = int((tree.left if tree.default_left[node] else tree.right)[node])
            else:
                break
        if node < 0:
            self.values.append(float(tree.value[~node]))
            self._attach(~(len(self.values) - 1), parent, side)
        elif self.zero_apart[node] and possible & _ZERO:
            self._split_zeros(node, known, possible, parent, side)
        elif self.nan_apart[node] and possible & _NAN:
            test = self._add(
                node, [feature, np.inf, AT_MOST, NAN_TO_DEFAULT, False, 0, 0, _NONE], parent, side
            )
            present = self._add(node, self._source(node), test, 0)
            self._wait(node, known | {feature: possible & ~_NAN}, present)
            self.waiting.append((self._missing_child(node), known | {feature: _NAN}, test, 1))
        else:
            row = self._source(node)
            if self.zero_apart[node]:
                row[3] = NAN_TO_DEFAULT  # the path has no zeros left
            self._wait(node, known, self._add(node, row, parent, side))

    def _split_zeros(
        self, node: int, known: dict[int, int], possible: int, parent: int, side: int
    ) -> None:
        """Write the rule as up to three nodes: the bound, what is below zero, and zero."""
        tree, feature = self.tree, int(self.tree.feature[node])
        default_left = bool(tree.default_left[node])
        row = self._source(node)
        row[3] = NAN_TO_DEFAULT
        bound = self._add(node, row, parent, side)
        # Zeros are on the side of the bound that is not the default one.
        inner, outer = (1, 0) if default_left else (0, 1)
        children = (int(tree.left[node]), int(tree.right[node]))
        self.waiting.append((children[outer], known | {feature: possible & ~_ZERO}, bound, outer))
        below = self._add(
            node, [feature, _BELOW_ZERO, AT_MOST, NAN_TO_DEFAULT, False, 0, 0, _NONE], bound, inner
        )
        zero = self._add(
            node, [feature, ZERO, AT_MOST, NAN_TO_DEFAULT, False, 0, 0, _NONE], below, 1
        )
        self.waiting.append((children[inner], known | {feature: _OTHER}, below, 0))
        self.waiting.append((children[outer], known | {feature: _ZERO}, zero, 0))
        self.waiting.append((children[inner], known | {feature: _OTHER}, zero, 1))

    def _source(self, node: int) -> list[Any]:
        tree = self.tree
        rule = [tree.feature[node], tree.threshold[node], tree.decision[node], tree.missing[node]]
        return [*rule, tree.default_left[node], 0, 0, tree.categories[node]]

    def _missing_child(self, node: int) -> int:
        tree = self.tree
        left = self.missing_left[node]
        if self.zero_apart[node]:
            left = tree.default_left[node]
        return int((tree.left if left else tree.right)[node])

    def _wait(self, node: int, known: dict[int, int], copy: int) -> None:
        self.waiting.append((int(self.tree.left[node]), known, copy, 0))
        self.waiting.append((int(self.tree.right[node]), known, copy, 1))

    def _add(self, node: int, row: list[Any], parent: int, side: int) -> int:
        if len(self.rows) >= MOST_NODES:
            name = self.names[int(self.tree.feature[node])]
            raise ValueError(
                f"feature {name!r}: a tree would need more than {MOST_NODES} nodes, because its zeros or missing "
                "categories go to the other side than the values around them. Train with fewer leaves, or so that "
                "zeros do not count as missing."
            )
        self.rows.append(row)
        self.gains.append(0.0 if node in self.copied else float(self.tree.gain[node]))
        self.copied.add(node)
        self._attach(len(self.rows) - 1, parent, side)
        return len(self.rows) - 1

    def _attach(self, child: int, parent: int, side: int) -> None:
        if parent >= 0:
            self.rows[parent][5 + side] = child


_NONE = np.empty(0, dtype=np.int64)
