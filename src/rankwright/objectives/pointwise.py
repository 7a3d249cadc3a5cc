"""QueryRMSE: squared error of scores and labels, both relative to the mean of their query.

    loss = 1/2 sum_i (x_i - mean x)^2        x = z - r

Reference: "Which Tricks" paper, section 4.1. Departs from it: a query of equal labels has no order to learn and gives
zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rankwright.kernels.listwise import centred_residuals, mass_between_leaves
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, LeafSums, Problem


@dataclass(frozen=True)
class QueryRMSE(Objective):
    """Regression on labels, unaffected by a shift per query. Curvature 1. The metric does not matter.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("queryrmse", scores=[0, 0, 0], labels=[3, 0, 0], group=[3])
    >>> grad.tolist()
    [-2.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "queryrmse"
    declared: ClassVar[Capabilities] = Capabilities(full_curvature=True, uses_propensity=True)

    def prepare(self, problem: Problem) -> Gradient:
        """Estimate the labels by inverse propensities, if they are known."""
        if problem.inverse is not None:
            problem = replace(problem, labels=problem.labels * problem.inverse, inverse=None)
        return _Residuals(problem)


class _Residuals(Gradient):
    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        centred_residuals(
            q0, q1, self.bounds, scores, self.problem.labels, self.problem.mixed, grad, hess
        )

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        mixed, weight, leaf = self.problem.mixed, into.query_weight, into.leaf
        self.add(q0, q1, scores, stream, into.grad, into.hess)
        mass_between_leaves(
            q0, q1, self.bounds, np.zeros(0), mixed, weight, leaf, into.rounding, into.between
        )
