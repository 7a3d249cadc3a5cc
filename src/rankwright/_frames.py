"""Results as data frames of the library that the user chooses."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

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
