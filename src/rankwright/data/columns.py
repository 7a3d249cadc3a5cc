"""Columns of features: take those that an argument names, encode them, and match them with a model's columns.

A feature column becomes a column of floats. A categorical column becomes codes, the positions of its
values among the *levels*. New data gets the levels of the training data, and an unknown value counts
as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.guards import check_levels
from rankwright.data.matrices import Matrix, as_dense, checked_csr, dense, first_infinite, is_sparse
from rankwright.data.queries import is_missing
from rankwright.support.checks import ArgumentError
from rankwright.support.frames import as_frame

if TYPE_CHECKING:
    import narwhals as nw  # importing it takes a tenth of the time that loading a saved model takes

Levels = dict[str, tuple[Any, ...] | None]

MOST_COLUMNS = 1 << 24  # their names alone take a gigabyte


@dataclass(frozen=True)
class Columns:
    """Names of the columns and levels of the categorical columns, which other data must match.

    Parameters
    ----------
    feature_names, categories
        Names of the columns, and levels of the categorical columns: None if values were given as codes.
    named
        Whether the names were given. Generated names, for arrays and LETOR text, are matched by
        position.
    first_index
        For columns of LETOR text the index of the first column in the file, 1 or 0; None for other
        data.
    """

    feature_names: list[str]
    categories: Levels
    named: bool = True
    first_index: int | None = None

    @classmethod
    def of(cls, data: HasColumns) -> Columns:
        """Return the columns of data or of a model."""
        return cls(list(data.feature_names), data.categories, data.named, data.first_index)


class HasColumns(Protocol):
    """Data or a model with columns that other data must match."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""

    @property
    def categories(self) -> Levels:
        """Levels of the categorical columns."""

    @property
    def named(self) -> bool:
        """Whether the names were given."""

    @property
    def first_index(self) -> int | None:
        """Index of the first column in LETOR text; None for other data."""


def shown(names: Sequence[Any]) -> str:
    """Return the first few names, for errors."""
    text = ", ".join(str(name) for name in names[:8])
    if len(names) > 8:
        text += ", ..."
    return text


def generated_names(n_columns: int, first: int = 0) -> list[str]:
    """Name columns without names by their numbers, from ``first``.

    Examples
    --------
    >>> generated_names(2), generated_names(2, first=1)
    (['f0', 'f1'], ['f1', 'f2'])
    """
    return [f"f{number}" for number in range(first, first + n_columns)]


# Columns that arguments name


def frame_columns(X: Any) -> list[str]:
    """Return the column names of a data frame, and an empty list for other data."""
    frame = as_frame(X)
    if frame is None:
        return []
    return list(frame.columns)


def names_columns(y: Any, columns: Sequence[str]) -> bool:
    """Return True if y names columns: a text, or a list of texts with at least one of the columns."""
    if isinstance(y, str):
        return True
    if not isinstance(y, list | tuple) or not all(isinstance(name, str) for name in y):
        return False
    return any(name in columns for name in y)


def named_column(X: Any, value: Any, argument: str) -> Any:
    """Return the column that a text names, or the value itself if it is not a text."""
    if not isinstance(value, str):
        return value
    if value not in frame_columns(X):
        text = f"{argument}={value!r}"
        if value == argument:
            text = repr(value)
        raise ValueError(
            f"{text} is not a column of X; name one of a data frame, or give an array."
        )
    return X[value]


def drop_columns(X: Any, names: Sequence[str]) -> Any:
    """Remove these columns from a data frame if it has them, and return other data unchanged."""
    frame = as_frame(X)
    if frame is None:
        return X
    # The names may be for the training data, so new data need not have all of them.
    present = sorted(set(names) & set(frame.columns))
    if not present:
        return X
    return frame.drop(present).to_native()


