"""Pairwise logistic losses, plain and weighted by what an exchange of the two documents is worth.

    grad_i = - sum_j sigma W_ij / (1 + exp(sigma (z_i - z_j)))      over pairs with r_i > r_j; + for r_i < r_j

W = 1 is RankNet, W = |change of the metric when i and j trade places| LambdaMART, and LambdaLoss has
its own weights. Truncation limits the pairs to pairs with a document in the top; Lambda-eX adds documents that belong
in the top and are not there.

References: Burges, MSR-TR-2010-82 (RankNet, LambdaMART); Wang et al., CIKM 2018 (LambdaLoss); "Lambda-eX" paper,
eq. (1) to (5) and section 4.2; Bruch et al., WSDM 2020 (noisy lambdas).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rankwright.kernels.evaluate import INPUT, order_queries
from rankwright.kernels.exchange import Chain
from rankwright.kernels.given_pairs import GivenPairs, given_pairs
from rankwright.kernels.pairs import NO_NOISE, Labelled, Noise, PairSums
from rankwright.kernels.random import UNIFORM, noise_by_query
from rankwright.kernels.ranked_pairs import (
    ALL,
    ALL_RANDOM,
    ALL_STATIC,
    RANDOM,
    STATIC,
    PairChoice,
    PairWeights,
    RankedScratch,
    Sample,
    ranked_pairs,
)
from rankwright.metrics import Metric
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, PairGradient, Problem
from rankwright.objectives.options import (
    NOISELESS,
    check_choice,
    check_noise,
    check_positive,
    noise_of,
)
from rankwright.support.checks import is_number
from rankwright.support.ranges import Choice, Range

SELECTIONS = ("paper", "literal", "quota")
EXTENSIONS = {
    "static": STATIC,
    "random": RANDOM,
    "all": ALL,
    "all-static": ALL_STATIC,
    "all-random": ALL_RANDOM,
}
# Draws that select documents are numbered from here, because draws of noise are numbered from 0.
_FIRST_SELECTION_DRAW = 1 << 24
_UNTRUNCATED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RankNet(Objective):
    """Logistic loss of every pair of different labels, all of weight 1. Does not look at the metric.

    Parameters
    ----------
    sigma
        Steepness σ of the logistic loss.
    pairs
        Learn from given pairs, each with its weight, instead of labels: ``"ranknet(pairs)"``.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("ranknet", scores=[0, 0], labels=[1, 0], group=[2])
    >>> grad.tolist(), hess.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    >>> gradients("ranknet(pairs)", [0, 0], [0, 0], group=[2], pairs=[(1, 0, 3.0)])[0].tolist()
    [1.5, -1.5]
    """

    name: ClassVar[str] = "ranknet"
    declared: ClassVar[Capabilities] = Capabilities(full_curvature=True, uses_propensity=True)
    search: ClassVar[Mapping[str, Range | Choice]] = {"sigma": Range(0.3, 3.0, log=True)}
    sigma: float = 1.0
    pairs: bool = False

    def __post_init__(self) -> None:
        check_positive(self, "sigma")
        check_choice(self, "pairs", (True, False))

    def prepare(self, problem: Problem) -> Gradient:
        """Give every pair the weight 1, or the weight that came with it."""
        if problem.pairs is not None:
            return _GivenPairs(problem, problem.pairs.arrays, self.sigma)
        n = len(problem.labels)
        chain = Chain(
            weight=np.zeros(2),
            gain=np.zeros(n),
            cont=np.empty(0),
            carry=np.empty(0),
            scale=problem.mixed.astype(np.float64),
            start=1.0,
            additive=True,
            depth=0,
        )
        weights = PairWeights(unit=1.0, sigma=float(self.sigma))
        return _RankedPairs(problem, chain, weights, PairChoice(_UNTRUNCATED), NOISELESS)

    def work(self, sizes: Floats) -> Floats:
        """All pairs."""
        return sizes * sizes


@dataclass(frozen=True)
class Lambdas(Objective):
    """Base class of `LambdaMART` and `LambdaLoss`: which pairs count, and at which scores.

    Parameters
    ----------
    sigma
        Steepness σ of the logistic loss.
    truncation
        Truncation level τ: pairs count if one of the two is currently among the top τ documents. A
        number, ``"k"`` (the metric's cutoff), ``"k+3"`` and the like, or None for all pairs.
    extend
        Lambda-eX: add to the top the documents that are missing from it although their label occurs in the ideal top.
        ``"static"`` takes the missing documents with the best scores and ``"random"`` any of them, as many as the top
        holds documents that do not belong there. ``"all"`` takes all of them. ``"all-static"`` and ``"all-random"``
        take all too, but do as ``"static"`` and ``"random"`` in queries with every relevant label in the ideal top.
        The top has as many documents as the truncation level, or else the metric's cutoff.
    selection
        Which documents of the top Lambda-eX counts as false. With ``"paper"``, documents that are not relevant or have
        a label that is not in the ideal top; with ``"literal"``, the second kind only, so that no document is false if
        the ideal top holds a label 0. ``"quota"`` counts for each label how many documents the ideal top holds and the
        current top lacks, as the authors' code does.
    normalize
        LightGBM's two normalisations: W / (0.01 + |z_i - z_j|), and log2(1 + S) / S per query with S the sum of
        all pushes. The papers do not have them.
    truncate_delta
        Weigh with the metric cut off at its cutoff. The default, as usual, weighs with the whole metric and takes only
        the normaliser from the cutoff. Metrics that weigh all positions alike, for example precision, are always cut
        off, because the order matters by the cutoff alone (except in NDCG-Loss1, which has no change of the metric).
    noise, strength, samples
        Noisy lambdas (E-lambda): ``"gumbel"``, ``"logistic"`` or ``"gaussian"`` noise times ``strength`` is
        added to the scores, in the ranking and in the loss; the mean over ``samples``. ``"none"`` by default.
    """

    declared: ClassVar[Capabilities] = Capabilities(
        full_curvature=True, uses_metric=True, uses_propensity=True
    )
    search: ClassVar[Mapping[str, Range | Choice]] = {
        "sigma": Range(0.3, 3.0, log=True),
        "truncation": Choice((None, "k", "k+3", 10, 30)),
        "extend": Choice((None, "static", "random", "all"), unless=("truncation", None)),
        "normalize": Choice((False, True)),
        "noise": Choice(("none", "gumbel")),
        "strength": Range(0.1, 2.0, log=True, unless=("noise", "none")),
    }

    sigma: float = 1.0
    truncation: int | str | None = None
    extend: str | None = None
    selection: str = "paper"
    normalize: bool = False
    truncate_delta: bool = False
    noise: str = "none"
    strength: float = 1.0
    samples: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "sigma")
        if self.extend is not None:
            check_choice(self, "extend", EXTENSIONS)
        check_choice(self, "selection", SELECTIONS)
        if self.selection != "paper" and self.extend is None:
            raise ValueError(
                f"{self.name}: selection={self.selection!r} needs extend=, which it belongs to."
            )
        check_choice(self, "normalize", (True, False))
        check_choice(self, "truncate_delta", (True, False))
        check_noise(self, "samples")
        if self.noise == "none" and (self.strength, self.samples) != (1.0, 1):
            raise ValueError(
                f"{self.name}: strength and samples belong to noise, which is 'none'; choose a noise."
            )
        self.top(None, check_only=True)

    @property
    def capabilities(self) -> Capabilities:
        """Noise, or an extension by random documents, changes from iteration to iteration."""
        random = self.noise != "none" or (self.extend or "").endswith("random")
        return replace(self.declared, stochastic=random)

    def searched_options(self, metric: Metric) -> dict[str, Range | Choice]:
        """Leave out truncations by the cutoff if the metric has none, and extensions that would change nothing."""
        options = super().searched_options(metric)
        levels = options.get("truncation")
        if metric.first.weighs_alike:
            options.pop("extend", None)
        if metric.at is None and isinstance(levels, Choice):
            options["truncation"] = Choice(
                tuple(level for level in levels.values if not isinstance(level, str))
            )
        return options

    @property
    def by_change(self) -> bool:
        """Return True if W has the change of the metric."""
        return True

    def top(self, at: int | None, *, check_only: bool = False) -> int:
        """Resolve the truncation level for a metric with cutoff ``at``."""
        if self.truncation is None:
            if self.extend is not None and at is None and not check_only:
                raise ValueError(
                    f"{self.name}: extend={self.extend!r} needs to know the top it extends; use a metric "
                    "with a cutoff, such as ndcg@10, or give truncation="
                )
            return _UNTRUNCATED if self.extend is None or at is None else at
        if isinstance(self.truncation, str):
            match = re.fullmatch(r"k(?:\+(\d{1,9}))?", self.truncation.replace(" ", ""))
            if match is not None:
                if at is None and not check_only:
                    raise ValueError(
                        f"{self.name}: truncation={self.truncation!r} needs a metric with a cutoff k, such as "
                        "ndcg@10; or give a number."
                    )
                return (at or 1) + int(match.group(1) or 0)
        elif (
            is_number(self.truncation)
            and 1 <= self.truncation < math.inf
            and self.truncation % 1 == 0
        ):
            return min(int(self.truncation), _UNTRUNCATED)
        raise ValueError(
            f"{self.name}: truncation must be a whole number from 1, 'k', 'k+3' or None; got {self.truncation!r}."
        )

    def pair_weights(self, problem: Problem, chain: Chain) -> PairWeights:
        """W of a pair."""
        raise TypeError(f"{type(self).__name__} must define pair_weights().")

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the metric, and prepare the part of Lambda-eX that depends on the labels only."""
        metric = problem.metric
        truncate = self.truncate_delta or (metric.weighs_alike and self.by_change)
        chain = problem.ranking_chain(self.name, truncate=truncate)
        top = self.top(metric.at)
        choice = PairChoice(top)
        if self.extend is not None:
            choice = self._extended(problem, chain, top)
        weights = self.pair_weights(problem, chain)
        return _RankedPairs(problem, chain, weights, choice, noise_of(self, self.samples))

    def work(self, sizes: Floats) -> Floats:
        """Pairs with the top, and a sort."""
        rows = sizes
        if self.truncation is not None and not isinstance(self.truncation, str):
            rows = np.minimum(sizes, float(self.truncation))
        return sizes * (rows + 20.0)

    def _extended(self, problem: Problem, chain: Chain, top: int) -> PairChoice:
        bounds = problem.queries.boundaries
        sizes = problem.queries.sizes
        order = np.empty(len(problem.labels), dtype=np.int64)
        order_queries(
            0, len(sizes), bounds, problem.labels, problem.labels, INPUT, len(order), order
        )
        last = np.minimum(top, sizes) - 1
        least = problem.labels[bounds[:-1] + order[bounds[:-1] + last]]
        above = np.add.reduceat(
            (problem.labels > np.repeat(least, sizes)).astype(np.int64), bounds[:-1]
        )
        # A metric with a threshold has no gain for some positive labels.
        relevant = (problem.labels > 0) & (chain.gain > 0)
        lowest_relevant = np.minimum.reduceat(
            np.where(relevant, problem.labels, np.inf), bounds[:-1]
        )
        return PairChoice(
            top=top,
            extend=EXTENSIONS[str(self.extend)],
            by_quota=self.selection == "quota",
            true_label=np.maximum(least, lowest_relevant) if self.selection == "paper" else least,
            relevant_label=lowest_relevant,
            quota=last + 1 - above,
            crowded=least <= lowest_relevant,
        )


@dataclass(frozen=True)
class LambdaMART(Lambdas):
    """LambdaRank's gradients for boosted trees: W = |change of the metric when i and j trade places|.

    The change is exact for every metric. `Lambdas` describes the parameters.

    Examples
    --------
    Table 1 of the "Lambda-eX" paper: the less relevant document on top is pushed up more than the best one.

    >>> from rankwright import gradients
    >>> scores, labels = [0.04, 0.03, 0.02, 0.01, 0], [1, 2, 0, 0, 0]
    >>> grad, hess = gradients("lambdamart", scores, labels, group=[5], metric="ndcg@1", truncation=1)
    >>> (-grad).round(3).tolist()
    [0.152, 0.124, -0.083, -0.093, -0.1]
    """

    name: ClassVar[str] = "lambdamart"

    def pair_weights(self, problem: Problem, chain: Chain) -> PairWeights:
        """|dM|."""
        return PairWeights(by_swap=True, sigma=float(self.sigma), normalize=bool(self.normalize))


@dataclass(frozen=True)
class LambdaLoss(Lambdas):
    """LambdaLoss, for metrics that add up over positions (DCG and NDCG, RBP, ...).

    With w the position weights, g the gains and m = |i - j|:
    ``"ndcg-loss1"`` W = g_i w_i of the better document; ``"ndcg-loss2"`` W = |g_i - g_j| (w_m - w_(m+1));
    ``"ndcg-loss2++"`` W = |g_i - g_j| (|w_i - w_j| + mu (w_m - w_(m+1))).

    Parameters
    ----------
    variant
        One of the three above.
    mu
        μ of ``"ndcg-loss2++"``.
    loss2_offset
        ``"paper"`` has w_m - w_(m+1) as above; ``"lambda-ex"`` w_(m+1) - w_(m+2), as in the code of the Lambda-eX
        authors, to which their values of mu belong.
    sigma, truncation, extend, ...
        As in `Lambdas`.

    Examples
    --------
    >>> from rankwright import gradients
    >>> grad, hess = gradients("lambdaloss", [0, 0], [1, 0], group=[2], variant="ndcg-loss1")
    >>> grad.tolist()        # W = 1 / log2(2) / IDCG = 1
    [-0.5, 0.5]
    """

    name: ClassVar[str] = "lambdaloss"
    declared: ClassVar[Capabilities] = replace(Lambdas.declared, additive_only=True)
    search: ClassVar[Mapping[str, Range | Choice]] = {
        **Lambdas.search,
        "variant": Choice(("ndcg-loss2", "ndcg-loss2++")),
        "mu": Range(0.5, 20.0, log=True, unless=("variant", "ndcg-loss2")),
    }
    variant: str = "ndcg-loss2++"
    mu: float = 5.0
    loss2_offset: str = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "variant", ("ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"))
        check_choice(self, "loss2_offset", ("paper", "lambda-ex"))
        check_positive(self, "mu")
        if self.variant != "ndcg-loss2++" and self.mu != 5.0:
            raise ValueError(
                f"lambdaloss: mu belongs to variant='ndcg-loss2++', not to {self.variant!r}."
            )
        if self.variant == "ndcg-loss1" and self.loss2_offset != "paper":
            raise ValueError("lambdaloss: loss2_offset has no meaning for variant='ndcg-loss1'.")
        if self.variant == "ndcg-loss2" and self.truncate_delta:
            raise ValueError(
                "lambdaloss: truncate_delta has no meaning for variant='ndcg-loss2', whose weights go by distance; "
                "use truncation=."
            )

    @property
    def by_change(self) -> bool:
        """Return True for NDCG-Loss2++, which has it in its first term."""
        return self.variant == "ndcg-loss2++"

    def pair_weights(self, problem: Problem, chain: Chain) -> PairWeights:
        """W as in the class's docstring."""
        if not chain.additive:
            raise ValueError(
                f"lambdaloss is defined for metrics that add up over positions, such as ndcg, dcg or rbp; "
                f"{problem.metric} does not. Use lambdamart for it."
            )
        if self.variant == "ndcg-loss1":
            return PairWeights(by_own=True, sigma=float(self.sigma), normalize=bool(self.normalize))
        longest = len(chain.weight) - 2
        if self.variant == "ndcg-loss2" and problem.metric.weighs_alike:
            raise ValueError(
                f"lambdaloss: variant='ndcg-loss2' has no weight for {problem.metric}, which weighs all positions "
                "alike; use another variant, or lambdamart."
            )
        offset = 0 if self.loss2_offset == "paper" else 1
        w = problem.metric.weights(longest + 2)
        distance = np.zeros(longest + 1)
        apart = np.arange(1, longest)
        distance[apart] = np.abs(w[apart - 1 + offset] - w[apart + offset])
        if self.by_change:  # NDCG-Loss2++ has both terms
            distance *= self.mu
        return PairWeights(
            by_swap=self.by_change,
            by_distance=True,
            distance=distance,
            sigma=float(self.sigma),
            normalize=bool(self.normalize),
        )


