"""Incoherency: the cases that the paper pictures, curves over trees, and what Lambda-eX does to it."""

import math
from itertools import pairwise

import numpy as np
import pytest

import rankwright as rw
from rankwright_lab.diagnostics import incoherency, incoherency_curve, incoherent_pairs
from small import TRAIN, quick

# The examples of the "Lambda-eX" paper: NDCG@1 with truncation 1. The best document is d2; `*` below is the
# document on top, of label 1, and D the better one, of label 2.
PICTURED = {
    "a: D just below the top": ([1, 2, 0, 0, 0], True),
    "b: D further down": ([1, 0, 0, 0, 2], False),
    "c: more documents between * and D": ([1, *[0] * 20, 2], True),
    "d: as a, with a further document of label 1": ([1, 2, 0, 0, 1], False),
}


@pytest.mark.parametrize("case", PICTURED)
def test_pictured_cases(case):
    labels, incoherent = PICTURED[case]
    n = len(labels)
    scores = 0.01 * np.arange(n)[::-1]
    grad, _ = rw.gradients("lambdamart", scores, labels, group=[n], metric="ndcg@1", truncation=1)
    better = labels.index(2)
    assert (-grad[better] < -grad[0]) == incoherent
    result = incoherency(scores, labels, grad, group=[n], k=1)
    assert (result.share, result.harmful_share) == (float(incoherent), float(incoherent))
    worst = incoherent_pairs(scores, labels, grad, limit=1)
    assert [(pair.better, pair.worse) for pair in worst] == ([(better, 0)] if incoherent else [])


def test_incoherent_without_truncation():
    """Table 2 of the paper: the last document has label 1 and is pushed down more than that of label 0 above it."""
    scores, labels = [0.02, 0.01, 0.0], [4, 0, 1]
    grad, _ = rw.gradients("lambdamart", scores, labels, group=[3], metric="ndcg")
    result = incoherency(scores, labels, grad, group=[3], k=1)
    assert result.share == 1
    assert result.harmful_share == 0, "the top holds what the ideal one holds"
    assert incoherency(scores, labels, -grad, group=[3]).share == 0, "grad is that of the loss"


def test_lambda_ex_corrects_the_case_of_the_first_figure():
    scores, labels = [0.04, 0.03, 0.02, 0.01, 0], [1, 2, 0, 0, 0]
    grad, _ = rw.gradients(
        "lambdamart", scores, labels, group=[5], metric="ndcg@1", truncation=1, extend="static"
    )
    assert incoherency(scores, labels, grad, group=[5], k=1).share == 0


def test_pairs_are_listed_by_difference_of_pushes():
    random = np.random.default_rng(1)
    scores, labels, grad = random.normal(size=30), random.integers(0, 3, 30), random.normal(size=30)
    pairs = incoherent_pairs(scores, labels, grad, limit=1000)
    assert len(pairs) == incoherency(scores, labels, grad, group=[30]).incoherent[0]
    gaps = [pair.push_worse - pair.push_better for pair in pairs]
    assert gaps == sorted(gaps, reverse=True)
    assert min(gaps) > 0
    assert incoherent_pairs(scores, labels, grad, limit=5) == pairs[:5]
    for pair in pairs:
        assert labels[pair.better] > labels[pair.worse]
        assert scores[pair.better] < scores[pair.worse]
        assert pair.push_better == -grad[pair.better]


