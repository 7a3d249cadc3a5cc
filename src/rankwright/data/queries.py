"""Group rows by query: boundaries, stable 64-bit keys, and the mapping back to the caller's order.

Rows may come in any order and query ids may be of any hashable type. Inside the package the rows of a
query are contiguous and the queries are sorted by id, so that results do not depend on the order in
which the rows were stored. The key of a query depends on its id alone, because it seeds every random draw for the
query, on every thread, batch and machine.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LONG_ID = 100  # characters; shorter ids waste little memory
_GROUP = (
    "group must be a non-empty list of whole numbers, the number of rows of each query; "
    "pass one id per row as qid=."
)
_MOST_CHARACTERS = 1 << 24  # in an array of fixed width with longer texts: 64 megabytes


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows grouped by query.

    Parameters
    ----------
    ids
        Query ids, each once, ascending [queries].
    boundaries
        Query q owns the grouped rows ``boundaries[q]:boundaries[q + 1]`` [queries + 1].
    keys
        64-bit key of each query [queries].
    order
        Caller's row at each grouped position [rows], or None if the caller's rows are grouped already.
    first_row
        Caller's first row of each query [queries].
    numbered
        Whether the ids are only numbers from 0, because the caller gave sizes.

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
    numbered: bool = False

    @classmethod
    def of(cls, n_rows: int, qid: Any = None, group: ArrayLike | None = None) -> Queries:
        """Group ``n_rows`` rows by ``qid`` (an id per row) or ``group`` (sizes in row order); both must agree.

        ``qid`` may be `Queries` already, with rows in the caller's order.
        """
        if qid is None and group is None:
            raise ValueError(
                "no query ids: ranking needs to know which rows belong together. "
                "Pass qid= (one id per row, any order) or group= (rows per query)."
            )
        if qid is None:
            # Sizes alone say which rows belong together, because rows are in order.
            assert group is not None
            return cls.from_group(group, n_rows)
        queries = qid if isinstance(qid, Queries) else cls.from_qid(qid)
        if queries.n_rows != n_rows:
            raise ValueError(
                f"qid has {queries.n_rows} entries for {n_rows} rows; give one query id per row."
            )
        if group is not None:
            _check_group_matches(queries, cls.from_group(group, n_rows))
        return queries

    @classmethod
    def from_qid(cls, qid: Any) -> Queries:
        """Group rows by an id per row, of any hashable type and in any order."""
        values = _as_array(qid)
        if values.ndim != 1:
            raise ValueError(
                f"qid must be one-dimensional, one id per row; got shape {values.shape}."
            )
        if len(values) == 0:
            raise ValueError("qid is empty: there are no rows to rank. Give at least one row.")
        # Sorted ids, as in most files, are grouped without sorting and without copying
        # the rows.
        if values.dtype == object:
            ids, codes = _factorise_objects(values)
        elif _ascends(values):
            starts = np.flatnonzero(values[1:] != values[:-1]) + 1
            boundaries = np.concatenate(([0], starts, [len(values)]))
            ids = values[boundaries[:-1]]
            return cls(ids, boundaries, query_keys(ids), None, boundaries[:-1])
        else:
            ids, codes = np.unique(values, return_inverse=True)
        return cls.of_numbers(ids, codes)

    @classmethod
    def of_numbers(cls, ids: NDArray[Any], codes: NDArray[np.int64]) -> Queries:
        """Group rows by the number of each row's query [rows] among ids that ascend [queries]."""
        sizes = np.bincount(codes, minlength=len(ids))
        # Rows that are grouped already need no order, which saves a copy of every array
        # later.
        grouped = bool(np.all(codes[1:] >= codes[:-1]))
        boundaries = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        order, first_row = None, boundaries[:-1]
        if not grouped:
            order = np.argsort(codes, kind="stable")
            first_row = order[first_row]
        return cls(ids, boundaries, query_keys(ids), order, first_row)

    @classmethod
    def from_group(cls, group: ArrayLike, n_rows: int) -> Queries:
        """Group rows by sizes in row order; the id of a query is its number, from 0."""
        sizes = np.asarray(group)
        if np.ma.isMaskedArray(group):
            sizes = as_floats(group, _GROUP)  # a masked size becomes NaN, and an error
        if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iuf":
            raise ValueError(_GROUP)
        # Query ids are often passed as group by mistake, and then there are as many as
        # rows.
        hint = "Give the number of rows of each query, in row order."
        if len(sizes) == n_rows:
            hint = "It looks like one id per row: pass it as qid= instead."
        bad = np.flatnonzero(~((sizes >= 1) & (sizes == np.floor(sizes)) & (sizes < 2**63)))
        if len(bad):
            raise ValueError(
                f"group[{bad[0]}] is {sizes[bad[0]]}; every query needs a whole number of rows, at "
                f"least 1. {hint}"
            )
        sizes = sizes.astype(np.int64)
        if sizes.sum() != n_rows:
            raise ValueError(f"group adds up to {sizes.sum()} rows but there are {n_rows}. {hint}")
        boundaries = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        ids = np.arange(len(sizes))
        return cls(ids, boundaries, query_keys(ids), None, boundaries[:-1], numbered=True)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.boundaries[-1])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each query [queries]."""
        sizes = np.diff(self.boundaries)
        sizes.flags.writeable = False
        return sizes

    @property
    def query_of_row(self) -> NDArray[np.int64]:
        """Query number of each grouped row [rows]."""
        return np.repeat(np.arange(self.n_queries), self.sizes)

    def grouped(self) -> Queries:
        """Return the same queries for rows that are already in grouped order."""
        return Queries(self.ids, self.boundaries, self.keys, None, self.boundaries[:-1])

    def group(self, rows: ArrayLike) -> NDArray[Any]:
        """Reorder an array from the caller's order to grouped order."""
        array = np.asarray(rows)
        return array if self.order is None else array[self.order]

    def ungroup(self, grouped: NDArray[Any]) -> NDArray[Any]:
        """Reorder an array from grouped order back to the caller's order."""
        if self.order is None:
            return grouped
        # Assigning by the order is the inverse of selecting by it.
        rows = np.empty_like(grouped)
        rows[self.order] = grouped
        return rows

    def where(self, row: int) -> str:
        """Describe a grouped row by the caller's row and query, for error messages."""
        query = int(np.searchsorted(self.boundaries, row, side="right")) - 1
        if self.order is not None:
            row = int(self.order[row])
        return f"row {row}, query {self.ids[query]!s}"

    def per_row(self, weights: ArrayLike) -> NDArray[np.float64]:
        """Return a weight for each grouped row.

        ``weights`` has a value per row, or a value per query in the order in which the queries first
        appear in the caller's rows.
        """
        values = as_floats(weights, "weights must be numbers, one per row or one per query.")
        if values.ndim != 1 or len(values) not in (self.n_rows, self.n_queries):
            raise ValueError(
                f"weights have shape {values.shape}; expected one per row ({self.n_rows}) or one "
                f"per query ({self.n_queries})."
            )
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise ValueError(
                f"weights[{bad[0]}] is {values[bad[0]]}; weights must be finite and non-negative."
            )
        # If each query has a single row, both forms are the same.
        if len(values) == self.n_rows:
            return np.ascontiguousarray(self.group(values))
        return np.repeat(self.per_query(values), self.sizes)

    def per_query(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Reorder a value per query from first appearance in the caller's rows to ascending ids."""
        # Queries in the order of their first rows are queries in the order of first
        # appearance.
        by_id = np.empty(self.n_queries)
        by_id[np.argsort(self.first_row, kind="stable")] = weights
        return by_id


def check_labels(labels: ArrayLike, queries: Queries) -> NDArray[np.float64]:
    """Return labels in grouped order as float64; raise ValueError for infinite and negative labels.

    A label of NaN is missing: the document was not judged.
    """
    values = as_floats(labels, "labels must be numbers (relevance grades), one per row.")
    if values.shape != (queries.n_rows,):
        raise ValueError(
            f"labels have shape {values.shape} for {queries.n_rows} rows; give one label per row."
        )
    values = np.ascontiguousarray(queries.group(values))
    # These functions skip NaN, and need no temporary arrays.
    if np.fmin.reduce(values) < 0 or np.fmax.reduce(values) == np.inf:
        row = int(np.flatnonzero((values < 0) | (values == np.inf))[0])
        raise ValueError(
            f"labels must be finite and non-negative; got {values[row]} at {queries.where(row)}. "
            "Drop the row, or shift the labels so that 0 means not relevant."
        )
    return values


def as_floats(values: Any, message: str) -> NDArray[np.float64]:
    """Return numbers as float64, missing and masked values as NaN; raise ValueError with ``message`` for other types.

    Dates and complex numbers are refused, although NumPy would turn them into floats. An array that
    cannot be written to, for example a column of pandas, is copied, because kernels are compiled for
    writable arrays.

    Examples
    --------
    >>> as_floats(np.ma.array([1, 2], mask=[False, True]), "scores must be numbers.").tolist()
    [1.0, nan]
    """
    if hasattr(values, "to_native"):  # a narwhals column
        values = values.to_native()
    if hasattr(values, "to_pylist") and values.null_count:
        # Arrow's dictionary arrays give NumPy another value in place of a missing value.
        values = values.to_pylist()
    try:
        # Masked values become NaN, so that they are found like any missing value.
        if np.ma.isMaskedArray(values):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        array = np.asarray(values)
        if array.dtype.kind in "cmM":
            raise ValueError(message)
        return array.astype(np.float64, copy=not array.flags.writeable)
    except (TypeError, ValueError):
        raise ValueError(message) from None


def query_keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a stable 64-bit key per id: equal ids give equal keys in every process, data set and library."""
    # Whole numbers are hashed as integers, whatever their type, because 7 and 7.0 are the
    # same id.
    if ids.dtype.kind == "u":
        return mix(ids)
    is_whole = ids.dtype.kind in "ib"
    if ids.dtype.kind == "f":
        is_whole = np.array_equal(ids, np.trunc(ids)) and bool(np.all(np.abs(ids) < 2**63))
    if is_whole:
        return _mix_signed(ids.astype(np.int64))
    return np.fromiter((_key(value) for value in plain_ids(ids)), np.uint64, len(ids))


def plain_ids(ids: NDArray[Any]) -> list[Any]:
    """Return ids as Python values; unlike ``tolist``, dates in nanoseconds stay dates."""
    if ids.dtype.kind not in "mM" or np.datetime_data(ids.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return list(ids.tolist())
    # Python's dates stop at microseconds. Only dates that need more digits stay NumPy values.
    micro = ids.astype(f"{ids.dtype.kind}8[us]")
    return [
        short if same else exact
        for short, exact, same in zip(micro.tolist(), ids, micro == ids, strict=True)
    ]


def mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash integers to 64 bits (the finaliser of SplitMix64)."""
    x = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def _mix_signed(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash integers; negative integers twice, because unsigned integers from 2^63 on have the same bits."""
    mixed = mix(values.view(np.uint64))
    mixed[values < 0] = mix(mixed[values < 0])
    return mixed


def _key(value: Any) -> int:
    value = _plain(value)
    # Single ids get the same keys as whole arrays of them.
    if isinstance(value, int) and 0 <= value < 2**64:
        return int(mix(np.array([value], dtype=np.uint64))[0])
    if isinstance(value, int) and -(2**63) <= value < 0:
        return int(_mix_signed(np.array([value], dtype=np.int64))[0])
    text = _spelling(value).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _plain(value: Any) -> Any:
    """Turn a NumPy scalar into a Python value, a whole number into an int and any other into a fraction."""
    if isinstance(value, np.generic):
        value = plain_ids(np.array([value]))[0]
    if isinstance(value, int):
        return int(value)
    # Equal numbers of different types, for example 0.5 and Decimal("0.5"), are the same id.
    if isinstance(value, float | Decimal | Fraction) and math.isfinite(value):
        exact = Fraction(value)
        if exact.denominator == 1:
            return exact.numerator
        return exact
    return value


def _spelling(value: Any) -> str:
    """Return text that is the same for equal ids, whichever library their types come from."""
    value = _plain(value)
    if isinstance(value, str):
        return f"str:{str.__str__(value)}"
    if isinstance(value, datetime):
        # Equal times in different time zones are the same id.
        if value.tzinfo:
            value = value.astimezone(UTC)
        return f"datetime:{value.isoformat()}"
    if isinstance(value, tuple | frozenset):
        parts = [_spelling(part) for part in value]
        kind = "tuple"
        if isinstance(value, frozenset):
            kind = "frozenset"
            parts.sort()  # the order of a set changes between processes
        # Lengths keep ("a", "b") apart from ("a,b",).
        return f"{kind}:" + "".join(f"{len(part)}:{part}" for part in parts)
    text = repr(value)
    # An address differs between processes, and so would the random draws for the query.
    if re.search(r" at 0x[0-9a-fA-F]+>", text):
        raise ValueError(
            f"query id {text} is printed as a memory address, so it has no stable key. "
            "Use numbers, strings, dates or tuples of them as query ids."
        )
    return f"{type(value).__name__}:{text}"


def _as_array(qid: Any) -> NDArray[Any]:
    """Turn ids into an array, without merging types: NumPy would turn [1, "1"] into two equal strings."""
    if hasattr(qid, "to_native"):  # a narwhals column
        qid = qid.to_native()
    if hasattr(qid, "to_pylist"):  # an Arrow column
        try:
            array = np.asarray(qid)
            if array.dtype.kind in "iufbmM" and qid.null_count == 0:
                return array
            values = qid.to_pylist()  # with None for a missing id
        except Exception as error:  # text that is not UTF-8, dates that Python does not have
            reason = str(error).rstrip(".")
            raise ValueError(
                f"the ids cannot be read: {reason}; give numbers, or text in UTF-8."
            ) from None
        return _as_array(values)
    if np.ma.is_masked(qid):
        return _as_objects(qid.tolist())  # a masked id becomes None
    if np.ma.isMaskedArray(qid):
        return np.asarray(qid)
    if hasattr(qid, "to_numpy"):  # a pandas or polars column
        qid = np.asarray(qid.to_numpy())
    if isinstance(qid, np.ndarray):
        if qid.dtype.kind == "V":  # a structured array, with a tuple for each row
            return _as_objects(qid.tolist())
        return qid
    if isinstance(qid, str | bytes) or not isinstance(qid, Iterable):
        raise ValueError(f"qid must hold one id per row; got {qid!r}.")
    values = list(qid)
    # NumPy keeps ids apart only if all of them have the same type.
    kinds = {type(value) for value in values}
    if len(kinds) != 1:
        return _as_objects(values)
    kind = kinds.pop()
    if kind is str:
        return text_array(values)
    if kind in (bool, int, float) or issubclass(kind, np.generic):
        array = np.asarray(values)
        # NumPy rounds integers beyond 2^63 to floats.
        if array.dtype.kind != "f" or kind is not int:
            return array
    return _as_objects(values)


def text_array(values: list[str], rows: int = 0) -> NDArray[Any]:
    r"""Return texts as an array, of objects if a fixed width would lose characters or waste memory.

    A text of fixed width loses zero bytes at its end, and all entries take the memory of the longest
    text, also in an array of ``rows`` rows that repeats them.

    Examples
    --------
    >>> text_array(["a", "b"]).dtype.kind, text_array(["a", "a\0"]).dtype.kind
    ('U', 'O')
    """
    longest = max(map(len, values), default=0)
    # An array of fixed width is faster, but a single long id would multiply its memory.
    wasteful = longest > _LONG_ID and longest * max(len(values), rows) > _MOST_CHARACTERS
    if wasteful or any(value.endswith("\0") for value in values):
        return _as_objects(values)
    return np.array(values, dtype=str)


def _as_objects(values: list[Any]) -> NDArray[Any]:
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _ascends(values: NDArray[Any]) -> bool:
    """Return True if ids of a plain type are sorted; raise ValueError for a missing id."""
    if values.dtype.kind in "fcmM":
        missing = np.flatnonzero(values != values)
        if len(missing):
            raise _missing_id(int(missing[0]))
    return bool(np.all(values[1:] >= values[:-1]))


def _factorise_objects(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    table: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    # A dictionary numbers the ids by equality, so that 1 and 1.0 are the same query.
    for row, value in enumerate(values):
        next_code = len(table)
        try:
            code = table.setdefault(value, next_code)
        except TypeError:
            raise ValueError(
                f"the query id at row {row} is a {type(value).__name__}, which is not hashable; "
                "use numbers, strings or tuples as query ids."
            ) from None
        if code == next_code and is_missing(value):
            raise _missing_id(row)
        codes[row] = code
    ids = _as_objects(list(table))
    if all(type(value) is str for value in table):
        ids = text_array(list(table), len(values))
    # Ids that can be compared are sorted by value. Otherwise their keys give an order that
    # never changes.
    try:
        ascending = np.argsort(ids, kind="stable")
        ordered = all(a < b for a, b in pairwise(ids[ascending]))
    except TypeError:
        ordered = False
    if not ordered:  # ids of several types, and sets, have no natural order
        ascending = np.argsort(query_keys(ids), kind="stable")
    number = np.empty(len(table), dtype=np.int64)
    number[ascending] = np.arange(len(table))
    return ids[ascending], number[codes]


def is_missing(value: Any) -> bool:
    """Return True if a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal to itself
        return True


def _missing_id(row: int) -> ValueError:
    return ValueError(
        f"the query id at row {row} is missing; give every row an id or drop the row."
    )


def _check_group_matches(queries: Queries, groups: Queries) -> None:
    """Raise ValueError unless sizes of queries and ids of rows describe the same queries."""
    # Both forms agree if a new query begins in exactly the same rows.
    number = queries.ungroup(queries.query_of_row)
    same_query = number[1:] == number[:-1]
    starts_group = np.zeros(queries.n_rows, dtype=bool)
    starts_group[groups.boundaries[:-1]] = True
    split = np.flatnonzero(same_query & starts_group[1:])
    merged = np.flatnonzero(~same_query & ~starts_group[1:])
    if len(split):
        row = int(split[0]) + 1
        raise ValueError(
            f"group splits query {queries.ids[number[row]]!s} between rows {row - 1} and {row}. "
            "Pass qid alone, or sizes that match it."
        )
    if len(merged) or groups.n_queries != queries.n_queries:
        row = 0
        if len(merged):
            row = int(merged[0]) + 1
        raise ValueError(
            f"group and qid disagree near row {row}: group has {groups.n_queries} queries, qid has "
            f"{queries.n_queries}. Pass only one of them."
        )
