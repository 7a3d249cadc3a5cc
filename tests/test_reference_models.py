"""Models stay the same bit by bit: trainings recorded in reference_models.json, and files of earlier versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import reference_models
from rankwright import Ranker, Run, make_web_search

RECORDED = json.loads(reference_models.RECORD.read_text())
SAME_MACHINE = RECORDED["machine"] == reference_models.machine()
FORMAT1 = Path(__file__).parent / "fixtures" / "format1"
EXPECTED = json.loads((FORMAT1 / "expected.json").read_text())


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


def probe() -> pd.DataFrame:
    rows = EXPECTED["probe"]
    numbers = {name: np.array(rows[name], dtype=float) for name in ("bm25", "length")}
    return pd.DataFrame(numbers | {"kind": pd.Categorical(rows["kind"])})


@pytest.mark.parametrize("file", ["model", "model.zip"])
def test_a_model_saved_by_version_0_1_0_loads(file: str) -> None:
    ranker = Ranker.load(FORMAT1 / file)
    assert ranker.predict(probe()).tolist() == EXPECTED["scores"]
    np.testing.assert_allclose(
        ranker.predict(probe(), contributions=True), EXPECTED["contributions"], rtol=1e-12
    )
    assert [str(metric) for metric in ranker.metrics_] == EXPECTED["metrics"]
    assert ranker.learning_rates_ == EXPECTED["learning_rates"]


def test_a_run_folder_of_version_0_1_0_opens() -> None:
    run = Run.open(FORMAT1 / "run")
    assert run.finished
    assert len(run.history) == 5
    assert run.ranker.predict(np.array(EXPECTED["run_rows"])).tolist() == EXPECTED["run_scores"]


def test_a_checkpoint_of_version_0_1_0_is_resumed(tmp_path: Path) -> None:
    shutil.copytree(FORMAT1 / "checkpoint", tmp_path / "checkpoint")
    train, valid = make_web_search(16, seed=1).split(0.3)
    train = train.canonical()  # that version took the rows as they were
    seen: list[Any] = []
    options: dict[str, Any] = {"n_estimators": 12, "num_leaves": 4, "n_jobs": 1, "verbose": 0}
    ranker = Ranker(
        "lambdamart", checkpoint={"path": tmp_path / "checkpoint", "trees": 1}, **options
    )
    ranker.fit(train, eval_set=[valid], callbacks=[seen.append])
    assert [progress.iteration for progress in seen] == list(range(8, 13))
    np.testing.assert_allclose(
        ranker.predict(valid)[:8], EXPECTED["resumed_scores"], rtol=0 if SAME_MACHINE else 1e-6
    )
