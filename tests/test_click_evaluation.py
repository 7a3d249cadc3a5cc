"""Evaluation from clicks: values worked by hand, exact expectations over all clicks, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import rankwright as rw
from rankwright.clicks.offline import place_weights
from rankwright.metrics import known_metrics

DATA = rw.RankingData(
    [[1.0], [2.0], [3.0], [4.0], [5.0]],
    [0] * 5,
    qid=list("aaabb"),
    fields={"document": ["x", "y", "z", "v", "w"]},
)
SHOWN = [
    ("a", 1, "x", 1),
    ("a", 1, "y", 2),
    ("a", 2, "y", 1),
    ("a", 2, "x", 2),
    ("b", 3, "v", 1),
    ("b", 3, "w", 2),
]
NEW = np.array([1.0, 3.0, 2.0, 1.0, 2.0])  # a: y, z, x; b: w, v
W = 1 / np.log2(1 + np.arange(1, 4))


def log_with(clicks, data=DATA):
    query, session, document, position = zip(*SHOWN, strict=True)
    columns = {
        "query": query,
        "session": session,
        "document": document,
        "position": position,
        "click": clicks,
    }
    return rw.read_clicks(columns, data)


def values(result):
    return {row.estimator: row.value for row in result.rows}


def test_estimates_worked_by_hand():
    log = log_with([1, 1, 0, 1, 0, 1])  # positions 1, 2, 1, 2, 1, 2
    model = np.array([0.5, 0.5, 0.25, 0.5, 0.5])
    result = rw.evaluate_clicks(log, NEW, [1.0, 0.5], metrics="dcg", relevance=model)
    # a: x has (1 + 1/0.5) / 2 and stands third; y has (1/0.5 + 0) / 2 and stands first. b: w has 1/0.5 and is first.
    a, b = W[2] * (1 / 1 + 1 / 0.5) / 2 + W[0] * (1 / 0.5) / 2, W[0] / 0.5
    found = values(result)
    assert found["ips"] == pytest.approx((2 * a + b) / 3)  # a has two impressions, b one
    relevance_a, relevance_b = 3 / 2 + 2 / 2, 1 / 0.5
    assert found["snips"] == pytest.approx((2 * a + b) / (2 * relevance_a + relevance_b))
    # Doubly robust: clicks over examinations where shown, the model for z, which is second in a and was never shown.
    dr_a = W[2] * 2 / 1.5 + W[0] * 1 / 1.5 + W[1] * 0.25
    dr_b = W[0] * 1 / 0.5 + W[1] * 0
    assert found["dr"] == pytest.approx((2 * dr_a + dr_b) / 3)
    assert result.per_query["dcg ips"].tolist() == pytest.approx([a, b])
    assert result.coverage["dcg"] == pytest.approx(
        ((W[0] + W[2]) * 2 + W[0] + W[1]) / (W.sum() * 2 + W[0] + W[1])
    )
    weights = np.array([W[2] / 1, W[0] / 0.5, W[2] / 0.5, W[0] / 0.5])
    assert result.rows[0].effective_clicks == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert result.n_clicks == 4


def test_clipping_worked_by_hand():
    log = log_with([1, 1, 0, 1, 0, 1])
    model = np.full(5, 0.5)
    found = values(
        rw.evaluate_clicks(log, NEW, [1.0, 0.5], metrics="dcg", relevance=model, clip=0.8)
    )
    a, b = W[2] * (1 + 1 / 0.8) / 2 + W[0] * (1 / 0.8) / 2, W[0] / 0.8
    assert found["ips"] == pytest.approx((2 * a + b) / 3)
    # a: the mean propensity of x and y is 0.75, below the clip; b: v has 1, w 0.5.
    dr_a = (
        W[2] * (0.5 + (2 - 1.5 * 0.5) / (2 * 0.8))
        + W[0] * (0.5 + (1 - 1.5 * 0.5) / (2 * 0.8))
        + W[1] * 0.5
    )
    dr_b = W[0] * (0.5 + (1 - 0.5 * 0.5) / 0.8) + W[1] * (0.5 + (0 - 1 * 0.5) / 1)
    assert found["dr"] == pytest.approx((2 * dr_a + dr_b) / 3)


THETA = np.array([1.0, 0.4])
GAMMA = {"x": 0.9, "y": 0.3, "z": 0.0, "v": 0.5, "w": 0.7}


def expectation(**options):
    """Mean of the estimates over all outcomes of the clicks, each with its probability."""
    total = {}
    for clicks in product((0, 1), repeat=len(SHOWN)):
        chance = 1.0
        for (_, _, document, position), click in zip(SHOWN, clicks, strict=True):
            p = THETA[position - 1] * GAMMA[document]
            chance *= p if click else 1 - p
        result = rw.evaluate_clicks(
            log_with(clicks), NEW, THETA, metrics="dcg", resamples=1, **options
        )
        for name, value in values(result).items():
            total[name] = total.get(name, 0.0) + chance * value
    return total


GAINS = np.array([GAMMA[name] for name in "xyzvw"])
TRUTH = (
    2 * (W[0] * GAINS[1] + W[1] * GAINS[2] + W[2] * GAINS[0]) + W[0] * GAINS[4] + W[1] * GAINS[3]
) / 3


def test_estimates_are_unbiased_over_all_clicks():
    model = np.array([0.2, 0.8, 0.0, 0.1, 0.9])  # right about z, which the log says nothing about
    means = expectation(estimators=["ips", "dr"], relevance=model)
    assert means["ips"] == pytest.approx(TRUTH)
    assert means["dr"] == pytest.approx(TRUTH)


def test_doubly_robust_estimates_are_unbiased_with_clipping_if_the_model_is_right():
    means = expectation(estimators=["ips", "dr"], relevance=GAINS, clip=0.9)
    assert means["dr"] == pytest.approx(TRUTH)
    assert means["ips"] < 0.9 * TRUTH


def test_self_normalised_estimates_do_not_depend_on_the_scale_of_propensities():
    log = log_with([1, 1, 0, 1, 0, 1])
    one, other = (
        values(rw.evaluate_clicks(log, NEW, c * THETA, estimators=["ips", "snips"]))
        for c in (1.0, 0.5)
    )
    assert one["snips"] == pytest.approx(other["snips"])
    assert other["ips"] == pytest.approx(2 * one["ips"])


def test_ties_share_the_mean_weight_of_their_places():
    weight = place_weights(rw.metric("dcg"), np.array([1.0, 2.0, 1.0, 0.0, 0.0]), DATA)
    np.testing.assert_allclose(
        weight, [(W[1] + W[2]) / 2, W[0], (W[1] + W[2]) / 2, *[(W[0] + W[1]) / 2] * 2]
    )


@pytest.mark.parametrize(
    "name", ["dcg@2", "dcg(gain=linear)", "rbp(p=0.5)", "precision@2", "expdcg@2"]
)
def test_full_information_gives_the_metric_itself(name):
    # Every document is shown, examined and clicked exactly if relevant: all estimators are the metric of the labels.
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 40), rng.normal(size=40)
    data = rw.RankingData(np.arange(40.0)[:, None], labels, qid=np.repeat(np.arange(8), 5))
    log = rw.simulate_clicks(data, None, exponent=0.0, noise=0.0, shown=None, impressions=2)
    result = rw.evaluate_clicks(
        log, scores, [1.0], metrics=name, estimators=["ips", "dr"], relevance=np.full(40, 0.3)
    )
    expected = rw.evaluate(scores, labels, qid=data.qid, metrics=name, empty="zero")
    for estimator in ("ips", "dr"):
        np.testing.assert_allclose(
            result.per_query[f"{name} {estimator}"], expected.per_query[name]
        )


@pytest.mark.parametrize(
    "name", ["ndcg@10", "map", "mrr", "err", "recall@3", "arp", "dcg-rr", "rbp(threshold=2)"]
)
def test_metrics_that_clicks_cannot_estimate_are_refused(name):
    with pytest.raises(ValueError, match=r"clicks cannot estimate it|as clicks need"):
        rw.evaluate_clicks(log_with([1] * 6), NEW, THETA, metrics=name)


def test_metrics_declare_whether_their_normaliser_depends_on_labels():
    bounds = np.array([0, 3, 5])
    for kind in known_metrics().values():
        if not kind.__module__.startswith("rankwright."):
            continue
        value = kind(at=2)
        gains = [np.array(g) for g in ([1.0, 1, 1, 1, 1], [0.0, 0, 1, 1, 0])]
        weight = np.zeros(5)
        weight[:2] = value.weights(2)
        first, second = (
            np.asarray(value.normalisers(weight, gain, bounds)).tolist() for gain in gains
        )
        assert (first == second) == value.fixed_normaliser, kind.__name__


def test_relevance_is_learned_from_the_other_half_of_the_queries():
    data = rw.make_web_search(60, kind="short", n_features=20, random_state=4)
    log = rw.simulate_clicks(data, data.X[:, 0], impressions=30, shown=5)
    full = rw.evaluate_clicks(log, data.y, 1 / np.arange(1, 6))
    found = values(full)
    gamma = 0.1 + 0.9 * (2**data.y - 1) / 15
    truth = place_weights(rw.metric("dcg@10"), data.y, data) @ gamma / 60
    assert abs(found["dr"] - truth) < 0.7 * abs(found["ips"] - truth)  # few documents were shown
    assert full.coverage["dcg@10"] < 0.7
    again = rw.evaluate_clicks(log, data.y, 1 / np.arange(1, 6))
    assert values(again) == found
    assert [row.low for row in again.rows] == [row.low for row in full.rows]


def test_estimates_can_be_compared_query_by_query():
    data = rw.make_web_search(40, kind="short", n_features=20, random_state=4)
    log = rw.simulate_clicks(data, None, impressions=30, shown=None)
    curve = rw.estimate_propensities(log, "swaps", limit=5, resamples=0)
    old, new = (
        rw.evaluate_clicks(log, scores, curve, estimators=["ips"])
        for scores in (data.X[:, 0], data.y)
    )
    row = rw.compare(old, new).rows[0]
    assert row.difference == pytest.approx(values(new)["ips"] - values(old)["ips"])
    assert row.p < 0.01
    assert str(new).splitlines()[0].split()[:3] == ["metric", "estimator", "value"]
    assert new.to_dict()["queries"] == 40
    assert "40 queries" in new._repr_html_()


def test_queries_that_are_not_in_the_log_do_not_count():
    more = rw.RankingData(
        np.arange(7.0)[:, None], [0] * 7, qid=list("AAaaabb"), fields={"document": list("pqxyzvw")}
    )
    clicks = [1, 1, 0, 1, 0, 1]
    a = rw.evaluate_clicks(log_with(clicks), NEW, THETA, relevance=np.full(5, 0.5))
    b = rw.evaluate_clicks(
        log_with(clicks, more), [0.0, 0.0, *NEW], THETA, relevance=np.full(7, 0.5)
    )
    assert values(a) == values(b)
    assert b.query_ids.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": ["magic"]}, "estimators must be of ips, snips, dr"),
        ({"estimators": []}, "estimators must be of ips"),
        ({"clip": 2.0}, "clip must be a number from 0 to 1; got 2.0"),
        ({"confidence": 0.0}, "confidence must be between 0 and 1"),
        ({"propensities": [1.0, 0.0]}, "the propensity of position 2 is 0"),
        ({"propensities": [1.2, 1.0]}, "the propensity of position 1 is 1.2"),
        ({"propensities": np.array([1, 1, 1, 0, 1, 1.0])}, "the propensity of row 3 is 0"),
        ({"relevance": [0.5]}, "a probability for each of the 5 rows"),
        ({"relevance": np.full(5, 1.5)}, "a probability for each of the 5 rows"),
        ({"scores": [1.0]}, "scores have shape"),
        ({"scores": None}, "scores must be one ranker, or one score for each row"),
        ({"scores": [NEW, NEW]}, "scores must be one ranker, or one score for each row"),
        (
            {"metrics": "dcg@3[margin]"},
            r"reads the label 'margin', and clicks have none; leave out \[margin\]",
        ),
    ],
)
def test_bad_arguments_are_refused(options, message):
    arguments = {"scores": NEW, "propensities": THETA, **options}
    with pytest.raises(ValueError, match=message):
        rw.evaluate_clicks(log_with([1, 0, 0, 0, 0, 1]), **arguments)


def test_a_ranking_without_overlap_is_refused():
    log = rw.read_clicks({"query": ["a"], "document": ["x"], "position": [1], "click": [1]}, DATA)
    with pytest.raises(ValueError, match="there is no overlap, so clicks say nothing"):
        rw.evaluate_clicks(log, NEW, [1.0], metrics="dcg@1", estimators=["ips"])


def test_a_log_without_clicks_has_no_self_normalised_estimate():
    with pytest.raises(ValueError, match="the log has no click"):
        rw.evaluate_clicks(log_with([0] * 6), NEW, THETA, estimators=["snips"])


def test_one_query_has_no_interval_and_teaches_no_relevance_of_others():
    log = rw.read_clicks({"query": ["a"], "document": ["x"], "position": [1], "click": [1]}, DATA)
    (row,) = rw.evaluate_clicks(log, NEW, [1.0], estimators="ips").rows
    assert row.value == pytest.approx(W[2])
    assert np.isnan([row.low, row.high]).all()
    with pytest.raises(
        ValueError, match="'dr' learns relevance from other queries, and the log has one only"
    ):
        rw.evaluate_clicks(log, NEW, [1.0])


def test_each_half_of_the_logged_queries_teaches_the_other_one():
    """Two of forty queries are in the log: a half of all forty would often hold both."""
    data = rw.RankingData(np.arange(80.0)[:, None], [0] * 80, qid=np.repeat(np.arange(40), 2))
    data = data.with_fields({"document": np.arange(80)})
    rows = {
        "query": [0, 0, 1, 1],
        "document": [0, 1, 2, 3],
        "position": [1, 2, 1, 2],
        "click": [1, 0, 0, 1],
    }
    log = rw.read_clicks(rows, data)
    for seed in range(4):
        result = rw.evaluate_clicks(
            log, np.arange(80.0), [1.0, 0.5], estimators="dr", random_state=seed
        )
        assert result.query_ids.tolist() == [0, 1]


def test_resamples_without_a_click_do_not_spoil_the_interval():
    (row,) = rw.evaluate_clicks(log_with([1, 0, 0, 0, 0, 0]), NEW, THETA, estimators="snips").rows
    assert (row.low, row.value, row.high) == pytest.approx((W[2], W[2], W[2]))


def test_features_are_needed():
    log = rw.read_clicks({"query": ["a"], "document": ["x"], "position": [1], "click": [1]})
    with pytest.raises(ValueError, match="evaluate_clicks needs the features"):
        rw.evaluate_clicks(log, NEW, [1.0])
