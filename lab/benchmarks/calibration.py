"""How far calibrated values are from what they claim, on held-out generated queries; and whether anything else changes.

    python benchmarks/calibration.py OUT.json [--queries 6000] [--trees 100] [--pairs 1000] [--threads 1]

A tenth of the queries trains each model, the others are halved: calibration, test. On the test queries

    error      expected calibration error in 15 bins of equal numbers of documents, as a share of the largest target
    maps       "raw": 1 / (1 + exp(-score)), the raw scores put through one logistic map;
               "logistic": a logistic map fitted on the calibration queries; "isotonic": an isotonic one
    order      queries in which the calibrated values order the documents otherwise than the scores do
    anchors    the same for objectives with and without an anchor, with ndcg@10 and the share of pairs of a relevant and
               another document, of any two queries, that are in order
    pairs      largest difference between the exact sum of an explanation and the difference of the two scores

OUT is written at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.calibration import targets_of
from rankwright.support.environment import environment
from rankwright.support.files import replacing

OBJECTIVES = ("auto", "lambdamart")
ANCHORED = ("yetiloss", "yetiloss + 0.1 rmse", "yetiloss + 0.1 logistic")
FEATURES = 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    start = time.perf_counter()
    errors, anchors, pairs = [], [], 0.0
    for kind in ("web", "short"):
        data = rw.make_web_search(args.queries, kind=kind, n_features=FEATURES, random_state=1)
        train, rest = data.split(0.9, random_state=1)
        held_out, test = rest.split(0.5, random_state=2)
        for objective in OBJECTIVES + (ANCHORED if kind == "web" else ()):
            options = {"n_estimators": args.trees, "n_jobs": args.threads, "verbose": 0}
            ranker = rw.Ranker(objective, metric="ndcg@10", **options).fit(train)
            rows = [measure(ranker, held_out, test, target) for target in ("label", "relevance")]
            if objective in OBJECTIVES:
                errors += [{"data": kind, "objective": objective, **row} for row in rows]
                pairs = max(pairs, largest_gap(ranker, test, args.pairs))
            else:
                anchors.append(
                    {"objective": objective, **levels(ranker, test), "error": rows[1]["isotonic"]}
                )
            print(
                kind,
                objective,
                [f"{row['target']}: {row['isotonic']:.4f} of {row['raw']:.4f}" for row in rows],
            )
    result = {
        "seconds": time.perf_counter() - start,
        "queries": args.queries,
        "trees": args.trees,
        "features": FEATURES,
        "errors": errors,
        "anchors": anchors,
        "largest_gap_of_explanations": pairs,
        "environment": environment(("rankwright", "numpy", "lightgbm")),
    }
    with replacing(args.out) as file:
        file.write((json.dumps(result, indent=1) + "\n").encode())


def measure(
    ranker: rw.Ranker, held_out: rw.RankingData, test: rw.RankingData, target: str
) -> dict[str, Any]:
    """Errors of the three maps, and the queries whose order changed."""
    scores, targets = ranker.predict(test), targets_of(test.y, target, 1)
    top = float(targets.max())
    values = {"raw": top / (1 + np.exp(-scores))}
    changed = 0
    for method in ("logistic", "isotonic"):
        ranker.calibrate(held_out, method=method, target=target)
        values[method] = ranker.predict(test, calibrated=True)
        bounds = zip(test.boundaries[:-1], test.boundaries[1:], strict=True)
        changed += sum(not same_order(scores[a:b], values[method][a:b]) for a, b in bounds)
    errors = {
        name: rw.reliability(one, targets, group=test.group).error / top
        for name, one in values.items()
    }
    return {"target": target, **errors, "orders_changed": changed}


def same_order(scores: Any, values: Any) -> bool:
    return np.array_equal(
        np.argsort(-scores, kind="stable"), np.argsort(-values, kind="stable")
    ) and len(np.unique(scores)) == len(np.unique(values))


def levels(ranker: rw.Ranker, test: rw.RankingData) -> dict[str, float]:
    """Quality within queries, and the share of pairs of documents of any queries in the order of relevance."""
    scores, relevant = ranker.predict(test), test.y >= 1
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    n, m = int(relevant.sum()), int((~relevant).sum())
    concordant = (ranks[relevant].sum() - n * (n + 1) / 2) / (n * m)
    return {"ndcg@10": ranker.score(test), "across_queries": float(concordant)}


def largest_gap(ranker: rw.Ranker, test: rw.RankingData, n_pairs: int) -> float:
    draw = np.random.default_rng(0)
    rows = test.subset(np.arange(50))
    scores = ranker.predict(rows)
    gap = 0.0
    for a, b in draw.integers(0, rows.n_rows, (n_pairs, 2)).tolist():
        if a != b:
            why = ranker.explain(rows, a, b)
            gap = max(gap, abs(math.fsum(why.differences) - (scores[a] - scores[b])))
    return gap


if __name__ == "__main__":
    main()