def test_shares_count_every_query():
    """One incoherent query of four: the others have one document, equal labels, and no gradient."""
    scores = [2, 1, 5, 2, 1, 2, 1]
    labels = [0, 1, 3, 1, 1, 0, 1]
    grad = [-1, 1, 0, -1, 1, 0, 0]
    result = incoherency(scores, labels, grad, group=[2, 1, 2, 2])
    assert result.share == 1 / 4
    assert result.pair_share == 1 / 2
    assert math.isnan(result.harmful_share)
    assert [row["query"] for row in result.worst()] == [0]
    assert result.to_dataframe().incoherent.tolist() == [1, 0, 0, 0]
    assert result.to_dict()["harmful_share"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grad": [1.0]}, r"grad has shape \(1,\) for 2 rows"),
        ({"scores": [1.0, np.nan]}, "scores must be finite, but one is nan: row 1, query 0"),
        ({"k": 0}, "k must be a positive whole number"),
        ({"k": True}, "k must be a positive whole number"),
        ({"ties": "expected"}, "unknown tie policy 'expected'; choose one of input, worst, best"),
        ({"labels": [1, -1]}, "labels must be finite and non-negative"),
    ],
)
def test_invalid_arguments(change, message):
    arguments = {
        "scores": [1.0, 2.0],
        "labels": [1, 0],
        "grad": [0.1, -0.1],
        "group": [2],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        incoherency(**arguments)


def test_curve_follows_the_trees_of_a_model():
    ranker = quick(objective="lambdamart(truncation=k)", metric="ndcg@3", n_estimators=7).fit(TRAIN)
    curve = incoherency_curve(ranker, TRAIN, every=3)
    assert curve.trees.tolist() == [3, 6, 7]
    assert (curve.objective, curve.metric) == ("lambdamart(truncation=k)", "ndcg@3")
    scores = list(ranker.staged_predict(TRAIN, every=3))
    for stage, z in zip(curve.stages, scores, strict=True):
        grad, _ = rw.gradients(ranker.objective_, z, TRAIN.y, qid=TRAIN.qid, metric="ndcg@3")
        expected = incoherency(z, TRAIN.y, grad, qid=TRAIN.qid, k=3)
        np.testing.assert_array_equal(stage.incoherent, expected.incoherent)
        np.testing.assert_array_equal(stage.harmful, expected.harmful)
    frame = curve.to_dataframe()
    assert frame.share.tolist() == curve.share.tolist()
    assert curve.worst(1)[0]["incoherent_stages"] <= 3
    assert incoherency_curve(ranker, TRAIN, every=7, k=1).stages[0].k == 1


@pytest.mark.parametrize("reading", ["paper", "literal"])
def test_documents_below_the_threshold_of_the_metric_are_not_relevant(reading):
    """Harmful pairs of grades are those of the labels 0 and 1, since only these have pairs across the threshold."""
    ranker = quick(
        objective="lambdamart(truncation=k)", metric="map(threshold=2)@3", n_estimators=4
    ).fit(TRAIN)
    curve = incoherency_curve(ranker, TRAIN, every=4, reading=reading)
    z = ranker.predict(TRAIN)
    grad, _ = rw.gradients(
        ranker.objective_, z, TRAIN.y, qid=TRAIN.qid, metric="map(threshold=2)@3"
    )
    push, harmful = -grad, np.zeros(TRAIN.n_queries, dtype=int)
    for q, (start, stop) in enumerate(pairwise(TRAIN.queries.boundaries)):
        y, order = TRAIN.y[start:stop], np.argsort(-z[start:stop], kind="stable")
        ideal = set(np.sort(y)[::-1][:3])
        belongs = {label for label in ideal if label >= 2}
        false = [a for a in order[:3] if y[a] not in (belongs if reading == "paper" else ideal)]
        missed = [b for b in order[3:] if y[b] in belongs]
        harmful[q] = sum(
            push[start + a] > push[start + b] for a in false for b in missed if y[b] > y[a]
        )
    assert harmful.sum() > 0
    np.testing.assert_array_equal(curve.stages[0].harmful, harmful)


@pytest.mark.parametrize("limit", [None, 0, -1, 2.5, True])
def test_a_limit_of_pairs_is_a_positive_number(limit):
    with pytest.raises(ValueError, match="limit must be a positive whole number"):
        incoherent_pairs([2, 1], [0, 1], [-1, 1], limit=limit)


def test_random_objectives_draw_as_in_training():
    """A query's draws depend on its id, the seed of the training and the number of the tree."""
    ranker = quick(objective="yetiloss", metric="ndcg@3", n_estimators=2, random_state=5).fit(TRAIN)
    curve = incoherency_curve(ranker, TRAIN, every=2)
    z = ranker.predict(TRAIN)
    grad, _ = rw.gradients(
        "yetiloss", z, TRAIN.y, qid=TRAIN.qid, metric="ndcg@3", random_state=5, iteration=2
    )
    expected = incoherency(z, TRAIN.y, grad, qid=TRAIN.qid, k=3)
    np.testing.assert_array_equal(curve.stages[-1].incoherent, expected.incoherent)


def test_a_curve_needs_a_fitted_ranker():
    with pytest.raises(
        ValueError, match="expected a fitted Ranker, or a run that holds one; got a str"
    ):
        incoherency_curve("model", TRAIN)


@pytest.mark.parametrize("extend", ["static", "random", "all"])
def test_lambda_ex_reduces_harmful_pairs_at_every_tree(extend, sparse):
    """At the scores after each tree of a truncated model: fewer harmful pairs, and no more queries that have some."""
    data, ranker, truncated = sparse
    curve = incoherency_curve(
        ranker, data, objective=f"lambdamart(truncation=k, extend={extend})", threads=1
    )
    assert len(curve.stages) == 25
    pairs = [[int(stage.harmful.sum()) for stage in one.stages] for one in (curve, truncated)]
    assert np.all(np.less(*pairs)), pairs
    assert np.all(curve.harmful_share <= truncated.harmful_share)
    assert curve.harmful_share.mean() < 0.95 * truncated.harmful_share.mean()


@pytest.fixture(scope="module")
def sparse():
    """Data of which 98 % of the documents are not relevant, and LambdaMART cut off at its metric's cutoff."""
    data = rw.make_web_search(300, kind="sparse", n_features=20, random_state=1)
    assert np.mean(data.y == 0) > 0.975
    ranker = rw.Ranker(
        "lambdamart(truncation=k)", "ndcg@5", n_estimators=25, n_jobs=1, verbose=0
    ).fit(data)
    return data, ranker, incoherency_curve(ranker, data, threads=1)
