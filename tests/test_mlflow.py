"""The flavour of MLflow: models that are logged, and loaded as rankers or as Python functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from small import TRAIN, VALID, quick


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file://{tmp_path}/mlruns")
    yield tmp_path
    mlflow.set_tracking_uri(before)


def frame(data: rw.RankingData) -> pd.DataFrame:
    rows = pd.DataFrame(data.X, columns=data.feature_names)
    return rows.assign(grade=data.y, query=np.asarray(data.qid))


def test_a_logged_model_scores_frames_with_a_query_column(store: Path) -> None:
    ranker = quick(within_query={TRAIN.feature_names[0]: "z"}).fit(
        frame(TRAIN), "grade", qid="query"
    )
    with mlflow.start_run() as run:
        info = rw.mlflow.log_model(ranker, "ranker")
    assert info.run_id == run.info.run_id
    # Rows in another order, with and without the labels.
    rows = frame(VALID).sample(frac=1.0, random_state=0)
    expected = ranker.predict(rows)
    function = mlflow.pyfunc.load_model(info.model_uri)
    for given in (rows, rows.drop(columns="grade")):
        assert np.array_equal(function.predict(given), expected)
    again = rw.mlflow.load_model(info.model_uri)
    assert np.array_equal(again.predict(rows), expected)
    assert again.get_params() == ranker.get_params()
    with pytest.raises(ValueError, match="scores all documents of a query together"):
        function.predict(rows.drop(columns=["grade", "query"]))


def test_a_saved_model_says_what_it_needs(tmp_path: Path) -> None:
    model = quick().fit(TRAIN).model_
    rw.mlflow.save_model(model, tmp_path / "saved", metadata={"team": "search"})
    requirements = (tmp_path / "saved" / "requirements.txt").read_text().splitlines()
    assert f"rankwright=={rw.__version__}" in requirements
    assert mlflow.models.Model.load(str(tmp_path / "saved")).metadata == {"team": "search"}
    function = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    assert np.array_equal(function.predict(VALID.X), model.predict(VALID.X))


def test_metrics_are_logged_after_each_tree(store: Path) -> None:
    with mlflow.start_run() as run:
        ranker = quick(n_estimators=4).fit(
            TRAIN, eval_set=[VALID], callbacks=[rw.mlflow.log_progress]
        )
    points: Any = mlflow.MlflowClient().get_metric_history(run.info.run_id, "valid_0.ndcg_at_10")
    assert [point.step for point in points] == [1, 2, 3, 4]
    assert [point.value for point in points] == ranker.evals_result_["valid_0"]["ndcg@10"]


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranker = quick(n_estimators=1).fit(TRAIN)
    for name in [name for name in sys.modules if name.split(".")[0] == "mlflow"]:
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: rw.mlflow.save_model(ranker, tmp_path / "saved"),
        lambda: rw.mlflow.load_model(tmp_path),
    ):
        with pytest.raises(ImportError, match=r'pip install "rankwright\[mlflow\]"'):
            call()
