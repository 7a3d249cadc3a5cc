"""The estimator: rows in any order and form, one seed one model, predictions that add up, and no noise."""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import rankwright
import rankwright.training.progress
from rankwright import Ranker, RankingData, evaluate
from rankwright.engines.lightgbm.grower import Grower
from rankwright.objectives import LambdaMART, QueryRMSE, StochasticRank, YetiLoss
from rankwright.ranker import Progress
from small import QUICK, TRAIN, VALID, quick, rows

X, Y, QID = rows(240, 5, 12)
AUTO = 0.03 * YetiLoss(neighbours=3, permutations=2) + 0.03 * QueryRMSE().per_length()


@pytest.fixture(scope="module")
def fitted() -> Ranker:
    return quick().fit(X, Y, qid=QID)


def model_text(ranker: Ranker) -> str:
    return ranker.forest_.dump().decode()


def test_rows_in_any_order_give_the_model_of_sorted_ones(fitted: Ranker) -> None:
    order = np.argsort(QID, kind="stable")
    expected = model_text(quick().fit(X[order], Y[order], qid=QID[order]))
    assert model_text(fitted) == expected
    assert model_text(quick().fit(X[order], Y[order], group=np.bincount(QID))) == expected
    interleaved = np.random.default_rng(1).permutation(240)
    interleaved[np.argsort(QID[interleaved], kind="stable")] = (
        order  # queries mixed, each query's rows in their order
    )
    assert not np.array_equal(QID[interleaved], np.sort(QID))
    assert model_text(quick().fit(X[interleaved], Y[interleaved], qid=QID[interleaved])) == expected


def test_predictions_are_in_the_callers_order(fitted: Ranker) -> None:
    scores = fitted.predict(X)
    order = np.random.default_rng(2).permutation(240)
    assert np.array_equal(fitted.predict(X[order]), scores[order])
    data = RankingData(X, Y, qid=QID)
    assert np.array_equal(data.ungroup(fitted.predict(data)), scores)
    assert (
        fitted.score(X, Y, QID)
        == evaluate(scores, Y, qid=QID).mean["ndcg@10"]
        == fitted.score(data)
    )
    assert fitted.score(X[order], Y[order], QID[order]) == fitted.score(X, Y, QID)
    assert fitted.score(X, Y, QID) > 0.9


def ranks_by_definition(scores: Any, qid: Any) -> list[int]:
    return [
        1
        + sum(
            qid[j] == qid[i] and (scores[j] > scores[i] or (scores[j] == scores[i] and j < i))
            for j in range(len(qid))
        )
        for i in range(len(qid))
    ]


def test_ranks_within_each_query(fitted: Ranker) -> None:
    doubled, qid = np.vstack([X, X]), np.concatenate([QID, QID])  # each document twice: ties
    expected = ranks_by_definition(fitted.predict(doubled), qid)
    assert fitted.ranks(doubled, qid).tolist() == expected
    assert fitted.ranks(doubled, [f"query {q}" for q in qid]).tolist() == expected
    assert fitted.ranks(X[:10], group=[4, 6]).tolist() == ranks_by_definition(
        fitted.predict(X[:10]), [0] * 4 + [1] * 6
    )
    data = RankingData(X, Y, qid=QID)
    assert data.ungroup(fitted.ranks(data)).tolist() == ranks_by_definition(fitted.predict(X), QID)


def test_score_weights_queries(fitted: Ranker) -> None:
    weights = np.random.default_rng(3).uniform(size=12)
    values = evaluate(fitted.predict(X), Y, qid=QID).per_query["ndcg@10"]
    expected = (weights * values).sum() / weights.sum()
    assert fitted.score(X, Y, QID, sample_weight=weights[QID]) == pytest.approx(expected, rel=1e-12)
    data = RankingData(X, Y, qid=QID, sample_weight=weights[QID])
    assert fitted.score(data) == pytest.approx(expected, rel=1e-12)
    assert abs(expected - values.mean()) > 1e-6


