"""What each default of Ranker is worth: variants, one change at a time, on validation queries.

    python benchmarks/defaults.py OUT.jsonl [--data FOLDER_OR_FILE ...] [--variants NAME ...] [--seeds 1] [--trees 300]

Every variant trains on the training part of each fold and is evaluated on the validation part, with the number of trees
that is best there and with all of them; test queries are never read. Data are those given (split as in
`rankwright bench`) and generated data of three kinds, of a seed that no benchmark uses. OUT keeps what was measured;
the same command goes on with it. The table has differences to the first variant in points, real / generated data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright.folds import read_folds

METRICS = ["ndcg@10", "map", "mrr", "err"]
KINDS = {"web": (300, 60), "sparse": (300, 60), "short": (800, 24)}  # queries, mean length


def objective(loss: str = "yetiloss(neighbours=3, permutations=5)", mse: float = 0.5) -> str:
    return f"{loss} + {mse} n^-0.5 queryrmse"


CHOSEN = {
    "metric": "ndcg@10",
    "objective": objective(),
    "leaf_values": "full",
    "reg_lambda": 3.0,
    "learning_rate": 0.08,
    "num_leaves": 16,
}
CHANGES: dict[str, dict[str, Any]] = {
    "chosen": {},
    "learning rate 0.03": {"learning_rate": 0.03},
    "learning rate 0.05": {"learning_rate": 0.05},
    "learning rate 0.12, ridge 10": {"learning_rate": 0.12, "reg_lambda": 10.0},
    "learning rate 0.12, ridge 30": {"learning_rate": 0.12, "reg_lambda": 30.0},
    "ridge 0.3": {"reg_lambda": 0.3},
    "ridge 1": {"reg_lambda": 1.0},
    "8 leaves": {"num_leaves": 8},
    "31 leaves": {"num_leaves": 31},
    "30 rows a leaf": {"min_child_samples": 30},
    "100 rows a leaf": {"min_child_samples": 100},
    "30 % of the columns": {"colsample": 0.3},
    "70 % of the queries, not rows": {"subsample": 1.0, "subsample_queries": 0.7},
    "noise 0.5": {"objective": objective("yetiloss(neighbours=3, permutations=5, strength=0.5)")},
    "noise 2": {"objective": objective("yetiloss(neighbours=3, permutations=5, strength=2)")},
    "5 neighbours": {"objective": objective("yetiloss(neighbours=5, permutations=5)")},
    "10 neighbours": {"objective": objective("yetiloss(neighbours=10, permutations=5)")},
    "queryrmse 0.2": {"objective": objective(mse=0.2)},
    "queryrmse 1": {"objective": objective(mse=1)},
    "no queryrmse": {"objective": "yetiloss(neighbours=3, permutations=5)"},
    "queryrmse alone": {"objective": "n^-0.5 queryrmse"},
    "diagonal leaves": {"leaf_values": "diagonal"},
    "for ndcg without a cutoff": {"metric": "ndcg"},
    "for map": {"metric": "map"},
    "for mrr": {"metric": "mrr"},
    "for err": {"metric": "err"},
    "yetirank": {"objective": objective("yetirank(permutations=5)")},
    "yetirank alone, diagonal, ridge 0.3": {"objective": "yetirank", "leaf_values": "diagonal", "reg_lambda": 0.3},
    "lambdamart": {"objective": objective("lambdamart")},
    "noisy Lambda-eX": {"objective": objective("lambdamart(truncation=k+3, extend=all-random, noise=logistic)")},
}


def parts(paths: list[Path]) -> Iterator[tuple[str, str, RankingData, RankingData]]:
    for path in paths:
        for fold in read_folds(path):
            yield path.name, fold.name, fold.train, fold.valid
    for kind, (queries, length) in KINDS.items():
        data = make_web_search(queries, kind=kind, mean_length=length, seed=111)  # type: ignore[arg-type]
        yield kind, "1", *data.split(0.4, seed=1)


def measure(params: dict[str, Any], train: RankingData, valid: RankingData, trees: int, seed: int) -> dict[str, Any]:
    ranker = Ranker(n_estimators=trees, random_state=seed, n_jobs=1, verbose=0, **params).fit(train)
    stages = [
        evaluate(scores, valid.y, group=valid.group, metrics=METRICS, threads=1)
        for scores in ranker.staged_predict(valid, every=5)
    ]
    best = {name: max(stages, key=lambda one: one.mean[name]).per_query[name].tolist() for name in METRICS}
    return {"best": best, "last": {name: stages[-1].per_query[name].tolist() for name in METRICS}}


def difference(rows: list[dict], variant: str, stage: str, metric: str, real: bool) -> str:
    """Mean over data sets of the mean difference to the first variant, seeds averaged per query."""
    first = next(iter(CHANGES))
    found = []
    for data in dict.fromkeys(row["data"] for row in rows if (row["data"] not in KINDS) == real):
        values = []
        for name in (variant, first):
            same = [row for row in rows if row["data"] == data and row["variant"] == name]
            folds = dict.fromkeys(row["fold"] for row in same)
            values.append([np.mean([r[stage][metric] for r in same if r["fold"] == fold], axis=0) for fold in folds])
        if len(values[0]) == len(values[1]):
            found.append(100 * np.nanmean(np.concatenate(values[0]) - np.concatenate(values[1])))
    return f"{np.mean(found):+.2f}" if found else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--variants", nargs="*", default=list(CHANGES), choices=list(CHANGES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(row["variant"], row["data"], row["fold"], row["seed"]) for row in rows}
    for data, fold, train, valid in parts(args.data):
        for variant in dict.fromkeys(["chosen", *args.variants]):
            for seed in range(args.seeds):
                if (variant, data, fold, seed) in done:
                    continue
                row = {"variant": variant, "data": data, "fold": fold, "seed": seed}
                row |= measure({**CHOSEN, **CHANGES[variant]}, train, valid, args.trees, seed)
                rows.append(row)
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print("| change | NDCG@10, best trees | MAP, best trees | NDCG@10, all trees | MAP, all trees |")
    print("|---|---|---|---|---|")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = [
            " / ".join(difference(rows, variant, stage, metric, real) for real in (True, False))
            for stage in ("best", "last")
            for metric in METRICS[:2]
        ]
        print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
