"""Jumps of long cascades: the sums of `ccs` over all pairs of documents, in time linear in their number.

In a cascade (e = 0, 0 <= d <= 1) the document i gets from each document u above it, at the state s_u before u,

    s_u [(w_u - w_(u+1)) (g_i - g_u) + w_(u+1) ((1 - d_u) g_i - (1 - d_i) g_u)] exp(-x^2 / 2)    x = (b_u - c_i) / sigma

and the same from those below, at their places and states in the list without i. The bracket is a sum of products of a
number of u and a number of i, and as a function of c_i, or of b_u, the density is a smooth curve of the width sigma: in
a cell of two sigma a polynomial through `_NODES` Chebyshev nodes has all its digits. So a source can add to the values
at the nodes of the cells in its reach, which a target then interpolates; or it can be distributed over the nodes of its
own cell, which a target then sums over the cells in its reach. The first suits many targets, the second many sources.
Documents of the *common* kind are the many: they change nothing among themselves, and of two others each is a source of
the first kind. The list is walked twice, from the top for those above and from the bottom for those below. On the way
up, sums are per unit of the state at i, so that d = 0 needs no division.

Errors are about 1e-15 of the sum of the sizes of all addends, where a sum of single jumps has each to its last digit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.jit import internal
from rankwright.kernels.ordering import first_at_most
from rankwright.kernels.shared import shared
from rankwright.kernels.threads import stop_flag

_NODES = 20  # of a cell; the error of interpolation is below 2e-15 of phi(0)
_WIDTH = 2.0  # of a cell, in sigma
_REACH = 8.5  # phi(8.5) is below the rounding of phi(0)
SHORT = 512  # lists up to this length are always summed pair by pair
_SMALLEST_SCALE = 1e-100
_SAMPLED = 64  # documents by which it is estimated how many are in reach of one another
# Nanoseconds, for the choice of the faster way: a pair, a document of the common kind, what another takes besides.
_PAIR, _COMMON, _OTHER = 8.0, 300.0, 300.0

_ROW = types.float64[::1]


class _Grid(NamedTuple):
    """Cells of equal width that cover all clean or all noisy scores."""

    low: float  # where the first begins
    width: float
    cells: int
    points: NDArray[Any]  # nodes of all cells [cells * nodes]


class _Sums(NamedTuple):
    """What a walk along the list has added up so far."""

    targets: _Grid  # over clean scores
    plain: NDArray[
        Any
    ]  # sums over other sources at the nodes of the targets: of s (w - w') density
    gains: NDArray[Any]  # of s (w - w') g density
    lower_stops: NDArray[Any]  # of s w' (1 - d) density
    lower_gains: NDArray[Any]  # of s w' g density; where g = 1 - d the two cancel to the last digit
    changes: NDArray[Any]  # of what documents of the common kind get
    sources: _Grid  # over noisy scores
    drops: NDArray[Any]  # sources of the common kind, distributed over nodes: s (w - w')
    weights: NDArray[Any]  # s w'
    nodes: NDArray[Any]  # of the cell from -1 to 1
    barycentric: NDArray[Any]  # weights of the nodes in the barycentric formula
    share: NDArray[Any]  # of each node in a point
    term: NDArray[Any]  # addends of a sum


class _Documents(NamedTuple):
    """The list, by position."""

    b: NDArray[Any]
    c: NDArray[Any]
    g: NDArray[Any]
    stop: NDArray[Any]  # 1 - d
    is_common: NDArray[Any]
    common_gain: float
    common_stop: float
    inverse: float  # 1 / sigma


class Extent(NamedTuple):
    """How far down a cascade its documents matter; from these positions on they add less than the limit."""

    live: int  # to documents below them
    reached: int  # to documents above them, one of which the list is then without


@internal
def extent_of(last: int, limit: float, peak: Any, d: Any, state: Any) -> Any:
    """Return the extent of a cascade: ``limit`` bounds state times ``peak``, the largest weight from a position on."""
    live = 0
    while live < last and state[live] * peak[live] >= limit:
        live += 1
    others = state[0]  # the state in the list without the document that stops most users
    least = 1.0
    reached = 0
    while reached < last and others * peak[max(reached - 1, 0)] >= limit:
        others *= max(least, d[reached])
        least = min(least, d[reached])
        reached += 1
    return Extent(live, reached)


@internal
def is_faster(
    n: int, n_active: int, live_active: int, extent: Any, sigma: float, b: Any, c: Any
) -> bool:
    """Whether `cascade_jumps` is faster than a sum for each document.

    ``n_active`` documents are not of the common kind, ``live_active`` of them at live positions.
    """
    low, high = _ends(n, c)
    spread = max(b[0] - b[n - 1], high - low)
    if not spread < (n // 8) * _WIDTH * sigma:
        return False  # few documents are in reach of one another, and cells would be many
    in_reach = 0.0
    for sample in range(_SAMPLED):
        y = c[sample * n // _SAMPLED]
        in_reach += first_at_most(y - _REACH * sigma, n, b) - first_at_most(
            y + _REACH * sigma, n, b
        )
    share = in_reach / (float(n) * _SAMPLED)
    pairs = share * (float(n_active) * extent.reached + float(n - n_active) * live_active)
    return pairs * _PAIR > n * _COMMON + (n_active + live_active) * _OTHER


@shared(
    types.void(
        types.int64,
        types.int64,
        typeof(Extent(0, 0)),
        types.float64,
        *[_ROW] * 7,
        typeof(stop_flag()),
    ),
    allocates=True,
)
def cascade_jumps(
    n: int,
    common: int,
    extent: Any,
    sigma: float,
    w: Any,
    b: Any,
    c: Any,
    g: Any,
    d: Any,
    state: Any,
    jumps: Any,
    halt: Any,
) -> None:
    """Write the sum of jump times density of each document into ``jumps``; arrays by position.

    ``common`` is a position of the common kind, or -1. Nobody reads the result once ``halt`` is raised.
    """
    nodes = np.empty(_NODES)
    barycentric = np.empty(_NODES)
    for k in range(_NODES):
        angle = math.pi * (k + 0.5) / _NODES
        nodes[k] = math.cos(angle)
        barycentric[k] = math.sin(angle) if k % 2 == 0 else -math.sin(angle)
    width = _WIDTH * sigma
    low, high = _ends(n, c)
    cells = int((high - low) / width) + 1
    targets = _Grid(low, width, cells, np.empty(cells * _NODES))
    cells = int((b[0] - b[n - 1]) / width) + 1
    sources = _Grid(b[n - 1], width, cells, np.empty(cells * _NODES))
    for grid in (targets, sources):
        _place_nodes(grid, nodes)
    size = targets.points.size
    plain = np.zeros(size)
    gains = np.zeros(size)
    lower_stops = np.zeros(size)
    lower_gains = np.zeros(size)
    changes = np.zeros(size)
    drops = np.zeros(sources.points.size)
    weights = np.zeros(sources.points.size)
    term = np.empty(max(size, sources.points.size))
    share = np.empty(_NODES)
    tables = (plain, gains, lower_stops, lower_gains, changes, drops, weights)
    sums = _Sums(
        targets=targets,
        plain=plain,
        gains=gains,
        lower_stops=lower_stops,
        lower_gains=lower_gains,
        changes=changes,
        sources=sources,
        drops=drops,
        weights=weights,
        nodes=nodes,
        barycentric=barycentric,
        share=share,
        term=term,
    )
    is_common = np.zeros(n, np.bool_)
    stop = np.empty(n)
    for i in range(n):
        stop[i] = 1.0 - d[i]
        is_common[i] = common >= 0 and g[i] == g[common] and d[i] == d[common]
    gain = g[common] if common >= 0 else 0.0
    rate = 1.0 - d[common] if common >= 0 else 0.0
    documents = _Documents(b, c, g, stop, is_common, gain, rate, 1.0 / sigma)

    for i in range(n):
        if halt[0] != 0:
            return
        jumps[i] = _read(i, documents, sums)
        if i < extent.live:
            _add(i, state[i] * (w[i] - w[i + 1]), state[i] * w[i + 1], documents, sums)

    for table in tables:
        table[:] = 0.0
    scale = 1.0  # of all sums: what they have is multiplied by it
    for i in range(extent.reached - 1, -1, -1):
        if halt[0] != 0:
            return
        if state[i] != 0.0:
            jumps[i] += state[i] * scale * _read(i, documents, sums)
        if i == 0:
            return
        scale *= d[i]
        if scale < _SMALLEST_SCALE:
            for table in tables:
                table *= scale
            scale = 1.0
        _add(i, (w[i - 1] - w[i]) / scale, w[i] / scale, documents, sums)


@internal
def _ends(n: int, values: Any) -> tuple[float, float]:
    """Return the least and the largest of n values."""
    low = values[0]
    high = values[0]
    for i in range(n):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@internal
def _place_nodes(grid: Any, nodes: Any) -> None:
    for cell in range(grid.cells):
        for k in range(_NODES):
            grid.points[cell * _NODES + k] = grid.low + grid.width * (cell + 0.5 * (1.0 + nodes[k]))


@internal
def _locate(y: float, grid: Any, sums: Any) -> int:
    """Write the share of each node in a value at y into ``sums.share``; return the number of the cell's first node."""
    place = (y - grid.low) / grid.width
    cell = min(int(place), grid.cells - 1)
    t = 2.0 * (place - cell) - 1.0
    whole = 0.0
    for k in range(np.uint64(_NODES)):
        sums.share[k] = sums.barycentric[k] / (t - sums.nodes[k])
    whole = total(sums.share, 0, _NODES)
    if not abs(whole) < np.inf:  # y is a node
        for k in range(_NODES):
            sums.share[k] = 1.0 if t == sums.nodes[k] else 0.0
        return cell * _NODES
    for k in range(np.uint64(_NODES)):
        sums.share[k] /= whole
    return cell * _NODES


