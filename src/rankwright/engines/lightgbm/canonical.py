"""Model text for LightGBM, written afresh from trees that were checked.

LightGBM believes what it reads: a text with a child that does not exist, or with one number too few, ends the process.
So it never sees a text that came from a file, only this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    NAN_TO_DEFAULT,
    ZERO_TO_DEFAULT,
    TreeArrays,
    bits_of,
)

Integers = NDArray[np.int64]

DEEPEST = 1024  # nodes from the root: for SHAP values LightGBM needs memory with the square of it
_MOST_ROWS = 2**31 - 1
_MISSING = {AS_ZERO: 0, ZERO_TO_DEFAULT: 1, NAN_TO_DEFAULT: 2}


def canonical_text(trees: Iterable[tuple[TreeArrays, Integers]], n_features: int) -> str:
    """Write trees that `rankwright.kernels.tree_arrays.pack` has accepted, each with the numbers of rows in its leaves.

    SHAP values weigh the ways down by these. Numbers of rows in nodes are their sums, whatever a file says, since with
    others the values would not add up to the score.
    """
    blocks = [f"Tree={number}\n{_tree_text(*tree)}\n\n\n" for number, tree in enumerate(trees)]
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={n_features - 1}",
        f"feature_names={' '.join(f'f{column}' for column in range(n_features))}",
        f"feature_infos={' '.join(['none'] * n_features)}",
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}",
    ]
    return "\n".join(head) + f"\n\n{''.join(blocks)}end of trees\n"


def _tree_text(tree: TreeArrays, rows: Integers) -> str:
    if len(tree.value) == 1:
        rows = np.ones(1, dtype=np.int64)
    elif (
        rows.shape != tree.value.shape or rows.min() < 1 or max(rows.max(), rows.sum()) > _MOST_ROWS
    ):
        raise ValueError(
            "a tree does not have a number of rows for each leaf, without which it has no SHAP values"
        )
    is_set = tree.decision == AMONG
    sets = [bits_of(tree.categories[node]) for node in np.flatnonzero(is_set)]
    sets = [words if len(words) else np.zeros(1, dtype=np.uint32) for words in sets]
    threshold = tree.threshold.copy()
    threshold[is_set] = np.arange(len(sets))
    missing = np.array([_MISSING[kind] for kind in tree.missing.tolist()], dtype=np.int64)
    rule = np.where(is_set, 1, 2 * tree.default_left + 4 * missing)
    fields: dict[str, Sequence[Any]] = {
        "num_leaves": [len(tree.value)],
        "num_cat": [len(sets)],
        "split_feature": tree.feature.tolist(),
        "split_gain": [0] * len(tree.feature),
        "threshold": threshold.tolist(),
        "decision_type": rule.tolist(),
        "left_child": tree.left.tolist(),
        "right_child": tree.right.tolist(),
        "leaf_value": tree.value.tolist(),
        "leaf_weight": [0] * len(tree.value),
        "leaf_count": rows.tolist(),
        "internal_value": [0] * len(tree.feature),
        "internal_weight": [0] * len(tree.feature),
        "internal_count": _rows_of_nodes(tree, rows).tolist(),
        **({"cat_boundaries": np.cumsum([0, *map(len, sets)]).tolist()} if sets else {}),
        **({"cat_threshold": np.concatenate(sets).tolist()} if sets else {}),
        "is_linear": [0],
        "shrinkage": [1],
    }
    return "\n".join(f"{name}={' '.join(map(repr, values))}" for name, values in fields.items())


def _rows_of_nodes(tree: TreeArrays, rows: Integers) -> Integers:
    """Rows in each node: the sum over the leaves below it."""
    order = [0] if len(tree.feature) else []
    for node in order:  # which grows on the way
        order += [child for child in (int(tree.left[node]), int(tree.right[node])) if child >= 0]
    sums = np.zeros(len(tree.feature), dtype=np.int64)
    for node in reversed(order):
        sums[node] = sum(
            sums[child] if child >= 0 else rows[~child]
            for child in (tree.left[node], tree.right[node])
        )
    return sums
