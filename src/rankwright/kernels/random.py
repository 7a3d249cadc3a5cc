"""Randomness as a function: Philox 4x32-10 of (seed, iteration, query key, draw).

No state is kept or shared, so a draw is the same in any thread, batch or order of evaluation.

Reference: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from enum import IntEnum, unique
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import log_positive, turn
from rankwright.kernels.jit import ROW, allocating, inlined, shared

LOGISTIC, GAUSSIAN, GUMBEL, UNIFORM = range(4)


@unique
class Stream(IntEnum):
    """Random streams of a training, beside those of its objective's terms, which are numbered from 0.

    The numbers are part of every model: another number is another model.
    """

    SPLIT_NOISE = 101
    LEAF_NOISE = 102
    SUBSAMPLE = 103
    HALVES = 104
    BOOTSTRAP = 105
    LINEAR_FOLDS = 106
    XGBOOST_ROWS = 201
    XGBOOST_COLUMNS = 202
    LABELS = 1 << 20  # of the first term: each term that draws its label has a stream from here on


_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_12 = np.uint64(12)


class KeyedQueries(NamedTuple):
    """The queries of a kernel that draws random numbers."""

    bounds: NDArray[Any]  # first document of each query, then their number [queries + 1]
    keys: NDArray[Any]  # uint64 [queries]


@inlined
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Ten rounds of Philox on four 32-bit counter words and two key words, each held in a uint64."""
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = ((p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW)
        k0 = (k0 + _WEYL_0) & _LOW
        k1 = (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@shared(types.void(ROW, types.int64, types.uint64, types.uint64, types.int64))
def fill_uniform(out: Any, n: int, stream: Any, query_key: Any, draw: int) -> None:
    """Fill ``out`` with ``n`` uniforms strictly between 0 and 1.

    ``stream`` (uint64) stands for seed and iteration, ``draw`` numbers the vectors of one query. Values
    are drawn in pairs: ``out`` must have room for n rounded up to an even number.
    """
    two = np.uint64(2)
    c1 = np.uint64(draw)
    c2 = query_key & _LOW
    c3 = query_key >> _32
    k0 = stream & _LOW
    k1 = stream >> _32
    for block in range(np.uint64((n + 1) // 2)):
        w0, w1, w2, w3 = philox(block, c1, c2, c3, k0, k1)
        out[two * block] = (np.float64(np.int64(((w1 << _32) | w0) >> _12)) + 0.5) * 2.0**-52
        out[two * block + np.uint64(1)] = (
            np.float64(np.int64(((w3 << _32) | w2) >> _12)) + 0.5
        ) * 2.0**-52


@shared(types.void(ROW, types.int64, types.int64, types.uint64, types.uint64, types.int64))
def fill_noise(out: Any, n: int, kind: int, stream: Any, query_key: Any, draw: int) -> None:
    """Fill ``out`` with ``n`` draws of a standard distribution (LOGISTIC ... UNIFORM); room as above."""
    fill_uniform(out, n, stream, query_key, draw)
    even = np.uint64(n + n % 2)
    if kind == LOGISTIC:
        _make_logistic(out, even)
    elif kind == GUMBEL:
        _make_gumbel(out, even)
    elif kind == GAUSSIAN:
        _make_gaussian(out, even)


@shared(types.void(ROW, types.uint64))
def _make_logistic(u: Any, n: Any) -> None:
    for a in range(n):
        u[a] = log_positive(u[a] / (1.0 - u[a]))


@shared(types.void(ROW, types.uint64))
def _make_gumbel(u: Any, n: Any) -> None:
    for a in range(n):
        u[a] = -log_positive(-log_positive(u[a]))


@shared(types.void(ROW, types.int64, types.uint64, types.uint64, types.int64))
def fill_gaussian(out: Any, n: int, stream: Any, query_key: Any, draw: int) -> None:
    """Fill ``out`` with ``n`` standard normal draws; room as above."""
    fill_uniform(out, n, stream, query_key, draw)
    _make_gaussian(out, np.uint64(n + n % 2))


@shared(types.void(ROW, types.uint64))
def _make_gaussian(u: Any, n: Any) -> None:
    """Box and Muller: a radius and an angle give two normal draws."""
    for a in range(np.uint64(0), n, np.uint64(2)):
        radius = math.sqrt(-2.0 * log_positive(u[a]))
        cosine, sine = turn(u[a + np.uint64(1)])
        u[a] = radius * cosine
        u[a + np.uint64(1)] = radius * sine


def stream_of(seed: int, iteration: int, term: int = 0) -> np.uint64:
    """Fold seed, iteration and summand into the 64-bit key of the generator (SplitMix64's finaliser)."""
    mask = (1 << 64) - 1
    x = seed & mask
    # Mixed in one after the other, so that triples with the same sum differ.
    for part in (iteration, term):
        x = ((x ^ (x >> 31)) + part * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return np.uint64(x ^ (x >> 31))


@allocating
def noise_by_query(
    q0: int, q1: int, bounds: Any, keys: Any, kind: int, stream: Any, draw: int, out: Any
) -> None:
    """Fill ``out`` [documents] with noise, query by query."""
    longest = 0
    for q in range(q0, q1):
        longest = max(longest, bounds[q + 1] - bounds[q])
    values = np.empty(longest + 1)
    for q in range(q0, q1):
        n = bounds[q + 1] - bounds[q]
        fill_noise(values, n, kind, stream, keys[q], draw)
        for a in range(n):
            out[bounds[q] + a] = values[a]


@allocating
def uniform_by_key(keys: Any, stream: Any, draw: int, out: Any) -> None:
    """Write a uniform for each query into ``out`` [queries]."""
    pair = np.empty(2)
    for q in range(keys.size):
        fill_uniform(pair, 1, stream, keys[q], draw)
        out[q] = pair[0]
