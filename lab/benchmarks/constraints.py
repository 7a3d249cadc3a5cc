"""What monotone constraints gain or cost on data where the truth is monotone, with the default objective.

    python benchmarks/constraints.py OUT.json [--seeds 0,1,2,3,4] [--queries 50,200,1000]

A query has 20 documents of twelve features. Eight of them raise or lower the utility of a document, each by a function
of its own (straight, saturating, steps) and two pairs of them together (the smaller of the two counts); the others are
noise. The noise of the label is as large as the utility's standard deviation. ``free`` has no constraints, ``signs``
has the eight true signs, and ``wrong`` has one of them the wrong way round. NDCG@10 is measured on 500 other queries.
``seconds`` are processor times of the trainings of a seed, one after the other, on the machine as it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import rankwright as rw
from rankwright.support.files import replacing

DOCUMENTS, FEATURES, TEST_QUERIES, TREES = 20, 12, 500, 150
SIGNS = {f"f{column}": sign for column, sign in enumerate((1, -1, 1, 1, -1, 1, 1, -1))}
VARIANTS: dict[str, dict[str, int] | None] = {
    "free": None,
    "signs": SIGNS,
    "wrong": {**SIGNS, "f0": -1},
}


def world(seed: int, n_queries: int) -> rw.RankingData:
    """Draw queries; a seed and a part of it are different queries of the same kind."""
    draw = np.random.default_rng([seed, n_queries])
    n = n_queries * DOCUMENTS
    X = draw.normal(size=(n, FEATURES))
    good = X[:, : len(SIGNS)] * np.array(list(SIGNS.values()))
    utility = good[:, 0] + np.tanh(2 * good[:, 1]) + (good[:, 2] > 0.5) + (good[:, 3] > -0.5)
    utility += np.minimum(good[:, 4], good[:, 5]) + np.minimum(good[:, 6], good[:, 7])
    noisy = utility + utility.std() * draw.normal(size=n)
    labels = np.digitize(noisy, np.quantile(noisy, [0.5, 0.8, 0.93, 0.98]))
    return rw.RankingData(X, labels, group=[DOCUMENTS] * n_queries)


def measure(engine: str, seed: int, queries: int, test: rw.RankingData) -> list[dict[str, Any]]:
    """Train each variant once."""
    train = world(seed, queries)
    rows = []
    for variant, signs in VARIANTS.items():
        ranker = rw.Ranker(engine=engine, n_estimators=TREES, monotone=signs, n_jobs=1, verbose=0)
        start = time.process_time()
        ranker.fit(train)
        seconds = time.process_time() - start
        row = {"engine": engine, "queries": queries, "seed": seed, "variant": variant}
        rows.append({**row, "ndcg": ranker.score(test), "seconds": seconds})
    return rows


def table(rows: list[dict[str, Any]]) -> None:
    print(
        "| engine | queries | free | signs | wrong | signs less free (p) | time of signs / free |"
    )
    print("|---|---|---|---|---|---|---|")
    for engine, queries in dict.fromkeys((row["engine"], row["queries"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["queries"]) == (engine, queries)]
        values = {
            variant: [100 * row["ndcg"] for row in own if row["variant"] == variant]
            for variant in VARIANTS
        }
        seconds = {
            variant: [row["seconds"] for row in own if row["variant"] == variant]
            for variant in VARIANTS
        }
        gains = np.subtract(values["signs"], values["free"])
        means = " | ".join(f"{statistics.fmean(found):.2f}" for found in values.values())
        ratio = np.median(np.divide(seconds["signs"], seconds["free"]))
        p = stats.ttest_1samp(gains, 0.0).pvalue
        print(f"| {engine} | {queries} | {means} | {gains.mean():+.2f} ({p:.3f}) | {ratio:.2f} |")


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3, 4])
    parser.add_argument("--queries", type=numbers, default=[50, 200, 1000])
    args = parser.parse_args()
    warm, rows = world(99, 30), []
    for signs in VARIANTS.values():
        rw.Ranker(n_estimators=3, monotone=signs, n_jobs=1, verbose=0).fit(warm)
    for engine in ("lightgbm", "xgboost"):
        for queries in args.queries:
            for seed in args.seeds:
                rows += measure(engine, seed, queries, world(seed, TEST_QUERIES))
    with replacing(args.out) as file:
        file.write((json.dumps(rows, indent=1) + "\n").encode())
    table(rows)


if __name__ == "__main__":
    main()
