"""Time gradients and expected metrics of one very long query, and how long Ctrl-C takes meanwhile.

python tools/trust/long_queries.py --documents 100000
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np

from rankwright import evaluate, gradients

OBJECTIVES = (
    ("lambdamart", "ndcg"),
    ("lambdamart", "err"),
    ("lambdaloss", "ndcg"),
    ("softrank", "ndcg@10"),
    ("stochasticrank", "ndcg"),
    ("yetiloss", "ndcg"),
)
WAIT = 0.3  # seconds of work before Ctrl-C


def interrupted(work: Callable[[], object]) -> str:
    """Return the seconds that Ctrl-C takes, or that the work was done before."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(WAIT, send)
    timer.start()
    try:
        work()
        timer.cancel()
        if sent:
            time.sleep(1)  # for the Ctrl-C to arrive
        return "done before"
    except KeyboardInterrupt:
        return f"{time.perf_counter() - sent[0]:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--only-interrupts", action="store_true")
    options = parser.parse_args()
    n = options.documents
    draw = np.random.default_rng(0)
    labels, scores = draw.integers(0, 5, n).astype(float), draw.normal(size=n)
    jobs: dict[str, Callable[[int], object]] = {}
    for objective, metric in OBJECTIVES:
        jobs[f"{objective} for {metric}"] = lambda n, o=objective, m=metric: gradients(
            o, scores[:n], labels[:n], group=[n], metric=m, n_jobs=1
        )
    for metric in ("err", "mrr"):
        jobs[f"{metric}, expected ties"] = lambda n, m=metric: evaluate(
            np.zeros(n), labels[:n], group=[n], metrics=m, ties="expected", n_jobs=1
        )
    for name, job in jobs.items():
        job(50)  # compiles
        caught = interrupted(lambda job=job: job(n))
        seconds = ""
        if not options.only_interrupts:
            start = time.perf_counter()
            job(n)
            seconds = f"{time.perf_counter() - start:8.2f} s"
        print(f"{name:<26} {seconds}  Ctrl-C after {caught}", flush=True)


if __name__ == "__main__":
    main()
