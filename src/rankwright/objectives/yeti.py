"""YetiRank and YetiLoss: pairs of neighbours in noisy rankings, weighted by the worth of their exchange.

    W_ij = mean over permutations of |change of the metric when i and j trade places|, if |p_i - p_j| <= neighbours
    loss = sum over r_i > r_j of W_ij log(1 + exp(-(z_i - z_j)))

The permutations sort the scores plus noise; the loss takes the clean scores.

Reference: "Which Tricks" paper, section 2.3 (YetiRank) and section 3.1 (YetiLoss). Departs from it: the metric changes
with its cutoff, while eq. (9) takes only the normaliser from the cutoff (``truncate_delta=False``). It leaves open
the changes of MRR for documents that are not adjacent, and of MAP and ERR; here they are exact. The weight of YetiRank
has the upper position of a pair, while eq. (11) has the position of the better document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rankwright.kernels.exchange import Chain
from rankwright.kernels.neighbour_pairs import (
    Neighbours,
    NeighbourScratch,
    StoredPairs,
    neighbour_pairs,
    stored_pairs_between,
)
from rankwright.kernels.pairs import Labelled, Noise, PairSums
from rankwright.kernels.random import KeyedQueries
from rankwright.metrics import ExpDCG, Metric
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import (
    Floats,
    Gradient,
    LeafSums,
    PairGradient,
    Problem,
    without_leaves,
)
from rankwright.objectives.options import check_choice, check_count, check_noise, noise_of
from rankwright.support.ranges import Choice, Range

# More pairs are not stored for the leaves (16 bytes each) but found again.
_MOST_PAIRS = 2**23


@dataclass(frozen=True)
class YetiLoss(Objective):
    """YetiLoss for the chosen metric.

    Parameters
    ----------
    noise
        Noise of the permutations: ``"logistic"`` (CatBoost calls it Gumbel), ``"gaussian"``, ``"gumbel"``
        or ``"none"``.
    strength
        Factor of the noise.
    permutations
        Number of noisy rankings per iteration.
    neighbours
        Documents up to this many positions apart form a pair; with ``"all"``, any two documents do.
    truncate_delta
        Weigh with the metric cut off at its cutoff, the default. False weighs with the whole metric and takes only the
        normaliser from the cutoff, as eq. (9) of the paper.
    map_delta
        For MAP and other metrics that count relevant documents. ``"exact"`` is the change of the metric; ``"catboost"``
        is CatBoost's weight, 1 / i plus 1 / k of each relevant document between positions i and j.

    Examples
    --------
    Without noise, two documents, NDCG: the exchange is worth 1 - 1 / log2(3).

    >>> from rankwright import gradients
    >>> grad, hess = gradients("yetiloss", [0, 0], [1, 0], group=[2], noise="none")
    >>> grad.round(4).tolist()
    [-0.1845, 0.1845]
    """

    name: ClassVar[str] = "yetiloss"
    declared: ClassVar[Capabilities] = Capabilities(
        full_curvature=True, uses_metric=True, uses_propensity=True
    )
    search: ClassVar[Mapping[str, Range | Choice]] = {
        "noise": Choice(("logistic", "gaussian", "gumbel")),
        "strength": Range(0.2, 3.0, log=True, unless=("noise", "none")),
        "permutations": Range(2, 20, log=True, unless=("noise", "none")),
        "neighbours": Range(1, 5),
    }
    noise: str = "logistic"
    strength: float = 1.0
    permutations: int = 10
    neighbours: int | str = 1
    truncate_delta: bool = True
    map_delta: str = "exact"

    def __post_init__(self) -> None:
        check_noise(self, "permutations")
        if self.noise == "none" and (self.strength, self.permutations) != (1.0, 10):
            raise ValueError(
                f"{self.name}: strength and permutations belong to noise, which is 'none'; choose a noise."
            )
        check_count(self, "neighbours", "all")
        check_choice(self, "truncate_delta", (True, False))
        check_choice(self, "map_delta", ("exact", "catboost"))

    @property
    def capabilities(self) -> Capabilities:
        """Noise changes from iteration to iteration."""
        return replace(self.declared, stochastic=self.noise != "none")

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the metric."""
        chain = problem.ranking_chain(self.name, truncate=self.truncate_delta)
        reach = np.iinfo(np.int64).max // 2 if self.neighbours == "all" else int(self.neighbours)
        neighbours = Neighbours(reach, chain.weight, False)
        if self.map_delta == "catboost":
            if type(problem.metric).carries is Metric.carries:
                raise ValueError(
                    f"{self.name}: map_delta='catboost' is for metrics that count relevant documents, such as map, and "
                    f"{problem.metric} does not; leave it out."
                )
            # CatBoost counts the changes above the lower position only, for a user who has not counted any document
            # so far, and does not divide by R. A cutoff bounds the upper position only.
            neighbours = Neighbours(reach, np.zeros_like(chain.weight), True)
            whole = problem.ranking_chain(self.name, truncate=False)
            chain = whole._replace(scale=np.sign(chain.scale), depth=chain.depth)
        return _NeighbourPairs(problem, chain, neighbours, noise_of(self, self.permutations))

    def work(self, sizes: Floats) -> Floats:
        """Sorts and pairs of each permutation."""
        return sizes * sizes if self.neighbours == "all" else sizes