def further_columns(X: Any, columns: HasColumns) -> list[str]:
    """Return the columns of a data frame that are no features, if it has all features by name.

    Examples
    --------
    >>> import pandas as pd
    >>> further_columns(pd.DataFrame({"bm25": [1.0], "url": ["x"]}), Columns(["bm25"], {}))
    ['url']
    """
    given, features = frame_columns(X), set(columns.feature_names)
    if not columns.named or not features <= set(given):
        return []
    return [name for name in given if name not in features]


def take_column(
    frame: nw.DataFrame[Any], name: str, argument: str
) -> tuple[nw.DataFrame[Any], nw.Series[Any]]:
    """Return a frame without a column, and the column; errors name the ``argument`` that gave its name."""
    # Most unknown names are misspelt, so the error suggests the nearest name.
    if name not in frame.columns:
        near = get_close_matches(name, frame.columns, n=1)
        hint = f"it has {shown(frame.columns)}."
        if near:
            hint = f"did you mean {near[0]!r}?"
        raise ValueError(f"{argument}={name!r} is not a column of the data; {hint}")
    return frame.drop(name), frame[name]


# Matching with the columns of training data


def matched_names(names: list[str], named: bool, reference: HasColumns) -> list[str]:
    """Return the reference's names for columns that match them, or raise ValueError.

    Columns are matched by name if both sides were given names. Otherwise they are matched by position,
    because generated names have no meaning, and only the number of columns has to agree.

    Examples
    --------
    >>> matched_names(["bm25", "length"], True, Columns(["f1", "f2"], {}, named=False))
    ['f1', 'f2']
    """
    expected = list(reference.feature_names)
    # Equal generated names are compared too, because a file may hold such columns in another order.
    by_name = named and reference.named
    if by_name or set(names) == set(expected):
        _check_same_names(names, expected)
        return expected
    if len(names) == len(expected):
        return expected
    # The numbers of columns differ. The remedy depends on where the training data came from.
    remedy = "Columns without names are matched by position; give as many as in the training data"
    if reference.first_index is not None and named:
        remedy = (
            "The training data was LETOR text, so columns are matched by position; give all, in "
            "its order"
        )
    elif reference.first_index is not None:
        remedy += f" (read_letor(..., n_features={len(expected)}) for LETOR text)"
    raise ValueError(
        f"X has {len(names)} features, but Ranker is expecting {len(expected)} features as input. "
        f"{remedy}."
    )


def _check_same_names(names: list[str], expected: list[str]) -> None:
    """Raise ValueError unless the names are the same, in the same order."""
    if names == expected:
        return
    # Names that differ are listed before a wrong order is reported, because they are the more
    # likely mistake.
    missing = [name for name in expected if name not in names]
    extra = [name for name in names if name not in expected]
    if missing or extra:
        detail = ""
        if missing:
            detail = f" Missing: {shown(missing)}."
        if extra:
            detail += f" Not expected: {shown(extra)}."
        raise ValueError(
            f"the columns of the data ({len(names)}) are not those of the training data "
            f"({len(expected)}).{detail} Give the same columns."
        )
    column = next(number for number, name in enumerate(names) if name != expected[number])
    raise ValueError(
        f"column {column} is {names[column]!r}, but {expected[column]!r} in the training data; "
        "give the columns in the same order."
    )


def _check_same_categories(levels: Levels, expected: Levels) -> None:
    """Raise ValueError unless the same columns hold categories, given in a way that can be matched.

    Codes may stand for the levels of the training data, but text cannot be turned into its codes.
    """
    for name in levels.keys() | expected.keys():
        if name not in expected:
            raise ValueError(
                f"column {name!r} holds categories here but numbers in the training data; use one "
                "type in both."
            )
        if expected[name] is None and levels.get(name) is not None:
            raise ValueError(
                f"column {name!r} holds text here but codes in the training data; give codes in "
                "both."
            )


# Encoding as a matrix of floats


