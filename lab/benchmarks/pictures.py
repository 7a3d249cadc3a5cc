"""What the pictures of the user pages show, measured on generated data: `figures.py` draws them.

    python benchmarks/pictures.py [FILE]

Writes FILE, benchmarks/results/pictures.json if left out; takes a minute. `curves` are the learning curves of two
learning rates, `ties` the metric of a growing model under each tie policy, `incoherency` the share of queries with
harmful pairs, `positions` the share of the gradient that each position of the ranking has.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright_lab import diagnostics

RESULTS = Path(__file__).parent / "results"
METRIC = "ndcg@10"
TIES = ("best", "input", "expected", "worst")
TRUNCATIONS = {
    "top k": "lambdamart(truncation=k)",
    "top k + 3": "lambdamart(truncation=k+3)",
    "Lambda-eX": "lambdamart(truncation=k, extend=all-static)",
    "all pairs": "lambdamart",
}
OBJECTIVES = ("queryrmse", "ranknet", "lambdamart", "yetiloss", "stochasticrank")


def curves(train: rw.RankingData, valid: rw.RankingData) -> list[dict[str, Any]]:
    """Learning curves on training and validation queries."""
    rows = []
    for name, options in {"steered rate": {}, "rate 0.1": {"learning_rate": 0.1}}.items():
        ranker = rw.Ranker(metric=METRIC, random_state=1, n_jobs=1, verbose=0, **options)
        ranker.fit(train, eval_set=[train, valid])
        for part, curve in zip(
            ("training", "validation"), ranker.evals_result_.values(), strict=True
        ):
            for tree, value in enumerate(curve[METRIC], start=1):
                if tree == 1 or tree % 10 == 0:
                    rows.append(
                        {"run": name, "part": part, "trees": tree, "value": round(value, 4)}
                    )
    return rows


def ties(train: rw.RankingData, valid: rw.RankingData) -> list[dict[str, Any]]:
    """The metric after some trees, documents of equal score in the order of each policy; rows sorted by label."""
    by_label = np.lexsort((-valid.y, valid.queries.query_of_row))
    X, y = valid.X[by_label], valid.y[by_label]
    ranker = rw.Ranker(
        metric=METRIC, random_state=1, n_jobs=1, verbose=0, num_leaves=8, n_estimators=100
    ).fit(train)
    rows = []
    for number, scores in enumerate(ranker.staged_predict(X), start=1):
        if number in (1, 2, 3, 5, 10, 20, 30, 50, 100):
            for policy in TIES:
                value = rw.evaluate(scores, y, group=valid.group, metrics=METRIC, ties=policy).mean[
                    METRIC
                ]
                rows.append({"policy": policy, "trees": number, "value": round(value, 4)})
    return rows


def incoherency(train: rw.RankingData) -> list[dict[str, Any]]:
    """Share of queries with harmful pairs along the trees of one model, for gradients of several objectives."""
    ranker = rw.Ranker(
        TRUNCATIONS["top k"], METRIC, n_estimators=100, random_state=1, n_jobs=1, verbose=0
    ).fit(train)
    rows = []
    for name, objective in TRUNCATIONS.items():
        curve = diagnostics.incoherency_curve(ranker, train, every=10, objective=objective)
        for tree, share in zip(curve.trees.tolist(), curve.harmful_share.tolist(), strict=True):
            rows.append({"objective": name, "trees": tree, "share": round(share, 4)})
    return rows


def positions(train: rw.RankingData) -> list[dict[str, Any]]:
    """Share of the sum of |gradient| by position of the current ranking, after 20 trees."""
    scores = (
        rw.Ranker(n_estimators=20, random_state=1, n_jobs=1, verbose=0).fit(train).predict(train)
    )
    order = np.lexsort((-scores, train.queries.query_of_row))
    position = np.arange(len(order)) - train.boundaries[train.queries.query_of_row]
    rows = []
    for name in OBJECTIVES:
        grad, _ = rw.gradients(name, scores, train.y, group=train.group, metric=METRIC)
        pushes = np.abs(grad)[order]
        for place in range(30):
            share = pushes[position == place].sum() / pushes.sum()
            rows.append({"objective": name, "position": place + 1, "share": round(float(share), 4)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=RESULTS / "pictures.json")
    out = parser.parse_args().file
    train, valid = rw.make_web_search(300, random_state=1).split(0.3)
    results = {
        "curves": curves(train, valid),
        "ties": ties(train, valid),
        "incoherency": incoherency(train),
        "positions": positions(train),
    }
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
