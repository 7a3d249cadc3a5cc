"""Per-query values and means of metrics, with ties and empty queries treated as you say."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, check_labels
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.threads import available_threads, even_ranges, run_ranges
from rankwright.metrics import Metric, metric
from rankwright.reducer import ALONE, Reducer

TIES = {
    "worst": kernel.WORST,
    "best": kernel.BEST,
    "expected": kernel.EXPECTED,
    "input": kernel.INPUT,
}
EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}
_ROWS_AT_ONCE = 32_768
_ROWS_WORTH_A_THREAD = 200_000  # fewer are ordered before another thread has woken up


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values of metrics for one set of scores.

    Parameters
    ----------
    mean
        Mean over the queries, by metric as it was written.
    per_query
        Value of each query, in the order of ``query_ids``; NaN where a query was skipped.
    query_ids
        Ids of the queries, ascending.
    ties, empty
        The policies that were used.
    weights
        Query weights of the means, or None.

    Examples
    --------
    >>> result = evaluate([2, 1, 3], [0, 1, 1], qid=["b", "b", "a"], metrics=["mrr"])
    >>> print(result)
    mrr  0.7500
    >>> result.query_ids.tolist(), result.per_query["mrr"].tolist()
    (['a', 'b'], [1.0, 0.5])
    """

    mean: dict[str, float]
    per_query: dict[str, NDArray[np.float64]]
    query_ids: NDArray[Any]
    ties: str
    empty: str
    weights: NDArray[np.float64] | None = None

    def __str__(self) -> str:
        width = max(len(name) for name in self.mean)
        return "\n".join(f"{name:<{width}}  {value:.4f}" for name, value in self.mean.items())