@internal
def _in_reach(y: float, inverse: float, grid: Any) -> tuple[int, int]:
    """Return the first node, and one past the last, of the cells that are in reach of y."""
    reach = _REACH / inverse
    low = (y - reach - grid.low) / grid.width
    high = (y + reach - grid.low) / grid.width
    first = int(max(low, 0.0))
    last = min(int(max(high, -1.0) + 1.0), grid.cells)
    return min(first, last) * _NODES, last * _NODES


@internal
def _dot(values: Any, first: int, sums: Any) -> float:
    share, term = sums.share, sums.term
    for k in range(np.uint64(_NODES)):
        term[k] = share[k] * values[np.uint64(first) + k]
    return total(term, 0, _NODES)


@internal
def _read(i: int, documents: Any, sums: Any) -> float:
    """Return what the document at position i gets from the sources so far."""
    first = _locate(documents.c[i], sums.targets, sums)
    if documents.is_common[i]:
        return _dot(sums.changes, first, sums)
    gain, stop, y, inverse = documents.g[i], documents.stop[i], documents.c[i], documents.inverse
    worth = gain * _dot(sums.plain, first, sums) - _dot(sums.gains, first, sums)
    worth += gain * _dot(sums.lower_stops, first, sums) - stop * _dot(sums.lower_gains, first, sums)
    by_drop = gain - documents.common_gain
    by_weight = documents.common_stop * gain - stop * documents.common_gain
    low, high = _in_reach(y, inverse, sums.sources)
    points, drops, weights, term = sums.sources.points, sums.drops, sums.weights, sums.term
    for k in range(np.uint64(low), np.uint64(high)):
        x = (points[k] - y) * inverse
        term[k] = (by_drop * drops[k] + by_weight * weights[k]) * exp_negative(-0.5 * x * x)
    return worth + total(term, low, high)


