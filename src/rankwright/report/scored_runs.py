"""Runs scored on test data: values per query, names of queries and documents, groups of queries, and ties."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rankwright.charts.parts import direction
from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import Evaluation, evaluate_data
from rankwright.evaluation.systems import System, numbered
from rankwright.metrics import Metric
from rankwright.report.page import shortened
from rankwright.runs import Run

Floats = NDArray[np.float64]
_METRICS = ("ndcg@10", "map")  # if there is no run whose training had metrics
TOP = 10  # positions that readers see first
_ID_LENGTH = 60


@dataclass(frozen=True, eq=False)
class ScoredRuns:
    """Runs scored and evaluated on test data.

    Parameters
    ----------
    names
        Names of the runs in the report; the first is the baseline.
    data
        Test data.
    scores
        Scores of its rows, for each run.
    evaluations
        Values of the metrics, for each run.
    """

    names: list[str]
    data: RankingData
    scores: list[Floats]
    evaluations: list[Evaluation]

    @classmethod
    def of(
        cls,
        systems: Sequence[Run | System],
        data: RankingData,
        metrics: str | Metric | Iterable[str | Metric] | None = None,
    ) -> ScoredRuns:
        """Score the data with every run and system; the default metrics are the metrics of the runs' training."""
        if metrics is None:
            runs = trained_runs(systems).values()
            metrics = {str(metric): None for run in runs for metric in run.ranker.metrics_}
        listed = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        rankers: list[Any] = [getattr(system, "ranker", system) for system in systems]
        scores = [ranker.predict(data) for ranker in rankers]
        # As in the means, documents without a label count as not relevant.
        data = data.with_unjudged_as_not_relevant()
        evaluations = [evaluate_data(values, data, listed or _METRICS) for values in scores]
        return cls(distinct_names(systems), data, scores, evaluations)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics; queries are compared by the first."""
        return list(self.evaluations[0].mean)

    @property
    def better(self) -> int:
        """1 if larger values of the first metric are better, -1 if smaller values are better."""
        return direction(self.metrics[0])

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """Indices of the queries that have a value of the first metric."""
        return np.flatnonzero(~np.isnan(self.evaluations[0].per_query[self.metrics[0]]))

    @cached_property
    def values(self) -> Floats:
        """Values of the first metric [runs, counted queries]."""
        return self.values_of(self.metrics[0])

    def values_of(self, metric: str) -> Floats:
        """Return the values of a metric for the counted queries [runs, queries]; NaN if a query has none."""
        return np.stack(
            [evaluation.per_query[metric][self.counted] for evaluation in self.evaluations]
        )

    @cached_property
    def relevant(self) -> NDArray[np.int64]:
        """Number of documents with a label above 0 [queries]."""
        return np.add.reduceat(self.data.y > 0, self.data.boundaries[:-1], dtype=np.int64)

    def query_id(self, query: int) -> str:
        """Return the id of a query, cut if it is long."""
        return shortened(str(self.data.query_ids[query]), _ID_LENGTH)

    @property
    def has_texts(self) -> bool:
        """Whether the data has the texts of the queries."""
        return "query_text" in self.data.fields

    def query_text(self, query: int) -> str:
        """Return the text of a query, cut if it is long; "" if the data has none."""
        if not self.has_texts:
            return ""
        text = self.data.fields["query_text"][self.data.boundaries[query]]
        return shortened(str(text), _ID_LENGTH)

    def document_ids(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the ids of rows; "" if the data has none."""
        if "docid" not in self.data.fields:
            return [""] * len(rows)
        ids = np.asarray(self.data.fields["docid"])[rows]
        return [shortened(str(name), _ID_LENGTH) for name in ids]

    def ranking(self, run: int, query: int, depth: int) -> NDArray[np.int64]:
        """Return the first rows of a query's ranking by a run.

        Ties are ranked as metrics rank them by default: the lower label first.
        """
        start, stop = self.data.boundaries[query : query + 2]
        scores, labels = self.scores[run][start:stop], self.data.y[start:stop]
        order: NDArray[np.int64] = start + np.lexsort((labels, -scores))[:depth]
        return order

    def mean_with_ties(self, run: int, ties: str) -> float:
        """Return the mean of the first metric with a tie policy of `evaluate`."""
        metric = self.metrics[0]
        return evaluate_data(self.scores[run], self.data, metric, ties=ties).mean[metric]


@dataclass(frozen=True)
class TieCounts:
    """Counts of equal scores within queries.

    Attributes
    ----------
    pairs, tied, tied_across_labels : int
        Pairs of documents of a query, pairs with equal scores, and pairs with equal scores but different labels.
    queries_at_top : int
        Queries in which one of the first ten documents has the same score as another document.
    """

    pairs: int
    tied: int
    tied_across_labels: int
    queries_at_top: int


def count_ties(data: RankingData, scores: Floats) -> TieCounts:
    """Count equal scores within the queries of the data."""
    query = data.queries.query_of_row
    by_label = np.lexsort((data.y, -scores, query))
    # In the order of queries and scores, equal scores are neighbours.
    same_query = query[by_label][1:] == query[by_label][:-1]
    same_score = same_query & (scores[by_label][1:] == scores[by_label][:-1])
    same_label = same_score & (data.y[by_label][1:] == data.y[by_label][:-1])
    position = np.arange(len(query)) - data.boundaries[query[by_label]]
    tied = _pairs_in_blocks(same_score)
    return TieCounts(
        pairs=int(np.sum(data.group * (data.group - 1) // 2)),
        tied=tied,
        tied_across_labels=tied - _pairs_in_blocks(same_label),
        queries_at_top=len(np.unique(query[by_label][:-1][same_score & (position[:-1] < TOP)])),
    )


def _pairs_in_blocks(same_block: NDArray[np.bool_]) -> int:
    """Count pairs within blocks of neighbours; ``same_block[i]`` says that i + 1 is in the block of i."""
    starts = np.flatnonzero(np.concatenate([[True], ~same_block, [True]]))
    sizes = np.diff(starts)
    return int(np.sum(sizes * (sizes - 1) // 2))


def groups_of(values: NDArray[Any], at_most: int = 6) -> list[tuple[str, NDArray[np.int64]]]:
    """Divide queries by a count into groups of about equal size: the range of each group as text, and its members."""
    # Quantiles that are values of the data, and each only once, so that equal counts stay together.
    shares = np.linspace(0, 1, at_most + 1)[1:]
    edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    group = np.searchsorted(edges, values)
    members = [np.flatnonzero(group == number) for number in range(len(edges))]
    return [(_range(values[rows].min(), values[rows].max()), rows) for rows in members if len(rows)]


def _range(low: Any, high: Any) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def mean_interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean and Student's 95 % interval; a single value has an interval of zero width."""
    mean = float(np.mean(values))
    n = len(values)
    if n < 2:
        return mean, mean, mean
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def trained_runs(systems: Sequence[Any]) -> dict[int, Run]:
    """Return the runs among the systems, by their numbers."""
    return {number: system for number, system in enumerate(systems) if hasattr(system, "ranker")}


def distinct_names(systems: Sequence[Run | System]) -> list[str]:
    """Return names of runs and systems; the parent folder, and then a number, make equal names distinct."""
    names = [getattr(system, "name", str(system)) for system in systems]
    # The names of a grid of runs are often equal, and their folders tell them apart.
    if len(set(names)) < len(names):
        for number, system in enumerate(systems):
            if hasattr(system, "path"):
                names[number] = f"{system.path.resolve().parent.name}/{names[number]}"
    return numbered(names)
