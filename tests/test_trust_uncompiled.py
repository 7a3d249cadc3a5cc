"""Kernels as plain Python, where an index out of bounds is an error: the numbers are those of the compiled ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from rankwright import Ranker, evaluate, gradients, make_web_search, read_letor, write_letor
from rankwright.metrics import known_metrics
from rankwright.objectives import OBJECTIVES

DATA = make_web_search(4, kind="short", n_features=20, mean_length=10, random_state=3)
SCORES = np.round(np.random.default_rng(0).normal(size=DATA.n_rows), 1)  # some are equal
PACKAGE = "rankwright."


def results(folder: Path) -> dict[str, list[float]]:
    """Gradients of every objective, values of every metric, a model's scores and SHAP values, and text read again."""
    found: dict[str, list[float]] = {}
    for name in OBJECTIVES:
        grad, hess = gradients(name, SCORES, DATA.y, qid=DATA.qid, metric="ndcg@5")[:2]
        found[name] = [*grad.tolist(), *hess.tolist()]
    own = [name for name, kind in known_metrics().items() if kind.__module__.startswith(PACKAGE)]
    for ties in ("expected", "worst"):
        for name in own:
            evaluation = evaluate(SCORES, DATA.y, qid=DATA.qid, metrics=name, ties=ties)
            found[f"{name}, {ties}"] = list(map(float, evaluation.mean.values()))
    for engine in ("lightgbm", "xgboost"):
        options = {
            "n_estimators": 4,
            "num_leaves": 5,
            "min_child_samples": 2,
            "n_jobs": 1,
            "verbose": 0,
        }
        model = Ranker(**options, engine=engine).fit(DATA).model_
        found[engine] = [
            *model.predict(DATA).tolist(),
            *model.predict(DATA, contributions=True).ravel().tolist(),
        ]
    write_letor(DATA, folder / "data.txt")
    found["text"] = read_letor(folder / "data.txt").X.ravel().tolist()
    return found


def test_kernels_give_the_same_numbers_uncompiled(tmp_path: Path) -> None:
    compiled = results(tmp_path)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    plain = json.loads(done.stdout)
    assert plain.keys() == compiled.keys()
    assert len(plain) > len(OBJECTIVES) + 20
    for name, values in compiled.items():
        np.testing.assert_allclose(plain[name], values, rtol=1e-9, atol=1e-9, err_msg=name)
    assert np.array_equal(plain["text"], compiled["text"], equal_nan=True)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(results(Path(sys.argv[1]))))
