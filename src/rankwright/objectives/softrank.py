"""SoftRank: the metric under Gaussian noise on every score, by rank distributions of independent contests.

    loss = - sum_j sum_r g_j w_r p_j(r) / Z        p_j(r): probability that j ends at rank r

Reference: Taylor et al., WSDM 2008; "Directness" paper, section III (definition) and VI (theorem 2). Ranks as sums of
independent contests are the papers' approximation: for three or more documents the value is not the expected metric.
Departs from the "Directness" paper: gains are the metric's, 2^r - 1 for NDCG, while the paper has 2^r. The difference
of two scores has the variance 2 sigma^2, as in the paper's proof of theorem 2, while its section III prints sigma^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.kernels.exchange import Chain
from rankwright.kernels.rank_distribution import expected_rank_gradient
from rankwright.kernels.threads import stop_flag
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, Problem
from rankwright.objectives.options import check_positive
from rankwright.support.ranges import Choice, Range

_MOST_CELLS = 1 << 28  # chances of ranks that each thread keeps for a query: 2 GB


@dataclass(frozen=True)
class SoftRank(Objective):
    """SoftRank for metrics that add up over positions. The curvature is 1: a first-order method.

    The cost is O(n^2 k) for a query of n documents and a metric with cutoff k. Cascades (ERR, MRR, PFound, Success)
    and MAP do not add up, because a document's worth depends on the documents above it. Use
    ``stochasticrank(mu=0, sfa=False)`` for them: it samples the expected metric.

    Parameters
    ----------
    sigma
        Standard deviation σ of each score; the difference of two scores has the variance 2 σ^2.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("softrank", [0, 0], [1, 0], group=[2], metric="precision@1")
    >>> grad.round(3).tolist(), round(float(0.5 / np.sqrt(np.pi)), 3)
    ([-0.282, 0.282], 0.282)
    """

    name: ClassVar[str] = "softrank"
    # It is a first-order method because the smoothed metric is not convex.
    declared: ClassVar[Capabilities] = Capabilities(
        first_order=True, uses_metric=True, additive_only=True, uses_propensity=True
    )
    search: ClassVar[Mapping[str, Range | Choice]] = {"sigma": Range(0.1, 3.0, log=True)}
    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "sigma")

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the metric, which must be additive."""
        chain = problem.ranking_chain(self.name, truncate=True, signed=True)
        if not chain.additive:
            raise ValueError(
                f"softrank is defined on metrics that add up over positions, and {problem.metric} does not; "
                "use stochasticrank(mu=0, sfa=False), which samples the expected metric."
            )
        longest = int(problem.queries.sizes.max())
        places = min(chain.depth, longest)
        if longest * places > _MOST_CELLS:
            raise ValueError(
                f"softrank for {problem.metric} needs {longest * places * 8 / 2**30:.0f} GB for a query of {longest} "
                "documents; use a metric with a cutoff, such as ndcg@10, or stochasticrank(mu=0, sfa=False)."
            )
        return _Expected(problem, self.sigma, problem.weighted_gains(chain))

    def work(self, sizes: Floats) -> Floats:
        """All pairs."""
        return sizes * sizes


class _Expected(Gradient):
    def __init__(self, problem: Problem, sigma: float, chain: Chain) -> None:
        super().__init__(problem)
        self.sigma = sigma
        self.chain = chain

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        expected_rank_gradient(
            q0, q1, self.bounds, scores, self.chain, self.sigma, grad, stop_flag()
        )
        self.set_unit_curvature(q0, q1, self.chain, hess)
