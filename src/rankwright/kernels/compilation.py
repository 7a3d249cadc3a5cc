"""When kernels are compiled: how long it takes, and a word about it before it does.

Numba compiles a kernel where a process first calls it, unless an earlier process left it in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from rankwright.kernels.cache import cache_folder

_EVENT = "numba:compile"  # not sent where a kernel is loaded from the cache


class _Clock(event.Listener):
    """Seconds of this process in the compiler. One thread compiles at a time, a kernel's own calls inside it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.show: Callable[[str], None] | None = None
        self.announced = False
        self._depth = 0
        self._began = 0.0

    def on_start(self, _: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            if self.show is not None and not self.announced:
                self.announced = True
                self.show(_message())

    def on_end(self, _: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


_CLOCK = _Clock()
event.register(_EVENT, _CLOCK)


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling so far."""
    return _CLOCK.seconds


@contextmanager
def announcing(show: Callable[[str], None]) -> Iterator[None]:
    """Call ``show`` with one line before the first kernel of the process is compiled, if that is in the block.

    The outermost block is asked.
    """
    if _CLOCK.show is not None:
        yield
        return
    _CLOCK.show = show
    try:
        yield
    finally:
        _CLOCK.show = None


def _message() -> str:
    folder = cache_folder()
    where = (
        ""
        if folder is None
        else f" (the package's folder cannot be written to; they are cached in {folder})"
    )
    return f"compiling kernels, first run only{where}"
