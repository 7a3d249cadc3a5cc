"""SoftRank: finite differences of its loss, and closed forms for two documents."""

import numpy as np
import pytest

import objective_oracles as oracle
from rankwright import gradients

ADDITIVE = ["ndcg", "ndcg@3", "dcg", "dcg@1", "rbp", "expdcg@4"]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("metric", ADDITIVE)
@pytest.mark.parametrize("n", [2, 3, 7])
def test_gradient_is_the_slope_of_the_loss(metric, sigma, n):
    random = np.random.default_rng(n)
    labels = random.permutation([0, 1, *random.integers(0, 5, n - 2)])
    scores = random.normal(size=n)
    grad, hess = gradients("softrank", scores, labels, group=[n], metric=metric, sigma=sigma)
    slopes = oracle.slopes(lambda z: oracle.softrank_loss(z, labels, metric, sigma), scores)
    np.testing.assert_allclose(grad, slopes, atol=1e-8 * max(1, np.abs(slopes).max()))
    np.testing.assert_array_equal(hess, 1)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_two_documents(sigma):
    """E NDCG = w_2 + (1 - w_2) Phi(d / (sqrt(2) sigma)) for labels 1, 0."""
    d = 0.4
    density = np.exp(-((d / (2 * sigma)) ** 2)) / np.sqrt(2 * np.pi)
    slope = (1 - 1 / np.log2(3)) * density / (np.sqrt(2) * sigma)
    grad, _ = gradients("softrank", [d, 0], [1, 0], group=[2], metric="ndcg", sigma=sigma)
    np.testing.assert_allclose(grad, [-slope, slope])


def test_less_is_better_for_the_average_position():
    """One place, with the density of the difference at 0."""
    slope = 1 / (np.sqrt(2 * np.pi) * np.sqrt(2))
    grad, _ = gradients("softrank", [0, 0], [0, 1], group=[2], metric="arp")
    np.testing.assert_allclose(grad, [slope, -slope])


def test_queries_of_different_length_and_depth():
    random = np.random.default_rng(0)
    sizes = [2, 6, 3, 1]
    scores = [random.normal(size=n) for n in sizes]
    labels = [np.arange(n) % 3 for n in sizes]
    options = {"metric": "ndcg@4"}
    together, _ = gradients(
        "softrank", np.concatenate(scores), np.concatenate(labels), group=sizes, **options
    )
    alone = [
        gradients("softrank", z, r, group=[len(z)], **options)[0]
        for z, r in zip(scores, labels, strict=True)
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("metric", ["err", "mrr", "map", "pfound", "success@2"])
def test_cascades_are_refused(metric):
    with pytest.raises(
        ValueError,
        match=r"defined on metrics that add up.*stochasticrank\(mu=0, sfa=False\), which",
    ):
        gradients("softrank", [1, 0], [1, 0], group=[2], metric=metric)
