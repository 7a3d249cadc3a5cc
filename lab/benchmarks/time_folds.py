"""How much too good random folds are on data that drifts, beside folds in the order of time.

    python benchmarks/time_folds.py OUT.json [--seeds 0,1,2,3,4]

Sixty days have ten queries each, of 20 documents and ten features. The weights of the features turn slowly from one
direction to another. In the world ``repeats`` the ten texts of a day come from 40 texts, each with documents of its
own, whose labels change little from day to day; in the world ``drift`` each query has documents of its own. A ranker
learns from days 1 to 50. Its NDCG@10 on days 51 to 60 is the ``truth``. ``random`` and ``time`` are what five folds
of days 1 to 50 promise, and ``gap`` what they promise with a gap of five days.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.data.folds import Folds
from rankwright.support.files import replacing

DAYS, QUERIES, DOCUMENTS, FEATURES, TEXTS, TREES = 60, 10, 20, 10, 40, 100
FOLDS = {"random": "5", "time": "time(5)", "gap": "time(5, gap=5)"}


def world(kind: str, seed: int) -> rw.RankingData:
    """Draw the queries of all days."""
    draw = np.random.default_rng(seed)
    start, end = draw.normal(size=(2, FEATURES))
    own = draw.normal(size=(TEXTS, DOCUMENTS, FEATURES + 1))  # the last column is not a feature
    rows, labels, days, texts = [], [], [], []
    for day in range(1, DAYS + 1):
        for text in draw.choice(TEXTS, QUERIES, replace=False):
            documents = own[text] if kind == "repeats" else draw.normal(size=own[text].shape)
            angle = np.pi / 2 * day / DAYS
            weights = np.cos(angle) * start + np.sin(angle) * end
            utility = documents[:, :-1] @ weights + np.sqrt(FEATURES) * documents[:, -1]
            utility += 0.3 * draw.normal(size=DOCUMENTS)
            rows.append(documents[:, :-1])
            labels.append(np.digitize(utility, np.quantile(utility, [0.5, 0.8, 0.95])))
            days.append(day)
            texts.append(f"query {text}")
    sizes = np.full(len(rows), DOCUMENTS)
    return rw.RankingData(
        np.concatenate(rows),
        np.concatenate(labels),
        group=sizes,
        fields={
            "time": np.repeat(days, sizes),
            "query_text": np.repeat(np.array(texts, dtype=object), sizes),
        },
    )


def ranker() -> rw.Ranker:
    return rw.Ranker(n_estimators=TREES, n_jobs=1, verbose=0)


def measure(kind: str, seed: int) -> dict[str, Any]:
    """Return the promises of folds, and the value on later days."""
    past, future = world(kind, seed).split(1 / 6, by="time")
    row: dict[str, Any] = {"kind": kind, "seed": seed, "truth": ranker().fit(past).score(future)}
    for name, text in FOLDS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # random folds of repeated texts warn, as they should
            parts = list(Folds.of(text, 5).parts(past, seed))
        row[name] = statistics.fmean(ranker().fit(train).score(test) for train, test in parts)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--seeds",
        type=lambda text: [int(seed) for seed in text.split(",")],
        default=[0, 1, 2, 3, 4],
    )
    args = parser.parse_args()
    rows = [measure(kind, seed) for kind in ("drift", "repeats") for seed in args.seeds]
    with replacing(args.out) as file:
        file.write((json.dumps(rows, indent=1) + "\n").encode())
    print("| world | truth | random less truth | time less truth | gap less truth |")
    print("|---|---|---|---|---|")
    for kind in ("drift", "repeats"):
        own = [row for row in rows if row["kind"] == kind]
        truth = statistics.fmean(100 * row["truth"] for row in own)
        cells = []
        for name in FOLDS:
            off = [100 * (row[name] - row["truth"]) for row in own]
            error = statistics.stdev(off) / len(off) ** 0.5
            cells.append(f"{statistics.fmean(off):+.2f} ± {error:.2f}")
        print(f"| {kind} | {truth:.2f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
