"""Directness as a function of the smoothing, beside the bound of theorem 2.

Reference: "Directness" paper (He and Liu), theorem 2; "StochasticRank" paper, section 4, for μ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.charts.theme import require
from rankwright.data.queries import Queries, check_labels
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective, SoftRank, StochasticRank
from rankwright_lab.diagnostics.common import Floats, frame, grouped_rows, plain
from rankwright_lab.diagnostics.directness_bound import softrank_bound
from rankwright_lab.diagnostics.directness_gap import directness

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-12


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
        alt = require("altair")
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
        return chart.encode(
            strokeDash=alt.StrokeDash("mu:N", title="μ", legend=alt.Legend(orient="bottom"))
        )

    def _chart_rows(self, point: DirectnessPoint) -> list[dict[str, Any]]:
        values = {"largest gap": point.max_gap, "mean gap": point.mean_gap}
        if point.bounded:
            values |= {
                "mean bound (theorem 2)": point.mean_bound,
                "largest gap there": point.max_gap_bounded,
            }
        # A logarithmic axis cannot show 0, and values below rounding mean nothing.
        visible = {what: value for what, value in values.items() if value > _ROUNDING}
        return [
            {"sigma": point.sigma, "mu": point.mu, "what": what, "value": v}
            for what, v in visible.items()
        ]


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
        raise ValueError(
            f"objective must be {SoftRank.name} or {StochasticRank.name}; got {objective!r}."
        )
    shifts, deviations = _numbers("mus", mus), _numbers("sigmas", sigmas)
    if objective == SoftRank.name and shifts != [0.0]:
        raise ValueError("mus belongs to stochasticrank; leave it out for softrank.")
    queries = Queries.of(np.size(labels), qid, group)
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    # Theorem 2 assumes log2 discounts, gains up to 2^label and no cutoff.
    bounded = objective == SoftRank.name and target == parse_metric("ndcg")
    has_gain = target.bind(y, queries.boundaries).scale != 0 if bounded else np.zeros(0, dtype=bool)
    points = []
    n_queries = 0
    for mu in shifts:
        for sigma in deviations:
            soft = objective == SoftRank.name
            smooth: Objective = (
                SoftRank(sigma=sigma) if soft else StochasticRank(sigma=sigma, mu=mu)
            )
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
            facts = {
                name: getattr(result, name)
                for name in ("mean_gap", "max_gap", "bias", "bias_error")
            }
            if bounded:
                facts |= _compare_with_bound(result.gap, z, y, queries, has_gain, sigma)
            points.append(DirectnessPoint(sigma, mu, **facts))
    return DirectnessCurve(tuple(points), objective, str(target), n_queries)


def _numbers(name: str, values: Iterable[float]) -> list[float]:
    """Read an option that is a list of numbers."""
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if not numbers:
        raise ValueError(f"{name} must be a list of at least one number; got {values!r}.")
    return numbers


def _compare_with_bound(
    gap: Floats, z: Floats, y: Floats, queries: Queries, has_gain: NDArray[np.bool_], sigma: float
) -> dict[str, Any]:
    """Compare the gaps, of the queries that have a gain, with theorem 2 where its condition holds."""
    gaps, bounds = [], []
    for own, q in zip(gap.tolist(), np.flatnonzero(has_gain), strict=True):
        start, stop = queries.boundaries[q : q + 2]
        highest = float(y[start:stop].max())
        if (
            stop - start < 2 or highest < 1
        ):  # the ideal DCG, which the theorem divides by, may be below 1
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
