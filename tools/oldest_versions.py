"""Install the oldest supported version of every dependency beside the checkout, and run the tests with them.

    python tools/oldest_versions.py FOLDER tests/test_data.py tests/test_tables.py

The versions are the minima of pyproject.toml: of the package's own dependencies, and of the extras and test libraries
that `PINNED` names. Without tests, a selection that touches every dependency is run. With ``--core`` the package's own
dependencies and `tables` are enough, and tests are a few that compile little, as in every run of `.ci/run`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINNED = ("report", "tune", "tables", "xgboost", "serve", "onnx", "treelite")  # extras
LIBRARIES = ("hypothesis", "pandas", "polars", "psutil")  # of the tests, with minima of their own
CORE = ("tables",)
OTHERS = ("onnxruntime", "openapi-spec-validator", "pytest", "pytrec-eval-terrier", "tl2cgen")
TESTS = (
    *("data", "tables", "trec", "queries", "fields", "model", "cli", "sklearn", "export_engines"),
    *("trust_numbers", "trust_files", "tuning"),
)
CORE_TESTS = (
    *(
        "test_tables.py",
        "test_queries.py",
        "test_fields.py",
        "test_ranker.py::test_the_seed_decides_and_threads_do_not",
    ),
    "test_persistence.py::test_a_model_comes_back_as_it_was",
)


def minima(pinned: Sequence[str]) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(entry for name in pinned for entry in extras[name])]
    wanted += [entry for entry in extras["dev"] if re.split("[>=\\[]", entry)[0] in LIBRARIES]
    return [entry.replace(">=", "==") for entry in wanted if ">=" in entry]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="where the environment is created, unless it is there"
    )
    parser.add_argument("tests", nargs="*", help="files or names of tests")
    parser.add_argument(
        "--core", action="store_true", help="the package's own dependencies, and few tests"
    )
    options = parser.parse_args()
    wanted = minima(CORE if options.core else PINNED)
    others = ("pytest",) if options.core else OTHERS
    tests = options.tests or [f"tests/{name}" for name in (CORE_TESTS if options.core else TESTS)]
    python = options.folder / "bin" / "python"
    if not python.exists():
        venv.create(options.folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *wanted, *others], check=True)
        subprocess.run([*install, "--no-deps", "--editable", str(ROOT)], check=True)
    print(*wanted, sep="\n")
    # Compiled kernels of another Numba must not be mixed with those of the checkout.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(options.folder / "kernels")}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "-m", "pytest", "-q", "-m", "not slow", *tests]
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment).returncode)


if __name__ == "__main__":
    main()
