"""Evaluation: which rows form a query, ties, empty queries, weights, and what is refused."""

from __future__ import annotations

import pickle
import time
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oracles
from rankwright import evaluate as public_evaluate
from rankwright import metrics
from rankwright.evaluation.per_query import evaluate
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.threads import even_ranges
from rankwright.metrics import ERR, NDCG

TEXTS = [
    "ndcg@3",
    "dcg",
    "err",
    "err(gain=linear)@2",
    "mrr",
    "map",
    "map(divisor=attainable)@4",
    "rbp",
    "pfound@5",
    "expdcg",
    "precision@4",
    "recall@2",
    "success@2",
    "arp",
    "arp@3",
    "dcg-rr",
    "judged@3",
]
# Metrics of what labels say, not of whether there are any.
OF_LABELS = [text for text in TEXTS if not metrics.metric(text).reads_missing]


def tied_data(n_queries=50, seed=0, longest=30):
    """Scores with many ties, labels 0-4 and ids whose order of appearance is not their own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest, n_queries)
    qid = np.repeat(rng.permutation(n_queries) * 3 + 5, sizes)
    return rng.integers(-3, 4, len(qid)) / 3, rng.integers(0, 5, len(qid)), qid


def test_the_table_above_has_every_metric():
    kinds = [
        kind
        for kind in vars(metrics).values()
        if isinstance(kind, type) and issubclass(kind, metrics.Metric)
    ]
    assert {text.split("@")[0].split("(")[0] for text in TEXTS} == {
        kind.name for kind in kinds if kind.name
    }
    assert public_evaluate is evaluate


@pytest.mark.parametrize("ties", ["worst", "best", "expected", "input"])
def test_per_query_follows_query_ids_for_rows_in_any_order(ties):
    scores, labels, qid = tied_data()
    shuffled = np.random.default_rng(1).permutation(len(qid))
    result = evaluate(
        scores[shuffled],
        labels[shuffled],
        qid=qid[shuffled],
        metrics=TEXTS,
        ties=ties,
        empty="zero",
        n_jobs=1,
    )
    assert result.query_ids.tolist() == sorted(set(qid.tolist()))
    for number, q in enumerate(result.query_ids):
        rows = shuffled[qid[shuffled] == q]
        for text in TEXTS:
            alone = evaluate(
                scores[rows], labels[rows], group=[len(rows)], metrics=text, ties=ties, empty="zero"
            )
            assert result.per_query[text][number] == alone.mean[text], text


@pytest.mark.parametrize("ties", ["worst", "best", "expected"])
def test_row_order_changes_nothing(ties):
    scores, labels, qid = tied_data()
    texts = [text for text in TEXTS if text != "dcg-rr"]
    straight = evaluate(scores, labels, qid=qid, metrics=texts, ties=ties)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(qid))
        again = evaluate(scores[rows], labels[rows], qid=qid[rows], metrics=texts, ties=ties)
        for text in texts:
            if ties == "expected":  # sums over a block of ties go by rows
                np.testing.assert_allclose(
                    again.per_query[text], straight.per_query[text], rtol=1e-13
                )
            else:
                np.testing.assert_array_equal(again.per_query[text], straight.per_query[text])


@pytest.mark.parametrize("text", [text for text in OF_LABELS if text != "dcg-rr"])
def test_worst_and_best_enclose_the_other_policies(text):
    scores, labels, qid = tied_data()
    worst, expected, given, best = (
        evaluate(scores, labels, qid=qid, metrics=text, ties=ties).mean[text]
        for ties in ("worst", "expected", "input", "best")
    )
    if text.startswith("arp"):
        worst, best = best, worst
    assert worst < expected < best
    assert worst <= given <= best


@pytest.mark.parametrize(
    "text", ["ndcg@10", "err", "mrr", "map", "rbp", "precision@5", "recall@5", "success@1"]
)
def test_constant_scores_on_sorted_labels_do_not_score_1(text):
    labels = np.sort(np.random.default_rng(2).integers(0, 5, 40))[::-1]
    worth = evaluate(np.zeros(40), labels, group=[40], metrics=text).mean[text]
    name, *at = text.split("@")
    assert worth == pytest.approx(
        oracles.metric_value(name, labels[::-1], *map(int, at)), rel=1e-13
    )
    assert worth < 0.7


@pytest.mark.parametrize("ties", ["worst", "best", "expected", "input"])
def test_several_metrics_at_once_equal_one_by_one(ties):
    scores, labels, qid = tied_data(seed=3)
    together = evaluate(scores, labels, qid=qid, metrics=TEXTS, ties=ties)
    assert list(together.mean) == list(together.per_query) == TEXTS
    for text in TEXTS:
        alone = evaluate(scores, labels, qid=qid, metrics=text, ties=ties)
        np.testing.assert_array_equal(alone.per_query[text], together.per_query[text])
        assert alone.mean[text] == together.mean[text]


def test_several_metrics_share_one_sort():
    with mock.patch.object(kernel, "order_queries", wraps=kernel.order_queries) as sort:
        evaluate([2, 1], [0, 1], group=[2], metrics=OF_LABELS)
    assert sort.call_count == 1


@pytest.mark.parametrize("ties", ["worst", "expected"])
def test_threads_do_not_matter(ties):
    scores, labels, qid = tied_data(n_queries=400, longest=600)
    assert len(qid) > 100_000  # enough rows for several threads
    results = [
        evaluate(scores, labels, qid=qid, metrics=["ndcg", "map@20"], ties=ties, n_jobs=threads)
        for threads in (1, 2, 7, None)
    ]
    for result in results[1:]:
        for text, values in results[0].per_query.items():
            np.testing.assert_array_equal(result.per_query[text], values)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_threads_share_the_work_evenly(parts):
    work = np.random.default_rng(parts).integers(1, 9, 30).astype(float)
    ranges = even_ranges(work, parts)
    assert [q for q0, q1 in ranges for q in range(q0, q1)] == list(range(30))
    assert len(ranges) <= parts
    assert all(abs(work[q0:q1].sum() - work.sum() / parts) <= work.max() for q0, q1 in ranges)


def test_keys_are_the_texts_given():
    given = [
        " ndcg @ 3",
        "ndcg(gain=exponential)",
        "RBP(p=0.8)",
        ERR(at=2, gain="linear"),
        NDCG(at=3),
    ]
    result = evaluate([2, 1], [0, 1], group=[2], metrics=given)
    keys = ["ndcg @ 3", "ndcg(gain=exponential)", "RBP(p=0.8)", "err(gain=linear)@2", "ndcg@3"]
    assert list(result.mean) == list(result.per_query) == keys
    assert result.mean["ndcg @ 3"] == result.mean["ndcg@3"] == pytest.approx(1 / np.log2(3))
    assert evaluate([2, 1], [0, 1], group=[2]).mean.keys() == {"ndcg@10"}


# Query a has no relevant document, b scores 1, c scores 1/2 in the reciprocal rank.
THREE = {
    "scores": [2, 1, 2, 1, 2, 1],
    "labels": [0, 0, 1, 0, 0, 1],
    "qid": list("aabbcc"),
    "metrics": "mrr",
}


@pytest.mark.parametrize(
    ("empty", "value", "mean"),
    [
        ("skip", np.nan, (1 + 1 / 2) / 2),
        ("zero", 0, (0 + 1 + 1 / 2) / 3),
        ("one", 1, (1 + 1 + 1 / 2) / 3),
    ],
)
def test_queries_without_a_relevant_document(empty, value, mean):
    result = evaluate(**THREE, empty=empty)
    np.testing.assert_array_equal(result.per_query["mrr"], [value, 1, 1 / 2])
    assert result.mean["mrr"] == pytest.approx(mean, rel=1e-15)
    assert (result.empty, result.ties, result.weights) == (empty, "worst", None)


@pytest.mark.parametrize("text", OF_LABELS)
def test_skip_is_the_default_for_every_metric(text):
    result = evaluate([3, 2, 1, 3, 2, 1], [0, 0, 0, 4, 4, 4], group=[3, 3], metrics=text)
    assert np.isnan(result.per_query[text]).tolist() == [True, False]
    assert result.mean[text] == result.per_query[text][1] > 0


def test_relevant_below_the_cutoff_is_not_empty():
    result = evaluate(
        [3, 2, 1], [0, 0, 1], group=[3], metrics=["ndcg@2", "mrr@2", "precision@1"], empty="one"
    )
    assert result.mean == {"ndcg@2": 0, "mrr@2": 0, "precision@1": 0}


def test_nothing_relevant_at_all_has_no_mean_and_says_so():
    with pytest.warns(UserWarning, match="mrr: no query has a relevant document") as caught:
        result = evaluate([2, 1], [0, 0], group=[2], metrics="mrr")
    assert np.isnan(result.mean["mrr"])
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("weights", "empty", "mean"),
    [
        ([5, 1, 3], "skip", (1 * 1 + 3 / 2) / 4),
        ([5, 1, 3], "zero", (1 * 1 + 3 / 2) / 9),
        ([5, 5, 1, 1, 3, 3], "one", (5 + 1 * 1 + 3 / 2) / 9),
        ([1, 0, 2], "skip", 1 / 2),
    ],
)
def test_weights_per_query_or_per_row(weights, empty, mean):
    result = evaluate(**THREE, sample_weight=weights, empty=empty)
    assert result.mean["mrr"] == pytest.approx(mean, rel=1e-15)
    assert result.weights.tolist() == weights[:: len(weights) // 3]
    np.testing.assert_array_equal(result.per_query["mrr"][1:], [1, 1 / 2])


def test_weights_per_query_come_in_order_of_first_appearance():
    result = evaluate(
        [2, 1, 1, 2], [1, 1, 0, 0], qid=["z", "a", "z", "a"], sample_weight=[3, 1], metrics="mrr"
    )
    assert result.query_ids.tolist() == ["a", "z"]
    assert result.weights.tolist() == [1, 3]
    assert result.mean["mrr"] == (1 * 1 / 2 + 3 * 1) / 4


@pytest.mark.parametrize("column", [list, np.array, pd.Series, pl.Series])
@pytest.mark.parametrize("ids", [[7, 2, 7, 2, 2], ["q7", "q2", "q7", "q2", "q2"]])
def test_columns_of_any_kind(column, ids):
    result = evaluate(
        column([0.2, 0.3, 0.1, 0.2, 0.1]), column([0, 0, 1, 1, 0]), qid=column(ids), metrics="mrr"
    )
    assert result.query_ids.tolist() == sorted(set(ids))
    assert result.per_query["mrr"].tolist() == [1 / 2, 1 / 2]


def test_group_numbers_the_queries_in_row_order():
    result = evaluate([1, 2, 1], [1, 0, 1], group=[1, 2], metrics="mrr")
    assert result.query_ids.tolist() == [0, 1]
    assert result.per_query["mrr"].tolist() == [1, 1 / 2]


def test_inputs_are_left_alone():
    arrays = tied_data()
    copies = [array.copy() for array in arrays]
    evaluate(arrays[0], arrays[1], qid=arrays[2], metrics=TEXTS, ties="expected")
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_it_prints_and_pickles():
    result = evaluate(**(THREE | {"metrics": ["mrr", "precision@1"]}))
    assert str(result) == "mrr          0.7500\nprecision@1  0.5000"
    assert pickle.loads(pickle.dumps(result)).mean == result.mean


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qid": None}, "no query ids: .* Pass qid= .* or group="),
        ({"qid": list("aab")}, "qid has 3 entries for 6 rows; give one query id per row"),
        ({"qid": ["a", None, "b", "b", "c", "c"]}, "query id at row 1 is missing"),
        ({"qid": None, "group": [2, 2]}, "group adds up to 4 rows but there are 6"),
        ({"group": [3, 3]}, "group splits query b between rows 2 and 3"),
        ({"scores": [2, 1]}, r"scores have shape \(2,\) for 6 rows; give one per row"),
        ({"scores": [[2, 1]] * 3}, r"scores have shape \(3, 2\) for 6 rows"),
        (
            {"scores": [2, 1, 2, np.nan, 2, 1]},
            "the score at row 3, query b is NaN and cannot be ranked",
        ),
        ({"labels": [0, 0, 1]}, "qid has 6 entries for 3 rows"),
        ({"labels": [[0, 0, 1, 0, 0, 1]]}, r"labels have shape \(1, 6\) for 6 rows"),
        (
            {"labels": [0, 0, 1, 0, -1, 1]},
            "labels must be finite and non-negative; got -1.0 at row 4, query c",
        ),
        ({"labels": [0, 0, 1, np.inf, 0, 1]}, "got inf at row 3, query b"),
        ({"labels": list("yynnyn")}, "labels must be numbers"),
        (
            {"ties": "average"},
            "ties must be one of 'worst', 'best', 'expected', 'input'; got 'average'",
        ),
        ({"empty": "nan"}, "empty must be one of 'skip', 'zero', 'one'; got 'nan'"),
        ({"metrics": []}, "no metric to evaluate: name at least one"),
        ({"metrics": ["mrr", "mpa"]}, r"did you mean 'map'\?"),
        (
            {"sample_weight": [1, 2]},
            r"weights have shape \(2,\); expected one per row \(6\) or one per query \(3\)",
        ),
        (
            {"sample_weight": [1, 2, -1]},
            r"weights\[2\] is -1.0; weights must be finite and non-negative",
        ),
        ({"sample_weight": [1, np.nan, 1]}, r"weights\[1\] is nan"),
        (
            {"sample_weight": [1, 1, 2, 3, 1, 1]},
            r"weights differ within a query \(row 3, query b\)",
        ),
        ({"sample_weight": [1, 0, 0]}, "mrr: every query with a value has weight 0"),
        ({"n_jobs": 0}, "n_jobs must be a whole number from 1 to 1024; got 0"),
    ],
)
def test_what_is_refused_and_how(change, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**(THREE | change))


def test_a_nan_score_is_found_in_the_callers_rows():
    with pytest.raises(ValueError, match="row 2, query a"):
        evaluate([1, 2, np.nan, 4], [0, 1, 0, 1], qid=["b", "a", "a", "b"])


@pytest.mark.parametrize(
    "text", ["err", "err(gain=linear)@50", "mrr", "map", "pfound", "success@40"]
)
def test_a_long_block_of_ties(text):
    """3000 tied documents between two others: exact, so within the noise of a Monte Carlo mean."""
    rng = np.random.default_rng(4)
    labels = np.concatenate(([1], rng.choice(5, 3000, p=[0.96, 0.02, 0.01, 0.005, 0.005]), [4]))
    scores = np.concatenate(([9], np.zeros(3000), [-9]))
    if text == "mrr" or text.startswith("success"):
        labels[0] = 0
    worst, expected, best = (
        evaluate(scores, labels, group=[3002], metrics=text, ties=ties).mean[text]
        for ties in ("worst", "expected", "best")
    )
    assert worst < expected < best
    draws = 1000
    copies = np.tile(scores, (draws, 1))
    copies[:, 1:-1] = rng.random((draws, 3000))
    sampled = evaluate(
        copies.ravel(), np.tile(labels, draws), group=[3002] * draws, metrics=text, n_jobs=1
    ).per_query[text]
    assert abs(sampled.mean() - expected) < 4.5 * sampled.std() / np.sqrt(draws)


def test_a_cutoff_bounds_the_work_on_ties():
    """All of 200 000 documents tied: linear in them, while a table of all positions would take minutes."""
    n, relevant = 200_000, 50_000
    labels = np.arange(n) < relevant
    evaluate([0, 0], [0, 1], group=[2], metrics="success@2", ties="expected")  # compiles
    start = time.process_time()
    result = evaluate(np.zeros(n), labels, group=[n], metrics="success@2", ties="expected")
    assert time.process_time() - start < 5
    missed = (n - relevant) / n * (n - relevant - 1) / (n - 1)
    assert result.mean["success@2"] == pytest.approx(1 - missed, rel=1e-12)


def read_only(values):
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False  # as the columns of pandas are
    return array


@pytest.mark.parametrize("ties", ["worst", "expected"])
def test_arrays_that_cannot_be_written_to(ties):
    scores, labels, queries = [0.5, 0.5, 0.1, 0.9, 0.2], [0, 2, 1, 0, 1], [1, 1, 1, 2, 2]
    expected = evaluate(scores, labels, qid=queries, metrics=TEXTS, ties=ties)
    for kind in (read_only, lambda values: pd.DataFrame({"a": values})["a"]):
        result = evaluate(kind(scores), kind(labels), qid=kind(queries), metrics=TEXTS, ties=ties)
        assert result.mean == expected.mean


def test_a_metric_may_return_arrays_that_cannot_be_written_to():
    class ReadOnly(metrics.Metric):
        name = "read-only"

        def weights(self, n):
            return np.broadcast_to(1.0, n)

        def gains(self, labels):
            return np.broadcast_to(1.0, labels.shape)

    assert evaluate([0.5], [1], qid=[1], metrics=[ReadOnly()]).mean == {"read-only": 1.0}
