"""The environment: optional libraries, and versions and machine without host names or paths."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def environment(packages: Sequence[str]) -> dict[str, Any]:
    """Describe Python, packages (None if a package is not installed) and the machine.

    Examples
    --------
    >>> description = environment(["rankwright", "no-such-package"])
    >>> sorted(description), description["packages"]["no-such-package"]
    (['memory_gb', 'packages', 'processor', 'processors', 'python', 'system'], None)
    """
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_gb": _memory_gb(),
    }


def require(purpose: str, extra: str, *modules: str) -> Any:
    """Import the libraries of an extra, and return the last of them.

    Raise ImportError, with the command that installs them, if one of them cannot be imported.

    Examples
    --------
    >>> require("a sum", "numbers", "math").fsum([1, 2])
    3.0
    >>> require("a sum", "numbers", "no_such_library")
    Traceback (most recent call last):
    ImportError: a sum needs no_such_library, which is not installed: pip install "rankwright[numbers]".
    """
    for module in modules:
        try:
            library = import_module(module)
        except ImportError as error:
            reason = "is not installed"
            # A library may be there, and what it needs itself may be missing.
            if getattr(error, "name", None) != module:
                reason = f"cannot be imported ({error})"
            raise ImportError(
                f'{purpose} needs {module}, which {reason}: pip install "rankwright[{extra}]".'
            ) from error
    return library


def memory_bytes() -> int:
    """Return the memory that this process may use, by the machine or by its container.

    The result is 0 if the system does not say.

    Examples
    --------
    >>> memory_bytes() >= 0
    True
    """
    limits = []
    gigabytes = _memory_gb()
    if gigabytes is not None:
        limits.append(int(gigabytes * 2**30))
    # Without a container there is no file, and a container without a limit has the text "max".
    with suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=0)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    match = None
    # Only Linux has the file.
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        match = re.search(r"model name\s*:\s*(.+)", text)
    if match:
        return match.group(1)
    # The name of the processor may be empty, but the architecture is always there.
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