def test_weights_matter_in_training_and_zero_leaves_a_query_out() -> None:
    def prediction(**more: Any) -> Any:
        return quick(objective="lambdamart").fit(X, Y, qid=QID, **more).predict(X)

    assert np.array_equal(prediction(sample_weight=np.ones(240)), prediction())
    twice = np.where(QID == 0, 2.0, 1.0)
    assert not np.array_equal(prediction(sample_weight=twice), prediction())
    appearance = [int(one) for one in dict.fromkeys(QID)]
    by_query = np.array([2.0 if query == 0 else 1.0 for query in appearance])
    assert np.array_equal(prediction(sample_weight=by_query), prediction(sample_weight=twice))
    wrong = Y.copy()
    wrong[QID == 0] = 3 - wrong[QID == 0]
    silenced = quick(objective="lambdamart").fit(
        X, wrong, qid=QID, sample_weight=np.where(QID == 0, 0.0, 1.0)
    )
    assert np.array_equal(
        silenced.predict(X), prediction(sample_weight=np.where(QID == 0, 0.0, 1.0))
    )


def test_contributions_add_up_to_the_prediction(fitted: Ranker) -> None:
    for features in (X, sp.csr_matrix(X)):
        values = fitted.predict(features, contributions=True)
        assert values.shape == (240, 6)
        np.testing.assert_allclose(values.sum(axis=1), fitted.predict(X), atol=1e-12)
    assert np.abs(fitted.predict(X, contributions=True)[:, 0]).max() > 0.05


def test_importances_are_shares_and_find_the_feature_that_matters(fitted: Ranker) -> None:
    importances = fitted.feature_importances_
    assert importances.shape == (5,)
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 0
    assert importances[0] > 0.5


@pytest.mark.parametrize("every", [1, 5, 100])
def test_staged_predictions_end_with_the_prediction(fitted: Ranker, every: int) -> None:
    stages = list(fitted.staged_predict(X, every=every))
    assert len(stages) == -(-12 // every)
    np.testing.assert_allclose(stages[-1], fitted.predict(X), rtol=1e-12)
    np.testing.assert_allclose(
        stages[0], fitted.forest_.predict(X, threads=1, stop=min(every, 12)), rtol=1e-12, atol=1e-15
    )


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": lambda columns: pa.table({name: pa.array(values) for name, values in columns.items()}),
}
COLUMNS = {f"c{i}": X[:, i] for i in range(5)}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_with_named_columns(fitted: Ranker, kind: str) -> None:
    frame = FRAMES[kind]({**COLUMNS, "grade": Y, "query": QID})
    ranker = quick().fit(frame, "grade", qid="query", eval_set=[(frame, "grade", "query")])
    scores = fitted.predict(X)
    assert np.array_equal(ranker.predict(frame), scores)
    assert np.array_equal(ranker.predict(FRAMES[kind](COLUMNS)), scores)
    backwards = {name: COLUMNS[name] for name in reversed(COLUMNS)}
    assert np.array_equal(ranker.predict(FRAMES[kind](backwards)), scores)
    assert np.array_equal(ranker.predict(X), scores)
    expected = fitted.score(X, Y, QID)
    assert (
        ranker.score(frame, "grade", "query")
        == expected
        == ranker.evals_result_["valid_0"]["ndcg@10"][-1]
    )
    assert ranker.score(frame) == ranker.score(frame, Y, QID) == ranker.score(frame, Y) == expected
    assert ranker.score(FRAMES[kind](COLUMNS), Y, QID) == expected
    ranks = fitted.ranks(X, QID).tolist()
    assert ranker.ranks(frame).tolist() == ranker.ranks(frame, "query").tolist() == ranks
    assert ranker.ranks(frame, QID).tolist() == ranks
    assert ranker.ranks(FRAMES[kind]({**COLUMNS, "session": QID}), "session").tolist() == ranks
    assert ranker.feature_names_in_.tolist() == list(COLUMNS)
    assert ranker.n_features_in_ == 5


def test_arrays_have_no_names(fitted: Ranker) -> None:
    assert not hasattr(fitted, "feature_names_in_")
    named = quick(n_estimators=1).fit(pd.DataFrame(COLUMNS), Y, qid=QID)
    assert not hasattr(named.fit(X, Y, qid=QID), "feature_names_in_")


@pytest.mark.parametrize(
    "convert", [sp.csr_matrix, sp.csc_matrix, sp.coo_array, np.asfortranarray, np.ndarray.tolist]
)
def test_other_forms_of_the_same_numbers_give_the_same_model(convert: Any) -> None:
    features = np.where(X > 0, X, 0.0)
    dense = quick().fit(features, Y, qid=QID)
    other = quick().fit(convert(features), Y, qid=QID, eval_set=[(convert(features), Y, QID)])
    assert np.array_equal(other.predict(convert(features)), dense.predict(features))
    assert other.evals_result_["valid_0"]["ndcg@10"][-1] == dense.score(features, Y, QID)


