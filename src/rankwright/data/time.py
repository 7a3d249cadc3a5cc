"""The time of queries: the field ``time``, cuts between past and future, and folds in the order of time.

Times are numbers of any unit, or dates: NumPy's and Python's dates and datetimes, and text such as
``2026-01-31``. Dates are counted in days, so a gap is a number of days.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries, is_missing
from rankwright.support import checks
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]

TIME = "time"
_MICROSECONDS_OF_DAY = 86_400e6


class _Times(NamedTuple):
    """The first and the last time of each query, and the time of each row as it was given."""

    first: NDArray[np.float64]
    last: NDArray[np.float64]
    given: NDArray[Any]


def is_by_time(by: str | None, gap: float) -> bool:
    """Check the options ``by`` and ``gap``, and return whether queries are divided by time."""
    if by not in (None, TIME):
        raise ArgumentError("by", f"must be 'time' or None; got {by!r}.")
    if by is None and gap:
        raise ArgumentError("gap", "is a time, so it needs by='time'; leave it out.")
    checks.number("gap", gap, least=0)
    return by == TIME


def latest(data: RankingData, n_queries: int, gap: float) -> Masks:
    """Return masks of the queries before a cut, and of the latest queries, at least so many.

    Queries of the same time stay together. Queries in the gap before the cut are in neither mask.
    """
    times = _times_of(data)
    cut = np.sort(times.first)[data.n_queries - n_queries]
    return _around(data, times, cut, np.inf, gap)


def forward_folds(data: RankingData, number: int, gap: float) -> Iterator[Masks]:
    """Yield masks of the queries to train on and to test on, for each of several folds.

    The queries are divided into one block more than there are folds. Each block but the first is
    tested on once, after a training on the queries before it.
    """
    times = _times_of(data)
    places = [round(data.n_queries * block / (number + 1)) for block in range(1, number + 1)]
    # A cut is a time and not a place, so that queries of the same time are on the same side.
    cuts = np.sort(times.first)[places]
    if len(np.unique(cuts)) < number or cuts[0] == times.first.min():
        n_times = len(np.unique(times.first))
        raise ArgumentError(
            "folds",
            f"must be fewer: queries of the same time stay together, and {n_times} different times "
            f"do not make {number + 1} blocks.",
        )
    for cut, end in zip(cuts, [*cuts[1:], np.inf], strict=True):
        yield _around(data, times, cut, end, gap)


def warn_of_mixed_times(data: RankingData, part_of_query: NDArray[np.int64]) -> None:
    """Warn if random parts have the same query text at different times.

    Such queries share most of their documents, so a model that saw one of them is tested on what it
    has learned by heart.
    """
    if not {TIME, "query_text"} <= data.fields.keys():
        return
    times = _times_of(data).first
    # All rows of a query have its text.
    texts = data.fields["query_text"][data.boundaries[:-1]].astype(str)
    _, text = np.unique(texts, return_inverse=True)
    n_mixed = int(np.sum(_varies(times, text) & _varies(part_of_query, text)))
    if n_mixed:
        warnings.warn(
            f"{n_mixed} query texts have queries at several times, and random parts put some on each "
            "side, so values on held-out queries are too good; use by='time' or folds='time'.",
            UserWarning,
            stacklevel=4,
        )


def _varies(values: NDArray[Any], group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the queries of each group have different values."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sorted_values = values[order]
    lowest = np.minimum.reduceat(sorted_values, starts)
    return np.asarray(lowest < np.maximum.reduceat(sorted_values, starts))


def _around(data: RankingData, times: _Times, cut: float, end: float, gap: float) -> Masks:
    """Return masks of the queries before a cut, and of the queries from the cut to an end."""
    for edge in (cut, end):
        on_both_sides = (times.first < edge) & (times.last >= edge)
        if on_both_sides.any():
            query = int(np.argmax(on_both_sides))
            rows = times.given[data.boundaries[query] : data.boundaries[query + 1]]
            raise ValueError(
                f"query {data.query_ids.tolist()[query]!r} has rows from {min(rows)} to {max(rows)}, on both "
                "sides of a cut by time; give the rows of each time a query id of their own."
            )
    past = times.last < cut - gap
    future = (times.first >= cut) & (times.first < end)
    if gap == 0:
        # Subtracting 0 could round, and no query at the cut may be on both sides.
        past = times.first < cut
    if not past.any():
        raise ArgumentError(
            "gap",
            f"must be smaller, or the test part: with {gap:g} no query is early enough to train on.",
        )
    return past, future


def _times_of(data: RankingData) -> _Times:
    if TIME not in data.fields:
        raise ArgumentError(
            TIME,
            "must be given, as an argument of fit or as RankingData(..., fields={'time': ...}).",
            problem="splits and folds by time need the time of each row;",
        )
    given = data.fields[TIME]
    numbers = _numbers(given, data.queries)
    starts = data.boundaries[:-1]
    return _Times(np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts), given)


def _numbers(values: NDArray[Any], queries: Queries) -> NDArray[np.float64]:
    """Return times as numbers: dates as days."""
    if values.dtype.kind == "M":
        numbers = values.astype("datetime64[us]").astype(np.float64) / _MICROSECONDS_OF_DAY
        numbers[np.isnat(values)] = np.nan
    elif values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
    else:
        # Few times are different, so each is read once.
        known: dict[Any, float] = {}
        for row, value in enumerate(values.tolist()):
            if value not in known:
                known[value] = _number(value, queries.where(row))
        numbers = np.array([known[value] for value in values.tolist()])
        # A missing value says nothing about the kind of the others.
        present = [value for value, number in known.items() if not np.isnan(number)]
        if len({isinstance(value, Real) for value in present}) > 1:
            raise ArgumentError(TIME, "must be numbers or dates, and not both.")
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise ArgumentError(
            TIME, f"is missing ({values[row]}) at {queries.where(row)}; give a time for each row."
        )
    return numbers


def _number(value: Any, where: str) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise ArgumentError(
            TIME, f"must be numbers or dates such as 2026-01-31; got {value!r} at {where}."
        )
    # A time without a zone counts as UTC, so that the zone of the machine has no effect.
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() * 1e6 / _MICROSECONDS_OF_DAY
