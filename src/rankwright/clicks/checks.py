"""Checks of click logs: values that no list can have are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, as_floats

if TYPE_CHECKING:
    from rankwright.clicks.log import ClickLog

_LAST_POSITION = 2**31 - 1


def as_clicks(click: ArrayLike, n_rows: int) -> NDArray[np.bool_]:
    """Return clicks as flags. Raise ValueError if a value is neither 0 nor 1."""
    values = as_numbers(click, "click", n_rows)
    bad = np.flatnonzero((values != 0) & (values != 1))
    if len(bad):
        raise ValueError(
            f"click is {values[bad[0]]:g} at row {bad[0]}; it must be 1 for a click and 0 for "
            "none. Write a row for each time that a document was shown, not a count."
        )
    clicks: NDArray[np.bool_] = values == 1
    return clicks


def as_positions(
    values: NDArray[np.float64],
    click: NDArray[np.bool_],
    queries: Queries,
    list_code: NDArray[np.int64],
    first_position: int,
) -> NDArray[np.int64]:
    """Return positions counted from 1.

    Parameters
    ----------
    values
        Positions as they are in the log [rows].
    click
        Whether the rows were clicked [rows].
    queries
        The queries and their rows.
    list_code
        A number for the list of each row [rows].
    first_position
        Number of the top position in the log.
    """
    if first_position not in (0, 1):
        raise ValueError(
            f"first_position is the number of the top position, 0 or 1; got {first_position!r}."
        )
    missing = np.isnan(values)
    # A click without a position is a mistake in the log; a row without either was not shown.
    if (missing & click).any():
        where = _first_place(missing & click, queries)
        raise ValueError(
            f"{int((missing & click).sum())} clicks are on documents that were never shown: "
            f"{where}, has a click and no position. Drop these rows, or fill in the position."
        )
    if missing.any():
        raise ValueError(
            f"the position is missing at {_first_place(missing, queries)}; drop documents that "
            "were not shown."
        )
    for wrong, limit in (
        (values != np.floor(values), "are whole numbers"),
        (values > _LAST_POSITION, f"are at most {_LAST_POSITION}"),
        (values < 0, f"start at {first_position}"),
    ):
        if wrong.any():
            value = values[np.argmax(wrong)]
            where = _first_place(wrong, queries)
            raise ValueError(f"the position at {where}, is {value:g}; positions {limit}.")
    # Only 0 is left below the first position.
    if values.min() < first_position:
        raise _zero_based(values, queries, list_code)
    return values.astype(np.int64) - (first_position - 1)


def check_lists(log: ClickLog, document: NDArray[np.int64], first_position: int) -> None:
    """Raise ValueError if a list has two documents at one position or a document twice, or starts below the top.

    ``document`` is a number for the document of each row.
    """
    # Rows are sorted by list and position, so equal positions of a list are neighbours.
    impression = log.impression
    twice = np.flatnonzero((np.diff(impression) == 0) & (np.diff(log.position) == 0))
    if len(twice):
        raise ValueError(
            f"session {log.session[twice[0]]!s} has two documents of query {log.query[twice[0]]!s} "
            f"at position {log.position[twice[0]] - 1 + first_position}; give each list that was "
            "shown a session id of its own."
        )
    order = np.lexsort((document, impression))
    again = np.flatnonzero((np.diff(impression[order]) == 0) & (np.diff(document[order]) == 0))
    if len(again):
        row = order[again[0]]
        raise ValueError(
            f"session {log.session[row]!s} has document {log.document[row]!s} of query "
            f"{log.query[row]!s} twice; give each list that was shown a session id of its own."
        )
    # Logs that count from 1 and mix in lists that count from 0 have been refused already.
    if first_position == 0:
        tops = log.position[log.first_rows]
        n_zero, n_one = int((tops == 1).sum()), int((tops == 2).sum())
        if n_zero and n_one:
            raise ValueError(
                f"{n_zero} lists start at position 0 and {n_one} at position 1: zero-based and "
                "one-based positions seem to be mixed. Add 1 to the zero-based ones."
            )


def _zero_based(
    values: NDArray[np.float64], queries: Queries, list_code: NDArray[np.int64]
) -> ValueError:
    """Return the error of a log that counts from 0, or of a log that mixes both ways to count."""
    # The smallest position of each list.
    lists = np.unique(list_code, return_inverse=True)[1]
    tops = np.full(int(lists.max()) + 1, np.inf)
    np.minimum.at(tops, lists, values)
    if (tops == 0).all():
        return ValueError(
            "positions start at 0 in every list, and first_position is 1; add 1 to the positions."
        )
    query = _first_place(values == 0, queries).partition("query ")[2]
    return ValueError(
        f"positions start at 0 in {int((tops == 0).sum())} of {len(tops)} lists (one is of query "
        f"{query}) and later in the others: zero-based and one-based positions are mixed. Add 1 to "
        "the zero-based ones."
    )


def _first_place(rows: NDArray[np.bool_], queries: Queries) -> str:
    """Return for example ``row 3, query b`` for the first of the rows, in the caller's order."""
    row = int(np.argmax(rows))
    query = queries.ungroup(queries.query_of_row)[row]
    return f"row {row}, query {queries.ids[query]!s}"


def as_numbers(values: Any, name: str, n_rows: int) -> NDArray[np.float64]:
    """Return a column as numbers, one per row."""
    numbers = as_floats(values, f"{name} must hold numbers, one per row.")
    if numbers.shape != (n_rows,):
        raise ValueError(f"{name} has shape {numbers.shape} for {n_rows} rows; give one per row.")
    return numbers
