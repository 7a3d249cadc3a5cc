"""Guards against mistakes that train or measure nonsense without an error.

Each looks at arrays once, without copies of the features, and warns with the remedy. Data that are
merely unusual must pass: a guard asks for evidence that innocent data hardly ever give.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import as_dense, is_sparse
from rankwright.data.queries import Queries
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

Floats = NDArray[np.float64]

_MOST_GRADE = 30  # a gain of 2^30 is the largest of LightGBM too
_MANY_ROWS = 1000
_MANY_LEVELS = 1000
_HEAD = 64  # rows that rule out most columns, and the fewest that prove anything
_FEW_QUERIES = 50
_SAMPLED_QUERIES = 1000


def check_data(data: RankingData) -> None:
    """Warn if rows of the training data look wrongly grouped, or if a feature gives the label away."""
    _check_sizes(data.queries)
    if data.queries.numbered:
        _check_sorted(data)
    if data.label_names:
        _check_leaks(data, data.y, "the label", "the model would only repeat it")
    if data.qid.dtype.kind in "iuf" and not data.queries.numbered:
        _check_leaks(data, data.qid.astype(float), "the query id", "new queries have other ids")


def _check_sizes(queries: Queries) -> None:
    largest = int(np.argmax(queries.sizes))
    size = int(queries.sizes[largest])
    if size > _MANY_ROWS and size > queries.n_rows / 2:
        _warn(
            f"query {queries.ids[largest]} has {size:,} of the {queries.n_rows:,} rows. Documents "
            "are only compared within a query: give the id of each row's own query as qid."
        )


def _check_sorted(data: RankingData) -> None:
    """Warn if rows with given sizes of queries look shuffled: nothing differs between the queries.

    In shuffled rows the means of the queries differ as much as means of random rows, for the labels
    and for every column.
    """
    sizes = data.group[:_SAMPLED_QUERIES]
    n_queries, n_rows = len(sizes), int(sizes.sum())
    if n_queries < _FEW_QUERIES or n_rows < 4 * n_queries or is_sparse(data.X):
        return
    starts = data.boundaries[:n_queries]
    error = np.sqrt(2 / (n_queries - 1))  # standard error of the ratio in shuffled rows
    for values in (data.y[:n_rows], *data.X[:n_rows].T):
        centred = values - values.mean()
        between = np.sum(np.add.reduceat(centred, starts) ** 2 / sizes) / (n_queries - 1)
        variance = centred @ centred / n_rows
        # Columns with missing values prove nothing, and neither do constant columns.
        if variance > 0 and abs(between / variance - 1) > 5 * error:
            return
    _warn(
        "group gives sizes of queries, but neither labels nor any column differ more between these "
        "queries than between random rows. If the rows are not sorted by query, pass the query id "
        "of each row as qid."
    )


def _check_leaks(data: RankingData, values: Floats, what: str, why: str) -> None:
    """Warn if a column equals values of the rows."""
    judged = np.flatnonzero(~np.isnan(values))
    high = np.flatnonzero(values == np.nanmax(values))
    head = np.concatenate([judged[: _HEAD // 2], high[: _HEAD // 2]])
    # Few rows, or few different values, are equal by chance.
    if len(judged) < _HEAD or np.all(values[head] == values[head[0]]):
        return
    same = np.all(as_dense(data.X[head]) == values[head, None], axis=0)
    for column in np.flatnonzero(same):
        if np.array_equal(as_dense(data.X[:, [column]]).ravel()[judged], values[judged]):
            name = data.feature_names[column]
            _warn(f"feature {name!r} equals {what} in every row, and {why}; leave the column out.")


def check_gains(metric: Any, name: str, label: Floats, *, optimised: bool = False) -> None:
    """Warn if a metric cannot tell documents apart by their labels, or only the highest labels.

    With ``optimised`` a metric that is the same for every ranking is an error.
    """
    label = label[~np.isnan(label)]
    if len(label) == 0 or metric.reads_missing:
        return
    most, least = label.max(), label.min()
    # A subclass may have gains of its own.
    exponential = most > _MOST_GRADE and getattr(metric, "gain", "") == "exponential"
    if exponential and metric.gains(np.array([most]))[0] > 2**_MOST_GRADE:
        _warn(
            f"{name} has the gain 2^r - 1 and labels up to {most:g}, so the largest labels alone "
            f"decide. Use grades such as 0 to 4, or {metric.name}(gain=linear)."
        )
    threshold = getattr(metric, "threshold", None)
    if threshold is None or most == least or least < threshold <= most or len(label) < _HEAD:
        return
    share = "every one" if least >= threshold else "none"
    problem = (
        f"{share} of the {len(label):,} documents is relevant to {name}: labels are from {least:g} to "
        f"{most:g}, and relevant from {threshold:g}."
    )
    remedy = f"choose a threshold in between, such as {metric.name}(threshold={_between(label):g})."
    if optimised:
        raise ArgumentError("metric", f"must differ between rankings; {remedy}", problem=problem)
    _warn(f"{problem} C{remedy[1:]}")


def _between(label: Floats) -> float:
    """Return the lowest label above the median, or the highest label."""
    above = label[label > np.median(label)]
    return float(above.min() if len(above) else label.max())


def check_rate(learning_rate: float | None) -> None:
    """Warn if a step overshoots by far."""
    if learning_rate is not None and learning_rate > 1:
        _warn(
            f"learning_rate={learning_rate:g} goes past the best step of each tree, so scores grow "
            "without limit. Use 0.02 to 0.3, or None to let the data choose."
        )


def check_order(scores: Any, labels: Any) -> None:
    """Warn if scores and labels look swapped: grades as scores, and fractions as labels."""
    try:
        grades, numbers = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    except (TypeError, ValueError):  # several labels, or values that are refused later
        return
    if grades.ndim != 1 or grades.shape != numbers.shape or len(grades) < _HEAD:
        return
    # Grades are whole numbers with few values. Most data leave here at the first rows.
    for part in (slice(_HEAD), slice(None)):
        if not np.all((grades[part] >= 0) & (grades[part] == np.trunc(grades[part]))):
            return
    whole = np.mean(numbers == np.trunc(numbers))
    if grades.max() <= _MOST_GRADE and grades.max() > grades.min() and whole < 0.1:
        _warn(
            f"scores are whole numbers from {grades.min():g} to {grades.max():g} and labels are "
            "fractions, so they look swapped: scores come first, then labels."
        )


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """What later calls compare with the training data: its queries, and the ranges of its columns.

    Parameters
    ----------
    ids, sizes
        Id of each query, and its number of rows.
    names, low, high
        Names of the columns, and the least and the largest value of each. Names are empty if there
        are none, or if the rows are not in memory.
    """

    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    names: list[str]
    low: Floats
    high: Floats

    @classmethod
    def of(cls, data: RankingData) -> TrainedOn:
        """Describe training data."""
        if not data.named or is_sparse(data.X) or isinstance(data.X, np.memmap):
            return cls(data.query_ids, data.group, [], np.empty(0), np.empty(0))
        low, high = np.fmin.reduce(data.X), np.fmax.reduce(data.X)
        return cls(data.query_ids, data.group, data.feature_names, low, high)

    def check_new_queries(self, queries: Queries, what: str, *, watched: bool = False) -> None:
        """Warn if queries to evaluate, or parts of them, were trained on.

        Numbers that count from 0 or 1 are only taken for the same queries if their sizes go together.
        The whole training set is evaluated on purpose, unless early stopping watches it.
        """
        try:
            common, mine, theirs = np.intersect1d(self.ids, queries.ids, return_indices=True)
        except TypeError:  # ids of several types have no order
            return
        whole = len(common) == len(self.ids) == queries.n_queries
        same = whole and np.array_equal(self.sizes[mine], queries.sizes[theirs])
        if len(common) < 2 or (same and not watched):
            return
        if _counts(self.ids) or _counts(queries.ids):
            pairs = self.sizes[mine], queries.sizes[theirs]
            if len(common) < 20 or not all(np.ptp(part) for part in pairs):
                return
            if np.corrcoef(*pairs)[0, 1] < 0.5:
                return
        _warn(
            f"{len(common):,} of the {queries.n_queries:,} queries of {what} were trained on, so values "
            "are too good. Split by query: RankingData.split, or GroupKFold and groups=qid in "
            "scikit-learn. For users with later events held out, name their time (time=)."
        )

    def check_order(self, X: Any) -> None:
        """Warn if the columns of an array without names are likely in another order."""
        if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or not self.names:
            return
        if X.ndim != 2 or X.shape[1] != len(self.names) or len(X) < _HEAD:
            return
        middle = np.sort(X[:_MANY_ROWS], axis=0)[len(X[:_MANY_ROWS]) // 2]
        strange = np.flatnonzero((middle < self.low) | (middle > self.high))
        if 2 * len(strange) > len(self.names):
            first = ", ".join(map(repr, self.names[:3]))
            _warn(
                f"X has no names of columns, and {len(strange)} of {len(self.names)} columns have "
                f"values that the training data did not have, for example {self.names[strange[0]]!r}. "
                f"Its columns must have the order of the training data, {first} and so on; or give "
                "a data frame."
            )


def _counts(ids: NDArray[Any]) -> bool:
    """Return True if ids may be row numbers of queries: whole numbers from 0 or 1 without large gaps."""
    return ids.dtype.kind in "iu" and ids.min() in (0, 1) and ids.max() <= 2 * len(ids)


def check_levels(name: str, n_levels: int, n_rows: int) -> None:
    """Warn if a column of categories has ids or texts, which hardly recur."""
    if n_levels > _MANY_LEVELS and n_levels * 10 > n_rows:
        _warn(
            f"column {name!r} has {n_levels:,} categories in {n_rows:,} rows. Ids and texts do not "
            "recur in new data: drop the column, or replace it by a number such as a count or score."
        )


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
