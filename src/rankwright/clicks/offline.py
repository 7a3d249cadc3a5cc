"""What a new ranking would be worth, estimated from the clicks in lists of another one.

An additive metric is M = Σ_d w(rank of d) g(d) / Z, see the head of `rankwright.kernels.exchange`. Clicks tell the gain
of a document up to whether it was examined: with θ the propensity of its position, a click has probability θ γ, and γ,
the probability of a click if examined, is the gain here, times the metric's gain of label 1. Of the N impressions of a
query, n show document d; sums are over these, and c is 1 for a click:

    ips     γ̂ = (1/n) Σ c/θ                             unbiased; Joachims et al., WSDM 2017
    snips   Σ_q N_q Σ_d w γ̂ / Σ_q N_q Σ_d γ̂              self-normalised: the mean weight w where relevance stands
    dr      γ̂ = γ̃ + Σ (c - θ γ̃) / (N ρ),  ρ = Σ θ / N    doubly robust; Oosterhuis, TOIS 2023

γ̃ is a model of relevance. `clip` takes the place of θ or ρ where these are smaller. `dr` then takes from the model what
clipping leaves out, and documents that were never shown; without clipping it is Σ c / Σ θ for the others. `snips` does
not depend on the scale of propensities, of which only ratios can be learned, but is another quantity than the metric.

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
from rankwright.clicks.relevance import fit_relevance
from rankwright.clicks.simulation import score_rows
from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import ranks_within_queries
from rankwright.evaluation.significance import bootstrap_interval
from rankwright.metrics import Metric, metric, metric_texts
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
        Effective sample size: (Σ a)² / Σ a² of the weights a = w/θ of the clicks. Few: one click decides.
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
        For each metric the share of the weight w of the new lists that is on documents of the log. What is missing
        counts as not relevant in "ips" and as predicted in "dr".
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
        """Return the estimates and what they rest on, without values per query."""
        rows = [vars(row) for row in self.rows]
        return {
            "rows": rows,
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
    seed: int = 0,
) -> ClickEvaluation:
    """Estimate what a new ranking is worth from the clicks in lists of another one.

    Parameters
    ----------
    log
        Click log with `data`: the candidates of each query, those that were never shown included.
    scores
        The new ranking: a ranker, or a score for each row of ``log.data``. Ties count with the mean over all orders.
    propensities
        What `estimate_propensities` returns, or probabilities of examination: of position 1, 2, ..., or one for each
        row of the log.
    metrics
        Additive metrics whose normaliser does not depend on labels, such as ``dcg@10``, ``rbp``, ``precision@5``.
    estimators
        One or several of ``"ips"``, ``"snips"`` and ``"dr"``; `rankwright.clicks.offline` has their formulas.
    clip
        Smallest propensity to divide by. Clipping trades variance for a bias towards 0, which "dr" corrects as far as
        its model of relevance is right.
    relevance
        For "dr": probability of a click if examined, for each row of ``log.data``. By default it is learned from the
        clicks and features, for each half of the queries from the other half.
    confidence, resamples, seed
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
    unknown = [name for name in estimators if name not in ESTIMATORS]
    if unknown or not estimators:
        raise ValueError(
            f"estimators must be of {', '.join(ESTIMATORS)}; got {list(estimators)!r}."
        )
    if not 0 <= clip <= 1:
        raise ValueError(f"clip is the smallest propensity to divide by, from 0 to 1; got {clip}.")
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(
            f"confidence must be between 0 and 1 and resamples at least 1; got {confidence}, {resamples}."
        )
    values = {str(text).strip(): metric(text) for text in metric_texts(metrics)}
    new_scores, *others = score_rows(data, scores) if scores is not None else (None, None)
    if new_scores is None or others:
        raise ValueError(
            "scores must be one ranker, or one score for each row of log.data; evaluate each on its own."
        )
    theta = _row_propensities(log, propensities)
    counts = _Counts.of(log, data, theta, clip)
    model = None
    if "dr" in estimators:
        model = (
            _relevance(log, data, theta, seed)
            if relevance is None
            else _given_relevance(relevance, data)
        )
    rows: list[ClickEstimate] = []
    per_query: dict[str, Floats] = {}
    coverage: dict[str, float] = {}
    impressions = counts.impressions[counts.logged]
    for name, value in values.items():
        weight = place_weights(value, new_scores, data)
        covered = counts.per_query(weight * (counts.shows > 0))[counts.logged]
        total = counts.per_query(weight)[counts.logged]
        coverage[name] = float(impressions @ covered / (impressions @ total))
        if coverage[name] == 0:
            raise ValueError(
                f"no document that the new ranking places where {name} has weight is in the log: there is no overlap, "
                "so clicks say nothing about it. Log lists that show such documents."
            )
        click_weight = (weight[log.document] / np.maximum(theta, clip))[log.click]
        effective = float(
            click_weight.sum() ** 2 / np.maximum((click_weight**2).sum(), np.finfo(float).tiny)
        )
        for estimator in estimators:
            gain = (
                counts.doubly_robust(model)
                if estimator == "dr" and model is not None
                else counts.ips
            )
            worth = counts.per_query(weight * gain)[counts.logged]
            of_mean = impressions
            if estimator == "snips":
                relevant = counts.per_query(gain)[counts.logged]
                of_mean = impressions * relevant
                if not of_mean.any():
                    raise ValueError("the log has no click, so there is nothing to estimate from.")
                worth = np.divide(worth, relevant, out=np.zeros_like(worth), where=relevant > 0)
            else:
                per_query[f"{name} {estimator}"] = worth
            low, high = bootstrap_interval(worth, of_mean, resamples, confidence, (seed, 0))
            mean = float(np.average(worth, weights=of_mean))
            rows.append(ClickEstimate(name, estimator, mean, low, high, effective))
    ids = data.query_ids[counts.logged]
    return ClickEvaluation(
        tuple(rows), per_query, ids, impressions, coverage, int(log.click.sum()), confidence
    )


