"""The direction of imports, kernels that know no metric, and an example on every public name."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankwright
from rankwright.metrics import known_metrics
from rankwright.objectives import OBJECTIVES

ROOT = Path(rankwright.__file__).parent
MODULES = {
    ".".join(("rankwright", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

# What each module may import of the package; a name stands for the modules below it too, the longest that fits counts.
# ARCHITECTURE.md lists the rooms in this order.
FILES = ("_io", "_lazy", "_frames", "_html", "environment")
PROCESS = ("interrupts", "locks")
DATA = (
    "kernels",
    *(f"data.{part}" for part in ("queries", "labels", "pairs", "matching", "matrices", "encoding", "columns")),
    "data.within_query",
    "data.dataset",
)
OBJECTIVE_PARTS = tuple(f"objectives.{part}" for part in ("gradient", "base", "bound", "options", "propensity"))
LABELLED = ("kernels", "data.queries", "data.labels", "data.pairs")
READING = (*FILES, *DATA, "data.letor", "data.tables", "data.trec", "data.synthetic", "data.corruption", "data.folds")
DATA_AND_ORDER = (*DATA, "data.row_order")
SCORING = (*DATA, "reducer", "metrics", "evaluation")
LEARNING = (*SCORING, "objectives", "engines")
HARNESS = (*READING, "metrics", "evaluation", "training.defaults", "ranker")
MAY_IMPORT = {
    "_io": (),
    "_memory": (),
    "_lazy": (),
    "_frames": (),
    "_html": (),
    "_missing_score": (),
    "environment": (),
    "interrupts": (),
    "locks": (),
    "reducer": (),
    "notation": (),
    "ranges": (),
    "kernels": ("kernels",),
    "data": ("_lazy",),
    "data.queries": ("kernels",),
    "data.labels": ("_frames", "notation", "data.queries"),
    "data.csv_text": ("_io",),
    "data.pairs": ("_io", "_frames", "kernels", "data.csv_text", "data.files", "data.queries"),
    "data.matching": (),
    "data.matrices": (),
    "data.encoding": ("_frames", "data.queries", "data.matching", "data.matrices"),
    "data.within_query": ("kernels", "data.matching", "data.matrices"),
    "data.columns": ("_frames", "data.queries", "data.matrices", "data.encoding"),
    "data.joining": ("data.queries", "data.pairs", "data.matching", "data.dataset"),
    "data.arrow": ("_io", "data.queries", "data.labels", "data.matching", "data.encoding", "data.dataset"),
    "data.row_order": ("kernels", "data.queries", "data.dataset"),
    "data.extended_rows": ("data.row_order", "data.within_query"),
    "data.dataset": (*FILES, *DATA_AND_ORDER, "data.extended_rows", "data.files", "data.arrow", "data.joining"),
    "data.files": ("_io",),
    "data.row_stream": ("data.within_query",),
    "data.paged_rows": (),
    "data.bins": ("kernels", "data.queries", "data.row_order", "data.row_stream", "data.paged_rows"),
    "data.blocks": (*FILES, *DATA, "data.arrow", "data.letor_parser", "data.files", "data.tables"),
    "data.streaming": (*FILES, "_memory", *DATA_AND_ORDER, "data.files", "data.blocks", "data.row_stream"),
    "data.arguments": (*DATA, "data.files", "data.blocks", "data.streaming"),
    "data.letor_parser": ("kernels", "data.queries"),
    "data.letor": (*FILES, *DATA, "data.letor_parser"),
    "data.streams": (),
    "data.corruption": (*DATA, "data.streams"),
    "data.synthetic": (*DATA, "data.streams", "data.corruption"),
    "data.tables": (*FILES, *DATA, "data.arrow", "data.csv_text", "data.files", "data.letor_parser", "data.letor"),
    "data.trec": (*FILES, "data.queries"),
    "data.folds": (*DATA, "data.letor", "data.tables"),
    "metrics": (*DATA, "notation", "metrics"),
    "evaluation": ("_lazy", "_frames", "_html", "reducer", *DATA, "metrics"),
    "evaluation.significance": (),
    "evaluation.pairing": ("evaluation.significance",),
    "evaluation.comparison": ("evaluation.significance", "evaluation.pairing"),
    "clicks": (*READING, "data.row_order", "data.streams", "metrics", "evaluation", "engines", "clicks"),
    "evaluation.permutation": ("_frames", "_html", *DATA, "metrics", "evaluation"),
    "objectives.options": ("kernels",),
    "engines": ("interrupts", "reducer", "kernels", "data.dataset", "engines"),
    "engines.lightgbm": (
        "_io",
        "_memory",
        "reducer",
        "notation",
        "kernels",
        "data.dataset",
        "data.bins",
        "data.extended_rows",
        "data.row_stream",
        "engines",
    ),
    "engines.xgboost": (
        "_memory",
        "interrupts",
        "reducer",
        "notation",
        "kernels",
        "data.dataset",
        "data.bins",
        "data.paged_rows",
        "engines",
    ),
    "objectives.gradient": (*LABELLED, "metrics"),
    "objectives.base": ("metrics", "notation", "ranges", "objectives.gradient"),
    "objectives.bound": (*LABELLED, "metrics", "objectives.gradient", "objectives.base"),
    "objectives": (*LABELLED, "metrics", "ranges", *OBJECTIVE_PARTS),
    "objectives.propensity": ("data.queries",),
    "persistence": FILES,
    "calibration": ("kernels.isotonic",),
    "explanation": ("_frames", "_html"),
    "model": (
        "_io",
        "kernels.threads",
        "data.queries",
        "data.matching",
        "data.matrices",
        "data.encoding",
        "data.within_query",
        "data.files",
        "data.blocks",
        "data.streaming",
        "engines",
        "persistence",
        "calibration",
        "explanation",
    ),
    "export": (*FILES, "kernels", "data.matching", "data.within_query", "model", "export"),
    "serve": (*FILES, "kernels", "data.matching", "model", "serve"),
    "training": (),
    "training.steering": ("kernels",),
    "training.stopping": ("reducer",),
    "training.settings": ("metrics", "objectives", "training.steering"),
    "training.state": ("kernels.compilation", "metrics", "engines.contract"),
    "training.state_file": ("engines.contract", "training.state"),
    "training.grid": ("kernels", "reducer"),
    "training.bias_columns": (*DATA, "data.row_order", "data.row_stream", "reducer", "training.settings"),
    "training.position_bias": (*LEARNING, "training.bias_columns", "training.settings"),
    "training.examination": (
        *DATA_AND_ORDER,
        "clicks.cells",
        "clicks.multiplicative",
        "training.bias_columns",
        "training.settings",
    ),
    "training.from_clicks": (*LEARNING, "data.arguments", "training.bias_columns", "training.settings"),
    "training.draws": ("kernels", "data.queries", "training.settings"),
    "training.parameters": (*LEARNING, "training.defaults", "training.settings", "training.stopping"),
    "training.defaults": (
        *LEARNING,
        "training.from_clicks",
        "training.settings",
        "training.steering",
        "training.stopping",
    ),
    "training.boosting": (*LEARNING, "training"),
    "training.summary": ("_html", "training.stopping"),
    "training.notebook_bar": (),
    "training.reading_bar": ("training.notebook_bar",),
    "training.progress": ("kernels.compilation", "metrics", "training.notebook_bar", "training.state"),
    "training.checkpoint": (*LEARNING, "data.extended_rows", "persistence", "training"),
    "training.cross_fitting": ("data.dataset",),
    "training.outcome": (*LEARNING, "notation", "model", "training"),
    "training.fitting": (*PROCESS, *LEARNING, "training"),
    "training.passes": (*PROCESS, *LEARNING, "data.files", "data.joining", "model", "training"),
    "estimator": (
        "_missing_score",
        *LEARNING,
        "_html",
        "notation",
        "data.arguments",
        "data.files",
        "calibration",
        "explanation",
        "model",
        "training",
    ),
    "transformer": ("_frames", *DATA),
    "cluster": (),
    "cluster.options": (),
    "cluster.collective": (),
    "cluster.pieces": (*DATA_AND_ORDER, "data.files"),
    "cluster.worker": (*LEARNING, "data.bins", "training", "cluster.collective"),
    "cluster.dask": (*DATA, "data.files", "cluster.collective", "cluster.pieces"),
    "cluster.arguments": (*DATA, "data.arguments", "data.files", "cluster.dask", "cluster.pieces"),
    "cluster.training": (*PROCESS, *LEARNING, "data.bins", "model", "training", "cluster"),
    "ranker": (*LEARNING, "data.arguments", "data.files", "estimator", "training", "cluster"),
    "run_history": ("_io", "training", "ranker"),
    "runs": (*PROCESS, *READING, "persistence", "training", "ranker", "run_history"),
    "diagnostics": (*SCORING, "objectives", "diagnostics", "report.page"),
    "plots": ("metrics", "evaluation", "model", "ranker", "runs", "report.theme", "report.page"),
    "score_plots": ("evaluation", "explanation", "plots", "report.theme", "report.page"),
    "report.theme": (),
    "report.page": ("_io", "report.theme"),
    "report": (*SCORING, "calibration", "training.checkpoint", "training.stopping", "ranker", "runs", "report"),
    "report.benchmark_page": ("research.bench", "report"),
    "report.tuning_page": ("metrics", "tuning", "report.page"),
    "report.goals_page": ("metrics", "tuning", "report.page"),
    "tuning.space": ("notation", "ranges", "metrics", "objectives", "training.defaults", "ranker"),
    "tuning.study": (),
    "tuning": (*HARNESS, "_html", "ranges", "objectives", "training.checkpoint", "research.harness", "tuning"),
    "research": (),
    "research.libraries": (),
    "research.harness": (*HARNESS, "objectives", "training.checkpoint", "research.libraries", "research.harness"),
    "research.kept_outcomes": ("_io", "research.harness"),
    "research.peers": (*DATA, "ranges", "metrics", "research.libraries", "research.harness"),
    "research.bench": (*READING, "metrics", "objectives", "research.harness", "research.peers", "research.bench"),
    "research.experiments": (
        *HARNESS,
        "objectives",
        "ranges",
        "research.libraries",
        "research.harness",
        "research.kept_outcomes",
        "research.peers",
        "research.experiments",
        "tuning",
        "diagnostics",
        "report.page",
    ),
    "cli": ("cli",),
    "__main__": ("cli",),
}
# Imported when called: a metric's value for one query is a call of the layer above.
DEFERRED = {("rankwright.metrics.base", "rankwright.evaluation.per_query")}
ENGINES_AND_FRAMES = {"lightgbm", "xgboost", "catboost", "sklearn", "pandas", "polars", "dask", "optuna", "altair"}


def imports(node: ast.AST, *, deferred: bool) -> Iterator[str]:
    """Absolute names of the modules imported below a node, in functions too if ``deferred``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not deferred:
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from (name for part in child.orelse for name in imports(part, deferred=deferred))
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports hide the layer; write them out"
            # `from package import module` names the module in its second half.
            for alias in child.names:
                full = f"{child.module}.{alias.name}"
                yield full if full in MODULES else str(child.module)
        else:
            yield from imports(child, deferred=deferred)


