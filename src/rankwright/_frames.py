"""Data frames of any library, given and returned, without importing any before it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import narwhals as nw  # a tenth of the time that a saved model takes to load

Library = Literal["pandas", "polars", "pyarrow"]


def data_frame(columns: Mapping[str, Any], library: Library) -> Any:
    """Return columns as a data frame.

    Examples
    --------
    >>> data_frame({"a": [1, 2]}, "polars").rows()
    [(1,), (2,)]
    """
    import narwhals as nw

    if library not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"library must be 'pandas', 'polars' or 'pyarrow'; got {library!r}.")
    try:
        import_module(library)
    except ImportError:
        raise ImportError(f"to_dataframe needs {library}, which is not installed: pip install {library}.") from None
    return nw.from_dict(dict(columns), backend=library).to_native()


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of any library in one form; None for anything else.

    Examples
    --------
    >>> as_frame([[1, 2]]) is None
    True
    """
    if isinstance(X, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None
