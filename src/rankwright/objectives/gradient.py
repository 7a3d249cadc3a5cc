"""The problem that an objective is prepared for, and the gradient that it then gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.pairs import Pairs
from rankwright.data.queries import Queries
from rankwright.kernels.exchange import Chain
from rankwright.kernels.pairs import PairSums
from rankwright.kernels.scratch import Arrays, Scratch
from rankwright.kernels.threads import stop_flag
from rankwright.metrics import Metric

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """Labels to learn from, grouped by query, and the metric to optimise.

    Parameters
    ----------
    labels
        In grouped order [documents].
    queries
        Boundaries and keys.
    metric
        The metric to optimise, if the objective uses one.
    pairs
        Given preferences, for an objective that learns from them instead of labels.
    inverse
        Inverse propensity of each document with a positive label, 1 for other documents [documents]; None if
        propensities are not known.
    mixed
        True for queries with at least two different labels, because others have no order to learn [queries].
    """

    labels: Floats
    queries: Queries
    metric: Metric
    pairs: Pairs | None = None
    inverse: Floats | None = None
    mixed: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        starts = self.queries.boundaries[:-1]
        low = np.minimum.reduceat(self.labels, starts)
        object.__setattr__(self, "mixed", np.maximum.reduceat(self.labels, starts) > low)

    @property
    def weights(self) -> Floats:
        """Inverse propensities; empty if they are not known."""
        return np.empty(0) if self.inverse is None else self.inverse

    def weighted_gains(self, chain: Chain) -> Chain:
        """Multiply the gain of each document by its inverse propensity, if it is known."""
        if self.inverse is None:
            return chain
        return chain._replace(gain=chain.gain * self.inverse)

    def scratch(self, create: Callable[[int], Arrays]) -> Scratch[Arrays]:
        """Return memory for a kernel, large enough for any of the queries."""
        return Scratch(create, int(self.queries.sizes.max()))

    def ranking_chain(self, objective: str, *, truncate: bool, signed: bool = False) -> Chain:
        """Bind the metric; queries with no order to learn get the scale 0.

        Pair weights use the size of a change only. With ``signed`` a metric that is better when lower gets a negative
        scale, so that a higher value of the chain is always better.
        """
        if self.metric.selects:
            raise ValueError(
                f"{self.metric} selects documents instead of ordering them, which {objective} cannot learn; "
                "use stochasticrank."
            )
        chain = self.metric.bind(self.labels, self.queries.boundaries, truncate=truncate)
        sign = -1.0 if signed and not self.metric.higher_is_better else 1.0
        return chain._replace(scale=np.where(self.mixed, sign * chain.scale, 0.0))


class LeafSums(NamedTuple):
    """Arrays for the sums of a tree's leaves: the gradient by document, and the curvature between leaves."""

    query_weight: Floats  # factor of each query's curvature [queries]
    leaf: NDArray[np.int64]  # of each document
    grad: Floats  # [documents]
    hess: Floats  # [documents], because some kernels write a curvature by document too
    between: Floats  # [leaves, leaves]
    # (x + rounding) - rounding is added in place of x, so that sums in any order are exact.
    rounding: float = 0.0


class Gradient:
    """An objective bound to labels, with everything that depends on the labels alone computed once.

    Subclasses add the sums of the queries [q0, q1) to the arrays they are given.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.bounds = problem.queries.boundaries
        self.keys = problem.queries.keys

    def cached_for_step(self, q0: int, q1: int) -> Gradient:
        """Return a gradient for a single step, in which `add_between_leaves` may reuse the work of `add`.

        It is cheaper for the queries [q0, q1), and possibly for them alone.
        """
        return self

    def set_unit_curvature(self, q0: int, q1: int, chain: Chain, hess: Floats) -> None:
        """Set the curvature of a first-order method: 1 in queries with an order to learn."""
        sizes = np.diff(self.bounds[q0 : q1 + 1])
        hess[self.bounds[q0] : self.bounds[q1]] = np.repeat(
            np.sign(np.abs(chain.scale[q0:q1])), sizes
        )

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        """Add gradient and curvature of queries [q0, q1)."""
        raise TypeError(f"{type(self).__name__} must define add().")

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        """Add the gradient by document, and the curvature between leaves, of queries [q0, q1)."""
        raise TypeError(
            f"{type(self).__name__} must define add_between_leaves(): its objective has full_curvature."
        )


class PairGradient(Gradient):
    """A gradient with a kernel that sums over pairs of documents, and between leaves if it is given leaves."""

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        """Sum without leaves."""
        self.run(q0, q1, scores, stream, without_leaves(grad, hess))

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        """Sum with leaves."""
        into_sums = (into.query_weight, into.leaf, into.between, stop_flag(), into.rounding)
        self.run(q0, q1, scores, stream, PairSums(into.grad, into.hess, *into_sums))

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, sums: PairSums) -> None:
        """Call the kernel."""
        raise TypeError(f"{type(self).__name__} must define run().")


def without_leaves(grad: Floats, hess: Floats) -> PairSums:
    """Return arrays for sums over pairs by document only."""
    return PairSums(
        grad, hess, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0)), stop_flag()
    )
