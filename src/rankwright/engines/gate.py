"""Calls that need different numbers of threads wait for each other."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from rankwright.support.interrupts import deferred_interrupts

# On smaller data the threads of an engine, which wait for a while in a busy loop, cost more than they gain, and much
# more if other processes need the cores.
VALUES_TO_SHARE = 300_000  # rows times columns
_SECONDS_BETWEEN_LOOKS = 0.05  # for a Ctrl-C, while a call waits


class ThreadCountGate:
    """Lets calls overlap only if they use the same number of threads.

    LightGBM keeps one number of threads for the whole process. It sizes buffers by it, then reads it again to fill
    them: if another call changes the number in between, it writes out of bounds and the process dies. Waiters are
    served in order, so that no stream of calls can keep another number out.

    A Ctrl-C takes effect after the call, as it would in a library that Python cannot interrupt, so that each call gives
    up its place. If a call still waits for its turn, Ctrl-C ends the wait. A forked process starts with an empty gate,
    because the calls of its parent do not return in it.

    Examples
    --------
    >>> gate = ThreadCountGate()
    >>> with gate.calls_with(2), gate.calls_with(2):
    ...     print("together")
    together
    """

    def __init__(self) -> None:
        self._most = 1  # threads of any call so far
        self._most_before_fork = 1
        self._reset()
        _GATES.add(self)

    def _reset(self) -> None:
        self._entrance = threading.Lock()
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._calls = 0

    def after_fork(self) -> None:
        """Forget the calls of the parent process."""
        self._most_before_fork = max(self._most, self._most_before_fork)
        self._most = 1
        self._reset()

    def usable(self, threads: int) -> int:
        """Return the number of threads that calls in this process can have.

        The threads of OpenMP do not survive a fork, but the library waits for them for ever. So a process has one
        thread if its parent used several before the fork.
        """
        return 1 if self._most_before_fork > 1 else threads

    @contextmanager
    def calls_with(self, threads: int) -> Iterator[None]:
        """Wait until all calls in progress use this number of threads, and join them."""
        entered = False
        while not entered:
            with deferred_interrupts() as interrupts:
                entered = self._enter(threads, interrupts)
                if entered:
                    try:
                        yield
                    finally:
                        with self._changed:
                            self._calls -= 1
                            self._changed.notify_all()
            # Leaving the block raised what had arrived, unless the program handles Ctrl-C in another way.

    def _enter(self, threads: int, interrupts: list[object]) -> bool:
        while not self._entrance.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
            if interrupts:
                return False
        try:
            with self._changed:
                while self._calls > 0 and self._threads != threads:
                    if interrupts:
                        return False
                    self._changed.wait(_SECONDS_BETWEEN_LOOKS)
                self._threads = threads
                self._calls += 1
                self._most = max(self._most, threads)
                return True
        finally:
            self._entrance.release()


_GATES: weakref.WeakSet[ThreadCountGate] = weakref.WeakSet()


def _after_fork() -> None:
    for gate in list(_GATES):
        gate.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)

GATE = ThreadCountGate()  # of the process, as LightGBM's number of threads is


def threads_for(most: int, n_values: int) -> int:
    """Return the number of threads to grow trees with, on this many values (rows times columns)."""
    return GATE.usable(most) if n_values >= VALUES_TO_SHARE else 1