def imported(source: str, *, deferred: bool) -> set[str]:
    return set(imports(ast.parse(source), deferred=deferred))


def below(name: str, layer: str) -> bool:
    return name == f"rankwright.{layer}" or name.startswith(f"rankwright.{layer}.")


def allowed(module: str) -> tuple[str, ...]:
    """What the table lets a module import; the two packages gather what is below them."""
    if module == "rankwright":
        return tuple(MAY_IMPORT)
    if module == "rankwright.objectives":
        return (*MAY_IMPORT["objectives"], "objectives")
    fitting = [layer for layer in MAY_IMPORT if below(module, layer)]
    assert fitting, f"{module} is not in the table of layers; say there what it may import"
    return MAY_IMPORT[max(fitting, key=len)]


def breaches(module: str, source: str) -> list[str]:
    """Imports of a module that go against the order of the layers."""
    at_once = imported(source, deferred=False)
    return [
        name
        for name in sorted(imported(source, deferred=True))
        if name.split(".")[0] == "rankwright"
        and not any(below(name, layer) for layer in allowed(module))
        and (name in at_once or not (below(module, "cli") or (module, name) in DEFERRED))  # commands use what they like
    ]


@pytest.mark.parametrize("module", MODULES)
def test_layers(module: str) -> None:
    assert breaches(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("rankwright.kernels.pairs", "from rankwright.metrics import NDCG", ["rankwright.metrics"]),
        ("rankwright.kernels.pairs", "from rankwright.data import queries", ["rankwright.data.queries"]),
        ("rankwright.kernels.pairs", "from rankwright.kernels import random", []),
        ("rankwright.data.dataset", "import rankwright.data.letor", ["rankwright.data.letor"]),
        ("rankwright.data.queries", "def f():\n    from rankwright.data.dataset import x", ["rankwright.data.dataset"]),
        (
            "rankwright.metrics.base",
            "from rankwright.evaluation.per_query import x",
            ["rankwright.evaluation.per_query"],
        ),
        ("rankwright.metrics.base", "def f():\n    from rankwright.evaluation.per_query import evaluate", []),
        (
            "rankwright.objectives.yeti",
            "from rankwright.objectives.lambdas import x",
            ["rankwright.objectives.lambdas"],
        ),
        ("rankwright.objectives.yeti", "from rankwright.objectives import lambdas", ["rankwright.objectives.lambdas"]),
        ("rankwright.objectives.yeti", "from rankwright.objectives import objective", ["rankwright.objectives"]),
        ("rankwright.objectives.yeti", "from rankwright.objectives.base import Objective", []),
        ("rankwright.objectives.base", "from rankwright.objectives.yeti import x", ["rankwright.objectives.yeti"]),
        ("rankwright.evaluation.per_query", "from rankwright import Metric", ["rankwright"]),
        ("rankwright.objectives", "from rankwright.evaluation.per_query import x", ["rankwright.evaluation.per_query"]),
        ("rankwright.cli.train", "from rankwright.runs import x", ["rankwright.runs"]),
        ("rankwright.cli.train", "def f():\n    from rankwright.runs import x", []),
    ],
)
def test_the_rule_finds_breaches(module: str, source: str, expected: list[str]) -> None:
    assert breaches(module, source) == expected


