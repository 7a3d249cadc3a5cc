"""Logistic losses of document pairs: pairs of one ranking, and neighbours in noisy rankings.

A pair of documents a (better label) and b at scores z has the loss W log(1 + exp(-sigma (z_a - z_b))), where W may
have the factor u_a, a weight of the better document:

    push = sigma W p        to grad_b, its negative to grad_a          p = 1 / (1 + exp(sigma (z_a - z_b)))
    curv = sigma^2 W p (1 - p)      to both on the diagonal, its negative between them

The pairs of one position are written into arrays (push, curv) first and summed afterwards: both loops vectorise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.exchange import swap_change, swap_row, walk
from rankwright.kernels.jit import inlined, internal, jit
from rankwright.kernels.ordering import shell_sort, sort_descending, sort_scratch
from rankwright.kernels.random import fill_noise
from rankwright.kernels.shared import shared
from rankwright.kernels.threads import stop_flag

STATIC, RANDOM, ALL, ALL_STATIC, ALL_RANDOM = range(1, 6)
NO_NOISE = -1

_TILE = 1024  # positions that are paired at a time: their arrays stay in the cache
_WIDE = 650.0  # a larger range of sigma z underflows in exp(sigma (z - max))


class Judged(NamedTuple):
    """What is known of the documents; ``weight`` is empty where all pairs have the weight W alone."""

    label: NDArray[Any]  # [documents]
    weight: NDArray[Any]  # factor of W in the pairs whose better document it is [documents]


class PairWeights(NamedTuple):
    """W of a pair: unit, or a sum of |dM|, |g_a - g_b| distance[|i - j|] and the better document's own g w."""

    unit: float
    by_swap: bool
    by_distance: bool
    by_own: bool
    distance: NDArray[Any]  # by number of positions apart [longest query + 1]
    sigma: float
    normalize: bool
    by_document: bool = False  # times the better document's weight


class PairChoice(NamedTuple):
    """Which pairs count: those with a document in the top, or in the extension of the top."""

    top: int
    extend: int  # 0, or STATIC ... ALL_RANDOM
    by_quota: bool
    true_label: NDArray[Any]  # smallest label of documents that belong in the top [queries]
    quota: NDArray[Any]  # by quota, places of the ideal top that hold this label [queries]
    crowded: NDArray[Any]  # every positive label is in the ideal top [queries]


class Neighbours(NamedTuple):
    """Which documents trade places, and what of an exchange counts."""

    reach: int  # places apart
    lower: NDArray[Any]  # weight of the lower position, w, or 0 to leave out what changes there [longest query + 2]
    from_start: bool  # the user's state before both is the chain's start, whatever stands above them


class Noise(NamedTuple):
    """Noise added to the scores before ranking."""

    kind: int
    strength: float
    samples: int


class Sample(NamedTuple):
    """One of several rankings whose mean is the gradient; arrays are empty where nothing is random."""

    noise: NDArray[Any]  # added to the scores, in the ranking and in the loss [documents]
    selection_draws: NDArray[Any]  # by which a random extension takes documents [documents]
    share: float  # 1 / number of samples


class PairSums(NamedTuple):
    """What the sums over pairs are added to; ``leaf`` is empty where none are wanted between leaves.

    Nobody reads the sums once ``stop`` (`threads.stop_flag`) is raised.
    """

    grad: NDArray[Any]  # [documents]
    hess: NDArray[Any]  # [documents]
    query_weight: NDArray[Any]  # factor of the curvature between leaves [queries]
    leaf: NDArray[Any]  # of each document
    between: NDArray[Any]  # curvature between leaves [leaves, leaves]
    stop: NDArray[Any]
    rounding: float = 0.0  # of what is added between leaves: see `rankwright.reducer.rounding`


class StoredPairs(NamedTuple):
    """Pairs of rows with their curvature: those of query q are the ``used[q]`` from ``start[q]`` on."""

    start: NDArray[Any]  # [queries + 1]
    used: NDArray[Any]  # [queries]
    rows: NDArray[Any]  # [pairs, 2], int32
    curv: NDArray[Any]  # curvature [pairs]


