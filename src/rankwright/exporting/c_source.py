"""Target ``c``: a C file without dependencies, with a function for a document and a function for many documents.

    double NAME_score(const double *features);
    void NAME_score_rows(const double *features, size_t n_rows, double *scores);

``features`` are the columns of the model in their order (``NAME_feature_names`` lists them), NaN for a missing
value; categories are their codes. Scores are equal to the scores of ``Model.predict`` to the last bit. NAME is the name
of the model, with its other characters replaced by underscores. The file is C99, compiles without warnings and has no
state, so that any number of threads may call it. A model with features within the query has a function that scores all
documents of a query instead, by the formulas of `rankwright.data.within_query`: sums go over the sorted values, as in
the kernel, so that scores are the same to the last bit. So has a model with a linear start, which the file adds to the
trees. Do not compile the file with ``-ffast-math``, because it assumes that no number is NaN.

If the model starts from base scores that are no feature, they are the last of the given numbers of a document, and
their name is the last of the names.

The trees are tables. As nested ifs, 500 trees of 31 leaves took 15 s to compile instead of 0.5 s (gcc -O2), and scored
a row in half the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from rankwright.data.within_query import KINDS
from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.nodes import missing_left
from rankwright.exporting.walk import Decision, Rows, dense, walk
from rankwright.kernels.tree_arrays import SPECIAL, pack
from rankwright.linear_start import FEATURE_BITS, LinearStart

_MISSING_LEFT, _ZERO_IS_MISSING, _IS_SET = 1, 2, 4


class CSource(Target):
    """A C file with tables."""

    name = "c"
    file_name = "model.c"
    support = (Support("C99 compilers", "NaN"),)
    whole_queries = True
    adds_base_score = True

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the tables and the functions that read them."""
        packed = pack(trees, len(options.features))
        among = (packed.rule & 3) == 2
        # A node that is special and has no categories has zeros that are missing.
        zero_is_missing = ~among & (packed.kind == SPECIAL)
        goes_left = np.concatenate([np.empty(0, dtype=bool), *map(missing_left, trees)])
        rule = _MISSING_LEFT * goes_left + _ZERO_IS_MISSING * zero_is_missing + _IS_SET * among
        # Features within the query are computed by the file itself, so callers do not give them.
        name = identifier(options.name)
        features = list(options.features[: len(options.features) - len(options.recipe.names)])
        given = features
        if options.base_score is not None and options.base_score not in features:
            given = [*features, options.base_score]
        # The trees are packed as in prediction, so that the file makes the same comparisons.
        tables = {
            "root": _table("int32_t", "root", packed.root),
            "feature": _table("int32_t", "feature", packed.feature),
            "bound": _table("double", "bound", np.where(among, 0.0, packed.bound)),
            "rule": _table("unsigned char", "rule", rule),
            "left": _table("int32_t", "left", packed.left),
            "right": _table("int32_t", "right", packed.right),
            "set_start": _table("int32_t", "set_start", packed.set_start),
            "sets": _table("uint32_t", "sets", packed.sets),
            "value": _table("double", "value", packed.value),
        }
        text = _filled(
            "model.c",
            **tables,
            **_functions(name, features, given, options),
            name=name,
            n_trees=len(trees),
            names=",\n".join(f'    "{_escaped(column)}"' for column in given) or "    0",
        )
        return Exported(text.encode("ascii"))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows by the tables, as the functions of the file do, without compiling or executing it."""
        text = content.decode()
        # Behind the features of the trees, rows of the file have room for those of a linear start.
        n_features = int(re.findall(r"#define N_FEATURES (\d+)", text)[0])
        rows = dense(X, n_features if options.linear is None else len(options.features))
        # The tables are parsed from the text, so that no compiler is needed.
        tables = {
            name: [_read(number) for number in numbers.replace("\n", " ").split(",")]
            for name, numbers in re.findall(
                r"static const [\w ]+ (\w+)\[\d+\] = \{([^}]*)\};", text
            )
        }
        scores = np.zeros(len(rows))
        for root in tables["root"][: int(re.findall(r"#define N_TREES (\d+)", text)[0])]:
            scores += _values(tables, int(root), rows)
        return scores


def _functions(
    name: str, features: Sequence[str], given: Sequence[str], options: ExportOptions
) -> dict[str, Any]:
    """Return the headers and the public functions, for single documents or for all documents of a query.

    ``given`` are the features and, if it is not one of them, the base score.
    """
    source, target = options.recipe.steps(list(features))
    n_features = len(features) + len(options.recipe.names)
    linear = add_linear = ""
    if options.linear is not None:
        source, target, n_features = _with_compared(options.linear, source, target, n_features)
        linear = _linear(options.linear, source, target)
        add_linear = "add_linear(rows, n_rows, scores);"
    headers = ["math", "stddef", "stdint"]
    start = note = ""
    if options.base_score is not None:
        place = str(given.index(options.base_score))
        if len(source):
            place = f"i * N_GIVEN + {place}"
        start = f"features[{place}] + "
        note = ": the base score, one of the given numbers, plus the trees"
    shared = {"name": name, "n_given": len(given), "start": start, "note": note}
    # Features within the query need all documents, so there is no function for a single document.
    if len(source):
        headers = ["float", *headers, "stdlib", "string"]
        functions = _filled(
            "query.c",
            **shared,
            n_sources=len(source),
            source=_table("int32_t", "within_source", source),
            target=_table("int32_t", "within_target", target.ravel()),
            linear=linear,
            add_linear=add_linear,
        )
    else:
        functions = _filled("rows.c", **shared)
    includes = "\n".join(f"#include <{header}.h>" for header in headers)
    return {"includes": includes, "functions": functions, "n_features": n_features}


def _with_compared(
    linear: LinearStart, source: Any, target: Any, n_features: int
) -> tuple[Any, Any, int]:
    """Add the ranks and z of a linear start behind the features of the trees, unless they are there."""
    sources, targets = source.tolist(), target.tolist()
    for column in linear.features.places:
        if column not in sources:
            sources.append(column)
            targets.append([-1] * len(KINDS))
        places = targets[sources.index(column)]
        for kind in (KINDS.index("rank"), KINDS.index("z")):
            if places[kind] < 0:
                places[kind] = n_features
                n_features += 1
    return np.array(sources), np.array(targets), n_features


def _linear(linear: LinearStart, source: Any, target: Any) -> str:
    """Return the tables of a linear start and the function that adds it to the scores."""
    columns, places = linear.features.columns, linear.features.places
    rows = [source.tolist().index(column) for column in places]
    value = dict(zip(linear.features.names, linear.coefficients.tolist(), strict=True))
    tables = {
        "compared": _table("int32_t", "compared", places),
        "rank_at": _table("int32_t", "rank_at", target[rows, KINDS.index("rank")]),
        "z_at": _table("int32_t", "z_at", target[rows, KINDS.index("z")]),
    }
    for kind in ("rank", "z", "missing"):
        of_kind = [value.get(f"{column} [{kind}]", 0.0) for column in columns]
        tables[f"of_{kind}"] = _table("double", f"of_{kind}", of_kind)
    return _filled("linear.c", **tables, n_compared=len(columns), steps=1 << FEATURE_BITS)


def _filled(template: str, **parts: object) -> str:
    """Return a C file of the folder ``templates`` with its places ``${...}`` filled."""
    text = files("rankwright.exporting").joinpath("templates", template).read_text("utf-8")
    return Template(text).substitute(parts)


def identifier(name: str) -> str:
    """Turn a name into an identifier of C.

    Examples
    --------
    >>> identifier("web-search 2"), identifier("2nd")
    ('web_search_2', 'model_2nd')
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    # Identifiers must not begin with a digit, and names with a leading underscore are reserved in C.
    return plain if re.match(r"[A-Za-z]", plain) else f"model_{plain}"


