"""The papers' ranking of objectives on data with little noise: 3000 generated queries, at 50, 100 and 300 trees.

    python benchmarks/ordering.py OUT.json [--queries 3000] [--kind short] [--folds 5] [--seeds 2] [--threads 1]

Each objective trains for its metric with the same trees and learning rate on every fold of `folds_by_query` and is
tested on the fold's test queries. Validation queries are not used, since the number of trees is fixed. Seeds are
averaged per query, and each objective is compared with the one that it outperforms in the papers. OUT is written at the
end.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, compare, evaluate, make_web_search
from rankwright.evaluation.per_query import Evaluation
from rankwright.support.environment import environment
from rankwright.support.files import replacing
from rankwright_lab.folds import folds_by_query

STAGES = (50, 100, 300)
METRICS = ["map", "mrr", "ndcg@10"]
TREES: dict[str, Any] = {"learning_rate": 0.08, "num_leaves": 31, "leaf_values": "diagonal"}
# Metric, the better objective in the papers, and the one it is compared with. StochasticRank chooses its own step.
CLAIMS = (
    ("map", "yetiloss", "yetirank"),
    ("mrr", "yetiloss", "yetirank"),
    ("ndcg@10", "yetiloss", "yetirank"),
    ("ndcg@10", "stochasticrank", "lambdamart"),
    *(
        ("ndcg@10", f"lambdamart(truncation=k, extend={extend})", f"lambdamart(truncation={level})")
        for extend in ("static", "random", "all")
        for level in ("k", "k+3")
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--kind", default="short", choices=("web", "sparse", "short"))
    parser.add_argument("--length", type=float)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    data = make_web_search(args.queries, kind=args.kind, mean_length=args.length)
    trainings = list(
        dict.fromkeys(training(metric, one) for metric, *both in CLAIMS for one in both)
    )
    values: dict[tuple[str, str, int], list[Any]] = {}
    for fold in list(folds_by_query(data, 5))[: args.folds]:
        for metric, objective in trainings:
            by_stage = test_values(fold, metric, objective, args.seeds, args.threads)
            for trees, value in by_stage.items():
                values.setdefault((metric, objective, trees), []).append(value)
    rows = [row(values, *claim, trees) for claim in CLAIMS for trees in STAGES]
    result = {
        "data": {
            "kind": args.kind,
            "queries": args.queries,
            "documents": data.n_rows,
            "folds": args.folds,
        },
        "settings": {"seeds": args.seeds, "trees": TREES},
        "environment": environment(("rankwright", "lightgbm", "numpy", "numba")),
        "rows": rows,
    }
    with replacing(args.out) as file:
        file.write((json.dumps(result, indent=1) + "\n").encode())
    for one in rows:
        low, high = one["interval"]
        print(
            f"{one['trees']:4d} trees  {one['metric']:8s} {one['better']} {one['value']:.2f}, against {one['than']}: "
            f"{one['difference']:+.2f} [{low:+.2f}, {high:+.2f}] p {one['p']:.3g}"
        )


def training(metric: str, objective: str) -> tuple[str, str]:
    """Return the metric to train for, and the objective; one training of YetiRank serves all metrics."""
    return ("ndcg@10" if objective == "yetirank" else metric, objective)


def test_values(fold: Any, metric: str, objective: str, seeds: int, threads: int) -> dict[int, Any]:
    """Return metrics [metric, query] of the test queries by number of trees, seeds averaged."""
    own_step = {"learning_rate": None} if objective == "stochasticrank" else {}
    values: dict[int, list[Any]] = {trees: [] for trees in STAGES}
    for seed in range(seeds):
        start = time.perf_counter()
        ranker = Ranker(
            objective,
            metric,
            n_estimators=STAGES[-1],
            random_state=seed,
            n_jobs=threads,
            verbose=0,
            **{**TREES, **own_step},
        ).fit(fold.train)
        for number, scores in enumerate(ranker.staged_predict(fold.test, every=STAGES[0]), start=1):
            if number * STAGES[0] in values:
                result = evaluate(
                    scores, fold.test.y, group=fold.test.group, metrics=METRICS, n_jobs=threads
                )
                values[number * STAGES[0]].append([result.per_query[name] for name in METRICS])
        print(
            f"fold {fold.name}, seed {seed}: {objective} for {metric}, {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    return {trees: np.mean(each, axis=0) for trees, each in values.items()}


def row(
    values: dict[Any, list[Any]], metric: str, better: str, than: str, trees: int
) -> dict[str, Any]:
    """Compare two objectives over the test queries of all folds; values are in points."""
    column = METRICS.index(metric)
    both = [
        np.concatenate([part[column] for part in values[*training(metric, one), trees]])
        for one in (than, better)
    ]
    ids = np.arange(len(both[0])).astype(str)
    evaluations = [
        Evaluation(
            {metric: float(np.nanmean(one))},
            {metric: one},
            query_ids=ids,
            ties="worst",
            empty="skip",
        )
        for one in both
    ]
    comparison = compare(*evaluations, names=["than", "better"], metrics=[metric]).rows[0]
    return {
        "metric": metric,
        "better": better,
        "than": than,
        "trees": trees,
        "value": 100 * float(np.nanmean(both[1])),
        "difference": 100 * comparison.difference,
        "interval": [100 * comparison.low, 100 * comparison.high],
        "p": comparison.p,
    }


if __name__ == "__main__":
    main()
