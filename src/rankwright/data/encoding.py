"""The encoding of features, frames and arrays alike, as the matrix that trees train on and score."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matching import (
    Columns,
    HasColumns,
    Levels,
    check_same_categories,
    generated_names,
    matched_names,
    shown,
)
from rankwright.data.matrices import Matrix, checked_csr, dense, first_infinite, is_sparse
from rankwright.data.queries import is_missing
from rankwright.support.frames import as_frame

if TYPE_CHECKING:
    import narwhals as nw  # a tenth of the time that a saved model takes to load

MOST_COLUMNS = 1 << 24  # their names alone take a gigabyte


def frame_columns(X: Any) -> list[str]:
    """Return the column names of a data frame; none for anything else."""
    frame = as_frame(X)
    return [] if frame is None else list(frame.columns)


def named_column(X: Any, value: Any, argument: str) -> Any:
    """Return the column that a text names, or the value itself if it is not a text."""
    if not isinstance(value, str):
        return value
    if value not in frame_columns(X):
        text = repr(value) if value == argument else f"{argument}={value!r}"
        raise ValueError(
            f"{text} is not a column of X; name one of a data frame, or give an array."
        )
    return X[value]


def drop_columns(X: Any, names: Sequence[str]) -> Any:
    """Remove the columns that a data frame has of these; anything else is returned unchanged."""
    frame = as_frame(X)
    present = [] if frame is None else sorted(set(names) & set(frame.columns))
    return frame.drop(present).to_native() if frame is not None and present else X


def encode_features(X: Any, columns: Columns) -> Any:
    """Turn the features of new rows into the matrix a model was trained on."""
    if _is_plain(X, columns):
        return _without_infinities(X, columns)
    frame = as_frame(X)
    if frame is not None:
        matrix, _, levels = encode_frame(frame, None, None, columns)
    else:
        matrix, _, levels = encode_matrix(X, None, None, columns)
    check_same_categories(levels, columns.categories)
    return _without_infinities(matrix, columns)


def _is_plain(X: Any, columns: Columns) -> bool:
    """Return whether X is a matrix that needs no encoding: looking no further makes small requests faster."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and X.shape[1] == len(columns.feature_names)
        and not columns.categories
    )


def _without_infinities(matrix: Matrix, columns: Columns) -> Matrix:
    place = first_infinite(matrix)
    if place is not None:
        raise ValueError(
            f"X has an infinite value at row {place[0]}, feature {columns.feature_names[place[1]]!r}; use NaN for a "
            "missing value, or a large finite number."
        )
    return matrix


def take_column(
    frame: nw.DataFrame[Any], name: str, argument: str
) -> tuple[nw.DataFrame[Any], nw.Series[Any]]:
    """Return a frame without a column, and that column; errors name the ``argument`` that gave its name."""
    if name not in frame.columns:
        near = get_close_matches(name, frame.columns, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shown(frame.columns)}."
        raise ValueError(f"{argument}={name!r} is not a column of the data; {hint}")
    return frame.drop(name), frame[name]


def encode_frame(
    frame: nw.DataFrame[Any],
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: HasColumns | None,
) -> tuple[Matrix, list[str], Levels]:
    """Turn a data frame into a matrix, its column names and the levels of its categorical columns.

    With a reference the columns get its names and its order.
    """
    import narwhals as nw

    names = _check_names(
        frame.columns if feature_names is None else feature_names, len(frame.columns)
    )
    categorical_names = _column_names(categorical, names)
    by_name = dict(zip(names, frame.iter_columns(), strict=True))
    known_levels: Levels = {}
    if reference is not None:
        known_levels = reference.categories
        if set(names) == set(reference.feature_names):
            names = list(
                reference.feature_names
            )  # columns of a frame are matched by name, in any order
        matched = matched_names(names, True, reference)
        new_names = dict(zip(names, matched, strict=True))
        by_name = {new_names[name]: series for name, series in by_name.items()}
        categorical_names = [new_names[name] for name in categorical_names]
        names = matched
    levels: Levels = {}
    columns = []
    for name in names:
        series = by_name[name]
        _check_dictionary(series)
        is_category = (
            series.dtype in (nw.Categorical, nw.Enum)
            or name in categorical_names
            or name in known_levels
        )
        is_number = series.dtype.is_numeric() or series.dtype == nw.Boolean
        if is_category and not (series.dtype.is_numeric() and known_levels.get(name) is None):
            values, levels[name] = _codes(series, known_levels.get(name))
        elif is_number:
            values = _floats(series)
            if is_category:
                levels[name] = None
                _check_codes(np.asarray(values), name)
        elif len(series) and series.null_count() == len(series):
            values = np.full(len(series), np.nan)  # a column without a value has any type
        elif reference is not None:
            raise ValueError(
                f"column {name!r} has the type {series.dtype}, but numbers in the training data; convert it."
            )
        else:
            raise ValueError(_not_numbers(by_name, categorical_names, known_levels))
        columns.append(np.asarray(values, dtype=np.float64))
    matrix = np.column_stack(columns) if columns else np.empty((len(frame), 0))
    return matrix, names, levels


def _floats(series: nw.Series[Any]) -> NDArray[np.float64]:
    import narwhals as nw

    try:
        return np.asarray(series.cast(nw.Float64).to_numpy())
    except (
        ValueError
    ):  # Arrow casts no whole number above 2^53; here it is rounded, as NumPy and pandas do
        return np.array(series.to_list(), dtype=np.float64)


