"""Logistic losses of neighbours in noisy rankings; `rankwright.kernels.pairs` has the formulas."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative
from rankwright.kernels.exchange import swap_change, walk
from rankwright.kernels.jit import INDICES, ROW, internal, jit, shared
from rankwright.kernels.ordering import sort_descending, sort_scratch
from rankwright.kernels.pairs import (
    BETWEEN,
    NO_NOISE,
    TILE,
    WIDE,
    PairRow,
    Ranked,
    add_pair,
    gather,
    gather_leaves,
)
from rankwright.kernels.random import fill_noise


class Neighbours(NamedTuple):
    """Which documents trade places, and which part of an exchange counts."""

    reach: int  # places apart
    # Weight w of the lower position, or 0 to leave out the change there [longest query + 2].
    lower: NDArray[Any]
    # The user's state before both is the chain's start, whatever the documents above them.
    from_start: bool


class StoredPairs(NamedTuple):
    """Pairs of rows with their curvature; query q has the ``used[q]`` pairs from ``start[q]`` on."""

    start: NDArray[Any]  # [queries + 1]
    used: NDArray[Any]  # [queries]
    rows: NDArray[Any]  # [pairs, 2], int32
    curv: NDArray[Any]  # curvature [pairs]


class Passage(NamedTuple):
    """P, D and E of `exchange`, for the documents between two positions, by the upper one [longest query + 1]."""

    worth: NDArray[Any]
    through: NDArray[Any]
    gathered: NDArray[Any]


class NeighbourScratch(NamedTuple):
    """Memory of `neighbour_pairs`."""

    noisy: NDArray[Any]  # scores by document
    ranked: Ranked
    passage: Passage
    row: PairRow
    documents: NDArray[Any]  # records, so that numbers that move together share a cache line
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


_NEIGHBOUR_DOCUMENT = np.dtype(
    [(name, np.float64) for name in ("odds", "label", "gain", "cont", "carry", "grad", "hess")]
)


@jit
def neighbour_pairs(
    q0: int,
    q1: int,
    queries: Any,
    score: Any,
    labelled: Any,
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
    without noise. If ``stored`` has room, it receives the pairs.
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
        wide = not highest - lowest < WIDE
        # The loss needs scores only in the form of odds, unless these would underflow.
        for a in range(n):
            document = documents[a]
            document["odds"] = (
                score[start + a] if wide else exp_negative(score[start + a] - highest)
            )
            document["label"] = labelled.label[start + a]
            document["gain"] = chain.gain[start + a]
            document["cont"] = 1.0 if chain.additive else chain.cont[start + a]
            document["carry"] = 0.0 if chain.additive else chain.carry[start + a]
            document["grad"] = 0.0
            document["hess"] = 0.0
        scale = chain.scale[q] / noise.samples
        keeps = stored.curv.size > 0 and stored.start[q + 1] > stored.start[q]
        k = stored.start[q] if keeps else 0
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
            tile = TILE if reach < TILE else n
            # Within a tile, positions from low on are numbered from 0.
            for low in range(0, min(n - 1, chain.depth), tile):
                # The reach is limited first, because an infinite depth plus a long reach may overflow.
                m = min(tile, chain.depth - low) + min(reach, n)
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
                if labelled.weight.size > 0:
                    gather(m, start, order[low:], labelled.weight, u)
                if leaf.size > 0:
                    gather_leaves(m, start, order[low:], leaf, leaf_at)
                w, lower = chain.weight[low:], neighbours.lower[low:]
                for apart in range(1, min(reach, m - 1) + 1):
                    if stop[0] != 0:
                        return
                    rows = min(tile, m - apart, chain.depth - low)
                    if chain.additive:
                        _exchanges_apart(apart, rows, w, g, curv)
                    else:
                        if apart > 1:
                            _lengthen_passages(apart - 1, rows, w, g, d, e, scratch.passage)
                        _chained_exchanges_apart(
                            apart, rows, w, lower, g, d, e, state, worth, through, gathered, curv
                        )
                    if labelled.weight.size > 0:
                        _weigh_apart(apart, rows, y, u, curv)
                    _pushes_apart(apart, rows, wide, y, odds, push, curv)
                    if keeps:
                        k = _store(apart, rows, start, order[low:], scale, curv, k, stored)
                    if leaf.size > 0:
                        _sum_apart_between(
                            apart, rows, query_weight[q], scale, curv, leaf_at, rounding, between
                        )
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
        if keeps:
            stored.used[q] = k - stored.start[q]


_STORED = typeof(StoredPairs(*np.empty((2, 0), np.int64), np.empty((0, 2), np.int32), np.empty(0)))


@shared(
    types.void(
        types.int64,
        INDICES,
        typeof(np.empty(0, _NEIGHBOUR_DOCUMENT)),
        ROW,
        ROW,
        types.NamedUniTuple(ROW, 3, Passage),
    )
)
def _gather_chain(m: int, order: Any, documents: Any, d: Any, e: Any, passage: Any) -> None:
    """Write continuation and carry by position, and passages without any document between two positions."""
    for i in range(m):
        document = documents[order[i]]
        d[i] = document["cont"]
        e[i] = document["carry"]
        passage.worth[i] = 0.0
        passage.through[i] = 1.0
        passage.gathered[i] = 0.0


@shared(
    types.void(
        types.int64, types.int64, types.float64, types.float64, ROW, INDICES, types.float64, BETWEEN
    )
)
def _sum_apart_between(
    apart: int,
    rows: int,
    weight: float,
    scale: float,
    curv: Any,
    leaf_at: Any,
    rounding: float,
    between: Any,
) -> None:
    """Add the curvature of the pairs (i, i + apart), i < rows, between leaves."""
    for i in range(rows):
        add_pair(leaf_at[i], leaf_at[i + apart], weight * (scale * curv[i]), rounding, between)


@shared(
    types.int64(
        types.int64, types.int64, types.int64, INDICES, types.float64, ROW, types.int64, _STORED
    )
)
def _store(
    apart: int, rows: int, start: int, order: Any, scale: float, curv: Any, k: int, stored: Any
) -> int:
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


@shared(types.void(types.int64, types.int64, *(10 * [ROW])))
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
    """Write the same in any chain, with the passage between both positions."""
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):
        j = i + step
        delta[i] = swap_change(i, j, w, lower, g, d, e, state[i], worth[i], through[i], gathered[i])


@shared(
    types.void(types.int64, types.int64, ROW, ROW, ROW, ROW, types.NamedUniTuple(ROW, 3, Passage))
)
def _lengthen_passages(last: int, rows: int, w: Any, g: Any, d: Any, e: Any, passage: Any) -> None:
    """Add the position i + last to the passage between i and the positions below it, i < rows."""
    worth, through, gathered = passage
    step = np.uint64(last)
    for i in range(np.uint64(rows)):
        j = i + step
        worth[i] += w[j] * g[j] * through[i]
        gathered[i] = d[j] * gathered[i] + e[j]
        through[i] *= d[j]


@shared(types.void(types.int64, types.int64, ROW, ROW))
def _wide_chances(apart: int, rows: int, score: Any, chance: Any) -> None:
    """Write the chance that i + apart beats i, i < rows, if odds would underflow."""
    for i in range(rows):
        chance[i] = 1.0 / (1.0 + math.exp(min(score[i] - score[i + apart], 700.0)))


@shared(types.void(types.int64, types.int64, ROW, ROW, ROW))
def _weigh_apart(apart: int, rows: int, y: Any, u: Any, delta: Any) -> None:
    """Multiply the change of the pair i and i + apart by the weight of the better document, i < rows."""
    step = np.uint64(apart)
    for i in range(np.uint64(rows)):
        delta[i] *= u[i] if y[i] > y[i + step] else u[i + step]


@internal
def _pushes_apart(
    apart: int, rows: int, wide: bool, y: Any, odds: Any, push: Any, curv: Any
) -> None:
    """Write push (on i + apart; the opposite on i) and curvature of the pairs (i, i + apart), i < rows.

    ``odds`` are e^score, or the scores themselves if ``wide``. ``curv`` holds the weights on entry.
    """
    step = np.uint64(apart)
    # A weight becomes negative if the lower document has the better label.
    for i in range(np.uint64(rows)):
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
