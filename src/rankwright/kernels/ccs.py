"""Gradient of a metric smoothed by Gaussian noise: conditional coordinate sampling, and the score function.

    grad_j E M(c + sigma eps) = E sum_u [M with j just above u - M with j just below u] phi((b_u - c_j) / sigma) / sigma

where b = c + sigma eps are the noisy scores of the others. The bracket is an exchange of neighbours in
the list without j, so it needs only the list and its states ("StochasticRank" paper, theorem 3).

The ranking depends on differences alone, so the mean m of the others' noise acts as noise of j with the opposite sign.
It is independent of their differences. So we integrate it out together with the noise of j: c_j + sigma m takes the
place of c_j, and sigma sqrt(n / (n - 1)) that of sigma. The estimate stays unbiased, and it varies less.

A cascade takes O(n log n), without a cutoff too, if users stop (the paper's statement 3 has this for users who stop at
the first relevant document): the state falls along the list, and a sum stops when the state can no longer change its
last bit, or when the rest is negligible beside the largest jump of the query. An exchange of two documents of the same
kind (gain, factor and carry) changes nothing, so a document of the *common* kind visits the others only. In a long list
without a cutoff in which many users get far, this does not help, and a query takes O(n^2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.exchange import Chain, exchange_neighbours, value, walk
from rankwright.kernels.jit import ROW, allocating, inlined, internal, jit, shared
from rankwright.kernels.ordering import first_at_most, longest_query, sort_descending, sort_scratch
from rankwright.kernels.random import fill_gaussian
from rankwright.kernels.threads import stop_flag

_REACH = 8.5  # phi(8.5) is below the rounding of phi(0): breakpoints farther away add nothing
_WORTH_SEARCHING = (
    64  # in shorter lists a scan is faster than a search for the breakpoints in reach
)
_LAST_BIT = 2.0**-56  # an addend below this share of a sum leaves the sum as it is
_NEGLIGIBLE = 2.0**-112  # share of a query's largest jump that no gradient can show
_TILE = 1024  # documents whose arrays stay in the cache while all breakpoints are summed
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_DOCUMENT = np.dtype([(name, np.float64) for name in ("noisy", "clean", "gain")])


class Smoothing(NamedTuple):
    """How a metric is smoothed, and its gradient estimated."""

    sigma: float  # standard deviation of the noise
    mu: float  # the relevance lowers scores by sigma mu relevance
    samples: int
    conditional: bool  # conditional coordinate sampling, or else the score function


class Steps(NamedTuple):
    """Arrays that follow from the weights w of a chain's positions."""

    drop: NDArray[Any]  # w_i - w_(i+1), the last 0
    peak: NDArray[Any]  # largest |w| from a position on

    @classmethod
    def of(cls, w: NDArray[Any]) -> Steps:
        """Compute them."""
        return cls(
            np.append(w[:-1] - w[1:], 0.0), np.maximum.accumulate(np.abs(w)[::-1])[::-1].copy()
        )


class SmoothingScratch(NamedTuple):
    """Memory of `smoothed_ranking`."""

    clean: NDArray[Any]  # by document [longest query + 1], as the two below
    noise: NDArray[Any]
    noisy: NDArray[Any]
    b: NDArray[Any]  # noisy scores by position, as all below
    c: NDArray[Any]  # clean scores, moved by the mean of the others' noise
    g: NDArray[Any]
    d: NDArray[Any]
    e: NDArray[Any]
    state: NDArray[Any]
    term: NDArray[Any]
    jumps: NDArray[Any]
    documents: NDArray[Any]  # records, so that numbers that move together share a cache line
    order: NDArray[Any]
    active: NDArray[Any]  # positions of the documents that are not of the common kind
    sorting: NDArray[Any]  # of `sort_descending`

    @classmethod
    def create(cls, longest: int) -> SmoothingScratch:
        """Allocate for queries of up to ``longest`` documents."""
        documents = np.empty(longest, _DOCUMENT)
        return cls(
            *np.empty((11, longest + 1)),
            documents,
            *np.empty((2, longest), np.int64),
            sort_scratch(longest),
        )


