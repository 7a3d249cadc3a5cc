"""StochasticRank: the metric itself, smoothed by noise, with unbiased estimates of its gradient.

    loss = - E M(z - sigma mu r + sigma eps)        eps standard normal

Reference: "StochasticRank" paper, sections 4 (smoothing) and 5 (CCS, SFA), appendix C.3 (LSO). Departs from it: the
sign printed in theorem 3 is the opposite of the sign of its jumps. The paper leaves average precision open; it follows
from the same theorem. In a query of two documents SFA removes almost the whole gradient, because the centred scores of
two documents have a single direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright.kernels.ccs import (
    Smoothing,
    SmoothingScratch,
    Steps,
    make_scale_free,
    smoothed_ranking,
    smoothed_selection,
)
from rankwright.kernels.random import KeyedQueries
from rankwright.kernels.threads import stop_flag
from rankwright.metrics import Metric
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, Problem
from rankwright.objectives.options import check_choice, check_count, check_positive
from rankwright.support.ranges import Choice, Range


@dataclass(frozen=True)
class StochasticRank(Objective):
    """StochasticRank for the chosen metric. The curvature is 1: a first-order method.

    With ``mu=0`` and ``sfa=False`` this samples the expected metric, which SoftRank approximates. With ``dcg-rr`` it
    learns which documents to select (LSO).

    Parameters
    ----------
    sigma
        Standard deviation σ of the noise.
    mu
        μ of consistent smoothing: scores are lowered by σ μ r, with r the label, divided by ``max_label`` for the
        cascades ERR and PFound, or 1 for relevant documents if the metric is binary.
        The worse of two tied documents is then first with the probability Φ(μ Δr / √2). 0 is the paper's SR-R1soft,
        above 0 SR-R1.
    nu
        ν of SFA: |z| + ν replaces |z|.
    estimations
        Number of noise vectors per iteration.
    sfa
        Scale-free acceleration: remove the component of the gradient along the scores.
    estimator
        ``"ccs"``, conditional coordinate sampling (theorem 3), or ``"reinforce"``, the log-derivative estimate
        (M(z + σε) - M(z)) ε / σ, for comparison.

    Examples
    --------
    Two documents, MRR: E M = (1 + Phi(d / (sqrt(2) σ))) / 2, so at d = 0 the slope is 1 / (4 sqrt(pi)).

    >>> from rankwright import gradients
    >>> grad, hess = gradients(
    ...     "stochasticrank", [0, 0], [1, 0], group=[2], metric="mrr", estimations=10_000
    ... )
    >>> grad.round(2).tolist(), round(float(0.25 / np.sqrt(np.pi)), 2)
    ([-0.14, 0.14], 0.14)
    """

    name: ClassVar[str] = "stochasticrank"
    # It is a first-order method because the smoothed metric is not convex.
    declared: ClassVar[Capabilities] = Capabilities(
        stochastic=True, first_order=True, uses_metric=True, uses_propensity=True
    )
    search: ClassVar[Mapping[str, Range | Choice]] = {
        "sigma": Range(0.1, 3.0, log=True),
        "mu": Range(0.01, 10.0, log=True, or_zero=True),
        "estimations": Range(1, 10, log=True),
        "sfa": Choice((True, False)),
    }
    search_training: ClassVar[Mapping[str, Any]] = {
        "langevin": Choice((False, True)),
        "langevin.temperature": Range(1e6, 1e11, log=True, unless=("langevin", False)),
        "langevin.shrink_rate": Range(1e-5, 1e-2, log=True, unless=("langevin", False)),
    }
    sigma: float = 1.0
    mu: float = 0.0
    nu: float = 0.01
    estimations: int = 1
    sfa: bool = True
    estimator: str = "ccs"

    def __post_init__(self) -> None:
        check_positive(self, "sigma")
        check_positive(self, "mu", or_zero=True)
        check_positive(self, "nu", or_zero=True)
        check_count(self, "estimations")
        check_choice(self, "sfa", (True, False))
        if not self.sfa and self.nu != 0.01:
            raise ValueError(
                "stochasticrank: nu belongs to sfa, which is off; leave nu out or use sfa=True."
            )
        check_choice(self, "estimator", ("ccs", "reinforce"))

    def searched_options(self, metric: Metric) -> dict[str, Range | Choice]:
        """Leave out mu if documents are selected, and SFA if its nu is given."""
        options = super().searched_options(metric)
        if metric.first.selects:
            options.pop("mu", None)
        if self.nu != type(self).nu:
            options.pop("sfa", None)
        return options

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the metric."""
        if problem.metric.selects and self.mu > 0:
            raise ValueError(
                f"stochasticrank: mu is for ties between documents, and {problem.metric} has none; use mu=0."
            )
        return _Smoothed(problem, self)

    def work(self, sizes: Floats) -> Floats:
        """Count at most all pairs for each estimation; in a long list most are out of reach of the noise."""
        return self.estimations * sizes * np.minimum(sizes, 1000.0)


class _Smoothed(Gradient):
    def __init__(self, problem: Problem, options: StochasticRank) -> None:
        super().__init__(problem)
        self.options = options
        self.scratch = problem.scratch(SmoothingScratch.create)
        self.selects = problem.metric.selects
        if self.selects:
            self.chain = problem.metric.bind(problem.labels, self.bounds)
        else:
            self.chain = problem.ranking_chain(options.name, truncate=True, signed=True)
        self.chain = problem.weighted_gains(self.chain)
        self.steps = Steps.of(self.chain.weight)
        # 0 or 1 for MRR (eq. (4) and section 7.2), in [0, 1] for ERR (eq. (3)).
        self.relevance = problem.metric.relevance(problem.labels)

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        options, chain = self.options, self.chain
        smoothing = Smoothing(
            sigma=float(options.sigma),
            mu=float(options.mu),
            samples=options.estimations,
            conditional=options.estimator == "ccs",
        )
        queries = KeyedQueries(self.bounds, self.keys)
        if self.selects:
            smoothed_selection(q0, q1, queries, scores, chain, smoothing, stream, grad)
        else:
            given = (queries, scores, self.relevance, chain, self.steps, smoothing, stream)
            with self.scratch.borrow() as scratch:
                smoothed_ranking(q0, q1, *given, grad, scratch, stop_flag())
        centred = not self.selects
        make_scale_free(q0, q1, self.bounds, scores, centred, options.nu, options.sfa, grad)
        self.set_unit_curvature(q0, q1, self.chain, hess)
