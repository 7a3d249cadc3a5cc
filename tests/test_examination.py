"""How likely each position is examined, as the clicks of a training show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.clicks.multiplicative import curve_errors, fit_curve
from rankwright.evaluation.per_query import ranks_within_queries
from rankwright.training.bias import BiasColumn
from rankwright.training.examination import Examination, estimate_examination


def column(codes: Any, levels: Any, name: str = "position") -> BiasColumn:
    return BiasColumn(name, tuple(levels), np.asarray(codes, dtype=np.int64), ordered=True)


def data_of(features: Any, labels: Any, weights: Any = None) -> rw.RankingData:
    X = np.asarray(features, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    return rw.RankingData(X, labels, qid=np.zeros(len(X), dtype=int), sample_weight=weights)


def no_scores() -> Any:
    raise AssertionError("documents repeat: no scores are needed")


def estimate(
    data: rw.RankingData,
    *columns: BiasColumn,
    chosen: int = 0,
    reference: int = 0,
    scores: Any = no_scores,
) -> Examination | None:
    return estimate_examination(columns, chosen, reference, data, 1, scores)


def test_worked_example() -> None:
    """Document 1 has rates 0.8 and 0.4 at positions 1 and 2, document 2 has 0.4 and 0.1 at 2 and 3: 1, 1/2, 1/8."""
    data = data_of([1, 1, 2, 2], [0.8, 0.4, 0.4, 0.1])
    found = estimate(data, column([0, 1, 1, 2], [1, 2, 3]), scores=lambda: np.zeros(4))
    assert found is not None
    assert found.alike_by == "features"
    np.testing.assert_allclose(found.values, [1, 0.4 / 0.8, 0.4 / 0.8 * 0.1 / 0.4], rtol=1e-4)


def test_relevance_that_follows_the_positions_does_not_count() -> None:
    """The better document stands at 1 nine times of ten: its clicks there are weighed against its own elsewhere."""
    data = data_of([1] * 10 + [2] * 10, [0.8] * 9 + [0.4] + [0.2] + [0.1] * 9)
    found = estimate(data, column([0] * 9 + [1, 0] + [1] * 9, [1, 2]))
    assert found is not None
    np.testing.assert_allclose(found.values, [1, 0.5], rtol=1e-4)
    rate = [data.y[data_rows].mean() for data_rows in (np.r_[0:9, 10], np.r_[9, 11:20])]
    assert rate[1] / rate[0] < 0.2  # what the rates alone would say


def test_weights_are_counts() -> None:
    """A row of weight 3 is three rows."""
    labels, codes, features = [1.0, 0.0, 1.0, 0.0, 1.0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]
    weighted = estimate(data_of(features, labels, weights=[3, 1, 1, 3, 1]), column(codes, [1, 2]))
    times = [3, 1, 1, 3, 1]
    repeated = estimate(
        data_of(np.repeat(features, times), np.repeat(labels, times)),
        column(np.repeat(codes, times), [1, 2]),
    )
    assert weighted is not None
    assert repeated is not None
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-9)
    np.testing.assert_allclose(weighted.values, [1, (2 / 5) / (3 / 4)], rtol=1e-4)


def test_reference_may_be_any_level() -> None:
    data = data_of([1, 1, 1], [0.2, 0.4, 0.1])
    found = estimate(data, column([0, 1, 2], "abc"), reference=1, scores=lambda: np.zeros(3))
    assert found is not None
    assert found.levels.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.values, [0.5, 1.0, 0.25], rtol=1e-4)


def test_groups_have_the_same_values_of_other_columns() -> None:
    """On the phone everything is clicked half as often, and position 2 is mostly seen there."""
    position, phone = np.array([0, 1, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    rates = 0.8 * 0.5**phone * 0.5**position
    columns = column(position, [1, 2]), column(phone, ["desk", "phone"], "device")
    data = data_of(np.ones(6), rates)
    for chosen in (0, 1):
        found = estimate(data, *columns, chosen=chosen)
        assert found is not None
        np.testing.assert_allclose(found.values, [1, 0.5], rtol=1e-4)


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        ([0.0, 0.0, 0.4, 0.4], [0, 0, 1, 1]),  # the reference has no click
        ([0.5, 0.0, 0.5, 0.0], [0, 1, 0, 1]),  # no other level has one
    ],
)
def test_nothing_where_clicks_do_not_tell(labels: list[float], codes: list[int]) -> None:
    assert (
        estimate(data_of([1, 1, 2, 2], labels), column(codes, [1, 2]), scores=lambda: np.zeros(4))
        is None
    )


def test_levels_that_nothing_connects_are_left_out() -> None:
    """Positions 3 and 4 were clicked, but only documents that stood at 3 and 4, and none of the same score."""
    data = data_of([1, 1, 2, 2], [0.8, 0.4, 0.4, 0.1])
    found = estimate(
        data, column([0, 1, 2, 3], [1, 2, 3, 4]), scores=lambda: np.array([0.0, 0.0, 1.0, 1.0])
    )
    assert found is not None
    assert found.levels.tolist() == [0, 1]


def test_standard_errors_are_those_of_resampled_groups() -> None:
    random = np.random.default_rng(3)
    gamma = random.beta(2, 5, 400)
    shows = random.integers(0, 6, (400, 3)) * 4.0
    clicks = random.binomial(shows.astype(int), gamma[:, None] * np.array([1.0, 0.5, 0.25])) * 1.0
    used = clicks.sum(axis=1) > 0
    shows, clicks = shows[used], clicks[used]
    draws = [random.integers(0, len(shows), len(shows)) for _ in range(400)]
    deviation = np.std([fit_curve(shows[d], clicks[d]) for d in draws], axis=0)
    np.testing.assert_allclose(
        curve_errors(shows, clicks, fit_curve(shows, clicks)), deviation, rtol=0.12
    )


# In a training.


def clicks_of(
    n_queries: int = 250, exponent: float = 1.0, impressions: int = 30, **options: Any
) -> rw.RankingData:
    data = rw.make_web_search(n_queries, kind="short", n_features=20, random_state=5)
    teacher = -ranks_within_queries(np.nan_to_num(data.X[:, 7]).astype(float), data.queries) / 2
    log = rw.simulate_clicks(
        data,
        teacher,
        exponent=exponent,
        noise=0.1,
        impressions=impressions,
        temperature=1.0,
        random_state=5,
    )
    return log.to_data(examined_only=False, **options)


@pytest.fixture(scope="module")
def sessions() -> rw.RankingData:
    return clicks_of(by="session")


def quick(objective: str, **options: Any) -> rw.Ranker:
    return rw.Ranker(objective, n_estimators=5, verbose=0, n_jobs=1, **options)


@pytest.mark.parametrize("objective", ["lambdamart", "queryrmse", "xendcg"])
def test_examination_does_not_depend_on_the_objective(
    sessions: rw.RankingData, objective: str
) -> None:
    ranker = quick(objective).fit(sessions, position="position")
    found = ranker.manifest_["position_bias"]["position"]
    truth = 1 / np.arange(1, 11)
    assert found["alike_by"] == "features"
    assert np.all(
        np.abs(np.log(found["examination"] / truth))[1:]
        < 3 * np.array(found["examination_error"])[1:]
    )
    np.testing.assert_allclose(
        list(ranker.examination_["position"].values())[:3], truth[:3], rtol=0.1
    )


def test_counts_give_the_same_as_sessions(sessions: rw.RankingData) -> None:
    one, other = (
        quick("lambdamart").fit(data, position="position").examination_["position"]
        for data in (sessions, clicks_of(weights="rows"))
    )
    assert one == pytest.approx(other, rel=1e-6)


def test_features_within_the_list_do_not_make_documents_differ(sessions: rw.RankingData) -> None:
    plain, more = (
        quick("lambdamart", within_query=recipe).fit(sessions, position="position")
        for recipe in (None, ["rank"])
    )
    assert more.examination_ == plain.examination_


def test_documents_of_like_score_where_none_repeats() -> None:
    """Every document is new, and relevance is a function of its features that the trees learn."""
    random = np.random.default_rng(0)
    n_lists, shown = 3000, 5
    X = random.normal(size=(n_lists, shown, 2))
    X = np.take_along_axis(
        X,
        np.argsort(-(X[:, :, :1] + random.normal(scale=2, size=(n_lists, shown, 1))), axis=1),
        axis=1,
    )
    X = X.reshape(-1, 2)
    position = np.tile(np.arange(1, shown + 1), n_lists)
    labels = 0.7 / (1 + np.exp(-2 * X[:, 0])) / position  # no chance in it
    data = rw.RankingData(
        X, labels, qid=np.repeat(np.arange(n_lists), shown), fields={"position": position}
    )
    ranker = rw.Ranker("queryrmse", n_estimators=60, learning_rate=0.2, verbose=0, n_jobs=1)
    ranker.fit(data, position="position")
    assert ranker.manifest_["position_bias"]["position"]["alike_by"] == "score"
    np.testing.assert_allclose(
        list(ranker.examination_["position"].values()), 1 / np.arange(1, 6), rtol=0.05
    )


def test_saved_models_have_it(sessions: rw.RankingData, tmp_path: Path) -> None:
    ranker = quick("lambdamart").fit(sessions, position="position")
    ranker.save(tmp_path / "model")
    assert rw.Ranker.load(tmp_path / "model").examination_ == ranker.examination_
    assert quick("lambdamart").fit(sessions).examination_ == {}