def test_missing_values_are_learned_from() -> None:
    features = X.copy()
    features[Y >= 2, 0] = np.nan
    ranker = quick().fit(features, Y, qid=QID)
    assert ranker.score(features, Y, QID) > 0.8
    missing = ranker.predict(np.array([[np.nan, 0, 0, 0, 0]]))
    assert missing > ranker.predict(np.array([[-1.0, 0, 0, 0, 0]]))


def colours(seed: int, n: int = 240) -> tuple[Any, Any, Any]:
    """Labels that depend on a category whose order says nothing."""
    draw = np.random.default_rng(seed)
    names = np.array(["blue", "green", "red", "violet", "yellow"])
    code = draw.integers(5, size=n)
    return names[code], np.array([2.0, 0.0, 3.0, 1.0, 2.0])[code], np.arange(n) % 12


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_keep_their_codes_between_training_and_prediction(kind: str) -> None:
    def frame(colour: Any) -> Any:
        if kind == "pandas":
            return pd.DataFrame({"colour": pd.Categorical(colour)})
        return pl.DataFrame({"colour": pl.Series(colour, dtype=pl.Categorical)})

    colour, y, qid = colours(0)
    params = {"max_cat_to_onehot": 10, "min_data_per_group": 1, "cat_smooth": 0}
    ranker = quick(colsample=1.0, engine_params=params).fit(frame(colour), y, qid=qid)
    assert ranker.score(frame(colour), y, qid) > 0.99
    few = np.array(["yellow", "red", "green"])  # their codes here would be others
    one, two, three = ranker.predict(frame(few))
    assert two > one > three
    everything = dict(zip(colour, ranker.predict(frame(colour)), strict=True))
    assert [everything[name] for name in few] == [one, two, three]
    unseen = ranker.predict(frame(np.array(["black", "red"])))
    assert np.isfinite(unseen).all()
    assert unseen[1] == two
    data = RankingData(frame(few), [0, 1, 2], group=[3])
    with pytest.raises(ValueError, match="categories differ from those of the training data"):
        ranker.predict(data)
    agreed = RankingData(frame(few), [0, 1, 2], group=[3], reference=ranker.columns_)
    assert ranker.predict(agreed).tolist() == [one, two, three]
    more = quick(n_estimators=1).fit(
        frame(np.repeat(few, 20)), np.repeat([1, 2, 0], 20), group=[60], init_model=ranker
    )
    assert more.columns_ == ranker.columns_


