"""Clicks as in XGBoost's demonstration of unbiased LambdaRank: position-based users on graded labels."""

from __future__ import annotations

from typing import Any

import numpy as np

import rankwright as rw

# How likely users look at a position, and click on a document of a label that they look at.
EXAMINATION = np.array([0.68, 0.61, 0.48, 0.34, 0.28, 0.20, 0.11, 0.10, 0.08, 0.06])
CLICK = np.array([0.1, 0.16, 0.28, 0.52, 1.0])
IMPRESSIONS = 30
CALL: dict[str, Any] = {"metric": "ndcg@12", "n_estimators": 40, "n_jobs": 1, "verbose": 0}


def world(first: int, n: int) -> rw.RankingData:
    return rw.make_web_search(
        n, kind="short", mean_length=12, n_features=20, first_query=first, random_state=0
    )


def lists(train: rw.RankingData, scores: Any) -> dict[str, Any]:
    """Show each query several times, in the order of some scores with exploration."""
    draw = np.random.default_rng(0)
    clicks, positions = [], []
    for _ in range(IMPRESSIONS):
        noisy = scores + scores.std() * draw.gumbel(size=train.n_rows)
        order = np.lexsort((-noisy, train.queries.query_of_row))
        position = np.empty(train.n_rows, dtype=np.int64)
        starts = np.repeat(train.boundaries[:-1], train.group)
        position[order] = 1 + np.arange(train.n_rows) - starts
        looked = EXAMINATION[np.minimum(position, len(EXAMINATION)) - 1]
        clicks.append(draw.random(train.n_rows) < looked * CLICK[train.y.astype(int)])
        positions.append(position)
    return {
        "X": np.tile(train.X, (IMPRESSIONS, 1)),
        "y": np.concatenate(clicks).astype(float),
        "group": np.tile(train.group, IMPRESSIONS),
        "position": np.concatenate(positions),
    }


def test_the_curve_of_the_users_is_found() -> None:
    train = world(0, 200)
    weak = rw.Ranker("lambdamart", n_estimators=10, n_jobs=1, verbose=0).fit(world(10**6, 20))
    # The call of docs/migrating.md.
    ranker = rw.Ranker("lambdamart(truncation=12, normalize=True)", **CALL)
    ranker.fit(**lists(train, weak.predict(train)))
    curve = [ranker.examination_["position"][place] for place in range(1, 11)]
    np.testing.assert_allclose(curve, EXAMINATION / EXAMINATION[0], atol=0.05)
    # Without positions there is nothing to be found, and clicks are taken for labels.
    assert not rw.Ranker(**CALL).fit(train).examination_
