"""Very long queries: Ctrl-C takes effect during a kernel, and shortcuts leave out only what is exactly 0."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import sqrt

import numpy as np
import pytest
from scipy.special import erfc

from rankwright import evaluate, gradients, objective
from rankwright.kernels import threads
from rankwright.kernels.threads import LONG_WORK, run_ranges, stop_flag
from rankwright.objectives import bind
from waiting import wait_for

DRAW = np.random.default_rng(0)


def interrupt_soon(event: threading.Event) -> None:
    event.wait(60)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("parts", [1, 3])
def test_ctrl_c_ends_long_work_in_every_thread(parts: int) -> None:
    all_started, started, ended = threading.Event(), [], []

    def work(q0: int, q1: int) -> None:
        flag = stop_flag()
        started.append(q0)
        if len(started) == parts:
            all_started.set()
        deadline = time.monotonic() + 60
        while flag[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        ended.append(flag[0] != 0)

    threading.Thread(target=interrupt_soon, args=(all_started,), daemon=True).start()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run_ranges(work, [(k, k + 1) for k in range(parts)], long=True)
    wait_for(lambda: len(ended) == parts)  # the caller does not wait for its threads
    assert all(ended)


def test_an_error_in_a_thread_is_raised_by_the_caller() -> None:
    def fail(q0: int, q1: int) -> None:
        raise ValueError(f"range {q0}")

    with pytest.raises(ValueError, match="range 0"):
        run_ranges(fail, [(0, 1)], long=True)


@pytest.fixture
def raised_flag() -> Iterator[None]:
    threads._CALL.flag = np.ones(1, dtype=np.uint8)
    yield
    del threads._CALL.flag


QUADRATIC = [
    "lambdamart",
    "lambdaloss",
    "ranknet",
    "softrank",
    "stochasticrank(sfa=False, mu=0)",
    "yetiloss(neighbours=all)",
]


@pytest.mark.parametrize("objective", QUADRATIC)
def test_kernels_stop_where_nobody_waits(objective: str, raised_flag: None) -> None:
    grad, _ = gradients(
        objective,
        DRAW.normal(size=40),
        DRAW.integers(0, 3, 40),
        group=[40],
        metric="ndcg",
        n_jobs=1,
    )
    assert not grad.any()


@pytest.mark.parametrize("text", QUADRATIC)
def test_a_hundred_thousand_documents_are_long_work(text: str) -> None:
    """So that the main thread waits for Ctrl-C: all of these take seconds."""
    assert objective(text).work(np.array([100_000.0])).sum() > LONG_WORK


def test_a_chain_and_the_mean_over_ties_stop_where_nobody_waits(raised_flag: None) -> None:
    labels = DRAW.integers(0, 3, 40)
    grad, _ = gradients(
        "stochasticrank(sfa=False, mu=0)", labels, labels, group=[40], metric="err", n_jobs=1
    )
    assert not grad.any()
    assert (
        evaluate(np.zeros(40), labels, group=[40], metrics="err", ties="expected", n_jobs=1).mean[
            "err"
        ]
        == 0
    )


def test_long_work_has_the_bits_of_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = DRAW.normal(size=300), DRAW.integers(0, 3, 300)
    short = bind("lambdamart", labels, qid=np.arange(300) % 2)
    monkeypatch.setattr("rankwright.objectives.bound.LONG_WORK", 0)
    long = bind("lambdamart", labels, qid=np.arange(300) % 2)
    assert long._long
    assert not short._long
    assert np.array_equal(long(scores), short(scores))


def expected_dcg(scores: np.ndarray, gains: np.ndarray, cutoff: int) -> float:
    """E sum g w over rank distributions: every document's recursion at once, one opponent at a time."""
    n = len(scores)
    chances = np.zeros((n, cutoff))
    chances[:, 0] = 1
    beaten = 0.5 * erfc((scores - scores[:, None]) / 2)  # [opponent, document]
    for opponent in range(n):
        p = beaten[opponent].copy()
        p[opponent] = 0
        below = np.column_stack([np.zeros(n), chances[:, :-1]])
        chances = chances * (1 - p[:, None]) + below * p[:, None]
    weights = [1 / np.log2(2 + rank) for rank in range(cutoff)]
    return float(gains @ chances @ weights)


def test_softrank_of_a_long_query_is_the_derivative_of_its_definition() -> None:
    n, cutoff = 1300, 5
    draw = np.random.default_rng(4)
    scores, labels = draw.normal(scale=0.3, size=n), (draw.random(n) < 0.5).astype(float)
    scores[0] = (
        4.0  # a document whose rank stays possible to the end, beside many whose rank does not
    )
    labels[0] = 1
    grad, _ = gradients("softrank", scores, labels, group=[n], metric=f"dcg@{cutoff}")
    for document in (0, int(np.argmax(scores[1:])) + 1):
        values = []
        for step in (-1e-4, 1e-4):
            moved = scores.copy()
            moved[document] += step
            values.append(expected_dcg(moved, labels, cutoff))
        assert grad[document] == pytest.approx(-(values[1] - values[0]) / 2e-4, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("relevant", [1, 30, 2000])
def test_expected_mrr_of_a_long_block_of_ties(relevant: int) -> None:
    n = 4000
    labels = np.zeros(n)
    labels[np.random.default_rng(1).permutation(n)[:relevant]] = 1
    # Chance that none of the first k documents is relevant: a product of shares.
    none = [
        1.0,
        *accumulate(
            ((n - relevant - k) / (n - k) for k in range(n - relevant)), lambda a, b: a * b
        ),
    ]
    expected = sum(
        (before - after) / rank
        for rank, (before, after) in enumerate(pairwise([*none, 0.0]), start=1)
    )
    value = evaluate(np.zeros(n), labels, group=[n], metrics="mrr", ties="expected").mean["mrr"]
    assert value == pytest.approx(expected, rel=1e-12)


def test_softrank_without_a_cutoff_refuses_what_takes_gigabytes() -> None:
    n = 20_000
    with pytest.raises(
        ValueError,
        match=r"softrank for ndcg needs 3 GB for a query of 20000 documents; use a metric",
    ):
        gradients("softrank", np.zeros(n), np.ones(n), group=[n], metric="ndcg")
    assert sqrt(1 << 28) < n