def _table(kind: str, name: str, values: Any) -> str:
    numbers = np.asarray(values).tolist() or [0]  # C has no empty arrays
    texts = [_number(number) for number in numbers]
    # Short lines keep the file readable in editors and in differences of versions.
    lines = [", ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
    return f"static const {kind} {name}[{len(texts)}] = {{\n    " + ",\n    ".join(lines) + "\n};"


def _number(number: float) -> str:
    if number == np.inf:
        return "HUGE_VAL"
    if number == -np.inf:
        return "-HUGE_VAL"
    # The suffix makes the literal unsigned, like the 32-bit words of the sets.
    if isinstance(number, int) and number > 0x7FFFFFFF:
        return f"{number}u"
    return repr(number)


def _escaped(name: str) -> str:
    """Escape all but plain letters, digits and a few signs, as octal numbers: three digits end by themselves."""
    escaped = ""
    for byte in name.encode():
        if re.match(r"[\w .+-]", chr(byte), re.ASCII):
            escaped += chr(byte)
        else:
            escaped += f"\\{byte:03o}"
    return escaped


def _read(number: str) -> float:
    number = number.strip()
    if number.endswith("HUGE_VAL"):
        return -np.inf if number.startswith("-") else np.inf
    return float(number.removesuffix("u"))


def _values(tables: dict[str, list[float]], root: int, rows: Floats) -> Floats:
    """Leaf values of rows in the tree of a root."""

    def decide(node: int, some: Rows) -> Decision:
        if node < 0:
            return tables["value"][~node]
        x = rows[some, int(tables["feature"][node])]
        rule = int(tables["rule"][node])
        missing = np.isnan(x) | ((np.abs(x) <= 1.0000000180025095e-35) & bool(rule & 2))
        # Bit i of word j of a set stands for the category 32 j + i.
        if rule & 4:
            first, last = (int(tables["set_start"][node + step]) for step in (0, 1))
            words = tables["sets"][first:last]
            categories = [
                32 * i + bit
                for i, word in enumerate(words)
                for bit in range(32)
                if int(word) >> bit & 1
            ]
            goes_left = np.isin(np.trunc(x), categories)
        else:
            goes_left = x <= tables["bound"][node]
        goes_left = np.where(missing, bool(rule & 1), goes_left)
        return goes_left, int(tables["left"][node]), int(tables["right"][node])

    return walk(root, len(rows), decide)


TARGET = CSource()
