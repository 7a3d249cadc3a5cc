"""Target ``treelite``: a checkpoint of treelite, for its runtimes and for Triton's FIL backend.

The library's rules, from ``gtil`` and ``ModelBuilder`` of treelite 4:

    numbers             features, thresholds and leaves are doubles, and are added as doubles
    a present feature   goes left if feature <= threshold; a category goes left if it is in the node's list
    a missing feature   goes to the default side
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
from rankwright.exporting.walk import Decision, Rows, dense, walk
from rankwright.support.environment import require

_LARGEST = float(np.finfo(np.float64).max)


class TreeliteModel(Target):
    """A treelite checkpoint."""

    name = "treelite"
    file_name = "checkpoint.tl"
    support = (Support("treelite 4, Triton's FIL backend", "sent where the file says"),)

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Build the trees with treelite's model builder."""
        require("the target 'treelite'", "treelite", "treelite")
        from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

        # Without a base score and a function of the sum, predictions are the sums of the leaves.
        plain = plain_trees(trees, options.features, Form())
        n = len(plain)
        builder: Any = ModelBuilder(
            threshold_type="float64",
            leaf_output_type="float64",
            metadata=Metadata(
                num_feature=len(options.features),
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
        return Exported(builder.commit().serialize_bytes())

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by treelite's rules, from its description of the checkpoint in JSON."""
        treelite = require("the target 'treelite'", "treelite", "treelite")
        model = json.loads(
            treelite.Model.deserialize_bytes(content).dump_as_json(pretty_print=False)
        )
        rows = dense(X, model["num_feature"])
        scores = np.zeros(len(rows))
        for tree in model["trees"]:
            scores += _values(tree, rows)
        return scores


def _build(builder: Any, tree: PlainTree) -> None:
    n_nodes = len(tree.feature)
    builder.start_tree()
    for node in range(n_nodes):
        builder.start_node(node)
        rule = {
            "feature_id": tree.feature[node],
            "default_left": tree.missing_left[node],
            "left_child_key": tree.key(tree.left[node]),
            "right_child_key": tree.key(tree.right[node]),
        }
        categories = tree.categories[node]
        if categories is None:
            # The builder refuses infinite thresholds; every number is at most the largest.
            threshold = min(tree.bound[node], _LARGEST)
            builder.numerical_test(**rule, threshold=threshold, opname="<=")
        else:
            builder.categorical_test(
                **rule, category_list=list(categories), category_list_right_child=False
            )
        builder.end_node()
    # Leaves are nodes with keys after the keys of all splits.
    for leaf, value in enumerate(tree.value):
        builder.start_node(n_nodes + leaf)
        builder.leaf(value)
        builder.end_node()
    builder.end_tree()


def _values(tree: dict[str, Any], rows: Floats) -> Floats:
    """Return the leaf values of rows in a tree of the description."""
    nodes = {int(node["node_id"]): node for node in tree["nodes"]}

    def decide(node: int, some: Rows) -> Decision:
        record = nodes[node]
        if "leaf_value" in record:
            return float(record["leaf_value"])
        x = rows[some, record["split_feature_id"]]
        if "comparison_op" in record:
            threshold = float(record["threshold"])
            goes_left = x <= threshold if record["comparison_op"] == "<=" else x < threshold
        else:
            is_listed = np.isin(np.trunc(x), record["category_list"])
            goes_left = is_listed != record["category_list_right_child"]
        goes_left = np.where(np.isnan(x), bool(record["default_left"]), goes_left)
        return goes_left, record["left_child"], record["right_child"]

    return walk(int(tree.get("root_id", 0)), len(rows), decide)


TARGET = TreeliteModel()
