"""Quality against the number of judged queries, by repeated subsampling, to know if there are enough judgments."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.time import is_by_time, latest
from rankwright.evaluation.per_query import Evaluator
from rankwright.evaluation.significance import bootstrap_interval
from rankwright.evaluation.systems import System, check_data, system_names
from rankwright.metrics import Metric
from rankwright.support import checks
from rankwright.support.tables import Cell, Table, Tabular, columns_of, interval_text

Floats = NDArray[np.float64]

_RESAMPLES = 10_000
_SIZES = 5  # numbers of queries by default, each twice the one before


@dataclass(frozen=True)
class CurvePoint:
    """The quality of a system that was trained on a number of judged queries.

    Attributes
    ----------
    n_queries : int
        Training queries.
    system, metric : str
        Name of the system, and text of the metric.
    mean, low, high : float
        Mean over test queries, and its bootstrap interval. The value of a query is its mean over the repetitions in
        which it was a test query.
    difference, difference_low, difference_high : float
        Mean difference to the first system on the same test queries, and its interval.
    """

    n_queries: int
    system: str
    metric: str
    mean: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float


@dataclass(frozen=True)
class LearningCurve(Tabular):
    """Quality by number of judged queries, as returned by `learning_curve`; printing it shows a table.

    Attributes
    ----------
    points : tuple of CurvePoint
        A point for each metric, number of queries and system.
    repeats, test_queries, confidence
        Repetitions, test queries of each, and level of the intervals.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.RankingData([[2.0], [1.0]] * 4, [1, 0] * 4, group=[2] * 4, feature_names=["bm25"])
    >>> print(learning_curve(rw.column("bm25"), data, [2], repeats=1))
    metric   queries  system         mean      95% interval  difference        its interval
    ndcg@10        2  column:bm25  1.0000  [1.0000, 1.0000]     +0.0000  [+0.0000, +0.0000]
    Means over 1 random splits with 2 test queries each; differences to column:bm25 on the same queries.
    """

    points: tuple[CurvePoint, ...]
    repeats: int
    test_queries: int
    confidence: float

    def _table(self) -> Table:
        interval = f"{100 * self.confidence:g}% interval"
        header = ["metric", "queries", "system", "mean", interval, "difference", "its interval"]
        rows: list[list[Cell]] = []
        for point in self.points:
            rows.append(
                [
                    point.metric,
                    point.n_queries,
                    point.system,
                    f"{point.mean:.4f}",
                    interval_text(point.low, point.high),
                    f"{point.difference:+.4f}",
                    interval_text(point.difference_low, point.difference_high, "+"),
                ]
            )
        note = (
            f"Means over {self.repeats} random splits with {self.test_queries} test queries each; "
            f"differences to {self.points[0].system} on the same queries."
        )
        return Table("", header, rows, note)

    def _columns(self) -> dict[str, list[Any]]:
        return columns_of([asdict(point) for point in self.points])


def learning_curve(
    systems: Any,
    data: RankingData,
    queries: Sequence[int] | None = None,
    *,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10",
    repeats: int = 20,
    test_queries: int | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
    by: str | None = None,
    gap: float = 0.0,
) -> LearningCurve:
    """Measure quality against the number of judged queries, by repeated subsampling.

    In each repetition, test queries are drawn at random, and training queries from the rest: the smaller numbers are
    part of the larger. All systems are trained and evaluated on the same queries.

    Parameters
    ----------
    systems
        A `Ranker` or another system with ``fit`` and ``predict``, such as ``rw.rrf("bm25", "dense")``, or a dict of
        systems by name; the first is the one that the others are compared with. They are not changed.
    data
        All judged queries.
    queries
        Numbers of training queries. By default five numbers up to four fifths of the queries, each twice the one
        before.
    metrics
        Metrics, as for `evaluate`. Queries without a relevant document are left out.
    repeats
        Number of repetitions.
    test_queries
        Test queries of each repetition; by default all queries that the largest number of training queries leaves.
    confidence
        Level of the intervals, which are bootstrapped over queries.
    random_state
        The same seed gives the same splits.
    by, gap
        With ``by="time"`` the test queries are always the latest by the field ``time``, and training queries are drawn
        from the queries before them and before the ``gap``; see `RankingData.split`.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(40, kind="short", n_features=20, random_state=1)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0)
    >>> systems = {"today": rw.column(data.feature_names[4]), "learned": ranker}
    >>> curve = learning_curve(systems, data, [10, 20], repeats=2)
    >>> [(point.n_queries, point.system) for point in curve.points]
    [(10, 'today'), (10, 'learned'), (20, 'today'), (20, 'learned')]
    """
    check_data(data)
    named = _named(systems)
    before, latest_queries = _before_and_latest(data, test_queries, by, gap)
    sizes = _sizes(queries, len(before), leave_some=by is None)
    checks.whole("repeats", repeats, least=1)
    checks.whole("random_state", random_state, least=0)
    checks.fraction("confidence", confidence)
    n_test = data.n_queries - sizes[-1]
    if by is not None:
        n_test = len(latest_queries)
    elif test_queries is not None:
        n_test = checks.whole("test_queries", test_queries, least=1, most=n_test)
    # Values by metric, number of queries and system [repeats, queries].
    values: dict[tuple[str, int, str], Floats] = {}
    for repeat in range(repeats):
        # Random test queries come first, and the latest ones if the order is that of time.
        shuffled = np.random.default_rng([random_state, repeat]).permutation(before)
        if by is not None:
            shuffled = np.concatenate([latest_queries, shuffled])
        # Queries in ascending order, as a subset has them.
        tested = np.sort(shuffled[:n_test])
        test = data.subset(tested)
        evaluator = Evaluator(test.labels, group=test.group, metrics=metrics)
        for size in sizes:
            train = data.subset(shuffled[n_test : n_test + size])
            for name, system in named.items():
                scores = copy.copy(system).fit(train).predict(test)
                for metric, per_query in evaluator(scores).per_query.items():
                    table = values.setdefault(
                        (metric, size, name), np.full((repeats, data.n_queries), np.nan)
                    )
                    table[repeat, tested] = per_query
    points = _points(values, next(iter(named)), confidence, random_state)
    return LearningCurve(tuple(points), repeats, n_test, confidence)


def _before_and_latest(
    data: RankingData, test_queries: int | None, by: str | None, gap: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the queries to draw from, and the queries that are always tested on; none without times."""
    if not is_by_time(by, gap):
        return np.arange(data.n_queries), np.arange(0)
    n_test = data.n_queries - data.n_queries * 4 // 5
    if test_queries is not None:
        n_test = checks.whole("test_queries", test_queries, least=1, most=data.n_queries - 1)
    past, future = latest(data, n_test, gap)
    return np.flatnonzero(past), np.flatnonzero(future)


