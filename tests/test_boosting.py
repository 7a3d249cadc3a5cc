"""The boosting loop against explicit simulations: shrink, noise, leaf values, bagging, stopping."""

from __future__ import annotations

import math
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from rankwright import Langevin, Ranker, RankingData, bind, evaluate
from rankwright.engines import ENGINES
from rankwright.engines.contract import Growth
from rankwright.engines.lightgbm.grower import Grower
from rankwright.kernels.random import Stream
from rankwright.ranker import Progress
from rankwright.training.defaults import for_data
from rankwright.training.loop import Boosting, QueryDraws
from rankwright.training.plan import read_plan
from small import TRAIN, VALID, WHOLE, quick, rows

SGLB: dict[str, Any] = {"temperature": 500.0, "shrink_rate": 2.0}
LANGEVIN: dict[str, Any] = {"langevin": SGLB}
RATE, RIDGE, LEAVES = 0.1, 0.4, 6


def own_noise(self: QueryDraws, iteration: int, stream: Stream) -> Any:
    """Draws that a simulation can repeat, in the place of those of the package."""
    return drawn(iteration, independent=stream == Stream.LEAF_NOISE)


def drawn(iteration: int, *, independent: bool) -> Any:
    return np.random.default_rng([iteration, independent]).normal(scale=0.2, size=TRAIN.n_rows)


def own_bootstrap(self: QueryDraws, iteration: int) -> Any:
    return weights_of(iteration) if self._plan.bagging_temperature else None


def weights_of(iteration: int) -> Any:
    return np.repeat(
        np.random.default_rng(iteration).exponential(size=TRAIN.n_queries), TRAIN.group
    )


def tree_of(grad: Any, hess: Any) -> tuple[Any, Any]:
    """Leaf of each row, and its value, in one tree of plain LightGBM; with the learning rate."""
    params = {
        "objective": "none",
        "verbosity": -1,
        "num_leaves": LEAVES,
        "max_bin": 63,
        "min_data_in_leaf": 5,
        "lambda_l2": RIDGE,
        "learning_rate": RATE,
        "min_sum_hessian_in_leaf": 0,
        "num_threads": 1,
        "force_col_wise": True,
    }
    booster = lgb.Booster(params, lgb.Dataset(TRAIN.X, np.zeros(TRAIN.n_rows), params=params))
    booster.update(fobj=lambda *_: (grad.astype(np.float32), hess.astype(np.float32)))
    return booster.predict(TRAIN.X, pred_leaf=True).ravel(), booster.predict(
        TRAIN.X, raw_score=True
    )


def simulate(
    objective: str,
    iterations: int,
    *,
    shrink: float = 0.0,
    leaves: str = "diagonal",
    noise: str = "",
    weighted: bool = False,
) -> Any:
    """Scores of the training rows, with every earlier tree shrunk in each iteration."""
    gradient = bind(objective, TRAIN.y, qid=TRAIN.qid, metric="ndcg@10", random_state=0)
    scores = np.zeros(TRAIN.n_rows)
    for it in range(iterations):
        grad, hess = gradient(scores, it)
        shared = drawn(it, independent=False) if noise else 0.0
        weights = weights_of(it) if weighted else 1.0
        leaf, values = tree_of(grad * weights + shared * np.sqrt(hess * weights), hess * weights)
        if leaves == "full" or noise == "independent":
            fresh = drawn(it, independent=True) if noise == "independent" else shared
            member = np.eye(leaf.max() + 1)[leaf]
            total, between = member.T @ grad, member.T @ (hess[:, None] * member)
            if leaves == "full":
                total, between = gradient.leaf_system(scores, leaf, leaf.max() + 1, it)
            total = total + member.T @ (fresh * np.sqrt(hess))
            values = member @ (
                -RATE * np.linalg.inv(between + RIDGE * np.eye(len(between))) @ total
            )
        scores = (1 - shrink * RATE) * scores + values
    return scores


