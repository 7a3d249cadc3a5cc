"""Numbers at the edge: finite gradients and sensible models, or one clear refusal."""

from __future__ import annotations

import datetime
import logging
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwright import Ranker, RankingData, evaluate, gradients, metric
from rankwright.objectives import OBJECTIVES
from small import TRAIN, quick, rows

X, Y, QID = rows()
N = len(Y)


def masked(values: Any, at: int = 3) -> Any:
    return np.ma.array(values, mask=np.arange(len(values)) == at)


def test_masked_entries_are_missing_not_what_lies_under_the_mask() -> None:
    data = RankingData(X, masked(Y), qid=QID)
    assert np.flatnonzero(~data.ungroup(data.judged)).tolist() == [3]
    with pytest.raises(ValueError, match="the query id at row 3 is missing"):
        RankingData(X, Y, qid=masked(QID))
    with pytest.raises(ValueError, match=r"weights\[3\] is nan"):
        RankingData(X, Y, qid=QID, sample_weight=masked(np.ones(N)))
    with pytest.raises(ValueError, match=r"group\[1\] is nan"):
        RankingData(X, Y, group=masked(np.array([20, 20, 20]), 1))
    with pytest.raises(ValueError, match=r"the score at row 3.* is NaN"):
        evaluate(masked(X[:, 0]), Y, qid=QID)
    with pytest.raises(ValueError, match="a score is nan"):
        gradients("lambdamart", masked(X[:, 0]), Y, qid=QID)
    nothing_masked = np.ma.array(Y, mask=False)
    assert np.array_equal(
        RankingData(X, nothing_masked, qid=np.ma.array(QID)).y, RankingData(X, Y, qid=QID).y
    )


DATES = [
    np.full(N, "2020-01-01", dtype="datetime64[D]"),
    np.full(N, 3, dtype="timedelta64[D]"),
    pd.Series(pd.to_datetime(["2020-01-01"] * N)),
    pl.Series([datetime.date(2020, 1, 1)] * N),
    [datetime.datetime(2020, 1, 1)] * N,
    np.full(N, 1 + 2j),
]


@pytest.mark.parametrize("values", DATES, ids=lambda values: type(values).__name__)
def test_dates_and_complex_numbers_are_not_numbers(values: Any) -> None:
    with pytest.raises(ValueError, match="labels must be numbers"):
        RankingData(X, values, qid=QID)
    with pytest.raises(ValueError, match="weights must be numbers"):
        RankingData(X, Y, qid=QID, sample_weight=values)
    with pytest.raises(ValueError, match="scores must be numbers"):
        evaluate(values, Y, qid=QID)


