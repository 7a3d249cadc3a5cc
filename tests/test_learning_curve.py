"""Learning curves: the splits, the means and intervals by loops, and the picture."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest

import rankwright as rw
from rankwright.evaluation.significance import bootstrap_interval
from test_systems import hybrid

DATA = hybrid(20)


class Spy:
    """A system that notes the queries that it is trained and tested on, and is better with more of them."""

    def __init__(self, seen: list[tuple[set[str], set[str]]]) -> None:
        self.seen = seen

    def fit(self, X: rw.RankingData) -> Self:
        self.trained = set(X.query_ids.tolist())
        return self

    def predict(self, X: rw.RankingData) -> Any:
        self.seen.append((self.trained, set(X.query_ids.tolist())))
        noise = np.random.default_rng(0).normal(size=X.n_rows)
        return X.y + 10 / len(self.trained) * noise


def test_training_queries_grow_and_test_queries_are_others() -> None:
    seen: list[tuple[set[str], set[str]]] = []
    spy = Spy(seen)
    curve = rw.learning_curve(spy, DATA, [4, 8, 12], repeats=3, test_queries=5)
    assert not hasattr(spy, "trained")  # the given system is not changed
    assert [(len(train), len(test)) for train, test in seen] == [(4, 5), (8, 5), (12, 5)] * 3
    for repeat in range(3):
        (small, test), (middle, _), (large, _) = seen[3 * repeat : 3 * repeat + 3]
        assert small < middle < large
        assert not large & test
    assert len({frozenset(test) for _, test in seen}) == 3
    assert [point.n_queries for point in curve.points] == [4, 8, 12]
    assert curve.points[0].system == "Spy"
    again: list[tuple[set[str], set[str]]] = []
    assert rw.learning_curve(Spy(again), DATA, [4, 8, 12], repeats=3, test_queries=5) == curve
    assert again == seen


def test_means_and_intervals_by_loops() -> None:
    systems = {"bm25": rw.column("bm25"), "fused": rw.rrf("bm25", "dense")}
    curve = rw.learning_curve(
        systems, DATA, [5, 14], repeats=4, metrics="ndcg@5 map", random_state=3
    )
    assert len(curve.points) == 2 * 2 * 2
    for metric in ("ndcg@5", "map"):
        whole = {
            name: rw.evaluate(system.predict(DATA), DATA.y, qid=DATA.qid, metrics=metric)
            for name, system in systems.items()
        }
        tested = np.zeros(DATA.n_queries, dtype=bool)
        for repeat in range(4):
            tested[np.random.default_rng([3, repeat]).permutation(20)[:6]] = True
        # These systems learn nothing, so a query has the same value in each repetition.
        values = {name: result.per_query[metric][tested] for name, result in whole.items()}
        values = {name: x[~np.isnan(x)] for name, x in values.items()}
        difference = values["fused"] - values["bm25"]
        for point in curve.points:
            if (point.metric, point.system) == (metric, "fused"):
                assert point.mean == pytest.approx(values["fused"].mean())
                assert point.difference == pytest.approx(difference.mean())
                interval = bootstrap_interval(difference, None, 10_000, 0.95, (3, 0))
                assert (point.difference_low, point.difference_high) == pytest.approx(interval)


def test_it_prints_and_is_drawn() -> None:
    systems = [rw.column("bm25"), rw.linear("bm25", "dense")]
    curve = rw.learning_curve(systems, DATA, repeats=2, metrics="ndcg@10 map")
    text = str(curve)
    assert "Means over 2 random splits with 4 test queries each" in text
    assert "linear:bm25,dense" in text
    frame = curve.to_dataframe("polars")
    assert sorted(set(frame["n_queries"].to_list())) == [1, 2, 4, 8, 16]
    spec = rw.plot_learning_curve(curve, "map").to_dict()
    rows = spec["data"]["values"]
    expected = [point.mean for point in curve.points if point.metric == "map"]
    assert [row["mean"] for row in rows] == expected
    with pytest.raises(ValueError, match="no values of 'err'"):
        rw.plot_learning_curve(curve, "err")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": np.eye(3)}, "data must be RankingData"),
        ({"systems": []}, "systems must be at least one"),
        ({"systems": [object()]}, "must have fit and predict"),
        ({"queries": [20]}, "must be numbers below 20"),
        ({"queries": []}, "must be numbers below 20"),
        ({"queries": [0, 5]}, "queries must be a whole number from 1"),
        ({"queries": [15], "test_queries": 6}, "test_queries must be a whole number from 1 to 5"),
        ({"repeats": 0}, "repeats must be"),
        ({"confidence": 1}, "confidence must be between 0 and 1"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    arguments = {"systems": rw.column("bm25"), "data": DATA} | options
    with pytest.raises(ValueError, match=message):
        rw.learning_curve(**arguments)


def test_labels_without_a_relevant_document() -> None:
    data = rw.RankingData(np.eye(6), np.zeros(6), qid=range(6))
    with (
        pytest.raises(ValueError, match="no test query has a relevant document"),
        pytest.warns(UserWarning, match="no query has a relevant document"),
    ):
        rw.learning_curve(rw.column("f0"), data, [3])
