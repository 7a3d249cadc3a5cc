"""Calls that need different numbers of threads wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ThreadCountGate:
    """Lets calls with the same number of threads overlap, and no others.

    LightGBM keeps one number of threads for the whole process. It sizes buffers by it, then reads it again to fill
    them: if another call changes the number in between, it writes out of bounds and the process dies. Waiters are
    served in order, so that no stream of calls can keep another number out.

    Examples
    --------
    >>> gate = ThreadCountGate()
    >>> with gate.calls_with(2), gate.calls_with(2):
    ...     print("together")
    together
    """

    def __init__(self) -> None:
        self._entrance = threading.Lock()
        self._changed = threading.Condition()
        self._threads = 0
        self._calls = 0

    @contextmanager
    def calls_with(self, threads: int) -> Iterator[None]:
        """Wait until all calls under way use this number of threads, and be one of them."""
        with self._entrance, self._changed:
            self._changed.wait_for(lambda: self._calls == 0 or self._threads == threads)
            self._threads = threads
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()


GATE = ThreadCountGate()  # of the process, as LightGBM's number of threads is