@pytest.mark.parametrize("objective", ["lambdamart", "yetirank"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, {}),
        ({"leaf_values": "full"}, {"leaves": "full"}),
        ({"bagging_temperature": 1.0}, {"weighted": True}),
        ({"bagging_temperature": 1.0, "leaf_values": "full"}, {"weighted": True, "leaves": "full"}),
        (
            {**LANGEVIN, "bagging_temperature": 1.0},
            {"shrink": 2.0, "noise": "shared", "weighted": True},
        ),
        (LANGEVIN, {"shrink": 2.0, "noise": "shared"}),
        (
            {"langevin": {**SGLB, "leaf_noise": "independent"}},
            {"shrink": 2.0, "noise": "independent"},
        ),
        ({**LANGEVIN, "leaf_values": "full"}, {"shrink": 2.0, "noise": "shared", "leaves": "full"}),
        (
            {"langevin": {**SGLB, "leaf_noise": "independent"}, "leaf_values": "full"},
            {"shrink": 2.0, "noise": "independent", "leaves": "full"},
        ),
    ],
)
def test_training_equals_an_explicit_simulation(
    monkeypatch: pytest.MonkeyPatch, objective: str, changes: dict[str, Any], told: dict[str, Any]
) -> None:
    monkeypatch.setattr(QueryDraws, "noise", own_noise)
    monkeypatch.setattr(QueryDraws, "bootstrap", own_bootstrap)
    ranker = quick(
        objective=objective, num_leaves=LEAVES, reg_lambda=RIDGE, n_estimators=8, **WHOLE, **changes
    )
    expected = simulate(objective, 8, **told)
    np.testing.assert_allclose(
        ranker.fit(TRAIN).predict(TRAIN), expected, rtol=1e-4, atol=1e-5 * np.ptp(expected)
    )


