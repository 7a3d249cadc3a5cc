"""Logistic losses of the document pairs of a ranking; `rankwright.kernels.pairs` has the formulas."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.exchange import swap_row, walk
from rankwright.kernels.jit import INDICES, ROW, inlined, jit, shared
from rankwright.kernels.ordering import shell_sort, sort_descending, sort_scratch
from rankwright.kernels.pairs import (
    BETWEEN,
    TILE,
    WIDE,
    PairRow,
    PairSums,
    Ranked,
    add_pair,
    gather,
    gather_leaves,
)
from rankwright.kernels.threads import stop_flag

STATIC, RANDOM, ALL, ALL_STATIC, ALL_RANDOM = range(1, 6)


class PairWeights(NamedTuple):
    """W of a pair: unit, or a sum of |dM|, |g_a - g_b| distance[|i - j|] and the better document's own g w."""

    unit: float = 0.0
    by_swap: bool = False
    by_distance: bool = False
    by_own: bool = False
    distance: NDArray[Any] = np.zeros(1)  # by number of positions apart [longest query + 1]
    sigma: float = 1.0
    normalize: bool = False
    by_document: bool = False  # times the better document's weight


class PairChoice(NamedTuple):
    """Which pairs count: those with a document in the top, or in the extension of the top."""

    top: int
    extend: int = 0  # or STATIC ... ALL_RANDOM, which need the fields below
    by_quota: bool = False
    # Smallest label of the documents that belong in the top, and of the relevant ones (or infinity) [queries].
    true_label: NDArray[Any] = np.zeros(0)
    relevant_label: NDArray[Any] = np.zeros(0)
    # By quota, places of the ideal top that hold the smallest true label [queries].
    quota: NDArray[Any] = np.zeros(0, np.int64)
    # True if every label of relevant documents is in the ideal top [queries].
    crowded: NDArray[Any] = np.zeros(0, np.bool_)


class Sample(NamedTuple):
    """A ranking of several, with the gradient as their mean; arrays are empty if there is no randomness."""

    noise: NDArray[Any]  # added to the scores, in the ranking and in the loss [documents]
    selection_draws: NDArray[Any]  # by which a random extension takes documents [documents]
    share: float  # 1 / number of samples


class RankedScratch(NamedTuple):
    """Memory of `ranked_pairs`."""

    noisy: NDArray[Any]  # scores by document, later selection draws by position
    ranked: Ranked
    row: PairRow
    documents: NDArray[Any]  # records, so that numbers that move together share a cache line
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


_RANKED_DOCUMENT = np.dtype([(name, np.float64) for name in ("score", "label", "gain")])


