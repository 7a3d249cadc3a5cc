"""Symmetric trees: each level's split against all possible splits, and the same leaves from bins and from values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright.engines import load_engine
from rankwright.engines.contract import Growth, Needs
from rankwright_lab.symmetric import ENGINE

OPTIONS = {
    "num_leaves": 8,
    "max_depth": -1,
    "min_child_samples": 1,
    "reg_lambda": 0.5,
    "subsample": 1.0,
    "colsample": 1.0,
    "max_bin": 255,
}


def small_data() -> RankingData:
    random = np.random.default_rng(4)
    X = random.integers(0, 4, size=(40, 3)).astype(float)
    X[random.random(X.shape) < 0.1] = np.nan
    return RankingData(X, random.integers(0, 3, 40), group=[20, 20])


def score(g: np.ndarray, h: np.ndarray, leaf: np.ndarray, ridge: float) -> float:
    """Sum of G^2 / (H + ridge) over the leaves, by the definition."""
    return sum(g[leaf == a].sum() ** 2 / (h[leaf == a].sum() + ridge) for a in np.unique(leaf))


def test_each_level_has_the_best_split_of_all() -> None:
    data = small_data()
    random = np.random.default_rng(0)
    g = random.normal(size=40).astype(np.float32)
    h = random.uniform(0.1, 1, size=40).astype(np.float32)
    grower = ENGINE.grower(Growth([data], OPTIONS, {}, seed=0, threads=1))
    tree = grower.grow(g, h)
    assert tree is not None
    (arrays,) = grower.forest().trees()
    assert len(arrays.feature) == 7
    leaf = np.zeros(40, dtype=int)
    for level in range(3):
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        assert len(set(arrays.feature[nodes])) == len(set(arrays.threshold[nodes])) == 1
        best = max(
            score(g, h, 2 * leaf + ~(np.isnan(data.X[:, column]) | (data.X[:, column] <= at)), 0.5)
            for column, at in itertools.product(range(3), (-np.inf, 0, 1, 2))
        )
        column, at = arrays.feature[nodes.start], arrays.threshold[nodes.start]
        leaf = 2 * leaf + ~(np.isnan(data.X[:, column]) | (data.X[:, column] <= at))
        assert score(g, h, leaf, 0.5) == pytest.approx(best, rel=1e-6)
    np.testing.assert_array_equal(tree.leaves(0), leaf)
    steps = [-g[leaf == a].sum() / (h[leaf == a].sum() + 0.5) for a in range(8)]
    np.testing.assert_allclose(tree.values, steps, rtol=1e-5)
    tree.set(np.arange(8.0))
    np.testing.assert_array_equal(grower.forest().predict(data.X), leaf)


def test_a_ranker_trains_with_it() -> None:
    data = make_web_search(40, n_features=20, mean_length=15)
    params = {"engine": "symmetric", "num_leaves": 16, "min_child_samples": 1, "verbose": 0}
    ranker = Ranker("lambdamart", "ndcg@5", n_estimators=20, subsample=0.7, **params).fit(data)
    *_, last = ranker.staged_predict(data, every=5)
    np.testing.assert_allclose(last, ranker.predict(data), rtol=1e-9)
    scores = {"trained": last, "none": np.zeros(data.n_rows)}
    values = {
        name: evaluate(z, data.y, qid=data.qid, metrics="ndcg@5").mean["ndcg@5"]
        for name, z in scores.items()
    }
    assert values["trained"] > values["none"] + 0.3


def test_options_that_it_does_not_have_are_errors() -> None:
    assert load_engine("symmetric") is ENGINE
    assert ENGINE.check({"depth": 3}, Needs()) == [
        "engine='symmetric' has no parameter 'depth'; leave it out."
    ]
    with pytest.raises(ValueError, match="limits neither rows of leaves nor depth"):
        ENGINE.grower(Growth([small_data()], OPTIONS | {"max_depth": 3}, {}, seed=0, threads=1))
