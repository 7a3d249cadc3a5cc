"""Preferences between documents of a query: a document is better than another, with a weight.

Pairs are given by row numbers or by document ids, as a table (frame, dict, CSV or Parquet file) or an
array. They are checked once and held as rows in grouped order, sorted, so that the result does not
depend on the order in which they were given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, plain_ids
from rankwright.support.checks import ArgumentError, is_number
from rankwright.support.frames import as_frame

if TYPE_CHECKING:
    from rankwright.kernels.given_pairs import GivenPairs

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

_COLUMNS = ("winner", "loser", "weight", "qid")
_FORMS = (
    "give a frame, dict, CSV or Parquet file with the columns winner and loser (and optionally "
    "weight and qid), or an array of row numbers (winner, loser) or (winner, loser, weight)"
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows in grouped order.

    Parameters
    ----------
    arrays
        Rows and weights, sorted by query, winner, loser and weight.

    Examples
    --------
    >>> queries = Queries.from_qid(["a", "a", "b", "b"])
    >>> pairs = read_pairs([(0, 1), (3, 2)], queries)
    >>> len(pairs), pairs.agreement([2.0, 1.0, 0.5, 0.1])
    (2, 0.5)
    """

    arrays: GivenPairs

    @classmethod
    def of_rows(cls, winner: Rows, loser: Rows, weight: Floats, queries: Queries) -> Pairs:
        """Sort pairs of grouped rows."""
        # Few data have pairs, and the others load faster without the import.
        from rankwright.kernels.given_pairs import GivenPairs

        # A fixed order makes sums over pairs the same, in whatever order pairs were
        # given.
        order = np.lexsort((weight, loser, winner))  # rows are grouped by query
        start = np.searchsorted(winner[order], queries.boundaries)
        return cls(GivenPairs(start, winner[order], loser[order], weight[order]))

    def moved(self, place: Rows, queries: Queries) -> Pairs:
        """Return the pairs after row i has moved to ``place[i]``, without the rows that moved to -1."""
        _, winner, loser, weight = self.arrays
        # A winner and its loser are in the same query, and queries move as a whole.
        present = place[winner] >= 0
        return self.of_rows(place[winner][present], place[loser][present], weight[present], queries)

    def agreement(self, scores: ArrayLike) -> float:
        """Return the share of the pairs, by weight, with a higher score for the winner; equal scores count half.

        Scores are in the order of the data's rows, as ``ranker.predict(data)`` returns them.
        """
        _, winner, loser, weight = self.arrays
        if not weight.any():
            return float("nan")
        values = np.asarray(scores, dtype=np.float64)
        # The sign is 1, 0 or -1, so that (1 + sign) / 2 gives equal scores half a point.
        order = np.sign(values[winner] - values[loser])
        return float(np.average((1 + order) / 2, weights=weight))

    def __len__(self) -> int:
        return len(self.arrays.winner)


def read_pairs(pairs: Any, queries: Queries, documents: NDArray[Any] | None = None) -> Pairs:
    """Read pairs, and check each of them.

    Parameters
    ----------
    pairs
        A table with the columns ``winner``, ``loser`` and, optionally, ``weight`` and ``qid``: a data
        frame, a dict of columns, or the path of a CSV or Parquet file; or an array of row numbers with
        two columns, or three with weights.
    queries
        The queries of the rows.
    documents
        Id of each row in grouped order, which winners and losers name. Without it they are row numbers
        from 0, in the order in which the rows were given. If several queries share an id, the column
        ``qid`` is needed.
    """
    columns = _columns(pairs)
    n_pairs = len(columns["winner"])
    if n_pairs == 0:
        raise ValueError(f"there are no pairs; {_FORMS}.")
    weight = _weights(columns.get("weight"), n_pairs)
    # The query of a pair is needed only if documents of several queries share an id.
    numbers = None
    if "qid" in columns:
        numbers = _query_numbers(_numbers_from_text(columns["qid"], queries.ids), queries)
    sides = []
    for side in ("winner", "loser"):
        if documents is None:
            sides.append(_by_row(columns[side], numbers, queries))
        else:
            sides.append(_by_document(columns[side], numbers, queries, documents))
    winner, loser = sides

    # The first wrong pair is named as the caller gave it, because grouped row numbers mean
    # little to the caller.
    same = np.flatnonzero(winner == loser)
    if len(same):
        pair = int(same[0])
        raise ValueError(
            f"pair {pair} has {columns['winner'][pair]!r} as winner and as loser; a pair needs two "
            "documents."
        )
    query = queries.query_of_row
    apart = np.flatnonzero(query[winner] != query[loser])
    if len(apart):
        pair = int(apart[0])
        raise ValueError(
            f"pair {pair} is between two queries ({queries.where(int(winner[pair]))}, and "
            f"{queries.where(int(loser[pair]))}); the documents of a pair must belong to one query."
        )
    return Pairs.of_rows(winner, loser, weight, queries)


def _columns(pairs: Any) -> dict[str, list[Any]]:
    """Return the columns of pairs in any of their forms as lists of Python values."""
    table = _table(pairs)
    # A misspelt column would otherwise be ignored, and its weights or queries with it.
    for name in ("winner", "loser"):
        if name not in table:
            raise ValueError(
                f"pairs have no column {name!r} but {', '.join(map(repr, table))}; {_FORMS}."
            )
    for name in table:
        if name not in _COLUMNS:
            raise ValueError(f"pairs have a column {name!r}, which means nothing here; {_FORMS}.")
    columns = {name: _values(column) for name, column in table.items()}
    for name, values in columns.items():
        for value in values:
            if isinstance(value, list | dict | set | np.ndarray):
                raise ValueError(
                    f"column {name!r} of the pairs has a {type(value).__name__}; give numbers or "
                    "text."
                )
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError(f"the columns of pairs differ in length; {_FORMS}.")
    return columns


