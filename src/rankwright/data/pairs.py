"""Preferences between documents of a query: this one over that one, with a weight.

Given by row numbers or by document ids, as a table (frame, dict, CSV or Parquet file) or an array; checked once, and
then held as rows in grouped order, sorted, so that the order in which they were given changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, plain_ids
from rankwright.kernels.given_pairs import GivenPairs
from rankwright.support.frames import as_frame

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

_COLUMNS = ("winner", "loser", "weight", "qid")
_FORMS = (
    "give a frame, dict, CSV or Parquet file with the columns winner and loser (and optionally weight and qid), or an "
    "array of row numbers (winner, loser) or (winner, loser, weight)"
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
        order = np.lexsort((weight, loser, winner))  # rows are grouped by query
        start = np.searchsorted(winner[order], queries.boundaries)
        return cls(GivenPairs(start, winner[order], loser[order], weight[order]))

    def moved(self, place: Rows, queries: Queries) -> Pairs:
        """Return the pairs after row i has moved to ``place[i]``; pairs of rows that moved to -1 are left out."""
        _, winner, loser, weight = self.arrays
        present = place[winner] >= 0
        return self.of_rows(place[winner][present], place[loser][present], weight[present], queries)

    def agreement(self, scores: ArrayLike) -> float:
        """Share of the pairs, by weight, whose winner has the higher score; equal scores count half.

        Scores are in the order of the data's rows, as ``ranker.predict(data)`` returns them.
        """
        _, winner, loser, weight = self.arrays
        if not weight.any():
            return float("nan")
        difference = (
            np.asarray(scores, dtype=np.float64)[winner]
            - np.asarray(scores, dtype=np.float64)[loser]
        )
        return float(np.average((1 + np.sign(difference)) / 2, weights=weight))

    def __len__(self) -> int:
        return len(self.arrays.winner)


def read_pairs(pairs: Any, queries: Queries, documents: NDArray[Any] | None = None) -> Pairs:
    """Read pairs, and check each of them.

    Parameters
    ----------
    pairs
        A table with the columns ``winner``, ``loser`` and, optionally, ``weight`` and ``qid``: a data frame, a dict of
        columns, or the path of a CSV or Parquet file; or an array of row numbers with two columns, a third for weights.
    queries
        The queries of the rows.
    documents
        Id of each row in grouped order, which winners and losers name; without it they are row numbers from 0, in the
        order in which the rows were given. An id that several queries share needs the column ``qid``.
    """
    columns = _columns(pairs)
    n = len(columns["winner"])
    if n == 0:
        raise ValueError(f"there are no pairs; {_FORMS}.")
    weight = _weights(columns.get("weight"), n)
    qids = columns.get("qid")
    numbers = None if qids is None else _query_numbers(_like(qids, queries.ids), queries)
    winner, loser = (
        _by_row(columns[side], numbers, queries)
        if documents is None
        else _by_document(columns[side], numbers, queries, documents)
        for side in ("winner", "loser")
    )
    query = queries.query_of_row
    if len(same := np.flatnonzero(winner == loser)):
        pair = int(same[0])
        raise ValueError(
            f"pair {pair} has {columns['winner'][pair]!r} as winner and as loser; a pair needs two documents."
        )
    if len(apart := np.flatnonzero(query[winner] != query[loser])):
        pair = int(apart[0])
        raise ValueError(
            f"pair {pair} is between two queries ({queries.where(int(winner[pair]))}, and "
            f"{queries.where(int(loser[pair]))}); the documents of a pair must belong to one query."
        )
    return Pairs.of_rows(winner, loser, weight, queries)


def _columns(pairs: Any) -> dict[str, list[Any]]:
    """Return the columns of pairs in any of their forms as lists of Python values."""
    if isinstance(pairs, str | os.PathLike):
        pairs = _read_file(pairs)
    if isinstance(pairs, Mapping):
        table = dict(pairs)
    else:
        frame = as_frame(pairs)
        if frame is not None:
            table = {name: frame[name] for name in frame.columns}
        else:
            array = np.asarray(pairs)
            if array.ndim != 2 or array.shape[1] not in (2, 3) or array.dtype.kind not in "iuf":
                raise ValueError(
                    f"pairs have shape {array.shape} and type {array.dtype}; {_FORMS}."
                )
            table = dict(zip(_COLUMNS, array.T, strict=False))
    if missing := [name for name in ("winner", "loser") if name not in table]:
        raise ValueError(
            f"pairs have no column {missing[0]!r} but {', '.join(map(repr, table))}; {_FORMS}."
        )
    if other := [name for name in table if name not in _COLUMNS]:
        raise ValueError(f"pairs have a column {other[0]!r}, which means nothing here; {_FORMS}.")
    columns = {name: _values(column) for name, column in table.items()}
    for name, values in columns.items():
        for value in values:
            if isinstance(value, list | dict | set | np.ndarray):
                raise ValueError(
                    f"column {name!r} of the pairs has a {type(value).__name__}; give numbers or text."
                )
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"the columns of pairs differ in length; {_FORMS}.")
    return columns


def _values(column: Any) -> list[Any]:
    native = column.to_native() if hasattr(column, "to_native") else column
    if hasattr(native, "to_pylist"):
        return list(native.to_pylist())
    return plain_ids(native) if isinstance(native, np.ndarray) else list(native)


def _read_file(path: str | os.PathLike[str]) -> Any:
    """Read a table; ids of a CSV file stay text, because the ids of the data decide whether they are numbers."""
    from rankwright.data.reading import read_table  # files hold ranking data, which has pairs

    return read_table(path, texts=("winner", "loser", "qid"))


def _weights(column: list[Any] | None, n: int) -> Floats:
    if column is None:
        return np.ones(n)
    try:
        weight = np.array(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the weights of pairs must be numbers, one per pair.") from None
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"pair {bad[0]} has the weight {weight[bad[0]]:g}; weights must be finite and non-negative."
        )
    if not weight.any():
        raise ValueError(
            "every pair has weight 0, so there is nothing to learn; give positive weights."
        )
    return weight


def _like(values: list[Any], ids: NDArray[Any]) -> list[Any]:
    """Turn text into numbers where it names numbers, as in a CSV file."""
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
    number_of = {qid: number for number, qid in enumerate(plain_ids(queries.ids))}
    numbers = [number_of.get(qid, -1) for qid in qids]
    if -1 in numbers:
        pair = numbers.index(-1)
        raise ValueError(
            f"pair {pair} is of query {qids[pair]!r}, which has no rows; name queries of the data."
        )
    return numbers


def _by_row(column: list[Any], numbers: list[int] | None, queries: Queries) -> Rows:
    """Turn the caller's row numbers into grouped rows."""
    values = _like(column, np.zeros(0))
    for pair, value in enumerate(values):
        whole = (
            isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        )
        if not whole or not 0 <= value < queries.n_rows:
            raise ValueError(
                f"pair {pair} names {value!r}, which is not a row from 0 to {queries.n_rows - 1}; name the column of "
                "document ids with document=, or give row numbers."
            )
    rows = np.array(values, dtype=np.int64)
    if queries.order is not None:
        place = np.empty_like(queries.order)
        place[queries.order] = np.arange(queries.n_rows)
        rows = place[rows]
    if numbers is not None and len(wrong := np.flatnonzero(queries.query_of_row[rows] != numbers)):
        pair = int(wrong[0])
        _refuse_document(pair, column[pair], queries.ids[numbers[pair]])
    return rows


