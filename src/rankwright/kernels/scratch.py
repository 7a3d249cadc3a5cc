"""Memory that kernels work in, kept between calls: fresh pages cost more than the work done in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[
    tuple[NDArray[np.float64], ...], NDArray[np.float64], tuple[NDArray[np.uint64], ...], tuple[NDArray[np.int64], ...]
]


class Scratch:
    """Arrays for queries of up to ``longest`` documents, one set per thread that works at a time.

    Parameters
    ----------
    longest
        Documents of the longest query.
    n_real
        Number of float arrays [longest + 1].
    n_facts
        Number of floats per document, side by side: what has to move together then shares a cache line.
    """

    def __init__(self, longest: int, n_real: int, n_facts: int = 0) -> None:
        self._shape = (longest, n_real, n_facts)
        self._free: list[Arrays] = []

    @contextmanager
    def borrow(self) -> Iterator[Arrays]:
        """Lend float arrays, facts, sort keys [2] and places [3]; nobody else has them meanwhile."""
        try:
            arrays = self._free.pop()
        except IndexError:
            longest, n_real, n_facts = self._shape
            arrays = (
                tuple(np.empty((n_real, longest + 1))),
                np.empty((longest, n_facts)),
                tuple(np.empty((2, longest), dtype=np.uint64)),
                tuple(np.empty((3, longest), dtype=np.int64)),
            )
        try:
            yield arrays
        finally:
            self._free.append(arrays)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the memory behind when an objective is pickled."""
        return {"_shape": self._shape, "_free": []}


class Results:
    """Arrays to return, used again once the caller has let go of them.

    An array is free when nothing but this object refers to it; a view of it would, so it is never changed under
    anybody's hands.
    """

    _UNUSED = 3  # references to an array nobody else has: the list's, the loop's and getrefcount's own

    def __init__(self) -> None:
        self._kept: list[NDArray[np.float64]] = []

    def take(self, n: int) -> NDArray[np.float64]:
        """Return an array of n zeros."""
        for array in self._kept:
            if sys.getrefcount(array) == self._UNUSED and len(array) == n:
                array.fill(0.0)
                return array
        self._kept = [*self._kept[-3:], np.zeros(n)]  # two results, and as many that the caller still holds
        return self._kept[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the memory behind when an objective is pickled."""
        return {"_kept": []}
