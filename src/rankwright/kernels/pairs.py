"""Logistic losses of document pairs: pairs of one ranking, and neighbours in noisy rankings.

A pair of documents a (better label) and b at scores z has the loss W log(1 + exp(-sigma (z_a - z_b))):

    push = sigma W p        to grad_b, its negative to grad_a          p = 1 / (1 + exp(sigma (z_a - z_b)))
    curv = sigma^2 W p (1 - p)      to both on the diagonal, its negative between them

Rows of pairs are written into arrays (push, curv) first and summed afterwards: both loops vectorise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.exchange import swap_change, swap_row, walk
from rankwright.kernels.jit import inlined, internal, jit
from rankwright.kernels.ordering import order_run, sort_descending
from rankwright.kernels.random import fill_noise

STATIC, RANDOM, ALL, ALL_STATIC, ALL_RANDOM = range(1, 6)
NO_NOISE = -1

_TILE = 1024  # pairs per stretch of a row: the arrays of a stretch stay in the cache
_WIDE = 650.0  # a larger range of sigma z underflows in exp(sigma (z - max))


RANKED_SCRATCH = (12, 3)  # arrays by position, and facts by document, that `Scratch` has to provide
NEIGHBOUR_SCRATCH = (14, 7)


class PairWeights(NamedTuple):
    """W of a pair: unit, or a sum of |dM|, |g_a - g_b| distance[|i - j|] and the better one's own g w."""

    unit: float
    by_swap: bool
    by_distance: bool
    by_own: bool
    distance: NDArray[Any]  # by number of positions apart [longest query + 1]
    sigma: float
    normalize: bool


class PairChoice(NamedTuple):
    """Which pairs count: those with a document in the top, or in the extension of the top."""

    top: int
    extend: int  # 0, or STATIC ... ALL_RANDOM
    by_quota: bool
    missed_label: NDArray[Any]  # smallest label in the ideal top [queries]
    quota: NDArray[Any]  # places of the ideal top that hold this label [queries]
    crowded: NDArray[Any]  # every positive label is in the ideal top [queries]


class Noise(NamedTuple):
    """Noise added to the scores before ranking."""

    kind: int
    strength: float
    samples: int


class Pairs(NamedTuple):
    """Pairs of rows that count, kept by query: those of q are the ``used[q]`` from ``start[q]`` on."""

    start: NDArray[Any]  # [queries + 1]
    used: NDArray[Any]  # [queries]
    rows: NDArray[Any]  # [pairs, 2], int32
    curv: NDArray[Any]  # curvature [pairs]


@jit
def ranked_pairs(
    q0: int,
    q1: int,
    bounds: Any,
    score: Any,
    label: Any,
    chain: Any,
    weights: Any,
    choice: Any,
    noise: Any,
    lots: Any,
    share: float,
    grad: Any,
    hess: Any,
    query_weight: Any,
    leaf: Any,
    between: Any,
    real: Any,
    facts: Any,
    keyed: Any,
    placed: Any,
) -> None:
    """Sum pair losses over the ranking by current scores, or by scores plus noise, times ``share``.

    ``noise`` [documents] is empty or added to the scores, in the ranking and in the loss; ``lots`` [documents] is
    empty or decides which documents a random extension takes. Where ``leaf`` [documents] is not empty, ``between``
    [leaves, leaves] receives the curvature between leaves, times ``query_weight``.
    """
    key, spare, order, extra, leaf_at = keyed[0], keyed[1], placed[0], placed[1], placed[2]
    noisy = real[0]
    z, odds, y, g, d, e, state = real[1], real[2], real[3], real[4], real[5], real[6], real[7]  # by position
    push, curv, row_grad, row_hess = real[8], real[9], real[10], real[11]
    count = np.empty(256, np.int64)
    nowhere = np.empty(0, np.int64)
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        for a in range(n):
            noisy[a] = score[start + a] + (noise[start + a] if noise.size > 0 else 0.0)
        sort_descending(noisy, n, order, key, spare, count)
        highest = noisy[order[0]]
        wide = not weights.sigma * (highest - noisy[order[n - 1]]) < _WIDE
        for a in range(n):
            facts[a, 0] = noisy[a]
            facts[a, 1] = label[start + a]
            facts[a, 2] = chain.gain[start + a]
        for i in range(n):
            a = order[i]
            z[i] = facts[a, 0]
            y[i] = facts[a, 1]
            g[i] = facts[a, 2]
            row_grad[i] = 0.0
            row_hess[i] = 0.0
        for i in range(n):
            odds[i] = exp_negative(weights.sigma * (z[i] - highest))
        if not chain.additive:
            for i in range(n):
                d[i] = chain.cont[start + order[i]]
                e[i] = chain.carry[start + order[i]]
            walk(n, d, e, chain.start, state)
        if leaf.size > 0:
            for i in range(n):
                leaf_at[i] = leaf[start + order[i]]

        spread = weights.normalize and z[0] != z[n - 1]
        top = min(choice.top, n)
        n_extra = 0
        if choice.extend > 0:
            n_extra = _extend(q, n, top, choice, y, lots[start:], order, real[0], extra)
        pushed = _sum_pairs(
            n, top, n_extra, extra, chain, weights, wide, spread,
            g, d, e, state, y, z, odds, push, curv, row_grad, row_hess, 0.0, nowhere, between,
        )  # fmt: skip
        scale = weights.sigma * chain.scale[q] * share
        if weights.normalize and pushed > 0.0:
            twice = 2.0 * weights.sigma * chain.scale[q] * pushed
            scale *= math.log2(1.0 + twice) / twice
        for i in range(n):
            grad[start + order[i]] += scale * row_grad[i]
            hess[start + order[i]] += scale * weights.sigma * row_hess[i]
        if leaf.size > 0:  # a second round, now that the scale is known
            scale *= weights.sigma * query_weight[q]
            _sum_pairs(
                n, top, n_extra, extra, chain, weights, wide, spread,
                g, d, e, state, y, z, odds, push, curv, row_grad, row_hess, scale, leaf_at, between,
            )  # fmt: skip


