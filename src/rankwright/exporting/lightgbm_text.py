"""Target ``lightgbm``: LightGBM's model text, for everything that reads it, of a forest of any engine.

Scores are those of LightGBM to the last bit. The file holds what a prediction needs. It has no counts of training
rows, which `TreeArrays` do not hold either, so LightGBM computes no SHAP values from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.simple_trees import expanded
from rankwright.exporting.walk import Rows, dense, leaves
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    BELOW,
    NAN_TO_DEFAULT,
    WORD,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
    largest_that_rounds_below,
)

_MISSING_BITS = {AS_ZERO: 0, ZERO_TO_DEFAULT: 4, NAN_TO_DEFAULT: 8}


class LightgbmText:
    """LightGBM's model text."""

    name = "lightgbm"
    file_name = "model.txt"
    single_precision = False

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees; a missing category goes right in LightGBM, so nodes that send it left become two."""
        every = [expanded(tree, feature_names, missing_categories=True) for tree in trees]
        notes = []
        blurred = sum(_blurred(tree) for tree in every)
        if blurred:
            notes.append(
                f"{blurred} splits have a threshold closer to zero than {ZERO:.3g}: LightGBM reads such small values "
                "as zero, and only they may go to the other side."
            )
        names = _plain_names(feature_names)
        blocks = [f"Tree={number}\n{_tree(tree)}\n\n" for number, tree in enumerate(every)]
        head = [
            "tree",
            "version=v4",
            "num_class=1",
            "num_tree_per_iteration=1",
            "label_index=0",
            f"max_feature_idx={len(names) - 1}",
            "objective=lambdarank",
            "feature_names=" + " ".join(names),
            "feature_infos=" + " ".join(_infos(every, len(names))),
            "tree_sizes=" + " ".join(str(len(block)) for block in blocks),
        ]
        text = (
            "\n".join(head)
            + "\n\n"
            + "".join(blocks)
            + "end of trees\n\nparameters:\nend of parameters\n"
        )
        return Exported(text.encode(), tuple(notes))

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows by LightGBM's rules."""
        text = content.decode()
        rows = dense(X, int(re.findall(r"(?m)^max_feature_idx=(\d+)$", text)[0]) + 1, np.float64)
        # Values this close to zero are not stored in a row that LightGBM predicts, and absent values are 0.
        rows[np.abs(rows) <= 1.0000000180025095e-35] = 0.0
        scores = np.zeros(len(rows))
        for block in re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees")[0])[1:]:
            scores += _values(
                dict(line.split("=", 1) for line in block.splitlines() if "=" in line), rows
            )
        return scores


def _blurred(tree: TreeArrays) -> int:
    """Splits of single precision that lie between numbers which LightGBM reads as zero."""
    below = np.asarray(tree.decision) == BELOW
    bound = largest_that_rounds_below(np.asarray(tree.threshold, dtype=np.float64)[below])
    return int(np.sum((bound >= -ZERO) & (bound < ZERO)))


def _plain_names(feature_names: Sequence[str]) -> list[str]:
    """Names without the spaces and signs that the text cannot hold, still different from each other."""
    names: list[str] = []
    taken = set(feature_names)
    for name in feature_names:
        plain = re.sub(r'[\s",:\[\]{}=]', "_", name) or "_"
        number = 0
        while plain != name and (plain in taken or plain in names):
            number += 1
            plain = f"{plain}_{number}"
        names.append(plain)
    return names


def _infos(trees: Sequence[TreeArrays], n_features: int) -> list[str]:
    """What is known of the columns: unused, any numbers, or the categories that occur in a split."""
    infos = ["none"] * n_features
    categories: dict[int, set[int]] = {}
    for tree in trees:
        for node, column in enumerate(np.asarray(tree.feature).tolist()):
            infos[column] = "[-inf:inf]"
            if tree.decision[node] == AMONG:
                categories.setdefault(column, set()).update(tree.categories[node].tolist())
    for column, values in categories.items():
        infos[column] = ":".join(map(str, sorted(values)))
    return infos


