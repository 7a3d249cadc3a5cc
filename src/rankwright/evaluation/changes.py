"""The generalisation gap along the trees of a model, and the queries that change from one model to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.evaluation.comparison import PairedResult, compare
from rankwright.evaluation.per_query import Evaluation, evaluate
from rankwright.evaluation.significance import ROUNDING, Floats
from rankwright.metrics import Metric
from rankwright.support import checks
from rankwright.support.tables import Cell, Table, Tabular, columns_of, interval_text

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData


@dataclass(frozen=True)
class GapPoint:
    """Metric on training and test data after some trees: a row of a `GapCurve`.

    Attributes
    ----------
    trees : int
        Number of trees.
    metric : str
        Text of the metric.
    train, test, gap : float
        Means over the queries, and train - test.
    low, high : float
        Interval of the gap, with the queries of both sets as random samples.
    """

    trees: int
    metric: str
    train: float
    test: float
    gap: float
    low: float
    high: float


@dataclass(frozen=True)
class GapCurve(Tabular):
    """The generalisation gap along the trees of a model, as measured by `generalisation_gap`.

    Parameters
    ----------
    points
        One per stage and metric.
    confidence
        Level of the intervals.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> train, test = make_web_search(40, kind="short", random_state=1).split(0.5)
    >>> ranker = Ranker(n_estimators=20, min_child_samples=5, verbose=0, n_jobs=1).fit(train)
    >>> curve = generalisation_gap(ranker, train, test, every=10)
    >>> [point.trees for point in curve.points], curve.points[-1].gap > 0
    ([10, 20], True)
    """

    points: tuple[GapPoint, ...]
    confidence: float

    def _columns(self) -> dict[str, Any]:
        """Return a row per point."""
        return columns_of([vars(point) for point in self.points])

    def _table(self) -> Table:
        rows: list[list[Cell]] = []
        for p in self.points:
            interval = interval_text(p.low, p.high, "+")
            rows.append([p.metric, p.trees, p.train, p.test, f"{p.gap:+.4f}", interval])
        interval_title = f"{100 * self.confidence:g}% interval"
        return Table("", ["metric", "trees", "training", "test", "gap", interval_title], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, with each point as a dictionary."""
        return asdict(self)


def generalisation_gap(
    model: Any,
    train: RankingData,
    test: RankingData,
    *,
    metrics: str | Metric | Sequence[str | Metric] | None = None,
    every: int = 1,
    ties: str = "worst",
    confidence: float = 0.95,
    threads: int | None = None,
) -> GapCurve:
    """Measure metrics on training and test data after each of a model's trees.

    Parameters
    ----------
    model
        A fitted `Ranker`, or a run that holds one.
    train, test
        Data to compare; query weights are used.
    metrics
        Metrics or their text forms; by default the metrics of the model's training.
    every
        Number of trees between two points.
    ties
        As in `rankwright.evaluate`.
    confidence
        Level of the interval of the gap: normal, from the spread over the queries of each set.
    threads
        Number of threads; the model's ``n_jobs`` by default.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> train, test = make_web_search(40, kind="short", random_state=1).split(0.5)
    >>> ranker = Ranker(n_estimators=4, verbose=0, n_jobs=1).fit(train)
    >>> same = generalisation_gap(ranker, test, test, metrics=["map", "mrr"], every=4)
    >>> [(point.metric, point.gap) for point in same.points]
    [('map', 0.0), ('mrr', 0.0)]
    """
    from scipy.special import ndtri

    checks.fraction("confidence", confidence)
    ranker = ranker_of(model)
    options: dict[str, Any] = {
        "metrics": ranker.metrics_ if metrics is None else metrics,
        "ties": ties,
        "n_jobs": threads_of(ranker, threads),
    }
    reach = float(ndtri((1 + confidence) / 2))
    points = []
    both = zip(stages(ranker, train, every), stages(ranker, test, every), strict=True)
    for (n_trees, train_scores), (_, test_scores) in both:
        seen, unseen = (
            evaluate(scores, data.labels, qid=data.qid, sample_weight=data.weights, **options)
            for scores, data in ((train_scores, train), (test_scores, test))
        )
        for name in seen.mean:
            # The two sets of queries are independent, so their squared errors add up.
            a, error_a = _mean_and_error(seen, name)
            b, error_b = _mean_and_error(unseen, name)
            half = reach * float(np.hypot(error_a, error_b))
            points.append(GapPoint(n_trees, name, a, b, a - b, a - b - half, a - b + half))
    return GapCurve(tuple(points), confidence)


def ranker_of(model: Any) -> Any:
    """Return the ranker of a run, or the ranker itself."""
    ranker = getattr(model, "ranker", model)
    if not hasattr(ranker, "staged_predict"):
        raise ValueError(
            f"expected a fitted Ranker, or a run that holds one; got a {type(model).__name__}."
        )
    return ranker


def threads_of(ranker: Any, threads: int | None) -> int | None:
    """Return the given number of threads, or else the ranker's number; None for all cores."""
    if threads is None and ranker.n_jobs not in (None, -1):
        return int(ranker.n_jobs)
    return threads


def stages(ranker: Any, data: RankingData, every: int) -> Iterator[tuple[int, Floats]]:
    """Yield the number of trees and the scores after ``every`` trees, twice as many, and so on up to all trees."""
    n_trees = ranker.forest_.n_trees
    for number, scores in enumerate(ranker.staged_predict(data, every=every), start=1):
        yield min(number * every, n_trees), scores


