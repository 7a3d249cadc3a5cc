"""Search engines' own rules on exported files, one document at a time and without a line of the package.

A document is a dict of its features; a feature that it does not have is absent. The rules are those of the engines'
sources: `NaiveAdditiveDecisionTree` of the plug-ins, and `LightGBMParser`, `gbdt.cpp` and `vm_forest.cpp` of Vespa.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

Document = dict[str, Any]
F = np.float32


def documents(rows: Any, names: list[str]) -> list[Document]:
    """Documents of rows; NaN is an absent feature."""
    return [
        {name: x for name, x in zip(names, row, strict=True) if not math.isnan(x)}
        for row in np.asarray(rows, dtype=float).tolist()
    ]


# The plug-ins of OpenSearch and Elasticsearch. ``missing`` is "zero", "no" or "honoured".


def plugin_score(content: bytes, document: Document, missing: str) -> float:
    total = F(0)
    for tree in json.loads(content):
        total = F(total + plugin_leaf(tree, document, missing))
    return float(total)


@np.errstate(over="ignore")
def plugin_leaf(node: Any, document: Document, missing: str) -> Any:
    while "leaf" not in node:
        x = F(document.get(node["split"], 0.0 if missing == "zero" else math.nan))
        if math.isnan(x) and missing == "honoured":
            yes = node["missing"] == node["yes"]
        else:
            yes = F(node["split_condition"]) > x
        node = node["children"][0 if yes else 1]
        assert node["nodeid"] >= 0
    return F(node["leaf"])


# Vespa. ``evaluator`` is "llvm" (64 bits, as Java's), "vmforest" (32-bit thresholds) or "fastforest" (32 bits).


def vespa_score(content: bytes, document: Document, evaluator: str) -> float:
    model = json.loads(content)
    infos = model["feature_infos"]
    with_values = [name for name in model["feature_names"] if infos.get(name, {}).get("values")]
    texts = dict(zip(with_values, model["pandas_categorical"], strict=True))
    total = 0.0
    for tree in model["tree_info"]:
        node = tree["tree_structure"]
        while "leaf_value" not in node:
            name = model["feature_names"][node["split_feature"]]
            if node["decision_type"] == "==":
                numbers = [int(number) for number in node["threshold"].split("||")]
                assert not node["default_left"], "isNan of a string is never true"
                levels = {string_literal(texts[name][number]) for number in numbers}
                left = document.get(name, "") in levels
            else:
                assert name not in texts, "a text is no number, and never NaN"
                left = vespa_goes_left(node, document.get(name, math.nan), evaluator)
            node = node["left_child" if left else "right_child"]
        leaf = node["leaf_value"]
        total += leaf if evaluator == "llvm" else float(F(leaf))
    return total


@np.errstate(over="ignore")
def vespa_goes_left(node: Any, x: float, evaluator: str) -> bool:
    threshold = float(node["threshold"])
    if evaluator != "llvm":
        threshold = float(F(threshold))
    if evaluator == "fastforest":
        x = float(F(x))
    return not (x >= threshold) if node["default_left"] else x < threshold


def string_literal(text: str) -> str:
    """The text that the importer's expression ``"text"`` stands for, in Java and in C++."""
    assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', text), f"not a string: {text}"
    assert text.isascii(), "Java writes an escape that C++ refuses"
    return re.sub(r"\\(.)", r"\1", text)


def vespa_evaluator(content: bytes) -> str:
    """Proton's choice (`gbdt::Optimize::select_best`)."""
    trees = [leaf_depths(tree["tree_structure"], 0) for tree in json.loads(content)["tree_info"]]
    paths = sum(sum(depths) / len(depths) for depths in trees)
    sizes = [len(depths) for depths in trees]
    return "vmforest" if (max(sizes) > 12 and paths > 2500) or sum(sizes) > 25000 else "llvm"


def leaf_depths(node: Any, depth: int) -> list[int]:
    if "leaf_value" in node:
        return [depth]
    return leaf_depths(node["left_child"], depth + 1) + leaf_depths(node["right_child"], depth + 1)


# Elasticsearch's own: the constant that it adds, and the score that it serves.


def elastic_served(content: bytes, document: Document) -> tuple[float, float]:
    total, constant = 0.0, 0.0
    for model in json.loads(content)["trained_model"]["ensemble"]["trained_models"]:
        tree = model["tree"]
        nodes = tree["tree_structure"]
        constant -= min(node["leaf_value"][0] for node in nodes if "leaf_value" in node)
        node = nodes[0]
        while "leaf_value" not in node:
            x = document.get(tree["feature_names"][node["split_feature"]], math.nan)
            left = node["default_left"] if math.isnan(x) else x <= node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        total += node["leaf_value"][0]
    constant = max(constant, 0.0)
    return constant, float(F(total + constant))
