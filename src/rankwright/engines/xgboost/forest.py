"""A forest of plain arrays, and the file it is kept in: JSON with all digits, read without XGBoost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.engines.scoring import PackedForest
from rankwright.kernels.tree_arrays import AMONG, AT_MOST, NAN_TO_DEFAULT, TreeArrays

Floats = NDArray[np.float64]

_FORMAT, _VERSION = "rankwright trees", 1
_DAMAGED = "the model file of trees cannot be read: {}; it was damaged."
_MOST_FEATURES = 1 << 24
_LARGEST_COVER = float(np.finfo(np.float32).max)  # XGBoost holds covers in single precision
_INTEGERS, _NUMBERS, _FLAGS = "whole numbers", "numbers", "0 or 1"
_FIELDS = {
    "column": _INTEGERS,
    "threshold": _NUMBERS,  # null if only missing values go right, or if the node splits categories
    "categories": "",  # null, or the list of the categories that go left
    "missing_left": _FLAGS,
    "left": _INTEGERS,
    "right": _INTEGERS,
    "gain": _NUMBERS,
    "value": _NUMBERS,
    "leaf_cover": _NUMBERS,
}


class GrownTree(NamedTuple):
    """A tree, and the sum of Hessians in each leaf. SHAP values weight paths by it."""

    arrays: TreeArrays
    leaf_cover: Floats  # [leaves]


class XGBoostForest(PackedForest):
    """Trees as plain arrays; `rankwright.engines.contract.Forest` describes each name."""

    def __init__(self, trees: Sequence[GrownTree], n_features: int) -> None:
        self._trees = tuple(trees)
        self._n_features = n_features

    @classmethod
    def load(cls, content: bytes) -> XGBoostForest:
        """Read a model file and check every tree."""
        try:
            document = json.loads(content.decode())
            _check_document(document)
            trees = [_read(tree, number) for number, tree in enumerate(document["trees"])]
            forest = cls(trees, document["columns"])
            forest.packed  # noqa: B018 (computed, and thereby checked)
        except RecursionError:
            raise ValueError(_DAMAGED.format("it is nested too deeply")) from None
        except (ValueError, OverflowError) as error:
            raise ValueError(_DAMAGED.format(str(error).rstrip("."))) from None
        return forest

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self._trees)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self._n_features

    def trees(self) -> Iterator[TreeArrays]:
        """Yield each tree as plain arrays."""
        return (tree.arrays for tree in self._trees)

    def leaf_covers(self) -> Iterator[Floats]:
        """Yield the curvature of the training rows in each leaf, tree by tree."""
        return (tree.leaf_cover for tree in self._trees)

    def first(self, n_trees: int) -> XGBoostForest:
        """Keep the first trees only."""
        if n_trees >= self.n_trees:
            return self
        return XGBoostForest(self._trees[:n_trees], self.n_features)

    def scaled(self, factor: float) -> XGBoostForest:
        """Multiply all leaf values."""
        if factor == 1.0:
            return self
        scaled = [
            tree._replace(arrays=tree.arrays._replace(value=factor * tree.arrays.value))
            for tree in self._trees
        ]
        return XGBoostForest(scaled, self.n_features)

    def joined(self, other: XGBoostForest) -> XGBoostForest:
        """Append the trees of another forest with the same columns."""
        return XGBoostForest(self._trees + other._trees, self.n_features)

    def dump(self) -> bytes:
        """Return the content of a model file: a line for each tree."""
        head = {"format": _FORMAT, "version": _VERSION, "columns": self.n_features}
        lines = ",\n".join(
            json.dumps(_written(tree), allow_nan=False, separators=(",", ":"))
            for tree in self._trees
        )
        return f'{json.dumps(head)[:-1]}, "trees": [\n{lines}\n]}}\n'.encode()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again when a model is pickled or copied."""
        return {"_trees": self._trees, "_n_features": self._n_features}


