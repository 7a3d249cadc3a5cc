"""Exact expected value of a bound metric when documents with equal scores are in random order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rankwright.kernels.jit import ROW, allocating, shared


@shared(
    types.float64(
        types.int64[::1],
        ROW,
        types.int64,
        types.int64,
        types.boolean,
        ROW,
        ROW,
        ROW,
        ROW,
        types.float64,
        types.uint8[::1],
    ),
    allocates=True,
)
def expected_value(
    order: Any,
    score: Any,
    n: int,
    depth: int,
    additive: bool,
    w: Any,
    g: Any,
    d: Any,
    e: Any,
    start: float,
    stop: Any,
) -> float:
    """Return the mean of Z M (see `exchange`) over all orders of ties; ``order`` sorts by descending score.

    The result is not used if the flag ``stop`` is raised.
    """
    worth = 0.0
    state = start  # expected state before the block: states of different blocks are independent
    low = 0
    while low < min(n, depth):
        high = low + 1
        while high < n and score[order[high]] == score[order[low]]:
            high += 1
        worth += _block(order, low, high, min(high, depth), additive, w, g, d, e, state, stop)
        if not additive:
            for i in range(low, high):
                a = order[i]
                state = d[a] * state + e[a]
        low = high
    return worth


@allocating
def _block(
    order: Any,
    low: int,
    high: int,
    end: int,
    additive: bool,
    w: Any,
    g: Any,
    d: Any,
    e: Any,
    s: float,
    stop: Any,
) -> float:
    """Return the expected worth of the block of tied documents at positions [low, high), counted up to ``end``.

    If every d is 1, the document at place t has gathered s + e + (t / (m - 1)) * (the others' e) on
    average (McSherry and Najork 2008). Otherwise e = 0, and

        A_t = mean over t documents of the product of their d
        F_t = mean over orders of g at place t times the product of d above it

    grow by one document x at a time, a convex combination each, so nothing overflows:

        F_t <- [ g_x A_t + t d_x F_{t-1} + (m - t) F_t ] / (m + 1)
        A_t <- [ (m + 1 - t) A_t + t d_x A_{t-1} ] / (m + 1)

    If users stop, both fall with t until they underflow, so places past the last that is not 0 are left out.
    """
    m = high - low
    chained = False
    sum_g = 0.0
    sum_e = 0.0
    sum_ge = 0.0
    for i in range(low, high):
        a = order[i]
        sum_g += g[a]
        if not additive:
            chained |= d[a] != 1.0
            sum_e += e[a]
            sum_ge += g[a] * e[a]
    if m == 1:
        return w[low] * (sum_g * s + sum_ge)
    worth = 0.0
    if not chained:
        for i in range(low, end):
            above = (i - low) / (m - 1)
            worth += w[i] * (sum_g * s + sum_ge + above * (sum_g * sum_e - sum_ge)) / m
        return worth
    places = end - low
    mean_product = np.zeros(places)
    mean_worth = np.zeros(places)
    mean_product[0] = 1.0
    live = 1  # places that are not 0
    for count in range(m):
        if stop[0] != 0:
            return 0.0
        a = order[low + count]
        for t in range(min(count, places - 1, live), -1, -1):
            stay = (count - t) * mean_worth[t] + g[a] * mean_product[t]
            if t > 0:
                stay += t * d[a] * mean_worth[t - 1]
            mean_worth[t] = stay / (count + 1)
        for t in range(min(count + 1, places - 1, live), 0, -1):
            mean_product[t] = (
                (count + 1 - t) * mean_product[t] + t * d[a] * mean_product[t - 1]
            ) / (count + 1)
        live = min(live + 1, places)
        while live > 1 and mean_product[live - 1] == 0.0 and mean_worth[live - 1] == 0.0:
            live -= 1
    for t in range(places):
        worth += w[low + t] * mean_worth[t]
    return worth * s
