"""Directness: the distance between a metric and the smooth surrogate that an objective optimises.

    gap = |M(z) - M'(z)|        M' = E M(z - σ μ r + σ ε), ε standard normal

For SoftRank M' is exact (the rank distributions of the paper), for StochasticRank it is a mean over draws with
its standard error.

Reference: "Directness" paper (He and Liu), theorem 1 (`directness_pair`) and theorem 2 (`softrank_bound`);
"StochasticRank" paper, section 4, for μ. Theorem 2 as published has errors, which `softrank_bound` lists and corrects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, check_labels
from rankwright.diagnostics.common import Floats, altair, frame, grouped_rows, plain
from rankwright.evaluation.per_query import evaluate
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.exchange import Chain
from rankwright.kernels.random import GAUSSIAN, noise_by_query, stream_of
from rankwright.kernels.rank_distribution import expected_rank_value
from rankwright.kernels.threads import LONG_WORK, available_threads, even_ranges, run_ranges, stop_flag
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective, SoftRank, StochasticRank
from rankwright.objectives import objective as parse_objective

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Directness:
    """The metric and its surrogate for each query, as measured by `directness`.

    Parameters
    ----------
    query_ids
        Ids of the queries in which a document has any gain, ascending [queries]; the others have no gap.
    value, surrogate
        The metric and the surrogate [queries].
    standard_error
        Of the surrogate, where it is sampled [queries]; 0 where it is exact.
    metric, objective
        Text of the metric and of the objective whose surrogate it is.

    Examples
    --------
    >>> result = directness([1.0, 0.0], [0, 1], group=[2], metric="ndcg", objective="softrank(sigma=0.01)")
    >>> result.max_gap < 1e-12
    True
    """

    query_ids: NDArray[Any]
    value: Floats
    surrogate: Floats
    standard_error: Floats
    metric: str
    objective: str

    @property
    def gap(self) -> Floats:
        """|metric - surrogate| [queries]."""
        return np.abs(self.value - self.surrogate)

    @property
    def mean_gap(self) -> float:
        """Mean of the gaps."""
        return float(self.gap.mean())

    @property
    def max_gap(self) -> float:
        """Largest of the gaps: ε of theorem 1."""
        return float(self.gap.max())

    @property
    def bias(self) -> float:
        """Mean of surrogate - metric: what the smoothing adds on average."""
        return float(np.mean(self.surrogate - self.value))

    @property
    def bias_error(self) -> float:
        """Standard error of the bias from sampling the surrogate."""
        return float(np.sqrt(np.sum(self.standard_error**2)) / len(self.value))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per query."""
        columns = zip(self.query_ids, self.value, self.surrogate, self.standard_error, self.gap, strict=True)
        names = ("query", "value", "surrogate", "standard_error", "gap")
        return frame(dict(zip(names, map(plain, row), strict=True)) for row in columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the means and the largest gap."""
        numbers = {name: getattr(self, name) for name in ("mean_gap", "max_gap", "bias", "bias_error")}
        return {"objective": self.objective, "metric": self.metric, "queries": len(self.value), **numbers}


def directness(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    objective: str | Objective = "softrank",
    ties: str = "worst",
    samples: int = 256,
    seed: int = 0,
    threads: int | None = None,
) -> Directness:
    """Measure |metric - surrogate| at given scores, query by query.

    Parameters
    ----------
    scores, labels, qid, group, metric, ties, threads
        As in `rankwright.evaluate`.
    objective
        Objective of the surrogate: ``"softrank(sigma=...)"``, for metrics that add up over positions, or
        ``"stochasticrank(sigma=..., mu=...)"``, for any metric of rankings. Options that do not change the surrogate
        (SFA, the estimator) have no effect.
    samples
        Draws of the noise for ``stochasticrank``.
    seed
        Seed of these draws.

    Examples
    --------
    A tie counts as the worst order. Without μ the surrogate is the mean of both orders, however small σ is.

    >>> for mu in (0, 3):
    ...     result = directness([0, 0], [1, 0], group=[2], metric="mrr",
    ...                         objective=f"stochasticrank(sigma=0.01, mu={mu})", samples=4000)
    ...     print(round(result.max_gap, 2))
    0.25
    0.01
    """
    source = parse_objective(objective)
    target = parse_metric(metric)
    if target.selects:
        raise ValueError(f"{target} selects documents instead of ordering them; directness is defined on rankings.")
    queries = Queries.of(np.size(labels), qid, group)
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    chain = target.bind(y, queries.boundaries)
    has_gain = chain.scale != 0
    if not has_gain.any():
        raise ValueError(f"{target}: no document has any gain; check the labels.")
    exact = evaluate(z, y, group=queries.sizes, metrics=[target], ties=ties, threads=threads).per_query[str(target)]
    if isinstance(source, SoftRank):
        surrogate, error = _rank_distribution(source, target, z, queries, chain, threads), np.zeros(queries.n_queries)
    elif isinstance(source, StochasticRank):
        if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 2:
            raise ValueError(f"samples must be a whole number of at least 2, for a standard error; got {samples!r}.")
        surrogate, error = _sampled(source, z, y, queries, chain, int(samples), seed, threads)
    else:
        raise ValueError(f"{source} does not smooth a metric; directness is defined on softrank and stochasticrank.")
    return Directness(
        queries.ids[has_gain], exact[has_gain], surrogate[has_gain], error[has_gain], str(target), str(source)
    )


def _rank_distribution(
    source: SoftRank, target: Metric, z: Floats, queries: Queries, chain: Chain, threads: int | None
) -> Floats:
    if not chain.additive:
        raise ValueError(
            f"softrank is exact for metrics that add up over positions, and {target} does not; "
            "use stochasticrank, which samples the same smoothing."
        )
    surrogate = np.empty(queries.n_queries)

    def fill(q0: int, q1: int) -> None:
        expected_rank_value(q0, q1, queries.boundaries, z, chain, float(source.sigma), surrogate, stop_flag())

    work = queries.sizes.astype(np.float64) ** 2
    run_ranges(fill, even_ranges(work, available_threads(threads)), long=bool(work.sum() > LONG_WORK))
    return surrogate


def _sampled(
    source: StochasticRank,
    z: Floats,
    y: Floats,
    queries: Queries,
    chain: Chain,
    samples: int,
    seed: int,
    threads: int | None,
) -> tuple[Floats, Floats]:
    """Return the mean over draws of the noise, and its standard error [queries]."""
    bounds, sizes = queries.boundaries, queries.sizes
    mean, squares = np.zeros(queries.n_queries), np.zeros(queries.n_queries)
    centre = z - source.sigma * source.mu * y
    noise, values = np.empty(len(z)), np.empty(queries.n_queries)
    stream = stream_of(seed, 0)

    def fill(q0: int, q1: int) -> None:
        rows = slice(bounds[q0], bounds[q1])
        order = np.empty(rows.stop - rows.start, dtype=np.int64)
        for draw in range(samples):
            noise_by_query(q0, q1, bounds, queries.keys, GAUSSIAN, stream, draw, noise)
            noise[rows] = centre[rows] + source.sigma * noise[rows]
            kernel.order_queries(q0, q1, bounds, noise, y, kernel.INPUT, chain.depth, order)
            kernel.value_queries(q0, q1, bounds, noise, order, sizes, False, chain, values, stop_flag())
            step = values[q0:q1] - mean[q0:q1]
            mean[q0:q1] += step / (draw + 1)
            squares[q0:q1] += step * (values[q0:q1] - mean[q0:q1])

    run_ranges(fill, even_ranges(sizes.astype(np.float64), available_threads(threads)))
    return mean, np.sqrt(squares / (samples - 1) / samples)


@dataclass(frozen=True)
class SoftRankBound:
    """Theorem 2 for one query length, as computed by `softrank_bound`.

    Parameters
    ----------
    bound
        Bound of |NDCG - SoftNDCG|; infinite where the formula has no value.
    holds
        Whether σ meets the theorem's condition.
    largest_sigma
        σ below which it does.
    eps_1, eps_2, eps_3
        The theorem's ε.

    Examples
    --------
    >>> softrank_bound(sigma=0.1, delta=1.0, n=5, classes=2).holds
    True
    """

    bound: float
    holds: bool
    largest_sigma: float
    eps_1: float
    eps_2: float
    eps_3: float


def softrank_bound(sigma: float, delta: float, n: int, classes: int, *, version: str = "corrected") -> SoftRankBound:
    """Bound the gap between NDCG without a cutoff and its SoftRank surrogate: theorem 2 of the "Directness" paper.

        |NDCG - SoftNDCG| <= 2^(K-1) N (ε1 + ε2)
        ε1 = c (N-1) σ / (2 δ sqrt(π)) exp(-δ^2 / (4 σ^2)),  ε2 = sqrt(ε3 / (1 - 5 ε3)) + 5 ε3

    As published, c = 1 and ε3 = 1 - erf^2(δ / (2 σ)), for σ < δ / (2 erfinv(sqrt((N-2) / (N-1)))). Four errors:

    - ε3 bounds the variance of a rank, which the proof shows to be at most (N-1)/4 (1 - erf^2(δ / (2 σ))): the factor
      is missing, and for N > 5 ε3 is too small.
    - The proof needs this variance to be below 1/5, so 1 - erf^2 < 4 / (5 (N-1)). It continues with the weaker
      1 - erf^2 < 1 / (N-1), which follows from this condition but does not imply it. For N < 6 the published
      condition admits σ at which 1 - 5 ε3 is not positive and ε2 has no value; for N = 2 it admits every σ.
    - The slope of 1 / log2(2 + r) is 1 / (ln 2 (2 + r) log2(2 + r)^2), at most 1 / (2 ln 2). The proof omits the factor
      1 / ln 2, so c should be 1 / ln 2.
    - erf is defined as an integral from minus infinity, and σ is called a variance: erf is the usual one, from 0, and
      σ a standard deviation.

    The corrected version has c = 1 / ln 2, ε3 = (N-1)/4 (1 - erf^2(δ / (2 σ))) and the condition ε3 < 1/5.

    Parameters
    ----------
    sigma
        Standard deviation σ of the scores.
    delta
        Smallest distance δ between two scores of a query.
    n
        Number N of documents, at least 2.
    classes
        Number K of grades, counted from 0: K - 1 is the highest label.
    version
        ``"corrected"`` or ``"published"``; ``"mended"`` and ``"printed"`` are older names of the two.

    Examples
    --------
    >>> published = softrank_bound(0.2, 1.0, 3, 2, version="published")
    >>> corrected = softrank_bound(0.2, 1.0, 3, 2)
    >>> published.bound < 1, corrected.bound < 1
    (True, True)
    >>> softrank_bound(5.0, 1.0, 2, 2, version="published")   # the condition holds, but the formula has no value
    SoftRankBound(bound=inf, holds=True, largest_sigma=inf, ...)
    """
    from scipy.special import erfcinv

    version = {"mended": "corrected", "printed": "published"}.get(version, version)
    if version not in ("corrected", "published"):
        raise ValueError(f"version must be 'corrected' or 'published'; got {version!r}.")
    if not (sigma > 0 and delta >= 0 and n >= 2 and classes >= 1):
        raise ValueError(
            f"softrank_bound needs sigma > 0, delta >= 0, n >= 2 and classes >= 1; got sigma={sigma}, "
            f"delta={delta}, n={n}, classes={classes}."
        )
    corrected = version == "corrected"
    # 1 - erf^2 = (1 - erf) (1 + erf): erfc keeps its digits where erf rounds to 1.
    tail = math.erfc(delta / (2 * sigma)) * (1 + math.erf(delta / (2 * sigma)))
    eps_3 = (n - 1) / 4 * tail if corrected else tail
    # The condition 1 - erf^2 < t, solved for σ; t = 1 admits every σ.
    threshold = min(1.0, 4 / (5 * (n - 1)) if corrected else 1 / (n - 1))
    argument = float(erfcinv(threshold / (1 + math.sqrt(1 - threshold))))
    largest = math.inf if argument == 0 else delta / (2 * argument)
    if delta == 0:
        return SoftRankBound(math.inf, False, 0.0, math.inf, math.inf, eps_3)
    slope = 1 / math.log(2) if corrected else 1.0
    eps_1 = slope * (n - 1) * sigma / (2 * delta * math.sqrt(math.pi)) * math.exp(-((delta / (2 * sigma)) ** 2))
    eps_2 = math.sqrt(eps_3 / (1 - 5 * eps_3)) + 5 * eps_3 if eps_3 < 0.2 else math.inf
    bound = 2.0 ** (classes - 1) * n * (eps_1 + eps_2)
    return SoftRankBound(bound, sigma < largest, largest, eps_1, eps_2, eps_3)


@dataclass(frozen=True)
class DirectnessPoint:
    """Gaps at one σ and μ: a row of a `DirectnessCurve`.

    Attributes
    ----------
    sigma, mu : float
        Smoothing.
    mean_gap, max_gap : float
        Mean and largest gap over the queries.
    bias, bias_error : float
        Mean of surrogate - metric, and its standard error from sampling.
    bounded : int
        Queries that meet the corrected condition of theorem 2.
    max_gap_bounded, max_ratio : float
        Over these queries: the largest gap, and the largest gap / bound; NaN if there are none.
    mean_bound : float
        Over these queries: the mean bound; NaN if there are none.
    """

    sigma: float
    mu: float
    mean_gap: float
    max_gap: float
    bias: float
    bias_error: float
    bounded: int = 0
    max_gap_bounded: float = float("nan")
    mean_bound: float = float("nan")
    max_ratio: float = float("nan")


@dataclass(frozen=True)
class DirectnessCurve:
    """Gaps as a function of σ, as measured by `directness_curve`.

    Parameters
    ----------
    points
        One per μ and σ.
    objective, metric
        Name of the objective and text of the metric.
    queries
        Number of queries.

    Examples
    --------
    >>> curve = directness_curve([2.0, 1.0, 0.0], [1, 2, 0], group=[3], sigmas=[1.0, 0.1])
    >>> [round(point.max_gap, 3) for point in curve.points]
    [0.005, 0.0]
    """

    points: tuple[DirectnessPoint, ...]
    objective: str
    metric: str
    queries: int

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per point."""
        return frame(asdict(point) for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, with each point as a dictionary."""
        return plain(asdict(self))  # type: ignore[no-any-return]

    def plot(self) -> Any:
        """Draw gaps (and the bound of theorem 2, for SoftRank) against σ; an Altair chart."""
        alt = altair()
        rows = [row for point in self.points for row in self._chart_rows(point)]
        chart = (
            alt.Chart(alt.Data(values=rows))
            .mark_line(point=True)
            .encode(
                x=alt.X("sigma:Q", scale=alt.Scale(type="log"), title="σ"),
                y=alt.Y(
                    "value:Q",
                    scale=alt.Scale(type="log", nice=False),
                    axis=alt.Axis(format=".0e", tickCount=8),
                    title="|metric - surrogate|",
                ),
                color=alt.Color("what:N", title=None, legend=alt.Legend(orient="bottom")),
                tooltip=["what:N", "sigma:Q", "mu:N", alt.Tooltip("value:Q", format=".2e")],
            )
        )
        if len({point.mu for point in self.points}) == 1:
            return chart
        return chart.encode(strokeDash=alt.StrokeDash("mu:N", title="μ", legend=alt.Legend(orient="bottom")))

    def _chart_rows(self, point: DirectnessPoint) -> list[dict[str, Any]]:
        values = {"largest gap": point.max_gap, "mean gap": point.mean_gap}
        if point.bounded:
            values |= {"mean bound (theorem 2)": point.mean_bound, "largest gap there": point.max_gap_bounded}
        # A logarithmic axis cannot show 0, and values below rounding mean nothing.
        visible = {what: value for what, value in values.items() if value > _ROUNDING}
        return [{"sigma": point.sigma, "mu": point.mu, "what": what, "value": v} for what, v in visible.items()]


def directness_curve(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    objective: str = "softrank",
    sigmas: Iterable[float] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    mus: Iterable[float] = (0.0,),
    ties: str = "worst",
    samples: int = 256,
    seed: int = 0,
    threads: int | None = None,
) -> DirectnessCurve:
    """Measure the gap for several σ, and for SoftRank of NDCG without a cutoff compare it with theorem 2.

    The theorem is applied to each query with its own number of documents and smallest distance of scores; a query with
    equal scores never meets its condition. For ``stochasticrank`` several μ show the smoothing bias: without μ
    equal scores count as the mean of their orders however small σ is, with a large μ as the worst order.

    Parameters
    ----------
    scores, labels, qid, group, metric, ties, samples, seed, threads
        As in `directness`.
    objective
        ``"softrank"`` or ``"stochasticrank"``.
    sigmas
        Standard deviations of the noise.
    mus
        μ of ``stochasticrank``.

    Examples
    --------
    >>> curve = directness_curve([0, 0], [1, 0], group=[2], metric="mrr", objective="stochasticrank",
    ...                          sigmas=[0.01], mus=[0, 3], samples=4000)
    >>> [round(point.bias, 2) for point in curve.points]
    [0.25, 0.01]
    """
    target = parse_metric(metric)
    if objective not in (SoftRank.name, StochasticRank.name):
        raise ValueError(f"objective must be {SoftRank.name} or {StochasticRank.name}; got {objective!r}.")
    shifts = [float(mu) for mu in mus]
    if objective == SoftRank.name and shifts != [0.0]:
        raise ValueError("mus belongs to stochasticrank; leave it out for softrank.")
    queries = Queries.of(np.size(labels), qid, group)
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    # Theorem 2 assumes log2 discounts, gains up to 2^label and no cutoff.
    bounded = objective == SoftRank.name and target == parse_metric("ndcg")
    points = []
    n_queries = 0
    for mu in shifts:
        for sigma in sigmas:
            soft = objective == SoftRank.name
            smooth: Objective = SoftRank(sigma=sigma) if soft else StochasticRank(sigma=sigma, mu=mu)
            result = directness(
                scores,
                labels,
                qid=qid,
                group=group,
                metric=target,
                objective=smooth,
                ties=ties,
                samples=samples,
                seed=seed,
                threads=threads,
            )
            n_queries = len(result.value)
            facts = {name: getattr(result, name) for name in ("mean_gap", "max_gap", "bias", "bias_error")}
            if bounded:
                facts |= _compare_with_bound(result.gap, z, y, queries, float(sigma))
            points.append(DirectnessPoint(float(sigma), mu, **facts))
    return DirectnessCurve(tuple(points), objective, str(target), n_queries)


def _compare_with_bound(gap: Floats, z: Floats, y: Floats, queries: Queries, sigma: float) -> dict[str, Any]:
    """Compare the gaps of the queries that have a relevant document with theorem 2, where its condition holds."""
    remaining = iter(gap)
    gaps, bounds = [], []
    for start, stop in zip(queries.boundaries[:-1], queries.boundaries[1:], strict=True):
        highest = float(y[start:stop].max())
        if highest == 0:
            continue
        own = float(next(remaining))
        if stop - start < 2 or highest < 1:  # the ideal DCG, which the theorem divides by, may be below 1
            continue
        delta = float(np.diff(np.sort(z[start:stop])).min())
        theorem = softrank_bound(sigma, delta, int(stop - start), math.ceil(highest) + 1)
        if theorem.holds:
            gaps.append(own)
            bounds.append(theorem.bound)
    if not gaps:
        return {}
    # A bound may underflow to 0, while the gap is the rounding error of a sum.
    ratios = np.divide(gaps, np.maximum(bounds, _ROUNDING))
    return {
        "bounded": len(gaps),
        "max_gap_bounded": float(np.max(gaps)),
        "mean_bound": float(np.mean(bounds)),
        "max_ratio": float(ratios.max()),
    }


@dataclass(frozen=True)
class DirectnessPair:
    """Theorem 1 for two models, as computed by `directness_pair`.

    Parameters
    ----------
    eps_1, eps_2
        Largest gap of a query at the model trained for the surrogate, and at the one trained for the metric.
    bound
        2 ε1 + ε2, the theorem's bound.
    difference
        |mean metric of the first - mean metric of the second|.
    premises
        Whether each model is at least as good as the other by what it was trained for, as the proof assumes.
    """

    eps_1: float
    eps_2: float
    bound: float
    difference: float
    premises: bool


def directness_pair(first: Directness, second: Directness) -> DirectnessPair:
    """Apply theorem 1 of the "Directness" paper: a surrogate close to the metric gives an equally good model.

    The theorem says |E M(first) - E M(second)| <= 2 ε1 + ε2 where the first model maximises the surrogate and the
    second the metric. The proof compares the two models on every query, while each is best only on average. For means
    the usual argument gives even ε1 + ε2, under the premises of `DirectnessPair.premises`.

    Parameters
    ----------
    first
        `directness` of the model that was trained for the surrogate.
    second
        The same for a model that was trained for the metric, with the same objective, metric and queries.

    Examples
    --------
    >>> same = {"labels": [0, 1, 2], "group": [3], "objective": "softrank(sigma=0.1)"}
    >>> pair = directness_pair(directness([1, 2, 3], **same), directness([1, 3, 2], **same))
    >>> pair.difference > pair.bound, pair.premises       # the second is not the best by the metric
    (True, False)
    """
    if (first.metric, first.objective) != (second.metric, second.objective):
        raise ValueError(
            f"the first was measured for {first.objective} and {first.metric}, the second for {second.objective} and "
            f"{second.metric}; measure both with the same objective and metric."
        )
    if not np.array_equal(first.query_ids, second.query_ids):
        raise ValueError("the two were measured on different queries; measure both on the same data.")
    value = float(first.value.mean()), float(second.value.mean())
    surrogate = float(first.surrogate.mean()), float(second.surrogate.mean())
    return DirectnessPair(
        eps_1=first.max_gap,
        eps_2=second.max_gap,
        bound=2 * first.max_gap + second.max_gap,
        difference=abs(value[0] - value[1]),
        premises=surrogate[0] >= surrogate[1] and value[1] >= value[0],
    )