class Ranked(NamedTuple):
    """The documents of a ranking, by position [longest query + 1]: labels, scores, the chain's g, d, e, s, weights."""

    y: NDArray[Any]
    z: NDArray[Any]
    odds: NDArray[Any]  # exp(sigma (z - highest z)): a pair's p without an exponential
    g: NDArray[Any]
    d: NDArray[Any]
    e: NDArray[Any]
    state: NDArray[Any]
    u: NDArray[Any]


class PairRow(NamedTuple):
    """Pairs of one position, or of one distance, and the sums over all pairs by position [longest query + 1]."""

    push: NDArray[Any]
    curv: NDArray[Any]
    grad: NDArray[Any]
    hess: NDArray[Any]


class RankedScratch(NamedTuple):
    """Memory of `ranked_pairs`."""

    noisy: NDArray[Any]  # scores by document, later selection draws by position
    ranked: Ranked
    row: PairRow
    documents: NDArray[Any]  # records: what moves together shares a cache line
    order: NDArray[Any]
    extra: NDArray[Any]  # positions in the extension of the top
    leaf: NDArray[Any]  # by position
    sorting: NDArray[Any]  # of `sort_descending`

    @classmethod
    def create(cls, longest: int) -> RankedScratch:
        """Allocate for queries of up to ``longest`` documents."""
        noisy, *rest = np.empty((13, longest + 1))
        return cls(
            noisy,
            Ranked(*rest[:8]),
            PairRow(*rest[8:]),
            np.empty(longest, _RANKED_DOCUMENT),
            *np.empty((3, longest), np.int64),
            sort_scratch(longest),
        )


class Passage(NamedTuple):
    """What lies between two positions, by the upper one: P, D and E of `exchange` [longest query + 1]."""

    worth: NDArray[Any]
    through: NDArray[Any]
    gathered: NDArray[Any]


class NeighbourScratch(NamedTuple):
    """Memory of `neighbour_pairs`."""

    noisy: NDArray[Any]  # scores by document
    ranked: Ranked
    passage: Passage
    row: PairRow
    documents: NDArray[Any]  # records: what moves together shares a cache line
    order: NDArray[Any]
    leaf: NDArray[Any]  # by position
    sorting: NDArray[Any]  # of `sort_descending`

    @classmethod
    def create(cls, longest: int) -> NeighbourScratch:
        """Allocate for queries of up to ``longest`` documents."""
        noisy, *rest = np.empty((16, longest + 1))
        return cls(
            noisy,
            Ranked(*rest[:8]),
            Passage(*rest[8:11]),
            PairRow(*rest[11:]),
            np.empty(longest, _NEIGHBOUR_DOCUMENT),
            *np.empty((2, longest), np.int64),
            sort_scratch(longest),
        )


_RANKED_DOCUMENT = np.dtype([(name, np.float64) for name in ("score", "label", "gain")])
_NEIGHBOUR_DOCUMENT = np.dtype(
    [(name, np.float64) for name in ("odds", "label", "gain", "cont", "carry", "grad", "hess")]
)


