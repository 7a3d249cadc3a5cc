"""Directness: the distance between a metric and the smooth surrogate that an objective optimises.

    gap = |M(z) - M'(z)|

For StochasticRank M' = E M(z - σ μ r + σ ε) with ε standard normal, a mean over draws with its standard error. For
SoftRank M' is the metric under the paper's rank distributions, without sampling; for three or more documents it is not
E M.

Reference: "Directness" paper (He and Liu), section III for SoftRank, theorem 1 (`directness_pair`); "StochasticRank"
paper, section 4, for μ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, check_labels
from rankwright.evaluation.per_query import evaluate
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.exchange import Chain
from rankwright.kernels.random import GAUSSIAN, noise_by_query, stream_of
from rankwright.kernels.threads import (
    LONG_WORK,
    available_threads,
    even_ranges,
    run_ranges,
    stop_flag,
)
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective, SoftRank, StochasticRank
from rankwright.objectives import objective as parse_objective
from rankwright_lab.diagnostics.common import Floats, frame, grouped_rows, plain
from rankwright_lab.diagnostics.rank_value import expected_rank_value

if TYPE_CHECKING:
    import pandas as pd

_MOST_STEPS = 1e11  # of one query in `_rank_distribution`: about two minutes


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
        Of the surrogate, where it is sampled [queries]; 0 for SoftRank.
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
        columns = zip(
            self.query_ids, self.value, self.surrogate, self.standard_error, self.gap, strict=True
        )
        names = ("query", "value", "surrogate", "standard_error", "gap")
        return frame(dict(zip(names, map(plain, row), strict=True)) for row in columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the means and the largest gap."""
        numbers = {
            name: getattr(self, name) for name in ("mean_gap", "max_gap", "bias", "bias_error")
        }
        return {
            "objective": self.objective,
            "metric": self.metric,
            "queries": len(self.value),
            **numbers,
        }


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
        As in `rankwright.evaluate`, for one metric and its labels.
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
        raise ValueError(
            f"{target} selects documents instead of ordering them; directness is defined on rankings."
        )
    if len(target.terms()) > 1:
        raise ValueError(f"{target} is a sum; directness is defined on one metric.")
    queries = Queries.of(np.size(labels), qid, group)
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    chain = target.bind(y, queries.boundaries)
    has_gain = chain.scale != 0
    if not has_gain.any():
        raise ValueError(f"{target}: no document has any gain; check the labels.")
    exact = evaluate(
        z, y, group=queries.sizes, metrics=[target], ties=ties, n_jobs=threads
    ).per_query[str(target)]
    if isinstance(source, SoftRank):
        surrogate, error = (
            _rank_distribution(source, target, z, queries, chain, threads),
            np.zeros(queries.n_queries),
        )
    elif isinstance(source, StochasticRank):
        if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 2:
            raise ValueError(
                f"samples must be a whole number of at least 2, for a standard error; got {samples!r}."
            )
        if not isinstance(seed, int | np.integer):
            raise ValueError(f"seed must be a whole number; got {seed!r}.")
        relevance = np.asarray(target.relevance(y), dtype=np.float64)
        surrogate, error = _sampled(
            source, z, relevance, queries, chain, int(samples), seed, threads
        )
    else:
        raise ValueError(
            f"{source} does not smooth a metric; directness is defined on softrank and stochasticrank."
        )
    return Directness(
        queries.ids[has_gain],
        exact[has_gain],
        surrogate[has_gain],
        error[has_gain],
        str(target),
        str(source),
    )


def _rank_distribution(
    source: SoftRank, target: Metric, z: Floats, queries: Queries, chain: Chain, threads: int | None
) -> Floats:
    if not chain.additive:
        raise ValueError(
            f"softrank is defined on metrics that add up over positions, and {target} does not; "
            "use stochasticrank(mu=0, sfa=False), which samples the expected metric."
        )
    work = queries.sizes.astype(np.float64) ** 2 * np.minimum(queries.sizes, chain.depth)
    longest = int(work.argmax())
    if work[longest] > _MOST_STEPS:
        raise ValueError(
            f"query {queries.ids[longest]} has {queries.sizes[longest]} documents, and softrank's distribution of "
            f"their ranks takes {work[longest]:.0e} steps, documents squared times places that count; use a metric "
            "with a cutoff such as ndcg@10, or stochasticrank(mu=0, sfa=False), which samples the expected metric."
        )
    surrogate = np.empty(queries.n_queries)

    def fill(q0: int, q1: int) -> None:
        expected_rank_value(
            q0, q1, queries.boundaries, z, chain, float(source.sigma), surrogate, stop_flag()
        )

    run_ranges(
        fill, even_ranges(work, available_threads(threads)), long=bool(work.sum() > LONG_WORK)
    )
    return surrogate


def _sampled(
    source: StochasticRank,
    z: Floats,
    relevance: Floats,
    queries: Queries,
    chain: Chain,
    samples: int,
    seed: int,
    threads: int | None,
) -> tuple[Floats, Floats]:
    """Return the mean over draws of the noise, and its standard error [queries]."""
    bounds, sizes = queries.boundaries, queries.sizes
    mean, squares = np.zeros(queries.n_queries), np.zeros(queries.n_queries)
    centre = z - source.sigma * source.mu * relevance
    noise, values = np.empty(len(z)), np.empty(queries.n_queries)
    stream = stream_of(seed, 0)

    def fill(q0: int, q1: int) -> None:
        rows = slice(bounds[q0], bounds[q1])
        order = np.empty(rows.stop - rows.start, dtype=np.int64)
        for draw in range(samples):
            noise_by_query(q0, q1, bounds, queries.keys, GAUSSIAN, stream, draw, noise)
            noise[rows] = centre[rows] + source.sigma * noise[rows]
            kernel.order_queries(q0, q1, bounds, noise, relevance, kernel.INPUT, chain.depth, order)
            kernel.value_queries(
                q0, q1, bounds, noise, order, sizes, False, chain, values, stop_flag()
            )
            step = values[q0:q1] - mean[q0:q1]
            mean[q0:q1] += step / (draw + 1)
            squares[q0:q1] += step * (values[q0:q1] - mean[q0:q1])

    run_ranges(fill, even_ranges(sizes.astype(np.float64), available_threads(threads)))
    return mean, np.sqrt(squares / (samples - 1) / samples)


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
        Whether the first model is at least as good by the surrogate and the second by the metric, as the proof assumes.
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
        raise ValueError(
            "the two were measured on different queries; measure both on the same data."
        )
    value = float(first.value.mean()), float(second.value.mean())
    surrogate = float(first.surrogate.mean()), float(second.surrogate.mean())
    return DirectnessPair(
        eps_1=first.max_gap,
        eps_2=second.max_gap,
        bound=2 * first.max_gap + second.max_gap,
        difference=abs(value[0] - value[1]),
        premises=surrogate[0] >= surrogate[1] and value[1] >= value[0],
    )
