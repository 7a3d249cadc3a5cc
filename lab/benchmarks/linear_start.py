"""Boosting from a linear ranker against boosting from nothing, and against other libraries, on test queries.

    python benchmarks/linear_start.py OUT.jsonl [--data FOLDER_OR_FILE ...] [--systems NAME ...] [--seeds 1]
        [--trees 300]

Every system trains on the training and validation part of each fold together, with all trees, and is evaluated on the
test part. Data are those given (split as in `rankwright-lab bench`) and three kinds of generated data at two sizes
each, of worlds that no choice was made on. OUT stores the measurements, and the same command resumes from it. The table
has means, and differences from the default paired by query with their standard errors, by data set and pooled.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright_lab.folds import read_folds
from rankwright_lab.peers import CatBoost, LightGBM, XGBoost

METRICS = ["ndcg@10", "map"]
# Kind, training queries, mean length, test queries.
WORLDS = (
    ("web", 60, 60, 300),
    ("web", 200, 60, 300),
    ("short", 100, 24, 600),
    ("short", 500, 24, 600),
    ("sparse", 60, 150, 300),
    ("sparse", 200, 100, 300),
)
SEED = 523  # of the worlds
REFERENCE = "default"


class Part(NamedTuple):
    """Queries to train on and queries to evaluate."""

    data: str
    fold: str
    train: RankingData
    test: RankingData


def parts(paths: list[Path]) -> Iterator[Part]:
    for path in paths:
        for fold in read_folds(path):
            train = RankingData.concatenate([fold.train, fold.valid])
            yield Part(path.name, fold.name, train, fold.test)
    for kind, n_train, length, n_test in WORLDS:
        settings: dict[str, Any] = {"kind": kind, "mean_length": length, "random_state": SEED}
        train = make_web_search(n_train, **settings)
        test = make_web_search(n_test, first_query=n_train, **settings)
        yield Part(f"{kind}, {n_train}", "1", train, test)


def own(**params: Any) -> Callable[[Part, int, int], Any]:
    """Return a function that trains a Ranker and scores the test queries."""

    def scores(part: Part, trees: int, seed: int) -> Any:
        ranker = Ranker(n_estimators=trees, random_state=seed, n_jobs=1, verbose=0, **params)
        return ranker.fit(part.train).predict(part.test)

    return scores


def other(peer: Any) -> Callable[[Part, int, int], Any]:
    """Return a function that trains a ranker of another library."""

    def scores(part: Part, trees: int, seed: int) -> Any:
        model = peer.fit(part.train, "ndcg@10", trees=trees, seed=seed, threads=1)
        *_, last = model.staged_predict(part.test, trees)
        return last

    return scores


def catboost_from_start(part: Part, trees: int, seed: int) -> Any:
    """Train CatBoost's QueryRMSE from the linear scores that rankwright starts from."""
    import catboost

    linear = Ranker(start="linear", n_estimators=1, n_jobs=1, verbose=0).fit(part.train).linear_
    starts = [linear.scores(data.X, data.queries.grouped()) for data in part[2:]]
    pools = [
        catboost.Pool(
            data.X,
            data.y,
            group_id=np.repeat(np.arange(data.n_queries), data.group),
            baseline=start,
        )
        for data, start in zip(part[2:], starts, strict=True)
    ]
    params = {"iterations": trees, "random_seed": seed, "thread_count": 1, "verbose": False}
    params |= {"loss_function": "QueryRMSE", "allow_writing_files": False}
    return catboost.CatBoost(params).fit(pools[0]).predict(pools[1])


SYSTEMS: dict[str, Callable[[Part, int, int], Any]] = {
    REFERENCE: own(),
    "start": own(start="linear"),
    "start on single documents": own(start="linear-global"),
    "catboost QueryRMSE": other(CatBoost("QueryRMSE")),
    "catboost QueryRMSE, same start": catboost_from_start,
    "ranks": own(within_query="rank"),
    "start, ranks": own(start="linear", within_query="rank"),
    "catboost YetiRank": other(CatBoost("YetiRank")),
    "lightgbm lambdarank": other(LightGBM("lambdarank")),
    "xgboost rank:ndcg": other(XGBoost("rank:ndcg")),
    "start, ranks, 4 members": own(start="linear", within_query="rank", members=4),
}


def by_query(rows: list[dict[str, Any]], system: str, metric: str) -> dict[str, Any]:
    """Return the values of the queries of each fold, averaged over seeds."""
    values = defaultdict(list)
    for row in rows:
        if row["system"] == system:
            values[f"{row['data']} / {row['fold']}"].append(row[metric])
    return {fold: np.mean(each, axis=0) for fold, each in values.items()}


def cell(rows: list[dict[str, Any]], system: str, metric: str) -> str:
    """Return the mean of the reference, or a difference from it, with its standard error."""
    own_values, reference = (by_query(rows, name, metric) for name in (system, REFERENCE))
    shared = sorted(own_values.keys() & reference.keys())
    if not shared:
        return "-"
    values = np.concatenate([own_values[fold] for fold in shared])
    if system == REFERENCE:
        return f"{100 * np.nanmean(values):.2f}"
    differences = 100 * (values - np.concatenate([reference[fold] for fold in shared]))
    differences = differences[~np.isnan(differences)]
    error = differences.std() / np.sqrt(len(differences))
    return f"{differences.mean():+.2f} ± {error:.2f}"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = list(dict.fromkeys(row["data"] for row in rows))
    yield "| system | " + " | ".join(names) + " | pooled |"
    yield "|---|" + "---|" * (len(names) + 1)
    for system in SYSTEMS:
        cells = []
        for name in [*names, None]:
            some = [row for row in rows if name in (None, row["data"])]
            cells.append(", ".join(cell(some, system, metric) for metric in METRICS))
        yield f"| {system} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    rows = []
    if args.out.exists():
        rows = [json.loads(line) for line in args.out.read_text().splitlines()]
    done = {(row["system"], row["data"], row["fold"], row["seed"]) for row in rows}
    work = list(parts(args.data))
    # Systems are in the outer loop, so that a run that ends early has whole columns.
    for seed in range(args.seeds):
        for system in dict.fromkeys([REFERENCE, *args.systems]):
            for part in work:
                if (system, part.data, part.fold, seed) in done:
                    continue
                began = time.process_time()
                scores = SYSTEMS[system](part, args.trees, seed)
                values = evaluate(
                    scores, part.test.y, group=part.test.group, metrics=METRICS, n_jobs=1
                )
                row = {"system": system, "data": part.data, "fold": part.fold, "seed": seed}
                row["seconds"] = time.process_time() - began
                row |= {name: np.asarray(values.per_query[name]).tolist() for name in METRICS}
                rows.append(row)
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for line in table(rows):
        print(line)


if __name__ == "__main__":
    main()