def _by_document(
    column: list[Any], numbers: list[int] | None, queries: Queries, documents: NDArray[Any]
) -> Rows:
    """Look up documents by id, in the query of the pair if it is given."""
    values, ids = _like(column, documents), plain_ids(documents)
    of_row: list[Any] = (
        ids if numbers is None else list(zip(queries.query_of_row.tolist(), ids, strict=True))
    )
    row_of: dict[Any, int] = {}
    for row, key in enumerate(of_row):
        row_of[key] = row if key not in row_of else -1
    rows = np.empty(len(values), dtype=np.int64)
    for pair, value in enumerate(values):
        row_number = row_of.get(value if numbers is None else (numbers[pair], value))
        if row_number is None:
            _refuse_document(pair, value, None if numbers is None else queries.ids[numbers[pair]])
        if row_number == -1:
            remedy = (
                "give each row of a query its own id"
                if numbers is not None
                else "add a column qid to the pairs"
            )
            raise ValueError(
                f"pair {pair} names the document {value!r}, which is in several rows; {remedy}."
            )
        rows[pair] = row_number
    return rows


def _refuse_document(pair: int, value: Any, qid: Any) -> NoReturn:
    where = "the data" if qid is None else f"query {qid!s}"
    raise ValueError(
        f"pair {pair} names {value!r}, which is not a document of {where}; name documents that have rows."
    )
