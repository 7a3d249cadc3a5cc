"""RMSE and Logistic: losses of single documents, which give scores a level that can be compared across queries.

    rmse        loss = 1/2 sum_i (z_i - r_i)^2                           z is an expected label
    logistic    loss = sum_i log(1 + exp(z_i)) - t_i z_i,  t_i = [r_i >= threshold]      z is a log odds of relevance

Losses of rankings depend on differences within a query only. As a second term, one of these two anchors the level.
Queries of equal labels count too, because they teach the level.

Reference: Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics, 2001,
algorithms 2 and 5. Departs from it: scores start at 0, and z is the log odds itself, not half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.kernels.documents import (
    binary_cross_entropy,
    diagonal_between_leaves,
    squared_errors,
)
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, LeafSums, Problem
from rankwright.objectives.options import check_positive


@dataclass(frozen=True)
class RMSE(Objective):
    """Regression on labels, document by document. Curvature 1. The metric does not matter.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("rmse", scores=[0, 1, 0], labels=[3, 0, 0], group=[2, 1])
    >>> grad.tolist()
    [-3.0, 1.0, 0.0]
    """

    name: ClassVar[str] = "rmse"
    declared: ClassVar[Capabilities] = Capabilities(
        full_curvature=True, absolute=True, uses_propensity=True
    )

    def prepare(self, problem: Problem) -> Gradient:
        """Use the labels as targets, estimated by inverse propensities if they are known."""
        return _Documents(problem, problem.labels, squared_errors)


@dataclass(frozen=True)
class Logistic(Objective):
    """Cross entropy of relevant and not relevant, document by document. The metric does not matter.

    Parameters
    ----------
    threshold
        Documents with at least this label are relevant.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("logistic", scores=[0, 0, 0], labels=[3, 0, 0], group=[2, 1])
    >>> grad.tolist(), hess.tolist()
    ([-0.5, 0.5, 0.5], [0.25, 0.25, 0.25])
    """

    name: ClassVar[str] = "logistic"
    declared: ClassVar[Capabilities] = Capabilities(
        full_curvature=True, absolute=True, uses_propensity=True
    )
    threshold: float = 1

    def __post_init__(self) -> None:
        check_positive(self, "threshold")

    def prepare(self, problem: Problem) -> Gradient:
        """Use targets of 1 for relevant documents, times the inverse propensity if it is known, and 0 for others."""
        relevant = (problem.labels >= self.threshold).astype(np.float64)
        return _Documents(problem, relevant, binary_cross_entropy)


class _Documents(Gradient):
    def __init__(self, problem: Problem, targets: Floats, kernel: Callable[..., None]) -> None:
        super().__init__(problem)
        self.targets = targets if problem.inverse is None else targets * problem.inverse
        self.kernel = kernel

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        self.kernel(int(self.bounds[q0]), int(self.bounds[q1]), scores, self.targets, grad, hess)

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        self.add(q0, q1, scores, stream, into.grad, into.hess)
        diagonal_between_leaves(
            q0, q1, self.bounds, into.query_weight, into.hess, into.leaf, into.between
        )
