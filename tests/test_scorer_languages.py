"""The scorers of the JSON form in Java and in JavaScript: the bits of the model on the probes of exports."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hand_made_trees
from export_models import categorical, random_tree, single_leaf, special_trees, trained
from rankwright.engines.scoring import score
from rankwright.exporting import json_form
from rankwright.exporting.contract import ExportOptions
from rankwright.kernels.tree_arrays import TreeArrays, pack

FOLDER = Path(__file__).parents[1] / "scorer"
PROGRAMS = {
    "java": ["java", str(FOLDER / "java" / "RankwrightScorer.java")],
    "javascript": ["node", str(FOLDER / "javascript" / "rankwright-scorer.mjs")],
}


def special() -> list[TreeArrays]:
    draw = np.random.default_rng(1)
    every = [single_leaf(-0.25), *special_trees(), random_tree(40, draw), random_tree(200, draw)]
    return [*every, hand_made_trees.random_tree(3)]


MODELS = {
    "special trees": special,
    "missing values": lambda: list(trained("missing values").forest.trees()),
    "zeros as missing": lambda: list(trained("zeros as missing").forest.trees()),
    "categories": lambda: list(categorical(True).forest.trees()),
    "no tree": list,
}


def run(program: str, model: bytes, rows: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "model.json").write_bytes(model)
    values = [[None if np.isnan(x) else x for x in row] for row in rows.tolist()]
    command = [*PROGRAMS[program], str(folder / "model.json")]
    given = json.dumps(values)
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def written(trees: Sequence[TreeArrays], names: Sequence[str]) -> bytes:
    return json_form.TARGET.write(trees, ExportOptions(names)).content


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_the_model(program: str, name: str, tmp_path: Path) -> None:
    trees = MODELS[name]()
    names = ["plain", "with space", 'pr"ix\\ é*/\n', "kind", "last"]
    rows = hand_made_trees.probe_rows(trees, 5, most=3000)
    done = run(program, written(trees, names), rows, tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.array(done.stdout.split(), dtype=np.float64)
    assert found.tobytes() == score(pack(trees, 5), rows, 0, len(trees), 1).tobytes()


@pytest.mark.parametrize("program", PROGRAMS)
def test_other_files_and_rows_are_refused(program: str, tmp_path: Path) -> None:
    model = written([single_leaf(1.0)], ["a", "b"])
    done = run(program, model, np.zeros((1, 3)), tmp_path)
    assert done.returncode != 0
    assert "2" in done.stderr
    done = run(program, model.replace(b'"version":1', b'"version":2'), np.zeros((1, 2)), tmp_path)
    assert done.returncode != 0
    assert "export it again" in done.stderr
