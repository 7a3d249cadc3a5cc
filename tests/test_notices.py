"""What a training says when a parameter switches full leaf values or the steered learning rate off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw

DATA = rw.make_web_search(40, n_features=20, mean_length=12, random_state=4)
FEW = DATA.subset(range(12))


def notices(
    capfd: pytest.CaptureFixture[str],
    data: rw.RankingData = DATA,
    fit: Any = None,
    **parameters: Any,
) -> tuple[rw.Ranker, list[str]]:
    options: dict[str, Any] = {"n_estimators": 2, "min_child_samples": 5, "n_jobs": 1, **parameters}
    capfd.readouterr()
    ranker = rw.Ranker(**options).fit(data, **(fit or {}))
    lines = capfd.readouterr().err.splitlines()
    return ranker, [line for line in lines if line.startswith("Note: ")]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"objective": "lambdamart"}, "the objective is not 'auto'; leaf_values='full' solves"),
        ({"objective": "stochasticrank"}, "stochasticrank has no curvature between documents"),
        ({"metric": "dcg-rr"}, "is stochasticrank, without curvature between documents"),
        ({"reg_lambda": 0}, "reg_lambda=0, and full leaf values need it above 0"),
        ({"engine_params": {"reg_alpha": 1.0}}, "engine_params (reg_alpha) need the engine's own"),
    ],
)
def test_parameters_that_make_leaf_values_diagonal(
    capfd: pytest.CaptureFixture[str], parameters: dict[str, Any], said: str
) -> None:
    ranker, (line,) = notices(capfd, **parameters)
    assert ranker.leaf_values_ == "diagonal"
    assert line.startswith(
        f"Note: leaf values are diagonal, not full, and the learning rate is {ranker.learning_rate_:.3g} "
        "for all trees, not steered, because "
    )
    assert said in line
    # A rate of the user's own is not steered in any case.
    _, (line,) = notices(capfd, **parameters, learning_rate=0.1)
    assert line.startswith("Note: leaf values are diagonal, not full, because ")


def test_weights_that_differ_within_a_query(capfd: pytest.CaptureFixture[str]) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 1.5, DATA.n_rows)
    options: dict[str, Any] = {"n_estimators": 2, "n_jobs": 1}
    rw.Ranker(**options).fit(DATA.X, DATA.y, qid=DATA.qid, sample_weight=weights)
    assert "weights differ within a query; give each query one weight." in capfd.readouterr().err


@pytest.mark.parametrize(
    ("data", "parameters", "why"),
    [
        (DATA, {"langevin": True}, "langevin is for a constant rate"),
        (FEW, {}, "12 queries are too few to steer by"),
        (DATA, {"leaf_values": "diagonal"}, "leaf_values='diagonal'"),
    ],
)
def test_what_makes_the_rate_constant(
    capfd: pytest.CaptureFixture[str], data: rw.RankingData, parameters: dict[str, Any], why: str
) -> None:
    ranker, (line,) = notices(capfd, data, **parameters)
    assert len(set(ranker.learning_rates_)) == 1
    rate = f"{ranker.learning_rate_:.3g}"
    assert line == f"Note: the learning rate is {rate} for all trees, not steered, because {why}."


@pytest.mark.parametrize(
    ("parameters", "fit"),
    [
        ({}, {}),
        ({"objective": "lambdamart", "leaf_values": "full"}, {}),
        ({"leaf_values": "diagonal", "learning_rate": 0.1}, {}),
        ({"monotone": {DATA.feature_names[0]: 1}}, {}),
        ({"engine_params": {"max_bin": 31}}, {}),
        ({}, {"base_score": np.linspace(0, 1, DATA.n_rows)}),
        ({"objective": "lambdamart", "verbose": 0}, {}),
    ],
)
def test_otherwise_nothing_is_said(
    capfd: pytest.CaptureFixture[str], parameters: dict[str, Any], fit: dict[str, Any]
) -> None:
    ranker, lines = notices(capfd, fit=fit, **parameters)
    assert lines == []
    if not parameters.get("objective") and "leaf_values" not in parameters:
        assert ranker.leaf_values_ == "full"


@pytest.mark.parametrize(
    "parameters",
    [
        {"members": 2},
        {"early_stopping": "cv", "folds": 2},
        {"early_stopping_rounds": 2, "refit": True},
        {"members": 2, "early_stopping": "cv", "folds": 2},
    ],
)
def test_it_is_said_once_for_all_passes(
    capfd: pytest.CaptureFixture[str], parameters: dict[str, Any]
) -> None:
    train, valid = DATA.split(0.3)
    fit = {"eval_set": valid} if "refit" in parameters else {}
    _, lines = notices(capfd, train, fit, objective="lambdamart", **parameters)
    assert len(lines) == 1
