"""A forest as LightGBM's model text, read and rewritten without the library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.engines.scoring import PackedForest
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    LARGEST_CATEGORY,
    NAN_TO_DEFAULT,
    WORD,
    ZERO_TO_DEFAULT,
    TreeArrays,
)

Floats = NDArray[np.float64]

_TREES_END = "end of trees"
_MOST_FEATURES = 1 << 24
_MOST_ROWS = 2**31 - 1
_MOST_WORDS = LARGEST_CATEGORY // WORD + 1  # of a set
_FREE = re.compile(r"\[(num_threads|force_col_wise): \d+\]")  # parameters that change no tree
_LEAF_VALUES = re.compile(r"^leaf_value=(.*)$", re.M)
_GAINS = re.compile(r"^split_gain=(.*)$", re.M)
_SPLIT_COUNTS = re.compile(r"^feature_importances:\n(?:[^\n]+\n)*\n", re.M)
_MISSING = {0: AS_ZERO, 1: ZERO_TO_DEFAULT, 2: NAN_TO_DEFAULT}  # bits 2 and 3 of a decision_type


class LightGBMForest(PackedForest):
    """Trees as LightGBM's model text; `rankwright.engines.contract.Forest` describes each name.

    Parameters
    ----------
    head
        The text before the trees: names and ranges of the columns.
    trees
        The text of each tree, without its number.
    tail
        The text after the trees: the parameters of the training.
    """

    def __init__(self, head: str, trees: Sequence[str], tail: str) -> None:
        self._head = head
        self._trees = tuple(trees)
        self._tail = tail

    @classmethod
    def of_text(cls, text: str) -> LightGBMForest:
        """Split a model text into its parts; `load` also checks the trees."""
        head, mark, rest = text.partition("tree_sizes=")
        body, end, tail = rest.partition(_TREES_END)
        if not (mark and end and head.startswith("tree\n")):
            raise ValueError(
                "the model text is not one of LightGBM: its head, its trees or their end are missing."
            )
        trees = [tree.rstrip("\n") for tree in re.split(r"(?m)^Tree=\d+\n", body)[1:]]
        return cls(_with_objective(head), trees, _FREE.sub(r"[\1: 0]", end + tail))

    @classmethod
    def load(cls, content: bytes) -> LightGBMForest:
        """Read a model file and check every tree."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ValueError("the model text is not text; the file was damaged.") from None
        forest = cls.of_text(text)
        try:
            fields = _fields(forest._head)
            if fields.get("num_tree_per_iteration") != "1" or "average_output" in forest._head:
                raise ValueError("it has several outputs, or averages its trees")
            if (
                not 1 <= forest.n_features <= _MOST_FEATURES
                or len(fields["feature_names"].split(" ")) != forest.n_features
            ):
                raise ValueError(
                    f"it does not have a name for each of {forest.n_features} features"
                )
            forest.packed  # noqa: B018 (computed, and thereby checked)
        except (KeyError, ValueError, OverflowError) as error:
            raise ValueError(f"the model text of LightGBM cannot be read: {error}") from None
        return forest

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self._trees)

    @cached_property
    def n_features(self) -> int:
        """Number of columns."""
        return int(_fields(self._head)["max_feature_idx"]) + 1

    def trees(self) -> Iterator[TreeArrays]:
        """Yield each tree as plain arrays."""
        return map(tree_arrays, self._trees)

    def leaf_covers(self) -> Iterator[Floats]:
        """Yield the number of training rows in each leaf, tree by tree."""
        return map(leaf_rows, self._trees)

    def first(self, n_trees: int) -> LightGBMForest:
        """Keep the first trees only."""
        if n_trees >= self.n_trees:
            return self
        return LightGBMForest(self._head, self._trees[:n_trees], self._tail)

    def scaled(self, factor: float) -> LightGBMForest:
        """Multiply all leaf values."""
        if factor == 1.0:
            return self
        scaled = [with_values(tree, factor * tree_values(tree)) for tree in self._trees]
        return LightGBMForest(self._head, scaled, self._tail)

    def joined(self, other: LightGBMForest) -> LightGBMForest:
        """Append the trees of another forest with the same columns."""
        return LightGBMForest(self._head, self._trees + other._trees, other._tail)

    def finished(self, trees: Iterable[tuple[int, Floats, float]]) -> LightGBMForest:
        """Keep some trees, by number, with other leaf values and with gains multiplied by a factor."""
        texts = [
            with_gains_scaled(with_values(self._trees[number], values), factor)
            for number, values, factor in trees
        ]
        return LightGBMForest(self._head, texts, self._tail)

    def dump(self) -> bytes:
        """Return the model text, as LightGBM would write it."""
        blocks = [f"Tree={number}\n{tree}\n\n\n" for number, tree in enumerate(self._trees)]
        sizes = " ".join(str(len(block.encode())) for block in blocks)
        tail = _SPLIT_COUNTS.sub(lambda _: self._split_counts(), self._tail, count=1)
        return f"{self._head}tree_sizes={sizes}\n\n{''.join(blocks)}{tail}".encode()

    def _split_counts(self) -> str:
        """Return the block of the text that lists how often each column is split."""
        names = _fields(self._head)["feature_names"].split(" ")
        counts = self.importances("split").astype(int)
        used = sorted(np.flatnonzero(counts), key=lambda column: -counts[column])
        return "feature_importances:\n" + "".join(f"{names[c]}={counts[c]}\n" for c in used) + "\n"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again when a model is pickled or copied."""
        return {"_head": self._head, "_trees": self._trees, "_tail": self._tail}


def _with_objective(head: str) -> str:
    """Name an objective that converters know.

    A model trained with custom gradients has no ``objective``, and ONNX converters and Vespa fail without it. A model
    of ``lambdarank`` predicts the plain sum of trees, as ours does.
    """
    if re.search(r"^objective=", head, re.M):
        return head
    return head.replace("feature_names=", "objective=lambdarank\nfeature_names=", 1)


def _fields(text: str) -> dict[str, str]:
    """Return the lines ``name=value`` of a text."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def tree_values(tree: str) -> Floats:
    """Return the leaf values of a tree's text."""
    match = _LEAF_VALUES.search(tree)
    if match is None:
        raise ValueError("a tree has no leaf values")
    return np.array(match.group(1).split(), dtype=np.float64)


