"""Target ``xgboost``: the JSON of XGBoost's ``save_model``, loaded by ``Booster.load_model``.

XGBoost rounds features to 32 bits, sends a row left if x < threshold, and a category of a node's set to the right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.float32 import smallest_float32_above
from rankwright.exporting.simple_trees import PlainTree, plain_tree
from rankwright.exporting.walk import Rows, columns_by_name, dense, leaves
from rankwright.kernels.tree_arrays import TreeArrays

LARGEST_CATEGORY = (1 << 24) - 1  # a 32-bit number holds no larger one exactly
_VERSION = (3, 0, 0)  # of the layout; XGBoost from 2.1 reads it
_NO_PARENT = 2147483647


class XgboostJson:
    """XGBoost's model file in JSON."""

    name = "xgboost"
    file_name = "model.json"
    single_precision = True

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees with thresholds and leaf values of 32 bits."""
        plain = [plain_tree(tree, feature_names) for tree in trees]
        is_category = np.zeros(len(feature_names), dtype=bool)
        for tree in plain:
            is_category[tree.feature[tree.is_set]] = True
            _check_categories(tree, feature_names)
        n = len(plain)
        model = (
            '{"cats":{"enc":[],"feature_segments":[],"sorted_idx":[]},'
            f'"gbtree_model_param":{{"num_parallel_tree":"1","num_trees":"{n}"}},'
            f'"iteration_indptr":{_list(range(n + 1))},"tree_info":{_list([0] * n)},'
            f'"trees":[{",".join(_tree(number, tree, len(feature_names)) for number, tree in enumerate(plain))}]}}'
        )
        names = json.dumps(
            list(feature_names), ensure_ascii=False
        )  # XGBoost does not decode escapes such as \u00e9
        types = json.dumps(["c" if category else "float" for category in is_category])
        text = (
            f'{{"learner":{{"attributes":{{}},"feature_names":{names},"feature_types":{types},'
            f'"gradient_booster":{{"model":{model},"name":"gbtree"}},'
            '"learner_model_param":{"base_score":"0E0","boost_from_average":"1","num_class":"0",'
            f'"num_feature":"{len(feature_names)}","num_target":"1"}},'
            '"objective":{"lambdarank_param":{},"name":"rank:ndcg"}},'
            f'"version":{_list(_VERSION)}}}\n'
        )
        return Exported(text.encode())

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows by XGBoost's rules."""
        learner = json.loads(content)["learner"]
        order = columns_by_name(learner["feature_names"], feature_names)
        rows = dense(X, len(feature_names), np.float32)[:, order]
        scores = np.full(
            len(rows), np.float32(float(learner["learner_model_param"]["base_score"].strip("[]")))
        )
        for tree in learner["gradient_booster"]["model"]["trees"]:
            scores += _values(tree, rows)
        return scores.astype(np.float64)


def _check_categories(tree: PlainTree, feature_names: Sequence[str]) -> None:
    for node in np.flatnonzero(tree.is_set):
        if len(tree.categories[node]) and tree.categories[node][-1] > LARGEST_CATEGORY:
            raise ValueError(
                f"feature {feature_names[tree.feature[node]]!r} has the category {tree.categories[node][-1]}; XGBoost "
                f"knows categories up to {LARGEST_CATEGORY}. Number the categories from 0."
            )


def _list(values: Iterable[Any]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def _numbers(values: NDArray[np.float32]) -> str:
    """Numbers with the fewest digits that are exact in 32 bits: XGBoost's parser takes no more."""
    return _list(_number(value) for value in values)


def _number(value: np.float32) -> str:
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="-").partition("e")
    return f"{mantissa}E{int(exponent)}"


def _tree(number: int, tree: PlainTree, n_features: int) -> str:
    source, left, parents = _numbered_in_pairs(tree)
    size, is_leaf = len(source), source < 0
    node = np.where(is_leaf, 0, source)

    def of_nodes(values: NDArray[Any], at_leaves: Any = 0) -> NDArray[Any]:
        return np.where(is_leaf, at_leaves, values[node] if len(values) else at_leaves)

    is_set = of_nodes(tree.is_set, False).astype(bool)
    values = np.where(is_leaf, tree.value[np.where(is_leaf, ~source, 0)], 0.0).astype(np.float32)
    bounds = np.where(
        is_set, np.float32(0), of_nodes(smallest_float32_above(tree.bound)).astype(np.float32)
    )
    set_nodes = np.flatnonzero(is_set)
    sets = [tree.categories[source[one]].tolist() for one in set_nodes]
    sizes = [len(one) for one in sets]
    starts = (np.cumsum(sizes, dtype=np.int64) - sizes).tolist() if sizes else []
    zeros = _list(["0E0"] * size)
    # Categories of a node's set go right here.
    default_left = of_nodes(tree.missing_left != tree.is_set, False).astype(int)
    return (
        f'{{"base_weights":{_numbers(values)},"categories":{_list(category for one in sets for category in one)},'
        f'"categories_nodes":{_list(set_nodes)},"categories_segments":{_list(starts)},"categories_sizes":{_list(sizes)},'
        f'"default_left":{_list(default_left)},"id":{number},'
        f'"left_children":{_list(left)},"loss_changes":{zeros},"parents":{_list(parents)},'
        f'"right_children":{_list(np.where(left < 0, -1, left + 1))},'
        f'"split_conditions":{_numbers(np.where(is_leaf, values, bounds))},'
        f'"split_indices":{_list(of_nodes(tree.feature))},"split_type":{_list(is_set.astype(int))},'
        f'"sum_hessian":{zeros},"tree_param":{{"num_deleted":"0","num_feature":"{n_features}",'
        f'"num_nodes":"{size}","size_leaf_vector":"1"}}}}'
    )


def _numbered_in_pairs(
    tree: PlainTree,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number nodes and leaves so that the right child follows the left one, which XGBoost takes for granted.

    Returns, by the new numbers, the node or ~leaf of the tree, the left child (-1 for leaves) and the parent.
    """
    source = [0 if len(tree.feature) else ~0]
    left: list[int] = []
    parents = [_NO_PARENT]
    for number, one in enumerate(source):  # grows while it is read
        if one < 0:
            left.append(-1)
            continue
        left.append(len(source))
        pair = [int(tree.left[one]), int(tree.right[one])]
        source += reversed(pair) if tree.is_set[one] else pair
        parents += [number, number]
    return (
        np.array(source, dtype=np.int64),
        np.array(left, dtype=np.int64),
        np.array(parents, dtype=np.int64),
    )


def _values(tree: dict[str, Any], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Leaf values of rows in a tree of the parsed file."""
    condition = np.array([float(value) for value in tree["split_conditions"]], dtype=np.float32)
    sets = {
        node: tree["categories"][start : start + size]
        for node, start, size in zip(
            tree["categories_nodes"],
            tree["categories_segments"],
            tree["categories_sizes"],
            strict=True,
        )
    }

    def goes_left(node: int, some: Rows) -> Any:
        x = rows[some, tree["split_indices"][node]]
        left = (
            ~np.isin(np.trunc(x), sets[node]) if tree["split_type"][node] else x < condition[node]
        )
        return np.where(np.isnan(x), bool(tree["default_left"][node]), left)

    def children(node: int) -> tuple[int, int] | None:
        left, right = tree["left_children"][node], tree["right_children"][node]
        return None if left == -1 else (left, right)

    return condition[leaves(len(rows), 0, children, goes_left)]


TARGET = XgboostJson()
