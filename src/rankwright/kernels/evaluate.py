"""Orders under a tie policy, and the values of bound metrics in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from rankwright.kernels.exchange import value
from rankwright.kernels.jit import allocating, internal, jit, shared
from rankwright.kernels.ordering import longest_query, shell_sort, sort_descending, sort_scratch
from rankwright.kernels.ties import expected_value

INPUT, WORST, BEST, EXPECTED = range(4)

_FEW = 32  # up to this many best documents are found by insertion; more are sorted


@allocating
def order_queries(
    q0: int, q1: int, bounds: Any, score: Any, label: Any, ties: int, depth: int, order: Any
) -> None:
    """Write each query's documents (numbered from 0 within it) by descending score into ``order``.

    ``order`` starts with the documents of query q0. Equal scores stay in input order, or are sorted by ascending
    (WORST) or descending (BEST) label. Only the first ``depth`` places have to be right, so if they are few, they are
    picked and the rest is not sorted.
    """
    longest = longest_query(q0, q1, bounds)
    sorting = sort_scratch(longest)
    best = np.empty(_FEW + 1)
    preferred = np.empty(longest)  # among equal scores, documents with a higher value come first
    sign = 0.0
    if ties == WORST:
        sign = -1.0
    elif ties == BEST:
        sign = 1.0
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        z = score[start:stop]
        here = order[start - bounds[q0] : stop - bounds[q0]]
        for a in range(n):
            preferred[a] = sign * label[start + a]
        if depth <= _FEW and ties != EXPECTED:
            _pick_first(z, preferred, min(depth, n), best, here)
            continue
        sort_descending(z, n, here, sorting)
        if sign != 0.0:
            _order_ties(z, preferred, here)


@internal
def _pick_first(z: Any, preferred: Any, places: int, best: Any, order: Any) -> None:
    """Write the first documents of the order, by insertion into the few best so far."""
    filled = 0
    for a in range(z.size):
        score = z[a]
        if filled == places and score < best[places - 1]:
            continue
        i = filled
        if filled == places:
            if score == best[places - 1] and preferred[a] <= preferred[order[places - 1]]:
                continue
            i = places - 1
        else:
            filled += 1
        while i > 0 and (
            score > best[i - 1] or (score == best[i - 1] and preferred[a] > preferred[order[i - 1]])
        ):
            best[i] = best[i - 1]
            order[i] = order[i - 1]
            i -= 1
        best[i] = score
        order[i] = a


@shared(types.void(types.float64[::1], types.float64[::1], types.int64[::1]))
def _order_ties(z: Any, preferred: Any, order: Any) -> None:
    """Sort the documents of equal scores by descending preference, equal ones by index."""
    n = order.size
    low = np.int64(0)  # with a plain 0, shell_sort would be compiled for a second type
    while low < n:
        high = low + 1
        while high < n and z[order[high]] == z[order[low]]:
            high += 1
        if high - low > 1:
            shell_sort(preferred, order, low, high)
        low = high


@jit
def select_queries(q0: int, q1: int, bounds: Any, score: Any, order: Any, selected: Any) -> None:
    """Write the documents with a positive score, in input order, into ``order``; ``selected`` counts them per query."""
    for q in range(q0, q1):
        start = bounds[q]
        count = 0
        for a in range(bounds[q + 1] - start):
            if score[start + a] > 0.0:
                order[start - bounds[q0] + count] = a
                count += 1
        selected[q] = count


@jit
def value_queries(
    q0: int,
    q1: int,
    bounds: Any,
    score: Any,
    order: Any,
    length: Any,
    expected: bool,
    chain: Any,
    out: Any,
    halt: Any,
) -> None:
    """Write the metric of each query's first ``length[q]`` documents in ``order``, or its mean over orders of ties."""
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        g = chain.gain[start:stop]
        d = chain.cont[start:stop]  # empty if the chain is additive
        e = chain.carry[start:stop]
        here = order[start - bounds[q0] : stop - bounds[q0]]
        if expected:
            worth = expected_value(
                here,
                score[start:stop],
                length[q],
                chain.depth,
                chain.additive,
                chain.weight,
                g,
                d,
                e,
                chain.start,
                halt,
            )
        else:
            worth = value(
                here,
                min(length[q], chain.depth),
                chain.additive,
                chain.weight,
                g,
                d,
                e,
                chain.start,
            )
        out[q] = worth * chain.scale[q]


def ideal_values(
    bounds: NDArray[Any], w: NDArray[Any], depth: int, gain: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the sum of w g of each query's documents by descending gain, down to ``depth``."""
    longest = int(np.max(np.diff(bounds)))
    out = np.empty(len(bounds) - 1)
    best = np.empty(max(longest, _FEW) + 1)
    order = np.empty(longest, np.int64)
    highest = float(np.max(gain))
    _ideal_queries(bounds, w, depth, gain, highest, best, order, sort_scratch(longest), out)
    return out


@jit
def _ideal_queries(
    bounds: Any,
    w: Any,
    depth: int,
    gain: Any,
    highest: float,
    best: Any,
    order: Any,
    sorting: Any,
    out: Any,
) -> None:
    for q in range(out.size):
        g = gain[bounds[q] : bounds[q + 1]]
        places = min(depth, g.size)
        if places <= _FEW:
            filled = 0
            for a in range(g.size):
                if filled == places and g[a] <= best[places - 1]:
                    if best[places - 1] == highest:  # the rest is not better
                        break
                    continue
                i = min(filled, places - 1)
                while i > 0 and best[i - 1] < g[a]:
                    best[i] = best[i - 1]
                    i -= 1
                best[i] = g[a]
                filled += filled < places
        else:
            sort_descending(g, g.size, order, sorting)
            for i in range(places):
                best[i] = g[order[i]]
        worth = 0.0
        for i in range(places):
            worth += w[i] * best[i]
        out[q] = worth
