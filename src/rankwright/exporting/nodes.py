"""Trees of plain splits, ``x <= bound`` with a side for missing values, as most formats of trees know them.

Some nodes of a model need several plain splits on the same feature:

- Zeros that count as missing and go to the other side than the numbers around them: the numbers below zero, zero
  itself, the numbers up to the threshold and those above it alternate between the two children.
- Missing values that go left, if the format always sends them right. A split with the bound infinity comes first:
  it has all numbers on its left, and missing values alone on its right.

Both repeat a subtree. A split that an earlier split of the path has already decided is left out, so that the copies do
not grow more than they have to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Trees
from rankwright.exporting.float32 import largest_float32_at_most
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    MISSING_LEFT,
    SPECIAL,
    ZERO,
    TreeArrays,
    plain_rules,
)

MOST_SPLITS = 1_000_000  # in a nested file, about 100 MB of JSON; elsewhere of copies
DEEPEST = 200  # JSON parsers, also the search engines', stop at 1000 nested brackets
_JUST_BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))


@dataclass(frozen=True)
class Form:
    """The splits that a format of trees can express.

    Parameters
    ----------
    single
        Features are 32-bit numbers, so bounds are 32-bit numbers too.
    missing_right
        Numeric splits send missing values right, whatever the file says.
    missing_category_right
        Splits on categories send missing values right.
    zero_is_missing
        A numeric split can send zeros to the side of missing values.
    nested
        Nodes stand within their parents, so depth and size are limited.
    """

    single: bool = False
    missing_right: bool = False
    missing_category_right: bool = False
    zero_is_missing: bool = False
    nested: bool = False


class PlainTree(NamedTuple):
    """A tree of plain splits; children are numbers of nodes, or ~leaf for a leaf, and the root is node 0."""

    feature: list[int]
    bound: list[float]  # left if x <= bound; if it is infinite, missing values alone go right
    missing_left: list[bool]
    zero_is_missing: list[bool]
    categories: list[tuple[int, ...] | None]  # left if x is among them; None for a numeric split
    left: list[int]
    right: list[int]
    gain: list[float]  # of the model's node; 0 for its copies
    value: list[float]

    @property
    def root(self) -> int:
        """The first node, or ~0 if there is only a leaf."""
        return 0 if self.feature else ~0

    def key(self, child: int) -> int:
        """Number a child so that the leaves follow the nodes."""
        return child if child >= 0 else len(self.feature) + ~child


class _Reach(NamedTuple):
    """Values of a feature that still reach a node: low < x <= high, and perhaps missing values."""

    low: float = -np.inf
    high: float = np.inf
    missing: bool = True

    def left_of(self, bound: float, missing: bool) -> _Reach:
        return _Reach(self.low, min(self.high, bound), self.missing and missing)

    def right_of(self, bound: float, missing: bool) -> _Reach:
        return _Reach(max(self.low, bound), self.high, self.missing and missing)


class _Regions(NamedTuple):
    """A node of the model: its child for each region of numbers, ascending, and for missing values."""

    node: int
    ends: tuple[float, ...]  # of all regions but the last
    children: tuple[int, ...]
    missing_child: int


_Reaches = Mapping[int, _Reach]
_Child = tuple[int | _Regions, _Reach]


class _Place(NamedTuple):
    """A subtree that is still to be written: its source, and its place below a parent."""

    source: int | _Regions  # a node of the model or ~leaf, or a part of a node
    reaches: _Reaches
    depth: int
    parent: int
    on_left: bool


class _Builder:
    """Builds the plain form of the trees in turn, within the limits of a file."""

    def __init__(self, form: Form, feature_names: Sequence[str], n_nodes: int) -> None:
        self._form = form
        self._names = feature_names
        self._most = MOST_SPLITS
        # Formats that are not nested have no limit for the model's own splits, only for copies.
        if not form.nested:
            self._most += n_nodes
        self._n_splits = 0

    def build(self, number: int, tree: TreeArrays) -> PlainTree:
        self._number, self._tree = number, tree
        self._rules = _Rules(tree, self._form.single)
        self._plain = PlainTree([], [], [], [], [], [], [], [], [])
        self._written: set[int] = set()
        root = 0 if len(tree.feature) else ~0
        # A list instead of recursion, because trees of runtimes may have thousands of levels.
        self._waiting = [_Place(root, {}, 0, -1, True)]
        while self._waiting:
            self._fill(self._waiting.pop())
        return self._plain

    def _fill(self, place: _Place) -> None:
        """Write the subtree's first split or leaf, and put its children on the list."""
        source, reaches = place.source, place.reaches
        while True:
            if isinstance(source, int):
                if source < 0:
                    # A leaf that is reached through several copies is written once for each of them.
                    self._plain.value.append(float(self._tree.value[~source]))
                    self._attach(~(len(self._plain.value) - 1), place)
                    return
                feature = int(self._tree.feature[source])
                reach = reaches.get(feature, _Reach())
                # If no number reaches the node, only the side of missing values matters.
                if reach.low < reach.high and self._fill_whole_node(source, reach, place):
                    return
                source = self._rules.regions(source)
            reach = reaches.get(int(self._tree.feature[source.node]), _Reach())
            # Splits that the path has decided already are left out here.
            source = _open_part(source, reach)
            last = source.missing_child
            if source.children:
                last = source.children[-1]
            # A split by the last bound sends missing values right or on to the left. It cannot send
            # them left if the format has no choice, or if there is no bound to split by.
            apart = reach.missing and source.missing_child != last
            if apart and (self._form.missing_right or not source.ends):
                self._fill_missing_apart(source.node, source, source.missing_child, reach, place)
                return
            if source.ends:
                self._fill_last_bound(source, reach, place)
                return
            source = last  # all values that reach the node go to the same child

    def _fill_whole_node(self, node: int, reach: _Reach, place: _Place) -> bool:
        """Write a node as it is, if it has categories or the format knows its treatment of zeros."""
        tree, rules = self._tree, self._rules
        categories = tree.categories[node]
        is_set = bool(tree.decision[node] == AMONG) and len(categories) > 0
        missing_left = bool(rules.missing_left[node])
        if is_set:
            # The format would send missing categories right, so they get a split of their own.
            if self._form.missing_category_right and missing_left and reach.missing:
                self._fill_missing_apart(node, node, int(tree.left[node]), reach, place)
                return True
        elif not (self._form.zero_is_missing and rules.zero_apart[node]):
            return False
        bound = float(rules.bound[node])
        codes: tuple[int, ...] | None = None
        if is_set:
            bound, codes = 0.0, tuple(categories.tolist())
        # The numbers that reach a child are no interval here, so only missing values are followed.
        left = reach._replace(missing=reach.missing and missing_left)
        right = reach._replace(missing=reach.missing and not missing_left)
        children = (int(tree.left[node]), left), (int(tree.right[node]), right)
        self._split(place, node, bound, missing_left, children, codes, zero_is_missing=not is_set)
        return True

    def _fill_missing_apart(
        self, node: int, numbers: int | _Regions, missing_child: int, reach: _Reach, place: _Place
    ) -> None:
        """Write a split of all numbers, on its left, from missing values."""
        # All numbers are at most infinity, so only missing values are left for the right side.
        left = numbers, reach._replace(missing=False)
        right = missing_child, _Reach(np.inf, np.inf, True)
        self._split(place, node, np.inf, False, (left, right))

    def _fill_last_bound(self, source: _Regions, reach: _Reach, place: _Place) -> None:
        """Write the split of the last region from the others."""
        bound, last = source.ends[-1], source.children[-1]
        # Missing values stay among the other regions unless they go where the last region goes.
        missing_left = source.missing_child != last
        rest = source._replace(ends=source.ends[:-1], children=source.children[:-1])
        left = rest, reach.left_of(bound, missing_left)
        right = last, reach.right_of(bound, not missing_left)
        self._split(place, source.node, bound, missing_left, (left, right))

    def _split(
        self,
        place: _Place,
        node: int,
        bound: float,
        missing_left: bool,
        children: tuple[_Child, _Child],
        codes: tuple[int, ...] | None = None,
        *,
        zero_is_missing: bool = False,
    ) -> None:
        """Write a split of the model's node, and put its children on the list, so that the left child is next."""
        feature = int(self._tree.feature[node])
        self._check_limits(feature, place.depth)
        plain = self._plain
        number = len(plain.feature)
        plain.feature.append(feature)
        plain.bound.append(bound)
        plain.missing_left.append(missing_left)
        plain.zero_is_missing.append(zero_is_missing)
        plain.categories.append(codes)
        # The children are not written yet; `_attach` fills in their numbers.
        plain.left.append(0)
        plain.right.append(0)
        # Copies have no gain, so that the gains in the file sum to the gains of the model.
        plain.gain.append(0.0 if node in self._written else float(self._tree.gain[node]))
        self._written.add(node)
        self._attach(number, place)
        # The list is read from its end, so the left child goes last.
        left, right = children
        for on_left, (source, reach) in ((False, right), (True, left)):
            reaches = {**place.reaches, feature: reach}
            self._waiting.append(_Place(source, reaches, place.depth + 1, number, on_left))

    def _attach(self, child: int, place: _Place) -> None:
        if place.parent >= 0:
            side = self._plain.left if place.on_left else self._plain.right
            side[place.parent] = child

    def _check_limits(self, feature: int, depth: int) -> None:
        self._n_splits += 1
        name = self._names[feature]
        # JSON parsers stop at some depth, so search engines would refuse the file when it is uploaded.
        if self._form.nested and depth >= DEEPEST:
            raise ValueError(
                f"tree {self._number} has more than {DEEPEST} levels, the last of them on {name!r}; "
                "JSON that deep is not read by search engines. Train with a max_depth."
            )
        if self._n_splits > self._most:
            raise ValueError(
                f"the file would have more than {self._most:,} splits; tree {self._number} is at {name!r}. Train "
                "fewer or smaller trees. Splits are repeated if zeros count as missing, if missing categories go left, "
                "or if missing values go left in OpenSearch 3.2 to 3.7."
            )