@jit
def smoothed_ranking(
    q0: int,
    q1: int,
    queries: Any,
    score: Any,
    relevance: Any,
    chain: Any,
    steps: Any,
    smoothing: Any,
    stream: Any,
    grad: Any,
    scratch: Any,
    halt: Any,
) -> None:
    """Subtract from ``grad`` an unbiased estimate of the smoothed metric's gradient at score - sigma mu relevance.

    The result is not used if the flag ``halt`` is raised.
    """
    clean, noise, noisy, order = scratch.clean, scratch.noise, scratch.noisy, scratch.order
    b, c, g, d, e = scratch.b, scratch.c, scratch.g, scratch.d, scratch.e
    state, term, jumps, documents = scratch.state, scratch.term, scratch.jumps, scratch.documents
    bounds = queries.bounds
    sigma, mu, samples, conditional = smoothing
    w = chain.weight
    drop, peak = steps
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        for a in range(n):
            clean[a] = score[start + a] - sigma * mu * relevance[start + a]
        base = 0.0
        if not conditional:
            sort_descending(clean, n, order, scratch.sorting)
            base = _worth(start, stop, order, chain)
        for sample in range(samples):
            fill_gaussian(noise, n, stream, queries.keys[q], sample)
            for a in range(n):
                noisy[a] = clean[a] + sigma * noise[a]
            sort_descending(noisy, n, order, scratch.sorting)
            if not conditional:
                change = _worth(start, stop, order, chain) - base
                factor = chain.scale[q] * change / (sigma * samples)
                for a in range(n):
                    grad[start + a] -= factor * noise[a]
                continue
            all_noise = total(noise, 0, n)
            for a in range(n):
                others_mean = (all_noise - noise[a]) / (n - 1)
                documents[a]["noisy"] = noisy[a]
                documents[a]["clean"] = clean[a] + sigma * others_mean
                documents[a]["gain"] = chain.gain[start + a]
            for i in range(n):
                document = documents[order[i]]
                b[i] = document["noisy"]
                c[i] = document["clean"]
                g[i] = document["gain"]
            last = min(chain.depth + 1, n)  # positions that have a weight, and the one just below
            width = sigma * math.sqrt(n / (n - 1))  # of j's noise less the mean of the others'
            factor = chain.scale[q] * _DENSITY / (width * samples)
            if chain.additive:
                for i in range(last):
                    if halt[0] != 0:
                        return
                    jumps[i] = _row_of_jumps(i, n, last, c[i], width, b, g, drop, term)
                _columns_of_jumps(last, n, c, width, b, g, drop, jumps)
            else:
                for i in range(n):
                    d[i] = chain.cont[start + order[i]]
                    e[i] = chain.carry[start + order[i]]
                walk(n, d, e, chain.start, state)
                _chained_jumps(n, last, width, w, peak, scratch, halt)
                if halt[0] != 0:
                    return
            for i in range(n):
                grad[start + order[i]] -= factor * jumps[i]


@shared(
    types.void(
        types.int64,
        types.int64,
        types.float64,
        ROW,
        ROW,
        typeof(SmoothingScratch.create(1)),
        typeof(stop_flag()),
    )
)
def _chained_jumps(
    n: int, last: int, sigma: float, w: Any, peak: Any, scratch: Any, halt: Any
) -> None:
    """Sum jump times density over the breakpoints of each document, for a chain that is not additive."""
    g, d, e, jumps = scratch.g, scratch.d, scratch.e, scratch.jumps
    common = _common_kind(last, g, d, e)
    steepest = _steepest_jump(n, g, d, e)
    floor = 0.0
    if steepest < np.inf:
        floor = _NEGLIGIBLE * steepest * peak[0] * abs(scratch.state[0])
    n_active = _find_active(last, common, g, d, e, scratch.active)
    limits = (steepest, floor)
    before = 0  # active positions above i
    for i in range(n):
        if halt[0] != 0:
            return
        if common >= 0 and _alike(i, common, g, d, e):
            jumps[i] = _jumps_of_common(i, before, n_active, sigma, w, peak, limits, scratch)
        else:
            jumps[i] = _jumps_of_chain(i, last, sigma, w, peak, limits, scratch)
            before = min(before + 1, n_active)