def encode(
    X: Any,
    feature_names: Sequence[str] | None = None,
    categorical: Sequence[str | int] | None = None,
    reference: HasColumns | None = None,
) -> tuple[Matrix, list[str], Levels]:
    """Turn features of any kind into a matrix, its column names and the levels of its categorical columns.

    With a reference the columns get its names, its order and its levels.

    Examples
    --------
    >>> import pandas as pd
    >>> matrix, names, levels = encode(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), categorical=["b"])
    >>> matrix.tolist(), names, levels
    ([[1.0, 0.0], [2.0, 1.0]], ['a', 'b'], {'b': ('x', 'y')})
    """
    frame = as_frame(X)
    if frame is None:
        matrix, names, levels = _encode_matrix(X, feature_names, categorical, reference)
    else:
        matrix, names, levels = _encode_frame(frame, feature_names, categorical, reference)
    if reference is None:
        return matrix, names, levels
    # New data gets the levels of the training data, because trees hold codes of these levels.
    _check_same_categories(levels, reference.categories)
    return matrix, names, reference.categories


def encode_features(X: Any, columns: Columns) -> Any:
    """Turn the features of new rows into the matrix that a model was trained on.

    Examples
    --------
    >>> encode_features([[1, 2]], Columns(["bm25", "length"], {})).tolist()
    [[1.0, 2.0]]
    """
    # Small requests are answered faster because a matrix that needs no encoding is not looked at further.
    if _is_encoded(X, columns):
        matrix = X
    else:
        matrix, _, _ = encode(X, reference=columns)
    place = first_infinite(matrix)
    if place is not None:
        row, column = place
        raise ValueError(
            f"X has an infinite value at row {row}, feature {columns.feature_names[column]!r}; use "
            "NaN for a missing value, or a large finite number."
        )
    return matrix


def _is_encoded(X: Any, columns: Columns) -> bool:
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and X.shape[1] == len(columns.feature_names)
        and not columns.categories
    )


def _encode_frame(
    frame: nw.DataFrame[Any],
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: HasColumns | None,
) -> tuple[Matrix, list[str], Levels]:
    import narwhals as nw

    if feature_names is None:
        feature_names = frame.columns
    names = _checked_names(feature_names, len(frame.columns))
    categorical_names = set(_categorical_names(categorical, names))
    series_of = dict(zip(names, frame.iter_columns(), strict=True))
    expected: Levels = {}
    if reference is not None:
        expected = reference.categories
        if set(names) == set(reference.feature_names):
            # Columns of a frame may come in any order, because they are matched by name.
            names = list(reference.feature_names)
        matched = matched_names(names, True, reference)
        new_name = dict(zip(names, matched, strict=True))
        series_of = {new_name[name]: series for name, series in series_of.items()}
        categorical_names = {new_name[name] for name in categorical_names}
        names = matched
    categorical_names |= expected.keys()
    # Columns with a categorical type need not be named.
    for name, series in series_of.items():
        _check_dictionary(series)
        if series.dtype in (nw.Categorical, nw.Enum):
            categorical_names.add(name)
    numeric = {name: series for name, series in series_of.items() if name not in categorical_names}
    _check_numeric(numeric, in_training=reference is not None)

    levels: Levels = {}
    matrix = np.empty((len(frame), len(names)))
    for number, name in enumerate(names):
        series = series_of[name]
        if name in categorical_names:
            matrix[:, number], levels[name] = _encode_categories(series, name, expected.get(name))
        else:
            matrix[:, number] = _floats(series)
    return matrix, names, levels


def _check_dictionary(series: nw.Series[Any]) -> None:
    """Raise ValueError if an Arrow column has codes outside of its dictionary, which Arrow follows unchecked."""
    import narwhals as nw

    # Only Arrow columns can be validated. Other libraries check the codes themselves.
    native = series.to_native()
    if series.dtype == nw.Categorical and hasattr(native, "validate"):
        try:
            native.validate(full=True)
        except ValueError as error:  # ArrowInvalid
            raise ValueError(
                f"column {series.name!r} is not a valid Arrow column: {error}"
            ) from None


