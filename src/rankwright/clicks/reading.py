"""Click logs from frames and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.clicks.log import ClickLog
from rankwright.data.dataset import RankingData
from rankwright.data.reading import read_table
from rankwright.support.checks import ArgumentError
from rankwright.support.files import PathLike
from rankwright.support.frames import as_frame


def read_clicks(
    source: PathLike | Any,
    data: RankingData | None = None,
    *,
    query: str = "query",
    document: str = "document",
    position: str = "position",
    click: str = "click",
    session: str | None = "session",
    fields: Sequence[str] | None = None,
    first_position: int = 1,
) -> ClickLog:
    """Read a click log: one row for each document in each list that was shown.

    Parameters
    ----------
    source
        A Parquet or CSV file, a pandas, polars or Arrow frame, or a dictionary of columns.
    data
        The documents with their features, if they are at hand: see `ClickLog.attach`. Its field named ``document``
        holds the ids.
    query, document, position, click
        Names of the columns. A click is 1 or 0.
    session
        Column that tells lists of the same query apart. If there is no such column, a new list starts where the query
        changes or the position does not grow, in the order of the rows.
    fields
        Further columns to keep; by default all.
    first_position
        Number of the top position, 1 or 0.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"query": ["a", "a", "a", "a"], "document": ["x", "y", "x", "y"],
    ...                      "position": [1, 2, 1, 2], "click": [0, 1, 1, 0]})
    >>> log = read_clicks(rows)
    >>> log.session.tolist(), log.click.tolist()
    ([0, 0, 1, 1], [False, True, True, False])
    """
    columns = _columns(source, query)
    names = {"query": query, "document": document, "position": position, "click": click}
    for argument, name in names.items():
        if name not in columns:
            raise _no_column(argument, name, columns)
    # The default name may be missing: lists then follow each other.
    if session not in (None, "session", *columns):
        raise _no_column("session", session, columns)
    if fields is None:
        fields = [name for name in columns if name not in (*names.values(), session)]
    for name in fields:
        if name not in columns:
            raise ValueError(f"the log has no column {name!r}; it has {', '.join(columns)}.")
    log = ClickLog.of(
        columns[query],
        columns[document],
        columns[position],
        columns[click],
        columns.get(session or ""),
        fields={name: _array(columns[name]) for name in fields},
        first_position=first_position,
    )
    if data is None:
        return log
    return log.attach(data, document=document)


def _no_column(argument: str, name: str | None, columns: Iterable[str]) -> ArgumentError:
    problem = f"the log has no column {name!r}; it has {', '.join(columns)}."
    return ArgumentError(argument, "must name one of them.", problem=problem)


def _columns(source: Any, query: str) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, str | os.PathLike):
        source = read_table(source, query)
    frame = as_frame(source)
    if frame is None:
        raise ValueError(
            "a click log is a file, a data frame or a dictionary of columns; got "
            f"{type(source).__name__}."
        )
    return {name: frame[name].to_native() for name in frame.columns}


def _array(values: Any) -> Any:
    return np.asarray(values.to_pylist() if hasattr(values, "to_pylist") else values)
