"""Columns of a model, and the encoding of features as the matrix that trees train on and score."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright._frames import as_frame
from rankwright.data.queries import is_missing

if TYPE_CHECKING:
    import narwhals as nw  # a tenth of the time that a saved model takes to load

Levels = dict[str, tuple[Any, ...] | None]
Matrix = Any  # a NumPy 2-D array or a SciPy CSR matrix
_ROWS_PER_CHECK = 65_536  # checking for infinities in slices needs less memory
MOST_COLUMNS = 1 << 24  # their names alone take a gigabyte


@dataclass(frozen=True)
class Columns:
    """Names of the columns and levels of the categorical ones, which other data must match.

    Parameters
    ----------
    feature_names, categories
        Names of the columns, and levels of the categorical ones.
    named
        Whether the names were given. Generated ones, those of arrays and LETOR text, are matched by position.
    first_index
        For columns of LETOR text the index of the first one in the file, 1 or 0; None for others.
    """

    feature_names: list[str]
    categories: Levels
    named: bool = True
    first_index: int | None = None


class HasColumns(Protocol):
    """Data or a model whose columns other data must match."""

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


def is_sparse(X: Any) -> bool:
    """Return whether X is a SciPy sparse matrix, without importing SciPy."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


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
        raise ValueError(f"{text} is not a column of X; name one of a data frame, or give an array.")
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


def first_infinite(matrix: Matrix) -> tuple[int, int] | None:
    """Return row and column of an infinite value, or None where all are finite or NaN.

    Examples
    --------
    >>> first_infinite(np.array([[1.0, np.nan], [2.0, -np.inf]]))
    (1, 1)
    """
    if is_sparse(matrix):
        infinite = np.isinf(matrix.data)
        if not infinite.any():
            return None
        entries = matrix.tocoo()
        return int(entries.row[infinite][0]), int(entries.col[infinite][0])
    for start in range(0, matrix.shape[0], _ROWS_PER_CHECK):
        infinite = np.isinf(matrix[start : start + _ROWS_PER_CHECK])
        if infinite.any():
            row, column = np.argwhere(infinite)[0].tolist()
            return start + row, column
    return None


def take_column(frame: nw.DataFrame[Any], name: str, argument: str) -> tuple[nw.DataFrame[Any], nw.Series[Any]]:
    """Return a frame without a column, and that column; errors name the ``argument`` that gave its name."""
    if name not in frame.columns:
        near = get_close_matches(name, frame.columns, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_shown(frame.columns)}."
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

    names = _check_names(frame.columns if feature_names is None else feature_names, len(frame.columns))
    categorical_names = _column_names(categorical, names)
    by_name = dict(zip(names, frame.iter_columns(), strict=True))
    known_levels: Levels = {}
    if reference is not None:
        known_levels = reference.categories
        if set(names) == set(reference.feature_names):
            names = list(reference.feature_names)  # columns of a frame are matched by name, in any order
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
        is_category = series.dtype in (nw.Categorical, nw.Enum) or name in categorical_names or name in known_levels
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
    except ValueError:  # Arrow casts no whole number above 2^53; here it is rounded, as NumPy and pandas do
        return np.array(series.to_list(), dtype=np.float64)


def _not_numbers(series_of: dict[str, nw.Series[Any]], categorical: Sequence[str], known_levels: Levels) -> str:
    """Say which columns hold neither numbers nor categories: all of them, to be dealt with at once."""
    import narwhals as nw

    kinds = (nw.Categorical, nw.Enum, nw.Boolean)
    wrong = [
        f"{name!r} has the type {series.dtype}"
        for name, series in series_of.items()
        if not (series.dtype.is_numeric() or series.dtype in kinds or name in categorical or name in known_levels)
        and series.null_count() < len(series)
    ]
    remedy = "in categorical=, or give it a categorical type, or drop it."
    if len(wrong) == 1:
        return f"column {wrong[0]}, not numbers. Name it {remedy}"
    return f"{len(wrong)} columns do not hold numbers: {_shown(wrong)}. Name each {remedy}"