def _mean_and_error(result: Evaluation, name: str) -> tuple[float, float]:
    """Return the mean over queries, and its standard error."""
    values = result.per_query[name]
    defined = ~np.isnan(values)
    if np.count_nonzero(defined) < 2:
        raise ValueError(f"{name}: fewer than 2 queries have a value; a gap needs at least 2.")
    weights = result.weights
    if weights is None:
        weights = np.ones(len(values))
    # Queries of weight 0 do not count as observations.
    share = weights[defined] / weights[defined].sum()
    mean = result.mean[name]
    n = np.count_nonzero(share)
    variance = np.sum(share**2 * (values[defined] - mean) ** 2) * n / max(n - 1, 1)
    return mean, float(np.sqrt(variance))


@dataclass(frozen=True)
class Share:
    """A share of the queries, with Wilson's interval.

    Parameters
    ----------
    count
        Number of queries.
    share, low, high
        Their share, and its interval.
    """

    count: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class QueryChanges(Tabular):
    """How queries change from one model to another, as measured by `query_changes`.

    Parameters
    ----------
    query_ids
        Ids of the compared queries, in the order of the first evaluation [queries].
    before, after
        Values of the two models [queries].
    metric, names
        Text of the metric, and the names of the models.
    up, same, down
        Shares of the queries that rise, stay the same and fall.
    overall
        The change of the mean, with its interval and tests.
    confidence
        Level of the intervals.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> labels, qid = [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3]
    >>> a = evaluate([1, 0, 0, 1, 1, 0], labels, qid=qid, metrics=["mrr"])
    >>> b = evaluate([1, 0, 1, 0, 0, 1], labels, qid=qid, metrics=["mrr"])
    >>> changes = query_changes(a, b)
    >>> changes.up.count, changes.same.count, changes.down.count
    (1, 1, 1)
    >>> changes.most(1)
    [{'query': 2, 'before': 0.5, 'after': 1.0, 'change': 0.5}]
    """

    query_ids: NDArray[Any]
    before: Floats
    after: Floats
    metric: str
    names: tuple[str, str]
    up: Share
    same: Share
    down: Share
    overall: PairedResult
    confidence: float

    @property
    def change(self) -> Floats:
        """After - before [queries]; rounding errors count as 0."""
        difference = self.after - self.before
        return np.where(np.abs(difference) <= ROUNDING, 0.0, difference)

    def _columns(self) -> dict[str, Any]:
        """Return a row per query."""
        return {
            "query": self.query_ids.tolist(),
            "before": self.before.tolist(),
            "after": self.after.tolist(),
            "change": self.change.tolist(),
        }

    def _table(self) -> Table:
        rows: list[list[Cell]] = []
        for name in ("up", "same", "down"):
            share = getattr(self, name)
            interval = f"[{share.low:.1%}, {share.high:.1%}]"
            rows.append([name, share.count, f"{share.share:.1%}", interval])
        header = [self.metric, "queries", "share", f"{100 * self.confidence:g}% interval"]
        return Table("", header, rows, f"From {self.names[0]} to {self.names[1]}.")

    def most(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the queries that change most, up or down."""
        columns = self._columns()
        order = np.argsort(-np.abs(self.change), kind="stable")[:n]
        return [
            {name: values[place] for name, values in columns.items()}
            for place in order
            if self.change[place] != 0
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the shares, the change of the mean and the queries that change most."""
        facts = {"metric": self.metric, "names": list(self.names), "confidence": self.confidence}
        shares = {name: asdict(getattr(self, name)) for name in ("up", "same", "down")}
        return {**facts, **shares, "overall": asdict(self.overall), "most": self.most()}


def query_changes(
    before: Evaluation,
    after: Evaluation,
    *,
    metric: str | None = None,
    names: tuple[str, str] = ("before", "after"),
    confidence: float = 0.95,
    seed: int = 0,
) -> QueryChanges:
    """Find which queries change from one model to another, and by how much.

    Parameters
    ----------
    before, after
        Evaluations of the two models, on the same queries and with the same policies.
    metric
        Name of a metric of the evaluations; the first by default.
    names
        Names of the models.
    confidence
        Level of the intervals: bootstrap for the change of the mean (`rankwright.compare`), Wilson's for shares.
    seed
        Seed of the bootstrap and of the randomisation test.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> labels, qid = [1, 0, 1, 0], [1, 1, 2, 2]
    >>> a, b = (evaluate(z, labels, qid=qid, metrics=["mrr"]) for z in ([1, 0, 0, 1], [1, 0, 1, 0]))
    >>> query_changes(a, b).overall.difference
    0.25
    """
    from scipy.stats import binomtest

    metric = next(iter(before.per_query)) if metric is None else str(metric)
    options: dict[str, Any] = {"confidence": confidence, "random_state": seed}
    overall = compare(before, after, metrics=metric, names=names, **options).rows[0]
    places = {query: place for place, query in enumerate(after.query_ids.tolist())}
    # The second evaluation may have the queries in another order.
    first = before.per_query[metric]
    second = after.per_query[metric][[places[query] for query in before.query_ids.tolist()]]
    compared = ~np.isnan(first)
    if before.weights is not None:
        compared &= before.weights > 0

    def share(count: int) -> Share:
        interval = binomtest(count, overall.n_queries).proportion_ci(confidence, method="wilson")
        return Share(count, count / overall.n_queries, float(interval.low), float(interval.high))

    return QueryChanges(
        query_ids=before.query_ids[compared],
        before=first[compared],
        after=second[compared],
        metric=metric,
        names=names,
        up=share(overall.wins),
        same=share(overall.ties),
        down=share(overall.losses),
        overall=overall,
        confidence=confidence,
    )