_CHAIN = typeof(Chain(*np.empty((5, 0)), 1.0, True, 0))


@shared(types.float64(types.int64, types.int64, types.int64[::1], _CHAIN))
def _worth(start: int, stop: int, order: Any, chain: Any) -> float:
    """Return Z M of a query's documents in this order."""
    n = min(stop - start, chain.depth)
    here = slice(start, stop)
    return value(
        order,
        n,
        chain.additive,
        chain.weight,
        chain.gain[here],
        chain.cont[here],
        chain.carry[here],
        chain.start,
    )


@internal
def _row_of_jumps(
    i: int, n: int, last: int, c: float, sigma: float, b: Any, g: Any, drop: Any, term: Any
) -> float:
    """Sum jump times density over the breakpoints of the document at position i, for an additive chain."""
    low = 0
    high = last
    if n > _WORTH_SEARCHING:
        low = first_at_most(c + _REACH * sigma, last, b)
        high = first_at_most(c - _REACH * sigma, last, b)
    # In the list without i, documents above i keep their place and documents below move up by one.
    _jumps(low, min(i, high), np.uint64(0), c, 1.0 / sigma, g[i], b, g, drop, term)
    _jumps(max(i + 1, low), high, np.uint64(1), c, 1.0 / sigma, g[i], b, g, drop, term)
    if low <= i < high:
        term[i] = 0.0
    return total(term, low, high)


@internal
def _jumps(
    low: int,
    high: int,
    risen: Any,
    c: float,
    inverse: float,
    gain: float,
    b: Any,
    g: Any,
    drop: Any,
    term: Any,
) -> None:
    for u in range(np.uint64(low), np.uint64(max(low, high))):
        x = (b[u] - c) * inverse
        term[u] = drop[u - risen] * (gain - g[u]) * exp_negative(-0.5 * x * x)


@internal
def _columns_of_jumps(
    last: int, n: int, c: Any, sigma: float, b: Any, g: Any, drop: Any, jumps: Any
) -> None:
    """Sum the same for every document from position ``last`` on: all breakpoints are above them."""
    inverse = 1.0 / sigma
    for low in range(last, n, _TILE):
        high = min(low + _TILE, n)
        jumps[low:high] = 0.0
        for u in range(last):
            b_u = b[u]
            g_u = g[u]
            drop_u = drop[u]
            for i in range(np.uint64(low), np.uint64(high)):
                x = (b_u - c[i]) * inverse
                jumps[i] += drop_u * (g[i] - g_u) * exp_negative(-0.5 * x * x)


@inlined
def _alike(i: int, j: int, g: Any, d: Any, e: Any) -> bool:
    """Return True if the documents at two positions are of the same kind."""
    return bool(g[i] == g[j] and d[i] == d[j] and e[i] == e[j])


@internal
def _common_kind(last: int, g: Any, d: Any, e: Any) -> int:
    """Return a position above ``last`` of the kind that more than half of the documents there have.

    If there is no such kind, return the first document with a gain and a carry of 0, or -1 if there is none.
    """
    kind = 0
    votes = 0
    for i in range(last):
        if votes == 0:
            kind = i
        votes += 1 if _alike(i, kind, g, d, e) else -1
    count = 0
    for i in range(last):
        if _alike(i, kind, g, d, e):
            count += 1
    if 2 * count > last:
        return kind
    for i in range(last):
        if g[i] == 0.0 and e[i] == 0.0:
            return i
    return -1


