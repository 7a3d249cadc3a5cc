"""Time of two versions of rankwright, as ratios in one run: gradients of every objective, and trainings.

    python benchmarks/versions.py OLD [--rounds 15] [--fits 5] [--queries 500] [--columns 40] [--threads 1]
                                  [--trees 30] [--only NAMES] [--out results.json]

OLD is the folder of a checkout of the other version (its ``src`` is imported). Each version works in a process of its
own; the two take turns, case by case and round by round, so that whatever else the machine does hits both. The ratio
new / old of a case is that of the best processor times, and its spread is that of the quartiles of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

GRADIENTS = {  # name: objective, metric
    "auto": ("auto", "ndcg@10"),
    "lambdamart": ("lambdamart", "ndcg@10"),
    "lambdamart, truncated": ("lambdamart(truncation=13, normalize=True)", "ndcg@10"),
    "Lambda-eX": ("lambdamart(truncation=10, extend='static')", "ndcg@10"),
    "lambdaloss": ("lambdaloss", "ndcg@10"),
    "ranknet": ("ranknet", "ndcg@10"),
    "yetirank": ("yetirank", "ndcg@10"),
    "yetiloss": ("yetiloss", "ndcg@10"),
    "yetiloss, map": ("yetiloss", "map"),
    "stochasticrank": ("stochasticrank", "ndcg@10"),
    "softrank": ("softrank", "ndcg@10"),
    "xendcg": ("xendcg", "ndcg@10"),
    "listnet": ("listnet", "ndcg@10"),
    "queryrmse": ("queryrmse", "ndcg@10"),
    # and the others of gradients.py
    "lambdamart ndcg, truncation 30": ("lambdamart(truncation=30, normalize=True)", "ndcg@30"),
    "lambdamart ndcg, no truncation": ("lambdamart(normalize=True)", "ndcg"),
    "yetiloss ndcg, 10 permutations": ("yetiloss(permutations=10)", "ndcg"),
    "stochasticrank ndcg": ("stochasticrank", "ndcg"),
}
AUTO = "0.03 yetiloss(permutations=2, neighbours=3) + 0.03 n^-0.5 queryrmse"
TRAINING = {
    "learning_rate": 0.05,
    "num_leaves": 64,
    "subsample": 1.0,
    "colsample": 1.0,
}  # as in training.py
FITS: dict[str, dict[str, Any]] = {
    "fit, default": {},
    "fit, lambdamart": {"objective": "lambdamart"},
    "fit, yetirank, full leaves": {"objective": "yetirank", "leaf_values": "full"},
    "fit, stochasticrank, Langevin": {"objective": "stochasticrank", "langevin": True},
    "training.py, yetirank diagonal": {**TRAINING, "objective": "yetirank"},
    "training.py, yetirank full": {**TRAINING, "objective": "yetirank", "leaf_values": "full"},
    "training.py, lambdamart": {
        **TRAINING,
        "objective": "lambdamart(truncation=30, normalize=True)",
        "metric": "ndcg@30",
    },
    "training.py, yetiloss": {**TRAINING, "objective": "yetiloss"},
}


def work(queries: int, columns: int, threads: int, trees: int) -> None:
    """Answer each line of input, the name of a case, with the processor time and the time that it took."""
    from rankwright import Ranker, RankingData, make_web_search
    from rankwright.objectives import bind

    data = make_web_search(queries, random_state=0)
    data = RankingData(data.X[:, :columns], data.y, qid=data.qid)
    scores = np.random.default_rng(2).normal(size=data.n_rows) + 0.5 * data.y
    bound: dict[str, Any] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name in FITS:
            ranker = Ranker(
                **{"n_estimators": trees, "verbose": 0, "n_jobs": threads, **FITS[name]}
            )
            run, repeats = (lambda _, ranker=ranker: ranker.fit(data)), 1
        else:
            if name not in bound:
                objective, metric = GRADIENTS[name]
                objective = AUTO if objective == "auto" else objective
                bound[name] = bind(
                    objective, data.y, group=data.group, metric=metric, n_jobs=threads
                )
                bound[name](scores, 0)
            run, repeats = (lambda it, gradient=bound[name]: gradient(scores, it)), 5
        before, began = time.process_time(), time.perf_counter()
        for iteration in range(repeats):
            run(iteration)
        print(time.process_time() - before, time.perf_counter() - began, flush=True)


class Version:
    """A process that runs cases with the source of one version."""

    def __init__(self, source: Path, args: argparse.Namespace) -> None:
        command = [
            sys.executable,
            __file__,
            "--work",
            f"{args.queries} {args.columns} {args.threads} {args.trees}",
        ]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(source)}, **pipes
        )
        self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a version ended early; see above.")
        return line

    def seconds(self, name: str) -> float:
        """Run a case once and return its processor time."""
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._answer().split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--only", default="", help="Semicolon-separated cases.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(*map(int, args.work.split()))
        return
    every = [*(GRADIENTS if args.rounds else ()), *(FITS if args.fits else ())]
    wanted = [name for name in args.only.split(";") if name] or every
    versions = [
        Version(source, args) for source in (args.old / "src", Path(__file__).parents[2] / "src")
    ]
    results = {}
    for name in wanted:
        times = []
        for round_ in range(1 + (args.fits if name in FITS else args.rounds)):
            first = round_ % 2
            pair = {side: versions[side].seconds(name) for side in (first, 1 - first)}
            times.append([pair[0], pair[1]])
        old, new = np.array(times[1:]).T  # the first compiles
        low, high = np.quantile(new / old, [0.25, 0.75])
        best = old.min(), new.min()
        results[name] = {
            "old": best[0],
            "new": best[1],
            "ratio": best[1] / best[0],
            "quartiles": [low, high],
        }
        shown = f"old {1e3 * best[0]:9.2f} ms  new {1e3 * best[1]:9.2f} ms  ratio {best[1] / best[0]:.3f}"
        print(f"{name:32s} {shown}  ({low:.3f} to {high:.3f})", flush=True)
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
