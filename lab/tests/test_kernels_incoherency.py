"""Numbers of incoherent pairs, against counts over all pairs."""

import itertools

import numpy as np
import pytest

from rankwright_lab.diagnostics import incoherency
from rankwright_lab.diagnostics.counting import merge_sort

RANKED = {
    "input": lambda scores, labels: sorted(range(len(scores)), key=lambda a: -scores[a]),
    "worst": lambda scores, labels: sorted(
        range(len(scores)), key=lambda a: (-scores[a], labels[a])
    ),
    "best": lambda scores, labels: sorted(
        range(len(scores)), key=lambda a: (-scores[a], -labels[a])
    ),
}


def count_pairs(scores, labels, grad, k, ties="input", reading="paper"):
    """Misranked, incoherent and harmful pairs, from the definitions."""
    order = RANKED[ties](list(scores), list(labels))
    ideal = set(sorted(labels, reverse=True)[:k])
    true = {a for a in order[:k] if labels[a] in ideal and (labels[a] > 0 or reading == "literal")}
    false = set(order[:k]) - true
    missed = {a for a in order[k:] if labels[a] in ideal and labels[a] > 0}
    counts = [0, 0, 0]
    for above, below in itertools.combinations(order, 2):
        if labels[below] > labels[above]:
            counts[0] += 1
            if -grad[below] < -grad[above]:
                counts[1] += 1
                counts[2] += above in false and below in missed
    return counts


@pytest.mark.parametrize("ties", RANKED)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("k", [1, 3, 5, 12, 40])
@pytest.mark.parametrize("reading", ["paper", "literal"])
def test_counts_equal_those_over_all_pairs(ties, tied, k, reading):
    random = np.random.default_rng(k)
    qid = random.permutation(np.repeat(np.arange(60), random.integers(1, 40, 60)))
    n = len(qid)
    labels = random.integers(0, 4, n) if tied else np.maximum(random.random(n) - 0.7, 0)
    scores = random.integers(0, 6, n).astype(float) if tied else random.normal(size=n)
    grad = random.integers(-2, 3, n) / 2 if tied else random.normal(size=n)
    result = incoherency(scores, labels, grad, qid=qid, k=k, ties=ties, reading=reading)
    expected = [
        count_pairs(scores[qid == q], labels[qid == q], grad[qid == q], k, ties, reading)
        for q in range(60)
    ]
    found = np.stack([result.misranked, result.incoherent, result.harmful], axis=1)
    np.testing.assert_array_equal(found, expected)
    assert result.share == np.mean([row[1] > 0 for row in expected])
    assert result.harmful_share == np.mean([row[2] > 0 for row in expected])
    assert result.pair_share == sum(row[1] for row in expected) / sum(row[0] for row in expected)


def test_a_document_without_relevance_is_a_false_one_of_the_top():
    """The ideal top of three holds a label 0, and yet those on top of two relevant documents do not belong there."""
    scores, labels, grad = [5, 4, 3, 2, 1, 0], [0, 0, 0, 0, 2, 1], [-1, 0, 0, 0, 0, -0.5]
    assert incoherency(scores, labels, grad, group=[6], k=3).harmful.tolist() == [2]
    assert incoherency(
        scores, labels, grad, group=[6], k=3, reading="literal"
    ).harmful.tolist() == [0]
    with pytest.raises(ValueError, match="reading must be 'paper' or 'literal'; got 'both'"):
        incoherency(scores, labels, grad, group=[6], k=3, reading="both")


def test_threads_change_nothing():
    random = np.random.default_rng(0)
    group = random.integers(1, 30, 50)
    rows = random.normal(size=(2, group.sum()))
    labels = random.integers(0, 3, group.sum())
    one, three = (
        incoherency(rows[0], labels, rows[1], group=group, k=2, threads=t) for t in (1, 3)
    )
    for name in ("misranked", "incoherent", "harmful"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_a_long_query_is_counted_and_not_walked_through_by_pairs():
    n = 200_000
    result = incoherency(-np.arange(n), np.arange(n), np.arange(n), group=[n], k=n // 2)
    assert result.incoherent.tolist() == result.misranked.tolist() == [n * (n - 1) // 2]
    assert result.harmful.tolist() == [(n // 2) ** 2]


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13, 64, 200])
def test_merge_sort_is_stable_touches_only_the_range_given_and_counts_inversions(n, descending):
    rng = np.random.default_rng(n)
    values = rng.integers(0, 5, n + 9).astype(float)
    items = rng.permutation(n + 9)[: n + 5]
    expected = items.copy()
    run = items[2 : n + 2].copy()
    keys = -values[run] if descending else values[run]
    expected[2 : n + 2] = run[np.argsort(keys, kind="stable")]
    inversions = merge_sort(values, descending, items, 2, n + 2)
    np.testing.assert_array_equal(items, expected)
    assert inversions == sum(int(np.sum(keys[k + 1 :] < keys[k])) for k in range(n))
