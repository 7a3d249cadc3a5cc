"""Losses of single documents: squared error, and cross entropy of a probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.arithmetic import exp_negative
from rankwright.kernels.jit import jit


@jit
def squared_errors(start: int, stop: int, score: Any, target: Any, grad: Any, hess: Any) -> None:
    """Add score - target; curvature 1."""
    for a in range(np.uint64(start), np.uint64(stop)):
        grad[a] += score[a] - target[a]
        hess[a] += 1.0


@jit
def binary_cross_entropy(
    start: int, stop: int, score: Any, target: Any, grad: Any, hess: Any
) -> None:
    """Add p - target with p = 1 / (1 + exp(-score)); curvature p (1 - p)."""
    for a in range(np.uint64(start), np.uint64(stop)):
        z = score[a]
        power = exp_negative(-abs(z))
        smaller = power / (1.0 + power)  # of p and 1 - p, without loss of digits
        p = smaller if z < 0.0 else 1.0 - smaller
        grad[a] += p - target[a]
        hess[a] += smaller * (1.0 - smaller)


@jit
def diagonal_between_leaves(
    q0: int, q1: int, bounds: Any, query_weight: Any, curvature: Any, leaf: Any, between: Any
) -> None:
    """Sum the curvature of single documents, which is on the diagonal only."""
    for q in range(q0, q1):
        for a in range(bounds[q], bounds[q + 1]):
            between[leaf[a], leaf[a]] += query_weight[q] * curvature[a]