@dataclass(frozen=True, eq=False)
class _Counts:
    """What the log says about each row of the data."""

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
        weighted = log.click / np.maximum(theta, clip)
        shows, clicks, examined, ips = (
            sums_by(log.document, values, data.n_rows)
            for values in (np.ones(log.n_rows), log.click, theta, weighted)
        )
        first = np.flatnonzero(np.diff(log.impression, prepend=-1))
        query = np.searchsorted(data.boundaries, log.document[first], side="right") - 1
        impressions = np.bincount(query, minlength=data.n_queries).astype(np.float64)
        return cls(
            data,
            clip,
            shows,
            clicks,
            examined,
            ips / np.maximum(shows, 1.0),
            impressions,
            impressions > 0,
        )

    def doubly_robust(self, model: Floats) -> Floats:
        n = np.repeat(self.impressions, self.data.group)
        residual = self.clicks - self.examined * model
        divisor = np.maximum(self.examined, self.clip * n)
        return model + np.divide(residual, divisor, out=np.zeros_like(model), where=self.shows > 0)

    def per_query(self, values: Floats) -> Floats:
        sums: Floats = np.add.reduceat(values, self.data.boundaries[:-1])
        return sums


def place_weights(value: Metric, scores: Floats, data: RankingData) -> Floats:
    """Return what each row adds to a metric per unit of click probability, at its place by the scores.

    Rows with equal scores share the mean weight of their places.
    """
    relevant = np.ones(data.n_rows)
    chain = value.bind(relevant, data.boundaries)
    if not (chain.additive and value.fixed_normaliser) or value.selects:
        raise ValueError(
            f"{value} is not a sum over documents with known weights, so clicks cannot estimate it; use an additive "
            "metric without a normaliser that depends on labels, such as dcg@10, rbp or precision@5."
        )
    if value.label is not None:
        raise ValueError(
            f"{value} reads the label {value.label!r}, and clicks have none; leave out [{value.label}]."
        )
    if not chain.gain.any() or value.gains(np.zeros(1)).any():
        raise ValueError(
            f"{value} does not give label 1 a gain and label 0 none, as clicks need; change its options."
        )
    rank = ranks_within_queries(scores, data.queries.grouped())
    query = data.queries.query_of_row
    weight = chain.weight[rank - 1] * chain.gain * chain.scale[query]
    order = np.lexsort((rank, query))
    starts = np.ones(data.n_rows, dtype=bool)
    starts[1:] = (query[order][1:] != query[order][:-1]) | (scores[order][1:] != scores[order][:-1])
    tie = np.empty(data.n_rows, dtype=np.int64)
    tie[order] = np.cumsum(starts) - 1
    means: Floats = (np.bincount(tie, weights=weight) / np.bincount(tie))[tie]
    return means


def _row_propensities(log: ClickLog, propensities: Propensities | ArrayLike) -> Floats:
    if isinstance(propensities, Propensities):
        return propensities(log.position)
    values = np.asarray(propensities, dtype=np.float64)
    if values.shape == (log.n_rows,):
        check_propensities(values, "row")
        return values
    return Propensities.known(values)(log.position)


def _given_relevance(relevance: ArrayLike, data: RankingData) -> Floats:
    values = np.asarray(relevance, dtype=np.float64)
    if values.shape != (data.n_rows,) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"relevance must be a probability for each of the {data.n_rows} rows of the data."
        )
    return values


def _relevance(log: ClickLog, data: RankingData, theta: Floats, seed: int) -> Floats:
    """Learn relevance from clicks, for each half of the queries from the other half."""
    levels, level = np.unique(theta, return_inverse=True)  # positions stand for propensities here
    cells = by_document(log, level)
    shown = np.unique(log.document)
    query = data.queries.query_of_row
    logged = np.unique(query[shown])
    if len(logged) < 2:
        raise ValueError(
            "the estimator 'dr' learns relevance from other queries, and the log has one only; give relevance=, or "
            "leave 'dr' out of estimators."
        )
    half = np.zeros(data.n_queries, dtype=np.int64)  # the others are not evaluated
    half[logged] = np.random.default_rng(seed).permutation(len(logged)) % 2
    relevance = np.empty(data.n_rows)
    for side in (0, 1):
        learned = half[query[shown]] != side
        part = data.with_rows(
            data.X[shown[learned]], data.y[shown[learned]], data.qid[shown[learned]], None, {}
        )
        model = fit_relevance(part, cells.chosen(learned[cells.group]), levels, seed)
        rows = np.flatnonzero(half[query] == side)
        if len(rows):
            relevance[rows] = model.relevance(data.X[rows])
    return relevance
