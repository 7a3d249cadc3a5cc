"""The light model: what it predicts, what it imports, and how long it takes to load."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from own_metric import Own
from small import TRAIN, VALID, quick, rows

LOAD = """
import json, sys, time
start = time.process_time()
import rankwright
model = rankwright.load(sys.argv[1])
seconds = time.process_time() - start
import numpy as np
scores = model.predict(np.load(sys.argv[2])).tolist()
print(json.dumps({"seconds": seconds, "scores": scores, "modules": sorted(sys.modules)}))
"""
TRAINING = (
    "rankwright.training",
    "rankwright.ranker",
    "rankwright.objectives",
    "rankwright.metrics",
    "rankwright.runs",
)


def in_a_fresh_process(path: Path, X: Any, folder: Path) -> Any:
    np.save(folder / "rows.npy", X)
    command = [sys.executable, "-c", LOAD, str(path), str(folder / "rows.npy")]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_it_predicts_without_scikit_learn_an_engine_or_training_code(tmp_path: Path) -> None:
    ranker = quick().fit(TRAIN)
    ranker.save(tmp_path / "model")
    seen = in_a_fresh_process(tmp_path / "model", VALID.X, tmp_path)
    assert seen["scores"] == ranker.predict(VALID).tolist()
    heavy = {"sklearn", "lightgbm", "narwhals", "pandas", "polars", "pyarrow", "rich", "typer"}
    assert heavy & {name.split(".")[0] for name in seen["modules"]} == set()
    assert [name for name in seen["modules"] if name.startswith(TRAINING)] == []


def test_a_large_model_loads_faster_than_numba_is_imported(tmp_path: Path) -> None:
    """0.3 s of processor time on a quiet core, of which NumPy takes 0.1; the yardstick takes 0.4 s there.

    Both in turns, the best of each: a busy machine slows both.
    """
    data = rw.make_web_search(60, random_state=1)
    rw.Ranker(n_estimators=300, num_leaves=31, min_child_samples=5, verbose=0).fit(data).save(
        tmp_path / "model"
    )
    clock = "import time; start = time.process_time(); import numpy, numba; print(time.process_time() - start)"
    load, yardstick = [], []
    for _ in range(4):
        load.append(in_a_fresh_process(tmp_path / "model", data.X[:10], tmp_path)["seconds"])
        answer = subprocess.run(
            [sys.executable, "-c", clock], capture_output=True, text=True, check=True
        )
        yardstick.append(float(answer.stdout))
    assert min(load) < min(yardstick), (load, yardstick)


def test_it_is_the_model_of_the_ranker(tmp_path: Path) -> None:
    ranker = quick().fit(TRAIN, eval_set=[VALID])
    ranker.save(tmp_path / "model.zip")
    model = rw.load(tmp_path / "model.zip")
    assert repr(model) == f"Model(12 trees, {TRAIN.X.shape[1]} columns)"
    assert np.array_equal(model.predict(VALID), ranker.predict(VALID))
    assert np.array_equal(model.predict(VALID, n_jobs=2), ranker.predict(VALID))
    contributions = model.predict(VALID.X, contributions=True)
    assert np.array_equal(contributions, ranker.predict(VALID, contributions=True))
    assert np.array_equal(model.importances(), ranker.feature_importances_)
    assert model.feature_names == TRAIN.feature_names
    stages = list(model.staged_predict(VALID, every=5))
    assert len(stages) == 3
    np.testing.assert_allclose(stages[-1], ranker.predict(VALID), rtol=1e-12)
    assert model.manifest["evals_result"] == ranker.evals_result_
    model.save(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "model.zip").read_bytes()


def test_documents_of_a_query_are_ranked_with_ties_in_the_given_order() -> None:
    ranker = quick().fit(TRAIN)
    one = slice(0, VALID.group[0])
    X = np.concatenate([VALID.X[one], VALID.X[one]])
    ids = [f"d{row}" for row in range(len(X))]
    ranking = ranker.model_.rank(X, ids)
    ranks = ranker.ranks(X, np.zeros(len(X)))
    assert ranking.ids == [ids[row] for row in np.argsort(ranks)]
    assert ranking.scores.tolist() == sorted(ranker.predict(X), reverse=True)
    assert ranking.ids.index("d0") < ranking.ids.index(f"d{len(X) // 2}")
    frame = pd.DataFrame(VALID.X[one], columns=TRAIN.feature_names)
    again = ranker.model_.rank(frame, np.array(ids[: len(frame)]))
    assert again.ids == [name for name in ranking.ids if int(name[1:]) < len(frame)]
    assert ranker.model_.rank(X[:0], []).ids == []
    with pytest.raises(ValueError, match="ids has 2 entries for 3 rows"):
        ranker.model_.rank(X[:3], ["a", "b"])


def test_many_threads_predict_at_once() -> None:
    model = quick(n_estimators=40).fit(TRAIN).model_
    parts = [VALID.X[start : start + 30] for start in range(0, 120, 3)]
    expected = [model.predict(part, n_jobs=1) for part in parts]
    with ThreadPoolExecutor(12) as pool:
        for _ in range(4):
            at_once = pool.map(model.predict, parts)
            assert all(
                np.array_equal(scores, alone)
                for scores, alone in zip(at_once, expected, strict=True)
            )


def test_columns_of_a_frame_are_found_by_name(tmp_path: Path) -> None:
    X, y, qid = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(label=y, query=qid)
    ranker = quick().fit(frame, "label", qid="query")
    ranker.save(tmp_path / "model")
    model = rw.load(tmp_path / "model")
    assert np.array_equal(
        model.predict(frame[["d", "query", "c", "b", "a"]]), ranker.predict(frame)
    )
    with pytest.raises(ValueError, match="Missing: d"):
        model.predict(frame[["a", "b", "c"]])


def test_the_model_of_a_run_folder(tmp_path: Path) -> None:
    run = rw.train_run(
        tmp_path / "run", TRAIN, parameters={"n_estimators": 3, "n_jobs": 1}, verbose=0
    )
    assert np.array_equal(rw.load(tmp_path / "run").predict(VALID), run.ranker.predict(VALID))


def test_a_model_for_an_unknown_metric_predicts(tmp_path: Path) -> None:
    """The class of a user's own metric is needed to train and to score, not to predict."""
    X, y, qid = rows()
    ranker = quick(metric=Own()).fit(X, y, qid=qid)
    ranker.save(tmp_path / "model")
    assert (
        in_a_fresh_process(tmp_path / "model", X, tmp_path)["scores"] == ranker.predict(X).tolist()
    )


@pytest.mark.parametrize(
    ("name", "message"), [("nothing", "there is no model at"), ("empty", "has no manifest.json")]
)
def test_what_is_not_a_model(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        rw.load(tmp_path / name)