@pytest.fixture
def shared_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use as many threads as asked for on small data too."""
    monkeypatch.setattr("rankwright.training.loop.ROWS_TO_SHARE", 0)
    monkeypatch.setattr("rankwright.engines.gate.VALUES_TO_SHARE", 0)


def test_the_engine_has_one_thread_on_small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Watched(Grower):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            seen.append(self.threads)

    monkeypatch.setattr("rankwright.engines.lightgbm.grower.Grower", Watched)
    for least in (
        TRAIN.n_rows * len(TRAIN.feature_names) + 1,
        TRAIN.n_rows * len(TRAIN.feature_names),
    ):
        monkeypatch.setattr("rankwright.engines.gate.VALUES_TO_SHARE", least)
        quick(n_jobs=2, n_estimators=1).fit(TRAIN)
    assert seen == [1, 2]


@pytest.mark.usefixtures("shared_work")
def test_the_seed_decides_and_threads_do_not() -> None:
    settings = {"subsample_queries": 0.8, "langevin": True}
    texts = [model_text(quick(n_jobs=jobs, **settings).fit(TRAIN)) for jobs in (1, 2, None, -1)]
    assert len(set(texts)) == 1
    assert model_text(quick(random_state=1, **settings).fit(TRAIN)) != texts[0]
    generator = np.random.RandomState(5)
    drawn = np.random.RandomState(5).randint(2**31)
    assert model_text(quick(random_state=generator).fit(TRAIN)) == model_text(
        quick(random_state=drawn).fit(TRAIN)
    )
    free = quick(random_state=None, n_estimators=2).fit(TRAIN)
    seed = free.manifest_["seed"]
    assert model_text(quick(random_state=seed, n_estimators=2).fit(TRAIN)) == model_text(free)
    assert quick(random_state=None, n_estimators=2).fit(TRAIN).manifest_["seed"] != seed
    assert quick(random_state=2**64 - 1, n_estimators=1).fit(TRAIN).score(TRAIN) > 0.3


@pytest.mark.usefixtures("shared_work")
def test_fits_in_several_threads_are_those_one_by_one() -> None:
    settings: list[dict[str, Any]] = [
        {"n_jobs": jobs, "objective": objective, "leaf_values": leaves, "random_state": seed}
        for seed, (jobs, objective, leaves) in enumerate(
            [
                (1, "lambdamart", "full"),
                (2, "yetirank", "diagonal"),
                (1, "yetiloss", "diagonal"),
                (2, "xendcg", "full"),
            ]
        )
    ]

    def train(changes: dict[str, Any]) -> str:
        return model_text(quick(**changes).fit(TRAIN, eval_set=[VALID]))

    expected = [train(one) for one in settings]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(train, settings)) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("ndcg@10", AUTO),
        ("dcg", AUTO),
        ("map", AUTO),
        ("err@10", AUTO),
        ("dcg-rr", StochasticRank()),
    ],
)
def test_the_automatic_objective(metric: str, expected: Any) -> None:
    assert quick(metric=metric, n_estimators=1).fit(TRAIN).objective_ == expected


def test_leaves_are_solved_together_where_the_objective_is_automatic_and_allows_it() -> None:
    weights = np.random.default_rng(0).uniform(1, 2, TRAIN.n_rows)
    weighted = RankingData(TRAIN.X, TRAIN.y, group=TRAIN.group, sample_weight=weights)
    for expected, train, changes in (
        ("full", TRAIN, {}),
        ("diagonal", TRAIN, {"leaf_values": "diagonal"}),
        ("diagonal", TRAIN, {"objective": "yetirank"}),
        ("full", TRAIN, {"objective": "yetirank", "leaf_values": "full"}),
        ("diagonal", TRAIN, {"metric": "dcg-rr"}),
        ("diagonal", TRAIN, {"reg_lambda": 0}),
        ("diagonal", TRAIN, {"engine_params": {"lambda_l1": 0.1}}),
        ("diagonal", weighted, {}),
    ):
        assert quick(n_estimators=1, **changes).fit(train).leaf_values_ == expected, changes


def test_rate_and_leaves_grow_with_the_data() -> None:
    left_open = {
        "n_estimators": 1,
        "learning_rate": None,
        "num_leaves": None,
        "leaf_values": "diagonal",
    }
    small = quick(**left_open).fit(TRAIN)
    assert (small.learning_rate_, small.num_leaves_) == (0.06, 16)
    copies = 40_000 // TRAIN.n_rows + 1
    X, y = np.tile(TRAIN.X, (copies, 1)), np.tile(TRAIN.y, copies)
    large = quick(**left_open).fit(X, y, group=np.tile(TRAIN.group, copies))
    ratio = len(y) / 10_000
    assert large.learning_rate_ == pytest.approx(0.06 * ratio**0.25)
    assert large.num_leaves_ == round(16 * ratio**0.5)
    assert (small.max_bin_, large.max_bin_) == (63, round(63 * ratio**0.5))


@pytest.mark.parametrize(("relevant", "weight"), [(60, 0.03), (10, 0.03), (4, 0.012), (1, 0.003)])
def test_the_automatic_objective_has_less_squared_error_where_few_documents_are_relevant(
    relevant: int, weight: float
) -> None:
    labels = np.zeros((30, 100))
    labels[:, :relevant] = 2
    columns = np.random.default_rng(0).normal(size=(3000, 3))
    ranker = quick(n_estimators=1).fit(columns, labels.ravel(), group=[100] * 30)
    assert [factor for factor, _, _ in ranker.objective_.terms()] == [0.03, weight]


def distinct_thresholds(ranker: Ranker) -> int:
    return len({threshold for tree in ranker.forest_.trees() for threshold in tree.threshold})


@pytest.mark.parametrize(
    ("changes", "rows", "temperature"),
    [
        ({"objective": "auto"}, 1.0, 0.7),
        ({"leaf_values": "full"}, 1.0, 0.7),
        ({"leaf_values": "full", "subsample": 0.5}, 0.5, 0.0),
        ({"leaf_values": "full", "subsample": 0.5, "bagging_temperature": 0.3}, 0.5, 0.3),
        ({"leaf_values": "full", "bagging_temperature": 0}, 0.7, 0.0),
        ({"objective": "lambdamart"}, 0.7, 0.0),
        ({"objective": "lambdamart", "bagging_temperature": 1}, 1.0, 1.0),
    ],
    ids=str,
)
def test_queries_are_weighted_or_rows_are_sampled(
    changes: dict[str, Any], rows: float, temperature: float
) -> None:
    ranker = Ranker(n_estimators=2, verbose=0, **{"objective": "yetiloss", **changes}).fit(TRAIN)
    assert (ranker.subsample_, ranker.bagging_temperature_) == (rows, temperature)


@pytest.mark.parametrize(("relevant", "temperature"), [(0.09, 0.0), (0.11, 0.7)])
def test_rows_are_sampled_where_few_documents_are_relevant(
    relevant: float, temperature: float
) -> None:
    y = np.zeros(TRAIN.n_rows)
    y[: round(relevant * len(y))] = 1
    ranker = Ranker(n_estimators=1, verbose=0).fit(RankingData(TRAIN.X, y, group=TRAIN.group))
    assert ranker.bagging_temperature_ == temperature
    assert ranker.subsample_ == (1.0 if temperature else 0.7)


def test_a_column_is_reduced_to_as_many_values_as_chosen_or_asked_for() -> None:
    column = np.random.default_rng(0).normal(size=(4000, 1))
    labels = np.round(2 + np.sin(8 * column[:, 0]))
    trees = {"n_estimators": 60, "num_leaves": 31, "min_child_samples": 1, "metric": "ndcg"}
    for params, bins in ((None, 63), ({"max_bin": 15}, 15), ({"max_bin_by_feature": [7]}, [7])):
        ranker = quick(engine_params=params, **trees).fit(
            column, labels, qid=np.repeat(range(100), 40)
        )
        assert ranker.max_bin_ == bins
        most = bins[0] if isinstance(bins, list) else bins
        assert most // 2 < distinct_thresholds(ranker) < most, params


def test_the_learning_rate_is_steered_where_it_is_left_open_and_leaves_are_solved_together() -> (
    None
):
    few = TRAIN.subset(range(19))
    for first, steered, train, changes in (
        (0.03, True, TRAIN, {}),
        (0.05, False, TRAIN, {"learning_rate": 0.05}),
        (0.06, False, TRAIN, {"leaf_values": "diagonal"}),
        (0.06, False, TRAIN, {"langevin": True}),
        (0.06, False, few, {}),
    ):
        ranker = quick(**{"n_estimators": 3, "learning_rate": None, **changes}).fit(train)
        assert ranker.learning_rate_ == ranker.learning_rates_[0] == first, changes
        assert len(set(ranker.learning_rates_)) == (3 if steered else 1), changes


def test_learning_rates_are_those_of_the_trees_kept() -> None:
    options: dict[str, Any] = {
        "learning_rate": None,
        "n_estimators": 40,
        "early_stopping_rounds": 3,
    }
    ranker = quick(**options, stopping_rule="best").fit(TRAIN, eval_set=[VALID])
    assert len(ranker.learning_rates_) == ranker.n_estimators_ < 40


def test_the_step_of_a_first_order_objective_does_not_depend_on_the_scale_of_the_metric() -> None:
    """Twice the labels, twice DCG's gradient: half the rate, the same steps."""
    shared = {
        "metric": "dcg(gain=linear)@5",
        "learning_rate": None,
        "reg_lambda": 0,
        "n_estimators": 5,
    }
    doubled_labels = RankingData(
        TRAIN.X, 2 * TRAIN.y, qid=TRAIN.qid, feature_names=TRAIN.feature_names
    )
    for objective in ("softrank", "stochasticrank"):
        plain, doubled = (
            quick(objective=objective, **shared).fit(data) for data in (TRAIN, doubled_labels)
        )
        assert doubled.learning_rate_ == pytest.approx(plain.learning_rate_ / 2, rel=1e-12)
        np.testing.assert_allclose(doubled.predict(TRAIN), plain.predict(TRAIN), rtol=1e-6)


