"""Waiting for a condition with a limit, in tests of other processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], timeout: float = 120.0, pause: float = 0.005) -> None:
    """Return once ``condition()`` is true; fail after ``timeout`` seconds. An error in the condition ends the wait."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition was not met within {timeout:g} seconds")
        time.sleep(pause)