def _check_numeric(series_of: dict[str, nw.Series[Any]], in_training: bool) -> None:
    """Raise ValueError if columns do not hold numbers; name all of them, so that they can be repaired at once."""
    import narwhals as nw

    wrong: dict[str, list[str]] = {}
    for name, series in series_of.items():
        is_number = series.dtype.is_numeric() or series.dtype == nw.Boolean
        is_empty = series.null_count() == len(series)  # such a column may have any type
        if is_number or is_empty:
            continue
        if in_training:
            raise ValueError(
                f"column {name!r} has the type {series.dtype}, but numbers in the training data; "
                "convert it."
            )
        wrong.setdefault(_kind(series), []).append(f"{name!r} has the type {series.dtype}")
    if not wrong:
        return
    kinds = [f"{shown(columns)} ({kind})" for kind, columns in wrong.items()]
    number = sum(map(len, wrong.values()))
    problem = f"{number} columns do not hold numbers: {'; '.join(kinds)}"
    if number == 1:
        problem = f"column {kinds[0]}, not numbers"
    raise ArgumentError(
        "categorical",
        "must name it, or it needs a categorical type.",
        problem=f"{problem}. Drop a column that is no feature; if it holds categories,",
    )


def _kind(series: nw.Series[Any]) -> str:
    """Say what a column that holds no numbers looks like, and what to do with it."""
    if series.dtype.is_temporal():
        return "dates; give a number, such as the age in days"
    values = [value for value in series.head(1000).to_list() if not is_missing(value)]
    texts = [value for value in values if isinstance(value, str)]
    if not texts:
        return "no text; drop it"
    if sum(map(len, texts)) > 40 * len(texts):
        return "long text; drop it, or give a score of a text model"
    if len(texts) >= 20 and len(set(texts)) > 0.9 * len(texts):
        return "ids; drop it, or name it as docid or a field"
    return "categories"


def _floats(series: nw.Series[Any]) -> NDArray[np.float64]:
    import narwhals as nw

    if series.null_count() == len(series):
        return np.full(len(series), np.nan)
    try:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except ValueError:
        # Arrow refuses to cast whole numbers above 2^53. NumPy and pandas round them, and so do we.
        return np.array(series.to_list(), dtype=np.float64)


def _encode_categories(
    series: nw.Series[Any], name: str, levels: tuple[Any, ...] | None
) -> tuple[NDArray[np.float64], tuple[Any, ...] | None]:
    """Return the codes of a categorical column, and its levels; numbers without known levels are codes already."""
    # Numbers are taken as codes, because the training data had no texts for them.
    if series.dtype.is_numeric() and levels is None:
        codes = _floats(series)
        _check_codes(codes, name)
        return codes, None
    values = series.to_list()
    try:
        present = {value for value in values if not is_missing(value)}
    except TypeError:  # lists and the like, which have no hash
        raise ValueError(
            f"column {series.name!r} has the type {series.dtype}, whose values cannot be "
            "categories; turn them into text, or drop it."
        ) from None
    if levels is None:
        levels = sorted_levels(present, series.name)
        check_levels(name, len(levels), len(values))
    # Codes in place of text would all be unknown, and so become missing values without an
    # error.
    levels_are_text = len(levels) > 0 and all(isinstance(level, str) for level in levels)
    has_text = any(isinstance(value, str) for value in present)
    if present and levels_are_text and not has_text:
        raise ValueError(
            f"column {series.name!r} has the type {series.dtype}, but its categories are text in "
            f"the training data, such as {levels[0]!r}; give the text."
        )
    # A category that was not in the training data becomes a missing value.
    code = {level: float(number) for number, level in enumerate(levels)}
    return np.array([code.get(value, np.nan) for value in values]), levels


