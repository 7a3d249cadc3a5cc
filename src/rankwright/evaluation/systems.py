"""Systems that are not models: a column of the data, reciprocal rank fusion, and weighted sums of columns.

They answer the first question of every team: is a model better than the scores that rank today?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import shown
from rankwright.data.dataset import RankingData
from rankwright.data.documents import document_names, numbered_names
from rankwright.data.queries import as_floats
from rankwright.data.trec import TrecRun
from rankwright.data.within_query import RRF_OFFSET, ranks_of_columns
from rankwright.evaluation.per_query import Evaluator
from rankwright.metrics import metric as parse_metric
from rankwright.support import checks

Floats = NDArray[np.float64]

SCALES = ("minmax", "z")
_SHARES = np.linspace(0, 1, 51)  # of a column in a weighted sum
_ROUNDS = 5  # of the search for weights, over all columns


@runtime_checkable
class System(Protocol):
    """A `Ranker`, a `Model`, or a system of this module."""

    def predict(self, X: Any) -> Floats:
        """Return a score for each row."""


class _OfColumns:
    """A system that scores documents by columns of the data.

    Parameters
    ----------
    kind
        The name of the system in texts.
    columns
        Names of features or of fields.
    """

    def __init__(self, kind: str, columns: Sequence[str]) -> None:
        for name in columns:
            if not isinstance(name, str) or not name:
                raise checks.ArgumentError("columns", f"must be names of columns; got {name!r}.")
        if len(set(columns)) < len(columns):
            raise checks.ArgumentError("columns", f"must differ; got {', '.join(columns)}.")
        self.kind = kind
        self.columns = tuple(columns)

    def fit(self, X: RankingData) -> Self:
        """Return the system: there is nothing to learn."""
        return self

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(self.columns)}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _matrix(self, data: RankingData) -> Floats:
        return np.column_stack([column_values(data, name) for name in self.columns])


class Column(_OfColumns):
    """Documents ranked by a column; see `column`."""

    def predict(self, X: RankingData) -> Floats:
        """Return the values of the column; missing values are below all others."""
        return missing_last(column_values(X, self.columns[0]))


class ReciprocalRankFusion(_OfColumns):
    """Documents ranked by reciprocal ranks; see `rrf`."""

    def __init__(self, columns: Sequence[str], k: float) -> None:
        super().__init__("rrf", columns)
        self.k = k

    def predict(self, X: RankingData) -> Floats:
        """Return the sum of 1 / (k + rank) over the columns that have a value for the document."""
        ranks = ranks_of_columns(self._matrix(X), X.boundaries)
        fused: Floats = np.nansum(1 / (self.k + ranks), axis=1)
        return fused


class Linear(_OfColumns):
    """Documents ranked by a weighted sum of columns; see `linear`.

    Attributes
    ----------
    weights_ : dict
        Weight of each column; None before `fit`, unless weights were given.
    scale_ : str
        ``"minmax"`` or ``"z"``.
    """

    def __init__(
        self,
        columns: Sequence[str],
        weights: Sequence[float] | None,
        scale: str | None,
        metric: str,
    ) -> None:
        super().__init__("linear", columns)
        self.scale, self.metric = scale, parse_metric(metric)
        self.scale_ = scale or SCALES[0]
        self.weights_: dict[str, float] | None = None
        if weights is not None:
            self.weights_ = dict(zip(columns, weights, strict=True))
        self._given = self.weights_

    def fit(self, X: RankingData) -> Self:
        """Choose the weights, and the scale if none was given, that are best on training queries."""
        if self._given is not None:
            return self
        weights = X.weights if X.one_weight_per_query else None
        evaluator = Evaluator(X.labels, group=X.group, metrics=[self.metric], weights=weights)
        best, self.weights_ = -np.inf, None
        for scale in [self.scale] if self.scale else SCALES:
            scaled = scaled_within_queries(self._matrix(X), X, scale)
            value, shares = _best_shares(scaled, evaluator, self.metric.higher_is_better)
            if value > best:
                best, self.scale_ = value, scale
                self.weights_ = dict(zip(self.columns, shares.tolist(), strict=True))
        if self.weights_ is None:
            raise ValueError(
                f"{self}: no training query has a relevant document to choose weights by; check "
                "the labels."
            )
        return self

    def predict(self, X: RankingData) -> Floats:
        """Return the weighted sum of the scaled columns."""
        if self.weights_ is None:
            raise ValueError(
                f"{self} has no weights yet; call fit(train), or give weights, for example "
                f"linear({dict.fromkeys(self.columns, 1.0)})."
            )
        scaled = scaled_within_queries(self._matrix(X), X, self.scale_)
        total: Floats = scaled @ np.array(list(self.weights_.values()))
        return total


class RunFile:
    """The ranking of a TREC run file.

    Parameters
    ----------
    run
        The run. It names documents by the field ``docid``, or QID-1, QID-2, ... in the order of the rows.
    name
        Name of the system.
    """

    def __init__(self, run: TrecRun, name: str) -> None:
        self.run = run
        self.name = name

    def fit(self, X: RankingData) -> Self:
        """Return the system: there is nothing to learn."""
        return self

    def predict(self, X: RankingData) -> Floats:
        """Return the scores of the run; documents that it did not retrieve come last."""
        run = self.run
        row_of = _row_numbers(X, document_names(X))
        if (run.qid[0], run.docno[0]) not in row_of:
            # The run may name the documents by their rows although the data has ids.
            row_of = _row_numbers(X, numbered_names(X))
        scores = np.full(X.n_rows, np.nan)
        retrieved = zip(run.qid.tolist(), run.docno.tolist(), run.score.tolist(), strict=True)
        for qid, docno, score in retrieved:
            if (qid, docno) not in row_of:
                raise ValueError(
                    f"the data has no document {docno!r} of query {qid!r}, and the run {run.tag!r} retrieved "
                    "it. The run must name the documents as `predict` does: by their ids (--docid), or QID-1, "
                    "QID-2, ... in the order of the rows."
                )
            scores[row_of[qid, docno]] = score
        return missing_last(scores)


def column(name: str) -> Column:
    """Rank documents by a column of the data, for example by the score that ranks today.

    Parameters
    ----------
    name
        A feature or a field of the data; larger values rank higher, and missing values come last.

    Examples
    --------
    >>> data = RankingData([[1.0], [3.0], [np.nan]], [0, 1, 0], qid=[5, 5, 5], feature_names=["bm25"])
    >>> column("bm25").predict(data).argsort()[::-1].tolist()
    [1, 0, 2]
    """
    return Column("column", [name])


def rrf(*columns: str, k: float = RRF_OFFSET) -> ReciprocalRankFusion:
    """Rank documents by reciprocal rank fusion: the sum of 1 / (k + rank) over columns.

    Equal values share the mean of their ranks. A missing value adds nothing.

    Parameters
    ----------
    columns
        Features or fields of the data, at least two; larger values rank higher.
    k
        The constant, 60 in the paper.

    Examples
    --------
    >>> X = [[9.0, 0.2], [8.0, 0.9], [np.nan, 0.8]]
    >>> data = RankingData(X, [0, 1, 0], qid=[5, 5, 5], feature_names=["bm25", "dense"])
    >>> fused = rrf("bm25", "dense")
    >>> str(fused), (1 / fused.predict(data)).round(2).tolist()
    ('rrf:bm25,dense', [30.99, 30.75, 62.0])
    """
    checks.number("k", k, least=0)
    _check_several("rrf", columns)
    return ReciprocalRankFusion(columns, k)


def linear(
    *columns: str | Mapping[str, float], scale: str | None = None, metric: str = "ndcg@10"
) -> Linear:
    """Rank documents by a weighted sum of columns that are scaled within each query.

    ``fit`` chooses the weights that are best on training queries.

    Parameters
    ----------
    columns
        Features or fields of the data, at least two; or a dict of weights by column, if they are known.
    scale
        ``"minmax"``: (x - min) / (max - min) of the query. ``"z"``: (x - mean) / standard deviation. None lets ``fit``
        choose; with known weights it is ``"minmax"``. A missing value counts as the lowest value of the query.
    metric
        The metric that the weights maximise.

    Examples
    --------
    >>> X = [[9.0, 0.2], [8.0, 0.9], [1.0, 0.8], [5.0, 0.1], [2.0, 0.7]]
    >>> data = RankingData(X, [0, 1, 0, 0, 1], qid=[5, 5, 5, 6, 6], feature_names=["bm25", "dense"])
    >>> fused = linear("bm25", "dense", metric="mrr").fit(data)
    >>> fused.weights_["dense"] > fused.weights_["bm25"]
    True
    >>> linear({"bm25": 0.25, "dense": 1}).predict(data).round(3).tolist()
    [0.25, 1.219, 0.857, 0.25, 1.0]
    """
    if scale is not None:
        checks.choice("scale", scale, SCALES)
    weights = None
    if len(columns) == 1 and isinstance(columns[0], Mapping):
        weights = [checks.number(f"weight of {name!r}", w) for name, w in columns[0].items()]
        columns = tuple(columns[0])
    _check_several("linear", columns)
    return Linear([*columns], weights, scale, metric)  # type: ignore[list-item]


def read_system(
    text: str, metric: str = "ndcg@10"
) -> Column | ReciprocalRankFusion | Linear | None:
    """Read a system from its text, such as ``rrf:bm25,dense``; None if the text has no such form.

    ``metric`` chooses the weights of ``linear:bm25,dense``.

    Examples
    --------
    >>> read_system("column:bm25"), read_system("linear:bm25=0.3,dense=1"), read_system("bm25.run")
    (<column:bm25>, <linear:bm25,dense>, None)
    """
    kind, _, rest = text.partition(":")
    names = [name.strip() for name in rest.split(",")]
    if kind == "column":
        return column(rest)
    if kind == "rrf":
        return rrf(*names)
    if kind != "linear":
        return None
    if "=" not in rest:
        return linear(*names, metric=metric)
    weights: dict[str, float] = {}
    for part in names:
        name, _, number = part.partition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            raise ValueError(
                f"{text}: {part!r} is not of the form COLUMN=WEIGHT; give a weight for each column "
                "or for none."
            ) from None
    return linear(weights)


def system_names(systems: Sequence[Any]) -> list[str]:
    """Name systems by their texts, and rankers by their classes; equal names get numbers.

    Examples
    --------
    >>> system_names([column("bm25"), column("bm25"), object()])
    ['column:bm25', 'column:bm25 (2)', 'object']
    """
    names = [
        str(system) if isinstance(system, _OfColumns) else type(system).__name__
        for system in systems
    ]
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """Add a number to a name from its second occurrence.

    Examples
    --------
    >>> numbered(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


def check_data(data: Any) -> None:
    """Raise ArgumentError unless this is `RankingData`, whose columns and queries systems need."""
    if not isinstance(data, RankingData):
        raise checks.ArgumentError(
            "data",
            "must be RankingData, for example of rw.combine, rw.read_data or rw.RankingData(X, y, "
            f"qid=qid); got a {type(data).__name__}.",
        )


def column_values(data: RankingData, name: str) -> Floats:
    """Return a column of the data by name, in the order of its rows; missing values are NaN."""
    if name in data.fields:
        values = as_floats(
            data.fields[name], f"column {name!r} must hold numbers to rank documents by."
        )
    elif name not in data.feature_names:
        raise ValueError(
            f"{name!r} is not a column of the data to rank by; it has "
            f"{shown([*data.feature_names, *data.fields])}."
        )
    elif name in data.categories:
        raise ValueError(f"column {name!r} holds categories, which have no order to rank by.")
    else:
        values = data.X[:, [data.feature_names.index(name)]]
        if hasattr(values, "toarray"):
            values = values.toarray()
    return np.array(values, dtype=np.float64).ravel()


def missing_last(scores: Floats) -> Floats:
    """Replace missing scores by a score below all others."""
    known = scores[~np.isnan(scores)]
    last = 0.0
    if len(known):
        # Any score below the others does; this is the largest such score.
        last = float(np.nextafter(known.min(), -np.inf))
    return np.where(np.isnan(scores), last, scores)


def scaled_within_queries(matrix: Floats, data: RankingData, scale: str) -> Floats:
    """Scale columns within each query; missing values count as the lowest value of the query, or 0 without values."""
    starts, sizes = data.boundaries[:-1], data.group
    low = np.fmin.reduceat(matrix, starts, axis=0)
    shift = low
    if scale == "minmax":
        spread = np.fmax.reduceat(matrix, starts, axis=0) - low
    else:
        count = np.add.reduceat(~np.isnan(matrix), starts, axis=0, dtype=np.int64)
        count = np.maximum(count, 1)
        shift = np.add.reduceat(np.nan_to_num(matrix), starts, axis=0) / count
        distance = np.nan_to_num(matrix - np.repeat(shift, sizes, axis=0))
        spread = np.sqrt(np.add.reduceat(distance**2, starts, axis=0) / count)
    # If all values are equal, none is better than another.
    spread = np.where(spread > 0, spread, np.inf)
    filled = np.where(np.isnan(matrix), np.repeat(low, sizes, axis=0), matrix)
    scaled = (filled - np.repeat(shift, sizes, axis=0)) / np.repeat(spread, sizes, axis=0)
    return np.asarray(np.nan_to_num(scaled))


def _best_shares(scaled: Floats, evaluator: Evaluator, higher: bool) -> tuple[float, Floats]:
    """Return the best value of the metric, and the shares of the columns, which sum to 1.

    The search starts with equal shares, and chooses the best share of one column after the other.
    """
    sign = 1.0 if higher else -1.0
    n_columns = scaled.shape[1]

    def value_of(shares: Floats) -> float:
        (mean,) = evaluator(scaled @ shares).mean.values()
        return sign * mean

    shares = np.full(n_columns, 1 / n_columns)
    best = value_of(shares)
    for _ in range(_ROUNDS):
        before = best
        for number in range(n_columns):
            candidates = [_with_share(shares, number, share) for share in _SHARES]
            values = np.array([value_of(candidate) for candidate in candidates])
            if values.max() > best:
                # The middle of the best shares, because its neighbours are good too.
                places = np.flatnonzero(values == values.max())
                best, shares = float(values.max()), candidates[places[len(places) // 2]]
        if best == before:
            break
    return best, shares


def _with_share(shares: Floats, number: int, share: float) -> Floats:
    """Return the shares with another share of one column; the others keep their proportions."""
    others = np.delete(shares, number)
    if others.sum() == 0:
        others = np.ones_like(others)
    return np.insert(others * (1 - share) / others.sum(), number, share)


def _check_several(kind: str, columns: Sequence[Any]) -> None:
    if len(columns) < 2:
        raise checks.ArgumentError(
            "columns",
            f"of {kind} must be at least two, such as bm25 and dense; got {len(columns)}.",
        )


def _row_numbers(data: RankingData, names: list[str]) -> dict[tuple[str, str], int]:
    queries = map(str, data.qid.tolist())
    return {pair: row for row, pair in enumerate(zip(queries, names, strict=True))}
