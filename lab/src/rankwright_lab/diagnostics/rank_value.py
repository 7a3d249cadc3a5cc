# mypy: disable-error-code="untyped-decorator"
"""Metric under SoftRank's distribution of ranks; `rankwright.kernels.rank_distribution` has the formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating
from rankwright.kernels.ordering import longest_query
from rankwright.kernels.rank_distribution import LOOK_EVERY, is_zero


@allocating
def expected_rank_value(
    q0: int, q1: int, bounds: Any, score: Any, chain: Any, sigma: float, out: Any, stop: Any
) -> None:
    """Write E sum w g of each query into ``out`` [queries], for additive chains: O(n^2 depth) per query.

    Nobody reads it once the flag ``stop`` is raised.
    """
    places = max(1, min(chain.depth, longest_query(q0, q1, bounds)))
    chance = np.empty(places)
    w = chain.weight
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        depth = min(places, n)
        worth = 0.0
        for j in range(n):
            gain = chain.gain[start + j]
            if gain == 0.0:
                continue
            if stop[0] != 0:
                return
            chance[0] = 1.0
            chance[1:depth] = 0.0
            for i in range(n):
                if i == j:
                    continue
                p = 0.5 * math.erfc((score[start + j] - score[start + i]) / (2.0 * sigma))
                for r in range(depth - 1, 0, -1):
                    chance[r] = chance[r - 1] * p + chance[r] * (1.0 - p)
                chance[0] *= 1.0 - p
                if i % LOOK_EVERY == 0 and is_zero(chance, depth):
                    break
            for r in range(depth):
                worth += gain * w[r] * chance[r]
        out[q] = worth * chain.scale[q]
