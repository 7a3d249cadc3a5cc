"""Models that released versions saved: every later version loads them and gives the same scores, bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rankwright as rw
import rankwright_scorer
from golden_models import FOLDER, MODELS, rows_of, scores_of
from rankwright.kernels.tree_arrays import AMONG

FILES = sorted(FOLDER.glob("*/*.zip"))


def recorded_with(file: Path) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((file.parent / "expected.json").read_text())
    return recorded


def test_there_is_a_model_of_every_kind() -> None:
    current = ".".join(rw.__version__.split(".")[:2])
    assert {file.stem for file in FILES if file.parent.name == current} == set(MODELS)
    for engine in ("lightgbm", "xgboost"):
        trees = rw.load(FOLDER / current / f"{engine}.zip").forest.trees()
        assert any((tree.decision == AMONG).any() for tree in trees)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name} {file.stem}")
def test_a_model_of_an_earlier_version_has_its_scores(file: Path, tmp_path: Path) -> None:
    recorded = recorded_with(file)
    expected = recorded["scores"][file.stem]
    model = rw.load(file)
    assert [score.hex() for score in scores_of(model, recorded)] == expected
    rw.Ranker.load(file).save(tmp_path / "again")
    assert [s.hex() for s in scores_of(rw.load(tmp_path / "again"), recorded)] == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name} {file.stem}")
def test_the_light_scorer_reads_it_too(file: Path) -> None:
    recorded = recorded_with(file)
    model = rankwright_scorer.load(file)
    scores = model.predict(rows_of(recorded, model))
    # The scorer has no calibrated scores.
    if file.stem == "calibrated":
        scores = rw.load(file).require_calibration()(scores)
    assert [score.hex() for score in scores.tolist()] == recorded["scores"][file.stem]
