"""Vespa: the JSON form of LightGBM, for ``lightgbm("model.json")`` in a rank profile.

The engine's rules, from ``LightGBMParser`` of the importer (model-integration), ``RankingExpressionParser.jj``
(searchlib), and ``gbdt.cpp``, ``vm_forest.cpp`` and ``fast_forest.cpp`` of the content nodes (eval/src/vespa/eval/eval,
2024 to 2026):

    keys                ``objective``, ``pandas_categorical``, ``feature_names`` and ``tree_info`` must exist
    names and texts     are pasted into an expression: a name must be a rank feature, and a text the inside of a string
                        literal; C++ refuses the escapes that Java writes for characters outside of ASCII
    <=  default_left false      if (feature < threshold, left, right)
    <=  default_left true       if (!(feature >= threshold), left, right)
    ==  default_left false      if (feature in ["a", "b"], left, right)
    a missing number    is NaN; ``missing_type`` is not read
    a missing text      is "" (``attributefeature.cpp`` of searchlib), so ``isNan`` of it is never true
    llvm                64 bits; also Java's evaluator
    vmforest            thresholds and leaves are floats, features and sums doubles. Taken if the largest tree has more
                        than 12 leaves and the average path lengths of all trees sum to more than 2500, or (newer
                        versions) if there are more than 25 000 leaves; not if a set has more than 255 texts
    fastforest          features are floats too; only with ``vespa.eval.use_fast_forest``, and without categories

``pandas_categorical`` has a list of texts for each column with ``values`` in ``feature_infos``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.exporting.contract import (
    Exported,
    ExportOptions,
    Floats,
    Precision,
    Support,
    Target,
    Trees,
)
from rankwright.exporting.float32 import smallest_float32_above
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
from rankwright.exporting.walk import Decision, Rows, single, walk

_LARGEST = float(np.finfo(np.float64).max)
_LLVM, _VMFOREST, _FASTFOREST = "llvm", "vmforest", "fastforest"
# The limits by which a content node chooses its evaluator, see above.
_FEW_LEAVES, _LONG_PATHS, _MANY_LEAVES, _LARGE_SET = 12, 2500.0, 25_000, 255


_MISSING = "NaN, or an empty text"
_REFUSED = "some names and levels, see [Search engines](engines.md#vespa)"


class Vespa(Target):
    """LightGBM's JSON as Vespa reads it."""

    name = "vespa"
    file_name = "vespa-lightgbm.json"
    evaluators = (_LLVM, _VMFOREST, _FASTFOREST)
    support = (
        Support("Vespa, up to some 400 trees of 31 leaves", _MISSING, "exact", _REFUSED),
        Support(
            "Vespa, larger forests",
            _MISSING,
            "exact, but for values between a threshold and the next 32-bit number",
            _REFUSED,
        ),
    )

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees."""
        plain = plain_trees(trees, options.features, Form(nested=True))
        # Sequence[str] of columns without a split never become part of an expression.
        for column in sorted({column for tree in plain for column in tree.feature}):
            _check_name(options.features[column])
        texts = _Texts(plain, options)
        # Small forests are computed in 64 bits. The shape of the trees decides, so they are written first.
        writer = _Writer(texts, single=False)
        roots = [writer.written(tree, tree.root) for tree in plain]
        notes = texts.notes()
        if (options.evaluator or _usual_evaluator(roots)) != _LLVM:
            writer = _Writer(texts, single=True)
            roots = [writer.written(tree, tree.root) for tree in plain]
            notes.append(
                "Vespa computes a forest of this size in 32 bits: thresholds are written as 32-bit numbers. Features "
                "that are 32-bit numbers, such as float attributes and whole numbers up to 16,777,216, are compared "
                "exactly; another value between a threshold and the next 32-bit number may go to the other side."
            )
        # The parser of Vespa's importer needs some of these keys, and LightGBM's own dump has the others.
        document = {
            "name": "tree",
            "version": "v4",
            "num_class": 1,
            "num_tree_per_iteration": 1,
            "max_feature_idx": len(options.features) - 1,
            "objective": "lambdarank",
            "feature_names": list(options.features),
            "feature_infos": {
                options.features[column]: {"values": list(range(len(levels)))}
                for column, levels in texts.lists.items()
            },
            "tree_info": [
                {"tree_index": number, "tree_structure": root} for number, root in enumerate(roots)
            ],
            "pandas_categorical": list(texts.lists.values()),
        }
        text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return Exported(text.encode(), tuple(notes))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows as Vespa does; a code stands for the text of its category."""
        document = _read(content)
        names = list(options.features)
        columns = [names.index(name) for name in document["feature_names"]]
        infos = document["feature_infos"]
        # The lists of texts belong to the columns with values, in the order of the columns.
        categorical = [
            name for name in document["feature_names"] if infos.get(name, {}).get("values")
        ]
        lists = dict(zip(categorical, document["pandas_categorical"], strict=False))
        roots = [tree["tree_structure"] for tree in document["tree_info"]]
        evaluator = options.evaluator or _usual_evaluator(roots)
        values = np.asarray(X, dtype=np.float64)
        if evaluator == _FASTFOREST:
            values = single(values).astype(np.float64)

        def number(written: float) -> float:
            return float(written) if evaluator == _LLVM else float(single(written))

        def decide(node: Any, rows: Rows) -> Decision:
            if "leaf_value" in node:
                return number(node["leaf_value"])
            column = columns[node["split_feature"]]
            x, name = values[rows, column], names[column]
            if _EXPRESSION_NAME.fullmatch(_without_arguments(name)) is None:
                raise ValueError(f"Vespa's importer refuses {name!r}: it is not a rank feature.")
            if node["decision_type"] == "==":
                wanted = {_literal(lists[name][int(i)]) for i in node["threshold"].split("||")}
                served = [_served_text(code, options.categories.get(name)) for code in x]
                goes_left = np.array([text in wanted for text in served], dtype=bool)
            elif name in lists or name in options.categories:
                raise ValueError(f"a split compares the text of {name!r} with a number.")
            else:
                # The negation is true for NaN, so missing values go left with it.
                threshold = number(node["threshold"])
                goes_left = ~(x >= threshold) if node["default_left"] else x < threshold
            return goes_left, node["left_child"], node["right_child"]

        total = np.zeros(len(values))
        for root in roots:
            total += walk(root, len(values), decide)
        return total

    def precision(self, content: bytes, options: ExportOptions) -> Precision:
        """Return the precision of the evaluator that the options name, or that Vespa chooses by size."""
        roots = [tree["tree_structure"] for tree in _read(content)["tree_info"]]
        usual = _usual_evaluator(roots)
        evaluator = options.evaluator or usual
        if evaluator == _FASTFOREST:
            return Precision(single_features=True, single_scores=True)
        if evaluator == _VMFOREST:
            return Precision(single_scores=True, blur=blur)
        # The thresholds of a large forest are 32-bit numbers, whatever computes with them.
        if usual == _VMFOREST:
            return Precision(blur=blur)
        return Precision()


