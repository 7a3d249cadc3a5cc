"""Processor time to the first gradient of each objective: with an empty cache of kernels, and in the next process.

    python benchmarks/first_gradient.py [--rounds 3] [--only lambdamart] [--out results.json]

The data: a query of 20 documents and one of 220, so that both ways of sorting are compiled. The median of the rounds;
importing rankwright is counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rankwright.objectives import OBJECTIVES

ONCE = """
import json, sys, time
from rankwright.objectives import bind
import numpy as np
imported = time.process_time()
rng = np.random.default_rng(0)
labels, scores = rng.integers(0, 5, 240).astype(float), rng.normal(size=240)
bind(sys.argv[1], labels, group=[20, 220], metric="ndcg@10", threads=1)(scores, 0)
print(json.dumps([imported, time.process_time() - imported]))
"""


def seconds(objective: str, cache: str) -> tuple[float, float]:
    """Return the processor time of the import and of the first gradient in a new process."""
    command = [sys.executable, "-c", ONCE, objective]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
    )
    imported, gradient = json.loads(answer.stdout)
    return imported, gradient


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = {}
    for name in OBJECTIVES:
        if args.only not in name:
            continue
        fresh, following, imports = [], [], []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as cache:
                fresh.append(seconds(name, cache)[1])
                imported, gradient = seconds(name, cache)
            following.append(gradient)
            imports.append(imported)
        times = {"fresh": fresh, "next": following, "import": imports}
        results[name] = {
            case: round(statistics.median(values), 2) for case, values in times.items()
        }
        print(
            f"{name:16s}"
            + "".join(f"  {case} {value:.2f} s" for case, value in results[name].items()),
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
