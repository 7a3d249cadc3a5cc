"""Calls to LightGBM with different numbers of threads must not overlap, or the process dies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from rankwright.engines.gate import ThreadCountGate

# Sparse columns are the ones whose buffers LightGBM sizes by the number of threads.
MANY_GROWERS = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from rankwright import RankingData
from rankwright.engines.contract import Growth
from rankwright.engines.lightgbm.grower import Grower

rng = np.random.default_rng(0)
X = rng.random((800, 30)) * (rng.random((800, 30)) < 0.1)
data = RankingData(X, np.zeros(800), group=[800])
options = {"num_leaves": 8, "max_bin": 63, "max_depth": -1, "min_child_samples": 5,
           "reg_lambda": 1.0, "subsample": 1.0, "colsample": 1.0}
with ThreadPoolExecutor(4) as pool:
    for grower in pool.map(lambda threads: Grower(Growth([data], options, {}, 0, threads)), [1, 2] * 300):
        assert grower.can_split
print("all made")
"""


def test_growers_with_different_numbers_of_threads_can_be_made_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_GROWERS], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "all made\n"), done.stderr[-2000:]


def test_different_numbers_do_not_overlap() -> None:
    gate = ThreadCountGate()
    inside: list[int] = []
    seen: list[tuple[int, ...]] = []
    lock = threading.Lock()

    def call(threads: int) -> None:
        with gate.calls_with(threads):
            with lock:
                inside.append(threads)
                seen.append(tuple(inside))
            time.sleep(0.002)
            with lock:
                inside.remove(threads)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, [1, 1, 2, 2, 2, 3, 1, 1] * 10))
    assert len(seen) == 80
    assert all(len(set(together)) == 1 for together in seen)


def test_equal_numbers_overlap() -> None:
    gate = ThreadCountGate()
    met = threading.Barrier(2, timeout=30)

    def call(_: int) -> None:
        with gate.calls_with(2):
            met.wait()  # breaks unless both are inside

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(call, range(2)))


def test_waiters_are_served_in_order() -> None:
    gate = ThreadCountGate()
    order: list[str] = []

    def late() -> None:
        with gate.calls_with(1):
            order.append("waited")

    def newcomer() -> None:
        with gate.calls_with(2):
            order.append("came later")

    with gate.calls_with(2):
        waiting = threading.Thread(target=late)
        waiting.start()
        while not gate._entrance.locked():
            time.sleep(0.001)
        following = threading.Thread(target=newcomer)
        following.start()
        time.sleep(0.1)
        assert order == []
    waiting.join(10)
    following.join(10)
    assert order == ["waited", "came later"]


def test_a_call_that_fails_leaves() -> None:
    gate = ThreadCountGate()
    try:
        with gate.calls_with(1):
            raise KeyError
    except KeyError:
        pass
    entered = threading.Event()

    def call() -> None:
        with gate.calls_with(2):
            entered.set()

    threading.Thread(target=call, daemon=True).start()
    assert entered.wait(30)
