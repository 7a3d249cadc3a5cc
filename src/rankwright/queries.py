"""Which rows form which query: boundaries, stable 64-bit keys, and the way back to the caller's order.

Rows may come in any order and query ids may be of any hashable type. Inside the package the rows of a query
are contiguous and the queries ascend by id, so that the order in which somebody stored the rows changes
nothing. The key of a query depends on its id alone: it seeds every random draw for that query, whichever
thread, batch or machine handles it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows grouped by query.

    Parameters
    ----------
    ids
        Query ids, one per query, ascending [queries].
    boundaries
        Query q owns the grouped rows ``boundaries[q]:boundaries[q + 1]`` [queries + 1].
    keys
        64-bit key of each query [queries].
    order
        Caller's row at each grouped place [rows], or None where the caller's rows are grouped already.
    first_row
        Caller's first row of each query [queries]: where errors point to.

    Examples
    --------
    >>> queries = Queries.from_qid(["b", "a", "b"])
    >>> queries.ids.tolist(), queries.sizes.tolist(), queries.group([1, 2, 3]).tolist()
    (['a', 'b'], [1, 2], [2, 1, 3])
    """

    ids: NDArray[Any]
    boundaries: NDArray[np.int64]
    keys: NDArray[np.uint64]
    order: NDArray[np.int64] | None
    first_row: NDArray[np.int64]

    @classmethod
    def of(cls, n_rows: int, qid: Any = None, group: ArrayLike | None = None) -> Queries:
        """Group ``n_rows`` rows by ``qid`` (an id per row) or ``group`` (sizes in row order); both must agree."""
        if qid is None and group is None:
            raise ValueError(
                "no query ids: a ranking needs to know which rows belong together. "
                "Pass qid= (one id per row, any order) or group= (rows per query)."
            )
        if qid is None:
            assert group is not None
            return cls.from_group(group, n_rows)
        queries = cls.from_qid(qid)
        if queries.n_rows != n_rows:
            raise ValueError(f"qid has {queries.n_rows} entries for {n_rows} rows; give one query id per row.")
        if group is not None:
            _check_group_keeps_queries_whole(queries, cls.from_group(group, n_rows))
        return queries

    @classmethod
    def from_qid(cls, qid: Any) -> Queries:
        """Group rows by an id per row, of any hashable type and in any order."""
        values = _as_array(qid)
        if values.ndim != 1:
            raise ValueError(f"qid must be one-dimensional, one id per row; got shape {values.shape}.")
        if len(values) == 0:
            raise ValueError("qid is empty: there are no rows to rank.")
        if values.dtype != object:
            ids, codes = _factorise_plain(values)
        else:
            ids, codes = _factorise_objects(values)
        sizes = np.bincount(codes, minlength=len(ids))
        grouped = bool(np.all(codes[1:] >= codes[:-1]))
        order = None if grouped else np.argsort(codes, kind="stable")
        boundaries = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        first_row = boundaries[:-1] if order is None else order[boundaries[:-1]]
        return cls(ids, boundaries, query_keys(ids), order, first_row)

    @classmethod
    def from_group(cls, group: ArrayLike, n_rows: int) -> Queries:
        """Group rows by sizes in row order; a query's id and key come from its number, from 0."""
        sizes = np.asarray(group)
        if sizes.ndim != 1 or len(sizes) == 0 or not np.issubdtype(sizes.dtype, np.number):
            raise ValueError("group must be a non-empty list of whole numbers, the rows of each query in turn.")
        bad = np.flatnonzero(~((sizes >= 1) & (sizes == np.floor(sizes))))
        if len(bad):
            raise ValueError(
                f"group[{bad[0]}] is {sizes[bad[0]]}; every query needs a whole number of rows, at least 1."
            )
        sizes = sizes.astype(np.int64)
        if sizes.sum() != n_rows:
            hint = (
                " It looks like an id per row: pass it as qid= instead."
                if len(sizes) == n_rows
                else " Give the number of rows of each query, in row order."
            )
            raise ValueError(f"group adds up to {sizes.sum()} rows but there are {n_rows}.{hint}")
        boundaries = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        ids = np.arange(len(sizes))
        return cls(ids, boundaries, query_keys(ids), None, boundaries[:-1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.boundaries[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each query [queries]."""
        return np.diff(self.boundaries)

    @property
    def query_of_row(self) -> NDArray[np.int64]:
        """Query number of each grouped row [rows]."""
        return np.repeat(np.arange(self.n_queries), self.sizes)

    def group(self, rows: ArrayLike) -> NDArray[Any]:
        """Bring an array from the caller's order into grouped order."""
        array = np.asarray(rows)
        return array if self.order is None else array[self.order]

    def ungroup(self, grouped: NDArray[Any]) -> NDArray[Any]:
        """Bring an array from grouped order back into the caller's order."""
        if self.order is None:
            return grouped
        rows = np.empty_like(grouped)
        rows[self.order] = grouped
        return rows

    def where(self, row: int) -> str:
        """Say where a grouped row is, in the caller's terms, for an error message."""
        query = int(np.searchsorted(self.boundaries, row, side="right")) - 1
        caller_row = row if self.order is None else int(self.order[row])
        return f"query {self.ids[query]!s} has it at row {caller_row}"

    def per_row(self, weights: ArrayLike) -> NDArray[np.float64]:
        """Spread weights over the grouped rows.

        One weight per row, or one per query in the order in which the queries first appear in the
        caller's rows.
        """
        values = np.asarray(weights, dtype=np.float64)
        if values.ndim != 1 or len(values) not in (self.n_rows, self.n_queries):
            raise ValueError(
                f"weights have shape {values.shape}; expected one per row ({self.n_rows}) or one per "
                f"query ({self.n_queries})."
            )
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise ValueError(f"weights[{bad[0]}] is {values[bad[0]]}; weights must be finite and not negative.")
        if len(values) == self.n_rows:
            return np.ascontiguousarray(self.group(values))
        return np.repeat(self.per_query(values), self.sizes)

    def per_query(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Reorder one value per query from first appearance in the caller's rows to ascending ids."""
        by_id = np.empty(self.n_queries)
        by_id[np.argsort(self.first_row, kind="stable")] = weights
        return by_id


def check_labels(labels: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    """Labels in grouped order as float64; refuses NaN, infinite and negative ones, saying where."""
    try:
        values = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("labels must be numbers (relevance grades), one per row.") from None
    if values.shape != (queries.n_rows,):
        raise ValueError(f"labels have shape {values.shape} for {queries.n_rows} rows; give one label per row.")
    values = np.ascontiguousarray(queries.group(values))
    if not (np.isfinite(values).all() and (values >= 0).all()):
        row = int(np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[0])
        raise ValueError(
            f"labels must be finite and not negative, but one is {values[row]}: {queries.where(row)}. "
            "Drop the row, or shift the labels so that 0 means not relevant."
        )
    return values


def query_keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Stable 64-bit key of each id: the same id gives the same key in every process and data set."""
    if ids.dtype.kind in "iub":
        return _mix(ids.astype(np.int64).view(np.uint64) if ids.dtype.kind != "u" else ids)
    if ids.dtype.kind == "f" and np.array_equal(ids, np.trunc(ids)) and np.all(np.abs(ids) < 2**63):
        return _mix(ids.astype(np.int64).view(np.uint64))
    return np.fromiter((_hash(value) for value in ids.tolist()), np.uint64, len(ids))


def _mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Spread neighbouring integers over 64 bits (the finaliser of SplitMix64)."""
    x = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def _hash(value: Any) -> int:
    if isinstance(value, int | np.integer) and -(2**63) <= value < 2**63:
        return int(_mix(np.array([value], dtype=np.int64).view(np.uint64))[0])
    text = value if isinstance(value, str) else repr(value)
    if not isinstance(value, str) and re.search(r" at 0x[0-9a-fA-F]+>", text):
        raise ValueError(
            f"query id {text} prints its memory address, so it has no stable identity. "
            "Use numbers, strings, dates or tuples of them as query ids."
        )
    tagged = f"{type(value).__name__}:{text}".encode()
    return int.from_bytes(hashlib.blake2b(tagged, digest_size=8).digest(), "little")


def _as_array(qid: Any) -> NDArray[Any]:
    """Turn ids into an array, without letting NumPy merge types ([1, "1"] would become two strings)."""
    if isinstance(qid, np.ndarray):
        return qid
    if hasattr(qid, "to_numpy"):  # pandas, polars and Arrow columns
        return np.asarray(qid.to_numpy() if not hasattr(qid, "combine_chunks") else qid.to_pylist())
    if isinstance(qid, str) or not isinstance(qid, Iterable):
        raise ValueError(f"qid must hold one id per row; got {qid!r}.")
    values = list(qid)
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and issubclass(next(iter(kinds)), int | float | str | np.generic):
        return np.asarray(values)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _factorise_plain(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if values.dtype.kind in "fcmM" and np.any(missing := values != values):
        raise ValueError(_missing(int(np.flatnonzero(missing)[0])))
    if np.all(values[1:] >= values[:-1]):
        starts = np.concatenate(([True], values[1:] != values[:-1]))
        return values[starts], np.cumsum(starts) - 1
    ids, codes = np.unique(values, return_inverse=True)
    return ids, codes.astype(np.int64)


def _factorise_objects(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    table: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if value is None or value != value:
            raise ValueError(_missing(row))
        try:
            codes[row] = table.setdefault(value, len(table))
        except TypeError:
            raise ValueError(
                f"the query id at row {row} is a {type(value).__name__}, which is not hashable; "
                "use numbers, strings or tuples as query ids."
            ) from None
    ids = np.empty(len(table), dtype=object)
    ids[:] = list(table)
    if all(type(value) is str for value in table):
        ids = ids.astype(str)
    try:
        ascending = np.argsort(ids, kind="stable")
    except TypeError:  # ids of several types have no order of their own
        ascending = np.argsort(query_keys(ids), kind="stable")
    number = np.empty(len(table), dtype=np.int64)
    number[ascending] = np.arange(len(table))
    return ids[ascending], number[codes]


def _missing(row: int) -> str:
    return f"the query id at row {row} is missing; give every row an id or drop the row."


def _check_group_keeps_queries_whole(queries: Queries, groups: Queries) -> None:
    number = np.empty(queries.n_rows, dtype=np.int64)
    number[queries.order if queries.order is not None else slice(None)] = queries.query_of_row
    same_query = number[1:] == number[:-1]
    starts_group = np.zeros(queries.n_rows, dtype=bool)
    starts_group[groups.boundaries[:-1]] = True
    cut = np.flatnonzero(same_query & starts_group[1:])
    merged = np.flatnonzero(~same_query & ~starts_group[1:])
    if len(cut):
        row = int(cut[0]) + 1
        raise ValueError(
            f"group cuts query {queries.ids[number[row]]!s} between rows {row - 1} and {row}; the rows of a "
            "query must stay together. Pass qid alone, or sizes that match it."
        )
    if len(merged) or groups.n_queries != queries.n_queries:
        row = int(merged[0]) + 1 if len(merged) else 0
        raise ValueError(
            f"group and qid disagree near row {row}: group has {groups.n_queries} queries, qid has "
            f"{queries.n_queries}. Pass only one of them."
        )
