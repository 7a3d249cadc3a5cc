"""The loss of a pair of documents, the documents of a ranking, and the sums, for the kernels of pairs.

A pair of documents a (better label) and b at scores z has the loss W log(1 + exp(-sigma (z_a - z_b))), where W may
have the factor u_a, a weight of the better document:

    push = sigma W p        to grad_b, its negative to grad_a          p = 1 / (1 + exp(sigma (z_a - z_b)))
    curv = sigma^2 W p (1 - p)      to both on the diagonal, its negative between them

The pairs of a position are written into arrays (push, curv) first and summed afterwards, because both loops are then
vectorised. `ranked_pairs` has the pairs of a ranking, and `neighbour_pairs` has neighbours in noisy rankings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numpy.typing import NDArray

from rankwright.kernels.jit import INDICES, ROW, inlined, shared

NO_NOISE = -1
TILE = 1024  # positions that are paired at a time, because their arrays then stay in the cache
WIDE = 650.0  # a larger range of sigma z underflows in exp(sigma (z - max))


class Labelled(NamedTuple):
    """Labels and weights of the documents; ``weight`` is empty if all pairs have the weight W alone."""

    label: NDArray[Any]  # [documents]
    weight: NDArray[Any]  # factor of W in the pairs whose better document it is [documents]


class Noise(NamedTuple):
    """Noise added to the scores before ranking."""

    kind: int
    strength: float
    samples: int


class PairSums(NamedTuple):
    """Arrays to add the sums over pairs to; ``leaf`` is empty if no sums between leaves are needed.

    The sums are not used if ``stop`` (`threads.stop_flag`) is raised.
    """

    grad: NDArray[Any]  # [documents]
    hess: NDArray[Any]  # [documents]
    query_weight: NDArray[Any]  # factor of the curvature between leaves [queries]
    leaf: NDArray[Any]  # of each document
    between: NDArray[Any]  # curvature between leaves [leaves, leaves]
    stop: NDArray[Any]
    rounding: float = 0.0  # of sums between leaves: see `rankwright.support.reducer.rounding`


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


BETWEEN = types.float64[:, ::1]


@shared(types.void(types.int64, types.int64, INDICES, ROW, ROW))
def gather(n: int, start: int, order: Any, values: Any, out: Any) -> None:
    """Write the values of a query's documents by position."""
    for i in range(n):
        out[i] = values[start + order[i]]


@shared(types.void(types.int64, types.int64, INDICES, INDICES, INDICES))
def gather_leaves(n: int, start: int, order: Any, leaf: Any, out: Any) -> None:
    """Write the leaves of a query's documents by position."""
    for i in range(n):
        out[i] = leaf[start + order[i]]


@inlined
def add_pair(a: int, b: int, curv: float, rounding: float, between: Any) -> None:
    """Add a pair's curvature to the leaves a and b of its documents; within one leaf it cancels."""
    if a != b:
        rounded = (curv + rounding) - rounding
        between[a, a] += rounded
        between[b, b] += rounded
        between[a, b] -= rounded
        between[b, a] -= rounded