def _check_dictionary(series: nw.Series[Any]) -> None:
    """Raise ValueError where an Arrow column has codes outside of its dictionary, which Arrow follows unchecked."""
    import narwhals as nw

    native = series.to_native()
    if series.dtype == nw.Categorical and hasattr(native, "validate"):
        try:
            native.validate(full=True)
        except ValueError as error:  # ArrowInvalid
            raise ValueError(f"column {series.name!r} is not a valid Arrow column: {error}") from None


def _codes(series: nw.Series[Any], known_levels: tuple[Any, ...] | None) -> tuple[NDArray[np.float64], tuple[Any, ...]]:
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
    elif hasattr(X, "batches"):  # rows in files, checked when they are read
        matrix = X
    else:
        matrix = _dense(X)
    n_columns = matrix.shape[1]
    if n_columns > MOST_COLUMNS:
        raise ValueError(f"X has {n_columns} columns, more than {MOST_COLUMNS}; leave out or hash those that are rare.")
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


def checked_csr(X: Any) -> Any:
    """Turn a sparse matrix into a CSR matrix of floats whose entries are where they say.

    SciPy, LightGBM and the kernels follow the indices without looking: one that is out of range ends the process, or
    reads the memory of something else. Entries that occur twice are added up, as SciPy does.
    """
    from scipy.sparse import csr_matrix

    _check_sparse(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table of rows and columns; got a sparse array of shape {X.shape}.")
    matrix = csr_matrix(X)
    _check_sparse(matrix)  # again, for formats that are checked only here
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"X holds values of the type {matrix.dtype}, not numbers.")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    steps = np.diff(matrix.indices.astype(np.int64))
    starts = matrix.indptr[1:-1]
    ascending = steps > 0
    ascending[starts[(starts > 0) & (starts <= len(steps))] - 1] = True  # from one row to the next
    if not ascending.all():
        matrix = matrix.copy()
        matrix.has_canonical_format = matrix.has_sorted_indices = False  # which may have been true once
        matrix.sum_duplicates()
    return matrix


def _check_sparse(X: Any) -> None:
    """Raise ValueError where the arrays of a sparse matrix do not describe one."""
    if X.format in ("csr", "csc", "bsr"):
        block = X.blocksize if X.format == "bsr" else (1, 1)
        major, minor = (X.shape[1], X.shape[0]) if X.format == "csc" else X.shape
        major, minor = major // block[0], minor // block[1]
        pointers, indices = np.asarray(X.indptr), np.asarray(X.indices)
        kinds = {pointers.dtype.kind, indices.dtype.kind}
        entries = len(X.data)
        if not kinds <= {"i", "u"} or pointers.shape != (major + 1,) or indices.shape != (entries,):
            reason = f"indptr must have {major + 1} entries, and indices as many as data ({entries})"
        elif pointers[0] != 0 or pointers[-1] > entries or np.any(pointers[1:] < pointers[:-1]):
            reason = f"indptr must ascend from 0 to at most {entries}"
        elif len(indices) and not 0 <= indices.min() <= indices.max() < minor:
            reason = f"indices must be from 0 to {minor - 1}"
        else:
            return
    elif X.format == "coo":
        axes = (X.row, X.col) if X.ndim == 2 else X.coords
        if any(len(axis) != len(X.data) for axis in axes):
            reason = "row and col must have as many entries as data"
        elif any(
            len(axis) and not 0 <= axis.min() <= axis.max() < size for axis, size in zip(axes, X.shape, strict=True)
        ):
            reason = "row or col has an index outside of the matrix"
        else:
            return
    else:
        return
    raise ValueError(f"X is not a valid {X.format} matrix: {reason}. Build it again from its entries.")


