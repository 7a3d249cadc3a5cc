"""Metrics equal those of trec_eval, scikit-learn and CatBoost where these define the same thing."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from catboost.utils import eval_metric
from sklearn.metrics import ndcg_score

from rankwright.evaluation.per_query import evaluate

N_QUERIES = 60
TREC = {
    "map": "map",
    "map_cut_5": "map@5",
    "map_cut_10": "map@10",
    "ndcg": "ndcg(gain=linear)",
    "ndcg_cut_5": "ndcg(gain=linear)@5",
    "ndcg_cut_10": "ndcg(gain=linear)@10",
    "recip_rank": "mrr",
    "P_5": "precision@5",
    "P_30": "precision@30",
    "recall_5": "recall@5",
    "recall_10": "recall@10",
    "success_1": "success@1",
    "success_5": "success@5",
}
CATBOOST = {
    "NDCG:type=Exp": "ndcg",
    "NDCG:type=Exp;top=3": "ndcg@3",
    "NDCG:type=Base": "ndcg(gain=linear)",
    "NDCG:type=Base;top=5;denominator=Position": "ndcg(gain=linear,discount=reciprocal)@5",
    "DCG:type=Exp;top=4": "dcg@4",
    "DCG:type=Base": "dcg(gain=linear)",
    "DCG:type=Exp;denominator=Position": "dcg(discount=reciprocal)",
    "MRR:border=0.5": "mrr",
    "MRR:border=2.5;top=3": "mrr(threshold=3)@3",
    "MAP:border=0.5": "map",
    "MAP:border=1.5;top=3": "map(threshold=2,divisor=attainable)@3",
    "PrecisionAt:border=0.5;top=3": "precision@3",
    "RecallAt:border=1.5;top=3": "recall(threshold=2)@3",
}
CATBOOST_PROBABILITIES = {  # labels are the chance that a document satisfies the user
    "ERR": "err(gain=linear,max_label=1)",
    "ERR:top=2": "err(gain=linear,max_label=1)@2",
    "PFound": "pfound(max_label=1)",
    "PFound:top=3;decay=0.6": "pfound(max_label=1,decay=0.6)@3",
}


def queries(tied, sizes=(5, 30)):
    """Scores, labels and ids; every query has the label 3, so that all thresholds leave something to find."""
    rng = np.random.default_rng(11)
    group = rng.integers(*sizes, N_QUERIES)
    qid = np.repeat(np.arange(N_QUERIES), group)
    labels = rng.choice(4, len(qid), p=[0.55, 0.25, 0.15, 0.05])
    labels[np.cumsum(group) - 1] = 3
    scores = rng.integers(0, 5, len(qid)) if tied else rng.permutation(len(qid))
    return scores.astype(float), labels.astype(float), qid


def test_trec_eval_without_ties():
    scores, labels, qid = queries(tied=False)
    run = {str(q): {} for q in range(N_QUERIES)}
    qrel = {str(q): {} for q in range(N_QUERIES)}
    for row, q in enumerate(qid):
        run[str(q)][f"d{row}"] = scores[row]
        qrel[str(q)][f"d{row}"] = int(labels[row])
    theirs = pytrec_eval.RelevanceEvaluator(qrel, set(TREC)).evaluate(run)
    ours = evaluate(scores, labels, qid=qid, metrics=list(TREC.values()))
    for measure, text in TREC.items():
        expected = [theirs[str(q)][measure] for q in ours.query_ids]
        np.testing.assert_allclose(ours.per_query[text], expected, rtol=1e-12, err_msg=text)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("at", [None, 1, 5, 10])
def test_scikit_learn_means_over_ties(tied, at):
    scores, labels, qid = queries(tied)
    cut = "" if at is None else f"@{at}"
    linear, exponential = f"ndcg(gain=linear){cut}", f"ndcg{cut}"
    ours = evaluate(scores, labels, qid=qid, metrics=[linear, exponential], ties="expected")
    for q in range(N_QUERIES):
        own, z = labels[None, qid == q], scores[None, qid == q]
        assert ours.per_query[linear][q] == pytest.approx(ndcg_score(own, z, k=at), rel=1e-12)
        assert ours.per_query[exponential][q] == pytest.approx(
            ndcg_score(2**own - 1, z, k=at), rel=1e-12
        )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("description", "text", "largest"),
    [(*pair, 1) for pair in CATBOOST.items()]
    + [(*pair, 4) for pair in CATBOOST_PROBABILITIES.items()],
)
def test_catboost_resolves_ties_for_the_worst(description, text, largest, tied):
    scores, labels, qid = queries(tied)
    labels = labels / largest
    ours = evaluate(scores, labels, qid=qid, metrics=text)
    (theirs,) = eval_metric(labels, scores, description, group_id=qid)
    assert ours.mean[text] == pytest.approx(theirs, rel=1e-12)
    one = qid == 17
    (theirs,) = eval_metric(labels[one], scores[one], description, group_id=qid[one])
    assert ours.per_query[text][17] == pytest.approx(theirs, rel=1e-12)
