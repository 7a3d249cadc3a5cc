"""Ablation of StochasticRank (table 3 of the paper) on LETOR folds: what CCS, SFA, mu and SGLB add to REINFORCE.

    python benchmarks/ablation.py FOLDER [--seeds 3] [--trees 300] [--out results.json]

FOLDER holds S1.txt ... S5.txt (MQ2008). Fold f trains on three parts, chooses the number of trees on the fourth and
tests on the fifth; seeds are averaged per query and all test queries are pooled before the paired tests.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from rankwright import Evaluation, Ranker, RankingData, compare, evaluate, read_letor

METRIC = "ndcg@5"
SGLB = {"langevin": True, "diffusion_temperature": 1e4, "shrink_rate": 1e-3}
METHODS: dict[str, tuple[str, dict]] = {
    "REINFORCE": ("stochasticrank(estimator=reinforce, sfa=False)", {}),
    "CCS": ("stochasticrank(sfa=False)", {}),
    "CCS + SFA": ("stochasticrank", {}),
    "CCS + SFA + mu": ("stochasticrank(mu=0.1)", {}),
    "CCS + SFA + SGLB": ("stochasticrank", SGLB),
    "CCS + SFA + mu + SGLB": ("stochasticrank(mu=0.1)", SGLB),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    parts = read_letor([args.folder / f"S{number}.txt" for number in range(1, 6)])
    evaluations = {}
    for name, (objective, options) in METHODS.items():
        began = time.perf_counter()
        pooled, ids = [], []
        for fold in range(5):
            train = RankingData.concatenate([parts[(fold + i) % 5] for i in range(3)])
            valid, test = parts[(fold + 3) % 5], parts[(fold + 4) % 5]
            runs = []
            for seed in range(args.seeds):
                ranker = Ranker(
                    objective,
                    METRIC,
                    n_estimators=args.trees,
                    early_stopping_rounds=args.trees,
                    random_state=seed,
                    n_jobs=args.threads,
                    verbose=0,
                    **options,
                )
                ranker.fit(train, eval_set=[valid])
                result = evaluate(ranker.predict(test), test.y, group=test.group, metrics=METRIC)
                runs.append(result.per_query[METRIC])
            pooled.append(np.mean(runs, axis=0))
            ids.append(test.query_ids)
        values = np.concatenate(pooled)
        evaluations[name] = Evaluation(
            mean={METRIC: float(np.nanmean(values))},
            per_query={METRIC: values},
            query_ids=np.concatenate(ids),
            ties="worst",
            empty="skip",
        )
        print(f"{name:24s} {100 * np.nanmean(values):.2f}   ({time.perf_counter() - began:.0f} s)", flush=True)
    table = compare(*evaluations.values(), names=list(evaluations))
    print(table)
    if args.out:
        args.out.write_text(json.dumps(table.to_dict(), indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