def blur(bound: float) -> tuple[float, float] | None:
    """Return the range low < x <= high of values between a bound and the next 32-bit number; None if it is empty."""
    # The written threshold is the number above; values below it go left, also those above the bound.
    above = min(float(smallest_float32_above(bound)), _LARGEST)
    last = _LARGEST
    if above < _LARGEST:
        last = float(np.nextafter(above, -np.inf))
    return (bound, last) if last > bound else None


def _read(content: bytes) -> Any:
    document = json.loads(content)
    # The importer fails without these keys, so a file without them cannot be deployed.
    for key in ("objective", "pandas_categorical", "feature_names", "tree_info"):
        if key not in document:
            raise ValueError(f"Vespa needs {key!r}, which the file does not have.")
    # For these objectives Vespa applies a function, for example a sigmoid, to the sum.
    if document["objective"].startswith(("binary", "cross_entropy", "poisson", "gamma", "tweedie")):
        raise ValueError(
            f"with objective {document['objective']!r} Vespa does not score by the sum of the trees."
        )
    return document


# Sequence[str].

# The parts of the importer's grammar of rank features, for example `fieldMatch(title).completeness`.
_IDENTIFIER = r"[A-Za-z_@][\w@$]*"
_OUTPUT = r"(?:\.[\w@][\w@$]*)*"
_ARGUMENT = rf'(?:-?\d[\w.]*|"[^"\\]*"|{_IDENTIFIER}{_OUTPUT})'
_CALL = re.compile(
    rf"({_IDENTIFIER})\(\s*(?:{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)?\s*\)(?![\w@$])", re.ASCII
)
_EXPRESSION_NAME = re.compile(_IDENTIFIER + _OUTPUT, re.ASCII)


