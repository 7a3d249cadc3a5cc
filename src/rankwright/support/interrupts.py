"""Ctrl-C that waits while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred_interrupts() -> Iterator[list[Any]]:
    """Let Ctrl-C wait until the end of the block, and take effect then.

    Yields a list that is empty until a Ctrl-C arrives, so that a block that waits for something can give up. Python
    runs handlers of signals in the main thread only: in other threads nothing is changed, and nothing arrives.

    Examples
    --------
    >>> steps = []
    >>> try:
    ...     with deferred_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         steps.append("complete")
    ... except KeyboardInterrupt:
    ...     steps.append("interrupted")
    >>> steps
    ['complete', 'interrupted']
    """
    arrived: list[Any] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # ignored, left to the system, or not set from Python
        yield arrived
        return

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    signal.signal(signal.SIGINT, remember)
    try:
        yield arrived
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            handler(*arrived[0])