@internal
def _sum_pairs(
    n: int,
    top: int,
    n_extra: int,
    extra: Any,
    chain: Any,
    weights: Any,
    wide: bool,
    spread: bool,
    g: Any,
    d: Any,
    e: Any,
    state: Any,
    y: Any,
    z: Any,
    odds: Any,
    push: Any,
    curv: Any,
    row_grad: Any,
    row_hess: Any,
    scale: float,
    leaf_at: Any,
    between: Any,
) -> float:
    """Sum the pairs of the top with all positions below each, and of the extension with all below the top.

    Where ``leaf_at`` is empty the sums go to ``row_grad`` and ``row_hess``, and the sizes of all pushes are
    returned for the normalisation; otherwise the curvature times ``scale`` goes ``between`` the leaves.
    """
    pushed = 0.0
    tile = _TILE if chain.additive else n
    tiles = (n + tile - 1) // tile
    for stretch in range(tiles + 1):
        extension = stretch == tiles
        low = top if extension else stretch * tile
        high = n if extension else min(low + tile, n)
        for x in range(n_extra if extension else min(top, high)):
            i = extra[x] if extension else x
            first = low if extension else max(i + 1, low)
            _pair_weights(i, first, high, chain, weights, g, d, e, y, state, curv)
            _pair_row(i, first, high, weights.sigma, wide, spread, y, z, odds, push, curv)
            if extension:
                _drop_seen(x, extra, push, curv)
            if leaf_at.size > 0:
                for j in range(first, high):
                    add_pair(leaf_at[i], leaf_at[j], scale * curv[j], between)
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
    """Write the pushes on the positions [low, high) of their pairs with i, and the curvatures.

    The opposite of a push acts on i. ``curv`` holds the weights before. The factors sigma and the query's scale
    are left to the caller.
    """
    first = np.uint64(low)
    end = np.uint64(high)
    y_i = y[i]
    z_i = z[i]
    odds_i = odds[i]
    for j in range(first, end):  # a weight becomes negative where j is the better one
        weight = abs(curv[j])
        better = weight if y_i > y[j] else -weight
        curv[j] = better if y_i != y[j] else 0.0
    if spread:
        for j in range(first, end):
            curv[j] /= 0.01 + abs(z_i - z[j])
    if wide:
        for j in range(first, end):
            p = 1.0 / (1.0 + math.exp(min(sigma * (z_i - z[j]), 700.0)))
            weight = curv[j]
            push[j] = weight * (p if weight > 0.0 else 1.0 - p)
            curv[j] = abs(weight) * p * (1.0 - p)
    else:
        for j in range(first, end):
            p = odds[j] / (odds_i + odds[j])  # chance that j beats i
            weight = curv[j]
            push[j] = weight * (p if weight > 0.0 else 1.0 - p)
            curv[j] = abs(weight) * p * (1.0 - p)


@inlined
def _pair_weights(
    i: int,
    low: int,
    high: int,
    chain: Any,
    weights: Any,
    g: Any,
    d: Any,
    e: Any,
    y: Any,
    state: Any,
    out: Any,
) -> None:
    """Write W of position i with each position in [low, high), up to its sign."""
    w = chain.weight
    if weights.by_swap:
        swap_row(i, low, high, chain.additive, w, g, d, e, state, out)
    else:
        out[low:high] = weights.unit
    if weights.by_distance:
        for j in range(low, high):
            out[j] = abs(out[j]) + abs(g[i] - g[j]) * weights.distance[abs(i - j)]
    if weights.by_own:
        for j in range(low, high):
            out[j] = abs(out[j]) + (g[i] * w[i] if y[i] > y[j] else g[j] * w[j])


