"""The rows that a diagnostic is given, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, as_floats

Floats = NDArray[np.float64]


def grouped_rows(values: ArrayLike, queries: Queries, name: str) -> Floats:
    """Check that there is one finite number per row, and return them in grouped order."""
    rows = as_floats(values, f"{name} must be numbers, one per row.")
    if rows.shape != (queries.n_rows,):
        raise ValueError(
            f"{name} has shape {rows.shape} for {queries.n_rows} rows; give one number per row."
        )
    rows = np.ascontiguousarray(queries.group(rows))
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows))[0])
        raise ValueError(
            f"{name} must be finite, but one is {rows[row]}: {queries.where(row)}. Check its source."
        )
    return rows