@jit
def ranked_pairs(
    q0: int,
    q1: int,
    bounds: Any,
    score: Any,
    labelled: Any,
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
            noisy[a] = score[start + a] + (
                sample.noise[start + a] if sample.noise.size > 0 else 0.0
            )
        sort_descending(noisy, n, order, scratch.sorting)
        highest = noisy[order[0]]
        wide = not weights.sigma * (highest - noisy[order[n - 1]]) < WIDE
        for a in range(n):
            documents[a]["score"] = noisy[a]
            documents[a]["label"] = labelled.label[start + a]
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
            gather(n, start, order, chain.cont, d)
            gather(n, start, order, chain.carry, e)
            walk(n, d, e, chain.start, state)
        if weights.by_document:
            gather(n, start, order, labelled.weight, u)
        if sums.leaf.size > 0:
            gather_leaves(n, start, order, sums.leaf, leaf_at)

        spread = weights.normalize and z[0] != z[n - 1]
        top = min(choice.top, n)
        n_extra = 0
        if choice.extend > 0:
            n_extra = _extend(
                q, n, start, choice, sample.selection_draws, order, y, noisy, scratch.extra
            )
        extra = scratch.extra[:n_extra]
        form = (wide, spread)
        ranked, row, w, additive = scratch.ranked, scratch.row, chain.weight, chain.additive
        pushed = _sum_pairs(
            n, top, extra, additive, w, weights, form, ranked, row, 0.0, nowhere, sums
        )
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


_CHOICE = typeof(PairChoice(0))
_RANKED = types.NamedUniTuple(ROW, 8, Ranked)
_WEIGHTS = typeof(PairWeights())
_SUMS = typeof(PairSums(*np.empty((3, 0)), np.empty(0, np.int64), np.empty((0, 0)), stop_flag()))


@shared(
    types.float64(
        types.int64,
        types.int64,
        INDICES,
        types.boolean,
        ROW,
        _WEIGHTS,
        types.UniTuple(types.boolean, 2),
        _RANKED,
        types.NamedUniTuple(ROW, 4, PairRow),
        types.float64,
        INDICES,
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

    If ``leaf_at`` is empty the sums go to ``row``, and the size of all pushes is returned for the normalisation.
    Otherwise the curvature times ``scale`` goes between the leaves of ``sums``.
    """
    stop = sums.stop
    y, z, odds = ranked.y, ranked.z, ranked.odds
    push, curv, row_grad, row_hess = row
    pushed = 0.0
    wide, spread = form
    tile = TILE if additive else n
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
            # Clear the pairs of a document with itself and with earlier documents of the extension.
            if extension:
                for before in range(x + 1):
                    push[extra[before]] = 0.0
                    curv[extra[before]] = 0.0
            if leaf_at.size > 0:
                _sum_between(
                    leaf_at[i], first, high, scale, curv, leaf_at, sums.rounding, sums.between
                )
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


@shared(types.void(types.float64, types.int64, types.int64, types.float64, ROW, ROW, ROW))
def _wide_pushes(
    z_i: float, low: int, high: int, sigma: float, z: Any, push: Any, curv: Any
) -> None:
    """Write push and curvature of a score with the scores of [low, high), if odds would underflow."""
    for j in range(low, high):
        p = 1.0 / (1.0 + math.exp(min(sigma * (z_i - z[j]), 700.0)))
        weight = curv[j]
        push[j] = weight * (p if weight > 0.0 else 1.0 - p)
        curv[j] = abs(weight) * p * (1.0 - p)


@inlined
def _pair_weights(
    i: int, low: int, high: int, additive: bool, w: Any, weights: Any, ranked: Any, out: Any
) -> None:
    """Write W of position i with each position in [low, high), up to its sign."""
    if weights.by_swap:
        swap_row(i, low, high, additive, w, ranked.g, ranked.d, ranked.e, ranked.state, out)
    else:
        out[low:high] = weights.unit
    if weights.by_distance or weights.by_own or weights.by_document:
        _further_weights(i, low, high, w, weights, ranked, out)


@shared(types.void(types.int64, types.int64, types.int64, ROW, _WEIGHTS, _RANKED, ROW))
def _further_weights(
    i: int, low: int, high: int, w: Any, weights: Any, ranked: Any, out: Any
) -> None:
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


@shared(
    types.void(
        types.int64, types.int64, types.int64, types.float64, ROW, INDICES, types.float64, BETWEEN
    )
)
def _sum_between(
    leaf: int,
    low: int,
    high: int,
    scale: float,
    curv: Any,
    leaf_at: Any,
    rounding: float,
    between: Any,
) -> None:
    """Add the curvature of a document of this leaf with the positions [low, high), times ``scale``, between leaves."""
    for j in range(low, high):
        add_pair(leaf, leaf_at[j], scale * curv[j], rounding, between)


@shared(
    types.int64(types.int64, types.int64, types.int64, _CHOICE, ROW, INDICES, ROW, ROW, INDICES)
)
def _extend(
    q: int,
    n: int,
    start: int,
    choice: Any,
    selection_draws: Any,
    order: Any,
    y: Any,
    draw_at: Any,
    extra: Any,
) -> int:
    """Choose positions below the top whose documents belong into it; return how many.

    A label belongs from ``choice.true_label`` on: the label at the last place of the ideal order's top, or the lowest
    relevant one there. By the paper's count, as many are taken as the top holds documents of lower labels; by quota,
    as many of each label as the top lacks ("Lambda-eX" paper, section 4.2).
    """
    top = min(choice.top, n)
    least, by_quota = choice.true_label[q], choice.by_quota
    least_missed = max(least, choice.relevant_label[q])
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
        if y[i] >= least_missed and not (by_quota and y[i] == least and lacking <= 0):
            extra[missed] = i
            missed += 1
    if not take_all:
        if at_random:
            gather(n, start, order, selection_draws, draw_at)
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
