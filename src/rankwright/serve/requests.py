"""The body of a request to rank: JSON, checked against the columns of the model.

Rows are lists of numbers in the order of the model's columns; documents are objects by the names of the columns. Values
mean what they mean to `Model.predict`: rows as an array, where categories are codes; documents as a data frame, where
categories with levels are levels, and a level that training has not seen is missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matching import Columns
from rankwright.serve.refusals import Refusal, shown

_KEYS = ("rows", "documents", "ids", "top", "contributions", "calibrated", "allow_missing")
_NUMBERS = {float, int, bool}


class Query(NamedTuple):
    """A valid request."""

    matrix: NDArray[np.float64]  # [documents, columns]
    ids: Sequence[str | int]  # [documents]
    top: int  # number of documents to return
    contributions: bool
    calibrated: bool  # whether to return calibrated values too
    unknown_levels: int  # values of categorical columns that training has not seen


def parse_query(body: bytes, columns: ColumnTable, max_rows: int) -> Query:
    """Check a request, and raise Refusal with status 400 (not of the form) or 422 (does not fit the model).

    Examples
    --------
    >>> table = ColumnTable(Columns(["price", "age"], {}))
    >>> parse_query(b'{"rows": [[1, 2], [3, 4]], "ids": ["a", "b"]}', table, 10).matrix
    array([[1., 2.],
           [3., 4.]])
    >>> parse_query(b'{"documents": [{"price": 1}]}', table, 10)
    Traceback (most recent call last):
        ...
    rankwright.serve.refusals.Refusal: documents[0] lacks the feature 'age'. ...
    """
    request = _parse(body)
    if not isinstance(request, dict):
        raise Refusal(
            400, f"the body must be a JSON object with rows or documents; got {shown(request)}."
        )
    for key in request:
        if key not in _KEYS:
            raise Refusal(400, f"unknown key {shown(key)}; the keys are {', '.join(_KEYS)}.")
    if ("rows" in request) == ("documents" in request):
        raise Refusal(
            400, "give either rows (lists of numbers) or documents (objects by feature name)."
        )
    name = "rows" if "rows" in request else "documents"
    items = request[name]
    if not isinstance(items, list):
        raise Refusal(400, f"{name} must be a list; got {shown(items)}.")
    if len(items) > max_rows:
        raise Refusal(
            413,
            f"{name} has {len(items)} entries; this service takes at most {max_rows} in a request.",
        )
    allow_missing = _flag(request, "allow_missing")
    if name == "rows":
        matrix, unknown_levels = columns.of_rows(items, allow_missing), 0
    else:
        matrix, unknown_levels = columns.of_documents(items, allow_missing)
    return Query(
        matrix,
        _ids(request, len(items)),
        min(_top(request, len(items)), len(items)),
        _flag(request, "contributions"),
        _flag(request, "calibrated"),
        unknown_levels,
    )


class ColumnTable:
    """The columns of a model, prepared to read requests."""

    def __init__(self, columns: Columns) -> None:
        self.names = columns.feature_names
        self._known = frozenset(self.names)
        numbers = {name: number for number, name in enumerate(self.names)}
        # Columns of codes, and columns of levels with the code of each.
        self._coded = [numbers[name] for name in columns.categories]
        self._levels = {
            numbers[name]: {level: float(code) for code, level in enumerate(levels)}
            for name, levels in columns.categories.items()
            if levels is not None
        }
        self._get = (
            itemgetter(*self.names)
            if len(self.names) > 1
            else lambda document: (document[self.names[0]],)
        )

    def of_rows(self, rows: list[Any], allow_missing: bool) -> NDArray[np.float64]:
        """Return lists of numbers as a matrix."""
        n_columns = len(self.names)
        if not {list}.issuperset(map(type, rows)) or not {n_columns}.issuperset(map(len, rows)):
            for number, row in enumerate(rows):
                if not isinstance(row, list):
                    raise Refusal(
                        422, f"rows[{number}] must be a list of numbers; got {shown(row)}."
                    )
                if len(row) != n_columns:
                    raise Refusal(
                        422,
                        f"rows[{number}] has {len(row)} values; the model has {n_columns} columns.",
                    )
        matrix = self._matrix(rows, "rows", allow_missing)
        self._check_codes(matrix, self._coded, "rows")
        return matrix

    def of_documents(
        self, documents: list[Any], allow_missing: bool
    ) -> tuple[NDArray[np.float64], int]:
        """Return objects as a matrix, and the number of levels that training has not seen."""
        rows: Sequence[Sequence[Any]] = [
            self._row(document, number, allow_missing) for number, document in enumerate(documents)
        ]
        unknown = 0
        if self._levels:
            encoded = [list(row) for row in rows]
            for column, codes in self._levels.items():
                for number, row in enumerate(encoded):
                    unknown += self._encode(row, column, codes, number, allow_missing)
            rows = encoded
        # Unknown levels are missing values whether the request allows them or not, as in a data frame.
        matrix = self._matrix(rows, "documents", allow_missing)
        self._check_codes(
            matrix, [column for column in self._coded if column not in self._levels], "documents"
        )
        return matrix, unknown

    def _row(self, document: Any, number: int, allow_missing: bool) -> Sequence[Any]:
        """The values of a document in the order of the columns."""
        if not isinstance(document, dict):
            raise Refusal(
                422,
                f"documents[{number}] must be an object of features by name; got {shown(document)}.",
            )
        if len(document) == len(self.names):
            try:
                row: Sequence[Any] = self._get(document)
            except KeyError:
                pass
            else:
                return row
        for name in document:
            if name not in self._known:
                raise Refusal(
                    422,
                    f"documents[{number}] has the feature {shown(name)}, which is not one of the model's columns.",
                )
        if not allow_missing:
            name = next(name for name in self.names if name not in document)
            raise Refusal(
                422,
                f"documents[{number}] lacks the feature {name!r}. Give every feature, or allow_missing: true if a "
                "feature that is not given is a missing value.",
            )
        return [document.get(name) for name in self.names]

    def _encode(
        self, row: list[Any], column: int, codes: dict[Any, float], number: int, allow_missing: bool
    ) -> bool:
        """Put the code of a level in its place, and return whether training has not seen it."""
        level = row[column]
        if level is None:
            if not allow_missing:
                raise self._missing("documents", number, column)
            row[column] = np.nan
            return False
        if isinstance(level, list | dict):
            raise Refusal(
                422,
                f"documents[{number}], feature {self.names[column]!r}: expected a category; got {shown(level)}.",
            )
        row[column] = codes.get(level, np.nan)
        return level not in codes

    def _matrix(
        self, rows: Sequence[Sequence[Any]], kind: str, allow_missing: bool
    ) -> NDArray[np.float64]:
        """Numbers as an array; only types are looked at first, because NumPy would also read numbers in text."""
        shape = (len(rows), len(self.names))
        if not _NUMBERS.issuperset(map(type, chain.from_iterable(rows))):
            rows = [
                self._numbers(row, kind, number, allow_missing) for number, row in enumerate(rows)
            ]
        try:
            matrix = np.fromiter(
                chain.from_iterable(rows), np.float64, shape[0] * shape[1]
            ).reshape(shape)
        except OverflowError:  # an integer of more than 308 digits
            matrix = np.array([[_float(value) for value in row] for row in rows]).reshape(shape)
        if np.isinf(matrix).any():
            number, column = (int(index[0]) for index in np.nonzero(np.isinf(matrix)))
            raise Refusal(
                422,
                f"{kind}[{number}], feature {self.names[column]!r}: the number is too large for 64 bits; send a "
                "smaller one, or a missing value.",
            )
        return matrix

    def _numbers(
        self, row: Sequence[Any], kind: str, number: int, allow_missing: bool
    ) -> list[float]:
        """Replace null by NaN, and refuse everything that is not a number."""
        values = []
        for column, value in enumerate(row):
            if value is None:
                if not allow_missing:
                    raise self._missing(kind, number, column)
                values.append(np.nan)
            elif type(value) in _NUMBERS:
                values.append(value)
            else:
                hint = " Rows hold codes of categories; send documents to use their levels."
                raise Refusal(
                    422,
                    f"{kind}[{number}], feature {self.names[column]!r}: expected a number; got {shown(value)}."
                    + (hint if kind == "rows" and column in self._levels else ""),
                )
        return values

    def _missing(self, kind: str, number: int, column: int) -> Refusal:
        return Refusal(
            422,
            f"{kind}[{number}], feature {self.names[column]!r} is null. Give a number, or allow_missing: true if null "
            "is a missing value.",
        )

    def _check_codes(self, matrix: NDArray[np.float64], columns: Sequence[int], kind: str) -> None:
        for column in columns:
            values = matrix[:, column]
            levels = self._levels.get(column)
            beyond = np.inf if levels is None else len(levels)
            wrong = ~np.isnan(values) & (
                (values < 0) | (values != np.trunc(values)) | (values >= beyond)
            )
            if wrong.any():
                number = int(np.flatnonzero(wrong)[0])
                raise Refusal(
                    422,
                    f"{kind}[{number}], feature {self.names[column]!r}: a code of a category must be a whole number "
                    f"from 0{'' if levels is None else f' to {len(levels) - 1}'}; got {values[number]:g}.",
                )


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: byte {error.start} is invalid.") from None
    except json.JSONDecodeError as error:
        raise Refusal(400, f"the body is not JSON: {error}.") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise Refusal(400, "the body has an integer of too many digits.") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply.") from None


def _refuse_constant(text: str) -> None:
    raise Refusal(
        400, f"{text} is not JSON; send null with allow_missing: true for a missing value."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refusal(400, f"the key {shown(repeated)} occurs twice in an object.")
    return values


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _flag(request: dict[str, Any], key: str) -> bool:
    value = request.get(key, False)
    if not isinstance(value, bool):
        raise Refusal(400, f"{key} must be true or false; got {shown(value)}.")
    return value


def _top(request: dict[str, Any], n_documents: int) -> int:
    top = request.get("top", n_documents)
    if type(top) is not int or (top < 1 and "top" in request):
        raise Refusal(400, f"top must be a whole number from 1; got {shown(top)}.")
    return top


def _ids(request: dict[str, Any], n_documents: int) -> Sequence[str | int]:
    if "ids" not in request:
        return range(n_documents)
    ids = request["ids"]
    if not isinstance(ids, list):
        raise Refusal(400, f"ids must be a list; got {shown(ids)}.")
    if len(ids) != n_documents:
        raise Refusal(422, f"there are {len(ids)} ids for {n_documents} documents; give one each.")
    for number, value in enumerate(ids):
        if type(value) not in (str, int):
            raise Refusal(422, f"ids[{number}] must be text or a whole number; got {shown(value)}.")
    if len(set(ids)) < n_documents:
        raise Refusal(422, "an id occurs twice; give each document its own.")
    return ids
