"""Thresholds as search engines read them, for writers.

A node of a model sends x to the left by one of the rules of `rankwright.kernels.tree_arrays`. Every rule on numbers is
the same as ``x <= T`` for a threshold T that depends on the precision of x:

- 32 bits. ``x <= t`` is ``x <= T`` for the largest single-precision number T that is not above t. Rounding t to the
  nearest instead sends x = T to the wrong side in half of the cases.
- ``x < t``, both rounded to 32 bits, is ``x <= T`` for the number T before float32(t). With x in double precision, T is
  the last double that rounds to it.
- Zeros: |x| <= ZERO counts as 0, so a threshold within ±ZERO becomes ZERO (zeros to the left) or the number before
  -ZERO (zeros to the right).
- Thresholds that are infinite or too large for the precision become the largest number: JSON has no infinity.

Engines that compare by ``x < S`` take for S the number after T.
"""

from __future__ import annotations

import numpy as np

from rankwright.kernels.tree_arrays import AT_MOST, ZERO

LARGEST_SINGLE = float(np.finfo(np.float32).max)
LARGEST_DOUBLE = float(np.finfo(np.float64).max)
_BELOW_ZEROS = {
    True: float(np.nextafter(np.float32(-ZERO), np.float32(-np.inf))),
    False: float(np.nextafter(-ZERO, -1)),
}


def at_most(threshold: float, decision: int, *, single: bool) -> float:
    """Return T such that a node sends x to the left if x <= T, for x in single or double precision.

    Examples
    --------
    >>> at_most(0.1, AT_MOST, single=False), at_most(0.1, AT_MOST, single=True)
    (0.1, 0.09999999403953552)
    >>> at_most(1e300, AT_MOST, single=True) == LARGEST_SINGLE
    True
    """
    if decision == AT_MOST:
        if 0 <= threshold < ZERO:
            threshold = ZERO
        elif -ZERO <= threshold < 0:
            threshold = _BELOW_ZEROS[single]
        return single_floor(threshold) if single else _clamp(threshold, LARGEST_DOUBLE)
    with np.errstate(over="ignore"):
        bound = np.float32(threshold)
    last = np.nextafter(bound, np.float32(-np.inf))  # the last single-precision number on the left
    if single or np.isinf(last):
        return _clamp(float(last), LARGEST_SINGLE if single else LARGEST_DOUBLE)
    middle = (float(last) + (2.0**128 if np.isinf(bound) else float(bound))) / 2
    with np.errstate(over="ignore"):
        return middle if np.float32(middle) == last else float(np.nextafter(middle, -np.inf))


def single_floor(threshold: float) -> float:
    """Return the largest finite single-precision number that is not above a threshold.

    Examples
    --------
    >>> single_floor(1.0), single_floor(-np.inf) == -LARGEST_SINGLE
    (1.0, True)
    """
    limited = _clamp(threshold, LARGEST_SINGLE)
    nearest = np.float32(limited)
    return float(
        nearest if float(nearest) <= limited else np.nextafter(nearest, np.float32(-np.inf))
    )


def below(threshold: float, *, single: bool) -> float:
    """Return S such that x < S is x <= threshold, for x in single or double precision.

    The largest number has none after it and stays: only x equal to it is on the other side.

    Examples
    --------
    >>> below(1.0, single=False), below(1.0, single=True)
    (1.0000000000000002, 1.0000001192092896)
    """
    with np.errstate(over="ignore"):
        if single:
            return _clamp(
                float(np.nextafter(np.float32(threshold), np.float32(np.inf))), LARGEST_SINGLE
            )
        return _clamp(float(np.nextafter(threshold, np.inf)), LARGEST_DOUBLE)


def zero_goes_left(threshold: float, decision: int) -> bool:
    """Return whether x = 0 goes to the left by the threshold alone."""
    if decision == AT_MOST:
        return threshold >= 0
    with np.errstate(over="ignore"):
        return bool(np.float32(threshold) > 0)


def _clamp(value: float, largest: float) -> float:
    return min(max(value, -largest), largest)
