"""Per-query values and means of metrics, with a choice of policies for ties and empty queries."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data import guards
from rankwright.data.labels import (
    as_not_relevant,
    check_any_judged,
    choose_label,
    grouped_labels,
    number_of_rows,
)
from rankwright.data.queries import Queries, as_floats, plain_ids
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.exchange import Chain
from rankwright.kernels.threads import (
    LONG_WORK,
    available_threads,
    equal_ranges,
    even_ranges,
    run_ranges,
    stop_flag,
)
from rankwright.metrics import Metric, metric, metric_texts
from rankwright.support import checks
from rankwright.support.reducer import ALONE, Reducer, addable
from rankwright.support.tables import Table, Tabular

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

TIES = {
    "worst": kernel.WORST,
    "best": kernel.BEST,
    "expected": kernel.EXPECTED,
    "input": kernel.INPUT,
}
Floats = NDArray[np.float64]

EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}
UNJUDGED = ("not-relevant", "condensed")
_ROWS_AT_ONCE = 32_768
_ROWS_PER_THREAD = 200_000  # sorting fewer takes less time than starting a thread


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular):
    """Values of metrics for one set of scores.

    Parameters
    ----------
    mean
        Mean over the queries, by metric as given.
    per_query
        Value of each query, in the order of ``query_ids``; NaN for skipped queries.
    query_ids
        Ids of the queries, ascending.
    ties, empty, unjudged
        The policies used.
    weights
        Query weights of the means, or None.

    Examples
    --------
    >>> result = evaluate([2, 1, 3], [0, 1, 1], qid=["b", "b", "a"], metrics=["mrr"])
    >>> print(result)
    mrr  0.7500
    >>> result
    <Evaluation of 2 queries: mrr 0.7500>
    >>> result.to_dataframe("polars").rows()
    [('a', 1.0), ('b', 0.5)]
    >>> result.query_ids.tolist(), result.per_query["mrr"].tolist()
    (['a', 'b'], [1.0, 0.5])
    """

    mean: dict[str, float]
    per_query: dict[str, NDArray[np.float64]]
    query_ids: NDArray[Any]
    ties: str
    empty: str
    weights: NDArray[np.float64] | None = None
    unjudged: str = "not-relevant"

    def _columns(self) -> dict[str, Any]:
        """Return a row per query: its id, its weight if there are weights, and the metrics."""
        columns: dict[str, Any] = {"qid": plain_ids(self.query_ids)}
        if self.weights is not None:
            columns["weight"] = self.weights
        return columns | self.per_query

    def _table(self) -> Table:
        skipped = max(int(np.isnan(values).sum()) for values in self.per_query.values())
        note = f"Means over {len(self.query_ids)} queries; ties: {self.ties}, "
        note += f"empty queries: {self.empty}"
        if skipped:
            note += f" ({skipped} skipped)"
        return Table("", ["metric", "mean"], list(self.mean.items()), f"{note}.")

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4f}" for name, value in self.mean.items())
        return f"<Evaluation of {len(self.query_ids)} queries: {means}>"

    def __str__(self) -> str:
        return str(Table("", ["", ""], list(self.mean.items())))


def evaluate(
    scores: ArrayLike,
    labels: Any,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
    ties: str = "worst",
    empty: str = "skip",
    unjudged: str = "not-relevant",
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate scores against labels, query by query.

    Parameters
    ----------
    scores, labels
        One per row; larger scores rank higher. Several labels are a dict or a data frame of them, by name. A label of
        NaN is missing: nobody judged the document.
    qid, group
        Which rows belong together: an id per row in any order, or sizes in row order.
    metrics
        Metrics or their text forms; a text may name several, as in ``"map ndcg@5"``. ``"ndcg@5[margin]"`` reads the
        label ``margin``, other metrics the first one; ``"ndcg@5 + 0.3 ndcg@5[margin]"`` is a weighted sum, over the
        queries with values of all its metrics.
    ties
        How ties are broken: ``"worst"`` ranks the lower label first (as in the papers), ``"best"`` the
        higher one, ``"expected"`` takes the exact mean over all orders, ``"input"`` keeps the row order.
    empty
        Queries in which no document has any gain: ``"skip"`` leaves them out of the mean, ``"zero"`` and
        ``"one"`` give them that value.
    unjudged
        How documents without a label count: ``"not-relevant"`` as label 0, ``"condensed"`` not at all, as if they were
        not in the list. The metric ``"judged@10"`` is the share of documents with a label.
    sample_weight
        Weights of the queries in the mean, one per query in order of first appearance, or one per row
        (constant within a query).
    n_jobs
        Number of threads; all cores by default. The result does not depend on it.

    Examples
    --------
    >>> result = evaluate([0.3, 0.3, 0.1], [0, 1, 1], qid=["a", "a", "b"], metrics=["ndcg", "mrr"])
    >>> result.per_query["mrr"].tolist(), result.mean["mrr"]     # the lower label is ranked first
    ([0.5, 1.0], 0.75)
    >>> labels = {"relevance": [0, 1, 1], "margin": [3, 0, 1]}
    >>> evaluate([3, 2, 1], labels, group=[3], metrics="mrr mrr[margin] mrr+mrr[margin]").mean
    {'mrr': 0.5, 'mrr[margin]': 1.0, 'mrr+mrr[margin]': 1.5}
    >>> lists = {"scores": [3, 2, 1], "labels": [None, 1, 0], "group": [3], "metrics": "mrr judged@2"}
    >>> evaluate(**lists).mean, evaluate(**lists, unjudged="condensed").mean
    ({'mrr': 0.5, 'judged@2': 0.5}, {'mrr': 1.0, 'judged@2': 0.5})
    """
    guards.check_order(scores, labels)
    bound = Evaluator(
        labels,
        qid=qid,
        group=group,
        metrics=metrics,
        ties=ties,
        empty=empty,
        unjudged=unjudged,
        weights=sample_weight,
        threads=n_jobs,
    )
    for text in metric_texts(metrics):
        for _, term in metric(text).terms():
            guards.check_gains(term, str(term), choose_label(bound.labels, term.label))
    return bound(scores)


