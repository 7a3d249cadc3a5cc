"""Training time on 350 000 x 136 synthetic documents, 64 leaves, 50 trees, as ratios in one run.

    python benchmarks/training.py [--rounds 3] [--trees 50] [--queries 2950] [--out results.json]

rankwright is compared with LightGBM with constant gradients (the floor), LightGBM's own lambdarank, and CatBoost's
YetiRank at depth 6; peak memory is that of a separate process for each. Times do not include the construction of data
sets; memory does.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rankwright import Ranker, RankingData, make_web_search
from rankwright.objectives import bind

COMMON = {
    "learning_rate": 0.05,
    "num_leaves": 64,
    "subsample": 1.0,
    "colsample": 1.0,
    "min_child_samples": 50,
}


def rankwright(data: RankingData, trees: int, **options: object) -> Callable[[], object]:
    settings = {**COMMON, "n_estimators": trees, "n_jobs": 2, "verbose": 0, **options}
    return lambda: Ranker(**settings).fit(data)


def lightgbm(data: RankingData, trees: int, objective: str) -> Callable[[], object]:
    import lightgbm as lgb

    params = {
        "learning_rate": 0.05,
        "num_leaves": 64,
        "min_data_in_leaf": 50,
        "num_threads": 2,
        "verbosity": -1,
    }
    params |= {"metric": "None", "lambda_l2": 0.3, "min_sum_hessian_in_leaf": 0.0}
    # The floor has the gradients of the first iteration, so that its trees have the usual shape.
    bound = bind("yetirank", data.y, group=data.group)
    constant = tuple(part.astype(np.float32) for part in bound(np.zeros(data.n_rows)))

    def run() -> object:
        dataset = lgb.Dataset(data.X, data.y, group=data.group, params={"verbosity": -1})
        if objective == "constant":
            return lgb.train({**params, "objective": lambda *_: constant}, dataset, trees)
        return lgb.train(
            {**params, "objective": objective, "lambdarank_truncation_level": 30}, dataset, trees
        )

    return run


def catboost(data: RankingData, trees: int) -> Callable[[], object]:
    import catboost

    pool = catboost.Pool(
        np.nan_to_num(data.X), data.y, group_id=np.repeat(np.arange(data.n_queries), data.group)
    )
    params = {
        "iterations": trees,
        "depth": 6,
        "learning_rate": 0.05,
        "loss_function": "YetiRank",
        "thread_count": 2,
    }
    params |= {"verbose": False, "allow_writing_files": False, "metric_period": 1000}
    return lambda: catboost.CatBoost(params).fit(pool)


def runners(data: RankingData, trees: int) -> dict[str, Callable[[], object]]:
    return {
        "floor": lightgbm(data, trees, "constant"),
        "yetirank diagonal": rankwright(data, trees, objective="yetirank"),
        "yetirank full": rankwright(data, trees, objective="yetirank", leaf_values="full"),
        "lambdarank": lightgbm(data, trees, "lambdarank"),
        "lambdamart": rankwright(
            data, trees, objective="lambdamart(truncation=30, normalize=True)", metric="ndcg@30"
        ),
        "catboost": catboost(data, trees),
        "yetiloss": rankwright(data, trees, objective="yetiloss"),
    }


RATIOS = [
    ("yetirank diagonal", "floor", 1.25),
    ("yetirank full", "floor", 1.8),
    ("lambdamart", "lambdarank", 1.0),
    ("yetiloss", "catboost", 1 / 3),
]


def peak_memory(name: str, queries: int) -> float:
    folder = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import training; training.memory({name!r}, {queries})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def memory(name: str, queries: int) -> None:
    run = runners(make_web_search(queries, random_state=0), 5)[name]
    Path("/proc/self/clear_refs").write_text(
        "5"
    )  # reset the peak, which includes the generation of the data
    run()
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(int(peak.group(1)) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--queries", type=int, default=2950)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    data = make_web_search(args.queries, random_state=0)
    print(f"{data.n_rows} documents, {data.n_queries} queries", flush=True)
    all_runners = runners(data, args.trees)
    for name in ("yetirank diagonal", "yetirank full", "lambdamart", "yetiloss"):  # compile first
        options = {
            "objective": name.split()[0],
            "leaf_values": "full" if "full" in name else "diagonal",
        }
        Ranker(n_estimators=2, verbose=0, **options).fit(make_web_search(30, random_state=1))
    times: dict[str, list[float]] = {name: [] for name in all_runners}
    for _ in range(args.rounds):
        for name, run in all_runners.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
            print(f"  {name:18s} {times[name][-1]:.2f} s", flush=True)
    medians = {name: statistics.median(values) for name, values in times.items()}
    results = {}
    for name, peer, target in RATIOS:
        ratio = medians[name] / medians[peer]
        results[f"{name} / {peer}"] = {"ratio": ratio, "target": target}
        print(
            f"{name} {medians[name]:.2f} s / {peer} {medians[peer]:.2f} s = {ratio:.3f} (target {target:.3f})",
            flush=True,
        )
    peaks = {
        name: peak_memory(name, args.queries)
        for name in ("lambdarank", "lambdamart", "yetirank full")
    }
    for name in ("lambdamart", "yetirank full"):
        ratio = peaks[name] / peaks["lambdarank"]
        results[f"memory {name} / lambdarank"] = {"ratio": ratio, "target": 1.3}
        own_mb, peer_mb = peaks[name], peaks["lambdarank"]
        print(
            f"peak memory {name} {own_mb:.0f} MB / lambdarank {peer_mb:.0f} MB = {ratio:.2f} (target 1.3)"
        )
    if args.out:
        args.out.write_text(json.dumps({"seconds": medians, "ratios": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
