"""Ranges of queries over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from threading import Thread

import numpy as np
from numpy.typing import NDArray

MOST_THREADS = 1024  # more are a mistake, which LightGBM does not survive
_FORKED: list[bool] = []  # True in a forked process

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


def available_threads(threads: int | None) -> int:
    """Return the number of threads to use: as asked, or one per core that this process may use.

    A forked process is one of several workers: it uses one thread unless asked for more.
    """
    if threads is None:
        if _FORKED:
            return 1
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads must be at least 1, or None for all cores; got {threads}.")
    if threads > MOST_THREADS:
        raise ValueError(f"threads must be at most {MOST_THREADS}, or None for all cores; got {threads}.")
    return threads


def even_ranges(work: NDArray[np.float64], parts: int) -> list[tuple[int, int]]:
    """Cut the queries into at most ``parts`` consecutive ranges of about the same work."""
    done = np.cumsum(work)
    cuts = np.searchsorted(done, done[-1] * np.arange(1, parts) / parts, side="left") + 1
    edges = np.unique(np.concatenate(([0], np.minimum(cuts, len(work)), [len(work)])))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def equal_ranges(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut n items of the same work into at most ``parts`` consecutive ranges.

    Examples
    --------
    >>> equal_ranges(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    edges = [n * part // parts for part in range(parts + 1)]
    return [(start, stop) for start, stop in pairwise(edges) if start < stop]


def run_ranges(kernel: Callable[[int, int], None], ranges: list[tuple[int, int]]) -> None:
    """Call ``kernel(q0, q1)`` for each range, all but the first in threads of their own."""
    errors: list[BaseException] = []

    def guarded(q0: int, q1: int) -> None:
        try:
            kernel(q0, q1)
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    others = [Thread(target=guarded, args=limits) for limits in ranges[1:]]
    for other in others:
        other.start()
    try:
        kernel(*ranges[0])
    finally:
        for other in others:
            other.join()
    if errors:
        raise errors[0]