class _GivenPairs(PairGradient):
    def __init__(self, problem: Problem, pairs: GivenPairs, sigma: float) -> None:
        super().__init__(problem)
        self.pairs = pairs
        self.sigma = float(sigma)

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, sums: PairSums) -> None:
        """Call the kernel."""
        given_pairs(q0, q1, self.pairs, self.sigma, scores, sums)


class _RankedPairs(PairGradient):
    def __init__(
        self, problem: Problem, chain: Chain, weights: PairWeights, choice: PairChoice, noise: Noise
    ) -> None:
        super().__init__(problem)
        self.chain = chain
        self.options = (weights._replace(by_document=problem.inverse is not None), choice, noise)
        self.scratch = problem.scratch(RankedScratch.create)

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, sums: PairSums) -> None:
        """Call the kernel, once per sample of noise."""
        weights, choice, noise = self.options
        bounds, chain = self.bounds, self.chain
        labelled = Labelled(self.problem.labels, self.problem.weights)
        with self.scratch.borrow() as scratch:
            for number in range(noise.samples):
                sample = Sample(np.empty(0), np.empty(0), 1.0 / noise.samples)
                if noise.kind != NO_NOISE:
                    drawn = self._draw(q0, q1, noise.kind, stream, number)
                    drawn[self.bounds[q0] : self.bounds[q1]] *= noise.strength
                    sample = sample._replace(noise=drawn)
                if choice.extend in (RANDOM, ALL_RANDOM):
                    draws = self._draw(q0, q1, UNIFORM, stream, _FIRST_SELECTION_DRAW + number)
                    sample = sample._replace(selection_draws=draws)
                ranked_pairs(
                    q0, q1, bounds, scores, labelled, chain, weights, choice, sample, sums, scratch
                )

    def _draw(self, q0: int, q1: int, kind: int, stream: np.uint64, draw: int) -> Floats:
        """Draw for the documents of queries [q0, q1). Other places are not touched, so they cost no time."""
        values = np.empty(len(self.problem.labels))
        noise_by_query(q0, q1, self.bounds, self.keys, kind, stream, draw, values)
        return values
