"""The body of a request to rank: JSON, checked against the columns of the model.

Rows are lists of numbers in the order of the model's columns. Documents are objects by the names
of the columns; columns are an object of lists, one value per document. Hits are documents of a
search engine's response with the features that it logged. Values mean the same as for
`Model.predict`: rows are like an array, with codes for categories; documents are like a data frame,
with levels for categories that have levels. A level that training has not seen is a missing value.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import Columns
from rankwright.data.search_engines.hits import read_hit
from rankwright.serve.refusals import Refusal, shown

_KINDS = ("rows", "documents", "columns", "hits")
_FLAGS = ("contributions", "calibrated", "scores", "allow_missing")
_KEYS = (*_KINDS, "ids", "top", *_FLAGS)
_NUMBERS = frozenset({float, int, bool})


class Query(NamedTuple):
    """A valid request."""

    matrix: NDArray[np.float64]  # [documents, columns]
    ids: Sequence[str | int]  # [documents]
    top: int  # number of documents to return
    contributions: bool
    calibrated: bool  # whether to return calibrated values too
    scores: bool  # whether to return the scores of all documents in the order of the request too
    unknown_levels: int  # values of categorical columns that training has not seen


def parse_query(body: bytes, columns: ColumnTable, max_rows: int) -> Query:
    """Check a request. Raise Refusal with status 400 for a wrong form, or 422 if it does not fit the model.

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
    kinds = [kind for kind in _KINDS if kind in request]
    if len(kinds) != 1:
        raise Refusal(
            400,
            "give either rows (lists of numbers), documents (objects by feature name), columns "
            "(lists by feature name) or hits (of a search engine).",
        )
    kind = kinds[0]
    items = request[kind]
    if kind == "columns":
        items = _transposed(items, max_rows)
    if not isinstance(items, list):
        raise Refusal(400, f"{kind} must be a list; got {shown(items)}.")
    n_documents = len(items)
    if n_documents > max_rows:
        raise Refusal(
            413,
            f"{kind} has {n_documents} entries; this service takes at most {max_rows} in a "
            "request.",
        )

    allow_missing = _flag(request, "allow_missing")
    unknown_levels = 0
    if kind == "hits":
        if "ids" in request:
            raise Refusal(400, "hits have ids of their own; leave out ids.")
        request["ids"], items = _documents_of_hits(items, columns.names, allow_missing)
        # The engine says itself which features are missing.
        allow_missing = True
    if kind == "rows":
        matrix = columns.of_rows(items, allow_missing)
    else:
        matrix, unknown_levels = columns.of_documents(items, allow_missing)
    return Query(
        matrix,
        _ids(request, n_documents),
        _top(request, n_documents),
        _flag(request, "contributions"),
        _flag(request, "calibrated"),
        _flag(request, "scores"),
        unknown_levels,
    )


def _transposed(columns: Any, max_rows: int) -> list[dict[str, Any]]:
    """Return columns as documents."""
    if not isinstance(columns, dict) or not columns:
        raise Refusal(
            400, f"columns must be an object of lists by feature name; got {shown(columns)}."
        )
    lengths = set()
    for name, values in columns.items():
        if not isinstance(values, list):
            raise Refusal(400, f"columns, {shown(name)} must be a list; got {shown(values)}.")
        lengths.add(len(values))
    if len(lengths) > 1:
        raise Refusal(
            400,
            f"the lists of columns have from {min(lengths)} to {max(lengths)} values; give each "
            "document a value.",
        )
    # A document needs more memory than a value, so too many are not made.
    n_documents = min(lengths.pop(), max_rows + 1)
    return [
        {name: values[number] for name, values in columns.items()} for number in range(n_documents)
    ]