def _without_arguments(name: str) -> str:
    """Remove the arguments of rank features, the innermost first."""
    shorter = _CALL.sub(r"\1", name)
    if shorter == name:
        return name
    # Arguments may be rank features with arguments themselves, so look again.
    return _without_arguments(shorter)


def _check_name(name: str) -> None:
    """Raise ValueError if a feature's name is not a rank feature or the name of a function."""
    if _EXPRESSION_NAME.fullmatch(_without_arguments(name)) is None:
        raise ValueError(
            f"Vespa puts the name of a feature into an expression, and {name!r} is neither a rank feature, such as "
            "bm25(title), nor the name of a function, which has only letters, digits and underscores and does not "
            "begin with a digit. Rename the column."
        )


# Evaluators.


def _usual_evaluator(roots: Sequence[Any]) -> str:
    """Return the evaluator that a content node chooses for trees of a file."""
    forest: list[list[int]] = []
    for root in roots:
        depths, largest_set = _shape(root)
        if len(depths) < 2:
            break  # a sum with a constant is no forest, so later trees are computed alone
        if largest_set > _LARGE_SET:
            return _LLVM
        forest.append(depths)
    if not forest:
        return _LLVM
    # The conditions of `vm_forest.cpp` on the shape of the forest, see above.
    paths = sum(sum(depths) / len(depths) for depths in forest)
    is_long = max(map(len, forest)) > _FEW_LEAVES and paths > _LONG_PATHS
    if is_long or sum(map(len, forest)) > _MANY_LEAVES:
        return _VMFOREST
    return _LLVM


def _shape(root: Any) -> tuple[list[int], int]:
    """Return the depth of each leaf, none if proton knows no such tree, and the size of the largest set of texts."""
    depths: list[int] = []
    largest_set = 0
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if "leaf_value" in node:
            depths.append(depth)
            continue
        if node["decision_type"] == "==":
            # Content nodes do not take a negated test of a set for a part of a tree.
            if node["default_left"]:
                return [], 0
            largest_set = max(largest_set, 1 + node["threshold"].count("||"))
        waiting += [(node[side], depth + 1) for side in ("left_child", "right_child")]
    return depths, largest_set


# Categories.


class _Texts:
    """The texts of categories in the file, and the sets of texts that splits compare with.

    A split that sends missing values left, of a column with levels, is turned around: the levels that go right are its
    set. Everything else goes left, like a missing category in the model, and so does a level that training has not
    seen. A split of a column of codes has "" in its set instead, because a code that training has not seen goes right.
    """

    def __init__(self, trees: Sequence[PlainTree], options: ExportOptions) -> None:
        self._names = options.features
        self._levels: dict[int, Sequence[Any] | None] = {}
        self._empty_level_read: set[str] = set()
        # The largest code of each column that a split names.
        largest: dict[int, int] = {}
        for tree in trees:
            for column, codes in zip(tree.feature, tree.categories, strict=True):
                name = self._names[column]
                if codes is not None or name in options.categories:
                    self._levels[column] = options.categories.get(name)
                    largest[column] = max(largest.get(column, -1), *(codes or (-1,)))
        # Codes have no names, so their texts are their digits, with an empty text for a missing value.
        self.lists: dict[int, list[str]] = {}
        for column, levels in sorted(self._levels.items()):
            if levels is None:
                self.lists[column] = [*map(str, range(largest[column] + 1)), ""]
            else:
                self.lists[column] = [_escaped(str(level)) for level in levels]

    def has(self, column: int) -> bool:
        """Return whether a column has categories."""
        return column in self._levels

    def members(
        self, column: int, categories: tuple[int, ...], missing_left: bool
    ) -> tuple[list[int], bool]:
        """Return the numbers, in the column's list, of the texts of a set, and whether the set goes left."""
        levels = self._levels[column]
        if levels is None:
            if not missing_left:
                return [*categories], True
            # The empty text of missing values is the last in the list.
            return [*categories, len(self.lists[column]) - 1], True
        self._check_empty_level(column, categories, missing_left)
        # If missing categories go left, the levels that go right are the set.
        numbers = [code for code in range(len(levels)) if (code in categories) != missing_left]
        # Only the levels that stand in an expression are checked; the others are never read.
        for number in numbers:
            level = str(levels[number])
            if not (level.isascii() and level.isprintable()):
                raise ValueError(
                    f"Vespa refuses the level {level!r} of {self._names[column]!r}: its content nodes read only "
                    "printable ASCII in the texts of an expression. Rename the level."
                )
        return numbers, not missing_left

    def _check_empty_level(
        self, column: int, categories: tuple[int, ...], missing_left: bool
    ) -> None:
        """Refuse, or remember, a level "" that Vespa cannot tell from a missing category."""
        levels = self._levels[column] or ()
        empty = [code for code, level in enumerate(levels) if str(level) == ""]
        # There is no conflict if the level and missing values go to the same side.
        if not empty or (empty[0] in categories) == missing_left:
            return
        if missing_left:
            raise ValueError(
                f"{self._names[column]!r} has missing values and the level '', and Vespa has '' for both. Write "
                "missing categories as '' in the training data, or rename the level."
            )
        self._empty_level_read.add(self._names[column])

    def notes(self) -> list[str]:
        """Return the warnings, once all sets have been asked for."""
        notes = []
        coded = [self._names[column] for column, levels in self._levels.items() if levels is None]
        if coded:
            notes.append(
                f"Vespa compares categories as text: {', '.join(map(repr, sorted(coded)))} must be string attributes "
                "that hold the codes, such as '3'."
            )
        if self._empty_level_read:
            notes.append(
                "Vespa has the text '' for a missing category, which is a level of "
                f"{', '.join(map(repr, sorted(self._empty_level_read)))}: a missing value is scored as this level."
            )
        return notes


