"""The rows that a diagnostic is given, checked; results as data frames and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, as_floats

if TYPE_CHECKING:
    import pandas as pd

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


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a pandas frame of the rows."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas; run `pip install pandas`.") from error
    return pd.DataFrame(list(rows))


def plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinities become None, ids of other types become text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