def _table(pairs: Any) -> dict[str, Any]:
    """Return pairs in any of their forms as columns by name."""
    if isinstance(pairs, str | os.PathLike):
        from rankwright.data.reading import (
            read_table,  # which imports data sets, and so this module
        )

        # Ids of a CSV file stay text, because the ids of the data decide whether they are numbers.
        pairs = read_table(pairs, texts=("winner", "loser", "qid"))
    if isinstance(pairs, Mapping):
        return dict(pairs)
    frame = as_frame(pairs)
    if frame is not None:
        return {name: frame[name] for name in frame.columns}
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] not in (2, 3) or array.dtype.kind not in "iuf":
        raise ValueError(f"pairs have shape {array.shape} and type {array.dtype}; {_FORMS}.")
    return dict(zip(_COLUMNS, array.T, strict=False))


def _values(column: Any) -> list[Any]:
    if hasattr(column, "to_native"):  # a narwhals column
        column = column.to_native()
    if hasattr(column, "to_pylist"):  # an Arrow column
        return list(column.to_pylist())
    if isinstance(column, np.ndarray):
        return plain_ids(column)
    return list(column)


def _weights(column: list[Any] | None, n_pairs: int) -> Floats:
    if column is None:
        return np.ones(n_pairs)
    try:
        weight = np.array(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the weights of pairs must be numbers, one per pair.") from None
    # A negative weight would turn a preference around.
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"pair {bad[0]} has the weight {weight[bad[0]]:g}; weights must be finite and "
            "non-negative."
        )
    if not weight.any():
        raise ValueError(
            "every pair has weight 0, so there is nothing to learn; give positive weights."
        )
    return weight


def _numbers_from_text(values: list[Any], ids: NDArray[Any]) -> list[Any]:
    """Turn text into numbers if the ids that it names are numbers, as for a CSV file."""
    # A CSV file gives all ids as text, but the data may have numbers.
    if ids.dtype.kind not in "iuf":
        return values
    return [_number(value) if isinstance(value, str) else value for value in values]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _query_numbers(qids: list[Any], queries: Queries) -> list[int]:
    # Pairs are looked up by id, so a dictionary replaces a search for each pair.
    number_of = {qid: number for number, qid in enumerate(plain_ids(queries.ids))}
    numbers = []
    for pair, qid in enumerate(qids):
        if qid not in number_of:
            raise ValueError(
                f"pair {pair} is of query {qid!r}, which has no rows; name queries of the data."
            )
        numbers.append(number_of[qid])
    return numbers


def _by_row(column: list[Any], numbers: list[int] | None, queries: Queries) -> Rows:
    """Turn the caller's row numbers into grouped rows."""
    values = _numbers_from_text(column, np.zeros(0))
    for pair, value in enumerate(values):
        # Row numbers of a frame with missing values are floats, which are allowed if they are whole.
        is_row = is_number(value) and value == value // 1 and 0 <= value < queries.n_rows
        if not is_row:
            last = queries.n_rows - 1
            raise ArgumentError(
                "document",
                "must name the column with the ids of documents.",
                problem=f"pair {pair} names {value!r}, which is not a row from 0 to {last}. Give row "
                "numbers; otherwise",
            )
    rows = np.array(values, dtype=np.int64)
    # The inverse of the order gives the grouped place of each of the caller's rows.
    if queries.order is not None:
        place = np.empty_like(queries.order)
        place[queries.order] = np.arange(queries.n_rows)
        rows = place[rows]
    # A pair that names its query is checked against it, because a row number alone is easily
    # off by one.
    if numbers is not None:
        wrong = np.flatnonzero(queries.query_of_row[rows] != numbers)
        if len(wrong):
            pair = int(wrong[0])
            raise _unknown_document(pair, column[pair], queries.ids[numbers[pair]])
    return rows


def _by_document(
    column: list[Any], numbers: list[int] | None, queries: Queries, documents: NDArray[Any]
) -> Rows:
    """Look up documents by id, in the query of the pair if it is given."""
    values: list[Any] = _numbers_from_text(column, documents)
    keys: list[Any] = plain_ids(documents)
    # Two queries may have documents with the same id. With the query in the key they are told apart.
    if numbers is not None:
        keys = list(zip(queries.query_of_row.tolist(), keys, strict=True))
        values = list(zip(numbers, values, strict=True))
    # An id of several rows is an error only if a pair names it.
    row_of: dict[Any, int] = {}
    repeated = set()
    for row, key in enumerate(keys):
        if key in row_of:
            repeated.add(key)
        row_of[key] = row
    rows = np.empty(len(values), dtype=np.int64)
    for pair, value in enumerate(values):
        document = value if numbers is None else value[1]
        if value not in row_of:
            qid = None if numbers is None else queries.ids[numbers[pair]]
            raise _unknown_document(pair, document, qid)
        if value in repeated:
            remedy = "add a column qid to the pairs"
            if numbers is not None:
                remedy = "give each row of a query its own id"
            raise ValueError(
                f"pair {pair} names the document {document!r}, which is in several rows; {remedy}."
            )
        rows[pair] = row_of[value]
    return rows


def _unknown_document(pair: int, document: Any, qid: Any) -> ValueError:
    where = "the data"
    if qid is not None:
        where = f"query {qid!s}"
    return ValueError(
        f"pair {pair} names {document!r}, which is not a document of {where}; name documents that "
        "have rows."
    )
