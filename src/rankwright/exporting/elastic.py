"""Elasticsearch's own learning to rank (8.12 and newer): the definition of a trained model, an ensemble of trees.

    {"trained_model": {"ensemble": {"feature_names", "target_type": "regression",
     "aggregate_output": {"weighted_sum": {}},
     "trained_models": [{"tree": {"feature_names", "target_type", "tree_structure": [nodes]}}]}}}
    split  {"node_index", "split_feature", "decision_type": "lte", "threshold", "default_left",
            "left_child", "right_child"}
    leaf   {"node_index", "leaf_value": [value]}

A document goes left if its feature is at most the threshold, in double precision; a feature that was not extracted goes
to the default side. The parser refuses other keys, and a node that is the child of two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.plain_trees import Leaf, Node, plain_trees, refuse_categories
from rankwright.exporting.walking import Decision, Rows, leaf_values
from rankwright.kernels.tree_arrays import TreeArrays


class Elastic:
    """Elasticsearch's tree ensemble; see `rankwright.exporting.contract.Target`."""

    name = "elastic"
    file_name = "elastic-model.json"
    single_precision = False

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees."""
        refuse_categories(trees, feature_names, "Elasticsearch's own learning to rank")
        common = {"feature_names": list(feature_names), "target_type": "regression"}
        roots = plain_trees(trees, feature_names, single=False)
        ensemble = {
            **common,
            "aggregate_output": {"weighted_sum": {}},
            "trained_models": [
                {"tree": {**common, "tree_structure": _structure(root)}} for root in roots
            ],
        }
        document = {"trained_model": {"ensemble": ensemble}}
        return Exported(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows as Elasticsearch does."""
        ensemble = json.loads(content)["trained_model"]["ensemble"]
        names = list(feature_names)
        values = np.asarray(X, dtype=np.float64)
        total = np.zeros(len(values))
        for model in ensemble["trained_models"]:
            columns = [names.index(name) for name in model["tree"]["feature_names"]]
            total += _tree_values(model["tree"]["tree_structure"], values[:, columns])
        return total


def _tree_values(nodes: list[dict[str, Any]], values: Floats) -> Floats:
    """Value of each row by one tree."""
    if [node["node_index"] for node in nodes] != list(range(len(nodes))):
        raise ValueError("the nodes of a tree are not in the order of their node_index.")
    for node in nodes:
        if (
            "leaf_value" not in node
            and min(node["left_child"], node["right_child"]) <= node["node_index"]
        ):
            raise ValueError(
                f"node {node['node_index']} leads back to an earlier one: that is not a tree."
            )

    def leaf(node: Any) -> float | None:
        return node["leaf_value"][0] if "leaf_value" in node else None

    def decide(node: Any, rows: Rows) -> Decision:
        x = values[rows, node["split_feature"]]
        compare = {"lte": np.less_equal, "lt": np.less}[node["decision_type"]]
        goes_left = np.where(np.isfinite(x), compare(x, node["threshold"]), node["default_left"])
        return goes_left, nodes[node["left_child"]], nodes[node["right_child"]]

    return leaf_values(nodes[0], len(values), leaf, decide)


def _structure(root: Node) -> list[dict[str, Any]]:
    """The nodes of a tree in one list; parents stand before their children."""
    nodes: list[dict[str, Any]] = []

    def add(node: Node) -> int:
        index = len(nodes)
        nodes.append({"node_index": index})
        if isinstance(node, Leaf):
            nodes[index]["leaf_value"] = [node.value]
        else:
            nodes[index] |= {
                "split_feature": node.feature,
                "decision_type": "lte",
                "threshold": node.threshold,
                "default_left": node.missing_left,
                "left_child": add(node.left),
                "right_child": add(node.right),
            }
        return index

    add(root)
    return nodes


TARGET = Elastic()
