"""Importance of a column as the loss of the metric when its values are shuffled within each query.

Shuffling within queries keeps the information of a column about a query, and removes its information about the
documents of the query, because only this information can order them. Draws are a function of (seed, query key, column,
repeat).

Reference: Breiman, Machine Learning, 2001, section 10, who shuffles over all rows. Departs from it: within queries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import Evaluator
from rankwright.evaluation.significance import bootstrap_interval, mean
from rankwright.kernels.random import UNIFORM, noise_by_query, stream_of
from rankwright.metrics import Metric
from rankwright.support.tables import Table, Tabular, interval_text

Floats = NDArray[np.float64]
_RESAMPLES = 2000
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class PermutationImportance(Tabular):
    """By how much the metric gets worse when a column is shuffled within queries, the most important first.

    Attributes
    ----------
    metric : str
        The metric.
    value : float
        Its mean with all columns as they are.
    features : list of str
        Columns, by descending loss.
    losses : ndarray
        Mean loss of each column over queries and repeats; negative if shuffling helped [columns].
    low, high : ndarray
        Interval of the loss, by bootstrap over queries [columns].
    repeats, confidence
        Shuffles of each column, and the confidence of the intervals.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, n_features=25, random_state=1)
    >>> result = rw.Ranker(n_estimators=5, verbose=0).fit(data).permutation_importance(data, repeats=2)
    >>> len(result.features), bool(np.all(np.diff(result.losses) <= 0))
    (25, True)
    """

    metric: str
    value: float
    features: list[str]
    losses: Floats
    low: Floats
    high: Floats
    repeats: int
    confidence: float

    def _columns(self) -> dict[str, Any]:
        """Return a row per column."""
        return {"feature": self.features, "loss": self.losses, "low": self.low, "high": self.high}

    def _table(self) -> Table:
        columns = zip(*self._columns().values(), strict=True)
        rows = [
            [name, f"{loss:+.4f}", interval_text(low, high, "+")]
            for name, loss, low, high in columns
        ]
        header = ["feature", f"loss of {self.metric}", f"{100 * self.confidence:g}% interval"]
        note = f"{self.metric} is {self.value:.4f}; {self.repeats} shuffles of each column."
        if len(self.features) > _SHOWN:
            note += f" {len(self.features) - _SHOWN} more columns."
        return Table("", header, rows[:_SHOWN], note)


def permutation_importance(
    score: Callable[[RankingData], Floats],
    data: RankingData,
    metric: Metric,
    *,
    columns: Sequence[int],
    used: NDArray[np.bool_],
    repeats: int,
    random_state: int,
    confidence: float,
    threads: int,
    verbose: int,
) -> PermutationImportance:
    """Shuffle columns one at a time.

    Parameters
    ----------
    score
        Function from data to the scores of its rows.
    data
        Queries that the model was not trained on.
    metric
        The metric that may get worse.
    columns
        Numbers of the columns to shuffle.
    used
        Whether the model looks at a column at all; shuffling another column has no effect [all columns].
    repeats, random_state, confidence, threads, verbose
        As in `Ranker.permutation_importance`.
    """
    from rich.console import Console
    from rich.progress import track

    # Draws must not depend on the order of the rows.
    data = data.canonical(n_jobs=threads)
    evaluator = Evaluator(
        data.labels, group=data.group, metrics=[metric], weights=data.weights, threads=threads
    )
    name = str(metric)
    sign = 1.0 if metric.higher_is_better else -1.0
    start = evaluator(score(data))
    before = start.per_query[name]
    counted = ~np.isnan(before)
    weight = None if start.weights is None else start.weights[counted]
    rows: list[tuple[float, float, float]] = []
    console = Console(stderr=True, markup=False)
    for column in track(columns, "columns", console=console, transient=True, disable=not verbose):
        if not used[column]:
            # No tree looks at the column, so the scores stay the same.
            rows.append((0.0, 0.0, 0.0))
            continue
        losses_of_repeats = []
        for repeat in range(repeats):
            after = evaluator(score(_shuffled(data, column, random_state, repeat))).per_query[name]
            losses_of_repeats.append(sign * (before - after)[counted])
        # Queries are the sample of the bootstrap, so the repeats of a query are averaged first.
        loss = np.mean(losses_of_repeats, axis=0)
        interval = bootstrap_interval(loss, weight, _RESAMPLES, confidence, (random_state, column))
        rows.append((mean(loss, weight), *interval))
    order = np.argsort([-loss for loss, _, _ in rows], kind="stable")
    losses, low, high = np.array(rows)[order].T
    return PermutationImportance(
        metric=name,
        value=start.mean[name],
        features=[data.feature_names[columns[i]] for i in order],
        losses=losses,
        low=low,
        high=high,
        repeats=repeats,
        confidence=confidence,
    )


def _shuffled(data: RankingData, column: int, seed: int, repeat: int) -> RankingData:
    """Return the data with one column shuffled within queries."""
    queries = data.queries
    draws = np.empty(data.n_rows)
    stream = stream_of(seed, column, repeat)
    noise_by_query(
        0, queries.n_queries, queries.boundaries, queries.keys, UNIFORM, stream, 0, draws
    )
    # Sorted by query and then by the draws, the rows of each query are in a random order.
    order = np.lexsort((draws, queries.query_of_row))
    shuffled = copy.copy(data)
    import scipy.sparse as sp

    if not sp.issparse(data.X):
        shuffled.X = np.array(data.X)
        shuffled.X[:, column] = data.X[order, column]
        return shuffled
    # A column of a CSR matrix cannot be replaced in place, so the matrix is put together from its parts.
    by_column = data.X.tocsc()
    parts = [by_column[:, :column], data.X[order][:, [column]].tocsc(), by_column[:, column + 1 :]]
    shuffled.X = sp.hstack(parts).tocsr()
    return shuffled