@jit
def ranked_pairs(
    q0: int,
    q1: int,
    bounds: Any,
    score: Any,
    judged: Any,
    chain: Any,
    weights: Any,
    choice: Any,
    sample: Any,
    sums: Any,
    scratch: Any,
) -> None:
    """Sum pair losses over the ranking by current scores, or by scores plus noise, times the sample's share."""
    noisy, documents, order, leaf_at = scratch.noisy, scratch.documents, scratch.order, scratch.leaf
    y, z, odds, g, d, e, state, u = scratch.ranked
    row_grad, row_hess = scratch.row.grad, scratch.row.hess
    grad, hess = sums.grad, sums.hess
    nowhere = bounds[:0]
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        for a in range(n):
            noisy[a] = score[start + a] + (sample.noise[start + a] if sample.noise.size > 0 else 0.0)
        sort_descending(noisy, n, order, scratch.sorting)
        highest = noisy[order[0]]
        wide = not weights.sigma * (highest - noisy[order[n - 1]]) < _WIDE
        for a in range(n):
            documents[a]["score"] = noisy[a]
            documents[a]["label"] = judged.label[start + a]
            documents[a]["gain"] = chain.gain[start + a]
        for i in range(n):
            document = documents[order[i]]
            z[i] = document["score"]
            y[i] = document["label"]
            g[i] = document["gain"]
            row_grad[i] = 0.0
            row_hess[i] = 0.0
        for i in range(n):
            odds[i] = exp_negative(weights.sigma * (z[i] - highest))
        if not chain.additive:
            _gather(n, start, order, chain.cont, d)
            _gather(n, start, order, chain.carry, e)
            walk(n, d, e, chain.start, state)
        if weights.by_document:
            _gather(n, start, order, judged.weight, u)
        if sums.leaf.size > 0:
            _gather_leaves(n, start, order, sums.leaf, leaf_at)

        spread = weights.normalize and z[0] != z[n - 1]
        top = min(choice.top, n)
        n_extra = 0
        if choice.extend > 0:
            n_extra = _extend(q, n, start, choice, sample.selection_draws, order, y, noisy, scratch.extra)
        extra = scratch.extra[:n_extra]
        form = (wide, spread)
        ranked, row, w, additive = scratch.ranked, scratch.row, chain.weight, chain.additive
        pushed = _sum_pairs(n, top, extra, additive, w, weights, form, ranked, row, 0.0, nowhere, sums)
        scale = weights.sigma * chain.scale[q] * sample.share
        if weights.normalize and pushed > 0.0:
            twice = 2.0 * weights.sigma * chain.scale[q] * pushed
            scale *= math.log2(1.0 + twice) / twice
        for i in range(n):
            grad[start + order[i]] += scale * row_grad[i]
            hess[start + order[i]] += scale * weights.sigma * row_hess[i]
        if sums.leaf.size > 0:  # a second round, now that the scale is known
            scale *= weights.sigma * sums.query_weight[q]
            _sum_pairs(n, top, extra, additive, w, weights, form, ranked, row, scale, leaf_at, sums)


_ROW = types.float64[::1]
_INDICES = types.int64[::1]
_CHOICE = typeof(PairChoice(0, 0, False, np.empty(0), np.empty(0, np.int64), np.empty(0, np.bool_)))
_RANKED = types.NamedUniTuple(_ROW, 8, Ranked)
_WEIGHTS = typeof(PairWeights(1.0, False, False, False, np.empty(0), 1.0, False))
_BETWEEN = types.float64[:, ::1]
_SUMS = typeof(PairSums(*np.empty((3, 0)), np.empty(0, np.int64), np.empty((0, 0)), stop_flag()))


@shared(types.void(types.int64, types.int64, _INDICES, _ROW, _ROW))
def _gather(n: int, start: int, order: Any, values: Any, out: Any) -> None:
    """Write the values of a query's documents by position."""
    for i in range(n):
        out[i] = values[start + order[i]]


@shared(types.void(types.int64, types.int64, _INDICES, _INDICES, _INDICES))
def _gather_leaves(n: int, start: int, order: Any, leaf: Any, out: Any) -> None:
    """Write the leaves of a query's documents by position."""
    for i in range(n):
        out[i] = leaf[start + order[i]]


@shared(
    types.float64(
        types.int64,
        types.int64,
        _INDICES,
        types.boolean,
        _ROW,
        _WEIGHTS,
        types.UniTuple(types.boolean, 2),
        _RANKED,
        types.NamedUniTuple(_ROW, 4, PairRow),
        types.float64,
        _INDICES,
        _SUMS,
    )
)
def _sum_pairs(
    n: int,
    top: int,
    extra: Any,
    additive: bool,
    w: Any,
    weights: Any,
    form: tuple[bool, bool],
    ranked: Any,
    row: Any,
    scale: float,
    leaf_at: Any,
    sums: Any,
) -> float:
    """Sum the pairs of the top with all positions below each, and of the extension with all below the top.

    Where ``leaf_at`` is empty the sums go to ``row``, and the size of all pushes is returned for the normalisation;
    otherwise the curvature times ``scale`` goes between the leaves of ``sums``.
    """
    stop = sums.stop
    y, z, odds = ranked.y, ranked.z, ranked.odds
    push, curv, row_grad, row_hess = row
    pushed = 0.0
    wide, spread = form
    tile = _TILE if additive else n
    tiles = (n + tile - 1) // tile
    for stretch in range(tiles + 1):
        extension = stretch == tiles
        low = top if extension else stretch * tile
        high = n if extension else min(low + tile, n)
        for x in range(extra.size if extension else min(top, high)):
            if stop[0] != 0:
                return pushed
            i = extra[x] if extension else x
            first = low if extension else max(i + 1, low)
            _pair_weights(i, first, high, additive, w, weights, ranked, curv)
            _pair_row(i, first, high, weights.sigma, wide, spread, y, z, odds, push, curv)
            if extension:  # clear the pairs with itself and with those of the extension before it
                for before in range(x + 1):
                    push[extra[before]] = 0.0
                    curv[extra[before]] = 0.0
            if leaf_at.size > 0:
                _sum_between(leaf_at[i], first, high, scale, curv, leaf_at, sums.rounding, sums.between)
                continue
            row_grad[i] -= total(push, first, high)
            row_hess[i] += total(curv, first, high)
            for j in range(np.uint64(first), np.uint64(high)):
                row_grad[j] += push[j]
                row_hess[j] += curv[j]
            if weights.normalize:
                for j in range(np.uint64(first), np.uint64(high)):
                    push[j] = abs(push[j])
                pushed += total(push, first, high)
    return pushed