class _Rules:
    """The rules of a tree's nodes in the precision of a format."""

    def __init__(self, tree: TreeArrays, single: bool) -> None:
        self._tree = tree
        self.bound, kind = _rules(tree)
        # LightGBM reads all numbers between these bounds as zero.
        zero_ends = np.array([_JUST_BELOW_ZERO, ZERO])
        largest = float(np.finfo(np.float64).max)
        if single:
            largest = float(np.finfo(np.float32).max)
            self.bound = largest_float32_at_most(self.bound).astype(np.float64)
            zero_ends = largest_float32_at_most(zero_ends).astype(np.float64)
        # All numbers are at most the largest number, so such a bound separates missing values only.
        self.bound = np.where(self.bound >= largest, np.inf, self.bound)
        self._zero_ends = tuple(zero_ends.tolist())
        is_set = np.asarray(tree.decision) == AMONG
        self.zero_apart = ~is_set & (kind == SPECIAL)
        self.missing_left = missing_left(tree)

    def regions(self, node: int) -> _Regions:
        """Return the children of a node by regions of its feature's numbers."""
        tree = self._tree
        left, right = int(tree.left[node]), int(tree.right[node])
        goes_left = bool(self.missing_left[node])
        missing_child = left if goes_left else right
        if tree.decision[node] == AMONG:  # an empty set: every number goes right
            return _Regions(node, (), (right,), missing_child)
        ends: tuple[float, ...] = (float(self.bound[node]),)
        if not self.zero_apart[node]:
            return _Regions(node, ends, (left, right), missing_child)
        # Zeros are on the other side of the bound than the side they go to.
        ends = (*ends, *self._zero_ends) if goes_left else (*self._zero_ends, *ends)
        return _Regions(node, ends, (left, right, left, right), missing_child)


