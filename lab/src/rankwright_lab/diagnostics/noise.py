"""Noise, bias and cost of gradient estimates.

Over R draws of the noise at the same scores, for a query with gradient g in R^n:

    signal = |E g|^2,  noise = tr Var g,  signal-to-noise = signal / noise
    bias   = |E g - c G| / |c G|          G: gradient of the smoothed metric, c: the best common factor of all queries
    cost   = seconds of a draw * noise / signal: the time to average until signal and noise are equal

Squared lengths of means are corrected for their remaining noise (noise / R). c removes the scale of the gradient,
which belongs to the learning rate; for unbiased estimates of G it is 1 up to noise.

Reference: "StochasticRank" paper, section 5 (CCS and SFA against the log-derivative estimate).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.charts.theme import require
from rankwright.data.queries import Queries
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import BoundObjective, Objective, bind
from rankwright.objectives import objective as parse_objective
from rankwright_lab.diagnostics.common import Floats, frame, plain

if TYPE_CHECKING:
    import pandas as pd

# One draw each, so that costs compare.
ESTIMATORS: dict[str, str] = {
    "ccs": "stochasticrank(sfa=False)",
    "ccs + sfa": "stochasticrank",
    "reinforce": "stochasticrank(sfa=False, estimator=reinforce)",
    "yeti": "yetiloss(permutations=1)",
    "noisy lambdas": "lambdamart(noise=gumbel)",
}
_REFERENCE_DRAWS = 16  # noise vectors of the reference in a draw


@dataclass(frozen=True)
class Estimator:
    """One estimate of a gradient: a row of `Estimators`.

    Attributes
    ----------
    name, objective : str
        Its name, and the objective that computes it.
    signal_to_noise : float
        Sum of the signals of all queries over the sum of their noises.
    median_signal_to_noise : float
        Median over the queries that have a gradient.
    bias : float
        Relative distance from the smoothed metric's gradient, over all queries.
    factor : float
        c, the scale relative to that gradient.
    cosine : float
        Cosine of the angle between the mean and that gradient.
    seconds : float
        Time of a draw.
    cost : float
        Seconds times noise over signal.
    """

    name: str
    objective: str
    signal_to_noise: float
    median_signal_to_noise: float
    bias: float
    factor: float
    cosine: float
    seconds: float
    cost: float


@dataclass(frozen=True, eq=False)
class Estimators:
    """Comparison of gradient estimates, as measured by `estimators`.

    Parameters
    ----------
    rows
        One per estimate.
    query_ids
        Ids of the queries, ascending [queries].
    signal, noise
        By name: |E g|^2 (corrected, so it may be slightly below 0) and tr Var g [queries].
    metric, reference
        Text of the metric, and of the objective whose mean is the reference.
    repeats
        Number of draws.

    Examples
    --------
    >>> result = estimators([0.3, 0.2, 0.1], [0, 2, 1], group=[3], metric="ndcg", repeats=200, threads=1)
    >>> noise = {row.name: 1 / row.signal_to_noise for row in result.rows}
    >>> noise["ccs"] < noise["reinforce"]
    True
    """

    rows: tuple[Estimator, ...]
    query_ids: NDArray[Any]
    signal: dict[str, Floats]
    noise: dict[str, Floats]
    metric: str
    reference: str
    repeats: int

    def signal_to_noise(self, name: str) -> Floats:
        """Signal-to-noise of each query [queries]: at least 0, NaN where a query has no gradient."""
        ratio = np.full(len(self.query_ids), np.nan)
        np.divide(
            np.maximum(self.signal[name], 0),
            self.noise[name],
            out=ratio,
            where=self.noise[name] > 0,
        )
        return ratio

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per estimate."""
        return frame(asdict(row) for row in self.rows)

    def per_query(self) -> pd.DataFrame:
        """Return a pandas frame with a row per query and a column of signal-to-noise per estimate."""
        columns = {row.name: self.signal_to_noise(row.name).tolist() for row in self.rows}
        ids = [plain(query) for query in self.query_ids]
        return frame(
            {"query": query, **{name: values[q] for name, values in columns.items()}}
            for q, query in enumerate(ids)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return metric, reference, number of draws and the rows."""
        facts = {"metric": self.metric, "reference": self.reference, "repeats": self.repeats}
        return plain({**facts, "rows": [asdict(row) for row in self.rows]})  # type: ignore[no-any-return]

    def plot(self) -> Any:
        """Draw the spread over queries of the signal-to-noise of each estimate; an Altair chart."""
        alt = require("altair")
        values = [
            {"estimate": row.name, "ratio": float(value)}
            for row in self.rows
            for value in self.signal_to_noise(row.name)
            if value > 0
        ]
        return (
            alt.Chart(alt.Data(values=values))
            .mark_boxplot(extent="min-max")
            .encode(
                x=alt.X(
                    "ratio:Q",
                    scale=alt.Scale(type="log"),
                    title="signal-to-noise of a query's gradient",
                ),
                y=alt.Y("estimate:N", title=None, sort=[row.name for row in self.rows]),
            )
        )


def estimators(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg@10",
    objectives: Mapping[str, str | Objective] | None = None,
    reference: str | Objective = "stochasticrank(sfa=False)",
    repeats: int = 200,
    seed: int = 0,
    threads: int | None = None,
) -> Estimators:
    """Compare gradient estimates at given scores: noise, bias and cost.

    A draw is a call of the bound objective with another iteration. Times are wall-clock times of this process:
    measure on an idle machine.

    Parameters
    ----------
    scores, labels, qid, group, metric, threads
        As in `rankwright.gradients`.
    objectives
        Estimates by name; CCS, CCS + SFA, REINFORCE, YetiLoss and noisy lambdas by default, each with one draw of
        noise per call.
    reference
        Unbiased estimate of the gradient that the bias refers to; by default that of the smoothed metric, by CCS with
        σ = 1. A ``stochasticrank`` with one noise vector gets 16 of them in each of ``repeats`` draws.
    repeats
        Number of draws R.
    seed
        Seed of the draws; the reference has independent draws.

    Examples
    --------
    >>> result = estimators([0.3, 0.2], [0, 1], group=[2], metric="mrr", repeats=100, threads=1)
    >>> [row.name for row in result.rows]
    ['ccs', 'ccs + sfa', 'reinforce', 'yeti', 'noisy lambdas']
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or repeats < 2:
        raise ValueError(
            f"repeats must be a whole number of at least 2, for a variance; got {repeats!r}."
        )
    target = parse_metric(metric)
    queries = Queries.of(np.size(labels), qid, group)
    sources = {
        name: parse_objective(source)
        for name, source in (ESTIMATORS if objectives is None else objectives).items()
    }
    if not sources:
        raise ValueError(
            "objectives is empty: name at least one, such as {'ccs': 'stochasticrank(sfa=False)'}."
        )

    def draw(source: Objective, own_seed: int) -> _Draws:
        bound = bind(
            source,
            labels,
            qid=qid,
            group=group,
            metric=target,
            random_state=own_seed,
            n_jobs=threads,
        )
        return _Draws.of(bound, np.asarray(scores, dtype=np.float64), queries, int(repeats))

    basis = parse_objective(reference)
    truth = draw(_with_more_draws(basis), seed + 1)
    rows, signal, noise = [], {}, {}
    for name, source in sources.items():
        draws = draw(source, seed)
        rows.append(_row(name, source, draws, truth))
        signal[name], noise[name] = draws.signal, draws.noise
    return Estimators(
        tuple(rows), queries.ids, signal, noise, str(target), str(basis), int(repeats)
    )


def _with_more_draws(basis: Objective) -> Objective:
    """Return a reference of one noise vector with more of them per call, which is cheaper than further calls."""
    if getattr(basis, "estimations", None) != 1:
        return basis
    options = asdict(basis) | {"estimations": _REFERENCE_DRAWS}
    return type(basis)(**options)


@dataclass(frozen=True, eq=False)
class _Draws:
    """Mean of a gradient over draws [rows], its signal and noise [queries], and the time of a draw."""

    mean: Floats
    signal: Floats
    noise: Floats
    repeats: int
    seconds: float

    @classmethod
    def of(cls, bound: BoundObjective, scores: Floats, queries: Queries, repeats: int) -> _Draws:
        bound(scores, repeats)  # compile first, which is not timed
        mean, squares = np.zeros(queries.n_rows), np.zeros(queries.n_rows)
        seconds = 0.0
        for iteration in range(repeats):
            start = time.perf_counter()
            grad, _ = bound(scores, iteration)
            seconds += time.perf_counter() - start
            step = grad - mean
            mean += step / (iteration + 1)
            squares += step * (grad - mean)
        mean, variance = queries.group(mean), queries.group(squares) / (repeats - 1)
        starts = queries.boundaries[:-1]
        noise = np.add.reduceat(variance, starts)
        signal = np.add.reduceat(mean**2, starts) - noise / repeats
        return cls(mean, signal, noise, repeats, seconds / repeats)


def _row(name: str, source: Objective, draws: _Draws, truth: _Draws) -> Estimator:
    signal, noise = float(draws.signal.sum()), float(draws.noise.sum())
    true_signal = float(truth.signal.sum())
    inner = float(draws.mean @ truth.mean)  # independent draws: no correction for noise
    factor = inner / true_signal if true_signal > 0 else float("nan")
    # |E g - c G|^2 with both squares corrected.
    distance = signal - 2 * factor * inner + factor**2 * true_signal
    lengths = max(signal, 0.0) * max(true_signal, 0.0)
    noisy = draws.noise > 0
    ratio = np.maximum(draws.signal[noisy], 0) / draws.noise[noisy]
    overall = max(signal, 0.0) / noise if noise > 0 else float("inf")
    return Estimator(
        name=name,
        objective=str(source),
        signal_to_noise=overall,
        median_signal_to_noise=float(np.median(ratio)) if len(ratio) else float("nan"),
        bias=float(np.sqrt(max(distance, 0.0)) / abs(factor * np.sqrt(true_signal)))
        if factor
        else float("nan"),
        factor=factor,
        cosine=min(1.0, inner / float(np.sqrt(lengths))) if lengths > 0 else float("nan"),
        seconds=draws.seconds,
        cost=draws.seconds / overall if overall > 0 else float("inf"),
    )
