"""What makes CatBoost's QueryRMSE good: its training with one change at a time, on validation queries.

    python benchmarks/parts_of_catboost.py OUT.jsonl [--data FOLDER_OR_FILE ...] [--seeds 5] [--trees 300]

Every variant trains on the training part of each fold and is evaluated on the validation part, with all trees. Test
queries are never read. Data are those given (split as in `rankwright-lab bench`) and generated data of two kinds, with
a seed that no other benchmark uses. OUT stores the measurements, and the same command resumes from it. The table has
differences from CatBoost's own settings in points of NDCG@10 and MAP, paired by query, with their standard errors.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from catboost import CatBoost, Pool

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright_lab.folds import read_folds

METRICS = ["ndcg@10", "map"]
KINDS = {"sparse": (250, 60), "short": (600, 24)}  # queries, mean length
WORLD = 211  # seed of the generated data
REFERENCE = "catboost"
# Leaf-wise trees with as many leaves as a depth of 6 allows, and with as many as rankwright's.
LEAF_WISE = {"grow_policy": "Lossguide", "max_leaves": 64, "depth": 6}
FEW_LEAVES = {"grow_policy": "Lossguide", "max_leaves": 16, "min_data_in_leaf": 50, "depth": 8}

CATBOOST: dict[str, dict[str, Any]] = {
    REFERENCE: {},
    "leaf-wise, 64 leaves": LEAF_WISE,
    "leaf-wise, 16 leaves of 50 rows": FEW_LEAVES,
    "no noise in gains": {"random_strength": 0},
    "no bootstrap": {"bootstrap_type": "No"},
    "no noise, no bootstrap": {"random_strength": 0, "bootstrap_type": "No"},
    "32 borders": {"border_count": 32},
    "rate 0.06": {"learning_rate": 0.06},
    "rate 0.1": {"learning_rate": 0.1},
    "gradient leaves": {"leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 1},
    "five steps in leaves": {"leaf_estimation_iterations": 5},
    "l2 1": {"l2_leaf_reg": 1},
    "l2 10": {"l2_leaf_reg": 10},
    "depth 4": {"depth": 4},
    "1000 trees": {"iterations": 1000},
}
RANKWRIGHT: dict[str, dict[str, Any]] = {
    "rankwright default": {},
    "rankwright queryrmse": {"objective": "0.1 n^-0.5 queryrmse", "leaf_values": "full"},
}


@dataclass(frozen=True)
class Part:
    """Training and validation queries of a fold."""

    data: str
    fold: str
    train: RankingData
    valid: RankingData


def parts(paths: list[Path]) -> Iterator[Part]:
    for path in paths:
        for fold in read_folds(path):
            yield Part(path.name, fold.name, fold.train, fold.valid)
    for kind, (queries, length) in KINDS.items():
        data = make_web_search(queries, kind=kind, mean_length=length, random_state=WORLD)  # type: ignore[arg-type]
        yield Part(kind, "1", *data.split(0.5, random_state=1))


def catboost_scores(part: Part, changes: dict[str, Any], trees: int, seed: int) -> Any:
    params = {
        "loss_function": "QueryRMSE",
        "iterations": trees,
        "random_seed": seed,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
    }
    model = CatBoost(params | changes).fit(pool(part.train))
    return model.predict(pool(part.valid)), model.get_all_params()["learning_rate"]


def pool(data: RankingData) -> Pool:
    return Pool(data.X, data.y, group_id=np.repeat(np.arange(data.n_queries), data.group))


def measure(part: Part, variant: str, trees: int, seed: int) -> dict[str, Any]:
    """Return the metrics of each validation query."""
    if variant in CATBOOST:
        scores, rate = catboost_scores(part, CATBOOST[variant], trees, seed)
    else:
        ranker = Ranker(
            n_estimators=trees, random_state=seed, n_jobs=1, verbose=0, **RANKWRIGHT[variant]
        ).fit(part.train)
        scores, rate = ranker.predict(part.valid), ranker.learning_rate_
    values = evaluate(scores, part.valid.y, group=part.valid.group, metrics=METRICS, n_jobs=1)
    found = {name: np.asarray(values.per_query[name]).tolist() for name in METRICS}
    return {"rate": rate, **found}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of differences from the reference."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    yield "| change | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for variant in [*CATBOOST, *RANKWRIGHT]:
        cells = [cell(rows, variant, name) for name in names]
        yield f"| {variant} | " + " | ".join(cells) + " |"


def cell(rows: list[dict[str, Any]], variant: str, data: str) -> str:
    found = []
    for metric in METRICS:
        own, reference = (by_query(rows, name, data, metric) for name in (variant, REFERENCE))
        shared = sorted(own.keys() & reference.keys())
        if not shared:
            return "-"
        values = np.concatenate([own[key] for key in shared])
        if variant == REFERENCE:
            found.append(f"{100 * np.nanmean(values):.2f}")
            continue
        differences = 100 * (values - np.concatenate([reference[key] for key in shared]))
        n = np.count_nonzero(~np.isnan(differences))
        error = np.nanstd(differences) / np.sqrt(n)
        found.append(f"{np.nanmean(differences):+.2f} ± {error:.2f}")
    return ", ".join(found)


def by_query(rows: list[dict[str, Any]], variant: str, data: str, metric: str) -> dict[str, Any]:
    """Return the values of each fold's queries, averaged over the seeds."""
    values = defaultdict(list)
    for row in rows:
        if row["variant"] == variant and row["data"] == data:
            values[row["fold"]].append(row[metric])
    return {fold: np.mean(each, axis=0) for fold, each in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    rows = []
    if args.out.exists():
        rows = [json.loads(line) for line in args.out.read_text().splitlines()]
    done = {(row["variant"], row["data"], row["fold"], row["seed"]) for row in rows}
    work = list(parts(args.data))
    for seed in range(args.seeds):
        for part in work:
            for variant in [*CATBOOST, *RANKWRIGHT]:
                if (variant, part.data, part.fold, seed) in done:
                    continue
                row = {"variant": variant, "data": part.data, "fold": part.fold, "seed": seed}
                row |= measure(part, variant, args.trees, seed)
                rows.append(row)
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for line in table(rows):
        print(line)


if __name__ == "__main__":
    main()
