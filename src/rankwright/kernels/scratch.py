"""Memory for kernels, reused between calls because fresh pages cost more than the work done in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

Arrays = TypeVar("Arrays")


class Scratch(Generic[Arrays]):
    """A pool of scratch arrays, with a set for each thread that works at the same time.

    Parameters
    ----------
    create
        Function of ``longest`` that allocates a set, such as `RankedScratch.create`.
    longest
        Documents of the longest query.
    """

    def __init__(self, create: Callable[[int], Arrays], longest: int) -> None:
        self._create = create
        self._longest = longest
        self._free: list[Arrays] = []

    @contextmanager
    def borrow(self) -> Iterator[Arrays]:
        """Lend a set of arrays that other threads do not use meanwhile."""
        try:
            arrays = self._free.pop()
        except IndexError:
            arrays = self._create(self._longest)
        try:
            yield arrays
        finally:
            self._free.append(arrays)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the memory, for pickles of an objective."""
        return {"_create": self._create, "_longest": self._longest, "_free": []}
