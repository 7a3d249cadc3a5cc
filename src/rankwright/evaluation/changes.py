"""Generalisation gap along the trees of a model, and changes of queries from one model to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.evaluation.comparison import PairedResult, compare
from rankwright.evaluation.per_query import Evaluation, evaluate
from rankwright.evaluation.staged import Floats, altair, frame, plain, ranker_of, stages, threads_of
from rankwright.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

    from rankwright.data.dataset import RankingData

_ROUNDING = 1e-12  # differences up to this are rounding errors, not another ranking


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
class GapCurve:
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
    >>> train, test = make_web_search(40, kind="short", seed=1).split(0.5)
    >>> ranker = Ranker(n_estimators=20, min_child_samples=5, verbose=0, n_jobs=1).fit(train)
    >>> curve = generalisation_gap(ranker, train, test, every=10)
    >>> [point.trees for point in curve.points], curve.points[-1].gap > 0
    ([10, 20], True)
    """

    points: tuple[GapPoint, ...]
    confidence: float

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per point."""
        return frame(asdict(point) for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, with each point as a dictionary."""
        return plain(asdict(self))  # type: ignore[no-any-return]

    def plot(self) -> Any:
        """Draw train - test over trees, with its interval; an Altair chart."""
        alt = altair()
        base = alt.Chart(alt.Data(values=[asdict(point) for point in self.points])).encode(
            x=alt.X("trees:Q", title="trees"),
            color=alt.Color("metric:N", legend=alt.Legend(orient="bottom")),
        )
        band = base.mark_area(opacity=0.2).encode(
            y=alt.Y("low:Q", title="train - test"), y2="high:Q"
        )
        line = base.mark_line().encode(
            y="gap:Q",
            tooltip=[
                "metric:N",
                "trees:Q",
                *(alt.Tooltip(f"{n}:Q", format=".4f") for n in _NUMBERS),
            ],
        )
        return band + line


_NUMBERS = ("train", "test", "gap", "low", "high")


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
        Metrics or their text forms; by default those of the model's training.
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
    >>> train, test = make_web_search(40, kind="short", seed=1).split(0.5)
    >>> ranker = Ranker(n_estimators=4, verbose=0, n_jobs=1).fit(train)
    >>> same = generalisation_gap(ranker, test, test, metrics=["map", "mrr"], every=4)
    >>> [(point.metric, point.gap) for point in same.points]
    [('map', 0.0), ('mrr', 0.0)]
    """
    from scipy.special import ndtri

    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}.")
    ranker = ranker_of(model)
    threads = threads_of(ranker, threads)
    metrics = ranker.metrics_ if metrics is None else metrics
    reach = float(ndtri((1 + confidence) / 2))
    points = []
    for (n_trees, train_scores), (_, test_scores) in zip(
        stages(ranker, train, every), stages(ranker, test, every), strict=True
    ):
        results = [
            evaluate(
                scores,
                data.labels,
                qid=data.qid,
                metrics=metrics,
                ties=ties,
                weights=data.weights,
                threads=threads,
            )
            for scores, data in ((train_scores, train), (test_scores, test))
        ]
        for name in results[0].mean:
            (a, error_a), (b, error_b) = (_mean_and_error(result, name) for result in results)
            half = reach * float(np.hypot(error_a, error_b))
            points.append(GapPoint(n_trees, name, a, b, a - b, a - b - half, a - b + half))
    return GapCurve(tuple(points), confidence)


def _mean_and_error(result: Evaluation, name: str) -> tuple[float, float]:
    """Return the mean over queries, and its standard error."""
    values = result.per_query[name]
    defined = ~np.isnan(values)
    if np.count_nonzero(defined) < 2:
        raise ValueError(f"{name}: fewer than 2 queries have a value; a gap needs at least 2.")
    weights = np.ones(len(values)) if result.weights is None else result.weights
    share = weights[defined] / weights[defined].sum()
    mean = result.mean[name]
    n = np.count_nonzero(share)
    return mean, float(
        np.sqrt(np.sum(share**2 * (values[defined] - mean) ** 2) * n / max(n - 1, 1))
    )


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
class QueryChanges:
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
        return np.where(np.abs(difference) <= _ROUNDING, 0.0, difference)

    def most(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the queries that change most, up or down."""
        change = self.change
        rows = np.argsort(-np.abs(change), kind="stable")[:n]
        return [self._row(int(q), change) for q in rows if change[q] != 0]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per query."""
        change = self.change
        return frame(self._row(q, change) for q in range(len(change)))

    def to_dict(self) -> dict[str, Any]:
        """Return the shares, the change of the mean and the queries that change most."""
        shares = {name: asdict(getattr(self, name)) for name in ("up", "same", "down")}
        facts = {"metric": self.metric, "names": list(self.names), "confidence": self.confidence}
        return plain({**facts, **shares, "overall": asdict(self.overall), "most": self.most()})  # type: ignore[no-any-return]

    def plot(self) -> Any:
        """Draw how many queries change by how much; an Altair chart."""
        alt = altair()
        values = [{"change": float(value)} for value in self.change if value != 0]
        return (
            alt.Chart(alt.Data(values=values))
            .mark_bar()
            .encode(
                x=alt.X(
                    "change:Q",
                    bin=alt.Bin(maxbins=41),
                    title=f"{self.metric}: {self.names[1]} - {self.names[0]}",
                ),
                y=alt.Y("count():Q", title="queries that change"),
                tooltip=[alt.Tooltip("change:Q", bin=alt.Bin(maxbins=41)), "count():Q"],
            )
        )

    def _row(self, q: int, change: Floats) -> dict[str, Any]:
        values = {
            "before": float(self.before[q]),
            "after": float(self.after[q]),
            "change": float(change[q]),
        }
        return {"query": plain(self.query_ids[q]), **values}


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

    chosen = next(iter(before.per_query)) if metric is None else str(metric)
    overall = compare(
        before, after, metrics=chosen, names=names, confidence=confidence, seed=seed
    ).rows[0]
    rows = {query: row for row, query in enumerate(after.query_ids.tolist())}
    second = after.per_query[chosen][[rows[query] for query in before.query_ids.tolist()]]
    first = before.per_query[chosen]
    compared = (
        ~np.isnan(first) if before.weights is None else ~np.isnan(first) & (before.weights > 0)
    )

    def share(count: int) -> Share:
        interval = binomtest(count, overall.n_queries).proportion_ci(confidence, method="wilson")
        return Share(count, count / overall.n_queries, float(interval.low), float(interval.high))

    return QueryChanges(
        query_ids=before.query_ids[compared],
        before=first[compared],
        after=second[compared],
        metric=chosen,
        names=names,
        up=share(overall.wins),
        same=share(overall.ties),
        down=share(overall.losses),
        overall=overall,
        confidence=confidence,
    )