def _points(
    values: Mapping[tuple[str, int, str], Floats], first: str, confidence: float, seed: int
) -> list[CurvePoint]:
    """Return the points, all of a metric together."""
    means = {key: _query_means(table) for key, table in values.items()}
    points = []
    for metric in dict.fromkeys(metric for metric, _, _ in means):
        for (its_metric, size, name), own in means.items():
            if its_metric != metric:
                continue
            difference = own - means[metric, size, first]
            # All systems share the resamples, so that they are compared on the same queries.
            options = (None, _RESAMPLES, confidence, (seed, 0))
            low, high = bootstrap_interval(own, *options)
            interval = bootstrap_interval(difference, *options)
            points.append(
                CurvePoint(size, name, metric, own.mean(), low, high, difference.mean(), *interval)
            )
    return points


def _query_means(table: Floats) -> Floats:
    """Return the mean value of each query over the repetitions that have one."""
    count = np.count_nonzero(~np.isnan(table), axis=0)
    if not count.any():
        raise ValueError("no test query has a relevant document; check the labels.")
    return np.asarray(np.nansum(table, axis=0)[count > 0] / count[count > 0])


def _named(systems: Any) -> dict[str, Any]:
    """Return the systems by name; raise ArgumentError unless each can be trained."""
    if isinstance(systems, Mapping):
        named = {str(name): system for name, system in systems.items()}
    else:
        listed = systems if isinstance(systems, list | tuple) else [systems]
        named = dict(zip(system_names(listed), listed, strict=True))
    for name, system in named.items():
        if not isinstance(system, System) or not hasattr(system, "fit"):
            raise checks.ArgumentError(
                "systems",
                f"must have fit and predict, as Ranker() and rw.rrf() have; {name!r} is a "
                f"{type(system).__name__}.",
            )
    if not named:
        raise checks.ArgumentError("systems", "must be at least one.")
    return named


def _sizes(queries: Sequence[int] | None, n_queries: int, *, leave_some: bool) -> list[int]:
    """Return the numbers of training queries, ascending; with ``leave_some`` fewer than all."""
    if queries is None:
        largest = n_queries
        if leave_some:
            largest = n_queries * 4 // 5
        queries = [largest >> power for power in range(_SIZES) if largest >> power > 0]
    sizes = sorted({checks.whole("queries", size, least=1) for size in queries})
    if not leave_some:
        n_queries += 1
    if not sizes or sizes[-1] >= n_queries:
        raise checks.ArgumentError(
            "queries",
            f"must be numbers below {n_queries}, because the other queries are test queries, or in the gap before "
            f"them; got {list(queries)}.",
        )
    return sizes