@pytest.mark.parametrize("module", [name for name in MODULES if below(name, "kernels")])
def test_kernels_import_numpy_numba_and_the_standard_library_only(module: str) -> None:
    found = {name.split(".")[0] for name in imported(MODULES[module].read_text(), deferred=True)}
    assert found <= {"numpy", "numba", "llvmlite", "rankwright"} | sys.stdlib_module_names


def loaded_too_early(module: str, source: str) -> set[str]:
    """Engines and frame libraries that importing a module loads; the grower of an engine, and its bins or batches, may.

    So may the network of a cluster, which is XGBoost's; nothing imports it unless a fit asks for a cluster.

    The estimator is scikit-learn's place, so nothing may load it with the package either.
    """
    estimators = {"rankwright.estimator", "rankwright.ranker", "rankwright.transformer"}
    folder = module.rpartition(".")[0]
    engine = folder.removeprefix("rankwright.engines.")
    users = {f"{folder}.{name}" for name in ("grower", "bins", "batches")}
    own = {engine, *users} if module in users and engine != folder else set()
    own |= {"sklearn", *estimators} if module in estimators else set()
    own |= {"xgboost"} if module == "rankwright.cluster.collective" else set()
    found = imported(source, deferred=False)
    late = {name for name in found if re.search(r"engines\.\w+\.(grower|bins|batches)$", name) or name in estimators}
    return (late | ({name.split(".")[0] for name in found} & ENGINES_AND_FRAMES)) - own


