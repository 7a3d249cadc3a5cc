"""YetiRank and YetiLoss: pairs of neighbours in noisy rankings, weighted by what their exchange is worth.

    W_ij = mean over permutations of |change of the metric when i and j trade places|, if |p_i - p_j| <= neighbours
    loss = sum over r_i > r_j of W_ij log(1 + exp(-(z_i - z_j)))

The permutations sort the scores plus noise; the loss takes the clean scores.

Reference: "Which Tricks" paper, sections 3 and 4. Departs from it: nothing for NDCG and MRR; the changes
of MAP and ERR, which the paper leaves open, are the exact ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.exchange import Chain
from rankwright.kernels.pairs import NEIGHBOUR_SCRATCH, Noise, neighbour_pairs
from rankwright.metrics import ExpDCG
from rankwright.objectives.base import Floats, Gradient, Objective, PairGradient, Problem
from rankwright.objectives.options import check_count, check_noise, noise_of


@dataclass(frozen=True)
class YetiLoss(Objective):
    """YetiLoss for the metric at hand.

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
        Documents up to so many places apart make a pair; ``"all"`` for all of them.

    Examples
    --------
    Without noise, two documents, NDCG: the exchange is worth 1 - 1 / log2(3).

    >>> from rankwright import gradients
    >>> grad, hess = gradients("yetiloss", [0, 0], [1, 0], group=[2], noise="none")
    >>> grad.round(4).tolist()
    [-0.1845, 0.1845]
    """

    name: ClassVar[str] = "yetiloss"
    noise: str = "logistic"
    strength: float = 1.0
    permutations: int = 10
    neighbours: int | str = 1

    def __post_init__(self) -> None:
        check_noise(self, "permutations")
        if self.noise == "none" and (self.strength, self.permutations) != (1.0, 10):
            raise ValueError(
                f"{self.name}: strength and permutations belong to noise, which is 'none'; choose a noise."
            )
        if self.neighbours != "all":
            check_count(self, "neighbours")

    @property
    def stochastic(self) -> bool:
        """Noise."""
        return self.noise != "none"

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the metric."""
        chain = problem.ranking_chain(self.name, truncate=True)
        reach = np.iinfo(np.int64).max // 2 if self.neighbours == "all" else int(self.neighbours)
        return _NeighbourPairs(problem, chain, reach, noise_of(self, self.permutations))

    def work(self, sizes: Floats) -> Floats:
        """Sorts and pairs of each permutation."""
        return sizes * sizes if self.neighbours == "all" else sizes


@dataclass(frozen=True)
class YetiRank(YetiLoss):
    """YetiRank: YetiLoss for ExpDCG, whatever metric is asked for.

    An exchange at positions i, i+1 is worth (1 - decay) decay^(i-1) |r_i - r_j|.

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
    decay: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        ExpDCG(decay=self.decay)  # which checks it

    def prepare(self, problem: Problem) -> Gradient:
        """Bind ExpDCG in place of the metric."""
        own = ExpDCG(decay=self.decay)
        return super().prepare(Problem(problem.labels, problem.queries, own))


class _NeighbourPairs(PairGradient):
    def __init__(self, problem: Problem, chain: Chain, reach: int, noise: Noise) -> None:
        super().__init__(problem)
        self.chain = chain
        self.reach = reach
        self.noise = noise
        self.scratch = problem.scratch(*NEIGHBOUR_SCRATCH)

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, *out: NDArray[Any]) -> None:
        """Call the kernel."""
        labels = self.problem.labels
        with self.scratch.borrow() as work:
            arrays: tuple[Any, ...] = (*out, *work)
            neighbour_pairs(
                q0, q1, self.bounds, self.keys, scores, labels, self.chain, self.reach, self.noise, stream, *arrays
            )
