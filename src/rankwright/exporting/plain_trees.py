"""Trees in the form that search engines know, for writers: a split is ``x <= T`` with a side for missing values.

What one such split cannot say takes several on the same feature:

- Zeros that go to the default side (zeros counted as missing), where the threshold sends them to the other one: the
  numbers below zero, zero itself, those up to the threshold and those above it alternate between the two children.
- Missing values that go to the left, in an engine that sends them to the right always: a split at the largest number
  comes first. Only missing values are on its right.

Both repeat a subtree. Splits that a path has already decided are left out, so that a feature is asked no more than it
has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankwright.exporting.thresholds import LARGEST_SINGLE, at_most, zero_goes_left
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    NAN_TO_DEFAULT,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
)

MOST_NODES = 1_000_000  # of an exported file: about 100 MB of JSON
DEEPEST = 200  # levels of a tree: JSON parsers, ours and those of search engines, stop at 1000 nested brackets


@dataclass(frozen=True)
class Leaf:
    """The end of a path."""

    value: float


@dataclass(frozen=True)
class Split:
    """An inner node: left if x <= threshold, or, for a category, if x is among the categories."""

    feature: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node
    categories: tuple[int, ...] | None = None


Node = Leaf | Split


class _Known(NamedTuple):
    """What a path says of a feature: low < x <= high, or x is missing if that is still possible."""

    low: float = -np.inf
    high: float = np.inf
    missing: bool = True

    def cut(self, threshold: float, missing_left: bool) -> tuple[_Known, _Known]:
        """Return what is known on either side of a split."""
        left = _Known(self.low, min(self.high, threshold), self.missing and missing_left)
        right = _Known(max(self.low, threshold), self.high, self.missing and not missing_left)
        return left, right


class _Builder:
    """Builds the plain form of trees, within the limits of a file."""

    def __init__(
        self, feature_names: Sequence[str], single: bool, missing_always_right: bool
    ) -> None:
        self._names = feature_names
        self._single = single
        self._always_right = missing_always_right
        self._n_nodes = 0

    def build(self, number: int, tree: TreeArrays) -> Node:
        self._number, self._tree = number, tree
        return self._node(0 if len(tree.feature) else ~0, {}, 0)

    def _node(self, node: int, known: dict[int, _Known], depth: int) -> Node:
        tree = self._tree
        if node < 0:
            return Leaf(float(tree.value[~node]))
        feature, left, right = int(tree.feature[node]), int(tree.left[node]), int(tree.right[node])
        if tree.decision[node] == AMONG:
            self._count(feature, depth)
            categories = tuple(tree.categories[node].tolist())
            return Split(
                feature,
                0.0,
                missing_goes_left(tree, node),
                self._node(left, known, depth + 1),
                self._node(right, known, depth + 1),
                categories,
            )
        threshold = at_most(
            float(tree.threshold[node]), int(tree.decision[node]), single=self._single
        )
        missing_left = missing_goes_left(tree, node)
        # Where one region ends and the next begins, ascending, and the child of each region.
        ends, children = [threshold], [left, right]
        if zeros_need_splits(tree, node):
            zeros = [at_most(bound, AT_MOST, single=self._single) for bound in (-ZERO, ZERO)]
            if missing_left:
                ends, children = [threshold, *zeros], [left, right, left, right]
            else:
                ends, children = [*zeros, threshold], [left, right, left, right]
        return self._regions(feature, ends, children, left if missing_left else right, known, depth)

    def _regions(
        self,
        feature: int,
        ends: list[float],
        children: list[int],
        missing_child: int,
        known: dict[int, _Known],
        depth: int,
    ) -> Node:
        """Build the splits of one node of the model: a child for each region of numbers, and one for missing values."""
        here = known.get(feature, _Known())
        # Regions that the path leaves open, with the end of each.
        regions: list[tuple[float, int]] = []
        start = -np.inf
        for end, child in zip([*ends, np.inf], children, strict=True):
            if max(start, here.low) < min(end, here.high):
                if regions and regions[-1][1] == child:
                    regions[-1] = (end, child)
                else:
                    regions.append((end, child))
            start = end
        if not regions:
            return self._node(missing_child, known, depth)
        if here.missing and self._always_right and missing_child != regions[-1][1]:
            self._count(feature, depth)
            numbers, _ = here.cut(LARGEST_SINGLE, False)
            only_missing = _Known(np.inf, np.inf, True)
            return Split(
                feature,
                LARGEST_SINGLE,
                False,
                self._regions(
                    feature, ends, children, missing_child, {**known, feature: numbers}, depth + 1
                ),
                self._node(missing_child, {**known, feature: only_missing}, depth + 1),
            )
        if len(regions) == 1 and (not here.missing or missing_child == regions[0][1]):
            return self._node(regions[0][1], known, depth)
        if len(regions) == 1:  # missing values are split from all numbers
            regions = [(regions[0][0], regions[0][1]), (np.inf, missing_child)]
            return self._split(feature, self._largest, regions, False, missing_child, known, depth)
        # The last boundary first: missing values go right, or on to the left.
        missing_left = missing_child != regions[-1][1]
        return self._split(
            feature, regions[-2][0], regions, missing_left, missing_child, known, depth
        )

    @property
    def _largest(self) -> float:
        return at_most(np.inf, AT_MOST, single=self._single)

    def _split(
        self,
        feature: int,
        threshold: float,
        regions: list[tuple[float, int]],
        missing_left: bool,
        missing_child: int,
        known: dict[int, _Known],
        depth: int,
    ) -> Node:
        self._count(feature, depth)
        on_left, on_right = known.get(feature, _Known()).cut(threshold, missing_left)
        ends, children = [end for end, _ in regions[:-2]], [child for _, child in regions[:-1]]
        return Split(
            feature,
            threshold,
            missing_left,
            self._regions(
                feature, ends, children, missing_child, {**known, feature: on_left}, depth + 1
            ),
            self._node(regions[-1][1], {**known, feature: on_right}, depth + 1),
        )

    def _count(self, feature: int, depth: int) -> None:
        self._n_nodes += 1
        if depth >= DEEPEST:
            raise ValueError(
                f"tree {self._number} has more than {DEEPEST} levels, the last of them on {self._names[feature]!r}; "
                "JSON that deep is not read by search engines. Train with a max_depth."
            )
        if self._n_nodes > MOST_NODES:
            raise ValueError(
                f"the file would have more than {MOST_NODES:,} splits, which search engines do not load; tree "
                f"{self._number} is at {self._names[feature]!r}. Train fewer or smaller trees; where zeros count as "
                "missing, or missing values go to the left in OpenSearch 3.2 to 3.7, splits are repeated."
            )


def plain_trees(
    trees: Sequence[TreeArrays],
    feature_names: Sequence[str],
    *,
    single: bool,
    missing_always_right: bool = False,
) -> list[Node]:
    """Return trees in plain form; a forest without trees gets one leaf of 0, as engines want at least one tree.

    Parameters
    ----------
    trees
        Trees of a model.
    feature_names
        Names of the columns, for errors.
    single
        Whether the engine holds features in 32 bits.
    missing_always_right
        Whether the engine sends missing values to the right whatever a split says.
    """
    builder = _Builder(feature_names, single, missing_always_right)
    return [builder.build(number, tree) for number, tree in enumerate(trees)] or [Leaf(0.0)]


def n_splits(node: Node) -> int:
    """Number of splits of a plain tree."""
    return 0 if isinstance(node, Leaf) else 1 + n_splits(node.left) + n_splits(node.right)


def missing_goes_left(tree: TreeArrays, node: int) -> bool:
    """Return the side of missing values."""
    if tree.missing[node] != AS_ZERO:
        return bool(tree.default_left[node])
    if tree.decision[node] == AMONG:
        return 0 in tree.categories[node]
    return zero_goes_left(float(tree.threshold[node]), int(tree.decision[node]))


def zeros_need_splits(tree: TreeArrays, node: int) -> bool:
    """Return whether zeros go to the default side and the threshold says the other one."""
    if tree.missing[node] != ZERO_TO_DEFAULT or tree.decision[node] != AT_MOST:
        return False
    return bool(tree.default_left[node]) != zero_goes_left(float(tree.threshold[node]), AT_MOST)


def n_changed_by_zero(trees: Sequence[TreeArrays]) -> int:
    """Number of splits that send missing values elsewhere than zeros: an engine that reads missing as 0 differs."""
    count = 0
    for tree in trees:
        for node in np.flatnonzero(tree.missing == NAN_TO_DEFAULT).tolist():
            if tree.decision[node] == AMONG:
                zero_left = 0 in tree.categories[node]
            else:
                zero_left = zero_goes_left(float(tree.threshold[node]), int(tree.decision[node]))
            count += zero_left != bool(tree.default_left[node])
    return count


def n_missing_left(trees: Sequence[TreeArrays]) -> int:
    """Number of splits that send missing values to the left."""
    return sum(missing_goes_left(tree, node) for tree in trees for node in range(len(tree.feature)))


def refuse_categories(
    trees: Sequence[TreeArrays], feature_names: Sequence[str], target: str
) -> None:
    """Raise ValueError, naming the features, where a tree splits categories and a target has only numbers."""
    columns = sorted(
        {int(column) for tree in trees for column in tree.feature[tree.decision == AMONG]}
    )
    if columns:
        names = ", ".join(repr(feature_names[column]) for column in columns)
        raise ValueError(
            f"{target} has no splits on categories, and the model has some on {names}. Encode these columns as "
            "numbers before training (one column per category), or export to a target that has them, such as vespa."
        )


def zero_note(trees: Sequence[TreeArrays], target: str) -> list[str]:
    """Say, if so, that missing values are read as 0 and how many splits that changes."""
    changed = n_changed_by_zero(trees)
    if not changed:
        return []
    total = sum(len(tree.feature) for tree in trees)
    return [
        f"{target} reads a missing value as 0: {changed} of {total} splits send missing values elsewhere than 0, and "
        "rows with missing values may get another score. Fill missing values with 0 before training to avoid it."
    ]
