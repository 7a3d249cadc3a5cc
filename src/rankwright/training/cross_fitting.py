"""Scores of training queries by models that have not seen them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData

Floats = NDArray[np.float64]


class HeldOut(NamedTuple):
    """Rows with scores of a model that was not trained on them."""

    scores: Floats
    labels: Floats
    weights: Floats | None
    n_queries: int


def held_out(ranker: Any, data: RankingData) -> HeldOut:
    """Score data that the ranker was not trained on."""
    return HeldOut(ranker.predict(data), data.y, data.weights, data.n_queries)


def cross_fitted(ranker: Any, data: RankingData, folds: int) -> HeldOut:
    """Score each fold of queries by a model of the other folds, with the parameters and the trees of a fitted ranker.

    The number of trees is that of the ranker's training, so that scores are on its scale and nothing has to be watched.
    """
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise ValueError(
            f"folds must be a whole number from 2, or None for held-out data; got {folds!r}."
        )
    if folds > data.n_queries:
        raise ValueError(
            f"there are {data.n_queries} queries for {folds} folds; give more data, or fewer folds."
        )
    manifest = ranker.manifest_
    if manifest["initial_trees"]:
        raise ValueError(
            "the trees of init_model may have seen every query, so cross-fitting would not be honest; calibrate on "
            "held-out queries instead of with folds."
        )
    # With several members the first one's rates are recorded, and each has about as many trees.
    changes = {
        "n_estimators": len(ranker.learning_rates_),
        "early_stopping_rounds": None,
        "early_stopping": "valid",
        "refit": False,
        "members": 1,
        "checkpoint": None,
        "random_state": manifest["seed"],
    }
    parameters = {**ranker.get_params(deep=False), **changes}
    parts = [
        held_out(type(ranker)(**parameters).fit(train), test)
        for train, test in data.kfold(int(folds), seed=manifest["seed"])
    ]
    weights = None if data.weights is None else np.concatenate([part.weights for part in parts])
    scores, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return HeldOut(scores, labels, weights, data.n_queries)
