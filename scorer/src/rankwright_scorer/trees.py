"""Trees as plain arrays: read from the two files of trees, checked, and walked by all rows at once.

A node sends a row to the left if its feature x is at most a threshold, or if x is in a set of
categories. |x| <= ZERO counts as 0. A missing value (NaN) goes to the node's default side, or is read
as 0. Some nodes send zeros to the default side too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ZERO = float(np.float32(1e-35))
_WORD = 32  # categories per word of a set
_MOST_CATEGORY = 1 << 20  # a set takes a bit for each number up to its largest
_LARGEST = float(np.finfo(np.float64).max)
# Steps of rows through trees that are taken at once, which bounds the memory.
_LANES_AT_ONCE = 1 << 18
# How a LightGBM node treats missing values: bits 2 and 3 of its rule.
_AS_ZERO, _ZERO_TO_DEFAULT = 0, 1


class Tree(NamedTuple):
    """A tree. Children are numbers of nodes, or ~leaf for a leaf; the root is node 0."""

    feature: NDArray[np.int64]  # [nodes]
    threshold: Floats  # infinite if only missing values go right [nodes]
    is_set: NDArray[np.bool_]  # whether a set of categories decides [nodes]
    sets: list[NDArray[np.uint32]]  # the categories that go left, as bits [nodes]
    missing_left: NDArray[np.bool_]  # [nodes]
    zero_to_default: NDArray[np.bool_]  # whether zeros go the way of missing values [nodes]
    left: NDArray[np.int64]  # [nodes]
    right: NDArray[np.int64]  # [nodes]
    value: Floats  # [leaves]


class Trees:
    """The trees of a model in one set of arrays.

    Parameters
    ----------
    trees
        The trees.
    n_features
        Number of columns that nodes may look at.
    """

    def __init__(self, trees: list[Tree], n_features: int) -> None:
        for number, tree in enumerate(trees):
            _check(tree, number, n_features)
        self.n_features = n_features
        n_nodes = np.array([len(tree.feature) for tree in trees], dtype=np.int64)
        n_leaves = np.array([len(tree.value) for tree in trees], dtype=np.int64)
        first_node, first_leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(n_leaves) - n_leaves
        # A tree without nodes starts at its leaf.
        self._root = np.where(n_nodes > 0, first_node, ~first_leaf)
        self._value = _joined([tree.value for tree in trees], np.float64)
        self._feature = _joined([tree.feature for tree in trees], np.int64)
        # Numbers are finite, so an infinite threshold and the largest number decide the same.
        threshold = _joined([tree.threshold for tree in trees], np.float64)
        self._threshold = np.minimum(threshold, _LARGEST)
        missing_left = _joined([tree.missing_left for tree in trees], np.bool_)
        # In place of a missing value a node compares a number that goes to its side.
        self._missing = np.where(missing_left, -np.inf, np.inf)
        self._missing_left = missing_left
        # The left and the right child of a node are neighbours.
        children = np.stack(
            [
                _joined([getattr(tree, side) for tree in trees], np.int64)
                for side in ("left", "right")
            ],
            axis=1,
        )
        node_shift, leaf_shift = np.repeat(first_node, n_nodes), np.repeat(first_leaf, n_nodes)
        self._children = np.where(
            children >= 0, children + node_shift[:, None], children - leaf_shift[:, None]
        ).ravel()
        self._is_set = _joined([tree.is_set for tree in trees], np.bool_)
        apart = _joined([tree.zero_to_default for tree in trees], np.bool_)
        apart &= (self._threshold >= 0) != missing_left
        # Few models have nodes with another rule than a comparison.
        self._special = self._is_set | apart
        self._any_special = bool(self._special.any())
        words = [words for tree in trees for words in tree.sets]
        self._set_start = np.append(0, np.cumsum([len(part) for part in words])).astype(np.int64)
        self._words = _joined(words, np.uint32)

    def add(self, X: Floats, scores: Floats) -> None:
        """Add the trees to the score of each row of X, in the order of the trees."""
        n_rows = max(1, _LANES_AT_ONCE // max(1, len(self._root)))
        for start in range(0, len(X), n_rows):
            block = X[start : start + n_rows]
            total = scores[start : start + n_rows]
            # Sums of floating-point numbers depend on the order, so the trees take turns.
            for values in self._value[self._leaves(block)]:
                total += values

    def _leaves(self, X: Floats) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree [trees, rows]."""
        n_trees, n_rows = len(self._root), len(X)
        cells = np.where(np.abs(X) <= ZERO, 0.0, X).ravel()
        # A lane is a row in a tree, on its way down.
        leaves = np.repeat(self._root, n_rows)
        lanes = np.flatnonzero(leaves >= 0)
        node = leaves[lanes]
        row = np.tile(np.arange(n_rows) * X.shape[1], n_trees)[lanes]
        while len(lanes):
            x = cells[row + self._feature[node]]
            missing = np.isnan(x)
            if missing.any():
                x = np.where(missing, self._missing[node], x)
            right = x > self._threshold[node]
            if self._any_special:
                self._decide_special(node, x, right)
            node = self._children[2 * node + right]
            leaves[lanes] = node
            inside = node >= 0
            lanes, node, row = lanes[inside], node[inside], row[inside]
        return ~leaves.reshape(n_trees, n_rows)

    def _decide_special(self, node: NDArray[Any], x: Floats, right: NDArray[np.bool_]) -> None:
        """Correct the decisions of nodes that split categories, or set zeros apart."""
        special = np.flatnonzero(self._special[node])
        node, x = node[special], x[special]
        is_right = right[special]
        is_right[x == 0] = ~self._missing_left[node[x == 0]]
        in_set = self._is_set[node]
        # An infinite x stands for a missing value here.
        missing_right = ~self._missing_left[node]
        is_right[in_set] = missing_right[in_set]
        some = np.flatnonzero(in_set & np.isfinite(x))
        is_right[some] = ~self._has_category(node[some], x[some])
        right[special] = is_right

    def _has_category(self, node: NDArray[Any], x: Floats) -> NDArray[np.bool_]:
        start, stop = self._set_start[node], self._set_start[node + 1]
        known = (x > -1.0) & (x < (stop - start) * float(_WORD))
        found = np.zeros(len(x), dtype=bool)
        category = x[known].astype(np.int64)
        words = self._words[start[known] + category // _WORD]
        found[known] = (words >> (category % _WORD).astype(np.uint32)) & 1
        return found


def _joined(parts: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype)


def _check(tree: Tree, number: int, n_features: int) -> None:
    """Raise ValueError unless a tree can be walked."""
    n = len(tree.feature)
    sizes = {len(entries) for entries in tree[1:-1]}
    # If each node but the root is the child of one node, every walk from the root ends at a leaf.
    children = np.sort(np.concatenate([tree.left, tree.right]))
    expected = np.concatenate([np.arange(-n - 1, 0), np.arange(1, n)])[: 2 * n]
    whole = sizes <= {n} and len(tree.value) == n + 1 and np.array_equal(children, expected)
    columns = ((tree.feature >= 0) & (tree.feature < n_features)).all()
    numbers = np.isfinite(tree.value).all() and not np.isnan(tree.threshold).any()
    if not (whole and columns and numbers):
        raise ValueError(f"tree {number} is not a tree over {n_features} columns; it was damaged.")


def read_lightgbm(content: bytes) -> Trees:
    """Read LightGBM's model text."""
    head, mark, rest = content.decode().partition("tree_sizes=")
    body, end, _ = rest.partition("end of trees")
    fields = _fields(head)
    if not (mark and end) or fields.get("num_tree_per_iteration") != "1":
        raise ValueError("the model text is not one of a ranker; it was damaged.")
    texts = re.split(r"(?m)^Tree=\d+\n", body)[1:]
    return Trees(list(map(_lightgbm_tree, texts)), int(fields["max_feature_idx"]) + 1)


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value`` of a text."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _lightgbm_tree(text: str) -> Tree:
    fields = _fields(text)

    def numbers(name: str, dtype: type) -> NDArray[Any]:
        return np.array(fields.get(name, "").split(), dtype=dtype)

    if fields.get("is_linear", "0") != "0":
        raise ValueError("a tree has linear leaves, which rankwright does not train.")
    rule, threshold = numbers("decision_type", np.int64), numbers("threshold", np.float64)
    is_set = (rule & 1) != 0
    missing = rule >> 2 & 3
    default_left = (rule & 2) != 0
    # A missing category goes right, and a missing number that is read as 0 goes the way of 0.
    missing_left = ~is_set & np.where(missing == _AS_ZERO, threshold >= 0, default_left)
    bounds, words = numbers("cat_boundaries", np.int64), numbers("cat_threshold", np.uint32)
    sets = [np.empty(0, dtype=np.uint32)] * len(rule)
    for node in np.flatnonzero(is_set):
        # The threshold of such a node is the number of its set.
        start, stop = bounds[int(threshold[node])], bounds[int(threshold[node]) + 1]
        sets[node] = words[start:stop]
    return Tree(
        feature=numbers("split_feature", np.int64),
        threshold=threshold,
        is_set=is_set,
        sets=sets,
        missing_left=missing_left,
        zero_to_default=~is_set & (missing == _ZERO_TO_DEFAULT),
        left=numbers("left_child", np.int64),
        right=numbers("right_child", np.int64),
        value=numbers("leaf_value", np.float64),
    )


def read_json(content: bytes) -> Trees:
    """Read the file of the trees that XGBoost grew."""
    document = json.loads(content)
    if document.get("format") != "rankwright trees" or document.get("version") != 1:
        raise ValueError("the file of trees has another format or version; upgrade the scorer.")
    return Trees(list(_json_trees(document["trees"])), int(document["columns"]))


def _json_trees(entries: list[dict[str, Any]]) -> Iterator[Tree]:
    for entry in entries:
        thresholds = [np.inf if number is None else number for number in entry["threshold"]]
        is_set = np.array([codes is not None for codes in entry["categories"]], dtype=bool)
        yield Tree(
            feature=np.array(entry["column"], dtype=np.int64),
            threshold=np.array(thresholds, dtype=np.float64),
            is_set=is_set,
            sets=[_bits(codes or []) for codes in entry["categories"]],
            missing_left=np.array(entry["missing_left"], dtype=bool),
            zero_to_default=np.zeros(len(is_set), dtype=bool),
            left=np.array(entry["left"], dtype=np.int64),
            right=np.array(entry["right"], dtype=np.int64),
            value=np.array(entry["value"], dtype=np.float64),
        )


def _bits(codes: list[int]) -> NDArray[np.uint32]:
    """Return a set of categories as the bits of words."""
    numbers = np.array(codes, dtype=np.int64)
    if len(codes) and not 0 <= numbers.min() <= numbers.max() <= _MOST_CATEGORY:
        raise ValueError(f"a category is not a number from 0 to {_MOST_CATEGORY}; it was damaged.")
    words = np.zeros(int(numbers.max(initial=-1)) // _WORD + 1, dtype=np.uint32)
    np.bitwise_or.at(words, numbers // _WORD, np.uint32(1) << (numbers % _WORD).astype(np.uint32))
    return words