HUGE = 10**400  # a whole number that no float can hold
TEXTS = [
    "ndcg@99999999999999999999",
    f"ndcg@{'9' * 5000}",
    f"precision(threshold={HUGE})",
    f"err(max_label={HUGE})",
    "rbp(p=1e400)",
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_numbers_that_no_metric_has_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cutoff|strictly between"):
        metric(text)


OBJECTIVE_TEXTS = [
    f"lambdamart(sigma={HUGE})",
    f"lambdamart(truncation='k+{'9' * 30}')",
    f"yetiloss(strength={HUGE})",
    "yetiloss(permutations=99999999999)",
    "yetiloss(neighbours=99999999999)",
    f"stochasticrank(sigma={HUGE})",
    "1e400 queryrmse",
    "n^400 queryrmse",
    "n^-400 queryrmse",
]


@pytest.mark.parametrize("text", OBJECTIVE_TEXTS, ids=lambda text: text[:20])
def test_numbers_that_no_objective_has_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|the factor"):
        gradients(text, X[:, 0], Y, qid=QID, metric="ndcg@5")


SCALES = [
    *(
        "ranknet(sigma={})",
        "lambdamart(sigma={})",
        "lambdaloss(sigma={})",
        "lambdaloss(mu={})",
        "softrank(sigma={})",
    ),
    *("lambdamart(noise='logistic', strength={})", "lambdaloss(noise='gaussian', strength={})"),
    *(
        "stochasticrank(sigma={})",
        "stochasticrank(mu={})",
        "stochasticrank(nu={})",
        "yetiloss(strength={})",
    ),
    *("yetirank(strength={})",),
]


@pytest.mark.parametrize("text", SCALES)
def test_scales_have_finite_gradients_or_are_refused(text: str) -> None:
    for scale in ("1e-100", "1e-6", "1e6", "1e100"):
        for scores in (
            X[:, 0],
            np.zeros(N),
            np.where(Y > 0, 1e300, -1e300),
            1e300 * np.sign(X[:, 0]),
        ):
            for values in gradients(text.format(scale), scores, Y, qid=QID, metric="ndcg@5"):
                assert np.isfinite(values).all(), scale
    for scale in ("1e-320", "1e-101", "1e101", "1e308"):
        with pytest.raises(
            ValueError, match="must be from 1e-100 to 1e\\+100, so that gradients are finite"
        ):
            gradients(text.format(scale), X[:, 0], Y, qid=QID, metric="ndcg@5")


@pytest.mark.parametrize("values", ["gradient", "curvature"])
def test_what_overflows_is_not_returned(values: str) -> None:
    """A pair of equal scores has gradient sigma / 2 and curvature sigma^2 / 4."""
    sigma, weight = (100.0, 1e308) if values == "gradient" else (1e100, 1e150)
    problem: dict[str, Any] = {"group": [2], "sample_weight": [weight, weight]}
    with pytest.raises(
        ValueError, match=f"the {values} of ranknet.* at row 0 is -?inf; use smaller weights"
    ):
        gradients(f"ranknet(sigma={sigma})", [0.0, 0.0], [1, 0], **problem)


@pytest.mark.parametrize("name", ["learning_rate", "reg_lambda", "n_jobs"])
def test_parameters_that_no_float_can_hold_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        Ranker(**{name: HUGE}).check_params()


def test_counts_beyond_all_rows_are_no_limit(caplog: pytest.LogCaptureFixture) -> None:
    whole = quick().fit(X, Y, qid=QID).predict(X)
    assert np.array_equal(quick(max_depth=10**20).fit(X, Y, qid=QID).predict(X), whole)
    assert np.ptp(quick(min_child_samples=10**20).fit(X, Y, qid=QID).predict(X)) == 0


def test_a_truncation_beyond_all_documents_is_none() -> None:
    whole = gradients("lambdamart", X[:, 0], Y, qid=QID)
    assert np.array_equal(
        gradients("lambdamart(truncation=99999999999999999999)", X[:, 0], Y, qid=QID), whole
    )


@pytest.mark.parametrize("weight", [1e300, 1e38])
@pytest.mark.parametrize("objective", ["auto", "lambdamart"])
def test_weights_beyond_the_engines_numbers_are_refused(weight: float, objective: str) -> None:
    with pytest.raises(
        ValueError, match="more than an engine's numbers of 32 bits can hold; use smaller weights"
    ):
        quick(objective=objective).fit(X, Y, qid=QID, sample_weight=np.full(N, weight))


def test_a_ridge_that_is_lost_beside_the_curvature_does_no_harm() -> None:
    """Where the equations do not decide about a leaf value, it is 0 (`kernels.cholesky`)."""
    plain = quick(n_estimators=60, reg_lambda=0.3).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    heavy = quick(n_estimators=60, reg_lambda=0.3)
    heavy.fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid, sample_weight=[1e29] * len(TRAIN))
    assert np.isfinite(heavy.predict(TRAIN)).all()
    assert abs(heavy.score(TRAIN) - plain.score(TRAIN)) < 0.1