@inlined
def _pair_row(
    i: int,
    low: int,
    high: int,
    sigma: float,
    wide: bool,
    spread: bool,
    y: Any,
    z: Any,
    odds: Any,
    push: Any,
    curv: Any,
) -> None:
    """Write push and curvature of the pairs of i with the positions [low, high), each push as it acts on the latter.

    The opposite of a push acts on i. ``curv`` holds the weights on entry. The factors sigma and the query's scale
    are left to the caller.
    """
    first = np.uint64(low)
    end = np.uint64(high)
    y_i = y[i]
    z_i = z[i]
    odds_i = odds[i]
    for j in range(first, end):  # a weight becomes negative where j has the better label
        weight = abs(curv[j])
        better = weight if y_i > y[j] else -weight
        curv[j] = better if y_i != y[j] else 0.0
    if spread:
        for j in range(first, end):
            curv[j] /= 0.01 + abs(z_i - z[j])
    if wide:
        _wide_pushes(z_i, low, high, sigma, z, push, curv)
    else:
        for j in range(first, end):
            p = odds[j] / (odds_i + odds[j])  # chance that j beats i
            weight = curv[j]
            push[j] = weight * (p if weight > 0.0 else 1.0 - p)
            curv[j] = abs(weight) * p * (1.0 - p)


@shared("void(float64, int64, int64, float64, float64[::1], float64[::1], float64[::1])")
def _wide_pushes(z_i: float, low: int, high: int, sigma: float, z: Any, push: Any, curv: Any) -> None:
    """Write push and curvature of a score with those of [low, high) where odds would underflow."""
    for j in range(low, high):
        p = 1.0 / (1.0 + math.exp(min(sigma * (z_i - z[j]), 700.0)))
        weight = curv[j]
        push[j] = weight * (p if weight > 0.0 else 1.0 - p)
        curv[j] = abs(weight) * p * (1.0 - p)


@inlined
def _pair_weights(i: int, low: int, high: int, additive: bool, w: Any, weights: Any, ranked: Any, out: Any) -> None:
    """Write W of position i with each position in [low, high), up to its sign."""
    if weights.by_swap:
        swap_row(i, low, high, additive, w, ranked.g, ranked.d, ranked.e, ranked.state, out)
    else:
        out[low:high] = weights.unit
    if weights.by_distance or weights.by_own or weights.by_document:
        _further_weights(i, low, high, w, weights, ranked, out)


@shared(types.void(types.int64, types.int64, types.int64, _ROW, _WEIGHTS, _RANKED, _ROW))
def _further_weights(i: int, low: int, high: int, w: Any, weights: Any, ranked: Any, out: Any) -> None:
    """Add what W has beside unit and |dM|."""
    y, g, u = ranked.y, ranked.g, ranked.u
    if weights.by_distance:
        for j in range(low, high):
            out[j] = abs(out[j]) + abs(g[i] - g[j]) * weights.distance[abs(i - j)]
    if weights.by_own:
        for j in range(low, high):
            out[j] = abs(out[j]) + (g[i] * w[i] if y[i] > y[j] else g[j] * w[j])
    if weights.by_document:
        for j in range(low, high):
            out[j] *= u[i] if y[i] > y[j] else u[j]


