"""Labels, query ids and fields of a table: take the columns that arguments name, and check the values.

Documents may have several labels, for example relevance and margin. The first is the main label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import names_columns, take_column
from rankwright.data.queries import Queries, check_labels
from rankwright.support.frames import as_frame
from rankwright.support.notation import check_label_name, nearest
from rankwright.support.other_libraries import refuse_other_table

Labels = Mapping[str, NDArray[np.float64]]
UNNAMED = "label"  # the name of a label that was given without a name


class Given(NamedTuple):
    """Arguments of a caller, with the values of columns in place of their names."""

    features: Any
    y: Any
    qid: Any
    fields: Mapping[str, Any]


def take_named(X: Any, y: Any, qid: Any, fields: Any, document: Any) -> Given:
    """Take the columns that other arguments of `RankingData` name out of a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"grade": [1], "query": [7], "bm25": [0.5]})
    >>> given = take_named(frame, "grade", "query", None, None)
    >>> given.features.columns, given.qid.to_list()
    (['bm25'], [7])
    """
    frame = as_frame(X)
    if frame is None:  # an array has no columns to take
        _refuse_names(X, y, qid, fields)
        return Given(X, y, qid, dict(fields or {}))
    # Labels, query ids and fields must not stay among the features.
    if names_columns(y, frame.columns):
        labels = {}
        for name in [y] if isinstance(y, str) else y:
            frame, labels[name] = take_column(frame, name, "y")
        y = labels
    if isinstance(qid, str):
        frame, qid = take_column(frame, qid, "qid")
    values = {}
    if isinstance(fields, Mapping):
        values = dict(fields)
    else:
        # A list of names takes columns out of the features.
        for name in fields or ():
            frame, values[name] = take_column(frame, name, "fields")
    if isinstance(document, str) and document not in values:
        frame, values[document] = take_column(frame, document, "document")
    return Given(frame, y, qid, values)


def _refuse_names(X: Any, y: Any, qid: Any, fields: Any) -> None:
    """Raise ValueError if arguments name columns of data without names."""
    refuse_other_table(X)
    for name, value in (("y", y), ("qid", qid)):
        if isinstance(value, str):
            raise ValueError(
                f"{name}={value!r} names a column, but X is a {type(X).__name__} without column "
                f"names. Pass {name} as an array, or X as a data frame."
            )
    if fields is not None and not isinstance(fields, Mapping):
        raise ValueError(
            f"fields={list(fields)!r} names columns, but X is a {type(X).__name__} without column "
            "names. Pass fields as a dict of arrays, or X as a data frame."
        )


def named_labels(labels: Any) -> dict[str, Any] | None:
    """Return the labels of a dict or a data frame by name; None for a single label."""
    # Both a dict and a data frame give labels by name; everything else is a single label.
    if isinstance(labels, Mapping):
        named = dict(labels)
    else:
        frame = as_frame(labels)
        if frame is None:
            return None
        named = {name: frame[name] for name in frame.columns}
    if not named:
        raise ValueError(
            "y holds no labels; give at least one by name, such as {'relevance': [...]}."
        )
    for name in named:
        if name is None:
            raise ValueError("y: a label's name must be text; got None.")
        check_label_name(name, "y")
    return named


def grouped_labels(labels: Any, queries: Queries) -> dict[str, NDArray[np.float64]]:
    """Check the label or labels, and return them by name in grouped order.

    Examples
    --------
    >>> queries = Queries.from_qid(["b", "a", "b"])
    >>> {name: values.tolist() for name, values in grouped_labels({"a": [1, 2, 3]}, queries).items()}
    {'a': [2.0, 1.0, 3.0]}
    >>> list(grouped_labels([1, 2, 3], queries))
    ['label']
    """
    named = named_labels(labels)
    if named is None:
        return {UNNAMED: check_labels(labels, queries)}
    # Errors name the label, because several labels are checked by the same function.
    checked = {}
    for name, values in named.items():
        try:
            checked[name] = check_labels(values, queries)
        except ValueError as error:
            # A message about the only label needs no name.
            if len(named) == 1:
                raise
            raise ValueError(f"label {name!r}: {error}") from None
    return checked


def grouped_field(name: str, values: Any, queries: Queries) -> NDArray[Any]:
    """Check that a field has a value for each row, and return it in grouped order."""
    array = np.asarray(values)
    if array.dtype.kind == "U":
        # In an array of fixed width, a single long text takes as much memory in every row.
        array = array.astype(object)
    if array.shape != (queries.n_rows,):
        raise ValueError(
            f"the field {name!r} has shape {array.shape} for {queries.n_rows} rows; give one per "
            "row."
        )
    return queries.group(array)


def is_judged(labels: Labels, n_rows: int) -> NDArray[np.bool_]:
    """Return True for each row that has all of its labels.

    Examples
    --------
    >>> is_judged({"grade": np.array([1, np.nan, 0]), "margin": np.array([np.nan, 2, 3])}, 3).tolist()
    [False, False, True]
    """
    judged = np.ones(n_rows, dtype=bool)
    for values in labels.values():
        judged &= ~np.isnan(values)
    return judged


def as_not_relevant(label: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a label with 0 in place of missing values.

    Examples
    --------
    >>> as_not_relevant(np.array([1.0, np.nan])).tolist()
    [1.0, 0.0]
    """
    missing = np.isnan(label)
    if not missing.any():
        return label
    return np.where(missing, 0.0, label)


def check_any_judged(name: str | None, judged: NDArray[np.bool_]) -> None:
    """Raise ValueError if no row is judged; ``name`` is the label's name."""
    if judged.any():
        return
    of_name = f" {name!r}" if name is not None else ""
    raise ValueError(
        f"no document has a label{of_name}: it is missing (NaN) in every row. Give the labels of at "
        "least some documents."
    )


def number_of_rows(labels: Any) -> int:
    """Return the number of rows of a label, or of several labels by name."""
    named = named_labels(labels)
    if named is not None:
        labels = next(iter(named.values()))
    return int(np.size(labels))


def choose_label(labels: Labels, name: str | None) -> NDArray[np.float64]:
    """Return the label of a name, or the main label without a name."""
    if not labels:
        raise ValueError(
            "there are no labels, only pairs; give labels as y, or use an objective that learns "
            "from pairs, such as 'ranknet(pairs)'."
        )
    if name is None:
        return next(iter(labels.values()))
    if name not in labels:
        raise ValueError(
            f"unknown label {name!r}{nearest(name, labels)} The data has "
            f"{', '.join(map(repr, labels))}: give y as a dict or frame of labels by name."
        )
    return labels[name]
