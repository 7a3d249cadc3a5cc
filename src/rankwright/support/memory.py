"""Memory that was freed, given back to the operating system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def release_memory() -> None:
    """Give freed memory back: the allocator of Linux keeps much of what large arrays of many sizes leave behind.

    Examples
    --------
    >>> release_memory()
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # other C libraries have no such function
            ctypes.CDLL(None).malloc_trim(0)
