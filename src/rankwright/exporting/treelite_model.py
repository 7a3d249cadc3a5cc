"""Target ``treelite``: a checkpoint of treelite, for its runtimes and for Triton's FIL backend.

Thresholds and leaf values are doubles: treelite's GTIL gives the model's scores to the last bit for rows of doubles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.library import require
from rankwright.exporting.simple_trees import PlainTree, plain_tree
from rankwright.exporting.walk import Rows, dense, leaves
from rankwright.kernels.tree_arrays import TreeArrays

_LARGEST = float(np.finfo(np.float64).max)


class TreeliteModel:
    """A treelite checkpoint."""

    name = "treelite"
    file_name = "checkpoint.tl"
    single_precision = False

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Build the trees with treelite's model builder."""
        require("treelite", self.name, "treelite")
        from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

        plain = [plain_tree(tree, feature_names) for tree in trees]
        n = max(len(plain), 1)
        builder: Any = ModelBuilder(
            threshold_type="float64",
            leaf_output_type="float64",
            metadata=Metadata(
                num_feature=len(feature_names),
                task_type="kLearningToRank",
                average_tree_output=False,
                num_target=1,
                num_class=[1],
                leaf_vector_shape=(1, 1),
            ),
            tree_annotation=TreeAnnotation(num_tree=n, target_id=[0] * n, class_id=[0] * n),
            postprocessor=PostProcessorFunc(name="identity"),
            base_scores=[0.0],
        )
        for tree in plain:
            _build(builder, tree)
        if not plain:  # treelite has no model without trees
            builder.start_tree()
            builder.start_node(0)
            builder.leaf(0.0)
            builder.end_node()
            builder.end_tree()
        return Exported(builder.commit().serialize_bytes())

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows by treelite's rules, from its description of the checkpoint in JSON."""
        treelite = require("treelite", self.name, "treelite")
        model = json.loads(
            treelite.Model.deserialize_bytes(content).dump_as_json(pretty_print=False)
        )
        rows = dense(X, model["num_feature"], np.float64)
        scores = np.zeros(len(rows))
        for tree in model["trees"]:
            scores += _values(tree, rows)
        return scores


def _build(builder: Any, tree: PlainTree) -> None:
    n_nodes = len(tree.feature)
    left, right = (
        np.where(child >= 0, child, n_nodes + ~child).tolist() for child in (tree.left, tree.right)
    )
    builder.start_tree()
    for node in range(n_nodes):
        builder.start_node(node)
        rule = {
            "feature_id": int(tree.feature[node]),
            "default_left": bool(tree.missing_left[node]),
            "left_child_key": left[node],
            "right_child_key": right[node],
        }
        if tree.is_set[node]:
            categories = [int(category) for category in tree.categories[node]]
            builder.categorical_test(
                **rule, category_list=categories, category_list_right_child=False
            )
        elif np.isneginf(tree.bound[node]):  # no number is below the least one
            builder.numerical_test(**rule, threshold=-_LARGEST, opname="<")
        else:
            builder.numerical_test(
                **rule, threshold=min(float(tree.bound[node]), _LARGEST), opname="<="
            )
        builder.end_node()
    for leaf, value in enumerate(tree.value.tolist()):
        builder.start_node(n_nodes + leaf)
        builder.leaf(value)
        builder.end_node()
    builder.end_tree()


def _values(tree: dict[str, Any], rows: Floats) -> Floats:
    """Leaf values of rows in a tree of the description."""
    nodes = {int(node["node_id"]): node for node in tree["nodes"]}

    def goes_left(node: int, some: Rows) -> Any:
        record = nodes[node]
        x = rows[some, record["split_feature_id"]]
        if "comparison_op" in record:
            threshold = float(record["threshold"])
            left = x <= threshold if record["comparison_op"] == "<=" else x < threshold
        else:
            left = (
                np.isin(np.trunc(x), record["category_list"]) != record["category_list_right_child"]
            )
        return np.where(np.isnan(x), bool(record["default_left"]), left)

    def children(node: int) -> tuple[int, int] | None:
        record = nodes[node]
        return None if "leaf_value" in record else (record["left_child"], record["right_child"])

    reached = leaves(len(rows), int(tree.get("root_id", 0)), children, goes_left)
    return np.array([float(nodes[leaf]["leaf_value"]) for leaf in reached.tolist()])


TARGET = TreeliteModel()
