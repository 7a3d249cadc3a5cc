"""Layers, kernels that know no metric, and an example on every public name."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankwright
from rankwright.metrics import known_metrics
from rankwright.objectives import OBJECTIVES, load_objective

ROOT = Path(rankwright.__file__).parent
REPOSITORY = Path(__file__).parents[1]
MODULES = {
    ".".join(("rankwright", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}

ENGINES_AND_FRAMES = {
    "lightgbm",
    "xgboost",
    "catboost",
    "sklearn",
    "pandas",
    "polars",
    "dask",
    "optuna",
    "altair",
}


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


def check_layers(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts of pyproject.toml on a copy of the package."""
    command = [str(Path(sys.executable).parent / "lint-imports")]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY / 'lab' / 'src'}"}
    command += ["--no-cache", "--config", str(REPOSITORY / "pyproject.toml")]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_each_layer_imports_from_the_layers_below_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / "rankwright", ignore=shutil.ignore_patterns("__pycache__"))
    done = check_layers(tmp_path)
    assert done.returncode == 0, done.stdout
    # A function of a kernel that reads a metric is found, too.
    kernel = tmp_path / "rankwright" / "kernels" / "ties.py"
    kernel.write_text(kernel.read_text() + "\n\ndef f():\n    import rankwright.metrics\n")
    done = check_layers(tmp_path)
    assert done.returncode == 1
    assert "rankwright.kernels.ties -> rankwright.metrics" in done.stdout


@pytest.mark.parametrize("module", [name for name in MODULES if below(name, "kernels")])
def test_kernels_import_numpy_numba_and_the_standard_library_only(module: str) -> None:
    found = {name.split(".")[0] for name in imported(MODULES[module].read_text(), deferred=True)}
    assert found <= {"numpy", "numba", "llvmlite", "rankwright"} | sys.stdlib_module_names


def loaded_too_early(module: str, source: str) -> set[str]:
    """Engines and frame libraries that importing a module loads too early; the grower of an engine may.

    So may the network of a cluster, which is XGBoost's; nothing imports it unless a fit asks for a cluster.

    The estimator is scikit-learn's place, so nothing may load it with the package either.
    """
    estimators = {"rankwright.estimator", "rankwright.ranker", "rankwright.transformer"}
    folder = module.rpartition(".")[0]
    engine = folder.removeprefix("rankwright.engines.")
    grower = f"{folder}.grower"
    own = {engine, grower} if module == grower and engine != folder else set()
    own |= {"sklearn", *estimators} if module in estimators else set()
    own |= {"xgboost"} if module == "rankwright.cluster.collective" else set()
    found = imported(source, deferred=False)
    late = {
        name for name in found if re.search(r"engines\.\w+\.grower$", name) or name in estimators
    }
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
        (
            "rankwright.data",
            "try:\n    from sklearn.base import clone\nexcept ImportError:\n    pass",
            {"sklearn"},
        ),
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
def test_the_rule_finds_what_is_loaded_too_early(
    module: str, source: str, expected: set[str]
) -> None:
    assert loaded_too_early(module, source) == expected


PAPER = re.compile(r'"[^"\n]*" paper')
KINDS = {
    **{n: k for n, k in known_metrics().items() if k.__module__.startswith("rankwright.")},
    **{name: load_objective(name) for name in OBJECTIVES},
}
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
    assert (
        names_in('as in the "StochasticRank" paper and the "XE-NDCG" paper, mapped and errors')
        == []
    )
    assert names_in('for NDCG@10: err(x), dcg-rr, "yetiloss"') == [
        "NDCG",
        "err",
        "dcg-rr",
        "yetiloss",
    ]


def test_every_dependency_has_its_licence_listed() -> None:
    tool = runpy.run_path(str(REPOSITORY / "tools" / "licences_page.py"))
    rows = re.findall(r"^\| (\S+) \| (\S+) \| \S", tool["PAGE"].read_text(), re.MULTILINE)
    expected = sorted(tool["needed"]().items())
    assert rows == expected, "run `python tools/licences_page.py`"


@pytest.mark.parametrize("name", rankwright.__all__)
def test_every_public_name_has_a_summary_and_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(rankwright, name)) or ""
    assert re.match(r"[A-Z`].*[.:]$", doc.split("\n\n")[0].replace("\n", " ")), (
        "no summary sentence"
    )
    assert ">>> " in doc


def test_public_names_are_sorted_and_unique() -> None:
    assert rankwright.__all__ == sorted(set(rankwright.__all__))


ROOMS_OF_PARAMETERS = (
    "engines.lightgbm",
    "engines.xgboost",
    "engines.parameters",
    "tuning",
    "exporting.lightgbm_text",
    "training.other_names",
)


def test_only_an_engines_folder_knows_its_parameters_and_its_model_text() -> None:
    """No name of a LightGBM parameter, no model text and no regular expression over it elsewhere."""
    from rankwright.engines.lightgbm import parameters

    names = {*parameters.NAMES.values(), *parameters.SEEDS, *parameters._ALLOWED} - set(
        parameters.NAMES
    )
    names -= {"max_bin"}  # an option of the estimator too
    marks = [*names, "leaf_value=", "tree_sizes", "model.txt", "model_to_string", "num_iteration"]
    for module, path in MODULES.items():
        if any(below(module, room) for room in ROOMS_OF_PARAMETERS):
            continue  # LightGBM as another ranker, and as the form of an exported file; parameters of the same name
        words = [mark for mark in marks if re.search(rf"\b{re.escape(mark)}", path.read_text())]
        assert words == ["model.txt"] * (module == "rankwright.persistence"), module
