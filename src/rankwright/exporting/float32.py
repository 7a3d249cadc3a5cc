"""Thresholds of double precision in single precision, so that the same numbers of single precision pass them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats32 = NDArray[np.float32]

_MINUS_INFINITY, _INFINITY = np.float32(-np.inf), np.float32(np.inf)


def largest_float32_at_most(x: ArrayLike) -> Floats32:
    """Return the largest 32-bit numbers that are not above x: ``y <= x`` and ``y <= result`` agree for 32-bit y.

    Examples
    --------
    >>> largest_float32_at_most([0.5, 0.1, 1e300, -1e300]).tolist()
    [0.5, 0.09999999403953552, 3.4028234663852886e+38, -inf]
    """
    values = np.asarray(x, dtype=np.float64)
    # Rounding takes the nearest number, so the result may be the number above x.
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
        before = np.nextafter(rounded, _MINUS_INFINITY)
    return np.where(rounded.astype(np.float64) > values, before, rounded)


def smallest_float32_above(x: ArrayLike) -> Floats32:
    """Return the smallest 32-bit numbers above x: ``y <= x`` and ``y < result`` agree for 32-bit y.

    Examples
    --------
    >>> smallest_float32_above([0.5, 0.1, 1e300, -1e300]).tolist()
    [0.5000000596046448, 0.10000000149011612, inf, -3.4028234663852886e+38]
    """
    with np.errstate(over="ignore"):
        return np.nextafter(largest_float32_at_most(x), _INFINITY)