def evaluate(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
    ties: str = "worst",
    empty: str = "skip",
    weights: ArrayLike | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Evaluate scores against labels, query by query.

    Parameters
    ----------
    scores, labels
        One per row; larger scores rank higher.
    qid, group
        Which rows belong together: an id per row in any order, or sizes in row order.
    metrics
        Metrics or their text forms; they share one sort.
    ties
        Where documents have equal scores: ``"worst"`` puts the lower label first (the papers' choice),
        ``"best"`` the higher one, ``"expected"`` takes the exact mean over all orders, ``"input"``
        keeps the rows' order.
    empty
        Queries in which no document can earn anything: ``"skip"`` leaves them out of the mean, ``"zero"``
        and ``"one"`` count them as such.
    weights
        Weights of the queries in the mean, one per query in order of first appearance, or one per row
        (constant within a query).
    threads
        Number of threads; all cores by default. The result does not depend on it.

    Examples
    --------
    >>> result = evaluate([0.3, 0.3, 0.1], [0, 1, 1], qid=["a", "a", "b"], metrics=["ndcg", "mrr"])
    >>> result.per_query["mrr"].tolist(), result.mean["mrr"]     # the tie is resolved against us
    ([0.5, 1.0], 0.75)
    """
    bound = Evaluator(
        labels, qid=qid, group=group, metrics=metrics, ties=ties, empty=empty, weights=weights, threads=threads
    )
    return bound(scores)


class Evaluator:
    """Metrics bound to labels: call it with scores, as often as they change. Arguments as in `evaluate`.

    With a ``reducer`` the means are those over all machines, the values per query those of this one.
    """

    def __init__(
        self,
        labels: ArrayLike,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
        ties: str = "worst",
        empty: str = "skip",
        weights: ArrayLike | None = None,
        threads: int | None = None,
        reducer: Reducer = ALONE,
    ) -> None:
        if ties not in TIES:
            raise ValueError(f"unknown tie policy {ties!r}; choose one of {', '.join(TIES)}.")
        if empty not in EMPTY:
            raise ValueError(f"unknown policy for empty queries {empty!r}; choose one of {', '.join(EMPTY)}.")
        wanted = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        if not wanted:
            raise ValueError("no metric to evaluate: name at least one, such as 'ndcg@10'.")
        named = {text.strip() if isinstance(text, str) else str(text): metric(text) for text in wanted}
        self.ties, self.empty = ties, empty
        self._reducer = reducer
        self.queries = queries = Queries.of(np.size(labels), qid, group)
        self.labels = check_labels(labels, queries)
        self.weights = None if weights is None else _query_weights(weights, queries)
        self._chains = {name: one.bind(self.labels, queries.boundaries) for name, one in named.items()}
        self._ranking = [name for name, one in named.items() if not one.selects]
        self._selecting = [name for name, one in named.items() if one.selects]
        self._deepest = max((self._chains[name].depth for name in self._ranking), default=0)
        # Stretches of queries whose order fits into the cache, and which of them a thread takes.
        sizes = queries.sizes.astype(np.float64)
        self._stretches = even_ranges(sizes, 1 + queries.n_rows // _ROWS_AT_ONCE)
        n_threads = min(available_threads(threads), 1 + queries.n_rows // _ROWS_WORTH_A_THREAD)
        self._shares = even_ranges(np.ones(len(self._stretches)), n_threads)

    def __call__(self, scores: ArrayLike) -> Evaluation:
        """Evaluate scores, one per row."""
        z = _check_scores(scores, self.queries)
        per_query = {name: np.empty(self.queries.n_queries) for name in self._chains}
        run_ranges(partial(self._fill, z, per_query), self._shares)
        mean = {}
        for name, values in per_query.items():
            values[self._chains[name].scale == 0] = EMPTY[self.empty]
            mean[name] = _mean(name, values, self.weights, self._reducer)
        return Evaluation(
            mean=mean,
            per_query=per_query,
            query_ids=self.queries.ids,
            ties=self.ties,
            empty=self.empty,
            weights=self.weights,
        )

    def _fill(self, z: NDArray[np.float64], per_query: dict[str, NDArray[np.float64]], s0: int, s1: int) -> None:
        """Write the values of the stretches [s0, s1)."""
        bounds, sizes = self.queries.boundaries, self.queries.sizes
        for q0, q1 in self._stretches[s0:s1]:
            order = np.empty(int(bounds[q1] - bounds[q0]), dtype=np.int64)
            if self._ranking:
                kernel.order_queries(q0, q1, bounds, z, self.labels, TIES[self.ties], self._deepest, order)
            for name in self._ranking:
                expected = self.ties == "expected"
                kernel.value_queries(q0, q1, bounds, z, order, sizes, expected, self._chains[name], per_query[name])
            for name in self._selecting:
                kept = np.empty(self.queries.n_queries, dtype=np.int64)
                kernel.select_queries(q0, q1, bounds, z, order, kept)
                kernel.value_queries(q0, q1, bounds, z, order, kept, False, self._chains[name], per_query[name])


def _check_scores(scores: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (queries.n_rows,):
        raise ValueError(f"scores have shape {values.shape} for {queries.n_rows} rows; give one per row.")
    values = np.ascontiguousarray(queries.group(values))
    if np.isnan(values.min()):
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"a score is NaN and cannot be ranked: {queries.where(row)}. Check the model's output.")
    return values


def _query_weights(weights: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    rows = queries.per_row(weights)
    firsts = rows[queries.boundaries[:-1]]
    if np.any(rows != np.repeat(firsts, queries.sizes)):
        row = int(np.flatnonzero(rows != np.repeat(firsts, queries.sizes))[0])
        raise ValueError(
            f"weights differ within a query ({queries.where(row)}), but a mean over queries needs one per "
            "query; give one weight per query."
        )
    return firsts


def _mean(name: str, values: NDArray[np.float64], weights: NDArray[np.float64] | None, reducer: Reducer) -> float:
    counted = ~np.isnan(values)
    weight = np.ones(len(values)) if weights is None else weights
    local = (counted.sum(), weight[counted].sum(), (values[counted] * weight[counted]).sum())
    n_counted, total_weight, total = reducer.sum(np.array(local, dtype=np.float64)).tolist()
    if n_counted == 0:
        warnings.warn(
            f"{name}: no query has a relevant document, so there is no mean; check the labels or the "
            "metric's threshold.",
            stacklevel=4,
        )
        return float("nan")
    if total_weight == 0:
        raise ValueError(f"{name}: every query that counts has weight 0, so there is no mean; give positive weights.")
    return float(total / total_weight)
