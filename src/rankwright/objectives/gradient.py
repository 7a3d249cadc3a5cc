"""What an objective is prepared for, and the gradient that it then gives to the kernels' sums."""

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
        What the objective optimises, if it optimises a metric.
    pairs
        Given preferences, for an objective that learns from them instead of labels.
    inverse
        Inverse propensity of each document with a positive label, 1 for the others [documents]; None where propensities
        are not known.
    mixed
        True for queries with at least two different labels: the others have no order to learn [queries].
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
        """Inverse propensities; empty where they are not known."""
        return np.empty(0) if self.inverse is None else self.inverse

    def weighted_gains(self, chain: Chain) -> Chain:
        """Multiply the gain of each document by its inverse propensity, where it is known."""
        return chain if self.inverse is None else chain._replace(gain=chain.gain * self.inverse)

    def scratch(self, create: Callable[[int], Arrays]) -> Scratch[Arrays]:
        """Memory for a kernel, large enough for any of the queries."""
        return Scratch(create, int(self.queries.sizes.max()))

    def ranking_chain(self, objective: str, *, truncate: bool, signed: bool = False) -> Chain:
        """Bind the metric; queries with no order to learn get scale 0.

        Pair weights use the size of a change only. With ``signed`` a metric of which less is better gets a negative
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
    """Where the leaves of a tree are summed: the gradient by document, and the curvature between leaves."""

    query_weight: Floats  # factor of each query's curvature [queries]
    leaf: NDArray[np.int64]  # of each document
    grad: Floats  # [documents]
    hess: Floats  # [documents], for kernels that write a curvature by document too
    between: Floats  # [leaves, leaves]
    rounding: float = (
        0.0  # (x + rounding) - rounding is added in place of x, so that sums in any order are exact
    )


class Gradient:
    """An objective that knows its labels: what the kernels need, prepared once.

    Subclasses add the sums of their queries [q0, q1) to the arrays they are given.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.bounds = problem.queries.boundaries
        self.keys = problem.queries.keys

    def cached_for_step(self, q0: int, q1: int) -> Gradient:
        """Return a gradient for one step, whose `add_between_leaves` may reuse what its `add` computed.

        It is cheaper for the queries [q0, q1), and may be for these alone.
        """
        return self

    def set_unit_curvature(self, q0: int, q1: int, chain: Chain, hess: Floats) -> None:
        """Set the curvature of a first-order method: 1 in queries with something to learn."""
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
    """A gradient whose kernel sums over pairs of documents, and between leaves where it is given any."""

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
    """Sums over pairs that are not wanted between leaves."""
    return PairSums(
        grad, hess, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0)), stop_flag()
    )