@pytest.mark.parametrize("weight", [0.0, 1e-300])
def test_a_constant_model_is_not_silent(weight: float, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rankwright"):
        ranker = quick().fit(X, Y, qid=QID, sample_weight=np.full(N, weight))
    assert np.ptp(ranker.predict(X)) == 0
    assert "no tree found a split, so the model is constant" in caplog.text


def test_a_model_with_splits_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rankwright"):
        assert np.ptp(quick().fit(X, Y, qid=QID).predict(X)) > 0
    assert caplog.text == ""


EDGES: dict[str, tuple[Any, Any, Any]] = {
    "labels up to 30": (X[:, 0], np.arange(N) % 31, QID),
    "fractional labels": (X[:, 0], Y + 0.37, QID),
    "equal scores": (np.zeros(N), Y, QID),
    "scores of 1e300": (np.where(np.arange(N) % 2, 1e300, -1e300), Y, QID),
    "denormal scores": (X[:, 0] * 5e-324, Y, QID),
    "one document each": (X[:, 0], Y, np.arange(N)),
    "none relevant": (X[:, 0], np.zeros(N), QID),
    "all equally relevant": (X[:, 0], np.full(N, 2.0), QID),
}


@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_gradients_are_finite_at_the_edge(objective: str, case: str) -> None:
    scores, labels, qid = EDGES[case]
    grad, hess = gradients(objective, scores, labels, qid=qid, metric="ndcg@5")
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
    assert (hess >= 0).all()
    for query in np.unique(qid):
        mine = qid == query
        if mine.sum() == 1:
            assert (grad[mine] == 0).all() or objective in ("queryrmse", "logistic", "rmse")


@pytest.mark.parametrize("metric", ["arp", "ndcg(gain=linear)@5"])
def test_labels_too_small_to_divide_by_are_refused(metric: str) -> None:
    tiny = np.where(Y > 0, 5e-324, 0.0)
    with pytest.raises(
        ValueError, match=r"cannot be divided by gains of labels as small as 4\.94066e-324; rescale"
    ):
        gradients("lambdamart", X[:, 0], tiny, qid=QID, metric=metric)
    with pytest.raises(ValueError, match="cannot be divided by gains"):
        evaluate(X[:, 0], tiny, qid=QID, metrics=metric)


@pytest.mark.parametrize("sigma", [1e-6, 1e6])
@pytest.mark.parametrize(
    "objective", ["lambdamart", "lambdaloss", "ranknet", "softrank", "stochasticrank"]
)
def test_gradients_are_finite_for_every_width(objective: str, sigma: float) -> None:
    grad, hess = gradients(f"{objective}(sigma={sigma})", X[:, 0], Y, qid=QID, metric="ndcg@5")
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()


def test_a_query_of_a_million_documents() -> None:
    n = 1_000_000
    draw = np.random.default_rng(0)
    labels = (draw.random(n) < 0.01).astype(float)
    for objective in ("queryrmse", "xendcg", "yetiloss(permutations=1)"):
        grad, hess = gradients(objective, draw.normal(size=n), labels, group=[n], metric="ndcg")
        assert np.isfinite(grad).all()
        assert np.isfinite(hess).all()
        assert np.abs(grad).max() > 0


@pytest.mark.filterwarnings("ignore:learning_rate=10")
def test_useless_features_and_a_huge_learning_rate_give_finite_models() -> None:
    features = np.column_stack([X, np.ones(N), np.full(N, np.nan)])
    for options in ({}, {"learning_rate": 10.0}, {"objective": "queryrmse", "learning_rate": 10.0}):
        ranker = quick(**options).fit(features, Y, qid=QID)
        assert np.isfinite(ranker.predict(features)).all()
        assert (ranker.feature_importances_[-2:] == 0).all()


def test_weights_of_a_million_and_of_a_thousand_billion_give_one_model() -> None:
    some = np.where(QID == 0, 0.0, 1.0)
    large, huge = (
        quick().fit(X, Y, qid=QID, sample_weight=some * scale).predict(X) for scale in (1e6, 1e12)
    )
    np.testing.assert_allclose(
        large, huge, atol=1e-4
    )  # beside weights of a million the ridge is lost
