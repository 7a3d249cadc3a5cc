"""Memory for kernels, reused between calls: fresh pages cost more than the work done in them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = TypeVar("Arrays")


class Scratch(Generic[Arrays]):
    """A pool of scratch arrays: one set for each thread that works at the same time.

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
        """Lend a set of arrays that no other thread uses meanwhile."""
        try:
            arrays = self._free.pop()
        except IndexError:
            arrays = self._create(self._longest)
        try:
            yield arrays
        finally:
            self._free.append(arrays)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the memory behind when an objective is pickled."""
        return {"_create": self._create, "_longest": self._longest, "_free": []}


class Results:
    """Arrays to return, reused once the caller has dropped them.

    An array is free when nothing but this object refers to it. A view counts as a reference, so an array that
    is still in use never changes.
    """

    _UNUSED = 3  # references to an array that nobody else has: the list's, the loop's and getrefcount's own

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.float64]] = []

    def take(self, n: int) -> NDArray[np.float64]:
        """Return an array of n zeros."""
        for array in self._arrays:
            if sys.getrefcount(array) == self._UNUSED and len(array) == n:
                array.fill(0.0)
                return array
        self._arrays = [
            *self._arrays[-3:],
            np.zeros(n),
        ]  # two results, and as many that the caller still holds
        return self._arrays[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the memory behind when an objective is pickled."""
        return {"_arrays": []}