def _documents_of_hits(
    hits: list[Any], names: Sequence[str], allow_missing: bool
) -> tuple[list[str], list[dict[str, float | None]]]:
    """Return the ids of hits, and the model's features that the engine logged; null is missing."""
    ids, documents = [], []
    for number, item in enumerate(hits):
        try:
            hit = read_hit(item)
        except ValueError as error:
            raise Refusal(422, f"hits[{number}]: {error}") from None
        document: dict[str, float | None] = {}
        for name in names:
            if name in hit.features:
                value = hit.features[name]
                document[name] = None if math.isnan(value) else value
            elif hit.sparse:
                document[name] = 0.0
            elif not allow_missing:
                raise Refusal(
                    422,
                    f"hits[{number}] lacks the feature {name!r}. Log every feature of the model, or "
                    "allow_missing: true if a feature that is not logged is a missing value.",
                )
        ids.append(hit.document)
        documents.append(document)
    return ids, documents


class ColumnTable:
    """The columns of a model, prepared to read requests.

    Examples
    --------
    >>> table = ColumnTable(Columns(["price", "brand"], {"brand": ("acme", "best")}))
    >>> table.of_documents([{"brand": "best", "price": 2}], allow_missing=False)
    (array([[2., 1.]]), 0)
    """

    def __init__(self, columns: Columns) -> None:
        self.names = columns.feature_names
        self._name_set = frozenset(self.names)
        # For each categorical column, by its number: the code of each level, or None if the
        # values are codes already.
        self._categories: dict[int, dict[Any, float] | None] = {}
        for name, levels in columns.categories.items():
            codes = None
            if levels is not None:
                codes = {level: float(code) for code, level in enumerate(levels)}
            self._categories[self.names.index(name)] = codes

    def of_rows(self, rows: list[Any], allow_missing: bool) -> NDArray[np.float64]:
        """Return lists of numbers as a matrix."""
        for number, row in enumerate(rows):
            if not isinstance(row, list):
                raise Refusal(422, f"rows[{number}] must be a list of numbers; got {shown(row)}.")
            if len(row) != len(self.names):
                raise Refusal(
                    422,
                    f"rows[{number}] has {len(row)} values; the model has {len(self.names)} "
                    "columns.",
                )
        return self._matrix(rows, "rows", allow_missing)

    def of_documents(
        self, documents: list[Any], allow_missing: bool
    ) -> tuple[NDArray[np.float64], int]:
        """Return objects as a matrix, and the number of levels that training has not seen."""
        rows = [
            self._row(document, number, allow_missing) for number, document in enumerate(documents)
        ]
        n_unknown = 0
        for column, codes in self._categories.items():
            if codes is not None:
                n_unknown += self._encode(rows, column, codes)
        return self._matrix(rows, "documents", allow_missing), n_unknown

    def _row(self, document: Any, number: int, allow_missing: bool) -> list[Any]:
        """Return the values of a document in the order of the columns."""
        if not isinstance(document, dict):
            raise Refusal(
                422,
                f"documents[{number}] must be an object of features by name; got "
                f"{shown(document)}.",
            )
        row = list(map(document.get, self.names))
        # Most documents have all features and no others, and need no look at each name.
        if len(document) != len(row) or None in row:
            for name in document:
                if name not in self._name_set:
                    raise Refusal(
                        422,
                        f"documents[{number}] has the feature {shown(name)}, which is not one of "
                        "the model's columns.",
                    )
            for name in self.names:
                if name not in document and not allow_missing:
                    raise Refusal(
                        422,
                        f"documents[{number}] lacks the feature {name!r}. Give every feature, or "
                        "allow_missing: true if a feature that is not given is a missing value.",
                    )
        return row

    def _encode(self, rows: list[list[Any]], column: int, codes: dict[Any, float]) -> int:
        """Replace the levels of a column by their codes, and return how many levels are unknown."""
        n_unknown = 0
        for number, row in enumerate(rows):
            level = row[column]
            if isinstance(level, list | dict):
                reason = f": expected a category; got {shown(level)}."
                raise self._refusal("documents", number, column, reason)
            # Null stays, because the request may forbid missing values. Unknown levels are always
            # allowed, as in a data frame.
            if level is not None:
                row[column] = codes.get(level, np.nan)
                n_unknown += level not in codes
        return n_unknown

    def _matrix(self, rows: list[list[Any]], kind: str, allow_missing: bool) -> NDArray[np.float64]:
        """Return numbers as a matrix, with null as NaN."""
        # Only the types are looked at first: NumPy would also read numbers in text, and a look at
        # each value would take longer than scoring it.
        allowed = _NUMBERS | {type(None)} if allow_missing else _NUMBERS
        matrix = None
        if allowed.issuperset(map(type, chain.from_iterable(rows))):
            # OverflowError: an integer of more than 308 digits.
            with suppress(OverflowError):
                matrix = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))
        if matrix is None or np.isinf(matrix).any():
            raise self._wrong_value(rows, kind, allow_missing)
        self._check_codes(matrix, kind)
        return matrix

    def _wrong_value(self, rows: list[list[Any]], kind: str, allow_missing: bool) -> Refusal:
        """Return the refusal of the first value that is not a number of 64 bits."""
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                reason = ""
                if value is None and not allow_missing:
                    reason = (
                        " is null. Give a number, or allow_missing: true if null is a missing "
                        "value."
                    )
                elif value is not None and type(value) not in _NUMBERS:
                    reason = f": expected a number; got {shown(value)}."
                    if kind == "rows" and self._categories.get(column) is not None:
                        reason += (
                            " Rows hold codes of categories; send documents to use their levels."
                        )
                elif value is not None and abs(value) > sys.float_info.max:
                    reason = (
                        ": the number is too large for 64 bits; send a smaller one, or a missing "
                        "value."
                    )
                if reason:
                    return self._refusal(kind, number, column, reason)
        raise AssertionError("all values are numbers of 64 bits")

    def _check_codes(self, matrix: NDArray[np.float64], kind: str) -> None:
        for column, codes in self._categories.items():
            values = matrix[:, column]
            wrong = (values < 0) | (values != np.trunc(values))
            limit = ""
            if codes is not None:
                wrong |= values >= len(codes)
                limit = f" to {len(codes) - 1}"
            # Missing values and unknown levels are NaN, and fit every column.
            wrong &= ~np.isnan(values)
            if wrong.any():
                number = int(np.argmax(wrong))
                reason = f"must be a whole number from 0{limit}; got {values[number]:g}."
                raise self._refusal(kind, number, column, f": a code of a category {reason}")

    def _refusal(self, kind: str, number: int, column: int, reason: str) -> Refusal:
        """Return the refusal of one value."""
        return Refusal(422, f"{kind}[{number}], feature {self.names[column]!r}{reason}")


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
    """Return an object of JSON, or raise Refusal if a key is repeated."""
    values: dict[str, Any] = dict(pairs)
    if len(values) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise Refusal(400, f"the key {shown(key)} occurs twice in an object.")
            seen.add(key)
    return values


def _flag(request: dict[str, Any], key: str) -> bool:
    value = request.get(key, False)
    if not isinstance(value, bool):
        raise Refusal(400, f"{key} must be true or false; got {shown(value)}.")
    return value


def _top(request: dict[str, Any], n_documents: int) -> int:
    if "top" not in request:
        return n_documents
    top = request["top"]
    # Booleans are integers in Python.
    if type(top) is not int or top < 1:
        raise Refusal(400, f"top must be a whole number from 1; got {shown(top)}.")
    return min(top, n_documents)


def _ids(request: dict[str, Any], n_documents: int) -> Sequence[str | int]:
    if "ids" not in request:
        return range(n_documents)
    ids = request["ids"]
    if not isinstance(ids, list):
        raise Refusal(400, f"ids must be a list; got {shown(ids)}.")
    if len(ids) != n_documents:
        raise Refusal(422, f"there are {len(ids)} ids for {n_documents} documents; give one each.")
    for number, document_id in enumerate(ids):
        if type(document_id) not in (str, int):
            raise Refusal(
                422, f"ids[{number}] must be text or a whole number; got {shown(document_id)}."
            )
    if len(set(ids)) < n_documents:
        raise Refusal(422, "an id occurs twice; give each document its own.")
    return ids
