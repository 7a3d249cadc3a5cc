"""Time per document and memory in one query of 10^6 documents against queries of 10^3, one thread.

python benchmarks/growth.py
"""

from __future__ import annotations

import statistics
import time
import tracemalloc

import numpy as np

from rankwright.objectives import bind

CASES = [
    ("stochasticrank", "ndcg@10", {}),
    ("lambdamart", "ndcg@10", {"truncation": 13}),
    ("yetiloss", "ndcg", {}),
    ("xendcg", "ndcg", {}),
]


def per_document(objective: str, metric: str, options: dict, documents: int, queries: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    n = documents * queries
    labels = rng.choice(5, n, p=[0.515, 0.325, 0.134, 0.018, 0.008]).astype(float)
    scores = rng.normal(size=n)
    bound = bind(objective, labels, group=[documents] * queries, metric=metric, threads=1, **options)
    bound(scores, 0)
    times = []
    for iteration in range(3):
        start = time.perf_counter()
        bound(scores, iteration)
        times.append(time.perf_counter() - start)
    tracemalloc.start()  # NumPy reports its arrays; kernels' scratch is a fixed number of arrays of a query's length
    bound(scores, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return statistics.median(times) / n, peak / n


def main() -> None:
    for objective, metric, options in CASES:
        small, _ = per_document(objective, metric, options, 1_000, 200)
        large, memory = per_document(objective, metric, options, 1_000_000, 1)
        print(
            f"{objective:15s} {metric:8s} {1e9 * small:7.1f} ns/document at 10^3, {1e9 * large:7.1f} at 10^6: "
            f"ratio {large / small:.2f} (target 3), {memory:.0f} bytes/document",
            flush=True,
        )


if __name__ == "__main__":
    main()
