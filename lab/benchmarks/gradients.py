"""Time of one gradient against LightGBM's and CatBoost's, as ratios in one run.

    python benchmarks/gradients.py [--rounds 5] [--threads 2] [--out results.json]

The data: 348 000 documents in 3000 queries of log-normal length, labels 0-4. The time of a library's objective is its
time per iteration on 4 features and 2 leaves (depth 1) minus the same with constant gradients (LightGBM) or with a
cheap objective (RMSE in CatBoost). Both sides alternate; the ratio is that of the medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import catboost
import lightgbm as lgb
import numpy as np

from rankwright.objectives import bind

DOCUMENTS, QUERIES = 348_000, 3000


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = np.maximum(rng.lognormal(np.log(116) - 0.18, 0.6, QUERIES), 2)
    sizes = np.maximum((sizes * DOCUMENTS / sizes.sum()).astype(int), 2)
    sizes[: DOCUMENTS - sizes.sum()] += 1
    labels = rng.choice(5, DOCUMENTS, p=[0.515, 0.325, 0.134, 0.018, 0.008]).astype(float)
    features = rng.normal(size=(DOCUMENTS, 4)).astype(np.float32)
    features[:, 0] += 0.5 * labels
    return features, labels, sizes[sizes > 0]


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class LightGBMObjective:
    """Seconds per iteration that LightGBM's own objective adds."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, group: np.ndarray, threads: int, **params: object
    ) -> None:
        common = {
            "num_leaves": 2,
            "num_threads": threads,
            "verbose": -1,
            "metric": "None",
            "min_data_in_leaf": 1,
        }
        data = lgb.Dataset(
            X, y, group=group, params={"verbose": -1}, free_raw_data=False
        ).construct()
        self.own = lgb.Booster({**common, **params}, data)
        data = lgb.Dataset(
            X, y, group=group, params={"verbose": -1}, free_raw_data=False
        ).construct()
        self.floor = lgb.Booster({**common, "objective": "none"}, data)
        rng = np.random.default_rng(1)
        self.constant = (rng.normal(size=len(y)).astype(np.float32), np.ones(len(y), np.float32))

    def __call__(self, iterations: int = 10) -> float:
        own = timed(lambda: [self.own.update() for _ in range(iterations)])
        floor = timed(
            lambda: [self.floor.update(fobj=lambda *_: self.constant) for _ in range(iterations)]
        )
        return (own - floor) / iterations


class CatBoostObjective:
    """Seconds per iteration that CatBoost's objective adds to RMSE."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, group: np.ndarray, threads: int, loss: str
    ) -> None:
        self.pool = catboost.Pool(X, y, group_id=np.repeat(np.arange(len(group)), group))
        self.common = {
            "depth": 1,
            "thread_count": threads,
            "verbose": False,
            "allow_writing_files": False,
        }
        self.common |= {
            "boosting_type": "Plain",
            "bootstrap_type": "No",
            "random_strength": 0,
            "metric_period": 1000,
        }
        self.loss = loss

    def __call__(self) -> float:
        def per_iteration(loss: str, few: int = 2, many: int = 5) -> float:
            def fit(iterations: int) -> None:
                catboost.CatBoost(
                    {**self.common, "loss_function": loss, "iterations": iterations}
                ).fit(self.pool)

            short = timed(lambda: fit(few))
            return (timed(lambda: fit(many)) - short) / (many - few)

        return per_iteration(self.loss) - per_iteration("RMSE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    X, y, group = make_data()
    rng = np.random.default_rng(2)
    scores = X[:, 0] + 0.5 * rng.normal(size=len(y))

    lambdarank = {"objective": "lambdarank"}
    cases = {
        "lambdamart ndcg, truncation 13": (
            ("lambdamart", "ndcg@10", {"truncation": 13, "normalize": True}),
            lambda: LightGBMObjective(
                X, y, group, args.threads, **lambdarank, lambdarank_truncation_level=13
            ),
            0.9,
        ),
        "lambdamart ndcg, truncation 30": (
            ("lambdamart", "ndcg@30", {"truncation": 30, "normalize": True}),
            lambda: LightGBMObjective(
                X, y, group, args.threads, **lambdarank, lambdarank_truncation_level=30
            ),
            0.9,
        ),
        "lambdamart ndcg, no truncation": (
            ("lambdamart", "ndcg", {"normalize": True}),
            lambda: LightGBMObjective(
                X, y, group, args.threads, **lambdarank, lambdarank_truncation_level=10_000
            ),
            0.9,
        ),
        "xendcg": (
            ("xendcg", "ndcg", {}),
            lambda: LightGBMObjective(X, y, group, args.threads, objective="rank_xendcg"),
            1.5,
        ),
        "yetiloss ndcg, 10 permutations": (
            ("yetiloss", "ndcg", {"permutations": 10}),
            lambda: CatBoostObjective(
                X, y, group, args.threads, "YetiRank:mode=NDCG;permutations=10"
            ),
            1 / 15,
        ),
        "stochasticrank ndcg@10": (
            ("stochasticrank", "ndcg@10", {}),
            lambda: CatBoostObjective(
                X, y, group, args.threads, "StochasticRank:metric=NDCG;top=10"
            ),
            1 / 30,
        ),
        "stochasticrank ndcg": (
            ("stochasticrank", "ndcg", {}),
            lambda: CatBoostObjective(X, y, group, args.threads, "StochasticRank:metric=NDCG"),
            1 / 50,
        ),
    }
    results = {}
    for name, ((objective, metric, options), make_peer, target) in cases.items():
        if args.only not in name:
            continue
        bound = bind(objective, y, group=group, metric=metric, n_jobs=args.threads, **options)
        bound(scores, 0)
        peer = make_peer()
        if isinstance(peer, LightGBMObjective):
            peer()
        times, peer_times = [], []
        for round_ in range(args.rounds):
            times.append(
                timed(lambda b=bound, r=round_: [b(scores, 10 * r + i) for i in range(10)]) / 10
            )
            peer_times.append(peer())
        own_ms, peer_ms = 1000 * statistics.median(times), 1000 * statistics.median(peer_times)
        ratio = own_ms / peer_ms
        results[name] = {"ours_ms": own_ms, "peer_ms": peer_ms, "ratio": ratio, "target": target}
        print(
            f"{name:34s} rankwright {own_ms:8.2f} ms  peer {peer_ms:9.2f} ms"
            f"  ratio {ratio:.4f}  target {target:.4f}  {'met' if ratio <= target else 'MISSED'}",
            flush=True,
        )
    if args.out:
        packages = ("rankwright", "numba", "numpy", "lightgbm", "catboost")
        about = {
            "machine": platform.processor() or platform.machine(),
            "threads": args.threads,
            "rounds": args.rounds,
            "versions": {name: version(name) for name in packages},
        }
        args.out.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
