"""Target ``onnx``: one ``TreeEnsembleRegressor`` of the operators ``ai.onnx.ml``, from features to a score.

The input ``features`` [rows, columns] and the output ``score`` [rows, 1] are 32-bit numbers; NaN is missing. A node
goes to its true branch if x <= value (BRANCH_LEQ) or x = value (BRANCH_EQ). Sets of categories are chains of
BRANCH_EQ nodes that share their true branch, as other converters write them and as onnxruntime expects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.float32 import largest_float32_at_most
from rankwright.exporting.library import require
from rankwright.exporting.simple_trees import PlainTree, plain_tree
from rankwright.exporting.walk import Rows, dense, leaves
from rankwright.kernels.tree_arrays import TreeArrays

_OPERATORS, _ML_OPERATORS, _IR_VERSION = 15, 3, 8  # of 2022: runtimes of the years since read them
LARGEST_CATEGORY = (1 << 24) - 1  # a 32-bit number holds no larger one exactly


class OnnxGraph:
    """A graph of one node."""

    name = "onnx"
    file_name = "model.onnx"
    single_precision = True

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees with thresholds and leaf values of 32 bits."""
        onnx = require("onnx", self.name, "onnx")
        plain = [plain_tree(tree, feature_names) for tree in trees] or [_NOTHING]
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
        for number, tree in enumerate(plain):
            _add_tree(lists, number, tree, feature_names)
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
        number = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            [node],
            options.name,
            [onnx.helper.make_tensor_value_info("features", number, [None, len(feature_names)])],
            [onnx.helper.make_tensor_value_info("score", number, [None, 1])],
        )
        versions = [
            onnx.helper.make_opsetid("", _OPERATORS),
            onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPERATORS),
        ]
        model = onnx.helper.make_model(
            graph, opset_imports=versions, ir_version=_IR_VERSION, producer_name="rankwright"
        )
        onnx.helper.set_model_props(model, {"feature_names": json.dumps(list(feature_names))})
        onnx.checker.check_model(model)
        return Exported(model.SerializeToString(deterministic=True))

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows by the rules of the operator."""
        onnx = require("onnx", self.name, "onnx")
        (node,) = onnx.load_from_string(content).graph.node
        lists = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        rows = dense(X, len(feature_names), np.float32)
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
            reached = _leaves(lists, at, rows)
            scores += np.array([weight[tree, leaf] for leaf in reached.tolist()], dtype=np.float32)
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
_EMPTY: NDArray[Any] = np.empty(0)
_NOTHING = PlainTree(
    _EMPTY.astype(np.int32),
    _EMPTY,
    _EMPTY.astype(bool),
    _EMPTY.astype(bool),
    (),
    _EMPTY.astype(np.int32),
    _EMPTY.astype(np.int32),
    np.zeros(1),
)


def _add_tree(
    lists: dict[str, list[Any]], tree_id: int, tree: PlainTree, feature_names: Sequence[str]
) -> None:
    """Append nodes: those of the tree, its leaves, and the further ones of chains."""
    n_nodes, n_leaves = len(tree.feature), len(tree.value)
    left, right = (
        np.where(child >= 0, child, n_nodes + ~child) for child in (tree.left, tree.right)
    )
    bound = largest_float32_at_most(tree.bound)
    first: list[tuple[Any, ...]] = []
    further: list[tuple[Any, ...]] = []
    for node in range(n_nodes):
        feature, missing_left = int(tree.feature[node]), int(tree.missing_left[node])
        if not tree.is_set[node]:
            branches = int(left[node]), int(right[node])
            first.append(
                (tree_id, node, feature, "BRANCH_LEQ", float(bound[node]), *branches, missing_left)
            )
            continue
        chain = [int(category) for category in tree.categories[node]] or [-1]
        if chain[-1] > LARGEST_CATEGORY:
            raise ValueError(
                f"feature {feature_names[feature]!r} has the category {chain[-1]}; a 32-bit number holds categories "
                f"up to {LARGEST_CATEGORY}. Number the categories from 0."
            )
        ids = [node, *(n_nodes + n_leaves + len(further) + step for step in range(len(chain) - 1))]
        for position, category in enumerate(chain):
            otherwise = int(right[node]) if position == len(chain) - 1 else ids[position + 1]
            link = (
                tree_id, ids[position], feature, "BRANCH_EQ", float(category), int(left[node]), otherwise, missing_left,
            )  # fmt: skip
            (first if position == 0 else further).append(link)
    ends = [(tree_id, n_nodes + leaf, 0, "LEAF", 0.0, 0, 0, 0) for leaf in range(n_leaves)]
    for node_row in [*first, *ends, *further]:
        for name, value in zip(_NODE_LISTS, node_row, strict=True):
            lists[name].append(value)
    for leaf, weight in enumerate(tree.value.astype(np.float32)):
        for name, value in zip(
            _LEAF_LISTS, (tree_id, n_nodes + leaf, 0, float(weight)), strict=True
        ):
            lists[name].append(value)


def _leaves(lists: dict[str, Any], at: dict[int, int], rows: NDArray[np.float32]) -> Rows:
    """Leaves of rows in one tree of the operator's attributes."""

    def goes_left(node: int, some: Rows) -> Any:
        i = at[node]
        x, value = rows[some, lists["nodes_featureids"][i]], np.float32(lists["nodes_values"][i])
        mode = lists["nodes_modes"][i].decode()
        taken = {"BRANCH_LEQ": x <= value, "BRANCH_EQ": x == value}[mode]
        return taken | (np.isnan(x) & bool(lists["nodes_missing_value_tracks_true"][i]))

    def children(node: int) -> tuple[int, int] | None:
        i = at[node]
        return None if lists["nodes_modes"][i] == b"LEAF" else (
            lists["nodes_truenodeids"][i], lists["nodes_falsenodeids"][i]
        )  # fmt: skip

    return leaves(len(rows), 0, children, goes_left)


TARGET = OnnxGraph()
