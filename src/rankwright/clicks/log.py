"""Click logs: the position of each document in each list that was shown, and the clicks."""

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
        Row in `data` of each document, or its id if there is no `data` [rows].
    position
        Position of the document in the list, 1 for the top [rows].
    click
        Whether the document was clicked [rows].
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
            # A list starts where the query changes or the position does not grow.
            starts = np.ones(queries.n_rows, dtype=bool)
            starts[1:] = (query_code[1:] != query_code[:-1]) | ~(numbers[1:] > numbers[:-1])
            session = np.cumsum(starts) - 1
        sessions = _grouped_by(session, "session", queries.n_rows)
        session_code = _codes(sessions)
        # Sessions may have the same id in several queries, so a list is a query and a session.
        list_code = query_code * sessions.n_queries + session_code
        positions = as_positions(numbers, clicks, queries, list_code, first_position)
        documents = _grouped_by(document, "document", queries.n_rows)
        order = np.lexsort((positions, session_code, query_code))
        document_code = _codes(documents)[order]
        ids = documents.ids
        if ids.dtype.kind == "U":
            # Fixed-width text would take the width of the longest id for each row.
            ids = ids.astype(object)
        log = cls(
            queries=queries.grouped(),
            document=ids[document_code],
            position=positions[order],
            click=clicks[order],
            session=sessions.ids[session_code[order]],
            fields={
                name: _field(name, values, queries.n_rows)[order]
                for name, values in (fields or {}).items()
            },
            data=data,
        )
        check_lists(log, document_code, first_position)
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
    def first_rows(self) -> NDArray[np.int64]:
        """Row at the top of each impression [impressions]."""
        return np.flatnonzero(np.diff(self.impression, prepend=-1))

    @property
    def last_click(self) -> NDArray[np.int64]:
        """Position of the lowest click of each impression, 0 without a click [impressions]."""
        positions = np.zeros(self.n_impressions, dtype=np.int64)
        np.maximum.at(positions, self.impression, np.where(self.click, self.position, 0))
        return positions

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
            has = "it has no fields"
            if data.fields:
                has = f"its fields are {', '.join(data.fields)}"
            raise ValueError(
                f"the data has no field {document!r} with the ids of documents; {has}. Create it "
                f"with fields=[{document!r}], and name the field in document=."
            )
        # Ids of documents are only unique within a query.
        row_of: dict[Any, int] = {}
        keys = zip(plain_ids(data.qid), plain_ids(data.fields[document]), strict=True)
        for row, (query, name) in enumerate(keys):
            if row_of.setdefault((query, name), row) != row:
                raise ValueError(
                    f"the data has document {name!s} of query {query!s} twice; give each one row."
                )
        shown = list(zip(plain_ids(self.query), plain_ids(self.document), strict=True))
        rows = np.array([row_of.get(key, -1) for key in shown])
        if (rows < 0).any():
            query, name = shown[int(np.argmax(rows < 0))]
            remedy = "add their features, or drop their rows of the log"
            # A common mistake: ids are numbers in one table and text in the other.
            if (str(query), str(name)) in {(str(q), str(d)) for q, d in row_of}:
                remedy = "its ids are the same as text, so make both numbers or both text"
            raise ValueError(
                f"{len(set(shown) - row_of.keys())} of {len(set(shown))} shown documents are not "
                f"in the data, such as {name!s} of query {query!s}; {remedy}."
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

        Documents that were never shown are left out, because their clicks are unknown. By default a document
        without a click is a negative only if it stood above the last click of its list, because users probably
        examined it. A training that corrects the position bias, `Ranker.fit` with ``position`` or ``propensity``,
        needs every shown document instead: ``examined_only=False``. With ``propensities`` the labels themselves are
        corrected.

        Parameters
        ----------
        data, document
            As in `attach`, for a log that has no data yet.
        by
            ``"query"``: a row for each query, document and position, with the click rate as its label. ``"session"``:
            each list is a query of its own, with the id ``"query/session"`` and the clicks as labels.
        smoothing
            With ``by="query"``: number of imaginary impressions at the mean rate of the position, added to each row;
            with propensities, of imaginary examinations at the mean rate.
        examined_only
            Whether only documents at or above the last click of their list count. The default is True without
            propensities, and False with them.
        propensities
            The result of `estimate_propensities`, or probabilities that position 1, 2, ... is examined. There is then
            a row for each query and document, and its label is its clicks divided by its expected examinations, at
            most 1. Labels of few examinations are noisy: smoothing helps.
        weights
            With ``by="query"``: weights of rows, the number of impressions of their query (``"queries"``, which every
            objective can use) or of the row (``"rows"``, for objectives that look at one document at a time).

        Returns
        -------
        RankingData
            With the fields ``"position"``, ``"row"`` (of the document in `data`) and the fields of `data`; with
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
            # That module imports this one.
            from rankwright.clicks.propensities import Propensities

            if not callable(propensities):
                propensities = Propensities.known(propensities)
            propensity = propensities(log.position)
        return training_data(log, by, smoothing, examined_only, weights, propensity)

    def require_data(self, caller: str) -> RankingData:
        """Return `data`, or raise ValueError with the name of the caller if the log has none."""
        if self.data is None:
            raise ValueError(
                f"{caller} needs the features of the documents; call log.attach(data) first."
            )
        return self.data

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"ClickLog({self.n_rows} rows, {self.n_impressions} impressions of "
            f"{self.queries.n_queries} queries, {int(self.click.sum())} clicks)"
        )


def _codes(queries: Queries) -> NDArray[np.int64]:
    """Return the number of the id of each row, in the caller's order."""
    return queries.ungroup(queries.query_of_row)


def _grouped_by(values: Any, column: str, n_rows: int) -> Queries:
    """Group rows by another id than the query's, and name its column in errors."""
    try:
        return Queries.of(n_rows, values)
    except ValueError as error:
        message = str(error).replace("query id", f"{column} id").replace("qid", column)
        raise ValueError(message) from None


def _field(name: str, values: ArrayLike, n_rows: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(
            f"the field {name!r} has shape {array.shape} for {n_rows} rows; give one value per row."
        )
    return array
