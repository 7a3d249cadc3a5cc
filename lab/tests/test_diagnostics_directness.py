"""Gaps between metric and surrogate: closed forms, independent recursions, and the theorems of the paper."""

import math

import numpy as np
import pytest
from scipy.special import erfinv
from scipy.stats import norm

from objective_oracles import relevance
from oracles import metric_value
from rankwright_lab.diagnostics import directness, directness_curve, directness_pair, softrank_bound


def random_query(seed, n):
    random = np.random.default_rng(seed)
    return random.normal(size=n), random.permutation([0, 1, *random.integers(0, 4, n - 2)])


@pytest.mark.parametrize("mu", [0.0, 0.7])
@pytest.mark.parametrize("sigma", [0.2, 1.0])
def test_stochasticrank_surrogate_of_two_documents(sigma, mu):
    """E MRR = (1 + Phi((d - sigma mu) / (sqrt(2) sigma))) / 2 for labels 1, 0 and scores d, 0; values are 1 or 1/2."""
    d, samples = 0.3, 4000
    objective = f"stochasticrank(sigma={sigma}, mu={mu})"
    result = directness(
        [d, 0], [1, 0], group=[2], metric="mrr", objective=objective, samples=samples
    )
    first = norm.cdf((d - sigma * mu) / (math.sqrt(2) * sigma))
    error = 0.5 * math.sqrt(first * (1 - first) / samples)
    assert abs(result.surrogate[0] - (1 + first) / 2) < 4 * error
    np.testing.assert_allclose(result.standard_error, error, rtol=0.05)


@pytest.mark.parametrize("metric", ["map", "err@3", "ndcg@2"])
def test_stochasticrank_surrogate_of_five_documents(metric):
    scores, labels = random_query(1, 5)
    samples = 3000
    name, _, at = metric.partition("@")
    result = directness(
        scores,
        labels,
        group=[5],
        metric=metric,
        objective="stochasticrank(mu=0.5)",
        samples=samples,
    )
    shifted = scores - 0.5 * np.array(relevance(metric, labels))
    draws = shifted + np.random.default_rng(0).normal(size=(samples, 5))
    values = [
        metric_value(name, labels[np.argsort(-draw)], int(at) if at else None) for draw in draws
    ]
    error = math.hypot(result.standard_error[0], np.std(values) / math.sqrt(samples))
    assert abs(result.surrogate[0] - np.mean(values)) < 4 * error


def test_draws_depend_on_ids_and_not_on_other_queries_or_threads():
    scores, labels = [1.0, 0.5, 0.2, 1.0, 0.7], [0, 1, 1, 0, 2]
    options = {"metric": "map", "objective": "stochasticrank", "samples": 50}
    both = directness(scores, labels, qid=[7, 7, 7, 3, 3], **options, threads=2)
    alone = directness(scores[:3], labels[:3], qid=[7, 7, 7], **options, threads=1)
    assert both.query_ids.tolist() == [3, 7]
    assert both.surrogate[1] == alone.surrogate[0]
    curve = directness_curve(
        scores,
        labels,
        qid=[7, 7, 7, 3, 3],
        metric="map",
        objective="stochasticrank",
        sigmas=[1.0],
        samples=50,
    )
    assert curve.points[0].bias == both.bias


def test_queries_without_a_relevant_document_have_no_gap():
    result = directness([1, 0, 1, 0], [0, 0, 0, 1], group=[2, 2])
    assert result.query_ids.tolist() == [1]
    assert result.to_dataframe()["query"].tolist() == [1]
    assert result.mean_gap == result.max_gap == result.gap[0]


def hand_bound(sigma, delta, n, classes):
    """Theorem 2 as published."""
    eps_1 = (
        (n - 1) * sigma / (2 * delta * math.sqrt(math.pi)) * math.exp(-(delta**2) / (4 * sigma**2))
    )
    eps_3 = 1 - math.erf(delta / (2 * sigma)) ** 2
    eps_2 = math.sqrt(eps_3 / (1 - 5 * eps_3)) + 5 * eps_3
    return 2 ** (classes - 1) * n * (eps_1 + eps_2)


def test_published_bound():
    bound = softrank_bound(0.3, 1.0, 7, 3, version="published")
    np.testing.assert_allclose(bound.bound, hand_bound(0.3, 1.0, 7, 3), rtol=1e-12)
    np.testing.assert_allclose(bound.largest_sigma, 1.0 / (2 * erfinv(math.sqrt(5 / 6))))
    assert bound.holds
    edge = bound.largest_sigma
    assert softrank_bound(edge * 0.999, 1.0, 7, 3, version="published").holds
    assert not softrank_bound(edge * 1.001, 1.0, 7, 3, version="published").holds


