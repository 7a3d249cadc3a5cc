"""Time of `evaluate` (NDCG@10) against pytrec_eval's `evaluate` alone, on 1000 queries x 100 documents.

python benchmarks/evaluate.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytrec_eval

from rankwright import evaluate

QUERIES, DOCUMENTS = 1000, 100


def main() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (QUERIES, DOCUMENTS))
    scores = rng.normal(size=(QUERIES, DOCUMENTS))
    qrels = {
        f"q{q}": {f"d{d}": int(labels[q, d]) for d in range(DOCUMENTS)} for q in range(QUERIES)
    }
    run = {
        f"q{q}": {f"d{d}": float(scores[q, d]) for d in range(DOCUMENTS)} for q in range(QUERIES)
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"})
    qid = np.repeat(np.arange(QUERIES), DOCUMENTS)
    flat_scores, flat_labels = scores.ravel(), labels.ravel()
    evaluate(flat_scores, flat_labels, qid=qid, metrics="ndcg@10")
    times, peer_times = [], []
    for _ in range(9):
        # Several calls per round: the first call after the peer is slower, because of the memory that the peer freed.
        for _ in range(5):
            start = time.perf_counter()
            result = evaluate(flat_scores, flat_labels, qid=qid, metrics="ndcg(gain=linear)@10")
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        peer = evaluator.evaluate(run)
        peer_times.append(time.perf_counter() - start)
    mean = np.mean([value["ndcg_cut_10"] for value in peer.values()])
    assert abs(mean - result.mean["ndcg(gain=linear)@10"]) < 1e-12
    a, b = statistics.median(times), statistics.median(peer_times)
    print(
        f"rankwright {1000 * a:.2f} ms, pytrec_eval {1000 * b:.2f} ms: {b / a:.1f} times as fast (target 10)"
    )


if __name__ == "__main__":
    main()
