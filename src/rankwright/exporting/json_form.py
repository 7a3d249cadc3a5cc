"""Target ``json``: trees as a JSON object, documented here, for programs that score by themselves.

    {
      "format": "rankwright-trees",
      "version": 1,
      "features": ["f0", ...],
      "zero": 1.0000000180025095e-35,
      "trees": [
        {
          "feature": [2, ...],            column that a node looks at
          "threshold": [0.5, ...],        a number, or "Infinity" or "-Infinity"
          "decision": ["at_most", ...],
          "missing": ["as_zero", ...],
          "default_left": [false, ...],
          "left": [1, ...],               a node, or -1 - leaf
          "right": [-1, ...],
          "categories": [[], ...],        that go left, ascending; empty if the decision is not "among"
          "value": [0.25, ...]            of each leaf
        }, ...
      ]
    }

The score of a row is the sum of a leaf value per tree, in the order of the trees. The walk starts at node 0; a tree
without nodes has a single leaf. A node reads x, the value of its feature:

1. x is missing (NaN). ``missing`` is ``as_zero``: x is read as 0. Otherwise go left if ``default_left``.
2. The decision is ``at_most`` and |x| <= ``zero``. ``missing`` is ``zero_to_default``: go left if ``default_left``.
   Otherwise x is read as 0.
3. ``at_most``: go left if x <= threshold. ``below``: go left if x < threshold, both rounded to 32-bit numbers.
   ``among``: go left if x without its fraction is among the node's categories.

Numbers have all their digits: a parser of doubles gets the exact values.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.walk import Decision, Rows, columns_by_name, dense, walk
from rankwright.kernels.tree_arrays import ZERO, TreeArrays

FORMAT, VERSION = "rankwright-trees", 1
_DECISIONS = ("at_most", "below", "among")
_MISSING = ("as_zero", "nan_to_default", "zero_to_default")


class JsonForm(Target):
    """Our own documented form."""

    name = "json"
    file_name = "model.json"
    support = (Support("your own program", "sent where the file says"),)

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees as they are."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "features": list(options.features),
            "zero": ZERO,
            "trees": [_tree(tree) for tree in trees],
        }
        return Exported(
            (json.dumps(content, allow_nan=False, separators=(",", ":")) + "\n").encode()
        )

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by the rules above."""
        model = json.loads(content)
        if model.get("format") != FORMAT or model.get("version") != VERSION:
            raise ValueError(
                f"the file is not of the form {FORMAT!r}, version {VERSION}; export the model again."
            )
        order = columns_by_name(model["features"], options.features)
        rows = dense(X, len(options.features))[:, order]
        scores = np.zeros(len(rows))
        for tree in model["trees"]:
            scores += _values(tree, model["zero"], rows)
        return scores


def _tree(tree: TreeArrays) -> dict[str, Any]:
    return {
        "feature": np.asarray(tree.feature).tolist(),
        "threshold": [
            _number(threshold)
            for threshold in np.asarray(tree.threshold, dtype=np.float64).tolist()
        ],
        "decision": [_DECISIONS[decision] for decision in tree.decision],
        "missing": [_MISSING[missing] for missing in tree.missing],
        "default_left": np.asarray(tree.default_left, dtype=bool).tolist(),
        "left": np.asarray(tree.left).tolist(),
        "right": np.asarray(tree.right).tolist(),
        "categories": [np.asarray(categories).tolist() for categories in tree.categories],
        "value": np.asarray(tree.value, dtype=np.float64).tolist(),
    }


def _number(threshold: float) -> float | str:
    # JSON has no infinite numbers.
    if np.isinf(threshold):
        return "Infinity" if threshold > 0 else "-Infinity"
    return threshold


@np.errstate(over="ignore")
def _values(tree: dict[str, Any], zero: float, rows: Floats) -> Floats:
    """Return the leaf values of rows in a tree of the parsed file."""

    def decide(node: int, some: Rows) -> Decision:
        if node < 0:
            return float(tree["value"][~node])
        x = rows[some, tree["feature"][node]]
        missing, decision = tree["missing"][node], tree["decision"][node]
        # The three rules of the form, in their order. First, missing values.
        to_default = np.isnan(x) & (missing != "as_zero")
        x = np.where(np.isnan(x), 0.0, x)
        # Then zeros and numbers, by the kind of the decision.
        if decision == "at_most":
            is_zero = ~to_default & (np.abs(x) <= zero)
            to_default |= is_zero & (missing == "zero_to_default")
            left = np.where(is_zero, 0.0, x) <= float(tree["threshold"][node])
        elif decision == "below":
            left = x.astype(np.float32) < np.float32(tree["threshold"][node])
        else:
            left = np.isin(np.trunc(x), tree["categories"][node])
        goes_left = np.where(to_default, tree["default_left"][node], left)
        return goes_left, tree["left"][node], tree["right"][node]

    return walk(0 if tree["feature"] else ~0, len(rows), decide)


TARGET = JsonForm()