def _tree(tree: TreeArrays) -> str:
    decision = np.asarray(tree.decision)
    is_set = decision == AMONG
    threshold = np.asarray(tree.threshold, dtype=np.float64).copy()
    below = decision == BELOW
    threshold[below] = largest_that_rounds_below(threshold[below])
    rule = np.array([_MISSING_BITS[int(missing)] for missing in tree.missing], dtype=np.int64)
    rule += 2 * np.asarray(tree.default_left, dtype=np.int64)
    # Only at thresholds "at most" are small numbers zeros that may be missing.
    rule[below & (np.asarray(tree.missing) == ZERO_TO_DEFAULT)] += 4
    rule[is_set] = 1 + _MISSING_BITS[NAN_TO_DEFAULT]
    words = [_words(tree.categories[node]) for node in np.flatnonzero(is_set)]
    threshold[is_set] = np.arange(len(words))
    lines = [f"num_leaves={len(tree.value)}", f"num_cat={len(words)}"]
    if len(decision):
        lines += [
            "split_feature=" + _joined(np.asarray(tree.feature).tolist()),
            "split_gain=" + _joined(np.asarray(tree.gain, dtype=np.float64).tolist()),
            "threshold=" + _joined(threshold.tolist()),
            "decision_type=" + _joined(rule.tolist()),
            "left_child=" + _joined(np.asarray(tree.left).tolist()),
            "right_child=" + _joined(np.asarray(tree.right).tolist()),
        ]
    lines.append("leaf_value=" + _joined(np.asarray(tree.value, dtype=np.float64).tolist()))
    if words:
        bounds = np.append(0, np.cumsum([len(each) for each in words])).tolist()
        lines += [
            "cat_boundaries=" + _joined(bounds),
            "cat_threshold=" + _joined(np.concatenate(words).tolist()),
        ]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", "", ""])


def _joined(values: list[Any]) -> str:
    return " ".join(map(repr, values))


def _words(categories: Any) -> Any:
    words = np.zeros(int(categories[-1]) // WORD + 1 if len(categories) else 1, dtype=np.uint32)
    for category in np.asarray(categories).tolist():
        words[category // WORD] |= np.uint32(1 << category % WORD)
    return words


def _values(fields: dict[str, str], rows: Floats) -> Floats:
    """Leaf values of rows in a tree of the text."""

    def numbers(name: str) -> list[float]:
        return [float(number) for number in fields.get(name, "").split()]

    feature, kind = (
        [int(x) for x in numbers("split_feature")],
        [int(x) for x in numbers("decision_type")],
    )
    threshold, bounds, sets = (
        numbers("threshold"),
        numbers("cat_boundaries"),
        fields.get("cat_threshold", "").split(),
    )
    left, right = numbers("left_child"), numbers("right_child")

    def goes_left(node: int, some: Rows) -> Any:
        x = rows[some, feature[node]]
        default, missing = bool(kind[node] & 2), kind[node] >> 2 & 3
        if kind[node] & 1:
            first, last = (int(bounds[int(threshold[node]) + step]) for step in (0, 1))
            bits = "".join(format(int(word), "032b")[::-1] for word in sets[first:last])
            chosen = [category for category, bit in enumerate(bits) if bit == "1"]
            return ~np.isnan(x) & np.isin(np.trunc(x), chosen)
        if missing != 2:
            x = np.where(np.isnan(x), 0.0, x)
        to_default = (x == 0) if missing == 1 else np.isnan(x)
        return np.where(to_default, default, x <= threshold[node])

    def children(node: int) -> tuple[int, int] | None:
        return None if node < 0 else (int(left[node]), int(right[node]))

    reached = leaves(len(rows), 0 if feature else -1, children, goes_left)
    return np.array(numbers("leaf_value"))[-1 - reached]


TARGET = LightgbmText()
