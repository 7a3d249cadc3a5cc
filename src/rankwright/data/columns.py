"""Columns of a data frame that are labels, query ids and fields, and checks of the features that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwright.data.encoding import take_column
from rankwright.data.matrices import Matrix, first_infinite
from rankwright.data.queries import Queries
from rankwright.support.frames import as_frame

if TYPE_CHECKING:
    import narwhals as nw


class SplitColumns(NamedTuple):
    """What a caller gave, with columns in place of their names."""

    frame: nw.DataFrame[Any] | None  # the features; None where they are not a data frame
    y: Any
    qid: Any
    fields: Mapping[str, Any] | None


def split_columns(X: Any, y: Any, qid: Any, fields: Any, document: Any) -> SplitColumns:
    """Take the columns that other arguments of `RankingData` name out of a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> table = split_columns(pd.DataFrame({"grade": [1], "query": [7], "bm25": [0.5]}), "grade", "query", None, None)
    >>> table.frame.columns, table.qid.to_list()
    (['bm25'], [7])
    """
    frame = as_frame(X)
    if frame is None:
        _refuse_names(X, y, qid, fields)
        return SplitColumns(None, y, qid, fields)
    if names_columns(y, frame.columns):
        labels = {}
        for name in [y] if isinstance(y, str) else y:
            frame, labels[name] = take_column(frame, name, "y")
        y = labels
    if isinstance(qid, str):
        frame, qid = take_column(frame, qid, "qid")
    if fields is not None and not isinstance(fields, Mapping):
        columns = {}
        for name in fields:
            frame, columns[name] = take_column(frame, name, "fields")
        fields = columns
    if isinstance(document, str) and document not in (fields or {}):
        frame, column = take_column(frame, document, "document")
        fields = {**(fields or {}), document: column}
    return SplitColumns(frame, y, qid, fields)


def _refuse_names(X: Any, y: Any, qid: Any, fields: Any) -> None:
    """Raise ValueError where arguments name columns of something that has no names."""
    for name, value in (("y", y), ("qid", qid)):
        if isinstance(value, str):
            raise ValueError(
                f"{name}={value!r} names a column, but X is a {type(X).__name__} without column "
                f"names. Pass {name} as an array, or X as a data frame."
            )
    if fields is not None and not isinstance(fields, Mapping):
        raise ValueError(
            f"fields={list(fields)!r} names columns, but X is a {type(X).__name__} without column names. "
            "Pass fields as a dict of arrays, or X as a data frame."
        )


def names_columns(y: Any, columns: Sequence[str]) -> bool:
    """Tell whether y names columns of a frame: a text, or a list of texts of which one is a column."""
    if isinstance(y, str):
        return True
    texts = isinstance(y, list | tuple) and len(y) > 0 and all(isinstance(name, str) for name in y)
    return texts and any(name in columns for name in y)


def check_finite(X: Matrix, names: Sequence[str], queries: Queries) -> None:
    """Raise ValueError where a feature of grouped rows is infinite; NaN is a missing value."""
    place = first_infinite(X)
    if place is not None:
        row, column = place
        raise ValueError(
            f"feature {names[column]!r} is infinite at {queries.where(row)}. "
            "Use NaN for a missing value, or a large finite number."
        )