@inlined
def add_pair(a: int, b: int, curv: float, rounding: float, between: Any) -> None:
    """Add a pair's curvature to the leaves a and b of its documents; within one leaf it cancels."""
    if a != b:
        rounded = (curv + rounding) - rounding
        between[a, a] += rounded
        between[b, b] += rounded
        between[a, b] -= rounded
        between[b, a] -= rounded


@shared(types.void(types.int64, types.int64, types.int64, types.float64, _ROW, _INDICES, types.float64, _BETWEEN))
def _sum_between(
    leaf: int, low: int, high: int, scale: float, curv: Any, leaf_at: Any, rounding: float, between: Any
) -> None:
    """Add the curvature of a document of this leaf with the positions [low, high), times ``scale``, between leaves."""
    for j in range(low, high):
        add_pair(leaf, leaf_at[j], scale * curv[j], rounding, between)


@shared(types.int64(types.int64, types.int64, types.int64, _CHOICE, _ROW, _INDICES, _ROW, _ROW, _INDICES))
def _extend(
    q: int, n: int, start: int, choice: Any, selection_draws: Any, order: Any, y: Any, draw_at: Any, extra: Any
) -> int:
    """Choose positions below the top whose documents belong into it; return how many.

    A label belongs from ``choice.true_label`` on: the label at the last place of the ideal order's top, or the lowest
    relevant one there. By the paper's count, as many are taken as the top holds documents of lower labels; by quota,
    as many of each label as the top lacks ("Lambda-eX" paper, section 4.2).
    """
    top = min(choice.top, n)
    least, by_quota = choice.true_label[q], choice.by_quota
    at_random = choice.extend == RANDOM or choice.extend == ALL_RANDOM
    take_all = choice.extend == ALL or (choice.extend >= ALL_STATIC and not choice.crowded[q])
    false_top = 0
    at_least = 0
    for i in range(top):
        if y[i] < least:
            false_top += 1
        elif y[i] == least:
            at_least += 1
    lacking = choice.quota[q] - at_least

    missed = 0
    for i in range(top, n):
        if y[i] >= least and y[i] > 0.0 and not (by_quota and y[i] == least and lacking <= 0):
            extra[missed] = i
            missed += 1
    if not take_all:
        if at_random:
            _gather(n, start, order, selection_draws, draw_at)
            shell_sort(draw_at, extra, np.int64(0), np.int64(missed))
        taken = 0
        for x in range(missed):
            i = extra[x]
            if by_quota:
                if y[i] == least:
                    if lacking <= 0:
                        continue
                    lacking -= 1
            elif taken == false_top:
                break
            extra[taken] = i
            taken += 1
        missed = taken
    return missed