def with_values(tree: str, values: Floats) -> str:
    """Return a tree's text with other leaf values, all their digits written."""
    return _LEAF_VALUES.sub(
        lambda _: "leaf_value=" + " ".join(map(repr, values.tolist())), tree, count=1
    )


def with_gains_scaled(tree: str, factor: float) -> str:
    """Return a tree's text with its gains multiplied by a factor, in as many digits as LightGBM writes."""
    if factor == 1.0:
        return tree

    def scaled(match: re.Match[str]) -> str:
        return "split_gain=" + " ".join(
            f"{factor * float(gain):g}" for gain in match.group(1).split()
        )

    return _GAINS.sub(scaled, tree, count=1)


def leaf_rows(tree: str) -> Floats:
    """Read the numbers of training rows in the leaves of a tree's text."""
    n_leaves = len(tree_values(tree))
    if n_leaves == 1:
        return np.ones(1)
    try:
        counts = [int(count) for count in _fields(tree).get("leaf_count", "").split()]
        rows = np.array(counts, dtype=np.int64)
    except (ValueError, OverflowError):
        raise ValueError("a tree's numbers of rows are not whole numbers") from None
    if rows.shape != (n_leaves,) or rows.min() < 1 or max(rows.max(), rows.sum()) > _MOST_ROWS:
        raise ValueError(
            "a tree does not have a number of rows for each leaf, "
            "without which it has no SHAP values"
        )
    return rows.astype(np.float64)


def tree_arrays(tree: str) -> TreeArrays:
    """Read a tree's text."""
    fields = _fields(tree)

    def numbers(name: str, convert: type) -> list[Any]:
        return [convert(number) for number in fields.get(name, "").split()]

    if fields.get("is_linear", "0") != "0":
        raise ValueError("a tree has linear leaves")
    rule = np.array(numbers("decision_type", int), dtype=np.int64)
    threshold = np.array(numbers("threshold", float))
    if len(rule) != len(threshold):
        raise ValueError(f"a tree has {len(threshold)} thresholds and {len(rule)} rules")
    is_set = (rule & 1) != 0
    kinds = (rule >> 2 & 3).tolist()
    if not _MISSING.keys() >= set(kinds):
        raise ValueError("a node treats missing values in an unknown way")
    missing = [_MISSING[kind] for kind in kinds]
    categories = _category_sets(
        is_set, threshold, numbers("cat_boundaries", int), numbers("cat_threshold", int)
    )
    # LightGBM holds gains in single precision. Larger gains become infinite, and `pack` refuses them.
    with np.errstate(over="ignore"):
        gain = np.array(numbers("split_gain", float), dtype=np.float32).astype(np.float64)
    return TreeArrays(
        feature=np.array(numbers("split_feature", int), dtype=np.int32),
        threshold=np.where(is_set, 0.0, threshold),
        decision=np.where(is_set, AMONG, AT_MOST).astype(np.uint8),
        # LightGBM sends a missing category to the right, whatever the rest of the rule says.
        missing=np.where(is_set, NAN_TO_DEFAULT, missing).astype(np.uint8),
        default_left=~is_set & ((rule & 2) != 0),
        left=np.array(numbers("left_child", int), dtype=np.int32),
        right=np.array(numbers("right_child", int), dtype=np.int32),
        categories=tuple(categories),
        value=tree_values(tree),
        gain=gain,
    )


def _category_sets(
    is_set: NDArray[np.bool_], threshold: Floats, bounds: list[int], words: list[int]
) -> list[NDArray[np.int64]]:
    """Return the categories that go left at each node, none at nodes that split numbers.

    The threshold of a node with a set is the number s of the set, whose bits are in ``words[bounds[s]:bounds[s + 1]]``.
    """
    categories = [np.empty(0, dtype=np.int64)] * len(is_set)
    nodes = np.flatnonzero(is_set)
    # Each set belongs to one node, or many nodes with one large set would take any amount of memory.
    if len(set(threshold[nodes].tolist())) != len(nodes) or bounds != sorted(bounds):
        raise ValueError("two nodes share a set of categories, or sets overlap")
    for node in nodes:
        if not 0 <= threshold[node] < len(bounds) - 1:
            raise ValueError("a node's set of categories does not exist")
        number = int(threshold[node])
        start, stop = bounds[number], bounds[number + 1]
        if not 0 <= start <= stop <= len(words):
            raise ValueError("a node's set of categories does not exist")
        if stop - start > _MOST_WORDS:
            raise ValueError(f"a node has a category above {LARGEST_CATEGORY}")
        bits = np.array(words[start:stop], dtype=np.uint32)[:, None]
        categories[node] = np.flatnonzero(bits >> np.arange(WORD, dtype=np.uint32) & 1)
    return categories
