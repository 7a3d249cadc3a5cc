"""The gap between training and test data, and queries that change between models."""

import math

import numpy as np
import pytest

import rankwright as rw
from rankwright.evaluation.changes import generalisation_gap, query_changes
from small import TRAIN, VALID, quick


@pytest.fixture(scope="module")
def ranker():
    return quick(metric=["ndcg@5", "map"]).fit(TRAIN)


def test_gap_is_the_difference_of_means_at_each_stage(ranker):
    curve = generalisation_gap(ranker, TRAIN, VALID, every=5)
    assert [(point.trees, point.metric) for point in curve.points] == [
        (trees, metric) for trees in (5, 10, 12) for metric in ("ndcg@5", "map")
    ]
    for point in curve.points:
        seen, unseen = (
            rw.evaluate(
                ranker.forest_.predict(data.X, stop=point.trees),
                data.y,
                qid=data.qid,
                metrics=[point.metric],
            )
            for data in (TRAIN, VALID)
        )
        assert point.train == pytest.approx(seen.mean[point.metric])
        assert point.test == pytest.approx(unseen.mean[point.metric])
        assert point.gap == point.train - point.test
        values = [one.per_query[point.metric] for one in (seen, unseen)]
        variance = sum(v[~np.isnan(v)].var(ddof=1) / np.count_nonzero(~np.isnan(v)) for v in values)
        assert point.high - point.gap == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-5)
        assert point.gap - point.low == pytest.approx(point.high - point.gap)
    assert curve.to_dataframe().shape == (6, 7)


def test_weights_of_queries_count_in_the_gap(ranker):
    """Weights 1 and 0: the same as leaving the queries out."""
    in_half = np.arange(VALID.n_queries) % 2
    weighted = rw.RankingData(
        VALID.X, VALID.y, qid=VALID.qid, sample_weight=in_half, feature_names=VALID.feature_names
    )
    half = VALID.subset(np.flatnonzero(in_half))
    a, b = (
        generalisation_gap(ranker, TRAIN, data, every=12, metrics="map").points[0]
        for data in (weighted, half)
    )
    assert (a.gap, a.low) == pytest.approx((b.gap, b.low))


def test_changes():
    labels, qid = np.tile([1, 0], 6), np.repeat(np.arange(6), 2)
    first = np.tile([1.0, 0.0], 6)
    second = first.copy()
    second[:2], second[6:8] = [0, 1], [0, 1]
    a, b = (rw.evaluate(z, labels, qid=qid, metrics=["ndcg", "mrr"]) for z in (first, second))
    changes = query_changes(a, b, metric="mrr", names=("old", "new"))
    assert (changes.up.count, changes.same.count, changes.down.count) == (0, 4, 2)
    assert changes.change.tolist() == [-0.5, 0, 0, -0.5, 0, 0]
    assert [row["query"] for row in changes.most()] == [0, 3]
    assert [row["query"] for row in changes.most(1)] == [0]
    assert changes.overall.difference == pytest.approx(-1 / 6)
    # Wilson's interval for 2 of 6.
    z, n, p = 1.959964, 6, 2 / 6
    middle, half = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)),
    )
    assert (changes.down.low, changes.down.high) == pytest.approx(
        (middle - half, middle + half), rel=1e-5
    )
    assert changes.to_dataframe()["change"].tolist() == changes.change.tolist()
    assert query_changes(a, b).metric == "ndcg"


def test_changes_find_queries_in_any_order_and_leave_out_what_was_skipped():
    labels, scores = np.array([1, 0, 0, 0, 0, 1]), np.array([1.0, 0, 1, 0, 1, 0])
    a = rw.evaluate(scores, labels, qid=["a", "a", "b", "b", "c", "c"], metrics=["mrr"])
    b = rw.evaluate(scores[::-1], labels[::-1], qid=["c", "c", "b", "b", "a", "a"], metrics=["mrr"])
    changes = query_changes(a, b)
    assert changes.query_ids.tolist() == ["a", "c"]
    assert changes.change.tolist() == [0, 0]
    assert changes.most() == []


def test_queries_of_weight_zero_do_not_change():
    labels, qid = np.tile([1, 0], 3), np.repeat([1, 2, 3], 2)
    weights = [1.0, 0.0, 2.0]
    a, b = (
        rw.evaluate(z, labels, qid=qid, metrics=["mrr"], sample_weight=weights)
        for z in (np.tile([0, 1], 3), labels)
    )
    changes = query_changes(a, b)
    assert changes.query_ids.tolist() == [1, 3]
    assert (changes.up.count, changes.up.share, changes.overall.difference) == (2, 1.0, 0.5)


def test_invalid_arguments(ranker):
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        generalisation_gap(ranker, TRAIN, VALID, confidence=95)
    one = VALID.subset([0])
    with pytest.raises(ValueError, match="fewer than 2 queries have a value"):
        generalisation_gap(ranker, TRAIN, one, every=12)
