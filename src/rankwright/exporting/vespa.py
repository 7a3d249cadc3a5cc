"""Vespa: the JSON form of LightGBM, for ``lightgbm("model.json")`` in a rank profile.

Vespa reads ``objective`` and ``pandas_categorical`` (both must exist), ``feature_names``, ``feature_infos`` and the
``tree_structure`` of each tree. A node becomes, in double precision,

    <=  default_left false    if (feature < threshold, left, right)
    <=  default_left true     if (!(feature >= threshold), left, right)
    ==                        if (feature in ["a", "b"], left, right), or with isNan(feature) || where default_left

so the comparison is ``<`` where LightGBM means ``<=``, ``missing_type`` is not read, and categories are compared as
text: those of ``pandas_categorical``, whose lists belong to the columns that have ``values`` in ``feature_infos``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.plain_trees import Leaf, Node, plain_trees
from rankwright.exporting.thresholds import below
from rankwright.exporting.walking import Decision, Rows, leaf_values
from rankwright.kernels.tree_arrays import AMONG, TreeArrays


class Vespa:
    """LightGBM's JSON as Vespa reads it; see `rankwright.exporting.contract.Target`."""

    name = "vespa"
    file_name = "vespa-lightgbm.json"
    single_precision = False

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees."""
        texts = _category_texts(trees, feature_names, options)
        roots = plain_trees(trees, feature_names, single=False)
        document = {
            "name": "tree",
            "version": "v4",
            "num_class": 1,
            "num_tree_per_iteration": 1,
            "max_feature_idx": len(feature_names) - 1,
            "objective": "lambdarank",
            "feature_names": list(feature_names),
            "feature_infos": {
                feature_names[column]: {"values": list(range(len(levels)))}
                for column, levels in texts.items()
            },
            "tree_info": [
                {"tree_index": number, "tree_structure": _written(root)}
                for number, root in enumerate(roots)
            ],
            "pandas_categorical": list(texts.values()),
        }
        return Exported(
            json.dumps(
                document, separators=(",", ":"), allow_nan=False, ensure_ascii=False
            ).encode(),
            tuple(_category_notes(texts, feature_names, options)),
        )

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows as Vespa does; a code stands for the text of its category."""
        document = json.loads(content)
        for key in ("objective", "pandas_categorical", "feature_names", "tree_info"):
            if key not in document:
                raise ValueError(f"Vespa needs {key!r}, which the file does not have.")
        if document["objective"].startswith(
            ("binary", "cross_entropy", "poisson", "gamma", "tweedie")
        ):
            raise ValueError(
                f"with objective {document['objective']!r} Vespa does not score by the sum of the trees."
            )
        names = list(feature_names)
        columns = [names.index(name) for name in document["feature_names"]]
        infos = document["feature_infos"]
        categorical = [
            name for name in document["feature_names"] if infos.get(name, {}).get("values")
        ]
        levels = dict(zip(categorical, document["pandas_categorical"], strict=False))
        values = np.asarray(X, dtype=np.float64)

        def decide(node: Any, rows: Rows) -> Decision:
            column = columns[node["split_feature"]]
            x = values[rows, column]
            if node["decision_type"] == "==":
                name = names[column]
                wanted = {levels[name][int(code)] for code in node["threshold"].split("||")}
                goes_left = np.array(
                    [_served_text(code, options.categories.get(name)) in wanted for code in x], bool
                )
                if node["default_left"]:
                    goes_left |= np.isnan(x)
            elif node["default_left"]:
                goes_left = ~(x >= float(node["threshold"]))
            else:
                goes_left = x < float(node["threshold"])
            return goes_left, node["left_child"], node["right_child"]

        total = np.zeros(len(values))
        for tree in document["tree_info"]:
            total += leaf_values(
                tree["tree_structure"], len(values), lambda node: node.get("leaf_value"), decide
            )
        return total


def _served_text(code: float, levels: Sequence[Any] | None) -> str | None:
    """The text that a document has for the code of a category; None if it has none."""
    if np.isnan(code):
        return None
    return (
        str(int(code)) if levels is None else str(levels[int(code)]) if code < len(levels) else None
    )


def _written(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"leaf_value": node.value}
    threshold: Any = below(node.threshold, single=False)
    if node.categories is not None:
        threshold = "||".join(map(str, node.categories))
    return {
        "split_feature": node.feature,
        "threshold": threshold,
        "decision_type": "<=" if node.categories is None else "==",
        "default_left": node.missing_left,
        "left_child": _written(node.left),
        "right_child": _written(node.right),
    }


def _category_texts(
    trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
) -> dict[int, list[str]]:
    """Texts of the categories of each column that is split by category, in the order of the columns."""
    largest: dict[int, int] = {}
    for tree in trees:
        for node in np.flatnonzero(tree.decision == AMONG).tolist():
            column, categories = int(tree.feature[node]), tree.categories[node]
            if len(categories) == 0:
                raise ValueError(
                    f"a split on {feature_names[column]!r} has no categories at all, which Vespa cannot express."
                )
            largest[column] = max(largest.get(column, 0), int(categories[-1]))
    texts = {}
    for column in sorted(largest):
        levels = options.categories.get(feature_names[column])
        if levels is None:
            texts[column] = [str(code) for code in range(largest[column] + 1)]
        else:
            texts[column] = [str(level) for level in levels]
    return texts


def _category_notes(
    texts: dict[int, list[str]], feature_names: Sequence[str], options: ExportOptions
) -> list[str]:
    coded = [
        feature_names[column]
        for column in texts
        if options.categories.get(feature_names[column]) is None
    ]
    if not coded:
        return []
    return [
        f"Vespa compares categories as text: {', '.join(map(repr, coded))} must be string attributes that hold the "
        "codes, such as '3'."
    ]


TARGET = Vespa()
