"""Cost of a linear start: its fit as a share of the training, and scoring a query with it against the trees alone.

    python benchmarks/linear_start_cost.py [--queries 2950] [--trees 300] [--documents 100] [--rounds 5] [--threads 1]

2950 generated queries are 350 000 x 136. The fit is timed inside of one training, as processor time, and a query as the
fastest of many calls, both ways in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright import Ranker, make_web_search
from rankwright.training import linear
from rankwright.training.linear import fit_linear


def seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2950)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    options: dict[str, Any] = {"start": "linear", "n_jobs": args.threads, "verbose": 0}
    Ranker(n_estimators=2, **options).fit(make_web_search(30, random_state=1))  # compiles
    data = make_web_search(args.queries, random_state=0)
    fits: list[float] = []

    def timed(*given: Any) -> Any:
        began = time.process_time()
        found = fit_linear(*given)
        fits.append(time.process_time() - began)
        return found

    linear.fit_linear = timed
    ranker = Ranker(n_estimators=args.trees, **options)
    whole = seconds(lambda: ranker.fit(data))
    start = ranker.linear_
    scored = seconds(lambda: start.scores(data.X, data.queries.grouped(), args.threads))
    print(
        f"{data.n_rows} rows: training {whole:.1f} s, of it fit {fits[0]:.1f} s and scores {scored:.1f} s"
    )
    print(f"share of the training: {(fits[0] + scored) / whole:.3f} (target 0.1)")
    model = ranker.model_
    rows = np.ascontiguousarray(data.X[: args.documents])
    ids = range(args.documents)
    ways: dict[str, Callable[[], Any]] = {
        "with the start": lambda: model.rank(rows, ids),
        "trees alone": lambda: np.argsort(-model.forest.predict(rows, threads=1), kind="stable"),
    }
    best: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, way in ways.items():
            best[name].append(min(seconds(way) for _ in range(200)))
    medians = {name: statistics.median(values) for name, values in best.items()}
    ratio = medians["with the start"] / medians["trees alone"]
    print(", ".join(f"{name} {1000 * value:.3f} ms" for name, value in medians.items()))
    print(f"ratio for a query of {args.documents} documents: {ratio:.2f} (target 1.5)")


if __name__ == "__main__":
    main()
