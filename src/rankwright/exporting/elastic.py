"""Elasticsearch's own learning to rank (8.12 and newer): the definition of a trained model, an ensemble of trees.

    {"trained_model": {"ensemble": {"feature_names", "target_type": "regression",
     "aggregate_output": {"weighted_sum": {}},
     "trained_models": [{"tree": {"feature_names", "target_type", "tree_structure": [nodes]}}]}}}
    split  {"node_index", "split_feature", "decision_type": "lte", "threshold", "default_left",
            "left_child", "right_child"}
    leaf   {"node_index", "leaf_value": [value]}

The engine's rules, from ``Tree``, ``TreeNode`` and ``Ensemble`` (``org.elasticsearch.xpack.core.ml.inference``),
``BoundedWindowInferenceModel`` and ``LearningToRankRescorer`` of Elasticsearch 9.2 and 9.4:

    parser              refuses other keys, and a node that is the child of two
    a present feature   goes left if feature <= threshold, in doubles
    a missing feature   goes to the default side
    sum                 leaves are added as doubles
    served score        since April 2025 the sum of the least leaves of all trees is subtracted if it is negative,
                        so that scores are not negative; the result is rounded to a float
"""

from __future__ import annotations

import json
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
from rankwright.exporting.nodes import Form, PlainTree, plain_trees, refuse_categories
from rankwright.exporting.walk import Decision, Rows, walk

_LARGEST = float(np.finfo(np.float64).max)


class Elastic(Target):
    """Elasticsearch's tree ensemble."""

    name = "elastic"
    file_name = "elastic-model.json"
    support = (
        Support(
            "Elasticsearch's own, 8.12 and newer",
            "sent where `default_left` says",
            "exact, but for a constant and a rounding to 32 bits at the end",
            "categories",
        ),
    )

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees."""
        refuse_categories(trees, options.features, "Elasticsearch's own learning to rank")
        # The ensemble and each of its trees repeat the names, as Elasticsearch's parser wants them.
        common = {"feature_names": list(options.features), "target_type": "regression"}
        plain = plain_trees(trees, options.features, Form(nested=True))
        ensemble = {
            **common,
            "aggregate_output": {"weighted_sum": {}},
            "trained_models": [
                {"tree": {**common, "tree_structure": _structure(tree)}} for tree in plain
            ],
        }
        document = {"trained_model": {"ensemble": ensemble}}
        return Exported(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows as Elasticsearch does, without the constant that it adds."""
        ensemble = _ensemble(content)
        names = list(options.features)
        values = np.asarray(X, dtype=np.float64)
        total = np.zeros(len(values))
        for model in ensemble["trained_models"]:
            # The features of a tree are positions in the tree's list of names.
            columns = [names.index(name) for name in model["tree"]["feature_names"]]
            total += _tree_values(model["tree"]["tree_structure"], values[:, columns])
        # The constant decides how much is lost by rounding, but has no part in the comparison.
        lowest = _lowest_score(ensemble)
        served = (total - lowest).astype(np.float32)
        return served.astype(np.float64) + lowest

    def precision(self, content: bytes, options: ExportOptions) -> Precision:
        """Return that the score, with the constant, is rounded to 32 bits."""
        return Precision(single_scores=True, offset=-_lowest_score(_ensemble(content)))


def _ensemble(content: bytes) -> Any:
    return json.loads(content)["trained_model"]["ensemble"]


def _lowest_score(ensemble: Any) -> float:
    """Return the sum of the least leaves of all trees, or 0 if it is positive."""
    lowest = 0.0
    for model in ensemble["trained_models"]:
        nodes = model["tree"]["tree_structure"]
        lowest += min(node["leaf_value"][0] for node in nodes if "leaf_value" in node)
    return min(lowest, 0.0)


def _tree_values(nodes: list[dict[str, Any]], values: Floats) -> Floats:
    """Return the leaf value of each row in a tree."""
    # Elasticsearch finds nodes by their position in the list, so the numbers must agree with it.
    if [node["node_index"] for node in nodes] != list(range(len(nodes))):
        raise ValueError("the nodes of a tree are not in the order of their node_index.")
    for node in nodes:
        if "leaf_value" in node:
            continue
        # Parents stand before their children, so a way back would be a loop.
        if min(node["left_child"], node["right_child"]) <= node["node_index"]:
            raise ValueError(
                f"node {node['node_index']} leads back to an earlier one: that is not a tree."
            )

    def decide(node: Any, rows: Rows) -> Decision:
        if "leaf_value" in node:
            return float(node["leaf_value"][0])
        x = values[rows, node["split_feature"]]
        compare = {"lte": np.less_equal, "lt": np.less}[node["decision_type"]]
        goes_left = np.where(np.isfinite(x), compare(x, node["threshold"]), node["default_left"])
        return goes_left, nodes[node["left_child"]], nodes[node["right_child"]]

    return walk(nodes[0], len(values), decide)


def _structure(tree: PlainTree) -> list[dict[str, Any]]:
    """Return the nodes of a tree in a list, with parents before their children."""
    nodes: list[dict[str, Any]] = []

    def add(node: int) -> int:
        # The node takes its place before its children are added, because parents come first.
        index = len(nodes)
        nodes.append({"node_index": index})
        if node < 0:
            nodes[index]["leaf_value"] = [tree.value[~node]]
        else:
            nodes[index] |= {
                "split_feature": tree.feature[node],
                "decision_type": "lte",
                "threshold": min(tree.bound[node], _LARGEST),
                "default_left": tree.missing_left[node],
                "left_child": add(tree.left[node]),
                "right_child": add(tree.right[node]),
            }
        return index

    add(tree.root)
    return nodes


TARGET = Elastic()