def _rules(tree: TreeArrays) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    return plain_rules(
        np.asarray(tree.threshold, dtype=np.float64),
        np.asarray(tree.decision).astype(np.int64),
        np.asarray(tree.missing).astype(np.int64),
        np.asarray(tree.default_left, dtype=bool),
    )


def _open_part(source: _Regions, reach: _Reach) -> _Regions:
    """Leave out the regions that no number reaches, and join neighbours with the same child."""
    ends: list[float] = []
    children: list[int] = []
    start = -np.inf
    for end, child in zip((*source.ends, np.inf), source.children, strict=True):
        if max(start, reach.low) < min(end, reach.high):
            # A region with the same child as its neighbour only moves the neighbour's end.
            if children and children[-1] == child:
                ends[-1] = end
            else:
                children.append(child)
                ends.append(end)
        start = end
    return source._replace(ends=tuple(ends[:-1]), children=tuple(children))


def plain_trees(trees: Trees, feature_names: Sequence[str], form: Form) -> list[PlainTree]:
    """Return trees in plain form; a forest without trees becomes a leaf of 0, because formats need a tree.

    Raise ValueError, naming the feature, if a file would grow too large or too deep.

    Examples
    --------
    >>> stump = TreeArrays(*(np.array([x]) for x in (0, 0.1, 0, AS_ZERO, False, -1, -2)), (np.empty(0),),
    ...                    np.array([1.0, -1.0]), np.array([3.0]))
    >>> tree = plain_trees([stump], ["age"], Form(single=True))[0]
    >>> tree.bound, tree.missing_left, tree.value
    ([0.09999999403953552], [True], [1.0, -1.0])
    """
    builder = _Builder(form, feature_names, sum(len(tree.feature) for tree in trees))
    plain = [builder.build(number, tree) for number, tree in enumerate(trees)]
    return plain or [PlainTree([], [], [], [], [], [], [], [], [0.0])]


