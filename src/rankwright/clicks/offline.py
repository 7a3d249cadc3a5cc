"""Estimate metrics of a new ranking from the clicks in lists of another ranking.

An additive metric is M = Σ_d w(rank of d) g(d) / Z, see the head of `rankwright.kernels.exchange`. A document at a
position of propensity θ is clicked with probability θ γ. The gain here is γ, the probability of a click if examined,
times the metric's gain of label 1. Of the N impressions of a query, n show document d. Sums are over these, and c is 1
for a click:

    ips     γ̂ = (1/n) Σ c/θ                             unbiased; Joachims et al., WSDM 2017
    snips   Σ_q N_q Σ_d w γ̂ / Σ_q N_q Σ_d γ̂              self-normalised: the mean weight w at relevant documents
    dr      γ̂ = γ̃ + Σ (c - θ γ̃) / (N ρ),  ρ = Σ θ / N    doubly robust; Oosterhuis, TOIS 2023

γ̃ is a model of relevance. `clip` replaces smaller values of θ or ρ. `dr` then uses the model for the part that clipping
leaves out, and for documents that were never shown; for other documents it is Σ c / Σ θ without clipping. `snips` does
not depend on the scale of propensities, because only their ratios can be learned, but it is not the metric itself.

Queries are independent, so intervals come from a bootstrap over queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.clicks.cells import by_document, sums_by
from rankwright.clicks.log import ClickLog
from rankwright.clicks.propensities import Propensities, check_propensities
from rankwright.clicks.relevance import fit_relevance, take_rows
from rankwright.clicks.simulation import score_rows
from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import ranks_within_queries
from rankwright.evaluation.significance import bootstrap_interval
from rankwright.metrics import Metric, metric, metric_texts
from rankwright.support import checks
from rankwright.support.tables import Table, Tabular, columns_of, interval_text

Floats = NDArray[np.float64]
ESTIMATORS = ("ips", "snips", "dr")


@dataclass(frozen=True)
class ClickEstimate:
    """One estimate: a row of a `ClickEvaluation`.

    Attributes
    ----------
    metric, estimator : str
        Text of the metric, and ``"ips"``, ``"snips"`` or ``"dr"``.
    value, low, high : float
        The estimate and its interval.
    effective_clicks : float
        Effective sample size: (Σ a)² / Σ a² of the weights a = w/θ of the clicks. If it is small, few clicks decide.
    """

    metric: str
    estimator: str
    value: float
    low: float
    high: float
    effective_clicks: float


@dataclass(frozen=True, eq=False)
class ClickEvaluation(Tabular):
    """Estimates of metrics from clicks, as returned by `evaluate_clicks`; printing it shows a table.

    Two of them from the same log can be compared query by query with `rankwright.compare`.

    Attributes
    ----------
    rows : tuple of ClickEstimate
        One for each metric and estimator.
    per_query : dict
        Value of each query by ``"metric estimator"``, of "ips" and "dr".
    query_ids, weights : ndarray
        Ids and impressions of the queries.
    coverage : dict
        For each metric the share of the weight w of the new lists that is on documents of the log. Other documents
        count as not relevant in "ips" and as predicted in "dr".
    n_clicks, confidence
        Clicks in the log, and the level of the intervals.

    Examples
    --------
    >>> from rankwright import make_web_search, simulate_clicks
    >>> data = make_web_search(50, kind="short", n_features=20)
    >>> log = simulate_clicks(data, data.X[:, 0], impressions=20, shown=None)
    >>> result = evaluate_clicks(log, data.y, [1 / k for k in range(1, 200)], estimators=["ips"])
    >>> result.rows[0].estimator, result.coverage
    ('ips', {'dcg@10': 1.0})
    """

    rows: tuple[ClickEstimate, ...]
    per_query: dict[str, Floats]
    query_ids: NDArray[Any]
    weights: Floats
    coverage: dict[str, float]
    n_clicks: int
    confidence: float
    ties: str = "expected"
    empty: str = "zero"

    def _columns(self) -> dict[str, Any]:
        """Return a row per metric and estimator."""
        return columns_of([vars(row) for row in self.rows])

    def _table(self) -> Table:
        interval = f"{100 * self.confidence:g}% interval"
        header = ["metric", "estimator", "value", interval, "effective clicks", "covered"]
        rows = [
            [
                row.metric,
                row.estimator,
                f"{row.value:.4f}",
                interval_text(row.low, row.high),
                f"{row.effective_clicks:.0f} of {self.n_clicks}",
                f"{100 * self.coverage[row.metric]:.0f} %",
            ]
            for row in self.rows
        ]
        note = f"From {self.n_clicks} clicks of {len(self.query_ids)} queries."
        return Table("", header, rows, note)

    def __str__(self) -> str:
        return "\n".join(self._table().lines())

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates with their coverage and sample sizes, without values per query."""
        return {
            "rows": [vars(row) for row in self.rows],
            "coverage": self.coverage,
            "clicks": self.n_clicks,
            "queries": len(self.query_ids),
        }


