"""XE-NDCG and ListNet: cross entropy between a distribution of the labels and the softmax of the scores.

    loss = - sum_i phi_i z_i + log(sum_j exp(z_j) + epsilon)        grad = rho - phi

Reference: "XE-NDCG" paper, definition 1 and section 4.4, and its eq. (2) and (3) for ListNet (Cao et al., ICML 2007).
Departs from it: queries of equal labels give zeros, for both losses; epsilon is relative to the largest exp(z), so that
a shift of the scores changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rankwright.kernels.listwise import (
    SoftmaxOptions,
    SoftmaxParts,
    SoftmaxScratch,
    SoftmaxTarget,
    mass_between_leaves,
    softmax_cross_entropy,
)
from rankwright.kernels.random import KeyedQueries
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, LeafSums, Problem
from rankwright.objectives.options import check_positive
from rankwright.support.checks import is_number
from rankwright.support.ranges import Choice, Range

_FRESH = -1.0  # makes the kernel draw gamma for each document


@dataclass(frozen=True)
class XENDCG(Objective):
    """XE-NDCG: phi_i proportional to 2^r_i - gamma_i. Does not look at the metric.

    The mean loss is at least -log(mean NDCG + mean 1 / ideal DCG), for gains 2^r - 1 and NDCG without a cutoff
    (theorem 1). This does not hold for NDCG@k. Queries of equal labels give zeros.

    Parameters
    ----------
    gamma
        γ: ``"uniform"`` draws a number in (0, 1) for each document and iteration, as the paper does; a number
        from 0 to 1 fixes it.
    newton
        Multiply the gradient by the paper's approximation of D H^-1, so that an engine that divides by the
        diagonal takes a step of Newton's method.
    epsilon
        ε of eq. (14), the mass taken from the score distribution: keeps 1 - rho above 0 when one score is far
        above the rest.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("xendcg", [0, 0], [1, 0], group=[2], gamma=0, newton=False)
    >>> grad.round(3).tolist()       # 1/2 - 2/3 and 1/2 - 1/3
    [-0.167, 0.167]
    """

    name: ClassVar[str] = "xendcg"
    declared: ClassVar[Capabilities] = Capabilities(full_curvature=True, uses_propensity=True)
    search: ClassVar[Mapping[str, Range | Choice]] = {
        "gamma": Choice(("uniform", 0.0, 0.5, 1.0)),
        "newton": Choice((True, False)),
    }
    gamma: float | str = "uniform"
    newton: bool = True
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        check_positive(self, "epsilon")
        if not 1e-15 <= self.epsilon <= 1:
            raise ValueError(
                f"xendcg: epsilon must be from 1e-15, the least that shows, to 1; got {self.epsilon!r}."
            )
        if self.newton not in (True, False):
            raise ValueError(f"xendcg: newton must be True or False; got {self.newton!r}.")
        is_share = is_number(self.gamma) and 0 <= float(self.gamma) <= 1
        if self.gamma != "uniform" and not is_share:
            raise ValueError(
                f"xendcg: gamma must be 'uniform' or a number from 0 to 1; got {self.gamma!r}."
            )

    @property
    def capabilities(self) -> Capabilities:
        """A uniform gamma is drawn anew each time; ``newton`` multiplies the gradient by D H^-1."""
        return replace(
            self.declared, stochastic=self.gamma == "uniform", preconditioned=bool(self.newton)
        )

    def prepare(self, problem: Problem) -> Gradient:
        """Compute 2^r once."""
        if problem.labels.max() > 1000:
            raise ValueError(
                f"xendcg takes 2^label, and {problem.labels.max():g} is too large a label for it."
            )
        gamma = _FRESH if self.gamma == "uniform" else float(self.gamma)
        return _CrossEntropy(
            problem, np.exp2(problem.labels), gamma, self.epsilon, bool(self.newton)
        )


@dataclass(frozen=True)
class ListNet(Objective):
    """ListNet (top one): phi is the softmax of the labels. Does not look at the metric.

    Queries of equal labels give zeros.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("listnet", [0, 0], [1, 0], group=[2])
    >>> grad.round(3).tolist(), round(float(0.5 - 1 / (1 + np.exp(-1))), 3)
    ([-0.231, 0.231], -0.231)
    """

    name: ClassVar[str] = "listnet"
    declared: ClassVar[Capabilities] = Capabilities(full_curvature=True, uses_propensity=True)

    def prepare(self, problem: Problem) -> Gradient:
        """Compute the numerators of the softmax, relative to the largest label of each query."""
        queries = problem.queries
        highest = np.maximum.reduceat(problem.labels, queries.boundaries[:-1])
        target = np.exp(problem.labels - np.repeat(highest, queries.sizes))
        return _CrossEntropy(problem, target, gamma=0.0, epsilon=0.0, newton=False)


class _CrossEntropy(Gradient):
    def __init__(
        self, problem: Problem, target: Floats, gamma: float, epsilon: float, newton: bool
    ) -> None:
        super().__init__(problem)
        mass = np.ones(0 if problem.inverse is None else problem.queries.n_queries)
        self.target = SoftmaxTarget(target, problem.weights, mass)
        self.gamma = gamma
        self.epsilon = epsilon
        self.newton = newton
        self.scratch = problem.scratch(SoftmaxScratch.create)

    def cached_for_step(self, q0: int, q1: int) -> Gradient:
        return _KeptSoftmax(self)

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        self.run(q0, q1, scores, stream, grad, hess, _NO_PARTS)

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        kept = _KeptSoftmax(self)
        kept.add(q0, q1, scores, stream, np.zeros(len(scores)), into.hess)
        kept.add_between_leaves(q0, q1, scores, stream, into)

    def run(
        self,
        q0: int,
        q1: int,
        scores: Floats,
        stream: np.uint64,
        grad: Floats,
        hess: Floats,
        parts: SoftmaxParts,
    ) -> None:
        queries = KeyedQueries(self.bounds, self.keys)
        options = SoftmaxOptions(self.gamma, self.epsilon, self.newton)
        given = (queries, scores, self.target, self.problem.mixed, options, stream)
        with self.scratch.borrow() as scratch:
            softmax_cross_entropy(q0, q1, *given, grad, hess, parts, scratch)


_NO_PARTS = SoftmaxParts(*np.empty((2, 0)))


class _KeptSoftmax(Gradient):
    """Computes the softmax once for the gradient and the leaves."""

    def __init__(self, parent: _CrossEntropy) -> None:
        super().__init__(parent.problem)
        self.parent = parent
        self.parts = SoftmaxParts(*np.zeros((2, parent.problem.queries.n_rows)))

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        self.parent.run(q0, q1, scores, stream, grad, hess, self.parts)

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        rows = slice(self.bounds[q0], self.bounds[q1])
        # The plain gradient belongs here, because solving with the full curvature is Newton's method already.
        into.grad[rows] += self.parts.grad[rows]
        mass = self.parent.target.mass
        weight = into.query_weight * mass if mass.size else into.query_weight
        mixed, leaf, rounding = self.problem.mixed, into.leaf, into.rounding
        mass_between_leaves(
            q0, q1, self.bounds, self.parts.rho, mixed, weight, leaf, rounding, into.between
        )
