"""Click logs as training data.

A document without a click says something only if it was examined, and a log does not show that. Two readings:

* ``examined_only=True`` takes a user to have read from the top to the last click (Joachims, KDD 2002: a click is
  preferred to the documents skipped above it). Documents below are left out, and so are lists without a click.
* ``examined_only=False`` keeps every document that was shown. A label is then an observed click rate, not a judgement:
  made for trainings that correct the position bias, which need the clicks that did not happen as well.

With propensities there is a third: a document was examined Σ θ times in expectation, θ the propensity of the position
of each of its shows, so that its clicks divided by Σ θ estimate its relevance, wherever it stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.cells import sums_by
from rankwright.data.dataset import RankingData

if TYPE_CHECKING:
    from rankwright.clicks.log import ClickLog

Floats = NDArray[np.float64]


def training_data(
    log: ClickLog,
    by: Literal["query", "session"],
    smoothing: float,
    examined_only: bool | None,
    weights: Literal["queries", "rows"] | None,
    propensity: Floats | None,
) -> RankingData:
    """Return a log as ranking data; see `ClickLog.to_data`."""
    if by not in ("query", "session"):
        raise ValueError(f"by must be 'query' or 'session'; got {by!r}.")
    if weights not in (None, "queries", "rows"):
        raise ValueError(f"weights must be 'queries', 'rows' or None; got {weights!r}.")
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(
            f"smoothing is a number of impressions, finite and non-negative; got {smoothing}."
        )
    if propensity is not None and (examined_only or by == "session"):
        raise ValueError(
            "propensities correct the click rates of all shown documents of a query; leave out examined_only and by."
        )
    if by == "session" and weights == "rows":
        raise ValueError(
            "by='session' has a row for each impression, so weights='rows' has no meaning; leave it out."
        )
    if propensity is None and examined_only is None:
        examined_only = True
    rows = np.flatnonzero(examined(log)) if examined_only else np.arange(log.n_rows)
    if len(rows) == 0:
        raise ValueError("the log has no click, so nothing can be learned from it.")
    if propensity is not None:
        return _corrected(log, propensity, smoothing, weights)
    if by == "query":
        return _by_query(log, rows, smoothing, weights)
    if smoothing:
        raise ValueError(
            "smoothing is about click rates, but by='session' has clicks; use by='query'."
        )
    return _by_session(log, rows)


def examined(log: ClickLog) -> NDArray[np.bool_]:
    """Return the rows that stand at or above the last click of their list."""
    last_click = np.zeros(log.n_impressions, dtype=np.int64)
    np.maximum.at(last_click, log.impression, np.where(log.click, log.position, 0))
    flags: NDArray[np.bool_] = log.position <= last_click[log.impression]
    return flags


def _by_query(
    log: ClickLog, rows: NDArray[np.int64], smoothing: float, weights: str | None
) -> RankingData:
    """One row for each document and position of a query: its click rate."""
    data = log.require_data("to_data")
    keys = np.stack((log.queries.query_of_row, log.document, log.position))[:, rows]
    cells, cell = np.unique(keys, axis=1, return_inverse=True)
    cell = cell.ravel()
    query, document, position = cells
    shows = np.bincount(cell).astype(np.float64)
    clicks = np.bincount(cell, weights=log.click[rows])
    at_position = position - 1
    mean_rate = np.bincount(at_position, clicks) / np.maximum(np.bincount(at_position, shows), 1.0)
    rate = (clicks + smoothing * mean_rate[at_position]) / (shows + smoothing)
    counts = {
        None: None,
        "rows": shows,
        "queries": log.impressions_by_query[query].astype(np.float64),
    }[weights]
    fields = {
        "position": position,
        "impressions": shows.astype(np.int64),
        "clicks": clicks.astype(np.int64),
    }
    return data.with_rows(
        data.X[document], rate, log.queries.ids[query], counts, _with_own(data, document, fields)
    )


def _corrected(
    log: ClickLog, propensity: Floats, smoothing: float, weights: str | None
) -> RankingData:
    """One row for each document of a query: its clicks over its expected examinations."""
    data = log.require_data("to_data")
    document, first, row = np.unique(log.document, return_index=True, return_inverse=True)
    n = len(document)
    shows, clicks, examinations = (
        sums_by(row, v, n) for v in (np.ones(log.n_rows), log.click, propensity)
    )
    mean = clicks.sum() / examinations.sum()
    rate = np.minimum((clicks + smoothing * mean) / (examinations + smoothing), 1.0)
    query = log.queries.query_of_row[first]
    counts = {
        None: None,
        "rows": shows,
        "queries": log.impressions_by_query[query].astype(np.float64),
    }[weights]
    fields = {
        "impressions": shows.astype(np.int64),
        "clicks": clicks.astype(np.int64),
        "examinations": examinations,
    }
    return data.with_rows(
        data.X[document], rate, log.queries.ids[query], counts, _with_own(data, document, fields)
    )


def _by_session(log: ClickLog, rows: NDArray[np.int64]) -> RankingData:
    """One query for each impression."""
    data = log.require_data("to_data")
    document = log.document[rows]
    ids = np.array(
        [f"{query}/{session}" for query, session in zip(*_starts(log), strict=True)], dtype=object
    )
    if len(set(ids)) < len(ids):
        raise ValueError(
            "two lists have the same query and session as text (such as 1 and '1'), so they would merge; "
            "give ids that differ as text."
        )
    names = ids[log.impression[rows]].tolist()
    fields = {"position": log.position[rows]} | {
        name: values[rows] for name, values in log.fields.items()
    }
    return data.with_rows(
        data.X[document], log.click[rows], names, None, _with_own(data, document, fields)
    )


def _starts(log: ClickLog) -> tuple[list[object], list[object]]:
    """Return query and session of each impression."""
    first = np.flatnonzero(np.diff(log.impression, prepend=-1))
    return log.query[first].tolist(), log.session[first].tolist()


def _with_own(
    data: RankingData, document: NDArray[np.int64], fields: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Add the data's own fields, and the row of each document in it."""
    own = {name: values[document] for name, values in data.fields.items()}
    return {"row": document, **own, **fields}