def evaluate_clicks(
    log: ClickLog,
    scores: Any,
    propensities: Propensities | ArrayLike,
    *,
    metrics: str | Metric | Sequence[str | Metric] = ("dcg@10",),
    estimators: str | Sequence[str] = ESTIMATORS,
    clip: float = 0.0,
    relevance: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    random_state: int = 0,
) -> ClickEvaluation:
    """Estimate metrics of a new ranking from the clicks in lists of another ranking.

    Parameters
    ----------
    log
        Click log with `data`: the candidates of each query, those that were never shown included.
    scores
        The new ranking: a ranker, or a score for each row of ``log.data``. Ties count with the mean over all orders.
    propensities
        The result of `estimate_propensities`, or probabilities of examination: of position 1, 2, ..., or for each row
        of the log.
    metrics
        Additive metrics with a normaliser that does not depend on labels, for example ``dcg@10``, ``rbp`` or
        ``precision@5``.
    estimators
        One or several of ``"ips"``, ``"snips"`` and ``"dr"``; `rankwright.clicks.offline` has their formulas.
    clip
        Smallest propensity to divide by. Clipping trades variance for a bias towards 0. "dr" corrects this bias as
        far as its model of relevance is right.
    relevance
        For "dr": probability of a click if examined, for each row of ``log.data``. By default it is learned from the
        clicks and features, for each half of the queries from the other half.
    confidence, resamples, random_state
        Level of the intervals; number and seed of the bootstrap resamples over queries.

    Returns
    -------
    ClickEvaluation
        A mean over impressions of each metric and estimator, with its interval (NaN for one query) and effective
        sample size.

    Examples
    --------
    >>> from rankwright import make_web_search, simulate_clicks
    >>> data = make_web_search(100, kind="short", n_features=20)
    >>> log = simulate_clicks(data, data.X[:, 0], impressions=20, shown=None)
    >>> print(evaluate_clicks(log, data.y, [1 / k for k in range(1, 200)], estimators=["ips", "snips"]))
    metric  estimator   value      95% interval  effective clicks  covered
    dcg@10  ips        ...
    dcg@10  snips      ...
    """
    data = log.require_data("evaluate_clicks")
    estimators = estimators.split() if isinstance(estimators, str) else estimators
    if not estimators or not set(estimators).issubset(ESTIMATORS):
        raise ValueError(
            f"estimators must be of {', '.join(ESTIMATORS)}; got {list(estimators)!r}."
        )
    checks.number("clip", clip, least=0, most=1)
    checks.fraction("confidence", confidence)
    checks.whole("resamples", resamples, least=1)
    values = {str(text).strip(): metric(text) for text in metric_texts(metrics)}
    rankers = score_rows(data, scores)
    if len(rankers) != 1:
        raise ValueError(
            "scores must be one ranker, or one score for each row of log.data; evaluate each on "
            "its own."
        )
    theta = _row_propensities(log, propensities)
    counts = _Counts.of(log, data, theta, clip)
    # Estimators differ in the gain of a document; "snips" also divides by the sum of gains.
    gains = {"ips": counts.ips, "snips": counts.ips}
    if "dr" in estimators:
        gains["dr"] = counts.doubly_robust(_relevance(log, data, theta, relevance, random_state))
    rows: list[ClickEstimate] = []
    per_query: dict[str, Floats] = {}
    coverage: dict[str, float] = {}
    impressions = counts.impressions[counts.logged]
    for name, value in values.items():
        weight = place_weights(value, rankers[0], data)
        covered = impressions @ counts.per_query(weight * (counts.shows > 0))
        coverage[name] = float(covered / (impressions @ counts.per_query(weight)))
        # Without any overlap the estimate would be 0, which looks like a result.
        if coverage[name] == 0:
            raise ValueError(
                f"no document that the new ranking places where {name} has weight is in the log: "
                "there is no overlap, so clicks say nothing about it. Log lists that show such "
                "documents."
            )
        # Kish's effective sample size of the weighted clicks.
        click_weight = (weight[log.document] / np.maximum(theta, clip))[log.click]
        squares = np.maximum((click_weight**2).sum(), np.finfo(float).tiny)
        effective_clicks = float(click_weight.sum() ** 2 / squares)
        for estimator in estimators:
            query_values = counts.per_query(weight * gains[estimator])
            query_weights = impressions
            if estimator == "snips":
                relevant = counts.per_query(counts.ips)
                query_weights = impressions * relevant
                if not query_weights.any():
                    raise ValueError("the log has no click, so there is nothing to estimate from.")
                no_relevance = np.zeros_like(query_values)
                query_values = np.divide(
                    query_values, relevant, out=no_relevance, where=relevant > 0
                )
            else:
                per_query[f"{name} {estimator}"] = query_values
            low, high = bootstrap_interval(
                query_values, query_weights, resamples, confidence, (random_state, 0)
            )
            mean = float(np.average(query_values, weights=query_weights))
            rows.append(ClickEstimate(name, estimator, mean, low, high, effective_clicks))
    ids = data.query_ids[counts.logged]
    return ClickEvaluation(
        tuple(rows), per_query, ids, impressions, coverage, int(log.click.sum()), confidence
    )


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts of the log for each row of the data."""

    data: RankingData
    clip: float
    shows: Floats  # n, impressions in which it was shown [rows]
    clicks: Floats  # Σ c [rows]
    examined: Floats  # Σ θ [rows]
    ips: Floats  # (1/n) Σ c / max(θ, clip) [rows]
    impressions: Floats  # of each query [queries]
    logged: NDArray[np.bool_]  # queries that are in the log [queries]

    @classmethod
    def of(cls, log: ClickLog, data: RankingData, theta: Floats, clip: float) -> _Counts:
        # Sums over the shows of each document in the log.
        weighted = log.click / np.maximum(theta, clip)
        shows, clicks, examined, ips = (
            sums_by(log.document, values, data.n_rows)
            for values in (np.ones(log.n_rows), log.click, theta, weighted)
        )
        ips /= np.maximum(shows, 1.0)
        query = data.queries.query_of_row[log.document[log.first_rows]]
        impressions = np.bincount(query, minlength=data.n_queries).astype(np.float64)
        return cls(data, clip, shows, clicks, examined, ips, impressions, impressions > 0)

    def doubly_robust(self, model: Floats) -> Floats:
        """Return the gain of each row, for relevances of a model [rows]."""
        n = np.repeat(self.impressions, self.data.group)
        # Rows that were never shown have no residual: their gain is the model's.
        residual = self.clicks - self.examined * model
        divisor = np.maximum(self.examined, self.clip * n)
        return model + np.divide(residual, divisor, out=np.zeros_like(model), where=self.shows > 0)

    def per_query(self, values: Floats) -> Floats:
        """Return sums of the rows of each query in the log."""
        sums: Floats = np.add.reduceat(values, self.data.boundaries[:-1])[self.logged]
        return sums


def place_weights(value: Metric, scores: Floats, data: RankingData) -> Floats:
    """Return the value that each row adds to a metric per unit of click probability.

    A row has the place that its score gives it. Rows with equal scores share the mean weight of their places.
    """
    relevant = np.ones(data.n_rows)
    chain = value.bind(relevant, data.boundaries)
    if not (chain.additive and value.fixed_normaliser) or value.selects:
        raise ValueError(
            f"{value} is not a sum over documents with known weights, so clicks cannot estimate "
            "it; use an additive metric without a normaliser that depends on labels, such as "
            "dcg@10, rbp or precision@5."
        )
    if value.label is not None:
        raise ValueError(
            f"{value} reads the label {value.label!r}, and clicks have none; leave out "
            f"[{value.label}]."
        )
    if not chain.gain.any() or value.gains(np.zeros(1)).any():
        raise ValueError(
            f"{value} does not give label 1 a gain and label 0 none, as clicks need; change its "
            "options."
        )
    # The weight of the place that each row has in the new ranking.
    rank = ranks_within_queries(scores, data.queries.grouped())
    query = data.queries.query_of_row
    weight = chain.weight[rank - 1] * chain.gain * chain.scale[query]
    order = np.lexsort((rank, query))
    # A group of ties starts where the query or the score changes.
    starts = np.ones(data.n_rows, dtype=bool)
    starts[1:] = (query[order][1:] != query[order][:-1]) | (scores[order][1:] != scores[order][:-1])
    tie = np.empty(data.n_rows, dtype=np.int64)
    tie[order] = np.cumsum(starts) - 1
    means: Floats = np.bincount(tie, weights=weight) / np.bincount(tie)
    return means[tie]


def _row_propensities(log: ClickLog, propensities: Propensities | ArrayLike) -> Floats:
    if isinstance(propensities, Propensities):
        return propensities(log.position)
    values = np.asarray(propensities, dtype=np.float64)
    # As many values as rows are propensities of rows, otherwise of positions.
    if values.shape == (log.n_rows,):
        check_propensities(values, "row")
        return values
    return Propensities.known(values)(log.position)


def _relevance(
    log: ClickLog, data: RankingData, theta: Floats, given: ArrayLike | None, seed: int
) -> Floats:
    """Return the given relevance, or learn it from clicks, for each half of the queries from the other half."""
    if given is not None:
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (data.n_rows,) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"relevance must be a probability for each of the {data.n_rows} rows of the data."
            )
        return values
    # Each propensity counts as a position.
    levels, level = np.unique(theta, return_inverse=True)
    cells = by_document(log, level)
    shown = np.unique(log.document)
    query = data.queries.query_of_row
    logged = np.unique(query[shown])
    if len(logged) < 2:
        raise ValueError(
            "the estimator 'dr' learns relevance from other queries, and the log has one only; "
            "give relevance=, or leave 'dr' out of estimators."
        )
    # Queries that are not in the log are not evaluated, so their half does not matter.
    half = np.zeros(data.n_queries, dtype=np.int64)
    half[logged] = np.random.default_rng(seed).permutation(len(logged)) % 2
    relevance = np.empty(data.n_rows)
    for side in (0, 1):
        learned = half[query[shown]] != side
        part = take_rows(data, shown[learned])
        model = fit_relevance(part, cells.subset(learned[cells.group]), levels, seed)
        rows = np.flatnonzero(half[query] == side)
        relevance[rows] = model.relevance(data.X[rows])
    return relevance