@internal
def _find_active(last: int, common: int, g: Any, d: Any, e: Any, active: Any) -> int:
    """Write the positions above ``last`` of documents that are not of the common kind; return their number."""
    n_active = 0
    for i in range(last):
        if common < 0 or not _alike(i, common, g, d, e):
            active[n_active] = i
            n_active += 1
    return n_active


@internal
def _steepest_jump(n: int, g: Any, d: Any, e: Any) -> float:
    """Return a bound of a jump per unit of state and weight; infinity if the state may grow along the list."""
    gain = 0.0
    for i in range(n):
        if e[i] != 0.0 or not abs(d[i]) <= 1.0:
            return np.inf
        gain = max(gain, abs(g[i]))
    return 4.0 * gain


@inlined
def _is_spent(s: float, limits: tuple[float, float], peak: float, worth: float) -> bool:
    """Return True if jumps at this state and weight, or smaller ones, do not change ``worth`` or are negligible.

    A bound that underflows does not decide, unless the state is 0; an infinite bound never does.
    """
    steepest, floor = limits
    bound = abs(s) * steepest * peak
    return bound < floor or (bound <= _LAST_BIT * abs(worth) and (bound > 0.0 or s == 0.0))


@internal
def _jumps_of_chain(
    i: int, last: int, sigma: float, w: Any, peak: Any, limits: tuple[float, float], scratch: Any
) -> float:
    """Sum jump times density over the breakpoints of the document at position i, for a chain that is not additive."""
    b, g, d, e, state = scratch.b, scratch.g, scratch.d, scratch.e, scratch.state
    c = scratch.c[i]
    worth = 0.0
    for u in range(_first_in_reach(min(i, last), c, sigma, b), min(i, last)):
        x = (b[u] - c) / sigma
        if x <= -_REACH or _is_spent(state[u], limits, peak[u], worth):
            break
        jump = exchange_neighbours(w[u], w[u + 1], state[u], g[u], d[u], e[u], g[i], d[i], e[i])
        worth += jump * exp_negative(-0.5 * x * x)
    s = state[i]  # from here on, the state in the list without i
    for u in range(i + 1, last):
        x = (b[u] - c) / sigma
        if x <= -_REACH or _is_spent(s, limits, peak[u - 1], worth):
            break
        if x < _REACH:
            jump = exchange_neighbours(w[u - 1], w[u], s, g[u], d[u], e[u], g[i], d[i], e[i])
            worth += jump * exp_negative(-0.5 * x * x)
        s = d[u] * s + e[u]
    return worth


