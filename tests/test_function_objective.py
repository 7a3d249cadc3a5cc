"""Objectives from functions, and the check of gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.objectives import FunctionObjective

TRAIN, VALID = rw.make_web_search(90, kind="short", n_features=20, random_state=2).split(0.3)


def quick(**parameters: Any) -> rw.Ranker:
    defaults = {"n_estimators": 6, "verbose": 0, "n_jobs": 2, "metric": "ndcg@10"}
    return rw.Ranker(**defaults | parameters)


def centred(labels: Any, scores: Any, boundaries: Any) -> tuple[Any, Any]:
    """The gradient of queryrmse, which also gives zeros in queries of equal labels."""
    grad = np.zeros(len(labels))
    hess = np.zeros(len(labels))
    for begin, end in pairwise(boundaries):
        rows = slice(begin, end)
        if np.ptp(labels[rows]) > 0:
            error = scores[rows] - labels[rows]
            grad[rows] = error - error.mean()
            hess[rows] = 1
    return grad, hess


def same_trees(a: rw.Ranker, b: rw.Ranker) -> bool:
    return bool(np.allclose(a.predict(VALID), b.predict(VALID), atol=1e-9))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"members": 2},
        {"early_stopping": "cv", "folds": 2},
        {"early_stopping_rounds": 3, "refit": True, "stopping_rule": "best"},
        {"engine": "xgboost"},
        {"start": "linear"},
    ],
    ids=str,
)
def test_a_function_trains_as_the_objective_with_the_same_gradient(
    parameters: dict[str, Any],
) -> None:
    arguments = {"eval_set": [VALID]} if "refit" in parameters else {}
    mine = quick(objective=centred, **parameters).fit(TRAIN, **arguments)
    built_in = quick(objective="queryrmse", leaf_values="diagonal", **parameters)
    assert same_trees(mine, built_in.fit(TRAIN, **arguments))


def test_threads_and_streamed_rows_change_nothing(tmp_path: Path) -> None:
    rw.write_data(TRAIN, tmp_path / "train.parquet")
    one = quick(objective=centred, n_jobs=1).fit(TRAIN)
    streamed = quick(objective=centred, n_jobs=2).fit(str(tmp_path / "train.parquet"))
    assert one.forest_.dump() == streamed.forest_.dump()


def test_the_function_is_called_once_for_all_rows() -> None:
    sizes = []

    def counted(labels: Any, scores: Any, boundaries: Any) -> tuple[Any, Any]:
        sizes.append((len(labels), len(scores), boundaries[-1], len(boundaries)))
        labels[:] = scores[:] = 7  # the arguments are copies
        return np.ones(len(labels)), np.ones(len(labels))

    bound = rw.bind(counted, TRAIN.y, qid=TRAIN.qid, n_jobs=2)
    for _ in range(3):
        assert np.all(bound(np.zeros(TRAIN.n_rows))[0] == 1)
    n = TRAIN.n_rows
    assert sizes == [(n, n, n, TRAIN.n_queries + 1)] * 3


def test_sums_and_weights() -> None:
    total = FunctionObjective(centred) + 0.5 * rw.objectives.QueryRMSE()
    scores = np.arange(TRAIN.n_rows) % 7.0
    got = rw.gradients(total, scores, TRAIN.y, qid=TRAIN.qid)
    expected = rw.gradients("queryrmse", scores, TRAIN.y, qid=TRAIN.qid)
    for mine, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, 1.5 * other, rtol=1e-9, atol=1e-12)
    weights = TRAIN.y + 1
    got = rw.gradients(centred, scores, TRAIN.y, qid=TRAIN.qid, sample_weight=weights)
    np.testing.assert_allclose(got[0], expected[0] * weights, rtol=1e-9, atol=1e-12)


def test_a_saved_model_predicts_without_the_function(tmp_path: Path) -> None:
    ranker = quick(objective=centred).fit(TRAIN)
    ranker.save(tmp_path / "m")
    assert ranker.manifest_["objective"] == "function-centred"
    assert np.array_equal(rw.load(tmp_path / "m").predict(VALID), ranker.predict(VALID))
    loaded = rw.Ranker.load(tmp_path / "m")
    assert loaded.score(VALID) == ranker.score(VALID)
    for train in (
        loaded.fit,
        lambda data: quick(objective="function-centred").fit(data, init_model=loaded),
    ):
        with pytest.raises(ValueError, match=r"centred.*give the function again as objective="):
            train(TRAIN)
    longer = quick(objective=centred, n_estimators=12).fit(TRAIN)
    further = loaded.set_params(objective=centred).fit(TRAIN, init_model=loaded)
    assert further.model_.n_trees == longer.model_.n_trees == 12


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda y, z, b: z, "must return gradient and curvature, two arrays; got a ndarray"),
        (lambda y, z, b: (z[:-1], z), "returned a gradient of shape"),
        (lambda y, z, b: (z, 1.0), r"returned a curvature of shape \(\)"),
        (lambda y, z, b: (z * np.nan, z + 1), "returned the gradient nan at row 0, of .*query"),
        (lambda y, z, b: (z, np.full(len(z), np.inf)), "returned the curvature inf"),
        (lambda y, z, b: (z, z - 1), "returned the curvature -1.0 .* not be negative"),
    ],
)
def test_wrong_results_are_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(objective=function).fit(TRAIN)


def test_what_is_no_function() -> None:
    for value in (5, rw.Ranker, None):
        with pytest.raises(ValueError, match="or a function of labels, scores and boundaries"):
            rw.objective(value)  # type: ignore[arg-type]
    import lightgbm

    with pytest.raises(ValueError, match="got a LGBMRanker of LightGBM"):
        rw.objective(lightgbm.LGBMRanker())  # type: ignore[arg-type]


def test_several_machines_are_refused() -> None:
    with pytest.raises(ValueError, match="sees all rows, and no worker has them"):
        quick(objective=centred, engine="xgboost").fit(TRAIN, cluster=1)


def squared_loss(labels: Any, scores: Any, boundaries: Any) -> float:
    return float(np.sum((scores - labels) ** 2) / 2)


def test_the_check_finds_each_kind_of_mistake() -> None:
    def squared(labels: Any, scores: Any, boundaries: Any) -> tuple[Any, Any]:
        return scores - labels, np.ones(len(labels))

    right = rw.check_gradients(squared, loss=squared_loss)
    assert right.gradient is not None
    assert max(right.gradient, right.curvature, right.symmetry, right.between_queries) < 1e-6
    wrong = rw.check_gradients(lambda y, z, b: (z - 2 * y, np.ones(len(y))), loss=squared_loss)
    assert wrong.gradient is not None
    assert wrong.gradient > 0.1
    assert rw.check_gradients(
        lambda y, z, b: (z - y, 2 * np.ones(len(y)))
    ).curvature == pytest.approx(1)
    assert rw.check_gradients(lambda y, z, b: (np.roll(z, 1), z * 0)).symmetry == pytest.approx(1)
    mean = rw.check_gradients(lambda y, z, b: (z - z.mean(), z * 0 + 1))
    assert mean.between_queries == pytest.approx(1 / 20)
    assert rw.check_gradients(squared).gradient is None


@pytest.mark.parametrize("objective", ["ranknet", "listnet", "queryrmse", "lambdamart"])
def test_objectives_of_the_package_pass(objective: str) -> None:
    check = rw.check_gradients(objective, [2, 0, 1, 0, 1], qid=["b", "a", "b", "a", "a"])
    assert check.symmetry < 1e-6
    assert check.between_queries == 0