@pytest.mark.parametrize("module", MODULES)
def test_no_engine_or_frame_library_is_imported_with_the_package(module: str) -> None:
    assert loaded_too_early(module, MODULES[module].read_text()) == set()


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("rankwright.data", "import polars as pl", {"polars"}),
        ("rankwright.data", "def f():\n    import polars as pl", set()),
        ("rankwright.data", "if TYPE_CHECKING:\n    import pandas as pd", set()),
        ("rankwright.data", "try:\n    from sklearn.base import clone\nexcept ImportError:\n    pass", {"sklearn"}),
        ("rankwright.engines.xgboost.grower", "import xgboost", set()),
        ("rankwright.engines.xgboost.grower", "import lightgbm", {"lightgbm"}),
        ("rankwright.engines.xgboost", "import xgboost", {"xgboost"}),
        (
            "rankwright.engines.xgboost",
            "from rankwright.engines.xgboost.grower import x",
            {"rankwright.engines.xgboost.grower"},
        ),
        ("rankwright.engines", "import lightgbm", {"lightgbm"}),
        ("rankwright.ranker", "from sklearn.base import clone\nimport lightgbm", {"lightgbm"}),
        ("rankwright", "from rankwright.ranker import Ranker", {"rankwright.ranker"}),
    ],
)
def test_the_rule_finds_what_is_loaded_too_early(module: str, source: str, expected: set[str]) -> None:
    assert loaded_too_early(module, source) == expected


