"""Small data and quick settings, shared by the tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright import Ranker, make_web_search

_TRAIN, VALID = make_web_search(40, kind="short", n_features=25, random_state=3).split(0.3)
TRAIN = (
    _TRAIN.canonical()
)  # as training sees the rows: tests that simulate a training have them in the same order
QUICK: dict[str, Any] = {
    "n_estimators": 12,
    "min_child_samples": 5,
    "learning_rate": 0.1,
    "n_jobs": 1,
    "verbose": 0,
}
WHOLE: dict[str, Any] = {"subsample": 1.0, "colsample": 1.0}  # no sampling


def quick(**changes: Any) -> Ranker:
    return Ranker(**{**QUICK, **changes})


def rows(n: int = 60, columns: int = 4, queries: int = 6, seed: int = 0) -> tuple[Any, Any, Any]:
    """Random features, labels that follow the first feature, and query ids in no order."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, columns))
    y = np.clip(np.round(X[:, 0] + draw.normal(scale=0.3, size=n) + 1), 0, 3)
    return X, y, draw.permutation(np.arange(n) % queries)
