"""Checks of click logs: clicks, positions and lists as they can have been."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries

if TYPE_CHECKING:
    from rankwright.clicks.log import ClickLog

_LAST_POSITION = 2**31 - 1


def as_clicks(click: ArrayLike, n_rows: int) -> NDArray[np.bool_]:
    """Return clicks as flags; anything but 0 and 1 is an error."""
    values = as_numbers(click, "click", n_rows)
    bad = np.flatnonzero((values != 0) & (values != 1))
    if len(bad):
        raise ValueError(
            f"click is {values[bad[0]]:g} at row {bad[0]}; it must be 1 for a click and 0 for none. Write a row for "
            "each time that a document was shown, not a count."
        )
    clicks: NDArray[np.bool_] = values == 1
    return clicks


def as_positions(
    values: NDArray[np.float64],
    click: NDArray[np.bool_],
    queries: Queries,
    of_list: NDArray[np.int64],
    first_position: int,
) -> NDArray[np.int64]:
    """Return positions counted from 1; ``of_list`` has a code for the list of each row."""
    if first_position not in (0, 1):
        raise ValueError(
            f"first_position is the number of the top position, 0 or 1; got {first_position!r}."
        )
    missing = np.isnan(values)
    if (missing & click).any():
        row = int(np.argmax(missing & click))
        raise ValueError(
            f"{int((missing & click).sum())} clicks are on documents that were never shown: row {row}, query "
            f"{_query(queries, row)}, has a click and no position. Drop these rows, or fill in the position."
        )
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"the position is missing at row {row}, query {_query(queries, row)}; drop documents that were not shown."
        )
    whole = values == np.floor(values)
    if not whole.all():
        row = int(np.argmin(whole))
        raise ValueError(
            f"the position at row {row} is {values[row]:g}; positions are whole numbers."
        )
    if values.max() > _LAST_POSITION:
        row = int(np.argmax(values))
        raise ValueError(
            f"the position at row {row} is {values[row]:g}; positions are at most {_LAST_POSITION}."
        )
    if values.min() < first_position:
        row = int(np.argmin(values))
        if values[row] == 0:
            raise _zero_based(values, row, queries, of_list)
        raise ValueError(
            f"the position at row {row}, query {_query(queries, row)}, is {values[row]:g}; positions start at "
            f"{first_position}."
        )
    return values.astype(np.int64) - (first_position - 1)


def check_lists(log: ClickLog, document: NDArray[np.int64], first_position: int) -> None:
    """Raise ValueError where a list has two documents at one position, or a document twice, or starts at odd places.

    ``document`` has a code for each row.
    """
    impression = log.impression
    same_list = impression[1:] == impression[:-1]
    twice = np.flatnonzero(same_list & (log.position[1:] == log.position[:-1]))
    if len(twice):
        raise ValueError(
            f"session {log.session[twice[0]]!s} has two documents of query {log.query[twice[0]]!s} at position "
            f"{log.position[twice[0]] - 1 + first_position}; give each list that was shown a session id of its own."
        )
    order = np.lexsort((document, impression))
    again = np.flatnonzero(
        (impression[order][1:] == impression[order][:-1])
        & (document[order][1:] == document[order][:-1])
    )
    if len(again):
        row = order[again[0]]
        raise ValueError(
            f"session {log.session[row]!s} has document {log.document[row]!s} of query {log.query[row]!s} twice; give "
            "each list that was shown a session id of its own."
        )
    if first_position == 0:
        tops = log.position[np.flatnonzero(np.diff(impression, prepend=-1))]
        if (tops == 2).any() and (tops == 1).any():
            raise ValueError(
                f"{int((tops == 1).sum())} lists start at position 0 and {int((tops == 2).sum())} at position 1: "
                "zero-based and one-based positions seem to be mixed. Add 1 to the zero-based ones."
            )


def _zero_based(
    values: NDArray[np.float64], row: int, queries: Queries, of_list: NDArray[np.int64]
) -> ValueError:
    """Tell a log that counts from 0 from one that mixes both."""
    number = np.unique(of_list, return_inverse=True)[1]
    tops = np.full(int(number.max()) + 1, np.inf)
    np.minimum.at(tops, number, values)
    if (tops == 0).all():
        return ValueError(
            "positions start at 0 in every list; add 1 to them, or give read_clicks first_position=0."
        )
    return ValueError(
        f"positions start at 0 in {int((tops == 0).sum())} of {len(tops)} lists (one is of query "
        f"{_query(queries, row)}) and later in the others: zero-based and one-based positions are mixed. Add 1 to the "
        "zero-based ones."
    )


def _query(queries: Queries, row: int) -> Any:
    return str(queries.ids[queries.ungroup(queries.query_of_row)[row]])


def as_numbers(values: Any, name: str, n_rows: int) -> NDArray[np.float64]:
    """Return a column as numbers, one per row."""
    native = values.to_native() if hasattr(values, "to_native") else values
    if hasattr(native, "to_pylist"):
        native = native.to_pylist()
    try:
        numbers = np.asarray(native, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, one per row.") from None
    if numbers.shape != (n_rows,):
        raise ValueError(f"{name} has shape {numbers.shape} for {n_rows} rows; give one per row.")
    return numbers
