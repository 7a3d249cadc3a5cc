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
_MOST_FEATURES = 1 << 24
_LARGEST_COVER = float(np.finfo(np.float32).max)  # XGBoost holds covers in single precision
_INTEGERS, _NUMBERS, _FLAGS = "whole numbers", "numbers", "0 or 1"
_FIELDS = {
    "column": _INTEGERS,
    "threshold": _NUMBERS,  # null where only missing values go right, or where there are categories
    "categories": "",  # null, or the list of those that go left
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


class Forest(PackedForest):
    """Trees as plain arrays; `rankwright.engines.contract.Forest` describes each name."""

    def __init__(self, trees: Sequence[GrownTree], n_features: int) -> None:
        self._trees = tuple(trees)
        self._n_features = n_features

    @classmethod
    def load(cls, content: bytes) -> Forest:
        """Read a model file and check every tree."""
        try:
            document = json.loads(content.decode())
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
            forest = cls(
                [_read(tree, number) for number, tree in enumerate(document["trees"])], n_features
            )
            forest.packed  # noqa: B018 (computed, and thereby checked)
        except (ValueError, OverflowError, RecursionError) as error:
            reason = (
                "it is nested too deeply"
                if isinstance(error, RecursionError)
                else str(error).rstrip(".")
            )
            raise ValueError(
                f"the model file of trees cannot be read: {reason}; it was damaged."
            ) from None
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

    def first(self, n_trees: int) -> Forest:
        """Keep the first trees only."""
        return self if n_trees >= self.n_trees else Forest(self._trees[:n_trees], self.n_features)

    def scaled(self, factor: float) -> Forest:
        """Multiply all leaf values."""
        if factor == 1.0:
            return self
        scaled = [
            tree._replace(arrays=tree.arrays._replace(value=factor * tree.arrays.value))
            for tree in self._trees
        ]
        return Forest(scaled, self.n_features)

    def joined(self, other: Forest) -> Forest:
        """Append the trees of another forest with the same columns."""
        return Forest(self._trees + other._trees, self.n_features)

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
    is_set = (arrays.decision == AMONG).tolist()
    bounds = np.where(is_set, np.inf, arrays.threshold).tolist()
    return {
        "column": arrays.feature.tolist(),
        "threshold": [bound if math.isfinite(bound) else None for bound in bounds],
        "categories": [
            list(map(int, arrays.categories[node])) if c else None for node, c in enumerate(is_set)
        ],
        "missing_left": arrays.default_left.astype(int).tolist(),
        "left": arrays.left.tolist(),
        "right": arrays.right.tolist(),
        "gain": arrays.gain.tolist(),
        "value": arrays.value.tolist(),
        "leaf_cover": tree.leaf_cover.tolist(),
    }


def _read(tree: Any, number: int) -> GrownTree:
    if not isinstance(tree, dict) or tree.keys() != _FIELDS.keys():
        raise ValueError(f"tree {number} does not have the fields {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        values, size = tree[name], len(tree["value"]) - (name not in ("value", "leaf_cover"))
        if not isinstance(values, list) or len(values) != size:
            raise ValueError(f"tree {number}: {name} is not a list of {size} entries")
        if kind and not all(_fits(value, kind, name) for value in values):
            raise ValueError(f"tree {number}: {name} holds something else than {kind}")
    is_set = np.array([known is not None for known in tree["categories"]], dtype=bool)
    for known in tree["categories"]:
        is_list = isinstance(known, list) and all(
            type(code) is int and 0 <= code < 2**31 for code in known
        )
        if known is not None and not (is_list and known == sorted(set(known))):
            raise ValueError(f"tree {number}: categories are not ascending numbers from 0")
    nothing = np.empty(0, dtype=np.int64)
    threshold = [math.inf if bound is None else float(bound) for bound in tree["threshold"]]
    arrays = TreeArrays(
        feature=np.array(tree["column"], dtype=np.int32),
        threshold=np.where(is_set, 0.0, threshold),
        decision=np.where(is_set, AMONG, AT_MOST).astype(np.uint8),
        missing=np.full(len(is_set), NAN_TO_DEFAULT, dtype=np.uint8),
        default_left=np.array(tree["missing_left"], dtype=bool),
        left=np.array(tree["left"], dtype=np.int32),
        right=np.array(tree["right"], dtype=np.int32),
        categories=tuple(
            nothing if known is None else np.array(known, dtype=np.int64)
            for known in tree["categories"]
        ),
        value=np.array(tree["value"], dtype=np.float64),
        gain=np.array(tree["gain"], dtype=np.float64),
    )
    leaf_cover = np.array(tree["leaf_cover"], dtype=np.float64)
    if np.any(leaf_cover < 0):
        raise ValueError(f"tree {number}: a cover is below 0")
    if np.any(leaf_cover > _LARGEST_COVER):
        raise ValueError(f"tree {number}: a cover is not a number of 32 bits")
    return GrownTree(arrays, leaf_cover)


def _fits(value: Any, kind: str, name: str) -> bool:
    """Tell whether an entry is of its kind; numbers are finite."""
    if kind == _NUMBERS:
        if value is None:
            return name == "threshold"
        return type(value) is int or (type(value) is float and math.isfinite(value))
    return type(value) is int and (value in (0, 1) if kind == _FLAGS else -(2**31) <= value < 2**31)