def test_an_objective_by_name_with_options_or_as_an_object() -> None:
    texts = {
        model_text(quick(objective=one).fit(TRAIN))
        for one in ("lambdamart(sigma=2.0)", LambdaMART(sigma=2.0), " lambdamart( sigma = 2.0 )")
    }
    assert len(texts) == 1
    assert texts != {model_text(quick(objective="lambdamart").fit(TRAIN))}


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": 0.3},
        {"num_leaves": 4},
        {"max_depth": 2},
        {"min_child_samples": 40},
        {"reg_lambda": 5.0},
        {"subsample_queries": 0.5},
        {"subsample": 0.4},
        {"colsample": 0.2},
        {"leaf_values": "diagonal"},
        {"langevin": True},
        {"metric": "map", "objective": "lambdamart"},
        {"engine_params": {"max_bin": 7}},
        {"engine_params": {"min_sum_hessian_in_leaf": 5.0}},
    ],
    ids=str,
)
def test_every_parameter_changes_the_model(changes: dict[str, Any]) -> None:
    usual = quick(objective=changes.get("objective", "auto"), n_estimators=3).fit(TRAIN)
    other = quick(**{"n_estimators": 3, **changes}).fit(TRAIN)
    assert not np.array_equal(usual.predict(VALID), other.predict(VALID))