@inlined
def add_pair(a: int, b: int, curv: float, between: Any) -> None:
    """Add a pair's curvature to the leaves a and b of its documents; within one leaf it cancels."""
    if a != b:
        between[a, a] += curv
        between[b, b] += curv
        between[a, b] -= curv
        between[b, a] -= curv


@internal
def _drop_seen(x: int, extra: Any, push: Any, curv: Any) -> None:
    """Clear what the extension's position number x has with itself and with those before it."""
    for before in range(x + 1):
        push[extra[before]] = 0.0
        curv[extra[before]] = 0.0


@internal
def _extend(q: int, n: int, top: int, choice: Any, y: Any, lots: Any, order: Any, lot: Any, extra: Any) -> int:
    """Choose positions below the top whose documents belong into it; returns how many.

    A label belongs if it occurs in the top of the ideal order, that is if it is at least the label at
    the last place there. By the paper's count, as many are taken as the top holds documents of other labels; by
    quota, as many of each label as the top lacks ("Lambda-eX" paper, section 4.2).
    """
    least = choice.missed_label[q]
    false_top = 0
    at_least = 0
    for i in range(top):
        if y[i] < least:
            false_top += 1
        elif y[i] == least:
            at_least += 1
    lacking = choice.quota[q] - at_least
    take_all = choice.extend == ALL or (choice.extend >= ALL_STATIC and not choice.crowded[q])
    at_random = choice.extend == RANDOM or choice.extend == ALL_RANDOM

    missed = 0
    for i in range(top, n):
        if y[i] >= least and y[i] > 0.0 and not (choice.by_quota and y[i] == least and lacking <= 0):
            extra[missed] = i
            missed += 1
    if not take_all:
        if at_random:
            for i in range(n):
                lot[i] = lots[order[i]]
            order_run(lot, extra, np.int64(0), np.int64(missed))
        taken = 0
        for x in range(missed):
            i = extra[x]
            if choice.by_quota:
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
    bounds: Any,
    keys: Any,
    score: Any,
    label: Any,
    chain: Any,
    reach: int,
    noise: Any,
    stream: Any,
    pairs: Any,
    grad: Any,
    hess: Any,
    query_weight: Any,
    leaf: Any,
    between: Any,
    real: Any,
    facts: Any,
    keyed: Any,
    placed: Any,
) -> None:
    """Sum pair losses over documents at most ``reach`` places apart in noisy rankings.

    The noise decides who is a neighbour and what an exchange is worth; the loss is taken at the clean scores. Where
    ``pairs`` has room, it receives the pairs.
    """
    key, spare, order, leaf_at = keyed[0], keyed[1], placed[0], placed[1]
    noisy = real[0]
    y, odds, g, d, e, state = real[1], real[2], real[3], real[4], real[5], real[6]  # by position
    between_them, through, picked = real[7], real[8], real[9]
    push, curv, row_grad, row_hess = real[10], real[11], real[12], real[13]
    count = np.empty(256, np.int64)
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        highest = score[start]
        lowest = score[start]
        for a in range(n):
            highest = max(highest, score[start + a])
            lowest = min(lowest, score[start + a])
        wide = not highest - lowest < _WIDE
        for a in range(n):  # the loss needs scores only in the form of odds, unless these would underflow
            facts[a, 0] = score[start + a] if wide else exp_negative(score[start + a] - highest)
            facts[a, 1] = label[start + a]
            facts[a, 2] = chain.gain[start + a]
            facts[a, 3] = 1.0 if chain.additive else chain.cont[start + a]
            facts[a, 4] = 0.0 if chain.additive else chain.carry[start + a]
            facts[a, 5] = 0.0  # sums of gradient and curvature
            facts[a, 6] = 0.0
        scale = chain.scale[q] / noise.samples
        k = pairs.start[q] if pairs.curv.size > 0 else 0
        for sample in range(noise.samples):
            if noise.kind == NO_NOISE:
                for a in range(n):
                    noisy[a] = score[start + a]
            else:
                fill_noise(noisy, n, noise.kind, stream, keys[q], sample)
                for a in range(n):
                    noisy[a] = score[start + a] + noise.strength * noisy[a]
            sort_descending(noisy, n, order, key, spare, count)
            state_here = chain.start
            tile = _TILE if reach < _TILE else n
            for low in range(0, min(n - 1, chain.depth), tile):  # positions from low on are numbered from 0
                m = min(tile, chain.depth - low) + min(reach, n)  # an infinite depth plus a long reach may overflow
                m = min(m, n - low)
                for i in range(m):
                    a = order[low + i]
                    odds[i] = facts[a, 0]
                    y[i] = facts[a, 1]
                    g[i] = facts[a, 2]
                    row_grad[i] = 0.0
                    row_hess[i] = 0.0
                if not chain.additive:
                    for i in range(m):
                        a = order[low + i]
                        d[i] = facts[a, 3]
                        e[i] = facts[a, 4]
                        between_them[i] = 0.0
                        through[i] = 1.0
                        picked[i] = 0.0
                    walk(m, d, e, state_here, state)
                    state_here = state[min(tile, m - 1)]
                if leaf.size > 0:
                    for i in range(m):
                        leaf_at[i] = leaf[start + order[low + i]]
                w = chain.weight[low:]
                for apart in range(1, min(reach, m - 1) + 1):
                    rows = min(tile, m - apart, chain.depth - low)
                    _neighbours_apart(
                        apart, rows, chain.additive, wide, w, g, d, e, state, y, odds,
                        between_them, through, picked, push, curv,
                    )  # fmt: skip
                    if pairs.curv.size > 0:
                        k = _keep(apart, rows, start, order[low:], scale, curv, k, pairs)
                    if leaf.size > 0:
                        for i in range(rows):
                            add_pair(leaf_at[i], leaf_at[i + apart], query_weight[q] * (scale * curv[i]), between)
                    step = np.uint64(apart)
                    for i in range(np.uint64(rows)):
                        row_grad[i] -= push[i]
                        row_hess[i] += curv[i]
                    for i in range(np.uint64(rows)):
                        row_grad[i + step] += push[i]
                        row_hess[i + step] += curv[i]
                for i in range(m):
                    a = order[low + i]
                    facts[a, 5] += row_grad[i]
                    facts[a, 6] += row_hess[i]
        for a in range(n):
            grad[start + a] += scale * facts[a, 5]
            hess[start + a] += scale * facts[a, 6]
        if pairs.curv.size > 0:
            pairs.used[q] = k - pairs.start[q]


