"""Large generated data: are the caps of the defaults on leaves, learning rate and trees right?

    python benchmarks/large.py OUT.jsonl [--kind web] [--rows 1000000] [--columns 40] [--seed 211] [--trees 300]
        [--systems NAME ...] [--valid-rows 240000] [--threads 2]

Every system trains on about that many rows, and is evaluated by NDCG@10 and MAP on validation queries of the same
world, which follow the training queries, after every tenth tree: one training answers for every number of trees. OUT
gets a line for each training, with the processor time, and the same command resumes from it. Then a table of all lines
in OUT: means by the number of trees, and differences from the first system with their standard errors, paired by query.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from rankwright import RankingData, evaluate, make_web_search
from rankwright.training import defaults
from rankwright.training.steering import Steering
from rankwright_lab.harness import RankwrightSystem
from rankwright_lab.peers import LightGBM, XGBoost

METRICS = ["ndcg@10", "map"]
EVERY = 10
STAGES = (50, 100, 200, 300, 500, 1000)  # numbers of trees in the table
LENGTHS = {"web": 120, "sparse": 300, "short": 24}  # mean number of documents of a query


def ours(
    name: str, steering: dict[str, float] | None = None, first: float = 0.03, **params: Any
) -> Any:
    """Describe rankwright with other parameters, or with another rule for the steered rate."""
    return RankwrightSystem(name, params), {
        "_FIRST_RATE": first,
        "Steering": functools.partial(Steering, **steering or {}),
    }


RATES = ((0.03, 0.2), (0.1, 0.12), (0.1, 0.2), (0.1, 0.3))


def peer(system: Any) -> Any:
    return system, {"_FIRST_RATE": defaults._FIRST_RATE}


SYSTEMS = {
    "default": ours("default"),
    **{
        f"{leaves} leaves": ours(f"{leaves} leaves", num_leaves=leaves)
        for leaves in (31, 64, 160, 255)
    },
    **{
        f"rate {first} to {most}": ours(f"rate {first} to {most}", {"most": most}, first)
        for first, most in RATES
    },
    **{
        f"{leaves} leaves, rate {first} to {most}": ours(
            "both", {"most": most}, first, num_leaves=leaves
        )
        for leaves in (160, 255)
        for first, most in RATES
    },
    "lightgbm 31 leaves": peer(LightGBM("lambdarank")),
    "lightgbm 255 leaves": peer(LightGBM("lambdarank", {"num_leaves": 255})),
    "xgboost": peer(XGBoost("rank:ndcg")),
    "xgboost depth 8": peer(XGBoost("rank:ndcg", {"max_depth": 8})),
}


def measure(
    name: str, train: RankingData, valid: RankingData, trees: int, threads: int
) -> dict[str, Any]:
    system, changes = SYSTEMS[name]
    start, wall = time.process_time(), time.perf_counter()
    with mock.patch.multiple(defaults, **changes):
        model = system.fit(train, "ndcg@10", trees=trees, seed=0, threads=threads)
    seconds = {"processor": time.process_time() - start, "wall": time.perf_counter() - wall}
    means: dict[str, list[float]] = {metric: [] for metric in METRICS}
    queries: dict[int, Any] = {}
    for stage, scores in enumerate(model.staged_predict(valid, EVERY), start=1):
        result = evaluate(scores, valid.y, group=valid.group, metrics=METRICS, n_jobs=threads)
        for metric in METRICS:
            means[metric].append(round(result.mean[metric], 6))
        if stage * EVERY in STAGES:
            queries[stage * EVERY] = {
                metric: np.round(result.per_query[metric], 4).tolist() for metric in METRICS
            }
    rates = getattr(getattr(model, "ranker", None), "learning_rates_", None)
    return {
        "seconds": seconds,
        "means": means,
        "queries": queries,
        "rates": rates and [round(r, 4) for r in rates[::10]],
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print means of NDCG@10 along the trees, and differences from the first system after the trees that both have."""
    names = ("kind", "rows", "columns", "seed")
    for group in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        same = [row for row in rows if tuple(row[name] for name in names) == group]
        stages = [number for number in STAGES if any(str(number) in row["queries"] for row in same)]
        print("\n{}, {} rows, {} columns, seed {}\n".format(*group))
        print(
            f"| system | {' | '.join(f'{n} trees' for n in stages)} | after | NDCG@10 | MAP | processor s |"
        )
        print("|---" * (len(stages) + 5) + "|")
        for row in same:
            curve = [f"{100 * m:.2f}" for n in stages if (m := mean_after(row, n)) is not None]
            last = max(int(n) for n in row["queries"] if n in same[0]["queries"])
            values, others = (one["queries"][str(last)] for one in (row, same[0]))
            cells = [*curve, *([""] * (len(stages) - len(curve))), str(last)]
            cells += [difference(values[metric], others[metric]) for metric in METRICS]
            print(f"| {row['system']} | {' | '.join(cells)} | {row['seconds']['processor']:.0f} |")


def mean_after(row: dict[str, Any], trees: int) -> float | None:
    means: list[float] = row["means"]["ndcg@10"]
    return means[trees // EVERY - 1] if trees // EVERY <= len(means) else None


def difference(values: list[float], others: list[float]) -> str:
    d = np.array(values, dtype=float) - np.array(others, dtype=float)
    d = 100 * d[~np.isnan(d)]
    return f"{d.mean():+.2f} ± {d.std(ddof=1) / len(d) ** 0.5:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=list(LENGTHS), default="web")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--valid-rows", type=int, default=240_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=211)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--systems", nargs="*", default=["default", "255 leaves"], choices=list(SYSTEMS)
    )
    args = parser.parse_args()
    rows = (
        [json.loads(line) for line in args.out.read_text().splitlines()]
        if args.out.exists()
        else []
    )
    cell = {name: getattr(args, name) for name in ("kind", "rows", "columns", "seed", "trees")}
    done = [
        row["system"] for row in rows if all(row[name] == value for name, value in cell.items())
    ]
    wanted = [name for name in args.systems if name not in done]
    if wanted:
        queries, held_out = args.rows // LENGTHS[args.kind], args.valid_rows // LENGTHS[args.kind]
        shared: dict[str, Any] = {
            "kind": args.kind,
            "n_features": args.columns,
            "random_state": args.seed,
        }
        train = make_web_search(queries, **shared)
        valid = make_web_search(held_out, first_query=queries, **shared)
    for name in wanted:
        row = cell | {"system": name} | measure(name, train, valid, args.trees, args.threads)
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(json.loads(json.dumps(row)))
        print(
            f"{name}: {row['seconds']['processor']:.0f} s, {row['means']['ndcg@10'][-1]:.4f}",
            flush=True,
        )
    table(rows)


if __name__ == "__main__":
    main()
