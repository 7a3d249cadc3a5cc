"""The learning-to-rank plugins of OpenSearch and Elasticsearch: ``model/xgboost+json``.

The file is the *definition* of a model: an array of trees in the form of XGBoost's dump.

    split  {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children": [yes, no]}
    leaf   {"nodeid", "leaf"}

No other key is allowed. A document goes to ``yes`` if its feature, in 32 bits, is less than ``split_condition``. Leaves
are added in 32 bits. What becomes of a missing feature depends on the plugin:

    OpenSearch before 3.3       it is 0
    OpenSearch 3.3 to 3.7       it goes to ``no``, whatever ``missing`` says
    OpenSearch 3.8 and newer    it goes to ``missing`` (pull request 379 of opensearch-learning-to-rank-base, which is
                                in the release notes of 3.8.0)
    Elasticsearch plugin        it is 0 (issue 481 of elasticsearch-learning-to-rank)

A definition may also be the object {"objective", "splits", "missing_as_zero"}; ``missing_as_zero`` makes missing
features 0 again (pull request 389, merged after the notes of 3.8.0 were written, so from 3.9 on; a backport to the 3.6
branch was merged too, but no release of it is known here). Exports do not need it: ``missing`` says as much, split by
split.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.plain_trees import (
    Leaf,
    Node,
    n_missing_left,
    n_splits,
    plain_trees,
    refuse_categories,
    zero_note,
)
from rankwright.exporting.thresholds import below
from rankwright.exporting.versions import parse_version
from rankwright.exporting.walking import Decision, Rows, leaf_values, single
from rankwright.kernels.tree_arrays import TreeArrays

_ZERO, _RIGHT, _HONOURED = "zero", "right", "honoured"  # what becomes of a missing feature
_IDENTITY = {"binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear"}
_SPLIT_KEYS = {"nodeid", "depth", "split", "split_condition", "yes", "no", "children"}


class XGBoostJson:
    """``model/xgboost+json``; see `rankwright.exporting.contract.Target`."""

    single_precision = True

    def __init__(self, name: str, file_name: str, title: str, has_versions: bool) -> None:
        self.name = name
        self.file_name = file_name
        self._title = title
        self.has_versions = has_versions

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees."""
        missing = self._missing(options)
        refuse_categories(trees, feature_names, self._title)
        roots = plain_trees(
            trees, feature_names, single=True, missing_always_right=missing == _RIGHT
        )
        definition = [_Numbering(feature_names).written(root, 0) for root in roots]
        notes = zero_note(trees, self._title) if missing == _ZERO else []
        rewritten = n_missing_left(trees) if missing == _RIGHT else 0
        if rewritten:
            notes.append(
                f"OpenSearch 3.3 to 3.7 sends missing values to the right always: {rewritten} of "
                f"{sum(len(tree.feature) for tree in trees)} splits send them left and are written with further splits "
                f"({sum(map(n_splits, roots))} in all). From 3.8 on this is not necessary: give target_version='3.8'."
            )
        return Exported(
            json.dumps(definition, separators=(",", ":"), allow_nan=False).encode(), tuple(notes)
        )

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows as the plugin does."""
        document = json.loads(content)
        missing = self._missing(options)
        trees = document
        if isinstance(document, dict):
            trees = _read_object(document, self.has_versions and self._version(options) >= (3, 9))
            missing = _ZERO if document.get("missing_as_zero", False) else missing
        if not isinstance(trees, list) or not trees:
            raise ValueError(
                "the definition has no trees; it must be an array of at least one tree."
            )
        columns = {name: column for column, name in enumerate(feature_names)}
        values = single(X)
        if missing == _ZERO:
            values = np.where(np.isnan(values), np.float32(0), values)
        total = np.zeros(len(values), dtype=np.float32)
        for tree in trees:
            _check_node(tree, columns)

            def decide(node: Any, rows: Rows) -> Decision:
                x = values[rows, columns[node["split"]]]
                goes_left: NDArray[np.bool_] = np.float32(node["split_condition"]) > x
                if missing == _HONOURED and node.get("missing") == node["yes"]:
                    goes_left |= np.isnan(x)
                return goes_left, node["children"][0], node["children"][1]

            total += leaf_values(tree, len(values), lambda node: node.get("leaf"), decide).astype(
                np.float32
            )
        return total.astype(np.float64)

    def _version(self, options: ExportOptions) -> tuple[int, int]:
        return (999, 0) if options.target_version is None else parse_version(options.target_version)

    def _missing(self, options: ExportOptions) -> str:
        if not self.has_versions:
            return _ZERO
        version = self._version(options)
        return _ZERO if version < (3, 3) else _RIGHT if version < (3, 8) else _HONOURED


class _Numbering:
    """Writes one tree; nodes are numbered as they are met."""

    def __init__(self, feature_names: Sequence[str]) -> None:
        self._names = feature_names
        self._next = 0

    def written(self, node: Node, depth: int) -> dict[str, Any]:
        number = self._next
        self._next += 1
        if isinstance(node, Leaf):
            return {"nodeid": number, "leaf": float(np.float32(node.value))}
        left, right = self.written(node.left, depth + 1), self.written(node.right, depth + 1)
        return {
            "nodeid": number,
            "depth": depth,
            "split": self._names[node.feature],
            "split_condition": below(node.threshold, single=True),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if node.missing_left else right)["nodeid"],
            "children": [left, right],
        }


def _read_object(document: dict[str, Any], knows_missing_as_zero: bool) -> Any:
    """Return the trees of a definition that is an object; refuse what the plugin refuses."""
    known = {"objective", "splits"} | ({"missing_as_zero"} if knows_missing_as_zero else set())
    unknown = sorted(document.keys() - known)
    if unknown:
        raise ValueError(
            f"the plugin does not know {unknown} in a definition; it knows {sorted(known)}."
        )
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


OPENSEARCH = XGBoostJson("opensearch", "opensearch-ltr.json", "OpenSearch", has_versions=True)
ELASTICSEARCH_LTR = XGBoostJson(
    "elasticsearch-ltr",
    "elasticsearch-ltr.json",
    "the Elasticsearch LTR plugin",
    has_versions=False,
)
