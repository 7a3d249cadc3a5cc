"""What several machines have to agree on, each having some of the queries: sums and maxima over all of them.

The loop asks a `Reducer` at every such place: the largest gradient, the sums of the leaves, the means of the metrics,
the counts that settings are chosen by. One machine alone has the identity, `ALONE`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Reducer(Protocol):
    """Combines arrays of the same shape, one from each machine; every machine receives the result."""

    def sum(self, values: Floats) -> Floats:
        """Add them, element by element."""

    def max(self, values: Floats) -> Floats:
        """Take the largest of each element."""


class Alone:
    """One machine: its own values are the result.

    Examples
    --------
    >>> ALONE.sum(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def sum(self, values: Floats) -> Floats:
        """Return the values."""
        return values

    def max(self, values: Floats) -> Floats:
        """Return the values."""
        return values


ALONE = Alone()