@jit
def neighbour_pairs(
    q0: int,
    q1: int,
    queries: Any,
    score: Any,
    judged: Any,
    chain: Any,
    neighbours: Any,
    noise: Any,
    stream: Any,
    stored: Any,
    sums: Any,
    scratch: Any,
) -> None:
    """Sum pair losses over documents at most ``neighbours.reach`` places apart in noisy rankings.

    The noise decides which documents are neighbours and what an exchange is worth; the loss is taken at the scores
    without noise. Where ``stored`` has room, it receives the pairs.
    """
    noisy, documents, order, leaf_at = scratch.noisy, scratch.documents, scratch.order, scratch.leaf
    y, _, odds, g, d, e, state, u = scratch.ranked
    worth, through, gathered = scratch.passage
    push, curv, row_grad, row_hess = scratch.row
    grad, hess, query_weight, leaf, between, stop, rounding = sums
    reach = neighbours.reach
    for q in range(q0, q1):
        start = queries.bounds[q]
        n = queries.bounds[q + 1] - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        highest = score[start]
        lowest = score[start]
        for a in range(n):
            highest = max(highest, score[start + a])
            lowest = min(lowest, score[start + a])
        wide = not highest - lowest < _WIDE
        for a in range(n):  # the loss needs scores only in the form of odds, unless these would underflow
            document = documents[a]
            document["odds"] = score[start + a] if wide else exp_negative(score[start + a] - highest)
            document["label"] = judged.label[start + a]
            document["gain"] = chain.gain[start + a]
            document["cont"] = 1.0 if chain.additive else chain.cont[start + a]
            document["carry"] = 0.0 if chain.additive else chain.carry[start + a]
            document["grad"] = 0.0
            document["hess"] = 0.0
        scale = chain.scale[q] / noise.samples
        k = stored.start[q] if stored.curv.size > 0 else 0
        for sample in range(noise.samples):
            if noise.kind == NO_NOISE:
                for a in range(n):
                    noisy[a] = score[start + a]
            else:
                fill_noise(noisy, n, noise.kind, stream, queries.keys[q], sample)
                for a in range(n):
                    noisy[a] = score[start + a] + noise.strength * noisy[a]
            sort_descending(noisy, n, order, scratch.sorting)
            state_here = chain.start
            tile = _TILE if reach < _TILE else n
            for low in range(0, min(n - 1, chain.depth), tile):  # positions from low on are numbered from 0
                m = min(tile, chain.depth - low) + min(reach, n)  # an infinite depth plus a long reach may overflow
                m = min(m, n - low)
                for i in range(m):
                    document = documents[order[low + i]]
                    odds[i] = document["odds"]
                    y[i] = document["label"]
                    g[i] = document["gain"]
                    row_grad[i] = 0.0
                    row_hess[i] = 0.0
                if not chain.additive:
                    _gather_chain(m, order[low:], documents, d, e, scratch.passage)
                    walk(m, d, e, state_here, state)
                    state_here = state[min(tile, m - 1)]
                    if neighbours.from_start:
                        state[:m] = chain.start
                if judged.weight.size > 0:
                    _gather(m, start, order[low:], judged.weight, u)
                if leaf.size > 0:
                    _gather_leaves(m, start, order[low:], leaf, leaf_at)
                w, lower = chain.weight[low:], neighbours.lower[low:]
                for apart in range(1, min(reach, m - 1) + 1):
                    if stop[0] != 0:
                        return
                    rows = min(tile, m - apart, chain.depth - low)
                    if chain.additive:
                        _exchanges_apart(apart, rows, w, g, curv)
                    else:
                        _chained_exchanges_apart(apart, rows, w, lower, g, d, e, state, worth, through, gathered, curv)
                    if judged.weight.size > 0:
                        _weigh_apart(apart, rows, y, u, curv)
                    _pushes_apart(apart, rows, wide, y, odds, push, curv)
                    if stored.curv.size > 0:
                        k = _store(apart, rows, start, order[low:], scale, curv, k, stored)
                    if leaf.size > 0:
                        _sum_apart_between(apart, rows, query_weight[q], scale, curv, leaf_at, rounding, between)
                    step = np.uint64(apart)
                    for i in range(np.uint64(rows)):
                        row_grad[i] -= push[i]
                        row_hess[i] += curv[i]
                    for i in range(np.uint64(rows)):
                        row_grad[i + step] += push[i]
                        row_hess[i + step] += curv[i]
                for i in range(m):
                    document = documents[order[low + i]]
                    document["grad"] += row_grad[i]
                    document["hess"] += row_hess[i]
        for a in range(n):
            grad[start + a] += scale * documents[a]["grad"]
            hess[start + a] += scale * documents[a]["hess"]
        if stored.curv.size > 0:
            stored.used[q] = k - stored.start[q]


_STORED = typeof(StoredPairs(*np.empty((2, 0), np.int64), np.empty((0, 2), np.int32), np.empty(0)))


@shared(
    types.void(
        types.int64,
        _INDICES,
        typeof(np.empty(0, _NEIGHBOUR_DOCUMENT)),
        _ROW,
        _ROW,
        types.NamedUniTuple(_ROW, 3, Passage),
    )
)
def _gather_chain(m: int, order: Any, documents: Any, d: Any, e: Any, passage: Any) -> None:
    """Write continuation and carry by position; nothing lies between two positions so far."""
    for i in range(m):
        document = documents[order[i]]
        d[i] = document["cont"]
        e[i] = document["carry"]
        passage.worth[i] = 0.0
        passage.through[i] = 1.0
        passage.gathered[i] = 0.0


