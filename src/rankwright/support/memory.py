"""Return freed memory to the operating system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def release_memory() -> None:
    """Return freed memory to the system.

    The allocator of Linux would keep much of it after large arrays of many sizes.

    Examples
    --------
    >>> release_memory()
    """
    if sys.platform == "linux":
        # Other C libraries have no such function.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