def missing_left(tree: TreeArrays) -> NDArray[np.bool_]:
    """Return which nodes send missing values left; a missing category that is read as 0 is looked up in the set."""
    _, kind = _rules(tree)
    default_left = np.asarray(tree.default_left, dtype=bool)
    # The categories of a set ascend, so 0 can only be the first of them.
    has_zero = np.array([len(codes) > 0 and codes[0] == 0 for codes in tree.categories], dtype=bool)
    set_left = np.where(np.asarray(tree.missing) == AS_ZERO, has_zero, default_left)
    number_left = np.where(kind == SPECIAL, default_left, kind == MISSING_LEFT)
    left: NDArray[np.bool_] = np.where(np.asarray(tree.decision) == AMONG, set_left, number_left)
    return left.astype(bool)


def numeric_bounds(tree: TreeArrays) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return feature and bound of each numeric split, also of the splits that set zeros apart."""
    bound, kind = _rules(tree)
    feature = np.asarray(tree.feature)
    numeric = np.asarray(tree.decision) != AMONG
    # A split that sets zeros apart has two more bounds, on both sides of zero.
    zeros = feature[numeric & (kind == SPECIAL)]
    features = np.concatenate([feature[numeric], zeros, zeros])
    ends = np.repeat([_JUST_BELOW_ZERO, ZERO], len(zeros))
    return features, np.concatenate([bound[numeric], ends])


def refuse_categories(trees: Trees, feature_names: Sequence[str], target: str) -> None:
    """Raise ValueError, naming the features, if a tree splits categories and a target has only numbers."""
    columns = sorted(
        {int(column) for tree in trees for column in tree.feature[tree.decision == AMONG]}
    )
    if columns:
        names = ", ".join(repr(feature_names[column]) for column in columns)
        raise ValueError(
            f"{target} has no splits on categories, and the model has some on {names}. Encode these columns as "
            "numbers before training (one column per category), or export to a target that has them, such as vespa."
        )


def zero_note(trees: Trees, target: str) -> list[str]:
    """Return a warning with the number of splits that differ because missing values are read as 0, if there are any."""
    changed = 0
    for tree in trees:
        bound, kind = _rules(tree)
        # A split agrees with the target if missing values go to the same side as zeros.
        zero_left = bound >= 0
        changed += int(np.sum((zero_left != missing_left(tree)) & (kind != SPECIAL)))
    if not changed:
        return []
    total = sum(len(tree.feature) for tree in trees)
    return [
        f"{target} reads a missing value as 0: {changed} of {total} splits send missing values elsewhere than 0, and "
        "rows with missing values may get another score. Fill missing values with 0 before training to avoid it."
    ]
