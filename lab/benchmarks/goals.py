"""Two planted goals that conflict: the front of a sweep against each label alone and their sum as one label.

    python benchmarks/goals.py [--seeds 10] [--queries 100] [--trees 60] [--out benchmarks/results/goals.json]

Relevance and margin are grades whose correlation is -0.5 before they are rounded; a feature shows each of them, with
noise that does not hide a grade. Many documents have equal grades, which the other goal can order for free. Margin is
money, so the numbers are a hundred times larger in queries of expensive goods; the price level is a feature too. Every
training has the same number of trees. Values are means over the seeds, on 800 other queries each.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, evaluate, sweep_goals

METRICS = ["ndcg(gain=linear)@10", "ndcg(gain=linear)@10[margin]"]
GOALS = ["yetiloss", "yetiloss(label=margin)"]
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
PARAMETERS: dict[str, Any] = {"num_leaves": 8, "learning_rate": 0.1, "leaf_values": "full"}
GRADES = (0.5, 1.0, 1.5, 2.0)
PRICES = (0.1, 10.0)
CORRELATION = -0.5
SIZE = 20  # documents of a query


def planted(queries: int, seed: int) -> RankingData:
    """Return queries with the labels relevance and margin."""
    draw = np.random.default_rng(seed)
    rows = queries * SIZE
    first, other = draw.normal(size=(2, rows))
    second = CORRELATION * first + np.sqrt(1 - CORRELATION**2) * other
    relevance, margin = (np.digitize(values, GRADES).astype(float) for values in (first, second))
    price = np.repeat(draw.choice(PRICES, size=queries), SIZE)
    X = np.c_[np.c_[relevance, margin] + 0.4 * draw.random((rows, 2)), price]
    return RankingData(
        X,
        {"relevance": relevance, "margin": margin * price},
        qid=np.repeat(np.arange(queries), SIZE),
    )


def measure(
    seed: int, queries: int, trees: int, shares: tuple[float, ...] = SHARES
) -> dict[str, Any]:
    """Return the values of a sweep, and of a training on the sum of both labels as one label."""
    train, test = planted(queries, seed), planted(800, 1000 + seed)
    parameters = {**PARAMETERS, "n_estimators": trees}
    weights = [(1 - share, share) for share in shares]
    sweep = sweep_goals(
        train,
        GOALS,
        METRICS,
        valid=test,
        shares=weights,
        parameters=parameters,
        n_jobs=1,
        random_state=seed,
    )
    summed = RankingData(train.X, train.labels["relevance"] + train.labels["margin"], qid=train.qid)
    ranker = Ranker(GOALS[0], METRICS[0], **parameters, random_state=seed, n_jobs=1, verbose=0).fit(
        summed
    )
    one = evaluate(ranker.predict(test), test.labels, group=test.group, metrics=METRICS).mean
    return {
        "sweep": [point.values for point in sweep.points],
        "sum as one label": list(one.values()),
    }


def summary(
    sweep: np.ndarray, summed: np.ndarray, shares: tuple[float, ...] = SHARES
) -> dict[str, Any]:
    """Say what is monotone and what is dominated, by which shares of the second goal."""

    def above(values: np.ndarray) -> list[float]:
        better = np.all(sweep >= values, axis=1) & np.any(sweep > values, axis=1)
        return [share for share, is_better in zip(shares, better, strict=True) if is_better]

    inside = (np.array(shares) >= 0.1) & (np.array(shares) <= 0.9)
    return {
        "monotone from 0.1 to 0.9": bool(
            np.all(np.diff(sweep[inside, 0]) < 0) and np.all(np.diff(sweep[inside, 1]) > 0)
        ),
        "first label alone is dominated by shares": above(sweep[0]),
        "second label alone is dominated by shares": above(sweep[-1]),
        "sum as one label is dominated by shares": above(summed),
    }


def main() -> None:
    """Run, print a table and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    runs = []
    for seed in range(1, chosen.seeds + 1):
        runs.append(measure(seed, chosen.queries, chosen.trees))
        print(f"seed {seed} of {chosen.seeds}", flush=True)
    sweeps, sums = (np.array([run[name] for run in runs]) for name in ("sweep", "sum as one label"))
    error = (
        sweeps.std(axis=0, ddof=1) / np.sqrt(len(runs))
        if len(runs) > 1
        else np.zeros_like(sweeps[0])
    )
    print(f"\n| share of margin | {' | '.join(METRICS)} |\n|---|---|---|")
    for share, values, errors in zip(SHARES, sweeps.mean(axis=0), error, strict=True):
        print(
            f"| {share:g} | {' | '.join(f'{v:.4f} ± {e:.4f}' for v, e in zip(values, errors, strict=True))} |"
        )
    print(f"| sum as one label | {' | '.join(f'{value:.4f}' for value in sums.mean(axis=0))} |\n")
    result = summary(sweeps.mean(axis=0), sums.mean(axis=0))
    for name, value in result.items():
        print(f"{name}: {value}")
    if chosen.out is not None:
        stored = {
            "seeds": chosen.seeds,
            "queries": chosen.queries,
            "trees": chosen.trees,
            "metrics": METRICS,
            "shares": SHARES,
            "sweep": sweeps.mean(axis=0).round(5).tolist(),
            "standard errors": error.round(5).tolist(),
            "sum as one label": sums.mean(axis=0).round(5).tolist(),
            **result,
        }
        chosen.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