def _escaped(text: str) -> str:
    """Return the inside of a string literal."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _literal(text: str) -> str:
    """Return the text that the importer's expression, with a text between quotes, stands for."""
    if re.fullmatch(r'(?:[^"\\\x00-\x1f\x7f-\U0010ffff]|\\["\\])*', text) is None:
        raise ValueError(f"Vespa does not read the text {text!r} of a category.")
    return re.sub(r"\\(.)", r"\1", text)


def _served_text(code: float, levels: Sequence[Any] | None) -> str:
    """Return the text that a document has for the code of a category; if it is missing, ''."""
    if np.isnan(code):
        return ""
    return str(int(code)) if levels is None else str(levels[int(code)])


class _Writer:
    """Writes the nodes of trees, with thresholds of 64 or of 32 bits."""

    def __init__(self, texts: _Texts, single: bool) -> None:
        self._texts = texts
        self._single = single

    def written(self, tree: PlainTree, node: int) -> dict[str, Any]:
        if node < 0:
            return {"leaf_value": tree.value[~node]}
        column, missing_left = tree.feature[node], tree.missing_left[node]
        left, right = (self.written(tree, child[node]) for child in (tree.left, tree.right))
        categories = tree.categories[node]
        bound = tree.bound[node]
        if np.isinf(bound) and categories is None:
            # Missing values alone go right. No threshold is above the largest number, and no text is
            # NaN, so the split is turned around: missing values alone go left.
            left, right, missing_left = right, left, True
            if not self._texts.has(column):
                return _node(column, "<=", -_LARGEST, missing_left, left, right)
            categories = ()
        if categories is not None:
            # Vespa has no negated sets, so the children change places instead.
            numbers, on_left = self._texts.members(column, categories, missing_left)
            if not on_left:
                left, right = right, left
            if not numbers:
                return right  # no level is in the set
            return _node(column, "==", "||".join(map(str, numbers)), False, left, right)
        # Vespa compares with <, so the threshold is the next number above the bound.
        above = (
            float(smallest_float32_above(bound)) if self._single else np.nextafter(bound, np.inf)
        )
        return _node(column, "<=", min(float(above), _LARGEST), missing_left, left, right)


def _node(
    column: int, decision: str, threshold: Any, default_left: bool, left: Any, right: Any
) -> dict[str, Any]:
    return {
        "split_feature": column,
        "threshold": threshold,
        "decision_type": decision,
        "default_left": default_left,
        "left_child": left,
        "right_child": right,
    }


TARGET = Vespa()
