"""Scores of training queries by models that were not trained on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Folds

Floats = NDArray[np.float64]


class HeldOut(NamedTuple):
    """Rows with scores of a model that was not trained on them."""

    scores: Floats
    labels: Floats
    weights: Floats | None
    n_queries: int


def held_out(ranker: Any, data: RankingData) -> HeldOut:
    """Score data that the ranker was not trained on, and return the rows that have a label."""
    scores, judged = ranker.predict(data), data.only_judged()
    return HeldOut(scores[data.judged], judged.y, judged.weights, judged.n_queries)


def cross_fitted(ranker: Any, data: RankingData, folds: Folds) -> HeldOut:
    """Score each fold of queries by a model of the other folds.

    The models have the parameters of a fitted ranker and as many trees as its training. So scores
    are on its scale, and no evaluation set has to be watched.
    """
    if folds.number > data.n_queries:
        raise ValueError(
            f"there are {data.n_queries} queries for {folds.number} folds; give more data, or fewer folds."
        )
    manifest = ranker.manifest_
    if manifest["initial_trees"]:
        raise ValueError(
            "the trees of init_model may have seen every query, so cross-fitting would not be "
            "honest; calibrate on held-out queries instead of with folds."
        )
    # Each model grows as many trees as the fitted ranker, because there is no evaluation set that
    # could end its training.
    changes = {
        # With several members these are the rates of the first, and each has about as many trees.
        "n_estimators": len(ranker.learning_rates_),
        "early_stopping_rounds": None,
        "early_stopping": "valid",
        "folds": None,
        "refit": False,
        "members": 1,
        "checkpoint": None,
        "random_state": manifest["seed"],
    }
    parameters = {**ranker.get_params(deep=False), **changes}
    parts = []
    for train, test in folds.parts(data, manifest["seed"]):
        other = type(ranker)(**parameters).fit(train, base_score=ranker.model_.base_score)
        parts.append(held_out(other, test))
    # The rows are in the order of the folds, which is the same for scores, labels and weights.
    scores = np.concatenate([part.scores for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    weights = None
    if data.weights is not None:
        weights = np.concatenate([part.weights for part in parts])
    n_queries = sum(part.n_queries for part in parts)
    return HeldOut(scores, labels, weights, n_queries)