def test_corrected_bound():
    n, sigma, delta = 9, 0.2, 1.0
    bound = softrank_bound(sigma, delta, n, 2)
    tail = 1 - math.erf(delta / (2 * sigma)) ** 2
    eps_1 = (
        (n - 1)
        * sigma
        / (2 * math.log(2) * delta * math.sqrt(math.pi))
        * math.exp(-(delta**2) / (4 * sigma**2))
    )
    eps_3 = (n - 1) / 4 * tail
    eps_2 = math.sqrt(eps_3 / (1 - 5 * eps_3)) + 5 * eps_3
    np.testing.assert_allclose(
        [bound.eps_1, bound.eps_2, bound.eps_3], [eps_1, eps_2, eps_3], rtol=1e-9
    )
    np.testing.assert_allclose(bound.bound, 2 * n * (eps_1 + eps_2), rtol=1e-9)
    # At the edge of the condition the variance of a rank is bounded by 1/5, and the bound has no value beyond it.
    edge = softrank_bound(bound.largest_sigma * (1 - 1e-9), delta, n, 2)
    np.testing.assert_allclose(edge.eps_3, 1 / 5, rtol=1e-6)
    beyond = softrank_bound(bound.largest_sigma * 1.01, delta, n, 2)
    assert (beyond.holds, beyond.bound) == (False, math.inf)


def test_errors_of_the_published_theorem():
    """For few documents its condition admits σ for which its formula has no value; for many its ε3 is too small."""
    published, corrected = (
        softrank_bound(0.9, 1.0, 4, 2, version=version) for version in ("published", "corrected")
    )
    assert published.largest_sigma > corrected.largest_sigma
    undefined = softrank_bound(0.5, 1.0, 4, 2, version="published")
    assert (undefined.holds, undefined.bound) == (True, math.inf)
    # n documents at distance delta from document j: its rank has the variance (n - 1) pi (1 - pi) > ε3 as published.
    n, sigma = 30, 0.25
    beats = 0.5 * (1 + math.erf(1 / (2 * sigma)))
    variance = (n - 1) * beats * (1 - beats)
    assert softrank_bound(sigma, 1.0, n, 2, version="published").eps_3 < variance
    np.testing.assert_allclose(softrank_bound(sigma, 1.0, n, 2).eps_3, variance)


def test_the_bound_keeps_its_digits_where_erf_rounds_to_one():
    bound = softrank_bound(0.02, 1.0, 3, 2)
    assert 0 < bound.eps_3 < 1e-200
    assert bound.bound > 0


@pytest.mark.parametrize("version", ["corrected", "published"])
@pytest.mark.parametrize("n", [2, 3, 6, 12, 30])
def test_gaps_are_below_the_bound_where_its_condition_holds(n, version):
    checked = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        scores = np.cumsum(0.1 + random.exponential(size=n) * random.choice([0.01, 1.0]))[
            random.permutation(n)
        ]
        labels = random.permutation([0, 1, *random.integers(0, 4, n - 2)])
        delta = np.diff(np.sort(scores)).min()
        for sigma in delta * np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0]):
            theorem = softrank_bound(sigma, delta, n, int(labels.max()) + 1, version=version)
            if theorem.holds:
                result = directness(
                    scores, labels, group=[n], objective=f"softrank(sigma={sigma})", threads=1
                )
                assert result.max_gap <= theorem.bound + 1e-14
                checked += 1
    assert checked >= 150


def test_gap_falls_to_zero_with_sigma():
    scores, labels = zip(*(random_query(seed, 12) for seed in range(20)), strict=True)
    curve = directness_curve(
        np.concatenate(scores),
        np.concatenate(labels),
        group=[12] * 20,
        sigmas=[1.0, 0.1, 0.01, 1e-3, 1e-5],
    )
    means = [point.mean_gap for point in curve.points]
    assert means == sorted(means, reverse=True)
    assert means[0] > 0.05
    assert curve.points[-1].max_gap < 1e-12
    bounded = [point.bounded for point in curve.points]
    assert bounded == sorted(bounded)
    assert bounded[-1] == 20
    for point in curve.points:
        assert math.isnan(point.max_ratio) == (point.bounded == 0)
        assert point.bounded == 0 or point.max_ratio <= 1


def test_ties_never_meet_the_condition_and_keep_their_gap():
    """Half the weight of a pair of equal scores, by the worst order: (1 - 1 / log2(3)) / 2."""
    curve = directness_curve([0, 0], [1, 0], group=[2], sigmas=[1e-6])
    assert curve.points[0].bounded == 0
    np.testing.assert_allclose(curve.points[0].max_gap, (1 - 1 / math.log2(3)) / 2)
    best = directness_curve([0, 0], [1, 0], group=[2], sigmas=[1e-6], ties="expected")
    assert best.points[0].max_gap < 1e-12


def test_no_bound_for_other_metrics():
    for metric in ("ndcg@2", "dcg"):
        point = directness_curve([0.3, 0], [1, 0], group=[2], sigmas=[0.01], metric=metric).points[
            0
        ]
        assert (point.bounded, math.isnan(point.mean_bound)) == (0, True)


