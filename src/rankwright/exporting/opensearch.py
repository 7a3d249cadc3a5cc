"""The learning-to-rank plug-ins of OpenSearch and Elasticsearch: ``model/xgboost+json``.

The file is the *definition* of a model: an array of trees in the form of XGBoost's dump.

    split  {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children": [yes, no]}
    leaf   {"nodeid", "leaf"}

The engines' rules, from ``XGBoostJsonParser``, ``NaiveAdditiveDecisionTree`` and the feature vectors of the plug-ins
(package ``com.o19s.es.ltr.ranker``, OpenSearch 3.1 to 3.8 and main, Elasticsearch plug-in 1.5.8 to 1.5.12):

    keys of a node          no other key is allowed; from plug-in 1.5.9 on, Elasticsearch needs ``missing``
    numbers                 features, conditions and leaves are floats; 1e39 is read as infinity
    a present feature       goes to ``yes`` if split_condition > feature
    sum                     leaves are added as floats, in the order of the trees
    a missing feature       OpenSearch before 3.2                            it is 0
                            OpenSearch 3.2 to 3.7 (pull request 206)         NaN: it goes to ``no`` always
                            OpenSearch 3.8 and newer (pull request 379)      NaN: it goes to ``missing``
                            Elasticsearch before 8.11.4 (plug-in 1.5.8)      it is 0
                            Elasticsearch 8.11.4 and newer (plug-in 1.5.9,   NaN: it goes to ``missing``
                            pull requests 480 and 482)

A definition may also be the object {"objective", "splits", "missing_as_zero"}; ``missing_as_zero`` (pull request 389 of
OpenSearch, after 3.8.0) makes missing features 0 again. Exports do not need it: a column without missing values in
training has ``missing`` at the side of 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.float32 import smallest_float32_above
from rankwright.exporting.nodes import (
    Form,
    PlainTree,
    missing_left,
    plain_trees,
    refuse_categories,
    zero_note,
)
from rankwright.exporting.versions import parse_version
from rankwright.exporting.walk import Decision, Rows, single, walk

Version = tuple[int, int, int]

# The ways in which versions treat a missing feature.
_ZERO, _RIGHT, _HONOURED = "zero", "right", "honoured"
# The objectives for which the plug-in serves the sum of the trees.
_IDENTITY = {"binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear"}
_SPLIT_KEYS = {"nodeid", "depth", "split", "split_condition", "yes", "no", "children"}


# The number that parsers of floats read as infinity: x < infinity is true of all numbers, and false of NaN.
_INFINITY = 1e39


class LtrPlugin(Target):
    """A learning-to-rank plug-in, with ``model/xgboost+json``."""

    has_versions = True
    in_32_bits = True

    def __init__(
        self,
        name: str,
        title: str,
        rule_of_missing: Callable[[Version], str],
        support: tuple[Support, ...],
    ) -> None:
        self.name = name
        self.file_name = f"{name.removesuffix('-ltr')}-ltr.json"
        self.support = support
        self._title = title
        self._rule_of_missing = rule_of_missing

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees."""
        missing = self._missing(options)
        refuse_categories(trees, options.features, self._title)
        form = Form(single=True, missing_right=missing == _RIGHT, nested=True)
        plain = plain_trees(trees, options.features, form)
        definition = [_written(tree, options.features) for tree in plain]
        notes = []
        if missing == _ZERO:
            notes += zero_note(trees, self._title)
        n_left = sum(int(missing_left(tree).sum()) for tree in trees)
        # Further splits make the file larger, and users can avoid them by a newer version.
        if missing == _RIGHT and n_left:
            n_written = sum(len(tree.feature) for tree in plain)
            notes.append(
                f"OpenSearch 3.2 to 3.7 sends missing values to the right always: {n_left} of "
                f"{sum(len(tree.feature) for tree in trees)} splits send them left and are written with further splits "
                f"({n_written} in all). From 3.8 on this is not necessary: give target_version='3.8'."
            )
        text = json.dumps(definition, separators=(",", ":"), allow_nan=False)
        return Exported(text.encode(), tuple(notes))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows as the plug-in does."""
        document = json.loads(content)
        missing = self._missing(options)
        trees = document
        # The plug-in reads an array of trees, or an object around it with some options.
        if isinstance(document, dict):
            is_opensearch = self.name == "opensearch"
            trees = _read_object(document, is_opensearch and self._version(options) >= (3, 9))
            if document.get("missing_as_zero", False):
                missing = _ZERO
        if not isinstance(trees, list) or not trees:
            raise ValueError(
                "the definition has no trees; it must be an array of at least one tree."
            )
        columns = {name: column for column, name in enumerate(options.features)}
        values = single(X)
        # The feature vector of these versions starts as zeros; in newer versions it starts as NaN.
        if missing == _ZERO:
            values = np.where(np.isnan(values), np.float32(0), values)

        def decide(node: Any, rows: Rows) -> Decision:
            if "leaf" in node:
                return float(node["leaf"])
            x = values[rows, columns[node["split"]]]
            # A comparison with NaN is false, so missing values go to `no` unless `missing` is read.
            goes_left: NDArray[np.bool_] = _float(node["split_condition"]) > x
            if missing == _HONOURED and node.get("missing") == node["yes"]:
                goes_left |= np.isnan(x)
            return goes_left, node["children"][0], node["children"][1]

        total = np.zeros(len(values), dtype=np.float32)
        # Every sum is rounded to 32 bits, as in Java.
        for tree in trees:
            _check_node(tree, columns)
            total += walk(tree, len(values), decide).astype(np.float32)
        return total.astype(np.float64)

    def _version(self, options: ExportOptions) -> Version:
        return parse_version(options.target_version)

    def _missing(self, options: ExportOptions) -> str:
        return self._rule_of_missing(self._version(options))


def _written(tree: PlainTree, feature_names: Sequence[str]) -> dict[str, Any]:
    """Return the nodes of a tree, numbered in the order in which they are written."""
    numbers = count()

    def written(node: int, depth: int) -> dict[str, Any]:
        number = next(numbers)
        if node < 0:
            return {"nodeid": number, "leaf": float(np.float32(tree.value[~node]))}
        # Children are numbered before the keys that name them are written.
        left = written(tree.left[node], depth + 1)
        right = written(tree.right[node], depth + 1)
        # The plug-in compares with >, so the condition is the next 32-bit number above the bound.
        condition = float(smallest_float32_above(tree.bound[node]))
        missing = left if tree.missing_left[node] else right
        return {
            "nodeid": number,
            "depth": depth,
            "split": feature_names[tree.feature[node]],
            "split_condition": min(condition, _INFINITY),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": missing["nodeid"],
            "children": [left, right],
        }

    return written(tree.root, 0)


@np.errstate(over="ignore")
def _float(number: float) -> np.float32:
    """Return a number as Java's floats hold it."""
    return np.float32(number)


