"""Optional libraries of the targets, checked before any work."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def require(name: str, target: str, extra: str) -> Any:
    """Import a library, or say which extra installs it."""
    if find_spec(name) is None:
        raise ImportError(
            f'the target {target!r} needs the package {name}; install it with pip install "rankwright[{extra}]".'
        )
    return import_module(name)
