"""The metric under SoftRank's rank distributions, against a recursion in plain Python."""

import numpy as np
import pytest

import objective_oracles as oracle
import rankwright as rw
from rankwright_lab.diagnostics import directness


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@3", "dcg@1", "rbp"])
@pytest.mark.parametrize("sigma", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_softrank_surrogate(metric, sigma, n):
    random = np.random.default_rng(n)
    scores, labels = (
        random.normal(size=n),
        random.permutation([0, 1, *random.integers(0, 4, n - 2)]),
    )
    result = directness(
        scores, labels, group=[n], metric=metric, objective=f"softrank(sigma={sigma})"
    )
    np.testing.assert_allclose(
        result.surrogate, [-oracle.softrank_loss(scores, labels, metric, sigma)], rtol=1e-12
    )
    np.testing.assert_allclose(result.value, [rw.metric(metric).of(scores, labels)], rtol=1e-12)
    np.testing.assert_allclose(result.gap, np.abs(result.value - result.surrogate))
    assert result.standard_error.tolist() == [0]


def test_queries_of_one_document_and_of_different_lengths():
    """Alone, a document has the first rank; two equal scores share the first two; deeper ones have no weight."""
    result = directness(
        [0.3, 0.5, 0.5, 0.1, 0.1, 0.1], [1, 0, 1, 2, 0, 0], group=[1, 2, 3], metric="ndcg@1"
    )
    np.testing.assert_allclose(result.surrogate, [1, 1 / 2, 1 / 4])
