"""Solr's learning-to-rank module: ``MultipleAdditiveTreesModel``.

    {"class", "name", "features": [{"name"}], "store",
     "params": {"isNullSameAsZero": false, "trees": [{"weight", "root"}]}}
    split  {"feature", "threshold", "missing": "left" or "right", "left", "right"}
    leaf   {"value"}

Numbers are strings. A document goes left if its feature, in 32 bits, is at most threshold + 0.000001, computed in 32
bits. Missing values (NaN) go by ``missing`` where ``isNullSameAsZero`` is false, from Solr 9.2 on (SOLR-16596); before,
there is neither key, and a missing feature is its default value, 0.

The slack of 0.000001 blurs thresholds: sums of a 32-bit number and 0.000001 are 2^-43 apart near zero. A threshold that
is not such a sum is written as the largest sum below it, so that zeros, and all larger values, go the right way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.plain_trees import Leaf, Node, plain_trees, refuse_categories, zero_note
from rankwright.exporting.versions import parse_version
from rankwright.exporting.walking import Decision, Rows, leaf_values, single
from rankwright.kernels.tree_arrays import ZERO, TreeArrays

_CLASS = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
_SLACK = np.float32(1e-6)


class Solr:
    """Solr's MultipleAdditiveTreesModel; see `rankwright.exporting.contract.Target`."""

    name = "solr"
    file_name = "solr-model.json"
    single_precision = True
    has_versions = True

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees."""
        refuse_categories(trees, feature_names, "Solr")
        has_missing = _has_missing(options)
        roots = plain_trees(trees, feature_names, single=True)
        writer = _Writer(feature_names, has_missing)
        document: dict[str, Any] = {
            "class": _CLASS,
            "name": options.name,
            "features": [{"name": name} for name in feature_names],
            "params": ({"isNullSameAsZero": False} if has_missing else {})
            | {"trees": [{"weight": "1", "root": writer.written(root)} for root in roots]},
        }
        if options.feature_set is not None and options.feature_set.store is not None:
            document["store"] = options.feature_set.store
        notes = [] if has_missing else zero_note(trees, "Solr before 9.2")
        if writer.n_blurred:
            notes.append(
                f"Solr adds 0.000001 to thresholds, in 32 bits: {writer.n_blurred} splits have thresholds that are not "
                "such sums and are moved down by a last digit, near zero by at most 1.2e-13. Zeros keep their side."
            )
        return Exported(
            json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), tuple(notes)
        )

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows as Solr does."""
        document = json.loads(content)
        if document.get("class") != _CLASS:
            raise ValueError(f"the class of the model is {document.get('class')!r}, not {_CLASS}.")
        params = document["params"]
        with_missing = not params.get("isNullSameAsZero", True)
        if with_missing and not _has_missing(options):
            raise ValueError(
                "isNullSameAsZero is known from Solr 9.2 on; export again with this target_version."
            )
        names = list(feature_names)
        columns = {one["name"]: names.index(one["name"]) for one in document["features"]}
        values = single(X)
        if not with_missing:
            values = np.where(np.isnan(values), np.float32(0), values)

        def leaf(node: Any) -> float | None:
            if "feature" not in node:
                return float(np.float32(node["value"]))
            return None if node["feature"] in columns else 0.0

        def decide(node: Any, rows: Rows) -> Decision:
            x = values[rows, columns[node["feature"]]]
            goes_left = x <= np.float32(node["threshold"]) + _SLACK
            if with_missing and node["missing"] == "left":
                goes_left |= np.isnan(x)
            return goes_left, node["left"], node["right"]

        total = np.zeros(len(values), dtype=np.float32)
        for tree in params["trees"]:
            total += np.float32(tree["weight"]) * leaf_values(
                tree["root"], len(values), leaf, decide
            ).astype(np.float32)
        return total.astype(np.float64)

    def blur(self, threshold: float) -> tuple[float, float] | None:
        """Return low and high if values x, not 0, with low < x <= high may go the wrong way; None if all go right."""
        with np.errstate(over="ignore"):
            nearest = np.float32(np.clip(threshold, -3.4e38, 3.4e38))
        bounds = (
            (np.float32(-2 * ZERO), np.float32(ZERO))
            if abs(threshold) <= ZERO
            else _neighbours(nearest)
        )
        sums = [_largest_sum(bound) for bound in bounds]
        return None if sums == list(bounds) else (float(sums[0]), float(bounds[-1]))


class _Writer:
    """Writes nodes, and counts the thresholds that Solr cannot hold exactly."""

    def __init__(self, feature_names: Sequence[str], has_missing: bool) -> None:
        self._names = feature_names
        self._has_missing = has_missing
        self.n_blurred = 0

    def written(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Leaf):
            return {"value": repr(float(np.float32(node.value)))}
        threshold, effective = without_slack(node.threshold)
        # Splits of zeros from the rest are common, and moved only among numbers that nobody has.
        self.n_blurred += effective != node.threshold and abs(node.threshold) > 2 * ZERO
        return {
            "feature": self._names[node.feature],
            "threshold": repr(threshold),
            **({"missing": "left" if node.missing_left else "right"} if self._has_missing else {}),
            "left": self.written(node.left),
            "right": self.written(node.right),
        }


def without_slack(threshold: float) -> tuple[float, float]:
    """Return the 32-bit number to write for a 32-bit threshold, and what Solr makes of it: at most the threshold.

    Examples
    --------
    >>> without_slack(0.5)
    (0.4999990165233612, 0.5)
    >>> without_slack(1e-35)
    (-9.999999974752427e-07, 0.0)
    """
    bound = np.float32(threshold)
    number = bound - _SLACK
    with np.errstate(over="ignore"):
        for _ in range(4):
            number = np.nextafter(number, np.float32(np.inf))
    while number + _SLACK > bound:
        number = np.nextafter(number, np.float32(-np.inf))
    return float(number), float(number + _SLACK)


def _neighbours(number: np.float32) -> tuple[np.float32, np.float32, np.float32]:
    return (
        np.nextafter(number, np.float32(-np.inf)),
        number,
        np.nextafter(number, np.float32(np.inf)),
    )


def _largest_sum(bound: np.float32) -> np.float32:
    """The largest sum of a 32-bit number and the slack that is at most a bound."""
    middle = bound - _SLACK
    near = middle + np.spacing(np.abs(middle)) * np.arange(-8, 9, dtype=np.float32)
    sums: NDArray[np.float32] = near + _SLACK
    return np.float32(sums[sums <= bound].max())


def _has_missing(options: ExportOptions) -> bool:
    return parse_version(options.target_version) >= (9, 2)


TARGET = Solr()
