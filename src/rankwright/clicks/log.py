"""Click logs: which document was shown where, and was it clicked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.clicks.aggregation import training_data
from rankwright.clicks.checks import as_clicks, as_numbers, as_positions, check_lists
from rankwright.data.dataset import RankingData
from rankwright.data.queries import Queries, plain_ids


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Lists that were shown to users, and their clicks.

    One row is one document in one list. A list that was shown once is an *impression*: the rows with the same query
    and session. Rows are stored by query, session and position. Create logs with `read_clicks` or `simulate_clicks`.

    Parameters
    ----------
    queries
        The queries and their rows.
    document
        Row in `data` of each document; its id where there is no `data` [rows].
    position
        Position at which it was shown, 1 for the top [rows].
    click
        Whether it was clicked [rows].
    session
        Id of the session [rows].
    fields
        Further values per row, by name, such as the ranker that made the list.
    data
        The documents and their features, or None.

    Examples
    --------
    >>> from rankwright import read_clicks
    >>> log = read_clicks({"query": ["a"] * 4, "document": ["x", "y", "y", "x"], "position": [1, 2, 1, 2],
    ...                    "click": [0, 1, 1, 0], "session": [7, 7, 8, 8]})
    >>> log
    ClickLog(4 rows, 2 impressions of 1 queries, 2 clicks)
    >>> log.impression.tolist(), log.query.tolist()
    ([0, 0, 1, 1], ['a', 'a', 'a', 'a'])
    """

    queries: Queries
    document: NDArray[Any]
    position: NDArray[np.int64]
    click: NDArray[np.bool_]
    session: NDArray[Any]
    fields: Mapping[str, NDArray[Any]]
    data: RankingData | None = None

    @classmethod
    def of(
        cls,
        query: Any,
        document: Any,
        position: ArrayLike,
        click: ArrayLike,
        session: Any = None,
        *,
        fields: Mapping[str, ArrayLike] | None = None,
        first_position: int = 1,
        data: RankingData | None = None,
    ) -> ClickLog:
        """Create a log from arrays with one value per row, in any order; see `read_clicks` for the arguments."""
        queries = Queries.from_qid(query)
        clicks = as_clicks(click, queries.n_rows)
        numbers = as_numbers(position, "position", queries.n_rows)
        query_code = _codes(queries)
        if session is None:
            starts = np.ones(queries.n_rows, dtype=bool)
            starts[1:] = (query_code[1:] != query_code[:-1]) | ~(numbers[1:] > numbers[:-1])
            session = np.cumsum(starts) - 1
        sessions = _grouped_by(session, "session", queries.n_rows)
        list_code = query_code * sessions.n_queries + _codes(sessions)
        positions = as_positions(numbers, clicks, queries, list_code, first_position)
        documents = _grouped_by(document, "document", queries.n_rows)
        order = np.lexsort((positions, _codes(sessions), query_code))
        ids = documents.ids if documents.ids.dtype.kind != "U" else documents.ids.astype(object)
        log = cls(
            queries=queries.grouped(),
            document=ids[_codes(documents)[order]],
            position=positions[order],
            click=clicks[order],
            session=sessions.ids[_codes(sessions)[order]],
            fields={
                name: _field(name, values, queries.n_rows)[order]
                for name, values in (fields or {}).items()
            },
            data=data,
        )
        check_lists(log, _codes(documents)[order], first_position)
        return log

    @property
    def query(self) -> NDArray[Any]:
        """Query id of each row [rows]."""
        return np.repeat(self.queries.ids, self.queries.sizes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.queries.n_rows

    @property
    def n_impressions(self) -> int:
        """Number of lists that were shown."""
        return int(self.impression[-1]) + 1

    @cached_property
    def impression(self) -> NDArray[np.int64]:
        """Number of the impression of each row, from 0 [rows]."""
        starts = np.zeros(self.n_rows, dtype=bool)
        starts[self.queries.boundaries[:-1]] = True
        starts[1:] |= self.session[1:] != self.session[:-1]
        return np.cumsum(starts) - 1

    @property
    def impressions_by_query(self) -> NDArray[np.int64]:
        """Number of impressions of each query [queries]."""
        last = self.impression[self.queries.boundaries[1:] - 1]
        return np.diff(last, prepend=-1)

    def attach(self, data: RankingData, *, document: str = "document") -> ClickLog:
        """Return the log with `data`, so that each document is a row of it.

        Parameters
        ----------
        data
            The documents of the queries; labels are not used.
        document
            Field of `data` that holds the ids of documents.

        Examples
        --------
        >>> from rankwright import RankingData, read_clicks
        >>> log = read_clicks({"query": ["a", "a"], "document": ["y", "x"], "position": [1, 2], "click": [1, 0]})
        >>> data = RankingData([[0.3], [0.9]], [0, 0], qid=["a", "a"], fields={"document": ["x", "y"]})
        >>> log.attach(data).document.tolist()
        [1, 0]
        """
        if document not in data.fields:
            has = f"its fields are {', '.join(data.fields)}" if data.fields else "it has no fields"
            raise ValueError(
                f"the data has no field {document!r} with the ids of documents; {has}. Create it with fields="
                f"[{document!r}], and name the field in document=."
            )
        row_of: dict[Any, int] = {}
        for row, key in enumerate(
            zip(plain_ids(data.qid), plain_ids(data.fields[document]), strict=True)
        ):
            if row_of.setdefault(key, row) != row:
                raise ValueError(
                    f"the data has document {key[1]!s} of query {key[0]!s} twice; give each one row."
                )
        shown = list(zip(plain_ids(self.query), plain_ids(self.document), strict=True))
        rows = np.fromiter((row_of.get(key, -1) for key in shown), np.int64, self.n_rows)
        if (rows < 0).any():
            missing = {key for key, row in zip(shown, rows.tolist(), strict=True) if row < 0}
            query, name = next(key for key in shown if key in missing)
            as_text = (str(query), str(name)) in {(str(q), str(d)) for q, d in row_of}
            remedy = (
                "its ids are the same as text, so make both numbers or both text"
                if as_text
                else "add their features, or drop their rows of the log"
            )
            raise ValueError(
                f"{len(missing)} of {len(set(shown))} shown documents are not in the data, such as {name!s} of query "
                f"{query!s}; {remedy}."
            )
        return replace(self, document=rows, data=data)

    def to_data(
        self,
        data: RankingData | None = None,
        *,
        document: str = "document",
        by: Literal["query", "session"] = "query",
        smoothing: float = 0.0,
        examined_only: bool | None = None,
        propensities: Callable[[NDArray[np.int64]], NDArray[np.float64]] | ArrayLike | None = None,
        weights: Literal["queries", "rows"] | None = "queries",
    ) -> RankingData:
        """Return the log as training data.

        Documents that were never shown are left out: nothing is known about them. By default a document without a
        click is a negative only where it stood above the last click of its list, so that it was probably examined.
        A training that corrects the position bias, `Ranker.fit` with ``position`` or ``propensity``, needs every shown
        document instead: ``examined_only=False``. With ``propensities`` the labels themselves are corrected.

        Parameters
        ----------
        data, document
            As in `attach`, for a log that has no data yet.
        by
            ``"query"``: a row for each query, document and position, whose label is the click rate. ``"session"``: each
            list is a query of its own, with the id ``"query/session"`` and the clicks as labels.
        smoothing
            With ``by="query"``: number of imaginary impressions at the mean rate of the position, added to each row;
            with propensities, of imaginary examinations at the mean rate.
        examined_only
            Whether only documents at or above the last click of their list count: true, unless there are propensities.
        propensities
            What `estimate_propensities` returns, or probabilities that position 1, 2, ... is examined. There is then
            a row for each query and document, and its label is the number of its clicks divided by that of its expected
            examinations, at most 1. Labels of few examinations are noisy: smoothing helps.
        weights
            With ``by="query"``: weights of rows, the number of impressions of their query (``"queries"``, which every
            objective can use) or of the row (``"rows"``, for objectives that look at one document at a time).

        Returns
        -------
        RankingData
            With the fields ``"position"``, ``"row"`` (of the document in `data`) and those of `data`; with
            ``by="query"`` also ``"impressions"`` and ``"clicks"``, otherwise the fields of the log. With propensities,
            ``"examinations"`` in place of ``"position"``.

        Examples
        --------
        >>> from rankwright import RankingData, read_clicks
        >>> log = read_clicks({"query": ["a"] * 6, "document": ["x", "y", "z"] * 2, "position": [1, 2, 3] * 2,
        ...                    "click": [0, 1, 0, 1, 0, 0]})
        >>> data = RankingData([[0.1], [0.9], [0.5]], [0, 0, 0], qid=["a"] * 3, fields={"document": ["x", "y", "z"]})
        >>> clicked = log.to_data(data)
        >>> clicked.y.tolist(), clicked.weights.tolist()     # z was never above a click
        ([0.5, 1.0], [2.0, 2.0])
        >>> log.to_data(data, examined_only=False).y.tolist()
        [0.5, 0.5, 0.0]
        >>> from rankwright import Propensities
        >>> log.to_data(data, propensities=Propensities.known([1, 0.5, 0.3])).y.tolist()     # 1 / 2, 1 / (2 * 0.5)
        [0.5, 1.0, 0.0]
        """
        log = self if data is None else self.attach(data, document=document)
        propensity = None
        if propensities is not None:
            from rankwright.clicks.propensities import (
                Propensities,  # which estimates them from logs
            )

            curve = propensities if callable(propensities) else Propensities.known(propensities)
            propensity = curve(log.position)
        return training_data(log, by, smoothing, examined_only, weights, propensity)

    def require_data(self, what: str) -> RankingData:
        """Return `data`, and raise ValueError where it is missing."""
        if self.data is None:
            raise ValueError(
                f"{what} needs the features of the documents; call log.attach(data) first."
            )
        return self.data

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"ClickLog({self.n_rows} rows, {self.n_impressions} impressions of {self.queries.n_queries} queries, "
            f"{int(self.click.sum())} clicks)"
        )


def _codes(queries: Queries) -> NDArray[np.int64]:
    """Return the number of the id of each row, in the caller's order."""
    return queries.ungroup(queries.query_of_row)


def _grouped_by(values: Any, what: str, n_rows: int) -> Queries:
    try:
        return Queries.of(n_rows, values)
    except ValueError as error:
        raise ValueError(
            str(error).replace("query id", f"{what} id").replace("qid", what)
        ) from None


def _field(name: str, values: ArrayLike, n_rows: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(
            f"the field {name!r} has shape {array.shape} for {n_rows} rows; give one value per row."
        )
    return array
