"""Randomness as a function: Philox 4x32-10 of (seed, iteration, query key, draw).

No state is kept or shared, so a draw is the same in any thread, batch or order of evaluation.

Reference: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

LOGISTIC, GAUSSIAN, GUMBEL, UNIFORM = range(4)

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_12 = np.uint64(12)


@njit(nogil=True, cache=True)
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Ten rounds of Philox on four 32-bit counter words and two key words, each held in a uint64."""
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (p1 >> _32) ^ c1 ^ k0,
            p1 & _LOW,
            (p0 >> _32) ^ c3 ^ k1,
            p0 & _LOW,
        )
        k0 = (k0 + _WEYL_0) & _LOW
        k1 = (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@njit(nogil=True, cache=True)
def fill_uniform(out: Any, n: int, stream: Any, query_key: Any, draw: int) -> None:
    """Fill ``out`` with ``n`` uniforms strictly between 0 and 1.

    ``stream`` (uint64) stands for seed and iteration, ``draw`` numbers the vectors of one query. Values
    come in pairs: ``out`` must have room for n rounded up to an even number.
    """
    for block in range((n + 1) // 2):
        w0, w1, w2, w3 = philox(
            np.uint64(block),
            np.uint64(draw),
            query_key & _LOW,
            query_key >> _32,
            stream & _LOW,
            stream >> _32,
        )
        out[2 * block] = (np.float64(np.int64(((w1 << _32) | w0) >> _12)) + 0.5) * 2.0**-52
        out[2 * block + 1] = (np.float64(np.int64(((w3 << _32) | w2) >> _12)) + 0.5) * 2.0**-52


@njit(nogil=True, cache=True)
def fill_noise(out: Any, n: int, kind: int, stream: Any, query_key: Any, draw: int) -> None:
    """Fill ``out`` with ``n`` draws of a standard distribution (LOGISTIC ... UNIFORM); room as above."""
    fill_uniform(out, n, stream, query_key, draw)
    if kind == LOGISTIC:
        for a in range(n):
            out[a] = math.log(out[a] / (1.0 - out[a]))
    elif kind == GUMBEL:
        for a in range(n):
            out[a] = -math.log(-math.log(out[a]))
    elif kind == GAUSSIAN:
        for a in range(0, n, 2):  # Box and Muller
            radius = math.sqrt(-2.0 * math.log(out[a]))
            angle = 2.0 * math.pi * out[a + 1]
            out[a] = radius * math.cos(angle)
            out[a + 1] = radius * math.sin(angle)


def stream_of(seed: int, iteration: int, term: int = 0) -> np.uint64:
    """Fold seed, iteration and summand into the 64-bit key of the generator (SplitMix64's finaliser)."""
    mask = (1 << 64) - 1
    x = seed & mask
    for part in (
        iteration,
        term,
    ):  # mixed in one after the other, so that no two triples meet by a sum
        x = ((x ^ (x >> 31)) + part * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return np.uint64(x ^ (x >> 31))
