"""Solr's learning-to-rank module: ``MultipleAdditiveTreesModel``.

    {"class", "name", "features": [{"name"}], "store",
     "params": {"isNullSameAsZero": false, "trees": [{"weight", "root"}]}}
    split  {"feature", "threshold", "missing": "left" or "right", "left", "right"}
    leaf   {"value"}

The engine's rules, from ``MultipleAdditiveTreesModel`` (package ``org.apache.solr.ltr.model``, Solr 9.1, 9.2 and main):

    numbers             are strings, read as floats
    a present feature   goes left if feature <= threshold + 0.000001, all floats
    a missing feature   Solr before 9.2              it is its default value, 0; the file has no keys for it
                        Solr 9.2 (SOLR-16596)        NaN goes by ``missing`` if ``isNullSameAsZero`` is false
    sum                 leaves times weights are added as floats

The slack of 0.000001 blurs thresholds: sums of a 32-bit number and 0.000001 are 2^-43 apart near zero. A threshold that
is not such a sum is written as the largest sum below it, so that zeros, and all larger values, go the right way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import (
    Exported,
    ExportOptions,
    Floats,
    Precision,
    Support,
    Target,
    Trees,
)
from rankwright.exporting.float32 import largest_float32_at_most
from rankwright.exporting.nodes import Form, PlainTree, plain_trees, refuse_categories, zero_note
from rankwright.exporting.versions import parse_version
from rankwright.exporting.walk import Decision, Rows, single, walk
from rankwright.kernels.tree_arrays import ZERO

_CLASS = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
_SLACK = np.float32(1e-6)


_LARGEST = float(np.finfo(np.float32).max)
_NEAR_ZERO = "values less than 1.2e-13 from zero"


class Solr(Target):
    """Solr's MultipleAdditiveTreesModel."""

    name = "solr"
    file_name = "solr-model.json"
    has_versions = True
    support = (
        Support(
            "Solr before 9.2",
            "read as 0",
            f"exact, but for missing values that were not 0 in training, and {_NEAR_ZERO}",
            "categories",
        ),
        Support(
            "Solr 9.2 and newer",
            "sent where `missing` says",
            f"exact, but for {_NEAR_ZERO}",
            "categories",
        ),
    )

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees."""
        refuse_categories(trees, options.features, "Solr")
        has_missing = _has_missing(options)
        plain = plain_trees(trees, options.features, Form(single=True, nested=True))
        writer = _Writer(options.features, has_missing)
        roots = [{"weight": "1", "root": writer.written(tree, tree.root)} for tree in plain]
        document: dict[str, Any] = {
            "class": _CLASS,
            "name": options.name,
            "features": [{"name": name} for name in options.features],
            "params": {"trees": roots},
        }
        # Solr before 9.2 refuses keys that it does not know.
        if has_missing:
            document["params"]["isNullSameAsZero"] = False
        if options.feature_set is not None and options.feature_set.store is not None:
            document["store"] = options.feature_set.store
        notes = []
        if not has_missing:
            notes += zero_note(trees, "Solr before 9.2")
        if writer.n_blurred:
            notes.append(
                f"Solr adds 0.000001 to thresholds, in 32 bits: {writer.n_blurred} splits have thresholds that are not "
                "such sums and are moved down by a last digit, near zero by at most 1.2e-13. Zeros keep their side."
            )
        return Exported(
            json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), tuple(notes)
        )

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows as Solr does."""
        document = json.loads(content)
        if document.get("class") != _CLASS:
            raise ValueError(f"the class of the model is {document.get('class')!r}, not {_CLASS}.")
        params = document["params"]
        # An older Solr refuses a file with this key, so it must not get a score here.
        with_missing = not params.get("isNullSameAsZero", True)
        if with_missing and not _has_missing(options):
            raise ValueError(
                "isNullSameAsZero is known from Solr 9.2 on; export again with this target_version."
            )
        names = list(options.features)
        columns = {
            feature["name"]: names.index(feature["name"]) for feature in document["features"]
        }
        values = single(X)
        # A feature without a value has its default value in Solr: 0.
        if not with_missing:
            values = np.where(np.isnan(values), np.float32(0), values)

        def decide(node: Any, rows: Rows) -> Decision:
            if "feature" not in node:
                return float(np.float32(node["value"]))
            # Solr scores a tree as 0 if a split reads a feature that the model does not list.
            if node["feature"] not in columns:
                return 0.0
            x = values[rows, columns[node["feature"]]]
            goes_left = x <= np.float32(node["threshold"]) + _SLACK
            if with_missing and node["missing"] == "left":
                goes_left |= np.isnan(x)
            return goes_left, node["left"], node["right"]

        total = np.zeros(len(values), dtype=np.float32)
        for tree in params["trees"]:
            leaves = walk(tree["root"], len(values), decide)
            total += np.float32(tree["weight"]) * leaves.astype(np.float32)
        return total.astype(np.float64)

    def precision(self, content: bytes, options: ExportOptions) -> Precision:
        """Return that features and sums have 32 bits, and that bounds near zero are blurred."""
        return Precision(single_features=True, single_scores=True, blur=blur)


def blur(bound: float) -> tuple[float, float] | None:
    """Return the range low < x <= high of values that the slack sends the wrong way; None if there are none."""
    number = np.float32(largest_float32_at_most(np.clip(bound, -_LARGEST, _LARGEST)))
    # Solr compares with this sum instead of the bound.
    _, effective = without_slack(float(number))
    return None if effective == number else (effective, float(number))


class _Writer:
    """Writes nodes, and counts the thresholds that Solr cannot hold exactly."""

    def __init__(self, feature_names: Sequence[str], has_missing: bool) -> None:
        self._names = feature_names
        self._has_missing = has_missing
        self.n_blurred = 0

    def written(self, tree: PlainTree, node: int) -> dict[str, Any]:
        if node < 0:
            return {"value": repr(float(np.float32(tree.value[~node])))}
        bound = min(tree.bound[node], _LARGEST)
        threshold, effective = without_slack(bound)
        # Splits of zeros from the rest are common, and no real feature has the values between.
        self.n_blurred += effective != bound and abs(bound) > 2 * ZERO
        split: dict[str, Any] = {
            "feature": self._names[tree.feature[node]],
            "threshold": repr(threshold),
        }
        if self._has_missing:
            split["missing"] = "left" if tree.missing_left[node] else "right"
        split["left"] = self.written(tree, tree.left[node])
        split["right"] = self.written(tree, tree.right[node])
        return split


def without_slack(threshold: float) -> tuple[float, float]:
    """Return the 32-bit number to write for a threshold, and the sum that Solr compares with, at most the threshold.

    Examples
    --------
    >>> without_slack(0.5)
    (0.4999990165233612, 0.5)
    >>> without_slack(1e-35)
    (-9.999999974752427e-07, 0.0)
    """
    bound = np.float32(threshold)
    # The difference is rounded, so the largest number with a sum of at most the bound is some
    # numbers further up or down. Start above it, and go down until the sum is small enough.
    number = bound - _SLACK
    with np.errstate(over="ignore"):
        for _ in range(4):
            number = np.nextafter(number, np.float32(np.inf))
    while number + _SLACK > bound:
        number = np.nextafter(number, np.float32(-np.inf))
    return float(number), float(number + _SLACK)


def _has_missing(options: ExportOptions) -> bool:
    return parse_version(options.target_version) >= (9, 2)


TARGET = Solr()