def _read_object(document: dict[str, Any], knows_missing_as_zero: bool) -> Any:
    """Return the trees of a definition that is an object; refuse keys that the plug-in refuses."""
    known = {"objective", "splits"}
    if knows_missing_as_zero:
        known.add("missing_as_zero")
    # The plug-in refuses such a definition when it is uploaded.
    unknown = sorted(document.keys() - known)
    if unknown:
        raise ValueError(
            f"the plugin does not know {unknown} in a definition; it knows {sorted(known)}."
        )
    # Other objectives apply a function to the sum, so the scores would not be the model's.
    objective = document.get("objective", "rank:ndcg")
    if objective not in _IDENTITY:
        raise ValueError(
            f"objective {objective!r} is not one that leaves the sum of trees unchanged."
        )
    return document.get("splits")


def _check_node(node: Any, columns: dict[str, int]) -> None:
    """Refuse a tree that the plugin's parser refuses."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        keys = set(node)
        if "leaf" in keys:
            if keys != {"nodeid", "leaf"}:
                raise ValueError(
                    f"a leaf has the keys {sorted(keys)}; the plugin wants nodeid and leaf."
                )
            continue
        if not _SPLIT_KEYS <= keys <= _SPLIT_KEYS | {"missing"}:
            raise ValueError(
                f"a split has the keys {sorted(keys)}; the plugin wants {sorted(_SPLIT_KEYS)} and missing."
            )
        # The plug-in refuses a split that does not name its children in their order.
        ids = [child.get("nodeid") for child in node["children"]]
        if ids != [node["yes"], node["no"]] or node.get("missing", ids[0]) not in ids:
            raise ValueError(
                f"node {node['nodeid']}: yes, no or missing do not name its children {ids}."
            )
        if node["split"] not in columns:
            raise ValueError(
                f"node {node['nodeid']} splits {node['split']!r}, which is not a feature of the model."
            )
        waiting += node["children"]


def _missing_in_opensearch(version: Version) -> str:
    """Return how a version of OpenSearch treats a missing feature."""
    if version < (3, 2):
        return _ZERO
    return _RIGHT if version < (3, 8) else _HONOURED


def _missing_in_elasticsearch(version: Version) -> str:
    """Return how the plug-in treats a missing feature, by the version of Elasticsearch or of the plug-in.

    The plug-in's versions begin with 1, and it never supported such an old Elasticsearch.
    """
    first_with_missing = (8, 11, 4)
    if version < (2,):
        first_with_missing = (1, 5, 9)
    return _ZERO if version < first_with_missing else _HONOURED


# The entries of the table in docs/deploy.md, in the order of `Support`.
_IF_ZERO = "exact, but for missing values that were not 0 in training"
_READ_AS_ZERO, _SENT, _CATEGORIES = "read as 0", "sent where `missing` says", "categories"
OPENSEARCH = LtrPlugin(
    "opensearch",
    "OpenSearch",
    _missing_in_opensearch,
    (
        Support("OpenSearch before 3.2", _READ_AS_ZERO, _IF_ZERO, _CATEGORIES),
        Support("OpenSearch 3.2 to 3.7", "sent right", "exact, with further splits", _CATEGORIES),
        Support("OpenSearch 3.8 and newer", _SENT, "exact", _CATEGORIES),
    ),
)
ELASTICSEARCH_LTR = LtrPlugin(
    "elasticsearch-ltr",
    "the Elasticsearch LTR plugin",
    _missing_in_elasticsearch,
    (
        Support(
            "the plug-in for Elasticsearch before 8.11.4", _READ_AS_ZERO, _IF_ZERO, _CATEGORIES
        ),
        Support("the plug-in for Elasticsearch 8.11.4 and newer", _SENT, "exact", _CATEGORIES),
    ),
)