def sorted_levels(present: Collection[Any], name: str) -> tuple[Any, ...]:
    """Return the categories of a column in the order of their codes.

    Raise ValueError if a category is not text or a number, because a saved model could not hold it.

    Examples
    --------
    >>> sorted_levels({"red", "blue"}, "colour")
    ('blue', 'red')
    """
    unsaved = [value for value in present if not isinstance(value, str | int | float)]
    if unsaved:
        example = min(unsaved, key=str)
        raise ValueError(
            f"column {name!r} has categories of the type {type(example).__name__}, such as "
            f"{example}, which a saved model cannot hold; turn them into text or numbers."
        )
    # Values of different types cannot be compared, so they are sorted by type first.
    return tuple(sorted(present, key=lambda value: (str(type(value)), value)))


def _encode_matrix(
    X: Any,
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: HasColumns | None,
) -> tuple[Matrix, list[str], Levels]:
    matrix: Matrix = checked_csr(X) if is_sparse(X) else dense(X)
    n_columns = matrix.shape[1]
    if n_columns > MOST_COLUMNS:
        raise ValueError(
            f"X has {n_columns} columns, more than {MOST_COLUMNS}; leave out or hash those that "
            "are rare."
        )
    # Names come from the caller, then from the training data, and are otherwise generated.
    if feature_names is not None:
        names = _checked_names(feature_names, n_columns)
    elif reference is not None and len(reference.feature_names) == n_columns:
        names = list(reference.feature_names)
    else:
        names = generated_names(n_columns)
    categorical_names = _categorical_names(categorical, names)
    expected: Levels = {}
    if reference is not None:
        expected = reference.categories
        matched = matched_names(names, feature_names is not None, reference)
        new_name = dict(zip(names, matched, strict=True))
        categorical_names = [new_name[name] for name in categorical_names]
        if categorical is None:
            categorical_names = list(expected)
        names = matched
    # A matrix holds only numbers, so categories must be codes already.
    for name in categorical_names:
        _check_codes(_column(matrix, names, name), name, expected.get(name))
    return matrix, names, dict.fromkeys(categorical_names)


def coded_columns(
    matrix: Matrix, names: list[str], categorical: Sequence[str | int], levels: Levels
) -> Levels:
    """Return the levels, with further columns that hold the codes of categories.

    Examples
    --------
    >>> coded_columns(np.array([[0.5, 2.0]]), ["price", "brand"], [1], {})
    {'brand': None}
    """
    further = [name for name in _categorical_names(categorical, names) if name not in levels]
    for name in further:
        _check_codes(_column(matrix, names, name), name)
    return levels | dict.fromkeys(further)


def _column(matrix: Matrix, names: list[str], name: str) -> NDArray[Any]:
    return as_dense(matrix[:, [names.index(name)]]).ravel()


def _checked_names(feature_names: Sequence[str], n_columns: int) -> list[str]:
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(
            f"feature_names has {len(names)} names for {n_columns} columns; give one per column."
        )
    if len(names) != len(set(names)):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature name {repeated!r} occurs twice; give each column its own name.")
    return names


def _categorical_names(columns: Sequence[str | int] | None, names: list[str]) -> list[str]:
    """Return the names of categorical columns, which are given by name or by number."""
    if isinstance(columns, str):
        raise ValueError(f"categorical must be a list of columns; write categorical=[{columns!r}].")
    found = []
    for column in columns or ():
        # Arrays have no names, so their columns are given by number.
        name = column
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            name = names[int(column)]
        if name not in names:
            raise ValueError(
                f"categorical column {column!r} is not a column of the data; it has {shown(names)}."
            )
        found.append(str(name))
    return found


def _check_codes(values: NDArray[Any], name: str, levels: tuple[Any, ...] | None = None) -> None:
    """Raise ValueError unless each value is a code: missing, or a whole number from 0 that has a level."""
    present = values[~np.isnan(values)]
    if np.any((present < 0) | (present != np.trunc(present))):
        raise ValueError(
            f"categorical column {name!r} must hold whole numbers from 0, or text in a data frame."
        )
    if levels is not None and len(present) and present.max() >= len(levels):
        raise ValueError(
            f"categorical column {name!r} has the code {present.max():g}, but the training data "
            f"has {len(levels)} categories, whose codes count from 0; give the categories "
            "themselves in a data frame."
        )
