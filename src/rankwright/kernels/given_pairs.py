"""The logistic loss of given pairs of documents, at their current scores; formulas at the head of `pairs`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from rankwright.kernels.jit import jit
from rankwright.kernels.pairs import add_pair


class GivenPairs(NamedTuple):
    """Pairs of rows; query q has the pairs ``start[q]`` to ``start[q + 1]``."""

    start: NDArray[Any]  # [queries + 1]
    winner: NDArray[Any]  # row [pairs]
    loser: NDArray[Any]  # row [pairs]
    weight: NDArray[Any]  # [pairs]


@jit
def given_pairs(q0: int, q1: int, pairs: Any, sigma: float, score: Any, sums: Any) -> None:
    """Sum the losses of the pairs of queries [q0, q1)."""
    grad, hess, query_weight, leaf, between, stop, rounding = sums
    for q in range(q0, q1):
        if stop[0] != 0:
            return
        for k in range(pairs.start[q], pairs.start[q + 1]):
            a = pairs.winner[k]
            b = pairs.loser[k]
            p = 1.0 / (1.0 + math.exp(min(sigma * (score[a] - score[b]), 700.0)))
            push = sigma * pairs.weight[k] * p
            curv = sigma * push * (1.0 - p)
            grad[a] -= push
            grad[b] += push
            hess[a] += curv
            hess[b] += curv
            if leaf.size > 0:
                add_pair(leaf[a], leaf[b], query_weight[q] * curv, rounding, between)