def _not_numbers(
    series_of: dict[str, nw.Series[Any]], categorical: Sequence[str], known_levels: Levels
) -> str:
    """Say which columns hold neither numbers nor categories: all of them, to be dealt with at once."""
    import narwhals as nw

    kinds = (nw.Categorical, nw.Enum, nw.Boolean)
    wrong = [
        f"{name!r} has the type {series.dtype}"
        for name, series in series_of.items()
        if not (
            series.dtype.is_numeric()
            or series.dtype in kinds
            or name in categorical
            or name in known_levels
        )
        and series.null_count() < len(series)
    ]
    remedy = "in categorical=, or give it a categorical type, or drop it."
    if len(wrong) == 1:
        return f"column {wrong[0]}, not numbers. Name it {remedy}"
    return f"{len(wrong)} columns do not hold numbers: {shown(wrong)}. Name each {remedy}"


def _check_dictionary(series: nw.Series[Any]) -> None:
    """Raise ValueError where an Arrow column has codes outside of its dictionary, which Arrow follows unchecked."""
    import narwhals as nw

    native = series.to_native()
    if series.dtype == nw.Categorical and hasattr(native, "validate"):
        try:
            native.validate(full=True)
        except ValueError as error:  # ArrowInvalid
            raise ValueError(
                f"column {series.name!r} is not a valid Arrow column: {error}"
            ) from None


def _codes(
    series: nw.Series[Any], known_levels: tuple[Any, ...] | None
) -> tuple[NDArray[np.float64], tuple[Any, ...]]:
    """Encode each value by its position in ``known_levels``, or among its sorted values; others become missing."""
    values = series.to_list()
    try:
        present = {value for value in values if not is_missing(value)}
    except TypeError:  # lists and the like, which have no hash
        raise ValueError(
            f"column {series.name!r} has the type {series.dtype}, whose values cannot be categories; turn them into "
            "text, or drop it."
        ) from None
    if known_levels is None:
        known_levels = sorted_levels(present, series.name)
    if present and not any(isinstance(value, str) for value in present) and _all_text(known_levels):
        raise ValueError(
            f"column {series.name!r} has the type {series.dtype}, but its categories are text in the training data, "
            f"such as {known_levels[0]!r}; give the text."
        )
    code = {level: float(i) for i, level in enumerate(known_levels)}
    return np.array([code.get(value, np.nan) for value in values]), known_levels


def sorted_levels(present: Collection[Any], name: str) -> tuple[Any, ...]:
    """Return the categories of a column in the order of their codes; only what a saved model can hold is one.

    Examples
    --------
    >>> sorted_levels({"red", "blue"}, "colour")
    ('blue', 'red')
    """
    others = [value for value in present if not isinstance(value, str | int | float)]
    if others:
        example = min(others, key=str)
        raise ValueError(
            f"column {name!r} has categories of the type {type(example).__name__}, such as {example}, which a saved "
            "model cannot hold; turn them into text or numbers."
        )
    return tuple(sorted(present, key=lambda value: (str(type(value)), value)))


def _all_text(levels: Sequence[Any]) -> bool:
    return len(levels) > 0 and all(isinstance(level, str) for level in levels)


def encode_matrix(
    X: Any,
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: HasColumns | None,
) -> tuple[Matrix, list[str], Levels]:
    """Turn an array or a sparse matrix into a matrix, its column names and its categorical columns.

    With a reference the columns get its names.
    """
    if is_sparse(X):
        matrix: Matrix = checked_csr(X)
    else:
        matrix = dense(X)
    n_columns = matrix.shape[1]
    if n_columns > MOST_COLUMNS:
        raise ValueError(
            f"X has {n_columns} columns, more than {MOST_COLUMNS}; leave out or hash those that are rare."
        )
    if feature_names is not None:
        names = _check_names(feature_names, n_columns)
    elif reference is not None and len(reference.feature_names) == n_columns:
        names = list(reference.feature_names)
    else:
        names = generated_names(n_columns)
    categorical_names = _column_names(categorical, names)
    if reference is not None:
        matched = matched_names(names, feature_names is not None, reference)
        categorical_names = [matched[names.index(name)] for name in categorical_names]
        if categorical is None:
            categorical_names = list(reference.categories)
        names = matched
    levels: Levels = {}
    for name in categorical_names:
        values = matrix[:, names.index(name)]
        known = None if reference is None else reference.categories.get(name)
        _check_codes(values.toarray().ravel() if is_sparse(values) else values, name, known)
        levels[name] = None
    return matrix, names, levels


def _check_names(feature_names: Sequence[str], n_columns: int) -> list[str]:
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(
            f"feature_names has {len(names)} names for {n_columns} columns; give one per column."
        )
    if len(names) != len(set(names)):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature name {repeated!r} occurs twice; give each column its own name.")
    return names


def _column_names(columns: Sequence[str | int] | None, names: list[str]) -> list[str]:
    """Return the names of columns given by name or by number."""
    if isinstance(columns, str):
        raise ValueError(f"categorical must be a list of columns; write categorical=[{columns!r}].")
    chosen = []
    for column in columns or ():
        name = column
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            name = names[int(column)]
        if name not in names:
            raise ValueError(
                f"categorical column {column!r} is not a column of the data; it has {shown(names)}."
            )
        chosen.append(name)
    return chosen


def _check_codes(values: NDArray[Any], name: str, levels: tuple[Any, ...] | None = None) -> None:
    present = values[~np.isnan(values)]
    if np.any((present < 0) | (present != np.trunc(present))):
        raise ValueError(
            f"categorical column {name!r} must hold whole numbers from 0, or text in a data frame."
        )
    if levels is not None and len(present) and present.max() >= len(levels):
        raise ValueError(
            f"categorical column {name!r} has the code {present.max():g}, but the training data has {len(levels)} "
            "categories, whose codes count from 0; give the categories themselves in a data frame."
        )