@internal
def _add(u: int, drop: float, weight: float, documents: Any, sums: Any) -> None:
    """Add the source at position u; ``drop`` and ``weight`` are s (w - w') and s w'."""
    y = documents.b[u]
    if documents.is_common[u]:
        first = np.uint64(_locate(y, sums.sources, sums))
        for k in range(np.uint64(_NODES)):
            sums.drops[first + k] += sums.share[k] * drop
            sums.weights[first + k] += sums.share[k] * weight
        return
    gain, stop, inverse = documents.g[u], documents.stop[u], documents.inverse
    by_gain, by_lower_stop, by_lower_gain = drop * gain, weight * stop, weight * gain
    by_change = drop * (documents.common_gain - gain) + weight * (
        stop * documents.common_gain - documents.common_stop * gain
    )
    low, high = _in_reach(y, inverse, sums.targets)
    points, plain, gains, changes = sums.targets.points, sums.plain, sums.gains, sums.changes
    lower_stops, lower_gains = sums.lower_stops, sums.lower_gains
    for k in range(np.uint64(low), np.uint64(high)):
        x = (points[k] - y) * inverse
        density = exp_negative(-0.5 * x * x)
        plain[k] += drop * density
        gains[k] += by_gain * density
        lower_stops[k] += by_lower_stop * density
        lower_gains[k] += by_lower_gain * density
        changes[k] += by_change * density
