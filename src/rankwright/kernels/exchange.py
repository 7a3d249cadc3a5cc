"""The worth of an order, and its change when two documents trade places.

The formula of a metric is explained here. A bound metric is a chain: a user walks down the list with a state s and may
gather some of it at every document. Five parts define it:

    w_i     weight of position i
    g       gain of a document
    d       continuation: the factor by which a document passes the state on
    e       carry: the amount that a document adds to the state
    Z       normaliser of the query; scale = 1 / Z

With g, d and e of the document at position i,

    M = (1/Z) sum_i w_i g_i (s_i + e_i)        s_{i+1} = d_i s_i + e_i        s_1 = start

With e = 0 and start = 1 the state is the probability that the user gets that far (a cascade). With d = 1, g = e and
start = 0 it counts the relevant documents seen. Either e = 0 everywhere or d = 1 everywhere: then the state past two
documents does not depend on which of them came first, and an exchange changes nothing below the lower one. If d = 1
and e = 0 the chain is *additive*, M = (1/Z) sum_i w_i g_i.

Swapping the documents a at position i and b at position j > i, with

    P = sum_{i<l<j} w_l g_l prod_{i<m<l} d_m        worth of the documents between, per unit of state
    D = prod_{i<l<j} d_l                            factor by which the state passes through them
    E = the state at j if it were 0 just past i     the state gathered between

changes Z M by

    w_i [g_b (s + e_b) - g_a (s + e_a)] + P [(d_b - d_a) s + e_b - e_a]
    + w_j [g_a (D (d_b s + e_b) + E + e_a) - g_b (D (d_a s + e_a) + E + e_b)]

There is no division, so d = 0 needs no special case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from rankwright.kernels.jit import ROW, inlined, internal, shared


class Chain(NamedTuple):
    """A metric bound to labels, as arrays, with the symbols of the module's docstring."""

    weight: NDArray[Any]  # w, by position [longest query + 2], the last two 0
    gain: NDArray[Any]  # g, by document [documents]
    cont: NDArray[Any]  # d [documents], empty in an additive chain
    carry: NDArray[Any]  # e [documents], likewise
    scale: NDArray[Any]  # 1 / Z, or 0 in a query in which no document has any gain [queries]
    start: float  # s_1
    additive: bool  # d = 1 and e = 0 everywhere
    depth: int  # positions from this one on have no weight


@shared(
    types.float64(types.int64[::1], types.int64, types.boolean, ROW, ROW, ROW, ROW, types.float64)
)
def value(
    order: Any, n: int, additive: bool, w: Any, g: Any, d: Any, e: Any, start: float
) -> float:
    """Return Z M of documents in the given order; g, d, e of one query, by document."""
    worth = 0.0
    if additive:
        for i in range(n):
            worth += w[i] * g[order[i]]
        return worth
    state = start
    for i in range(n):
        a = order[i]
        worth += w[i] * g[a] * (state + e[a])
        state = d[a] * state + e[a]
    return worth


@shared(types.void(types.int64, ROW, ROW, types.float64, ROW))
def walk(n: int, d: Any, e: Any, start: float, state: Any) -> None:
    """Write the state before each position into ``state[:n]``; d and e by position."""
    state[0] = start
    for i in range(1, n):
        state[i] = d[i - 1] * state[i - 1] + e[i - 1]


@inlined
def exchange_neighbours(
    w_upper: float,
    w_lower: float,
    s: float,
    g_a: float,
    d_a: float,
    e_a: float,
    g_b: float,
    d_b: float,
    e_b: float,
) -> float:
    """Return the change of Z M when b, just below a, moves above it; s is the state before both."""
    return w_upper * (g_b * (s + e_b) - g_a * (s + e_a)) + w_lower * (
        g_a * (d_b * s + e_b + e_a) - g_b * (d_a * s + e_a + e_b)
    )


@internal
def swap_row(
    i: int,
    low: int,
    high: int,
    additive: bool,
    w: Any,
    g: Any,
    d: Any,
    e: Any,
    state: Any,
    delta: Any,
) -> None:
    """Write into ``delta[low:high]`` the change of Z M when position i trades places with each of them.

    g, d, e and state by position. ``delta[i]`` is 0.
    """
    if additive:
        w_i = w[i]
        g_i = g[i]
        for j in range(np.uint64(low), np.uint64(high)):
            delta[j] = (w_i - w[j]) * (g[j] - g_i)
        return
    _chained_swap_row(i, low, high, w, g, d, e, state, delta)


@shared(types.void(types.int64, types.int64, types.int64, ROW, ROW, ROW, ROW, ROW, ROW))
def _chained_swap_row(
    i: int, low: int, high: int, w: Any, g: Any, d: Any, e: Any, state: Any, delta: Any
) -> None:
    """Do the same in a chain that is not additive."""
    worth = 0.0
    through = 1.0
    gathered = 0.0
    for j in range(i + 1, high):
        if j >= low:
            delta[j] = swap_change(i, j, w, w, g, d, e, state[i], worth, through, gathered)
        worth += w[j] * g[j] * through
        through *= d[j]
        gathered = d[j] * gathered + e[j]
    if low <= i < high:
        delta[i] = 0.0
    worth = 0.0
    through = 1.0
    gathered = 0.0
    for j in range(i - 1, low - 1, -1):
        if j < high:
            delta[j] = swap_change(j, i, w, w, g, d, e, state[j], worth, through, gathered)
        worth = w[j] * g[j] + worth * d[j]
        gathered += through * e[j]
        through *= d[j]


@inlined
def swap_change(
    i: int,
    j: int,
    w: Any,
    w_lower: Any,
    g: Any,
    d: Any,
    e: Any,
    s: float,
    worth: float,
    through: float,
    gathered: float,
) -> float:
    """Return the change of Z M when positions i < j trade places; worth, through, gathered are P, D, E.

    ``w_lower`` is w; with 0 in its place the change of the lower position itself is left out.
    """
    return (
        w[i] * (g[j] * (s + e[j]) - g[i] * (s + e[i]))
        + worth * ((d[j] - d[i]) * s + e[j] - e[i])
        + w_lower[j]
        * (
            g[i] * (through * (d[j] * s + e[j]) + gathered + e[i])
            - g[j] * (through * (d[i] * s + e[i]) + gathered + e[j])
        )
    )
