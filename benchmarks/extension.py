"""Lambda-eX against truncated gradients where few documents are relevant: three generated worlds of sparse data.

    python benchmarks/extension.py OUT.json [--worlds 3] [--cutoffs 5 10] [--trees 300] [--threads 1]

Each world has other weights of the features: 1500 training queries of 120 documents and 3000 test queries. LambdaMART
trains with the trees of the paper's Istella experiments, truncated at k, at k+3 and not at all, and extended in the
paper's reading and in the literal one. Test NDCG@k after every 50 trees is the paper's figure 4. OUT is written after
each world.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rankwright import Ranker, RankingData, compare, evaluate, make_web_search
from rankwright._io import replacing
from rankwright.environment import environment

TRAIN, TEST, LENGTH, STAGE = 1500, 3000, 120, 50
TREES: dict[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 64,
    "min_child_samples": 20,
    "reg_lambda": 0.0,
    "subsample": 1.0,
    "colsample": 1.0,
}
OBJECTIVES = {
    "tau=k": "lambdamart(truncation=k)",
    "tau=k+3": "lambdamart(truncation=k+3)",
    "tau=inf": "lambdamart",
    "eX static": "lambdamart(truncation=k, extend=static)",
    "eX all": "lambdamart(truncation=k, extend=all)",
    "eX static, literal": "lambdamart(truncation=k, extend=static, selection=literal)",
}
BASELINES = ("tau=k", "tau=k+3", "tau=inf")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--cutoffs", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for world in range(1, args.worlds + 1):
        data = make_web_search(TRAIN + TEST, kind="sparse", mean_length=LENGTH, seed=world)
        train, test = data.split(TEST / (TRAIN + TEST))
        for k in args.cutoffs:
            rows += compared(train, test, k, args.trees, args.threads, world)
        result = {
            "data": {"kind": "sparse", "training": TRAIN, "test": TEST, "length": LENGTH, "worlds": world},
            "settings": {"trees": args.trees, **TREES},
            "environment": environment(("rankwright", "lightgbm", "numpy", "numba")),
            "rows": rows,
        }
        with replacing(args.out) as file:
            file.write((json.dumps(result, indent=1) + "\n").encode())


def compared(
    train: RankingData, test: RankingData, k: int, trees: int, threads: int, world: int
) -> list[dict[str, Any]]:
    """Train every objective for NDCG@k, and compare each with the truncated ones on the test queries."""
    metric, evaluations, curves = f"ndcg@{k}", {}, {}
    for name, objective in OBJECTIVES.items():
        start = time.perf_counter()
        ranker = Ranker(objective, metric, n_estimators=trees, n_jobs=threads, verbose=0, **TREES).fit(train)
        stages = [
            evaluate(scores, test.y, qid=test.qid, metrics=[metric], threads=threads)
            for scores in ranker.staged_predict(test, every=STAGE)
        ]
        evaluations[name] = stages[-1]
        curves[name] = [100 * stage.mean[metric] for stage in stages]
        print(
            f"world {world}, {metric}: {name} {curves[name][-1]:.2f}, {time.perf_counter() - start:.0f} s", flush=True
        )
    rows = []
    for name in OBJECTIVES:
        row: dict[str, Any] = {
            "world": world,
            "metric": metric,
            "objective": name,
            "curve": curves[name],
            "against": {},
        }
        for baseline in BASELINES:
            if name == baseline:
                continue
            found = compare(evaluations[baseline], evaluations[name], names=["than", "this"], metrics=[metric]).rows[0]
            row["against"][baseline] = {
                "difference": 100 * found.difference,
                "interval": [100 * found.low, 100 * found.high],
                "p": found.p,
            }
            print(f"    {name} - {baseline}: {100 * found.difference:+.2f} p {found.p:.3g}", flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
