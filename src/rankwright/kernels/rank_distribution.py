"""Distribution of each document's rank if its contests were independent, the metric under it and its gradient.

Independence is an approximation of the "Directness" paper: for three or more documents the result is not the metric's
mean over Gaussian scores. Document i beats j with probability pi_ij = Phi((z_i - z_j) / (sqrt(2) sigma)). The rank of j
is the sum of these events; its distribution grows by one opponent at a time:

    p(r) <- p(r - 1) pi_ij + p(r) (1 - pi_ij)        section III

The derivative of sum_r w_r p(r) by each pi_ij comes from the same recursion run backwards. It only takes means,
so it is stable, unlike removing an opponent by division.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating, inlined, internal
from rankwright.kernels.ordering import longest_query

LOOK_EVERY = 64  # steps between two looks for chances that are all 0


@allocating
def expected_rank_gradient(
    q0: int, q1: int, bounds: Any, score: Any, chain: Any, sigma: float, grad: Any, stop: Any
) -> None:
    """Subtract from ``grad`` the gradient of E sum w g, for additive chains: O(n^2 depth) per query.

    Further opponents are left out once every rank with a weight is impossible (its chance underflows to 0), so most
    documents of a long query take few steps. ``grad`` is not used if the flag ``stop`` is raised.
    """
    longest = longest_query(q0, q1, bounds)
    places = min(chain.depth, longest)
    if places == 0:  # no position has a weight
        return
    forward = np.empty((longest, places))
    beats = np.empty(longest)
    w = chain.weight
    spread = math.sqrt(2.0) * sigma
    density = 1.0 / (math.sqrt(2.0 * math.pi) * spread)
    for q in range(q0, q1):
        start = bounds[q]
        n = bounds[q + 1] - start
        if n < 2 or chain.scale[q] == 0.0:
            continue
        depth = min(places, n)
        back = np.empty(depth)
        for j in range(n):
            gain = chain.gain[start + j] * chain.scale[q]
            if gain == 0.0:
                continue
            if stop[0] != 0:
                return
            forward[0, 0] = 1.0
            forward[0, 1:depth] = 0.0
            step = 0
            possible = n - 1  # steps up to which a rank with a weight is possible
            for i in range(n):
                if i == j:
                    continue
                p = _chance_to_beat(score[start + i], score[start + j], spread)
                beats[step] = p
                if step < n - 2:
                    forward[step + 1, 0] = forward[step, 0] * (1.0 - p)
                    for r in range(1, depth):
                        forward[step + 1, r] = forward[step, r - 1] * p + forward[step, r] * (
                            1.0 - p
                        )
                    if step % LOOK_EVERY == 0 and is_zero(forward[step + 1], depth):
                        possible = step + 1
                        break
                step += 1
            for r in range(depth):
                back[r] = w[r]
            step = n - 2
            for i in range(n - 1, -1, -1):
                if i == j:
                    continue
                if step % LOOK_EVERY == 0 and is_zero(back, depth):
                    break
                if step < possible:
                    slope = 0.0  # derivative by the chance that i beats j
                    for r in range(depth):
                        below = back[r + 1] if r + 1 < depth else 0.0
                        slope += forward[step, r] * (below - back[r])
                    x = (score[start + i] - score[start + j]) / spread
                    push = gain * slope * density * math.exp(-0.5 * x * x)
                    grad[start + i] -= push
                    grad[start + j] += push
                    p = beats[step]
                else:
                    p = _chance_to_beat(score[start + i], score[start + j], spread)
                for r in range(depth):
                    below = back[r + 1] if r + 1 < depth else 0.0
                    back[r] = below * p + back[r] * (1.0 - p)
                step -= 1


@inlined
def _chance_to_beat(score: float, other: float, spread: float) -> float:
    return 0.5 * math.erfc((other - score) / (spread * math.sqrt(2.0)))


@internal
def is_zero(values: Any, n: int) -> bool:
    """Return True if the first n values are 0."""
    for r in range(n):
        if values[r] != 0.0:
            return False
    return True
