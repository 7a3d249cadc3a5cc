"""Target ``xgboost``: the JSON of XGBoost's ``save_model``, loaded by ``Booster.load_model``.

The library's rules, from ``RegTree`` and ``JsonReader`` of XGBoost 2.1 to 3.2:

    numbers             features, conditions and leaves are floats, and are added as floats
    a present feature   goes left if feature < condition; a category goes right if it is in the node's set
    a missing feature   goes to the default side
    names               ``DMatrix`` refuses names with [, ] and <
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.float32 import smallest_float32_above
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
from rankwright.exporting.walk import Decision, Rows, columns_by_name, dense, single, walk

LARGEST_CATEGORY = (1 << 24) - 1  # larger numbers are not exact in 32 bits
_VERSION = (3, 0, 0)  # of the layout; XGBoost from 2.1 reads it
_NO_PARENT = 2147483647


class XGBoostModelFile(Target):
    """XGBoost's model file in JSON."""

    name = "xgboost"
    file_name = "model.json"
    in_32_bits = True
    support = (Support("XGBoost 2.1 and newer", "sent where the file says"),)

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees with thresholds and leaf values of 32 bits."""
        plain = plain_trees(trees, options.features, Form(single=True))
        # A column has categories if a split of the model uses them.
        is_category = np.zeros(len(options.features), dtype=bool)
        for tree in plain:
            for column, categories in zip(tree.feature, tree.categories, strict=True):
                if categories is not None:
                    is_category[column] = True
                    _check_categories(categories, options.features[column])
        # The JSON is put together as text, because the parser takes numbers only with few digits.
        n = len(plain)
        model = (
            '{"cats":{"enc":[],"feature_segments":[],"sorted_idx":[]},'
            f'"gbtree_model_param":{{"num_parallel_tree":"1","num_trees":"{n}"}},'
            f'"iteration_indptr":{_list(range(n + 1))},"tree_info":{_list([0] * n)},'
            f'"trees":[{",".join(_tree(number, tree, len(options.features)) for number, tree in enumerate(plain))}]}}'
        )
        # XGBoost does not decode escapes such as \u00e9.
        names = json.dumps(list(options.features), ensure_ascii=False)
        types = json.dumps(np.where(is_category, "c", "float").tolist())
        text = (
            f'{{"learner":{{"attributes":{{}},"feature_names":{names},"feature_types":{types},'
            f'"gradient_booster":{{"model":{model},"name":"gbtree"}},'
            '"learner_model_param":{"base_score":"0E0","boost_from_average":"1","num_class":"0",'
            f'"num_feature":"{len(options.features)}","num_target":"1"}},'
            '"objective":{"lambdarank_param":{},"name":"rank:ndcg"}},'
            f'"version":{_list(_VERSION)}}}\n'
        )
        # The file is read with any names, but data for it cannot be given with these.
        odd_names = [name for name in options.features if set(name) & set("[]<")]
        notes = []
        if odd_names:
            notes.append(
                f"xgboost.DMatrix refuses names with [, ] or <, such as {odd_names[0]!r}: give it no feature_names, "
                "and predict with validate_features=False."
            )
        return Exported(text.encode(), tuple(notes))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by XGBoost's rules."""
        learner = json.loads(content)["learner"]
        order = columns_by_name(learner["feature_names"], options.features)
        rows = single(dense(X, len(options.features)))[:, order]
        # Newer versions write the base score as a list with a single number.
        base_score = learner["learner_model_param"]["base_score"].strip("[]")
        scores = np.full(len(rows), np.float32(float(base_score)))
        for tree in learner["gradient_booster"]["model"]["trees"]:
            scores += _values(tree, rows)
        return scores.astype(np.float64)


