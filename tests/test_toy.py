"""Table 1 of the StochasticRank paper: five documents on which greedy training cannot leave a local optimum."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from rankwright import Ranker

X = np.eye(3)[[0, 1, 2, 2, 0]]
Y = [3, 2, 1, 3, 2]
QID = [1, 1, 1, 2, 2]


def dcg(*labels: int) -> float:
    return sum((2**label - 1) / math.log2(place + 2) for place, label in enumerate(labels))


def mean_ndcg(scores: tuple[int, ...]) -> float:
    """NDCG@3 of both queries if the three features have these scores."""
    first = dcg(*(label for _, label in sorted(zip(scores, (3, 2, 1), strict=True), reverse=True)))
    second = dcg(*(label for _, label in sorted(((scores[2], 3), (scores[0], 2)), reverse=True)))
    return (first / dcg(3, 2, 1) + second / dcg(3, 2)) / 2


REACHABLE = sorted(
    (mean_ndcg(scores) for scores in itertools.permutations((0, 1, 2))), reverse=True
)


def reached(objective: str, seed: int = 0, **changes: Any) -> float:
    ranker = Ranker(
        objective,
        metric="ndcg@3",
        n_estimators=1000,
        learning_rate=0.1,
        max_depth=3,
        num_leaves=8,
        min_child_samples=1,
        reg_lambda=0,
        subsample=1,
        colsample=1,
        random_state=seed,
        n_jobs=1,
        verbose=0,
        **{"engine_params": {"min_data_in_bin": 1}, **changes},
    )
    return ranker.fit(X, Y, qid=QID).score(X, Y, QID)


def test_the_two_best_values_are_those_of_the_paper() -> None:
    assert [round(value, 3) for value in REACHABLE[:2]] == [0.917, 0.903]


def test_stochasticrank_with_langevin_boosting_finds_the_global_optimum() -> None:
    langevin = {"langevin": {"temperature": 1e3, "shrink_rate": 1e-3}}
    found = [reached("stochasticrank", seed, **langevin) for seed in range(10)]
    assert sum(value == pytest.approx(REACHABLE[0]) for value in found) >= 9, found


@pytest.mark.slow
def test_another_engine_finds_it_too() -> None:
    langevin = {"langevin": {"temperature": 1e3, "shrink_rate": 1e-3}}
    assert reached(
        "stochasticrank", engine="xgboost", engine_params={}, **langevin
    ) == pytest.approx(REACHABLE[0])


def test_lambdamart_stays_in_a_local_optimum() -> None:
    assert reached("lambdamart") == pytest.approx(REACHABLE[1])
