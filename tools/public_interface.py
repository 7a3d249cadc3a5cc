"""Write tests/public_interface.txt: the public names with their signatures, so that a change is made on purpose.

Run: python tools/public_interface.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import rankwright

FILE = Path(__file__).parents[1] / "tests" / "public_interface.txt"


def interface() -> str:
    """Return a line for each name, method and property of the package, in the order of the names."""
    return "".join(f"{line}\n" for line in lines(rankwright))


def lines(module: Any) -> Iterator[str]:
    """Yield the lines of a module's public names."""
    public = {name: getattr(module, name) for name in sorted(module.__all__)}
    kinds = {value for value in public.values() if inspect.isclass(value)}
    for name, value in public.items():
        path = f"{module.__name__}.{name}"
        if inspect.ismodule(value):
            yield from lines(value)
        elif inspect.isclass(value):
            yield f"{path}{signature(value)}"
            yield from (f"{path}.{member}" for member in members(value, kinds))
        elif callable(value):
            yield f"{path}{signature(value)}"
        else:
            yield f"{path}: {type(value).__name__}"


def members(kind: type, public: set[Any]) -> list[str]:
    """Return the methods and properties of a class; another public class lists its own."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        # Members that other libraries add, such as scikit-learn, change with their versions.
        if not base.__module__.startswith("rankwright") or (base in public and base is not kind):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in found:
                continue
            if isinstance(value, property | cached_property):
                found[name] = f"{name}: property"
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(function):
                found[name] = f"{name}{signature(function)}"
    return [found[name] for name in sorted(found)]


def signature(value: Any) -> str:
    """Return a signature; a function that is a default is written as its name."""
    return re.sub(r"<function (\S+) at 0x\w+>", r"\1", str(inspect.signature(value)))


if __name__ == "__main__":
    FILE.write_text(interface())
