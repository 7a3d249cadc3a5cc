"""A convex quadratic program with order constraints, solved exactly, in the caller's thread.

    minimise  x'A x / 2 - b'x    with    x[below_k] <= x[above_k]    for each pair k

Row k of C has -1 at below_k and 1 at above_k. With a multiplier m_k >= 0 for each pair, the solution
is x = A^-1 (b + C'm), and m_k > 0 only for a pair of equal values. We look for the pairs with m_k > 0
as Lawson and Hanson do for least squares: a violated pair joins them, the pairs are solved for
equality, and a pair whose multiplier would become negative leaves them. Each set of pairs is better
than all sets before it, so the search ends. The order of the steps depends on A and b alone.

Reference: Lawson and Hanson, "Solving Least Squares Problems", chapter 23.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.cholesky import factorise, solve_positive, substitute
from rankwright.kernels.jit import allocating

# Values that differ by less than this share of the largest value are equal.
_TOLERANCE = 1e-12


@allocating
def solve_ordered(system: Any, right: Any, below: Any, above: Any) -> Any:
    """Return the x that minimises x'Ax / 2 - b'x with x[below] <= x[above], for a positive definite A.

    All pairs hold exactly, not only up to rounding. They must not contradict each other (no cycles).

    Parameters
    ----------
    system, right
        A [n, n] and b [n].
    below, above
        The smaller and the larger value of each pair [pairs].

    Examples
    --------
    >>> pair = np.array([0]), np.array([1])
    >>> solve_ordered(np.eye(2), np.array([1.0, 2.0]), *pair).tolist()
    [1.0, 2.0]
    >>> solve_ordered(np.eye(2), np.array([2.0, 1.0]), *pair).tolist()
    [1.5, 1.5]
    """
    n = len(right)
    n_pairs = len(below)
    upper = system.copy()
    decided = np.empty(n, np.bool_)
    factorise(upper, decided)
    free = substitute(upper, decided, right)
    # Every step needs differences of rows of the inverse, so it is computed once.
    inverse = np.empty((n, n))
    for i in range(n):
        unit = np.zeros(n)
        unit[i] = 1.0
        inverse[i] = substitute(upper, decided, unit)
    slack = _TOLERANCE * np.abs(free).max()
    multipliers = np.zeros(n_pairs)
    x = free.copy()
    # Rounding could let the search go on for ever, so it has far more steps than it ever needs.
    for _ in range(10 * n_pairs):
        violated = -1
        largest = slack
        for k in range(n_pairs):
            gap = x[below[k]] - x[above[k]]
            if multipliers[k] == 0.0 and gap > largest:
                violated = k
                largest = gap
        if violated < 0:
            break
        # The most violated pair first, which needs the fewest steps in practice.
        _add_pair(violated, multipliers, free, inverse, below, above)
        x[:] = free
        for k in range(n_pairs):
            if multipliers[k] > 0.0:
                for i in range(n):
                    x[i] += multipliers[k] * (inverse[above[k], i] - inverse[below[k], i])
    _remove_rounding(x, below, above)
    return x


@allocating
def _add_pair(
    violated: int, multipliers: Any, free: Any, inverse: Any, below: Any, above: Any
) -> None:
    """Make a violated pair equal, and release pairs that would be held together from the wrong side."""
    held = multipliers > 0.0
    held[violated] = True
    while True:
        pairs = np.flatnonzero(held)
        if len(pairs) == 0:
            return
        wanted = _multipliers_of(pairs, free, inverse, below, above)
        # The multipliers go towards the wanted values until the first of them is 0.
        step = 1.0
        first = -1
        for j in range(len(pairs)):
            k = pairs[j]
            if wanted[j] <= 0.0:
                share = 0.0
                if multipliers[k] > 0.0:
                    share = multipliers[k] / (multipliers[k] - wanted[j])
                if first < 0 or share < step:
                    step = share
                    first = k
        for j in range(len(pairs)):
            multipliers[pairs[j]] += step * (wanted[j] - multipliers[pairs[j]])
        if first < 0:
            return
        held[first] = False
        multipliers[first] = 0.0


@allocating
def _multipliers_of(pairs: Any, free: Any, inverse: Any, below: Any, above: Any) -> Any:
    """Return the multipliers with which some pairs have equal values."""
    m = len(pairs)
    between = np.empty((m, m))
    gaps = np.empty(m)
    for i in range(m):
        low, high = below[pairs[i]], above[pairs[i]]
        gaps[i] = free[low] - free[high]
        for j in range(m):
            other_low, other_high = below[pairs[j]], above[pairs[j]]
            to_high = inverse[high, other_high] - inverse[high, other_low]
            to_low = inverse[low, other_high] - inverse[low, other_low]
            between[i, j] = to_high - to_low
    return solve_positive(between, gaps)


@allocating
def _remove_rounding(x: Any, below: Any, above: Any) -> None:
    """Raise the larger value of each pair to the smaller one, for pairs that rounding put in the wrong order."""
    # Each round settles at least one more value, because the pairs have no cycle.
    for _ in range(len(x)):
        for k in range(len(below)):
            x[above[k]] = max(x[above[k]], x[below[k]])