@shared(types.void(types.int64, types.int64, types.float64, types.float64, _ROW, _INDICES, types.float64, _BETWEEN))
def _sum_apart_between(
    apart: int, rows: int, weight: float, scale: float, curv: Any, leaf_at: Any, rounding: float, between: Any
) -> None:
    """Add the curvature of the pairs (i, i + apart), i < rows, between leaves."""
    for i in range(rows):
        add_pair(leaf_at[i], leaf_at[i + apart], weight * (scale * curv[i]), rounding, between)


@shared(types.int64(types.int64, types.int64, types.int64, _INDICES, types.float64, _ROW, types.int64, _STORED))
def _store(apart: int, rows: int, start: int, order: Any, scale: float, curv: Any, k: int, stored: Any) -> int:
    """Store the pairs (i, i + apart), i < rows, that have a curvature, from place k on; return the next place."""
    for i in range(rows):
        if curv[i] > 0.0:
            stored.rows[k, 0] = start + order[i]
            stored.rows[k, 1] = start + order[i + apart]
            stored.curv[k] = scale * curv[i]
            k += 1
    return k


@jit
def stored_pairs_between(
    q0: int, q1: int, stored: Any, query_weight: Any, leaf: Any, rounding: float, between: Any
) -> None:
    """Sum the curvature of stored pairs between the leaves of their rows."""
    for q in range(q0, q1):
        for k in range(stored.start[q], stored.start[q] + stored.used[q]):
            a, b = leaf[stored.rows[k, 0]], leaf[stored.rows[k, 1]]
            add_pair(a, b, query_weight[q] * stored.curv[k], rounding, between)


@internal
def _exchanges_apart(apart: int, rows: int, w: Any, g: Any, delta: Any) -> None:
    """Write the change of Z M when the positions i and i + apart trade places, i < rows, in an additive chain."""
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):
        j = i + step
        delta[i] = (w[i] - w[j]) * (g[j] - g[i])


@shared("void(int64, int64, " + ", ".join(10 * ["float64[::1]"]) + ")")
def _chained_exchanges_apart(
    apart: int,
    rows: int,
    w: Any,
    lower: Any,
    g: Any,
    d: Any,
    e: Any,
    state: Any,
    worth: Any,
    through: Any,
    gathered: Any,
    delta: Any,
) -> None:
    """Write the same in any chain.

    Called for 1, 2, ... places apart in turn: ``worth``, ``through`` and ``gathered`` grow by one position each time.
    """
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):
        j = i + step
        delta[i] = swap_change(i, j, w, lower, g, d, e, state[i], worth[i], through[i], gathered[i])
        worth[i] += w[j] * g[j] * through[i]
        gathered[i] = d[j] * gathered[i] + e[j]
        through[i] *= d[j]


@shared("void(int64, int64, float64[::1], float64[::1])")
def _wide_chances(apart: int, rows: int, score: Any, chance: Any) -> None:
    """Write the chance that i + apart beats i, i < rows, where odds would underflow."""
    for i in range(rows):
        chance[i] = 1.0 / (1.0 + math.exp(min(score[i] - score[i + apart], 700.0)))


@shared(types.void(types.int64, types.int64, _ROW, _ROW, _ROW))
def _weigh_apart(apart: int, rows: int, y: Any, u: Any, delta: Any) -> None:
    """Multiply what the positions i and i + apart trade by the weight of the better document, i < rows."""
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):
        delta[i] *= u[i] if y[i] > y[i + step] else u[i + step]


@internal
def _pushes_apart(apart: int, rows: int, wide: bool, y: Any, odds: Any, push: Any, curv: Any) -> None:
    """Write push (on i + apart; the opposite on i) and curvature of the pairs (i, i + apart), i < rows.

    ``odds`` are e^score, or the scores themselves if ``wide``. ``curv`` holds the weights on entry.
    """
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):  # a weight becomes negative where the lower document has the better label
        j = i + step
        weight = abs(curv[i])
        better = weight if y[i] > y[j] else -weight
        curv[i] = better if y[i] != y[j] else 0.0
    if wide:
        _wide_chances(apart, rows, odds, push)
    else:
        for i in range(np.uint64(rows)):
            push[i] = odds[i + step] / (odds[i] + odds[i + step])
    for i in range(np.uint64(rows)):
        p = push[i]
        weight = curv[i]
        push[i] = weight * (p if weight > 0.0 else 1.0 - p)
        curv[i] = abs(weight) * p * (1.0 - p)
