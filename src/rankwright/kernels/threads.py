"""Ranges of queries over threads, and work that Ctrl-C can end.

Python handles Ctrl-C in its main thread, between two lines: not while that thread is in a kernel. Long work therefore
runs in other threads while the main thread waits. On Ctrl-C it raises a flag, which kernels that take long for a single
query look at from time to time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from threading import Thread, current_thread, local, main_thread

import numpy as np
from numpy.typing import NDArray

from rankwright.support.checks import whole

MOST_THREADS = 1024  # more are a mistake, and LightGBM crashes
LONG_WORK = 2e7  # pairs of documents: about a tenth of a second
_FORKED: list[bool] = []  # True in a forked process
_SECONDS_BETWEEN_LOOKS = 0.05
_NEVER = np.zeros(1, dtype=np.uint8)
_CALL = local()  # of each thread: the flag of the call that it works for

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


def available_threads(threads: int | None) -> int:
    """Return the number of threads to use: as asked, or one per core that this process may use.

    A forked process is one of several workers: it uses one thread unless asked for more.
    """
    if threads is None:
        if _FORKED:
            return 1
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return whole("n_jobs", threads, least=1, most=MOST_THREADS)


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


def stop_flag() -> NDArray[np.uint8]:
    """Return the flag that a kernel of this thread looks at: a byte, not 0 if the result is no longer needed.

    Examples
    --------
    >>> stop_flag()
    array([0], dtype=uint8)
    """
    flag: NDArray[np.uint8] = getattr(_CALL, "flag", _NEVER)
    return flag


def run_ranges(
    kernel: Callable[[int, int], None], ranges: list[tuple[int, int]], *, long: bool = False
) -> None:
    """Call ``kernel(q0, q1)`` for each range, all but the first in further threads.

    With ``long=True`` the main thread works on none, so that Ctrl-C need not wait for the work to end.
    """
    errors: list[BaseException] = []
    flag = np.zeros(1, dtype=np.uint8)

    def guarded(q0: int, q1: int) -> None:
        _CALL.flag = flag
        try:
            kernel(q0, q1)
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    only_waits = long and current_thread() is main_thread()
    in_this_thread = ranges[:0] if only_waits else ranges[:1]
    further = ranges[len(in_this_thread) :]
    threads = [Thread(target=guarded, args=limits) for limits in further]
    try:
        for thread in threads:
            thread.start()
        for limits in in_this_thread:
            kernel(*limits)
        for thread in threads:
            # A wait without a limit would miss a Ctrl-C that another thread receives.
            while thread.is_alive():
                thread.join(_SECONDS_BETWEEN_LOOKS)
    except BaseException:
        flag[0] = 1
        _wait_for(threads)
        raise
    if errors:
        raise errors[0]


def _wait_for(threads: list[Thread]) -> None:
    """Wait for the end of started threads; another Ctrl-C is ignored, because they are about to end."""
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt:
                continue