@dataclass(frozen=True)
class YetiRank(YetiLoss):
    """YetiRank: YetiLoss for ExpDCG, whatever the metric.

    An exchange at positions i, i+1 is worth (1 - decay) decay^(i-1) |r_i - r_j|. ExpDCG has no cutoff and counts
    nothing, so ``truncate_delta`` and ``map_delta`` must keep their defaults.

    Parameters
    ----------
    decay
        b of ExpDCG's discount b^(i-1).
    noise, strength, permutations, neighbours
        As in `YetiLoss`.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("yetirank", [0, 0], [2, 0], group=[2], noise="none")
    >>> grad.round(3).tolist()         # 0.15 * 2 / 2
    [-0.15, 0.15]
    """

    name: ClassVar[str] = "yetirank"
    declared: ClassVar[Capabilities] = replace(YetiLoss.declared, uses_metric=False)
    search: ClassVar[Mapping[str, Range | Choice]] = {**YetiLoss.search, "decay": Range(0.5, 0.99)}
    decay: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        ExpDCG(decay=self.decay)  # checks the decay
        if not self.truncate_delta:
            raise ValueError(
                "yetirank: truncate_delta has no meaning for a metric without a cutoff; use yetiloss."
            )
        if self.map_delta != "exact":
            raise ValueError(
                "yetirank: map_delta has no meaning for its metric, which counts nothing; use yetiloss."
            )

    def prepare(self, problem: Problem) -> Gradient:
        """Bind ExpDCG in place of the metric."""
        return super().prepare(replace(problem, metric=ExpDCG(decay=self.decay)))


class _NeighbourPairs(PairGradient):
    def __init__(
        self, problem: Problem, chain: Chain, neighbours: Neighbours, noise: Noise
    ) -> None:
        super().__init__(problem)
        self.chain = chain
        self.neighbours = neighbours
        self.noise = noise
        self.scratch = problem.scratch(NeighbourScratch.create)
        sizes = problem.queries.sizes
        rows = np.where(chain.scale != 0, np.minimum(sizes - 1, chain.depth), 0).astype(np.float64)
        self.room = np.append(
            0.0, np.cumsum(noise.samples * rows * np.minimum(sizes - 1, neighbours.reach))
        )
        none = np.zeros(0, np.int64)
        self.no_pairs = StoredPairs(none, none, np.zeros((0, 2), np.int32), np.zeros(0))

    def cached_for_step(self, q0: int, q1: int) -> Gradient:
        """Keep the pairs, if they are not too many."""
        if 0 < self.room[q1] - self.room[q0] <= _MOST_PAIRS:
            return _KeptPairs(self, q0, q1)
        return self

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, sums: PairSums) -> None:
        """Call the kernel."""
        self.find(self.no_pairs, q0, q1, scores, stream, sums)

    def find(
        self,
        stored: StoredPairs,
        q0: int,
        q1: int,
        scores: Floats,
        stream: np.uint64,
        sums: PairSums,
    ) -> None:
        """Call the kernel, which stores the pairs if there is room for them."""
        queries = KeyedQueries(self.bounds, self.keys)
        labelled = Labelled(self.problem.labels, self.problem.weights)
        given = (queries, scores, labelled, self.chain, self.neighbours, self.noise, stream, stored)
        with self.scratch.borrow() as scratch:
            neighbour_pairs(q0, q1, *given, sums, scratch)


class _KeptPairs(Gradient):
    """Finds the pairs once for the gradient and the leaves, because rankings cost more than sums."""

    def __init__(self, parent: _NeighbourPairs, q0: int, q1: int) -> None:
        super().__init__(parent.problem)
        self.parent = parent
        self.queries = (q0, q1)  # pairs of other queries are not kept
        first, last = parent.room[q0], parent.room[q1]
        start = (np.clip(parent.room, first, last) - first).astype(np.int64)
        used = np.zeros(len(start) - 1, dtype=np.int64)
        self.pairs = StoredPairs(
            start, used, np.empty((start[-1], 2), dtype=np.int32), np.empty(start[-1])
        )
        self.grad = np.zeros(parent.problem.queries.n_rows)

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        """Find the pairs, and store their gradient as well."""
        self.parent.find(self.pairs, q0, q1, scores, stream, without_leaves(self.grad, hess))
        rows = slice(self.bounds[q0], self.bounds[q1])
        grad[rows] += self.grad[rows]

    def add_between_leaves(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums
    ) -> None:
        """Sum the stored pairs."""
        if not (self.queries[0] <= q0 and q1 <= self.queries[1]):
            self.parent.add_between_leaves(q0, q1, scores, stream, into)
            return
        rows = slice(self.bounds[q0], self.bounds[q1])
        into.grad[rows] += self.grad[rows]
        stored_pairs_between(
            q0, q1, self.pairs, into.query_weight, into.leaf, into.rounding, into.between
        )
