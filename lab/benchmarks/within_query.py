"""Cost of features within the query: training time and peak memory of ranks added, as ratios to the plain fit.

    python benchmarks/within_query.py [--rounds 1] [--trees 50] [--queries 2950] [--threads 1] [--colsample 0.5]
        [--out results.json]

2950 generated queries are 350 000 x 136. Each training runs in a process of its own, plain and with ranks in turns.
Times are processor times: of the whole training, from the rows in memory to the model, of the set-up before the first
tree, and of a tree. Memory is the largest resident set of the training, the
rows included and their generation left out.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WAYS: dict[str, dict[str, Any]] = {"plain": {}, "ranks": {"within_query": "rank"}}


def train(
    way: str, queries: int, trees: int, threads: int, colsample: float | None
) -> dict[str, float]:
    """Train in this process."""
    from rankwright import Ranker, make_web_search

    options = {**WAYS[way], "n_jobs": threads, "verbose": 0}
    if way != "plain":
        options["colsample"] = colsample
    Ranker(n_estimators=2, **options).fit(make_web_search(30, random_state=1))  # compiles
    data = make_web_search(queries, random_state=0)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    after: list[float] = []  # each tree
    start = time.process_time()
    Ranker(n_estimators=trees, **options).fit(
        data, callbacks=[lambda _: after.append(time.process_time() - start)]
    )
    seconds = time.process_time() - start
    tree = (after[-1] - after[0]) / (trees - 1)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    parts = {"set-up": after[0] - tree, "tree": tree}
    return {
        "rows": data.n_rows,
        "seconds": seconds,
        **parts,
        "megabytes": int(peak.group(1)) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--queries", type=int, default=2950)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--colsample", type=float, help="share of the columns in a tree, with ranks"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=list(WAYS))
    args = parser.parse_args()
    if args.child is not None:
        print(json.dumps(train(args.child, args.queries, args.trees, args.threads, args.colsample)))
        return
    sizes = [
        "--queries",
        str(args.queries),
        "--trees",
        str(args.trees),
        "--threads",
        str(args.threads),
    ]
    sizes += [] if args.colsample is None else ["--colsample", str(args.colsample)]
    rows: list[dict[str, Any]] = []
    for _ in range(args.rounds):
        for way in WAYS:
            done = subprocess.run(
                [sys.executable, __file__, *sizes, "--child", way],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            rows.append(
                {"way": way, "trees": args.trees, **json.loads(done.stdout.splitlines()[-1])}
            )
            print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    ratios = {}
    for name, target in (
        ("seconds", 1.3),
        ("set-up", "none"),
        ("tree", "none"),
        ("megabytes", 1.6),
    ):
        plain, ranks = (
            statistics.median(row[name] for row in rows if row["way"] == way) for way in WAYS
        )
        ratios[name] = ranks / plain
        print(f"{name}: {ranks:.1f} / {plain:.1f} = {ranks / plain:.3f} (target {target})")
    if args.out is not None:
        args.out.write_text(json.dumps({"trainings": rows, "ratios": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
