"""Click logs as training data.

A document without a click is a negative only if users examined it, and a log does not record examination. There are
three ways to read a log:

* ``examined_only=True`` assumes that users read from the top to the last click (Joachims, KDD 2002: a click is
  preferred to the documents skipped above it). Documents below are left out, and so are lists without a click.
* ``examined_only=False`` keeps every document that was shown. A label is then an observed click rate. Trainings that
  correct the position bias need this, because they learn from missing clicks as well.
* With propensities a document was examined Σ θ times in expectation, with θ the propensity of the position of each of
  its shows. Its clicks divided by Σ θ estimate its relevance at any position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.cells import sums_by
from rankwright.data.dataset import RankingData
from rankwright.support import checks

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
    checks.choice("by", by, ("query", "session"))
    checks.choice("weights", weights, ("queries", "rows", None))
    checks.number("smoothing", smoothing, least=0)
    if propensity is not None and (examined_only or by == "session"):
        raise ValueError(
            "propensities correct the click rates of all shown documents of a query; leave out "
            "examined_only and by."
        )
    if by == "session" and weights == "rows":
        raise ValueError(
            "by='session' has a row for each impression, so weights='rows' has no meaning; leave "
            "it out."
        )
    if by == "session" and smoothing:
        raise ValueError(
            "smoothing is about click rates, but by='session' has clicks; use by='query'."
        )
    data = log.require_data("to_data")
    if propensity is not None:
        return _corrected(log, data, propensity, smoothing, weights)
    rows = np.arange(log.n_rows)
    if examined_only is not False:
        # Lists without a click have no examined rows, because positions start at 1.
        rows = np.flatnonzero(log.position <= log.last_click[log.impression])
        if len(rows) == 0:
            raise ValueError("the log has no click, so nothing can be learned from it.")
    if by == "session":
        return _by_session(log, data, rows)
    return _by_query(log, data, rows, smoothing, weights)


def _by_query(
    log: ClickLog, data: RankingData, rows: NDArray[np.int64], smoothing: float, weights: str | None
) -> RankingData:
    """Return a row for each document and position of a query, with its click rate."""
    # A document has a row for each of its positions, because its click rates differ between them.
    keys = np.stack((log.queries.query_of_row, log.document, log.position))[:, rows]
    (query, document, position), cell = np.unique(keys, axis=1, return_inverse=True)
    cell = cell.ravel()
    shows = np.bincount(cell).astype(np.float64)
    clicks = sums_by(cell, log.click[rows], len(shows))
    # Smoothing draws a rate to the mean of its position, so that it does not change the bias.
    place = position - 1
    mean_rate = np.bincount(place, clicks) / np.maximum(np.bincount(place, shows), 1.0)
    rate = (clicks + smoothing * mean_rate[place]) / (shows + smoothing)
    fields = {"position": position} | _counts(shows, clicks)
    return _rated(log, data, document, query, rate, shows, weights, fields)


def _corrected(
    log: ClickLog, data: RankingData, propensity: Floats, smoothing: float, weights: str | None
) -> RankingData:
    """Return a row for each document of a query, with its clicks over its expected examinations."""
    document, first, row = np.unique(log.document, return_index=True, return_inverse=True)
    shows, clicks, examinations = (
        sums_by(row, values, len(document))
        for values in (np.ones(log.n_rows), log.click, propensity)
    )
    mean_rate = clicks.sum() / examinations.sum()
    # Clicks can exceed expected examinations by chance, but a label is a probability.
    rate = np.minimum((clicks + smoothing * mean_rate) / (examinations + smoothing), 1.0)
    query = log.queries.query_of_row[first]
    fields = _counts(shows, clicks) | {"examinations": examinations}
    return _rated(log, data, document, query, rate, shows, weights, fields)


def _counts(shows: Floats, clicks: Floats) -> dict[str, NDArray[Any]]:
    return {"impressions": shows.astype(np.int64), "clicks": clicks.astype(np.int64)}


def _rated(
    log: ClickLog,
    data: RankingData,
    document: NDArray[np.int64],
    query: NDArray[np.int64],
    rate: Floats,
    shows: Floats,
    weights: str | None,
    fields: Mapping[str, NDArray[Any]],
) -> RankingData:
    """Return rows with rates as labels."""
    row_weights = None
    if weights == "rows":
        row_weights = shows
    elif weights == "queries":
        row_weights = log.impressions_by_query[query].astype(np.float64)
    return _with_documents(data, document, rate, log.queries.ids[query], row_weights, fields)


def _by_session(log: ClickLog, data: RankingData, rows: NDArray[np.int64]) -> RankingData:
    """Return a query for each impression."""
    queries, sessions = log.query[log.first_rows].tolist(), log.session[log.first_rows].tolist()
    ids = [f"{query}/{session}" for query, session in zip(queries, sessions, strict=True)]
    if len(set(ids)) < len(ids):
        raise ValueError(
            "two lists have the same query and session as text (such as 1 and '1'), so they would "
            "merge; give ids that differ as text."
        )
    names = np.array(ids, dtype=object)[log.impression[rows]].tolist()
    fields = {"position": log.position[rows]}
    fields |= {name: values[rows] for name, values in log.fields.items()}
    return _with_documents(data, log.document[rows], log.click[rows], names, None, fields)


def _with_documents(
    data: RankingData,
    document: NDArray[np.int64],
    y: Any,
    qid: Any,
    weights: Floats | None,
    fields: Mapping[str, NDArray[Any]],
) -> RankingData:
    """Return data on documents, with the fields of the documents as well."""
    # The log's own fields win over fields of the data with the same name.
    document_fields = {name: values[document] for name, values in data.fields.items()}
    all_fields = {"row": document, **document_fields, **fields}
    return data.with_rows(data.X[document], y, qid, weights, all_fields)
