"""Sums and maxima over several machines, each of which has some of the queries.

The machines have to agree on the largest gradient, the sums of the leaves, the means of the metrics
and the counts that settings are chosen by. At every such place the loop asks a `Reducer`. A single
machine has the identity, `ALONE`.

Sums of doubles depend on their order, and so on which machine has which rows. If a reducer is
``exact``, we first round the terms to whole multiples of a common unit. The unit is small enough to
be harmless and large enough for the sum to be exact, so the result has the same bits for any number
of machines. `EXACT_ALONE` is a single machine that adds in this way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DIGITS = 52  # bits of a double past the first
_HEADROOM = 8  # bits by which sums may exceed the total that a rounding is made for


class Reducer(Protocol):
    """Combines an array of the same shape from each machine; every machine receives the result."""

    @property
    def exact(self) -> bool:
        """Whether sums are to have the same bits for any number of machines."""

    def sum(self, values: Floats) -> Floats:
        """Add them, element by element."""

    def max(self, values: Floats) -> Floats:
        """Take the largest of each element."""

    def first(self, values: Floats) -> Floats:
        """Take the values of the first machine.

        All machines have computed the same values, but perhaps with other last bits.
        """


@dataclass(frozen=True)
class Alone:
    """A single machine: its own values are the result.

    Examples
    --------
    >>> ALONE.sum(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    exact: bool = False

    def sum(self, values: Floats) -> Floats:
        """Return the values."""
        return values

    def max(self, values: Floats) -> Floats:
        """Return the values."""
        return values

    def first(self, values: Floats) -> Floats:
        """Return the values, with -0.0 replaced by 0.0 as in a sum over machines."""
        return values + 0.0 if self.exact else values


ALONE = Alone()
EXACT_ALONE = Alone(exact=True)


def addable(values: Floats, n_values: int, reducer: Reducer) -> Floats:
    """Return the values or, for an exact reducer, round them so that sums are exact in any order.

    ``n_values`` is their number on all machines. The unit is about 2^-52 of the largest sum that
    they could have.

    Examples
    --------
    >>> values = np.array([0.1, 1e9, -1e9, 0.2])
    >>> values.sum() == values[::-1].sum()
    np.False_
    >>> rounded = addable(values, 4, EXACT_ALONE)
    >>> rounded.sum() == rounded[::-1].sum()
    np.True_
    """
    if not reducer.exact:
        return values
    # A machine may have no values, and still has to take part.
    local = np.abs(values).max(initial=0.0)
    largest = float(reducer.max(np.array([local]))[0])
    shift = rounding(largest * n_values, headroom=1)
    return (values + shift) - shift


def rounding(total: float, headroom: int = _HEADROOM) -> float:
    """Return a number r such that (x + r) - r is x rounded to a unit and sums up to ``total`` are exact.

    Adding a large number shifts the digits below the unit out of a double, and taking it away
    leaves the rest. With a ``headroom`` of h bits the unit is 2^(h - 52) of the total, and sums may
    be 2^h times as large. If the total is 0, the result is 0, and values stay as they are.

    Examples
    --------
    >>> r = rounding(1000.0)
    >>> (0.1 + r) - r == 0.1, abs(((0.1 + r) - r) - 0.1) < 1e-9
    (False, True)
    """
    if not 0 < total < math.inf:
        return 0.0
    # The factor keeps x + r in the same binade for positive and negative x, with the same unit.
    return 1.5 * 2.0 ** (math.frexp(total)[1] + headroom)
