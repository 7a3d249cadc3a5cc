"""Target ``lightgbm``: LightGBM's model text, for everything that reads it, of a forest of any engine.

The library's rules, from ``Tree`` and ``Predictor`` of LightGBM 3 and 4:

    numbers             features, thresholds and leaves are doubles, and are added as doubles
    a present feature   is 0 if it is not larger than 1e-35 (as a float), and goes left if feature <= threshold
    a category          goes left if it is in the node's set of bits
    a missing feature   by the decision type: it is 0, goes to the default side, or goes there together with zeros;
                        a missing category goes right
    names               have no spaces and no signs of JSON

The file has all that a prediction needs. It has no counts of training rows, which `TreeArrays` do not hold either, so
LightGBM computes no SHAP values from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
from rankwright.exporting.walk import Decision, Rows, dense, walk
from rankwright.kernels.tree_arrays import ZERO, bits_of

# The bits of a node's decision type.
_IS_SET, _DEFAULT_LEFT, _ZERO_IS_MISSING, _NAN_IS_MISSING = 1, 2, 4, 8


class LightGBMText(Target):
    """LightGBM's model text."""

    name = "lightgbm"
    file_name = "model.txt"
    support = (Support("LightGBM 3 and newer", "sent where the file says"),)

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees; a missing category goes right in LightGBM, so nodes that send it left become two."""
        form = Form(missing_category_right=True, zero_is_missing=True)
        every = plain_trees(trees, options.features, form)
        notes = []
        # LightGBM rounds features near zero to zero before it compares them.
        blurred = sum(
            codes is None and -ZERO <= bound < ZERO
            for tree in every
            for bound, codes in zip(tree.bound, tree.categories, strict=True)
        )
        if blurred:
            notes.append(
                f"{blurred} splits have a threshold closer to zero than {ZERO:.3g}: LightGBM reads such small values "
                "as zero, and only they may go to the other side."
            )
        # The header separates names by spaces, and readers take some signs for JSON.
        names = _plain_names(options.features)
        changed = [
            name for name, plain in zip(options.features, names, strict=True) if name != plain
        ]
        if changed:
            notes.append(
                f"{len(changed)} names of features, such as {changed[0]!r}, have signs that LightGBM's text cannot "
                "hold; underscores replace them."
            )
        # LightGBM finds the trees by their sizes, so each block has its empty lines.
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
        tail = "end of trees\n\nparameters:\nend of parameters\n"
        text = "\n".join([*head, "", "".join(blocks) + tail])
        return Exported(text.encode(), tuple(notes))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by LightGBM's rules."""
        text = content.decode()
        rows = dense(X, int(re.findall(r"(?m)^max_feature_idx=(\d+)$", text)[0]) + 1)
        # Values this close to zero are not stored in a row that LightGBM predicts, and absent values are 0.
        rows[np.abs(rows) <= 1.0000000180025095e-35] = 0.0
        scores = np.zeros(len(rows))
        for block in re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees")[0])[1:]:
            fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            scores += _values(fields, rows)
        return scores


def _plain_names(feature_names: Sequence[str]) -> list[str]:
    """Sequence[str] without the spaces and signs that the text cannot hold, still different from each other."""
    names: list[str] = []
    taken = set(feature_names)
    for name in feature_names:
        plain = re.sub(r'[\s",:\[\]{}=]', "_", name) or "_"
        # Another feature may have this name, and two columns must not share it.
        number = 0
        while plain != name and (plain in taken or plain in names):
            number += 1
            plain = f"{plain}_{number}"
        names.append(plain)
    return names


def _infos(trees: Sequence[PlainTree], n_features: int) -> list[str]:
    """Return LightGBM's note on each column: unused, any numbers, or the categories that occur in a split."""
    infos = ["none"] * n_features
    categories: dict[int, set[int]] = {}
    for tree in trees:
        for column, codes in zip(tree.feature, tree.categories, strict=True):
            infos[column] = "[-inf:inf]"
            if codes is not None:
                categories.setdefault(column, set()).update(codes)
    for column, values in categories.items():
        infos[column] = ":".join(map(str, sorted(values)))
    return infos


def _tree(tree: PlainTree) -> str:
    # A tree has a list of its sets, and a node has the number of its set as its threshold.
    sets = [bits_of(np.array(codes)) for codes in tree.categories if codes is not None]
    lines = [f"num_leaves={len(tree.value)}", f"num_cat={len(sets)}"]
    if tree.feature:
        lines += [
            "split_feature=" + _joined(tree.feature),
            "split_gain=" + _joined(tree.gain),
            "threshold=" + _joined(_thresholds(tree)),
            "decision_type=" + _joined([_decision_type(tree, i) for i in range(len(tree.feature))]),
            "left_child=" + _joined(tree.left),
            "right_child=" + _joined(tree.right),
        ]
    lines.append("leaf_value=" + _joined(tree.value))
    # The words of all sets stand in a single list, with the bounds of each set in another.
    if sets:
        bounds = np.cumsum([0, *map(len, sets)]).tolist()
        lines += [
            "cat_boundaries=" + _joined(bounds),
            "cat_threshold=" + _joined(np.concatenate(sets).tolist()),
        ]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", "", ""])


def _thresholds(tree: PlainTree) -> list[float]:
    """Return the bound of each node, or the number of its set."""
    n_sets = 0
    thresholds = []
    for bound, codes in zip(tree.bound, tree.categories, strict=True):
        thresholds.append(bound if codes is None else float(n_sets))
        n_sets += codes is not None
    return thresholds


def _decision_type(tree: PlainTree, node: int) -> int:
    if tree.categories[node] is not None:
        return _IS_SET + _NAN_IS_MISSING
    kind = _DEFAULT_LEFT * tree.missing_left[node]
    if tree.zero_is_missing[node]:
        return kind + _ZERO_IS_MISSING
    return kind + _NAN_IS_MISSING


def _joined(values: list[Any]) -> str:
    return " ".join(map(repr, values))


def _values(fields: dict[str, str], rows: Floats) -> Floats:
    """Leaf values of rows in a tree of the text."""

    def numbers(name: str) -> list[float]:
        return [float(number) for number in fields.get(name, "").split()]

    feature = [int(number) for number in numbers("split_feature")]
    kind = [int(number) for number in numbers("decision_type")]
    threshold, bounds = numbers("threshold"), numbers("cat_boundaries")
    sets = fields.get("cat_threshold", "").split()
    left, right = numbers("left_child"), numbers("right_child")
    value = numbers("leaf_value")

    def decide(node: int, some: Rows) -> Decision:
        if node < 0:
            return value[~node]
        x = rows[some, feature[node]]
        # Two bits of the decision type are the kind of missing values: 0 none, 1 zero, 2 NaN.
        default, missing = bool(kind[node] & 2), kind[node] >> 2 & 3
        children = int(left[node]), int(right[node])
        if kind[node] & 1:
            first, last = (int(bounds[int(threshold[node]) + step]) for step in (0, 1))
            bits = "".join(format(int(word), "032b")[::-1] for word in sets[first:last])
            codes = [category for category, bit in enumerate(bits) if bit == "1"]
            return ~np.isnan(x) & np.isin(np.trunc(x), codes), *children
        if missing != 2:
            x = np.where(np.isnan(x), 0.0, x)
        to_default = (x == 0) if missing == 1 else np.isnan(x)
        return np.where(to_default, default, x <= threshold[node]), *children

    return walk(0 if feature else ~0, len(rows), decide)


TARGET = LightGBMText()
