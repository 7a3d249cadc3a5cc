"""What a figure was measured with: versions and machine. Neither host names nor paths."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def environment(packages: Sequence[str]) -> dict[str, Any]:
    """Describe Python, packages (None where one is not installed) and machine.

    Examples
    --------
    >>> described = environment(["rankwright", "no-such-package"])
    >>> sorted(described), described["packages"]["no-such-package"]
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


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:  # only Linux has the file
        found = None
    return found.group(1) if found else platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
