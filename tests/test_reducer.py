"""Several machines, each with some of the queries, agree on what one machine with all of them finds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from rankwright import RankingData, make_web_search
from rankwright.evaluation.per_query import Evaluator
from rankwright.objectives import bind
from rankwright.support.reducer import ALONE, EXACT_ALONE, rounding
from rankwright.training.defaults import for_data
from rankwright.training.loop import Boosting, to_grid
from rankwright.training.plan import read_plan
from small import quick

WHOLE = make_web_search(60, kind="short", n_features=20, random_state=4)
HALVES = [WHOLE.subset(np.arange(60) % 3 == 0), WHOLE.subset(np.arange(60) % 3 != 0)]


class Machine:
    """One of several machines that run in threads; each call waits for the others."""

    def __init__(
        self, number: int, shared: list[Any], barrier: threading.Barrier, exact: bool
    ) -> None:
        self.exact = exact
        self._number, self._shared, self._barrier = number, shared, barrier

    def _combined(self, values: Any, combine: Callable[[Any], Any]) -> Any:
        self._shared[self._number] = np.array(values, dtype=np.float64)
        self._barrier.wait(timeout=60)
        result = combine(np.array(self._shared))
        self._barrier.wait(timeout=60)
        return result

    def sum(self, values: Any) -> Any:
        return self._combined(values, lambda all_values: all_values.sum(axis=0))

    def max(self, values: Any) -> Any:
        return self._combined(values, lambda all_values: all_values.max(axis=0))

    def first(self, values: Any) -> Any:
        return self._combined(values, lambda all_values: all_values[0])


def on_both(run: Callable[[RankingData, Machine], Any], exact: bool = False) -> list[Any]:
    """Run a function on two machines at once."""
    shared: list[Any] = [None, None]
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(run, HALVES, [Machine(number, shared, barrier, exact) for number in (0, 1)])
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_means_of_metrics_are_those_of_all_queries(weighted: bool) -> None:
    def means(data: RankingData, machine: Any) -> dict[str, float]:
        weights = data.query_ids.astype(float) + 1 if weighted else None
        evaluator = Evaluator(
            data.y,
            group=data.group,
            metrics=["ndcg@5", "mrr", "map"],
            weights=weights,
            reducer=machine,
        )
        return evaluator(data.X[:, 0]).mean

    expected = means(WHOLE, ALONE)
    for seen in on_both(means):
        assert seen == pytest.approx(expected, rel=1e-14)
    assert means(HALVES[0], ALONE) != pytest.approx(expected, rel=1e-3)


def test_the_grid_is_that_of_the_largest_gradient_anywhere() -> None:
    values = {id(HALVES[0]): np.array([0.3, -0.1]), id(HALVES[1]): np.array([1e6, 0.7])}
    rounded = on_both(lambda data, machine: to_grid(values[id(data)], 4, machine))
    expected = to_grid(np.array([0.3, -0.1, 1e6, 0.7]), 4, ALONE)
    assert np.concatenate(rounded).tolist() == expected.tolist()
    assert to_grid(values[id(HALVES[0])], 4, ALONE).tolist() != expected[:2].tolist()


@pytest.mark.parametrize("objective", ["auto", "stochasticrank"])
def test_settings_are_chosen_from_the_counts_of_all(objective: str) -> None:
    def chosen(data: RankingData, machine: Any) -> Any:
        plan = read_plan(quick(objective=objective, learning_rate=None).get_params())
        plan = for_data(plan, data, machine)
        return str(plan.objective), asdict(plan.tree_options), plan.bagging_temperature

    expected = chosen(WHOLE, ALONE)
    for seen in on_both(chosen):
        assert seen[0] == expected[0]
        assert seen[1] == pytest.approx(expected[1], rel=1e-12)
        assert seen[2] == expected[2]


SETTINGS: dict[str, dict[str, Any]] = {
    "full": {"leaf_values": "full"},
    "steered": {"leaf_values": "full", "learning_rate": None},
    "sampled": {"leaf_values": "full", "subsample_queries": 0.5},
    "noise": {"leaf_values": "full", "langevin": {"temperature": 10.0}},
    "diagonal with noise": {"langevin": {"leaf_noise": "independent", "temperature": 10.0}},
}


def leaf_values(name: str, data: RankingData, machine: Any) -> Any:
    ranker = quick(objective="lambdamart", engine="xgboost", **SETTINGS[name])
    plan = for_data(read_plan(ranker.get_params()), data, machine)
    boosting = Boosting(plan, data, [], machine)
    point = boosting.gradient.at(data.X[:, 1], 3, leaves=plan.full_leaves)
    leaf = (data.X[:, 0] > np.median(WHOLE.X[:, 0])) + 2 * (data.X[:, 1] > np.median(WHOLE.X[:, 1]))
    return boosting._leaf_values(3, point, leaf.astype(np.int64), 4, boosting.draws.subsample(3))


@pytest.mark.parametrize("name", SETTINGS)
def test_leaf_values_are_those_of_all_queries(name: str) -> None:
    expected, agreement = leaf_values(name, WHOLE, ALONE)
    assert (agreement is not None) == (name == "steered")
    for seen, agreed in on_both(lambda data, machine: leaf_values(name, data, machine)):
        np.testing.assert_allclose(seen, expected, rtol=1e-10)
        assert agreed == (None if agreement is None else pytest.approx(agreement, rel=1e-10))
    assert not np.allclose(leaf_values(name, HALVES[0], ALONE)[0], expected, rtol=1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_exact_sums_have_the_same_bits_on_any_number_of_machines(name: str) -> None:
    expected, agreement = leaf_values(name, WHOLE, EXACT_ALONE)
    for seen, agreed in on_both(lambda data, machine: leaf_values(name, data, machine), exact=True):
        assert seen.tolist() == expected.tolist()
        assert agreed == agreement
    near, _ = leaf_values(name, WHOLE, ALONE)
    np.testing.assert_allclose(near, expected, rtol=1e-9)


@pytest.mark.parametrize("objective", ["queryrmse", "listnet", "yetiloss", "xendcg", "lambdaloss"])
def test_leaf_systems_of_every_kernel_are_exact(objective: str) -> None:
    bound = bind(objective, WHOLE.y, group=WHOLE.group, metric="ndcg@5", random_state=1)
    leaf = np.arange(WHOLE.n_rows) % 7
    scores = WHOLE.X[:, 1]
    digits = tuple(rounding(float(np.abs(values).sum())) for values in bound(scores, 2))
    whole = bound.leaf_system(scores, leaf, 7, 2, rounding=digits)
    parts = [np.arange(60) % 4 == part for part in range(4)]
    weighted = [
        bound.leaf_system(scores, leaf, 7, 2, query_weight=part.astype(float), rounding=digits)
        for part in parts
    ]
    for number in (0, 1):
        assert np.array_equal(sum(part[number] for part in weighted), whole[number])
    plain = bound.leaf_system(scores, leaf, 7, 2)
    np.testing.assert_allclose(whole[1], plain[1], rtol=1e-9, atol=1e-12 * np.abs(plain[1]).max())
    assert not np.array_equal(whole[1], plain[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_means_have_the_same_bits(weighted: bool) -> None:
    def means(data: RankingData, machine: Any) -> Any:
        weights = 1 / (data.query_ids.astype(float) + 1) if weighted else None
        metrics = ["ndcg@5", "mrr", "map"]
        return Evaluator(
            data.y, group=data.group, metrics=metrics, weights=weights, reducer=machine
        )(data.X[:, 0]).mean

    expected = means(WHOLE, EXACT_ALONE)
    assert on_both(means, exact=True) == [expected, expected]
    assert expected == pytest.approx(means(WHOLE, ALONE), rel=1e-12)


def test_lightgbm_trains_on_one_machine() -> None:
    plan = for_data(read_plan(quick().get_params()), WHOLE)
    with pytest.raises(
        ValueError, match="engine='lightgbm' trains on one machine; use engine='xgboost'"
    ):
        Boosting(plan, WHOLE, [], EXACT_ALONE)