@internal
def _first_in_reach(n: int, c: float, sigma: float, b: Any) -> int:
    """Return the first of n positions, in descending order of b, that is not out of reach above c."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if (b[middle] - c) / sigma >= _REACH:
            low = middle + 1
        else:
            high = middle
    return low


@internal
def _jumps_of_common(
    i: int,
    before: int,
    n_active: int,
    sigma: float,
    w: Any,
    peak: Any,
    limits: tuple[float, float],
    scratch: Any,
) -> float:
    """Sum the same for a document of the common kind, with ``before`` active documents above it."""
    b, g, d, e = scratch.b, scratch.g, scratch.d, scratch.e
    state, active = scratch.state, scratch.active
    c = scratch.c[i]
    worth = 0.0
    low = 0
    high = before
    while low < high:
        middle = (low + high) // 2
        if (b[active[middle]] - c) / sigma >= _REACH:
            low = middle + 1
        else:
            high = middle
    for k in range(low, before):
        u = active[k]
        x = (b[u] - c) / sigma
        if x <= -_REACH or _is_spent(state[u], limits, peak[u], worth):
            return worth
        jump = exchange_neighbours(w[u], w[u + 1], state[u], g[u], d[u], e[u], g[i], d[i], e[i])
        worth += jump * exp_negative(-0.5 * x * x)
    if before == n_active:
        return worth
    # In the list without i, there is one common document fewer up to here.
    s = state[active[before] - 1]
    for k in range(before, n_active):
        u = active[k]
        x = (b[u] - c) / sigma
        if x <= -_REACH or _is_spent(s, limits, peak[u - 1], worth):
            break
        if x < _REACH:
            jump = exchange_neighbours(w[u - 1], w[u], s, g[u], d[u], e[u], g[i], d[i], e[i])
            worth += jump * exp_negative(-0.5 * x * x)
        s = d[u] * s + e[u]
        if k + 1 < n_active:
            between = active[k + 1] - u - 1  # common documents: their d is 1, or their e is 0
            s = s + between * e[i] if d[i] == 1.0 else s * d[i] ** between
    return worth


@allocating
def smoothed_selection(
    q0: int, q1: int, queries: Any, score: Any, chain: Any, smoothing: Any, stream: Any, grad: Any
) -> None:
    """Do the same for a metric of the documents with a positive score, in input order; mu is not used.

    A document has a single breakpoint, at 0 (appendix C.3): the change of the metric when it is selected, while the
    others are selected by their noisy scores. ``chain`` is additive.
    """
    bounds = queries.bounds
    sigma, samples, conditional = smoothing.sigma, smoothing.samples, smoothing.conditional
    longest = longest_query(q0, q1, bounds)
    noise = np.empty(longest + 1)
    before = np.empty(longest, np.int64)
    w = chain.weight
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        if chain.scale[q] == 0.0:
            continue
        g = chain.gain[start : start + n]
        base = 0.0
        if not conditional:
            base = _selected(n, score[start : start + n], w, g)
        for sample in range(samples):
            fill_gaussian(noise, n, stream, queries.keys[q], sample)
            if not conditional:
                change = _selected(n, score[start : start + n] + sigma * noise[:n], w, g) - base
                for a in range(n):
                    grad[start + a] -= chain.scale[q] * change * noise[a] / (sigma * samples)
                continue
            selected = 0
            for a in range(n):
                before[a] = selected
                if score[start + a] + sigma * noise[a] > 0.0:
                    selected += 1
            # Worth of the selected documents below a: at their places, one place lower, and one place higher.
            as_is = 0.0
            lower = 0.0
            higher = 0.0
            for a in range(n - 1, -1, -1):
                x = score[start + a] / sigma
                is_selected = score[start + a] + sigma * noise[a] > 0.0
                change = g[a] * w[before[a]] + (as_is - higher if is_selected else lower - as_is)
                density = _DENSITY * math.exp(-0.5 * x * x) / sigma
                grad[start + a] -= chain.scale[q] * change * density / samples
                if is_selected:
                    as_is += g[a] * w[before[a]]
                    lower += g[a] * w[before[a] + 1]
                    higher += g[a] * w[max(before[a] - 1, 0)]


@internal
def _selected(n: int, z: Any, w: Any, g: Any) -> float:
    worth = 0.0
    place = 0
    for a in range(n):
        if z[a] > 0.0:
            worth += w[place] * g[a]
            place += 1
    return worth


@jit
def make_scale_free(
    q0: int, q1: int, bounds: Any, score: Any, centre: bool, nu: float, sfa: bool, grad: Any
) -> None:
    """Project each query's gradient: onto zero sum (``centre``), then off the direction of the scores (``sfa``).

    The first is the chain rule for scores that are centred per query (section 3.3), the second scale-free
    acceleration (theorem 4), with |z| + nu for |z|.
    """
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        middle = 0.0
        if centre:
            mean = total(grad, start, stop) / n
            middle = total(score, start, stop) / n
            for a in range(start, stop):
                grad[a] -= mean
        if not sfa:
            continue
        largest = 0.0
        for a in range(start, stop):
            largest = max(largest, abs(score[a] - middle))
        if largest == 0.0:
            continue
        square = 0.0  # relative to the largest, so that huge scores do not overflow
        along = 0.0
        for a in range(start, stop):
            z = (score[a] - middle) / largest
            square += z * z
            along += grad[a] * z
        norm = math.sqrt(square) + nu / largest
        for a in range(start, stop):
            grad[a] -= along / norm * ((score[a] - middle) / largest / norm)
