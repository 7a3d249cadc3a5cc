"""Ctrl-C that waits while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts(list[Any]):
    """The Ctrl-Cs that have arrived in a block of `deferred_interrupts`."""

    _at_once = False
    _handler: Callable[..., Any] | None = None

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let Ctrl-C take effect at once in this block, for work that may take long.

        A Ctrl-C that has arrived before takes effect now. After the first Ctrl-C, further ones wait
        again, because they must not interrupt the code that deals with the first.
        """
        self._at_once = True
        try:
            if self:
                self._receive(*self.pop(0))
            yield
        finally:
            self._at_once = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self._at_once:
            self.append((number, frame))
            return
        # The handler may raise KeyboardInterrupt, and the code that catches it must not be hit again.
        self._at_once = False
        assert self._handler is not None
        self._handler(number, frame)
        # The handler did not raise: the program deals with Ctrl-C in another way.
        self._at_once = True


@contextmanager
def deferred_interrupts() -> Iterator[Interrupts]:
    """Let Ctrl-C wait until the end of the block, and take effect then.

    Yields a list that is empty until a Ctrl-C arrives, so that a block that waits for something can
    give up. Work in the block that may take long belongs into a block of `Interrupts.allowed`.
    Python runs handlers of signals in the main thread only: in other threads nothing changes.

    Examples
    --------
    >>> steps = []
    >>> try:
    ...     with deferred_interrupts() as interrupts:
    ...         signal.raise_signal(signal.SIGINT)
    ...         steps.append("complete")
    ... except KeyboardInterrupt:
    ...     steps.append("interrupted")
    >>> steps
    ['complete', 'interrupted']
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        # Ctrl-C is ignored, left to the system, or was not set from Python.
        yield interrupts
        return
    interrupts._handler = handler
    signal.signal(signal.SIGINT, interrupts._receive)
    try:
        yield interrupts
    finally:
        # Several Ctrl-Cs mean the same, so the old handler is called once.
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            handler(*interrupts[0])