def _written(tree: GrownTree) -> dict[str, Any]:
    arrays = tree.arrays
    thresholds: list[float | None] = arrays.threshold.tolist()
    categories: list[list[int] | None] = [None] * len(thresholds)
    for node, decision in enumerate(arrays.decision.tolist()):
        if decision == AMONG:
            categories[node] = list(map(int, arrays.categories[node]))
        # JSON has no infinity.
        if decision == AMONG or not math.isfinite(arrays.threshold[node]):
            thresholds[node] = None
    return {
        "column": arrays.feature.tolist(),
        "threshold": thresholds,
        "categories": categories,
        "missing_left": arrays.default_left.astype(int).tolist(),
        "left": arrays.left.tolist(),
        "right": arrays.right.tolist(),
        "gain": arrays.gain.tolist(),
        "value": arrays.value.tolist(),
        "leaf_cover": tree.leaf_cover.tolist(),
    }


def _check_document(document: Any) -> None:
    """Raise ValueError unless a model file has the head of this format and a list of trees."""
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"it does not say that its format is {_FORMAT!r}")
    if document.get("version") != _VERSION:
        raise ValueError(
            f"it has version {document.get('version')!r} of the format, not {_VERSION}"
        )
    n_features = document.get("columns")
    if type(n_features) is not int or not 1 <= n_features <= _MOST_FEATURES:
        raise ValueError(f"it has {n_features!r} columns")
    if not isinstance(document.get("trees"), list):
        raise ValueError("it has no list of trees")


def _read(tree: Any, number: int) -> GrownTree:
    """Read the tree of this number from its entry in the file."""
    try:
        _check_fields(tree)
        categories = [_category_set(codes) for codes in tree["categories"]]
        leaf_cover = _covers(tree["leaf_cover"])
    except ValueError as error:
        raise ValueError(f"tree {number}{error}") from None
    is_set = np.array([codes is not None for codes in tree["categories"]], dtype=bool)
    threshold = [math.inf if bound is None else float(bound) for bound in tree["threshold"]]
    arrays = TreeArrays(
        feature=np.array(tree["column"], dtype=np.int32),
        threshold=np.where(is_set, 0.0, threshold),
        decision=np.where(is_set, AMONG, AT_MOST).astype(np.uint8),
        missing=np.full(len(is_set), NAN_TO_DEFAULT, dtype=np.uint8),
        default_left=np.array(tree["missing_left"], dtype=bool),
        left=np.array(tree["left"], dtype=np.int32),
        right=np.array(tree["right"], dtype=np.int32),
        categories=tuple(categories),
        value=np.array(tree["value"], dtype=np.float64),
        gain=np.array(tree["gain"], dtype=np.float64),
    )
    return GrownTree(arrays, leaf_cover)


def _check_fields(tree: Any) -> None:
    """Raise ValueError unless a tree has all fields, of the right lengths and types."""
    if not isinstance(tree, dict) or tree.keys() != _FIELDS.keys():
        raise ValueError(f" does not have the fields {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        values, size = tree[name], len(tree["value"])
        if name not in ("value", "leaf_cover"):
            size -= 1  # a tree has one node fewer than leaves
        if not isinstance(values, list) or len(values) != size:
            raise ValueError(f": {name} is not a list of {size} entries")
        if kind and not all(_fits(value, kind, name) for value in values):
            raise ValueError(f": {name} holds something else than {kind}")


def _category_set(codes: Any) -> NDArray[np.int64]:
    """Return the categories that go left, none if a node splits numbers."""
    if codes is None:
        return np.empty(0, dtype=np.int64)
    is_list = isinstance(codes, list) and all(
        type(code) is int and 0 <= code < 2**31 for code in codes
    )
    if not is_list or codes != sorted(set(codes)):
        raise ValueError(": categories are not ascending numbers from 0")
    return np.array(codes, dtype=np.int64)


def _covers(values: list[Any]) -> Floats:
    covers = np.array(values, dtype=np.float64)
    if np.any(covers < 0):
        raise ValueError(": a cover is below 0")
    if np.any(covers > _LARGEST_COVER):
        raise ValueError(": a cover is not a number of 32 bits")
    return covers


def _fits(value: Any, kind: str, name: str) -> bool:
    """Return True if an entry is of its kind; numbers must be finite."""
    if kind == _NUMBERS:
        if value is None:
            return name == "threshold"
        return type(value) is int or (type(value) is float and math.isfinite(value))
    if kind == _FLAGS:
        return type(value) is int and value in (0, 1)
    return type(value) is int and -(2**31) <= value < 2**31
