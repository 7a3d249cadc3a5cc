"""The effect of each default of Ranker: variants with one change each, on validation queries.

    python benchmarks/defaults.py OUT.jsonl [--data FOLDER_OR_FILE ...] [--variants NAME ...] [--seeds 1] [--trees 300]

Every variant trains on the training part of each fold and is evaluated on the validation part, with all trees and with
a number of trees that is chosen on one half of the validation queries and evaluated on the other, averaged over many
random halves. Test queries are never read. Data are those given (split as in `rankwright bench`) and generated data of
three kinds, with a seed that no benchmark uses. OUT stores the measurements, and the same command resumes from it. The
table has differences from the first variant in points, real / generated data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright_lab.folds import read_folds

METRICS = ["ndcg@10", "map", "mrr", "err"]
SPLITS = 20
KINDS = {"web": (300, 60), "sparse": (300, 60), "short": (800, 24)}  # queries, mean length


def objective(loss: str = "yetiloss(neighbours=3, permutations=2)", mse: float = 0.03) -> str:
    return f"0.03 {loss} + {mse} n^-0.5 queryrmse"


FULL = {"leaf_values": "full"}
CHANGES: dict[str, dict[str, Any]] = {
    "chosen": {},
    **{f"learning rate {rate}": {"learning_rate": rate} for rate in (0.02, 0.03, 0.06, 0.1)},
    **{f"ridge {ridge}": {"reg_lambda": ridge} for ridge in (0.1, 1.0)},
    **{f"{leaves} leaves": {"num_leaves": leaves} for leaves in (8, 31)},
    **{f"{rows} rows per leaf": {"min_child_samples": rows} for rows in (20, 100)},
    **{f"{share:.0%} of the columns": {"colsample": share} for share in (0.5, 1.0)},
    **{f"{bins} bins": {"engine_params": {"max_bin": bins}} for bins in (15, 31, 127, 255)},
    "half of the columns per split": {
        "colsample": 1.0,
        "engine_params": {"feature_fraction_bynode": 0.5},
    },
    "extremely random thresholds": {"engine_params": {"extra_trees": True}},
    **{f"temperature {heat}": {"bagging_temperature": heat} for heat in (0.5, 1.0)},
    **{f"{share:.0%} of the rows, no weights": {"subsample": share} for share in (0.5, 0.7, 1.0)},
    "70% of the queries, not rows": {"subsample": 1.0, "subsample_queries": 0.7},
    **{
        f"noise {noise}": {
            "objective": objective(f"yetiloss(neighbours=3, permutations=2, strength={noise})"),
            **FULL,
        }
        for noise in (0.5, 2.0)
    },
    **{
        f"{number} permutations": {
            "objective": objective(f"yetiloss(neighbours=3, permutations={number})"),
            **FULL,
        }
        for number in (1, 5, 20)
    },
    **{
        f"{number} neighbours": {
            "objective": objective(f"yetiloss(neighbours={number}, permutations=2)"),
            **FULL,
        }
        for number in (1, 5, 10)
    },
    **{
        f"queryrmse {weight}": {"objective": objective(mse=weight), **FULL}
        for weight in (0.006, 0.015, 0.06)
    },
    "no queryrmse": {"objective": "0.03 yetiloss(neighbours=3, permutations=2)", **FULL},
    "queryrmse alone": {"objective": "0.03 n^-0.5 queryrmse", **FULL},
    "diagonal leaves": {"leaf_values": "diagonal"},
    **{f"for {metric}": {"metric": metric} for metric in ("ndcg", "map", "mrr", "err")},
    "yetirank": {"objective": objective("yetirank(permutations=5)"), **FULL},
    "yetirank alone, diagonal": {"objective": "yetirank", "leaf_values": "diagonal"},
    "lambdamart": {"objective": objective("lambdamart"), **FULL},
    "noisy Lambda-eX": {
        "objective": objective("lambdamart(truncation=k+3, extend=all-random, noise=logistic)"),
        **FULL,
    },
}


def parts(paths: list[Path]) -> Iterator[tuple[str, str, RankingData, RankingData]]:
    for path in paths:
        for fold in read_folds(path):
            yield path.name, fold.name, fold.train, fold.valid
    for kind, (queries, length) in KINDS.items():
        data = make_web_search(queries, kind=kind, mean_length=length, random_state=111)  # type: ignore[arg-type]
        yield kind, "1", *data.split(0.4, random_state=1)


def measure(
    params: dict[str, Any], train: RankingData, valid: RankingData, trees: int, seed: int
) -> dict[str, Any]:
    ranker = Ranker(n_estimators=trees, random_state=seed, n_jobs=1, verbose=0, **params).fit(train)
    stages = [
        evaluate(scores, valid.y, group=valid.group, metrics=METRICS, n_jobs=1)
        for scores in ranker.staged_predict(valid, every=5)
    ]
    values = {name: np.array([one.per_query[name] for one in stages]) for name in METRICS}
    return {
        "chosen": {name: chosen(each).tolist() for name, each in values.items()},
        "all": {name: each[-1].tolist() for name, each in values.items()},
    }


def chosen(values: Any) -> Any:
    """Return the value of each query at the stage chosen on the other random half; ``values`` is [stage, query]."""
    n = values.shape[1]
    total = np.zeros(n)
    draw = np.random.default_rng(0)
    for _ in range(SPLITS):
        half = draw.permutation(n) < n // 2
        for own, others in ((half, ~half), (~half, half)):
            total[own] += values[np.nanmean(values[:, others], axis=1).argmax()][own] / SPLITS
    return total


def difference(rows: list[dict], variant: str, stage: str, metric: str, real: bool) -> str:
    """Return the mean over data sets of the mean difference from the first variant, seeds averaged per query."""
    first = next(iter(CHANGES))
    differences = []
    for data in dict.fromkeys(row["data"] for row in rows if (row["data"] not in KINDS) == real):
        values = []
        for name in (variant, first):
            same = [row for row in rows if row["data"] == data and row["variant"] == name]
            folds = dict.fromkeys(row["fold"] for row in same)
            values.append(
                [
                    np.mean([r[stage][metric] for r in same if r["fold"] == fold], axis=0)
                    for fold in folds
                ]
            )
        if len(values[0]) == len(values[1]):
            differences.append(
                100 * np.nanmean(np.concatenate(values[0]) - np.concatenate(values[1]))
            )
    return f"{np.mean(differences):+.2f}" if differences else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--variants", nargs="*", default=list(CHANGES), choices=list(CHANGES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    rows = (
        [json.loads(line) for line in args.out.read_text().splitlines()]
        if args.out.exists()
        else []
    )
    done = {(row["variant"], row["data"], row["fold"], row["seed"]) for row in rows}
    for data, fold, train, valid in parts(args.data):
        for variant in dict.fromkeys(["chosen", *args.variants]):
            for seed in range(args.seeds):
                if (variant, data, fold, seed) in done:
                    continue
                row = {"variant": variant, "data": data, "fold": fold, "seed": seed}
                row |= measure(
                    {"metric": "ndcg@10", **CHANGES[variant]}, train, valid, args.trees, seed
                )
                rows.append(row)
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(
        "| change | NDCG@10, chosen trees | MAP, chosen trees | NDCG@10, all trees | MAP, all trees |"
    )
    print("|---|---|---|---|---|")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = [
            " / ".join(difference(rows, variant, stage, metric, real) for real in (True, False))
            for stage in ("chosen", "all")
            for metric in METRICS[:2]
        ]
        print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
