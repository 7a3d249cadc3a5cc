"""Waiting for a condition in tests of other processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout: float = 120.0, pause: float = 0.01) -> T:
    """Poll until the result of ``condition()`` is true, and return it; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition was not met within {timeout:g} seconds")
        time.sleep(pause)
    return result
