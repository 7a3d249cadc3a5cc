"""Target ``onnx``: one ``TreeEnsembleRegressor`` of the operators ``ai.onnx.ml``, from features to a score.

The operator's rules, from its specification (``ai.onnx.ml`` 3) and onnxruntime:

    numbers             the input ``features`` [rows, columns], values and the output ``score`` [rows, 1] are floats
    a present feature   takes the true branch if x <= value (BRANCH_LEQ) or x = value (BRANCH_EQ)
    a missing feature   is NaN, and goes by ``missing_value_tracks_true``
    sum                 leaves are added as floats; onnxruntime adds a single row and a batch in different orders

Sets of categories are chains of BRANCH_EQ nodes that share their true branch, as other converters write them and as
onnxruntime expects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
from rankwright.exporting.walk import Decision, Rows, dense, single, walk
from rankwright.support.environment import require

_OPERATORS, _ML_OPERATORS, _IR_VERSION = 15, 3, 8  # of 2022: runtimes of the years since read them
LARGEST_CATEGORY = (1 << 24) - 1  # larger numbers are not exact in 32 bits


class OnnxGraph(Target):
    """A graph with a single operator."""

    name = "onnx"
    file_name = "model.onnx"
    in_32_bits = True
    support = (Support("ONNX runtimes", "sent where the file says"),)

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees with thresholds and leaf values of 32 bits."""
        onnx = require("the target 'onnx'", "onnx", "onnx")
        # The operator has lists over the nodes and leaves of all trees.
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
        for number, tree in enumerate(plain_trees(trees, options.features, Form(single=True))):
            _add_tree(lists, number, tree, options.features)
        node = onnx.helper.make_node(
            "TreeEnsembleRegressor",
            ["features"],
            ["score"],
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function="SUM",
            post_transform="NONE",
            **lists,
        )
        # The number of rows is free, so that a server may send batches of any size.
        number = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            [node],
            options.name,
            [onnx.helper.make_tensor_value_info("features", number, [None, len(options.features)])],
            [onnx.helper.make_tensor_value_info("score", number, [None, 1])],
        )
        versions = [
            onnx.helper.make_opsetid("", _OPERATORS),
            onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPERATORS),
        ]
        model = onnx.helper.make_model(
            graph, opset_imports=versions, ir_version=_IR_VERSION, producer_name="rankwright"
        )
        # The graph knows columns by position; the names help people who prepare its input.
        onnx.helper.set_model_props(model, {"feature_names": json.dumps(list(options.features))})
        onnx.checker.check_model(model)
        return Exported(model.SerializeToString(deterministic=True))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by the rules of the operator."""
        onnx = require("the target 'onnx'", "onnx", "onnx")
        (node,) = onnx.load_from_string(content).graph.node
        lists = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }
        rows = single(dense(X, len(options.features)))
        # Weights belong to leaves by the numbers of tree and node, in any order.
        tree_ids = np.array(lists["nodes_treeids"])
        weight = dict(
            zip(
                zip(lists["target_treeids"], lists["target_nodeids"], strict=True),
                lists["target_weights"],
                strict=True,
            )
        )
        scores = np.zeros(len(rows), dtype=np.float32)
        for tree in np.unique(tree_ids):
            at = {int(lists["nodes_nodeids"][i]): int(i) for i in np.flatnonzero(tree_ids == tree)}
            weights = {node: weight.get((tree, node), 0.0) for node in at}
            scores += _values(lists, at, weights, rows)
        return scores.astype(np.float64)


_NODE_LISTS = (
    "nodes_treeids",
    "nodes_nodeids",
    "nodes_featureids",
    "nodes_modes",
    "nodes_values",
    "nodes_truenodeids",
    "nodes_falsenodeids",
    "nodes_missing_value_tracks_true",
)
_LEAF_LISTS = ("target_treeids", "target_nodeids", "target_ids", "target_weights")
_LISTS = (*_NODE_LISTS, *_LEAF_LISTS)


def _add_tree(
    lists: dict[str, list[Any]], tree_id: int, tree: PlainTree, feature_names: Sequence[str]
) -> None:
    """Append the nodes of a tree, its leaves, and the further nodes of chains."""
    n_nodes, n_leaves = len(tree.feature), len(tree.value)
    first: list[tuple[Any, ...]] = []
    further: list[tuple[Any, ...]] = []

    for node in range(n_nodes):
        feature, missing_left = tree.feature[node], int(tree.missing_left[node])
        left, right = tree.key(tree.left[node]), tree.key(tree.right[node])
        categories = tree.categories[node]
        if categories is None:
            bound = tree.bound[node]
            first.append((tree_id, node, feature, "BRANCH_LEQ", bound, left, right, missing_left))
            continue
        if categories[-1] > LARGEST_CATEGORY:
            raise ValueError(
                f"feature {feature_names[feature]!r} has the category {categories[-1]}; a 32-bit number holds "
                f"categories up to {LARGEST_CATEGORY}. Number the categories from 0."
            )
        # The first link of a chain is the node itself. The others come after the leaves, so that the
        # numbers of nodes and leaves do not depend on them.
        next_free = n_nodes + n_leaves + len(further)
        ids = [node, *range(next_free, next_free + len(categories) - 1)]
        links = []
        for number, category, otherwise in zip(ids, categories, [*ids[1:], right], strict=True):
            rule = (feature, "BRANCH_EQ", float(category), left, otherwise, missing_left)
            links.append((tree_id, number, *rule))
        first.append(links[0])
        further += links[1:]
    # The operator wants an entry for a leaf in every list of nodes.
    ends = [(tree_id, n_nodes + leaf, 0, "LEAF", 0.0, 0, 0, 0) for leaf in range(n_leaves)]
    for node_row in [*first, *ends, *further]:
        for name, entry in zip(_NODE_LISTS, node_row, strict=True):
            lists[name].append(entry)
    for leaf, weight in enumerate(np.array(tree.value).astype(np.float32).tolist()):
        for name, entry in zip(_LEAF_LISTS, (tree_id, n_nodes + leaf, 0, weight), strict=True):
            lists[name].append(entry)


def _values(
    lists: dict[str, Any], at: dict[int, int], weights: dict[int, float], rows: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the leaf values of rows in a tree of the operator's attributes."""

    def decide(node: int, some: Rows) -> Decision:
        i = at[node]
        if lists["nodes_modes"][i] == b"LEAF":
            return weights[node]
        x, value = rows[some, lists["nodes_featureids"][i]], np.float32(lists["nodes_values"][i])
        mode = lists["nodes_modes"][i].decode()
        goes_left = {"BRANCH_LEQ": x <= value, "BRANCH_EQ": x == value}[mode]
        goes_left |= np.isnan(x) & bool(lists["nodes_missing_value_tracks_true"][i])
        return goes_left, lists["nodes_truenodeids"][i], lists["nodes_falsenodeids"][i]

    return walk(0, len(rows), decide).astype(np.float32)


TARGET = OnnxGraph()