def test_the_learning_rate_is_steered_by_the_agreement_of_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against a simulation that leaves one half of the queries out to solve on the other."""

    def halves(iteration: int) -> Any:
        return np.random.default_rng(iteration).integers(0, 2, TRAIN.n_queries)

    monkeypatch.setattr(QueryDraws, "halves", lambda self, iteration: halves(iteration))
    shared = {
        "learning_rate": None,
        "leaf_values": "full",
        "num_leaves": LEAVES,
        "reg_lambda": RIDGE,
    }
    ranker = quick(objective="yetirank", n_estimators=8, **shared, **WHOLE).fit(TRAIN)
    gradient = bind("yetirank", TRAIN.y, qid=TRAIN.qid, metric="ndcg@10", random_state=0)
    scores, rate, rates = np.zeros(TRAIN.n_rows), 0.03, []
    for it in range(8):
        leaf, _ = tree_of(*gradient(scores, it))
        n = leaf.max() + 1
        systems = [
            gradient.leaf_system(scores, leaf, n, it, query_weight=halves(it) == half)
            for half in (0, 1)
        ]
        member, ridge = np.eye(n)[leaf], RIDGE * np.eye(n)
        (g0, h0), (g1, h1) = systems
        scores = scores - rate * member @ np.linalg.inv(h0 + h1 + ridge) @ (g0 + g1)
        rates.append(rate)
        wanted = curved = 0.0
        for (own, curvature), (other, theirs) in (systems, systems[::-1]):
            v = -np.linalg.inv(curvature + ridge / 2) @ own
            wanted -= other @ v
            curved += v @ (theirs + ridge / 2) @ v
        rate *= math.exp(0.1 * (np.clip(wanted / curved, 0, 1) - 0.75))
    assert len(set(rates)) == 8
    np.testing.assert_allclose(ranker.learning_rates_, rates, rtol=1e-4)
    np.testing.assert_allclose(ranker.predict(TRAIN), scores, rtol=1e-4, atol=1e-5 * np.ptp(scores))


def test_steering_slows_down_on_noise_and_speeds_up_on_signal() -> None:
    noise = RankingData(TRAIN.X, np.random.default_rng(0).permutation(TRAIN.y), group=TRAIN.group)
    shared = {"learning_rate": None, "n_estimators": 60}
    signal, nothing = (quick(**shared).fit(data).learning_rates_ for data in (TRAIN, noise))
    assert signal[-1] > 2 * nothing[-1]
    assert nothing[-1] < 0.03


def test_halves_belong_to_iteration_seed_and_query() -> None:
    data = RankingData(np.zeros((4000, 1)), np.zeros(4000), group=[2] * 2000)
    one = draws(quick(), data)
    first = one.halves(3)
    assert abs(first.mean() - 0.5) < 4 * 0.5 / math.sqrt(2000)
    for other in (one.halves(4), draws(quick(random_state=1), data).halves(3)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.1
    assert np.array_equal(draws(quick(), data.subset([7, 150])).halves(3), first[[7, 150]])


def draws(ranker: Ranker, data: RankingData = TRAIN) -> QueryDraws:
    return QueryDraws(data.queries, for_data(read_plan(ranker.get_params()), data))


def test_noise_has_the_stated_deviation_and_belongs_to_iteration_purpose_seed_and_query() -> None:
    data = RankingData(np.zeros((20_000, 1)), np.zeros(20_000), group=[100] * 200)
    changes = {"langevin": {**SGLB, "temperature": 300.0}, "learning_rate": 0.05}
    one = draws(quick(**changes), data)
    noise = one.noise(3, Stream.SPLIT_NOISE)
    assert noise.std() == pytest.approx(math.sqrt(2 / (0.05 * 300)), rel=0.02)
    assert abs(noise.mean()) < 4 * noise.std() / math.sqrt(len(noise))
    others = [
        one.noise(4, Stream.SPLIT_NOISE),
        one.noise(3, Stream.LEAF_NOISE),
        draws(quick(**changes, random_state=1), data).noise(3, Stream.SPLIT_NOISE),
    ]
    for other in others:
        assert abs(np.corrcoef(noise, other)[0, 1]) < 0.04
    some = draws(quick(**changes), data.subset([7, 150])).noise(3, Stream.SPLIT_NOISE)
    assert np.array_equal(some, np.concatenate([noise[700:800], noise[15_000:15_100]]))


def fitted_gradients(
    monkeypatch: pytest.MonkeyPatch, ranker: Ranker, data: RankingData
) -> list[tuple[Any, Any]]:
    """What splits were chosen by in each iteration, before it was rounded to a grid."""
    seen: list[tuple[Any, Any]] = []
    plain = Boosting._for_splits

    def spy(self: Boosting, *arguments: Any) -> Any:
        grad, hess = plain(self, *arguments)
        seen.append((grad.copy(), hess.copy()))
        return grad, hess

    with monkeypatch.context() as patch:
        patch.setattr(Boosting, "_for_splits", spy)
        ranker.fit(data)
    return seen


def two_leaves(useful: int = 20) -> RankingData:
    """Twenty queries of ten documents, of which so many have a gain, and a column that splits them into two halves."""
    labels = np.tile([2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.0], 20)
    labels[10 * useful :] = 0.0
    return RankingData(np.tile([0.0, 1.0], 100)[:, None], labels, group=[10] * 20).canonical()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noise", ["shared", "independent"])
@pytest.mark.parametrize(
    ("useful", "changes"),
    [
        (20, {"objective": "stochasticrank"}),
        (10, {"objective": "stochasticrank"}),
        (20, {"objective": "stochasticrank", "subsample_queries": 0.5}),
        (20, {"objective": "lambdamart"}),
        (10, {"objective": "queryrmse", "subsample_queries": 0.5}),
    ],
    ids=str,
)
def test_the_variance_of_a_leafs_noise_is_one_over_its_curvature(
    monkeypatch: pytest.MonkeyPatch, engine: str, noise: str, useful: int, changes: dict[str, Any]
) -> None:
    """The noise is so large that nothing else counts, and the steps are so small that scores stay near 0."""
    rate, deviation, data = 1e-6, 100.0, two_leaves(useful)
    langevin = Langevin(temperature=2 / (rate * deviation**2), shrink_rate=0.0, leaf_noise=noise)
    ranker = quick(
        engine=engine,
        learning_rate=rate,
        n_estimators=250,
        reg_lambda=0.0,
        langevin=langevin,
        **WHOLE,
    ).set_params(**changes)
    given = fitted_gradients(monkeypatch, ranker, data)
    assert ranker.forest_.n_trees == len(given) == 250
    standard = []
    for number, (_, hess) in enumerate(given):
        values = ranker.forest_.predict(np.array([[0.0], [1.0]]), start=number, stop=number + 1)
        curvature = np.bincount(data.X[:, 0].astype(int), hess)
        standard.append(values / (rate * deviation) * np.sqrt(curvature))
    assert np.var(standard) == pytest.approx(1.0, rel=0.2)


def test_rows_without_curvature_get_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = quick(objective="stochasticrank", subsample_queries=0.5, **LANGEVIN)
    for grad, hess in fitted_gradients(monkeypatch, ranker, two_leaves(useful=10)):
        assert 0 < np.count_nonzero(hess) <= 100
        assert np.array_equal(grad != 0, hess != 0)


def test_where_the_curvature_is_one_the_noise_is_added_as_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranker = quick(objective="queryrmse", n_estimators=1, **LANGEVIN)
    ((grad, hess),) = fitted_gradients(monkeypatch, ranker, TRAIN)
    plain, _ = bind("queryrmse", TRAIN.y, qid=TRAIN.qid)(np.zeros(TRAIN.n_rows))
    assert np.all(hess == 1)
    assert np.array_equal(grad, plain + draws(ranker).noise(0, Stream.SPLIT_NOISE))


@pytest.mark.parametrize("engine", ENGINES)
def test_gains_are_those_of_the_gradients_whatever_was_shrunk_before(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    changes = {
        "langevin": {**SGLB, "shrink_rate": 0.5},
        "learning_rate": 0.5,
        "num_leaves": 2,
        "reg_lambda": RIDGE,
        **WHOLE,
    }
    ranker = quick(engine=engine, objective="queryrmse", n_estimators=40, **changes)
    given = fitted_gradients(monkeypatch, ranker, TRAIN)
    for number, (tree, (grad, hess)) in enumerate(zip(ranker.forest_.trees(), given, strict=True)):
        scores = ranker.forest_.predict(TRAIN.X, start=number, stop=number + 1)
        parts = [scores == scores.min(), scores != scores.min(), np.ones(TRAIN.n_rows, dtype=bool)]
        left, right, whole = (grad[part].sum() ** 2 / (hess[part].sum() + RIDGE) for part in parts)
        np.testing.assert_allclose(tree.gain, [left + right - whole], rtol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_how_far_earlier_trees_may_be_shrunk(engine: str) -> None:
    changes = {
        "langevin": {**SGLB, "shrink_rate": 0.2},
        "learning_rate": 0.5,
        "engine": engine,
        "objective": "queryrmse",
    }
    ranker = quick(n_estimators=284, **changes).fit(TRAIN)  # -284 log(0.9) = 29.92
    assert np.isfinite(ranker.predict(VALID)).all()
    assert ranker.feature_importances_.sum() == pytest.approx(1)
    reason = (
        r"shrink_rate=0.2 at a learning rate of 0.5 shrinks the first of 400 trees by exp\(-42.1\), and exp\(-30\) is "
        r"the most .* use a smaller shrink_rate or at most 284 trees"
    )
    with pytest.raises(ValueError, match=reason):
        quick(n_estimators=400, **changes).fit(TRAIN)


def test_the_default_temperature() -> None:
    langevin = read_plan(quick(langevin=True).get_params()).langevin
    assert langevin is not None
    assert (langevin.temperature, langevin.shrink_rate, langevin.independent) == (1e8, 1e-3, False)


def test_queries_are_left_out_by_seed_iteration_and_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(data: RankingData, **changes: Any) -> Any:
        given = fitted_gradients(
            monkeypatch, quick(objective="queryrmse", subsample_queries=0.6, **changes), data
        )
        starts = data.boundaries[:-1]
        by_query = [np.add.reduceat((hess != 0).astype(int), starts) for _, hess in given]
        for (grad, hess), count in zip(given, by_query, strict=True):
            assert set(count / data.group) <= {0, 1}
            assert not grad[hess == 0].any()
        return np.array([count > 0 for count in by_query])

    chosen = kept(TRAIN)
    assert chosen.mean() == pytest.approx(0.6, abs=4 * math.sqrt(0.24 / chosen.size))
    assert len({tuple(one) for one in chosen.tolist()}) == 12
    half = np.arange(TRAIN.n_queries) % 2 == 0
    assert np.array_equal(kept(TRAIN.subset(half)), chosen[:, half])
    assert not np.array_equal(kept(TRAIN, random_state=1), chosen)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_queries_are_weighted_by_seed_iteration_and_id(
    monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    def weights(data: RankingData, **changes: Any) -> Any:
        options = {"objective": "queryrmse", "bagging_temperature": temperature, **WHOLE, **changes}
        given = fitted_gradients(monkeypatch, quick(**options), data)
        assert all(
            len(np.unique(part)) == 1
            for _, hess in given
            for part in np.split(hess, data.boundaries[1:-1])
        )
        return np.array([hess[data.boundaries[:-1]] for _, hess in given])

    drawn = weights(TRAIN)
    exponential = drawn ** (1 / temperature)
    assert exponential.mean() == pytest.approx(1, abs=4 / math.sqrt(drawn.size))
    assert np.mean(exponential > math.log(4)) == pytest.approx(
        0.25, abs=4 * math.sqrt(0.1875 / drawn.size)
    )
    assert np.unique(drawn).size == drawn.size
    half = np.arange(TRAIN.n_queries) % 2 == 0
    np.testing.assert_array_equal(weights(TRAIN.subset(half)), drawn[:, half])
    assert not np.isin(weights(TRAIN, random_state=1), drawn).any()


def test_leaves_solved_together_leave_the_same_queries_out() -> None:
    settings = {"objective": "lambdamart", "leaf_values": "full", "subsample_queries": 0.5, **WHOLE}
    ranker = quick(n_estimators=1, **settings).fit(TRAIN)
    kept = draws(quick(n_estimators=1, **settings)).subsample(0)
    leaf = (
        lgb.Booster(model_str=ranker.forest_.dump().decode())
        .predict(TRAIN.X, pred_leaf=True)
        .ravel()
    )
    only = TRAIN.subset(kept > 0)
    inside = np.repeat(kept > 0, TRAIN.group)
    gradient = bind("lambdamart", only.y, qid=only.qid, metric="ndcg@10")
    g, between = gradient.leaf_system(np.zeros(only.n_rows), leaf[inside], leaf.max() + 1)
    values = -0.1 * np.linalg.inv(between + 0.3 * np.eye(len(g))) @ g
    np.testing.assert_allclose(ranker.predict(TRAIN), values[leaf], rtol=1e-9)


EXACT = [
    {},
    WHOLE,
    {"leaf_values": "full"},
    {"langevin": True},
    {"langevin": {"leaf_noise": "independent"}, **WHOLE},
    {"langevin": {"leaf_noise": "independent"}, "leaf_values": "full", "subsample_queries": 0.7},
    {"subsample_queries": 0.5, "reg_lambda": 0.0},
    {"objective": "stochasticrank", "metric": "err@5"},
    {"objective": "yetiloss + 0.5 queryrmse", "metric": ["map", "mrr", "arp"]},
]


@pytest.mark.parametrize("changes", EXACT, ids=str)
def test_the_last_metrics_are_those_of_the_final_model_exactly(changes: dict[str, Any]) -> None:
    weighted = RankingData(
        VALID.X,
        VALID.y,
        qid=VALID.qid,
        sample_weight=np.arange(1, VALID.n_queries + 1),
        reference=TRAIN,
    )
    ranker = quick(n_estimators=23, **changes).fit(TRAIN, eval_set=[VALID, weighted, TRAIN])
    for data, curves in zip((VALID, weighted, TRAIN), ranker.evals_result_.values(), strict=True):
        assert all(len(curve) == 23 for curve in curves.values())
        name, curve = next(iter(curves.items()))
        assert curve[-1] == ranker.score(data)
        result = evaluate(
            ranker.predict(data),
            data.y,
            qid=data.qid,
            metrics=list(curves),
            sample_weight=data.weights,
        )
        assert {key: one[-1] for key, one in curves.items()} == result.mean
        assert name == str(ranker.metrics_[0])


def test_a_curve_is_that_of_staged_predictions() -> None:
    ranker = quick(**WHOLE).fit(TRAIN, eval_set=[VALID])
    curve = [
        evaluate(scores, VALID.y, qid=VALID.qid).mean["ndcg@10"]
        for scores in ranker.staged_predict(VALID)
    ]
    assert curve == ranker.evals_result_["valid_0"]["ndcg@10"]
    assert len(set(curve)) > 6


@pytest.mark.parametrize(
    "changes",
    [{}, {"langevin": {**SGLB, "shrink_rate": 0.4}}, {"leaf_values": "full", **WHOLE}],
    ids=str,
)
def test_early_stopping_keeps_the_best_model_as_it_was(changes: dict[str, Any]) -> None:
    ranker = quick(
        n_estimators=200,
        learning_rate=0.3,
        early_stopping_rounds=7,
        stopping_rule="best",
        **changes,
    )
    ranker.fit(TRAIN, eval_set=[VALID])
    curve = ranker.evals_result_["valid_0"]["ndcg@10"]
    best = curve.index(max(curve)) + 1
    assert ranker.n_estimators_ == best
    assert len(curve) == best + 7 < 200
    assert ranker.score(VALID) == max(curve)
    assert ranker.forest_.n_trees == best
    shorter = quick(n_estimators=best, learning_rate=0.3, **changes).fit(TRAIN)
    assert np.array_equal(ranker.predict(VALID), shorter.predict(VALID))


def test_early_stopping_minimises_where_lower_is_better() -> None:
    ranker = quick(
        metric=["arp", "ndcg"],
        n_estimators=200,
        learning_rate=0.3,
        early_stopping_rounds=5,
        stopping_rule="best",
    )
    ranker.fit(TRAIN, eval_set=[VALID, TRAIN])
    curve = ranker.evals_result_["valid_0"]["arp"]
    assert len(curve) < 200
    assert ranker.n_estimators_ == curve.index(min(curve)) + 1 == len(curve) - 5
    assert ranker.score(VALID) == -min(curve)
    assert curve[0] > min(curve)


def test_callbacks_see_the_progress_and_stop_the_training() -> None:
    seen: list[Progress] = []

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return progress.iteration == 5

    ranker = quick().fit(TRAIN, eval_set=VALID, callbacks=[stop, lambda progress: "not True"])
    assert [one.iteration for one in seen] == [one.done for one in seen] == [1, 2, 3, 4, 5]
    assert {one.n_estimators for one in seen} == {12}
    assert seen[-1].history[0]["ndcg@10"] == ranker.evals_result_["valid_0"]["ndcg@10"]
    assert 0 < seen[0].times["gradients"] < seen[-1].times["gradients"]
    loop = ("gradients", "trees", "leaves", "evaluation")
    assert sum(seen[-1].times[phase] for phase in loop) < seen[-1].seconds
    assert seen[-1].times == ranker.times_
    assert np.array_equal(ranker.predict(VALID), quick(n_estimators=5).fit(TRAIN).predict(VALID))


@pytest.mark.parametrize("changes", [{}, LANGEVIN, {"leaf_values": "full"}], ids=str)
def test_trees_are_added_to_an_earlier_model(changes: dict[str, Any]) -> None:
    first = quick(objective="lambdamart", n_estimators=7).fit(TRAIN)
    second = quick(n_estimators=13, **changes).fit(TRAIN, init_model=first, eval_set=[VALID])
    assert second.forest_.n_trees == 20
    shrunk = (1 - 2.0 * 0.1) ** 13 if "langevin" in changes else 1.0
    before = next(second.staged_predict(VALID, every=7))
    np.testing.assert_allclose(before, shrunk * first.predict(VALID), rtol=1e-12)
    assert second.evals_result_["valid_0"]["ndcg@10"][-1] == second.score(VALID)
    assert first.forest_.n_trees == 7


def test_adding_trees_equals_training_at_once_where_nothing_is_random() -> None:
    parts = quick(objective="lambdamart", n_estimators=5, **WHOLE)
    twice = quick(objective="lambdamart", n_estimators=4, **WHOLE).fit(
        TRAIN, init_model=parts.fit(TRAIN)
    )
    at_once = quick(objective="lambdamart", n_estimators=9, **WHOLE).fit(TRAIN)
    assert np.array_equal(twice.predict(VALID), at_once.predict(VALID))


def test_early_stopping_keeps_the_trees_of_the_earlier_model() -> None:
    first = quick(n_estimators=7).fit(TRAIN)
    second = quick(
        n_estimators=100, learning_rate=0.5, early_stopping_rounds=3, stopping_rule="best"
    )
    second.fit(TRAIN, init_model=first, eval_set=[VALID])
    assert second.forest_.n_trees == second.n_estimators_ == 7 + len(second.learning_rates_)
    assert second.score(VALID) == max(second.evals_result_["valid_0"]["ndcg@10"])


X, Y, QID = rows()


@pytest.mark.parametrize("objective", ["lambdamart", "yetirank", "stochasticrank"])
@pytest.mark.parametrize(
    "changes",
    [
        {**WHOLE},
        {},
        {"leaf_values": "full"},
        {"langevin": True},
        {"langevin": {"leaf_noise": "independent"}},
        {"subsample_queries": 0.01},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "why", ["constant features", "leaves larger than the data", "equal labels"]
)
def test_training_without_a_split_gives_zeros_and_ends(
    objective: str, changes: dict[str, Any], why: str
) -> None:
    if objective == "stochasticrank" and "leaf_values" in changes:
        changes = WHOLE
    constant = why == "constant features"
    ranker = quick(
        objective=objective,
        n_estimators=25,
        min_child_samples=100 if why.startswith("leaves") else 5,
        **changes,
    )
    features = np.ones_like(X) if constant else X
    labels = np.ones_like(Y) if why == "equal labels" else Y
    ranker.fit(features, labels, qid=QID, eval_set=[(X, Y, QID)])
    scores = ranker.predict(X)
    assert not scores.any() if constant or why.startswith("leaves") else np.isfinite(scores).all()
    nothing_random = objective == "lambdamart" and changes == WHOLE
    once = constant or why.startswith("leaves") or nothing_random
    assert len(ranker.evals_result_["valid_0"]["ndcg@10"]) == (1 if once else 25)
    assert ranker.predict(X, contributions=True).shape == (60, 5)
    assert np.all(np.isfinite(ranker.feature_importances_))


def test_noise_on_queries_that_teach_nothing_does_not_blow_up() -> None:
    labels = np.where(QID < 3, 1.0, Y)
    changes: dict[str, Any] = {"reg_lambda": 0.0, "subsample_queries": 0.5, "n_estimators": 30}
    for noise in ("shared", "independent"):
        scores = quick(langevin={"leaf_noise": noise}, **changes).fit(X, labels, qid=QID).predict(X)
        assert np.abs(scores).max() < 1e3


def test_an_error_in_a_callback_is_not_swallowed_and_leaves_no_half_fitted_model() -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError("mine")

    ranker = quick()
    with pytest.raises(RuntimeError, match="mine"):
        ranker.fit(TRAIN, callbacks=[fail])
    with pytest.raises(ValueError, match="not fitted"):
        ranker.predict(VALID)


def test_an_evaluation_set_without_relevant_documents() -> None:
    empty = RankingData(VALID.X, np.zeros(VALID.n_rows), qid=VALID.qid, reference=TRAIN)
    with pytest.warns(UserWarning, match="no query has a relevant document") as caught:
        ranker = quick(metric="ndcg@10").fit(TRAIN, eval_set=[empty])
    assert len(caught) == 1
    assert np.isnan(ranker.evals_result_["valid_0"]["ndcg@10"]).all()
    with (
        pytest.warns(UserWarning, match="no query has a relevant document"),
        pytest.raises(ValueError, match=r"early_stopping_rounds watches ndcg@10 on eval_set\[0\]"),
    ):
        quick(early_stopping_rounds=3).fit(TRAIN, eval_set=[empty])


@pytest.mark.parametrize(
    "changes", [{}, {"leaf_values": "full"}, {"langevin": {"shrink_rate": 1.0}}]
)
def test_the_training_data_among_the_evaluation_sets_is_not_held_twice(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    plain = Grower.__init__

    def counting(self: Grower, growth: Growth) -> None:
        held.append(len(growth.parts))
        plain(self, growth)

    monkeypatch.setattr(Grower, "__init__", counting)
    again = RankingData(TRAIN.X, TRAIN.y, qid=TRAIN.qid, feature_names=TRAIN.feature_names)
    one = quick(**changes).fit(TRAIN, eval_set=[VALID, TRAIN])
    other = quick(**changes).fit(TRAIN, eval_set=[VALID, again])
    first = quick(**changes).fit(TRAIN, eval_set=[TRAIN, VALID])
    assert held == [2, 3, 2]
    assert one.evals_result_ == other.evals_result_
    assert first.evals_result_ == {
        "valid_0": one.evals_result_["valid_1"],
        "valid_1": one.evals_result_["valid_0"],
    }
    assert one.evals_result_["valid_1"]["ndcg@10"][-1] == one.score(TRAIN) != one.score(VALID)


def test_times_of_the_phases() -> None:
    plain = quick(leaf_values="diagonal").fit(TRAIN)
    assert list(plain.times_) == [
        "preparation",
        "compilation",
        "gradients",
        "trees",
        "leaves",
        "evaluation",
    ]
    assert plain.times_["gradients"] > 0 < plain.times_["trees"]
    assert plain.times_["leaves"] == 0
    assert quick(leaf_values="full").fit(TRAIN).times_["leaves"] > 0
    assert plain.manifest_["times"] == plain.times_