@pytest.mark.parametrize("depth", [None, -1])
def test_no_limit_of_depth(depth: int | None) -> None:
    assert model_text(quick(max_depth=depth).fit(TRAIN)) == model_text(quick().fit(TRAIN))


def test_nothing_is_printed_without_verbose(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankwright.training.progress, "_SECONDS_BETWEEN_LINES", 0.0)
    before = logging.root.handlers[:], logging.getLogger("rankwright").handlers[:]
    quick(leaf_values="full").fit(TRAIN, eval_set=[VALID])
    quick(min_child_samples=10_000).fit(X, Y, qid=QID)
    assert capfd.readouterr() == ("", "")
    assert (logging.root.handlers, logging.getLogger("rankwright").handlers) == before


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_plain_lines_now_and_then_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(rankwright.training.progress, "_SECONDS_BETWEEN_LINES", seconds)
    quick(verbose=1, n_estimators=3).fit(TRAIN, eval_set=[VALID])
    out, err = capfd.readouterr()
    assert out == ""
    *lines, end = err.splitlines()
    assert end.startswith("Training ended after 3 trees, as many as n_estimators allows. ")
    if seconds:
        assert not lines
        return
    number = r"\d+\.\d+"
    pattern = rf"\d/3 trees, ndcg@10 {number} \(best {number}\), {number} trees/s, \d+ s left, objective \d+%"
    assert len(lines) == 3
    assert all(re.fullmatch(pattern, line) for line in lines), err
    assert "\x1b" not in err


def test_lines_are_seconds_apart_by_default() -> None:
    assert 2 <= rankwright.training.progress._SECONDS_BETWEEN_LINES <= 60


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    quick(verbose=1, n_estimators=3).fit(TRAIN, eval_set=[VALID])
    out, err = capfd.readouterr()
    assert out == ""
    assert "3/3 trees, ndcg@10 0." in err
    assert "\x1b" in err


def test_a_line_shows_the_best_value_in_the_metrics_sense() -> None:
    told = []
    for metric in ("ndcg@10", "arp"):
        display = rankwright.training.progress.Display(0, 9, rankwright.metric(metric))
        times = {"gradients": 0.5, "trees": 2.75, "leaves": 0.5, "evaluation": 0.25}
        progress = Progress(3, 9, 2, [{metric: [0.5, 0.75, 0.25]}], seconds=4.0, times=times)
        told.append(display.describe(progress))
    assert (
        told[0] == "3/9 trees, ndcg@10 0.2500 (best 0.7500), 0.5 trees/s, 12 s left, objective 25%"
    )
    assert "(best 0.2500)" in told[1]


def test_fitting_again_forgets_the_earlier_fit(fitted: Ranker) -> None:
    ranker = quick(n_estimators=3).fit(TRAIN, eval_set=[VALID])
    ranker.fit(X, Y, qid=QID)
    assert ranker.n_features_in_ == 5
    assert ranker.evals_result_ == {}
    assert ranker.n_estimators_ == 3


def test_the_input_is_not_changed() -> None:
    features, labels, ids = X.copy(), Y.copy(), QID.copy()
    ranker = quick().fit(features, labels, qid=ids)
    ranker.predict(features), ranker.score(features, labels, ids), ranker.ranks(features, ids)
    assert np.array_equal(features, X)
    assert np.array_equal(labels, Y)
    assert np.array_equal(ids, QID)
    assert ranker.get_params() == {**Ranker().get_params(), **QUICK}


def test_predictions_in_several_threads(fitted: Ranker) -> None:
    expected = fitted.predict(X)
    same: list[bool] = []
    threads = [
        threading.Thread(target=lambda: same.append(np.array_equal(fitted.predict(X), expected)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 8
