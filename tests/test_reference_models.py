"""Models stay the same bit by bit: trainings recorded in reference_models.json, and files in the current format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reference_models
from rankwright import Ranker, Run
from saved_files import FOLDER, VALID, half_trained, probe

RECORDED = json.loads(reference_models.RECORD.read_text())
SAME_MACHINE = RECORDED["machine"] == reference_models.machine()
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.parametrize("name", reference_models.TRAININGS)
def test_the_model_is_the_one_that_was_recorded(name: str) -> None:
    if name.startswith("mq2008") and not reference_models.MQ2008.exists():
        pytest.skip("needs shared/data")
    seen, recorded = reference_models.describe(name), RECORDED["models"][name]
    # Another processor or another version of a library may round sums in another way.
    np.testing.assert_allclose(
        seen["first scores"], recorded["first scores"], rtol=0 if SAME_MACHINE else 1e-6
    )
    if SAME_MACHINE:
        assert seen == recorded


@pytest.mark.parametrize("file", ["model", "model.zip"])
def test_a_saved_model_loads(file: str) -> None:
    ranker = Ranker.load(FOLDER / file)
    assert ranker.predict(probe()).tolist() == EXPECTED["scores"]
    np.testing.assert_allclose(
        ranker.predict(probe(), contributions=True), EXPECTED["contributions"], rtol=1e-12
    )
    assert [str(metric) for metric in ranker.metrics_] == ["ndcg@5", "map"]
    assert ranker.learning_rates_ == EXPECTED["learning_rates"]


def test_a_saved_run_folder_opens() -> None:
    run = Run.open(FOLDER / "run")
    assert run.finished
    assert len(run.history) == 6
    assert run.ranker.predict(VALID)[:8].tolist() == EXPECTED["run_scores"]


def test_a_saved_checkpoint_is_resumed(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "checkpoint", tmp_path / "checkpoint")
    seen: list[Any] = []
    ranker = half_trained(tmp_path / "checkpoint", callbacks=[seen.append])
    assert [progress.iteration for progress in seen] == list(range(8, 13))
    np.testing.assert_allclose(
        ranker.predict(VALID)[:8], EXPECTED["resumed_scores"], rtol=0 if SAME_MACHINE else 1e-6
    )