def _check_categories(categories: Sequence[int], name: str) -> None:
    if categories[-1] > LARGEST_CATEGORY:
        raise ValueError(
            f"feature {name!r} has the category {categories[-1]}; XGBoost knows categories up to {LARGEST_CATEGORY}. "
            "Number the categories from 0."
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
    # XGBoost keeps nodes and leaves in one list, with a leaf's value as its condition.
    source, left, parents = _numbered_in_pairs(tree)
    size, is_leaf = len(source), source < 0
    inner = np.flatnonzero(~is_leaf)
    nodes = source[inner]
    condition = np.zeros(size, dtype=np.float32)
    condition[is_leaf] = np.array(tree.value)[~source[is_leaf]]
    weights = condition.copy()
    condition[inner] = smallest_float32_above(np.array(tree.bound)[nodes])
    feature = np.zeros(size, dtype=np.int64)
    feature[inner] = np.array(tree.feature, dtype=np.int64)[nodes]
    default_left = np.zeros(size, dtype=np.int64)
    default_left[inner] = np.array(tree.missing_left, dtype=np.int64)[nodes]
    # A node with a set has no condition; its categories are listed by the number of the node.
    set_nodes, sets = [], []
    for new, node in zip(inner.tolist(), nodes.tolist(), strict=True):
        categories = tree.categories[node]
        if categories is not None:
            set_nodes.append(new)
            sets.append(categories)
    is_set = np.zeros(size, dtype=np.int64)
    is_set[set_nodes] = 1
    condition[set_nodes] = 0
    default_left[set_nodes] ^= 1  # the categories of a set go right here
    # All sets stand in one list; each node with a set has a segment of it.
    sizes = [len(categories) for categories in sets]
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    zeros = _list(["0E0"] * size)
    return (
        f'{{"base_weights":{_numbers(weights)},'
        f'"categories":{_list(category for categories in sets for category in categories)},'
        f'"categories_nodes":{_list(set_nodes)},"categories_segments":{_list(starts)},"categories_sizes":{_list(sizes)},'
        f'"default_left":{_list(default_left)},"id":{number},'
        f'"left_children":{_list(left)},"loss_changes":{zeros},"parents":{_list(parents)},'
        f'"right_children":{_list(np.where(left < 0, -1, left + 1))},'
        f'"split_conditions":{_numbers(condition)},'
        f'"split_indices":{_list(feature)},"split_type":{_list(is_set)},'
        f'"sum_hessian":{zeros},"tree_param":{{"num_deleted":"0","num_feature":"{n_features}",'
        f'"num_nodes":"{size}","size_leaf_vector":"1"}}}}'
    )


def _numbered_in_pairs(
    tree: PlainTree,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number nodes and leaves so that the right child follows the left one, because XGBoost takes that for granted.

    Returns, by the new numbers, the node or ~leaf of the tree, the left child (-1 for leaves) and the parent.
    """
    source = [tree.root]
    left: list[int] = []
    parents = [_NO_PARENT]
    for number, node in enumerate(source):  # grows while it is read
        if node < 0:
            left.append(-1)
            continue
        left.append(len(source))
        pair = [tree.left[node], tree.right[node]]
        # The categories of a set go right in XGBoost and left here.
        if tree.categories[node] is not None:
            pair.reverse()
        source += pair
        parents += [number, number]
    return (
        np.array(source, dtype=np.int64),
        np.array(left, dtype=np.int64),
        np.array(parents, dtype=np.int64),
    )


def _values(tree: dict[str, Any], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the leaf values of rows in a tree of the parsed file."""
    condition = np.array([float(value) for value in tree["split_conditions"]], dtype=np.float32)
    segments = zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    )
    sets = {node: tree["categories"][start : start + size] for node, start, size in segments}

    def decide(node: int, some: Rows) -> Decision:
        if tree["left_children"][node] == -1:
            return float(condition[node])
        x = rows[some, tree["split_indices"][node]]
        goes_left = x < condition[node]
        if node in sets:
            goes_left = ~np.isin(np.trunc(x), sets[node])
        # NaN is in no set and below no condition, so missing values are decided last.
        goes_left = np.where(np.isnan(x), bool(tree["default_left"][node]), goes_left)
        return goes_left, tree["left_children"][node], tree["right_children"][node]

    return walk(0, len(rows), decide).astype(np.float32)


TARGET = XGBoostModelFile()