PAPER = re.compile(r'"[^"\n]*" paper')
KINDS = {**{n: k for n, k in known_metrics().items() if k.__module__.startswith("rankwright.")}, **OBJECTIVES}
NAME = re.compile(
    # The longest first: dcg-rr before dcg.
    rf"\b({'|'.join(sorted({*KINDS, *(kind.__name__ for kind in KINDS.values())}, key=len, reverse=True))})\b",
    re.IGNORECASE,
)


def names_in(source: str) -> list[str]:
    """Names of metrics and objectives in a text, titles of papers apart, and the name of a distribution."""
    return [name for name in NAME.findall(PAPER.sub("", source)) if name.lower() != "logistic"]


@pytest.mark.parametrize("module", [name for name in MODULES if below(name, "kernels")])
def test_kernels_name_no_metric_and_no_objective(module: str) -> None:
    assert names_in(MODULES[module].read_text()) == []


def test_names_are_found_in_code_and_prose_but_not_in_titles() -> None:
    assert names_in('as in the "StochasticRank" paper and the "XE-NDCG" paper, mapped and errors') == []
    assert names_in('for NDCG@10: err(x), dcg-rr, "yetiloss"') == ["NDCG", "err", "dcg-rr", "yetiloss"]


@pytest.mark.parametrize("name", rankwright.__all__)
def test_every_public_name_has_a_summary_and_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(rankwright, name)) or ""
    assert re.match(r"[A-Z`].*[.:]$", doc.split("\n\n")[0].replace("\n", " ")), "no summary sentence"
    assert ">>> " in doc


def test_public_names_are_sorted_and_unique() -> None:
    assert rankwright.__all__ == sorted(set(rankwright.__all__))


ROOMS_OF_PARAMETERS = ("engines.lightgbm", "engines.xgboost", "research", "tuning", "export.lightgbm_text")


def test_only_an_engines_folder_knows_its_parameters_and_its_model_text() -> None:
    """No name of a LightGBM parameter, no model text and no regular expression over it elsewhere."""
    from rankwright.engines.lightgbm import parameters

    names = {*parameters.NAMES.values(), *parameters.SEEDS, *parameters._ALLOWED} - set(parameters.NAMES)
    names -= {"max_bin"}  # an option of the estimator too
    marks = [*names, "leaf_value=", "tree_sizes", "model.txt", "model_to_string", "num_iteration"]
    for module, path in MODULES.items():
        engines = [f"engines.{engine}" for engine in ("lightgbm", "xgboost")]
        if any(below(module, room) for room in (*engines, "research", "tuning", "export.lightgbm_text")):
            continue  # other engines' own names, LightGBM as another ranker, and as the form of an exported file
        if any(below(module, room) for room in ROOMS_OF_PARAMETERS):
            continue  # LightGBM as another ranker, and as the form of an exported file; parameters of the same name
        words = [mark for mark in marks if re.search(rf"\b{re.escape(mark)}", path.read_text())]
        assert words == ["model.txt"] * (module == "rankwright.persistence"), module


def listed_layers() -> list[str]:
    """The names in the list of layers of ARCHITECTURE.md, in order."""
    text = (ROOT.parents[1] / "ARCHITECTURE.md").read_text()
    section = text.split("## Layers")[1].split("\n\n")[1]
    return [line.split()[0] for line in section.splitlines()]


def test_the_list_of_layers_is_complete_and_in_order() -> None:
    layers = listed_layers()

    def place(name: str) -> int:
        fitting = [layer for layer in layers if name == layer or name.startswith(f"{layer}.")]
        assert fitting or name == "research", f"ARCHITECTURE.md does not list {name}"
        return layers.index(max(fitting, key=len)) if fitting else -1

    for module, allowed_names in MAY_IMPORT.items():
        for name in allowed_names:
            assert place(name) <= place(module) or place(module) == -1, (
                f"{module} imports {name}, which is listed below it"
            )
    for layer in layers:
        assert any(below(module, layer) for module in MODULES), f"ARCHITECTURE.md lists {layer}, which does not exist"
