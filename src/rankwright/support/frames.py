"""Data frames of any library, as arguments and as results. Libraries are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from rankwright.support import checks

if TYPE_CHECKING:
    import narwhals as nw  # slow to import: a tenth of the time to load a saved model

Library = Literal["pandas", "polars", "pyarrow"]


def data_frame(columns: Mapping[str, Any], library: Library) -> Any:
    """Return columns as a data frame.

    Examples
    --------
    >>> data_frame({"a": [1, 2]}, "polars").rows()
    [(1,), (2,)]
    """
    import narwhals as nw

    checks.choice("library", library, get_args(Library))
    try:
        import_module(library)
    except ImportError:
        raise ImportError(
            f"to_dataframe needs {library}, which is not installed: pip install {library}."
        ) from None
    return nw.from_dict(dict(columns), backend=library).to_native()


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of any library as a Narwhals frame; None for any other value.

    Raise ValueError for lazy frames, and if columns share a name.

    Examples
    --------
    >>> as_frame([[1, 2]]) is None
    True
    """
    # Most data are arrays, and for them we avoid the slow import.
    if isinstance(X, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    try:
        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise ValueError(
                f"a {type(X).__name__} has no rows yet, only a recipe for them; give what it "
                "yields: .collect() of polars, .compute() of Dask."
            )
        if not isinstance(frame, nw.DataFrame):
            return None
        # Some libraries check for repeated names only here.
        _ = frame.columns
    except nw.exceptions.DuplicateError:
        names = list(map(str, X.columns))
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"column {repeated!r} occurs twice; give each column its own name."
        ) from None
    return frame