def evaluate_data(
    scores: ArrayLike,
    data: RankingData,
    metrics: str | Metric | Sequence[str | Metric],
    **options: Any,
) -> Evaluation:
    """Evaluate scores of data by its labels, queries and weights; options are options of `evaluate`."""
    named: dict[str, Any] = {"group": data.group, "sample_weight": data.weights, "metrics": metrics}
    return evaluate(scores, data.labels, **named, **options)


class _Ranking(NamedTuple):
    """An order of the documents, and the numbers of the terms that are evaluated on it."""

    label: Floats  # breaks ties
    left_out: NDArray[np.bool_]  # documents that are not in the list; empty if all are
    terms: list[int]
    selecting: list[int]  # terms that select documents instead of ranking them

    def scores(self, scores: Floats) -> Floats:
        """Return scores that rank the documents of the list first, and select no others."""
        if not self.left_out.size:
            return scores
        lowest = np.finfo(np.float64).min
        return np.where(self.left_out, -np.inf, np.maximum(scores, lowest))


class Evaluator:
    """Metrics bound to labels, to be called with scores many times. Arguments as in `evaluate`.

    With a ``reducer`` the means are over the queries of all machines. Values per query are always of this machine.
    """

    def __init__(
        self,
        labels: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
        ties: str = "worst",
        empty: str = "skip",
        unjudged: str = "not-relevant",
        weights: ArrayLike | None = None,
        threads: int | None = None,
        reducer: Reducer = ALONE,
    ) -> None:
        checks.choice("ties", ties, TIES)
        checks.choice("empty", empty, EMPTY)
        checks.choice("unjudged", unjudged, UNJUDGED)
        metric_list = metric_texts(metrics)
        if not metric_list:
            raise ValueError("no metric to evaluate: name at least one, such as 'ndcg@10'.")
        self.ties, self.empty, self.unjudged = ties, empty, unjudged
        self._reducer = reducer
        self.queries = queries = Queries.of(number_of_rows(labels), qid, group)
        self.labels = grouped_labels(labels, queries)
        self.weights = None if weights is None else _query_weights(weights, queries)
        counted = queries.n_queries if self.weights is None else np.count_nonzero(self.weights)
        # Number of queries with weight on all machines.
        self._n_queries = int(reducer.sum(np.array([float(counted)]))[0])
        self._bind(metric_list)
        # Each range is a group of queries with an order that fits into the cache.
        sizes = queries.sizes.astype(np.float64)
        self._query_ranges = even_ranges(sizes, 1 + queries.n_rows // _ROWS_AT_ONCE)
        n_threads = min(available_threads(threads), 1 + queries.n_rows // _ROWS_PER_THREAD)
        self._thread_ranges = equal_ranges(len(self._query_ranges), n_threads)
        # If all scores of a query are equal, the expected value takes time with the square of its size.
        self._long = ties == "expected" and bool((sizes**2).sum() > LONG_WORK)

    def _bind(self, metrics: Sequence[str | Metric]) -> None:
        """Bind the terms of each metric to the label that they read."""
        # Factors and numbers of the terms, by the name of the metric.
        self._sums: dict[str, list[tuple[float, int]]] = {}
        self._chains: list[Chain] = []
        self._selecting: list[tuple[int, _Ranking]] = []
        # Ties are broken by the label that a metric reads, so each label has its own order of the documents.
        self._rankings: dict[tuple[str | None, bool], _Ranking] = {}
        for text in metrics:
            name = text.strip() if isinstance(text, str) else str(text)
            self._sums[name] = []
            for factor, term in metric(text).terms():
                number = len(self._chains)
                self._sums[name].append((factor, number))
                label = choose_label(self.labels, term.label)
                missing = np.isnan(label)
                check_any_judged(term.label, ~missing)
                key = (term.label, term.reads_missing)
                if key not in self._rankings:
                    self._rankings[key] = self._ranking(label, missing, term)
                ranking = self._rankings[key]
                if term.selects:
                    ranking.selecting.append(number)
                else:
                    ranking.terms.append(number)
                if term.reads_missing:
                    self._chains.append(term.bind(label, self.queries.boundaries))
                elif ranking.left_out.size:
                    self._chains.append(_condensed(term, label, self.queries.boundaries))
                else:
                    self._chains.append(term.bind(ranking.label, self.queries.boundaries))

    def _ranking(self, label: Floats, missing: NDArray[np.bool_], term: Metric) -> _Ranking:
        """Return the documents that a metric ranks, and the label that breaks its ties."""
        left_out = np.empty(0, dtype=bool)
        # To a metric about missing labels, a document with any label is better than one without.
        if term.reads_missing:
            return _Ranking((~missing).astype(np.float64), left_out, [], [])
        if self.unjudged == "condensed" and missing.any():
            left_out = missing
        return _Ranking(as_not_relevant(label), left_out, [], [])

    def __call__(self, scores: ArrayLike) -> Evaluation:
        """Evaluate scores, one per row."""
        z = _check_scores(scores, self.queries)
        # Threads write to ranges of these arrays that do not overlap.
        values = [np.empty(self.queries.n_queries) for _ in self._chains]
        ranked = [ranking.scores(z) for ranking in self._rankings.values()]
        run_ranges(partial(self._fill, ranked, values), self._thread_ranges, long=self._long)
        # A scale of 0 marks queries in which no document has any gain.
        for chain, term_values in zip(self._chains, values, strict=True):
            term_values[chain.scale == 0] = EMPTY[self.empty]
        per_query, mean = {}, {}
        for name, terms in self._sums.items():
            per_query[name] = np.sum([factor * values[term] for factor, term in terms], axis=0)
            mean[name] = _mean(name, per_query[name], self.weights, self._n_queries, self._reducer)
        return Evaluation(
            mean=mean,
            per_query=per_query,
            query_ids=self.queries.ids,
            ties=self.ties,
            empty=self.empty,
            weights=self.weights,
            unjudged=self.unjudged,
        )

    def _fill(self, scores: list[Floats], values: list[Floats], r0: int, r1: int) -> None:
        """Write the values of the query ranges [r0, r1)."""
        bounds, sizes = self.queries.boundaries, self.queries.sizes
        is_expected = self.ties == "expected"
        halt = stop_flag()
        for q0, q1 in self._query_ranges[r0:r1]:
            # All metrics of a ranking share the order, so that the documents are sorted once.
            order = np.empty(int(bounds[q1] - bounds[q0]), dtype=np.int64)
            for ranking, z in zip(self._rankings.values(), scores, strict=True):
                if ranking.terms:
                    deepest = max(self._chains[term].depth for term in ranking.terms)
                    ties = TIES[self.ties]
                    kernel.order_queries(q0, q1, bounds, z, ranking.label, ties, deepest, order)
                for term in ranking.terms:
                    chain, out = self._chains[term], values[term]
                    kernel.value_queries(
                        q0, q1, bounds, z, order, sizes, is_expected, chain, out, halt
                    )
                for term in ranking.selecting:
                    chosen = np.empty(self.queries.n_queries, dtype=np.int64)
                    kernel.select_queries(q0, q1, bounds, z, order, chosen)
                    chain, out = self._chains[term], values[term]
                    kernel.value_queries(q0, q1, bounds, z, order, chosen, False, chain, out, halt)


def _condensed(term: Metric, label: Floats, boundaries: NDArray[np.int64]) -> Chain:
    """Bind a metric to lists without the documents whose label is missing."""
    judged = ~np.isnan(label)
    sizes = np.add.reduceat(judged, boundaries[:-1], dtype=np.int64)
    counted = sizes > 0
    ends = np.cumsum(sizes[counted])
    chain = term.bind(label[judged], np.concatenate(([0], ends)))

    def of_rows(values: Floats, other: float) -> Floats:
        """Return values of all documents; ``other`` is for unjudged documents."""
        if not values.size:
            return values
        placed = np.full(len(label), other)
        placed[judged] = values
        return placed

    # Unjudged documents are ranked below all others, so positions at the end have no weight.
    longest = int(np.diff(boundaries).max())
    weight = np.zeros(longest + 2)
    weight[: len(chain.weight) - 2] = chain.weight[:-2]
    scale = np.zeros(len(sizes))
    scale[counted] = chain.scale
    return chain._replace(
        weight=weight,
        gain=of_rows(chain.gain, 0.0),
        cont=of_rows(chain.cont, 1.0),
        carry=of_rows(chain.carry, 0.0),
        scale=scale,
    )


def ranks_within_queries(scores: NDArray[np.float64], queries: Queries) -> NDArray[np.int64]:
    """Return the rank of each row within its query, 1 for the best; equal scores in row order.

    Examples
    --------
    >>> ranks_within_queries(np.array([0.1, 0.9, 0.5]), Queries.of(3, ["a", "b", "a"])).tolist()
    [2, 1, 1]
    """
    grouped = np.ascontiguousarray(queries.group(scores))
    order = np.empty(len(scores), dtype=np.int64)
    kernel.order_queries(
        0, queries.n_queries, queries.boundaries, grouped, grouped, kernel.INPUT, len(order), order
    )
    starts = np.repeat(queries.boundaries[:-1], queries.sizes)
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[starts + order] = np.arange(len(scores)) - starts + 1
    return queries.ungroup(ranks)


def _check_scores(scores: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    values = as_floats(scores, "scores must be numbers, one per row.")
    if values.shape != (queries.n_rows,):
        raise ValueError(
            f"scores have shape {values.shape} for {queries.n_rows} rows; give one per row."
        )
    values = np.ascontiguousarray(queries.group(values))
    # The minimum is NaN if any score is, without an array of flags for all rows.
    if np.isnan(values.min()):
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(
            f"the score at {queries.where(row)} is NaN and cannot be ranked; check the model's "
            "output."
        )
    return values


def _query_weights(weights: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    rows = queries.per_row(weights)
    first = rows[queries.boundaries[:-1]]
    differs = rows != np.repeat(first, queries.sizes)
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        raise ValueError(
            f"weights differ within a query ({queries.where(row)}), but a mean over queries needs "
            "one weight per query; give equal weights, or one per query."
        )
    return first


def _mean(
    name: str,
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    n_queries: int,
    reducer: Reducer,
) -> float:
    """Return the mean over the queries of all machines; NaN, with a warning, if no query has a value."""
    counted = ~np.isnan(values)
    weight = np.ones(len(values)) if weights is None else weights
    weight_sum = addable(weight[counted], n_queries, reducer).sum()
    value_sum = addable(values[counted] * weight[counted], n_queries, reducer).sum()
    sums = np.array([counted.sum(), weight_sum, value_sum], dtype=np.float64)
    n_counted, total_weight, total = reducer.sum(sums).tolist()
    if n_counted == 0:
        warnings.warn(
            f"{name}: no query has a relevant document, so the mean is NaN; check the labels or "
            "the metric's threshold.",
            stacklevel=4,
        )
        return float("nan")
    if total_weight == 0:
        raise ValueError(
            f"{name}: every query with a value has weight 0, so there is no mean; give positive "
            "weights."
        )
    return float(total / total_weight)