def _dense(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array; float32 and float64 are unchanged, other numbers become float64."""
    try:
        matrix = np.asarray(X) if not np.ma.isMaskedArray(X) else np.ma.filled(X.astype(np.float64), np.nan)
    except ValueError:
        raise ValueError("the rows of X have different lengths; give every row the same number of features.") from None
    if matrix.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns; got shape {matrix.shape}. Reshape your data: a single feature "
            "is X.reshape(-1, 1)."
        )
    if matrix.dtype in (np.float32, np.float64):
        return matrix
    try:
        if matrix.dtype.kind in "biufO":
            return matrix.astype(np.float64)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ValueError("X holds a whole number that is too large for a float; give smaller ones.") from None
    if matrix.dtype.kind == "c":
        raise ValueError("Complex data not supported: give real and imaginary parts as two features.")
    raise ValueError("X holds values that are not numbers; pass categories in a data frame.")


def _check_names(feature_names: Sequence[str], n_columns: int) -> list[str]:
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(f"feature_names has {len(names)} names for {n_columns} columns; give one per column.")
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
            raise ValueError(f"categorical column {column!r} is not a column of the data; it has {_shown(names)}.")
        chosen.append(name)
    return chosen


def _shown(names: Sequence[Any]) -> str:
    return ", ".join(str(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")


def generated_names(n_columns: int, first: int = 0) -> list[str]:
    """Name columns without names by their numbers, from ``first``.

    Examples
    --------
    >>> generated_names(2), generated_names(2, first=1)
    (['f0', 'f1'], ['f1', 'f2'])
    """
    return [f"f{number}" for number in range(first, first + n_columns)]


def matched_names(names: list[str], named: bool, reference: HasColumns) -> list[str]:
    """Return the reference's names for columns that match them; raise ValueError where they do not.

    Columns are matched by name where both sides were given names, and otherwise by position: names that were
    generated say nothing, so only the number has to agree.

    Examples
    --------
    >>> matched_names(["bm25", "length"], True, Columns(["f1", "f2"], {}, named=False))
    ['f1', 'f2']
    """
    theirs = list(reference.feature_names)
    if set(names) != set(theirs) and not (named and reference.named):
        if len(names) == len(theirs):
            return theirs
        why = "Columns without names are matched by position; give as many as in the training data"
        if reference.first_index is not None:
            if named:
                why = "The training data was LETOR text, so columns are matched by position; give all, in its order"
            else:
                why += f" (read_letor(..., n_features={len(theirs)}) for LETOR text)"
        raise ValueError(
            f"X has {len(names)} features, but Ranker is expecting {len(theirs)} features as input. {why}."
        )
    check_same_columns(names, theirs)
    return theirs


def check_same_columns(ours: list[str], theirs: list[str]) -> None:
    """Raise ValueError unless the names are the same, in the same order."""
    if ours == theirs:
        return
    missing = [name for name in theirs if name not in ours]
    extra = [name for name in ours if name not in theirs]
    if missing or extra:
        detail = (f" Missing: {_shown(missing)}." if missing else "") + (
            f" Not expected: {_shown(extra)}." if extra else ""
        )
        raise ValueError(
            f"the columns of the data ({len(ours)}) are not those of the training data ({len(theirs)}).{detail} Give "
            "the same columns."
        )
    column = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    raise ValueError(
        f"column {column} is {ours[column]!r}, but {theirs[column]!r} in the training data; "
        "give the columns in the same order."
    )


def check_same_categories(ours: Levels, theirs: Levels) -> Levels:
    """Return the training data's categories; codes may replace its levels, but levels may not replace its codes."""
    for name in ours.keys() | theirs.keys():
        if name not in theirs:
            raise ValueError(
                f"column {name!r} holds categories here but numbers in the training data; use one type in both."
            )
        if theirs[name] is None and ours.get(name) is not None:
            raise ValueError(f"column {name!r} holds text here but codes in the training data; give codes in both.")
    return theirs


def _check_codes(values: NDArray[Any], name: str, levels: tuple[Any, ...] | None = None) -> None:
    present = values[~np.isnan(values)]
    if np.any((present < 0) | (present != np.trunc(present))):
        raise ValueError(f"categorical column {name!r} must hold whole numbers from 0, or text in a data frame.")
    if levels is not None and len(present) and present.max() >= len(levels):
        raise ValueError(
            f"categorical column {name!r} has the code {present.max():g}, but the training data has {len(levels)} "
            "categories, whose codes count from 0; give the categories themselves in a data frame."
        )
