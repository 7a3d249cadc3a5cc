"""Both engines side by side: quality on folds of a LETOR folder, and time on generated documents as ratios in one run.

    python benchmarks/engines.py quality FOLDER [--seeds 5] [--objectives auto lambdamart yetirank] [--out results.json]
    python benchmarks/engines.py speed [--queries 2950] [--trees 10] [--rounds 3] [--threads 1]

`quality` trains with 300 trees, early stopping after 100 on the validation part, and prints NDCG@10 and MAP on the test
part: the mean over folds and seeds, and the difference of the engines with a 95 % interval over the queries (values of
a query are averaged over seeds first). `speed` times 64 leaves without samples, and XGBoost's own rank:ndcg.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright_lab.folds import read_folds

ENGINES = ("lightgbm", "xgboost")
METRICS = ("ndcg@10", "map")


def quality(folder: str, objectives: list[str], seeds: int, n_folds: int, out: Path | None) -> None:
    folds = list(read_folds(folder))[:n_folds]
    results: dict[str, Any] = {}
    for objective in objectives:
        values = {(engine, metric): [] for engine in ENGINES for metric in METRICS}
        for fold in folds:
            for engine in ENGINES:
                per_query = []
                for seed in range(seeds):
                    ranker = Ranker(
                        objective,
                        list(METRICS),
                        engine,
                        early_stopping_rounds=100,
                        random_state=seed,
                        n_jobs=1,
                        verbose=0,
                    ).fit(fold.train, eval_set=[fold.valid])
                    test = fold.test
                    result = evaluate(
                        ranker.predict(test),
                        test.y,
                        group=test.group,
                        metrics=METRICS,
                        empty="zero",
                        n_jobs=1,
                    )
                    per_query.append([result.per_query[metric] for metric in METRICS])
                for number, metric in enumerate(METRICS):
                    values[engine, metric].append(np.mean(per_query, axis=0)[number])
        for metric in METRICS:
            ours, theirs = (np.concatenate(values[engine, metric]) for engine in ENGINES[::-1])
            difference = ours - theirs
            half = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
            row = {
                "xgboost": ours.mean(),
                "lightgbm": theirs.mean(),
                "difference": difference.mean(),
                "half": half,
            }
            results[f"{objective} {metric}"] = row
            print(
                f"{objective:<12} {metric:<8} lightgbm {row['lightgbm']:.4f}  xgboost {row['xgboost']:.4f}  "
                f"difference {row['difference']:+.4f} +- {half:.4f}",
                flush=True,
            )
    if out is not None:
        out.write_text(
            json.dumps({"seeds": seeds, "folds": len(folds), "results": results}, indent=1) + "\n"
        )


def plain_xgboost(data: RankingData, trees: int, threads: int) -> Callable[[], object]:
    import xgboost as xgb

    params = {
        "objective": "rank:ndcg",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": 64,
    }
    params |= {
        "max_depth": 0,
        "eta": 0.05,
        "nthread": threads,
        "max_bin": 255,
        "lambda": 0.3,
        "verbosity": 0,
    }

    def run() -> object:
        matrix = xgb.QuantileDMatrix(data.X, data.y, qid=data.qid, max_bin=255, nthread=threads)
        return xgb.train(params, matrix, trees)

    return run


def speed(queries: int, trees: int, rounds: int, threads: int) -> None:
    data = make_web_search(queries, random_state=1)
    common: dict[str, Any] = {
        "num_leaves": 64,
        "subsample": 1.0,
        "colsample": 1.0,
        "n_estimators": trees,
    }
    common |= {"n_jobs": threads, "verbose": 0, "learning_rate": 0.05}
    systems: dict[str, Callable[[], object]] = {
        f"{engine} {objective}": lambda e=engine, o=objective: Ranker(o, engine=e, **common).fit(
            data
        )
        for objective in ("lambdamart", "auto")
        for engine in ENGINES
    }
    systems["plain XGBoost rank:ndcg"] = plain_xgboost(data, trees, threads)
    print(f"{data}, {trees} trees of 64 leaves, {threads} threads, {rounds} rounds")
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    base = statistics.median(times["plain XGBoost rank:ndcg"])
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{name:<26} {median:6.2f} s   {median / base:5.2f} of plain XGBoost")


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("quality")
    command.add_argument("folder")
    command.add_argument("--objectives", nargs="+", default=["auto", "lambdamart", "yetirank"])
    command.add_argument("--seeds", type=int, default=5)
    command.add_argument("--folds", type=int, default=5)
    command.add_argument("--out", type=Path)
    command = commands.add_parser("speed")
    command.add_argument("--queries", type=int, default=2950)
    command.add_argument("--trees", type=int, default=10)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.command == "quality":
        quality(
            arguments.folder, arguments.objectives, arguments.seeds, arguments.folds, arguments.out
        )
    else:
        speed(arguments.queries, arguments.trees, arguments.rounds, arguments.threads)


if __name__ == "__main__":
    main()