@internal
def _keep(apart: int, rows: int, start: int, order: Any, scale: float, curv: Any, k: int, pairs: Any) -> int:
    """Write down the pairs (i, i + apart), i < rows, that have a curvature, from place k on; return the next place."""
    for i in range(rows):
        if curv[i] > 0.0:
            pairs.rows[k, 0] = start + order[i]
            pairs.rows[k, 1] = start + order[i + apart]
            pairs.curv[k] = scale * curv[i]
            k += 1
    return k


@jit
def kept_pairs_between(q0: int, q1: int, pairs: Any, query_weight: Any, leaf: Any, between: Any) -> None:
    """Sum the curvature of kept pairs between the leaves of their rows."""
    for q in range(q0, q1):
        for k in range(pairs.start[q], pairs.start[q] + pairs.used[q]):
            add_pair(leaf[pairs.rows[k, 0]], leaf[pairs.rows[k, 1]], query_weight[q] * pairs.curv[k], between)


@internal
def _neighbours_apart(
    apart: int,
    rows: int,
    additive: bool,
    wide: bool,
    w: Any,
    g: Any,
    d: Any,
    e: Any,
    state: Any,
    y: Any,
    odds: Any,
    between_them: Any,
    through: Any,
    picked: Any,
    push: Any,
    curv: Any,
) -> None:
    """Write push (on i + apart; the opposite on i) and curvature of the pairs (i, i + apart), i < rows.

    ``odds`` are e^score, or the scores themselves if ``wide``. Called for 1, 2, ... places apart in turn:
    ``between_them``, ``through`` and ``picked`` gather what lies between.
    """
    step = np.uint64(apart)
    if additive:
        for i in range(np.uint64(rows)):
            j = i + step
            curv[i] = (w[i] - w[j]) * (g[j] - g[i])
    else:
        for i in range(np.uint64(rows)):
            j = i + step
            curv[i] = swap_change(i, j, w, g, d, e, state[i], between_them[i], through[i], picked[i])
            between_them[i] += w[j] * g[j] * through[i]
            picked[i] = d[j] * picked[i] + e[j]
            through[i] *= d[j]
    for i in range(np.uint64(rows)):  # a weight becomes negative where the lower one is the better
        j = i + step
        weight = abs(curv[i])
        better = weight if y[i] > y[j] else -weight
        curv[i] = better if y[i] != y[j] else 0.0
    if wide:
        for i in range(np.uint64(rows)):
            push[i] = 1.0 / (1.0 + math.exp(min(odds[i] - odds[i + step], 700.0)))
    else:
        for i in range(np.uint64(rows)):
            push[i] = odds[i + step] / (odds[i] + odds[i + step])
    for i in range(np.uint64(rows)):
        p = push[i]
        weight = curv[i]
        push[i] = weight * (p if weight > 0.0 else 1.0 - p)
        curv[i] = abs(weight) * p * (1.0 - p)