def test_mu_takes_the_bias_of_ties_away():
    """Two equal scores: without μ the mean of both orders, 3/4; with it 1/2 + Phi(-μ / sqrt(2)) / 2 for any σ."""
    curve = directness_curve(
        [0, 0],
        [1, 0],
        group=[2],
        metric="mrr",
        objective="stochasticrank",
        sigmas=[1.0, 0.01],
        mus=[0, 1, 4],
        samples=4000,
    )
    for point in curve.points:
        expected = norm.cdf(-point.mu / math.sqrt(2)) / 2
        assert abs(point.bias - expected) < 4 * max(point.bias_error, 1e-3)
    assert [point.mu for point in curve.points] == [0, 0, 1, 1, 4, 4]
    assert [point.sigma for point in curve.points] == [1, 0.01] * 3
    assert len(curve.to_dataframe()) == 6


def test_theorem_one():
    labels, group = [0, 1, 2, 0, 1, 2], [3, 3]
    options = {"labels": labels, "group": group, "objective": "softrank(sigma=1.0)"}
    soft, hard = (
        directness([0, 2, 4, 0, 2, 4], **options),
        directness([0, 1, 2, 0.5, 0.6, 0.9], **options),
    )
    pair = directness_pair(soft, hard)
    assert (pair.eps_1, pair.eps_2) == (soft.gap.max(), hard.gap.max())
    assert pair.bound == 2 * pair.eps_1 + pair.eps_2
    assert pair.difference == 0
    assert pair.premises
    assert not directness_pair(hard, soft).premises, "the second has the better surrogate"
    with pytest.raises(ValueError, match="measure both with the same"):
        directness_pair(
            soft, directness([1, 0], [1, 0], group=[2], objective="softrank(sigma=2.0)")
        )
    with pytest.raises(ValueError, match="measured on different queries"):
        directness_pair(
            soft, directness([1, 0], [1, 0], group=[2], objective="softrank(sigma=1.0)")
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "lambdamart"}, "lambdamart does not smooth a metric"),
        (
            {"metric": "map"},
            "softrank is defined on metrics that add up over positions, and map does not",
        ),
        ({"metric": "dcg-rr"}, "dcg-rr selects documents instead of ordering them"),
        (
            {"objective": "stochasticrank", "samples": 1},
            "samples must be a whole number of at least 2",
        ),
        ({"labels": [0, 0]}, "no document has any gain"),
        ({"metric": "ndcg@3 + 0.5 mrr"}, "is a sum; directness is defined on one metric"),
        ({"objective": "stochasticrank", "seed": None}, "seed must be a whole number; got None"),
    ],
)
def test_invalid_arguments(change, message):
    arguments = {"scores": [1.0, 2.0], "labels": [1, 0], "group": [2], **change}
    with pytest.raises(ValueError, match=message):
        directness(**arguments)


def test_invalid_arguments_of_bound_and_curve():
    with pytest.raises(ValueError, match="version must be 'corrected' or 'published'; got 'new'"):
        softrank_bound(1.0, 1.0, 3, 2, version="new")
    for sigma, n, classes in [
        (1.0, 1, 2),
        (1.0, 2.5, 2),
        (1.0, 3, 1.5),
        (1.0, 3, 2000),
        ("1", 3, 2),
    ]:
        with pytest.raises(
            ValueError, match="needs sigma > 0, delta >= 0, and whole numbers n from 2"
        ):
            softrank_bound(sigma, 1.0, n, classes)
    for name in ("sigmas", "mus"):
        for values in (0.1, None, [], ["a"]):
            with pytest.raises(ValueError, match=f"{name} must be a list of at least one number"):
                directness_curve([1, 0], [1, 0], group=[2], **{name: values})
    with pytest.raises(ValueError, match="mus belongs to stochasticrank"):
        directness_curve([1, 0], [1, 0], group=[2], mus=[1.0])
    with pytest.raises(
        ValueError, match="objective must be softrank or stochasticrank; got 'yetiloss'"
    ):
        directness_curve([1, 0], [1, 0], group=[2], objective="yetiloss")


def test_queries_whose_labels_are_too_small_for_a_gain_are_left_out():
    with_small = directness_curve([2, 1, 4, 3.0], [1e-17, 0, 1, 0], group=[2, 2], sigmas=[0.2])
    assert with_small == directness_curve([4, 3.0], [1, 0], group=[2], sigmas=[0.2])


def test_softrank_on_long_lists_needs_a_cutoff():
    """Without one its time grows with the cube of the documents: hours for a query of Istella-X."""
    scores, labels = np.zeros(6000), np.arange(6000) % 2
    with pytest.raises(
        ValueError, match=r"query 0 has 6000 documents, .* takes 2e\+11 steps, .* cutoff"
    ):
        directness(scores, labels, group=[6000], objective="softrank")
    few = directness(scores[:200], labels[:200], group=[200], objective="softrank")
    assert 0 < few.max_gap < 1
