"""Leaves by the number of training queries: smaller trees against the default, on other queries.

    python benchmarks/leaves.py [--data FOLDER_OR_FILE ...] [--worlds 3] [--seed 900] [--leaves 8]

Each kind of generated data is drawn with 40, 100 and 200 training queries and evaluated on 400 others. Data of files
train on the training part of each fold and are evaluated on the validation part, so test queries decide nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, evaluate, make_web_search
from rankwright_lab.folds import read_folds

METRICS = ["ndcg@10", "map"]
LENGTHS = {"web": 100, "short": 24, "sparse": 150}
QUERIES = (40, 100, 200)
N_TEST = 400


def values(train: RankingData, test: RankingData, **params: Any) -> np.ndarray:
    """Train, and return the metrics of each test query in per cent [metrics, queries]."""
    ranker = Ranker(n_jobs=1, verbose=0, **params).fit(train)
    seen = evaluate(ranker.predict(test), test.y, group=test.group, metrics=METRICS, n_jobs=1)
    return 100 * np.array([seen.per_query[name] for name in METRICS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=900)
    parser.add_argument("--leaves", type=int, default=8)
    args = parser.parse_args()
    parts: list[tuple[str, RankingData, RankingData]] = []
    for path in args.data:
        parts += [(path.name, fold.train, fold.valid) for fold in read_folds(path)]
    for kind, length in LENGTHS.items():
        for n_train in QUERIES:
            for world in range(args.worlds):
                settings: dict[str, Any] = {"kind": kind, "mean_length": length}
                settings["seed"] = args.seed + world
                train = make_web_search(n_train, **settings)
                test = make_web_search(N_TEST, first_query=n_train, **settings)
                parts.append((f"{kind}, {n_train}", train, test))
    differences = defaultdict(list)
    for name, train, test in parts:
        default = values(train, test)
        smaller = values(train, test, num_leaves=args.leaves)
        differences[name].append(smaller - default)
        differences["all"].append(smaller - default)
        print(name, len(differences[name]), flush=True)
    print(f"\n| data | {args.leaves} leaves less default, NDCG@10 | MAP |\n|---|--:|--:|")
    for name, found in differences.items():
        cells = []
        for each in np.concatenate(found, axis=1):
            known = each[~np.isnan(each)]
            cells.append(f"{known.mean():+.2f} ± {known.std() / len(known) ** 0.5:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
