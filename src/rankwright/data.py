"""Ranking data: features, labels and queries that were checked once and cannot disagree afterwards."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from rankwright.queries import Queries, check_labels, is_missing, plain_ids

_ROWS_PER_CHECK = 65_536  # looking for infinities in slices keeps the temporary small


@dataclass(frozen=True)
class Columns:
    """Names of the columns, and the levels of the categorical ones: what other data must agree with."""

    feature_names: list[str]
    categories: dict[str, tuple[Any, ...] | None]


class RankingData:
    """Rows of features with labels, grouped by query.

    Rows may come in any order: they are sorted by query inside (stably), and `ungroup` brings results
    back into the caller's order. Every attribute below is in grouped order.

    Parameters
    ----------
    X
        Features: NumPy 2-D, SciPy sparse, pandas, polars or Arrow. NaN means missing.
    y
        Labels, finite and not negative, 0 for not relevant; or the name of a column of ``X``.
    qid
        Query id per row, of any hashable type; or the name of a column of ``X``.
    group
        Instead of ``qid``: the number of rows of each query, in row order.
    weights
        One per row, or one per query in the order in which the queries first appear.
    feature_names
        Names of the columns; taken from the frame where there is one.
    categorical
        Columns (names or numbers) that hold categories. In a frame, columns of a categorical type
        are taken as such without being named. In arrays the values must be whole numbers from 0.
    reference
        Data whose columns this must have and whose category codes it takes over: the training data
        when this is validation or test data.

    Attributes
    ----------
    X : ndarray or csr_matrix
        Features [rows, columns]; categories as codes.
    y : ndarray
        Labels [rows].
    qid : ndarray
        Query id [rows].
    group : ndarray
        Rows per query [queries].
    weights : ndarray or None
        Weights [rows].
    feature_names : list of str
        Names of the columns.
    categories : dict
        For each categorical column its levels in the order of their codes, or None where the data
        came as codes.
    named : bool
        True if the names were given, False if they only count the columns.
    n_queries, n_rows : int
        Sizes.
    queries : Queries
        Boundaries, ids and keys of the queries.

    Examples
    --------
    >>> data = RankingData([[0.1], [0.7], [0.4]], [0, 2, 1], qid=["b", "a", "b"])
    >>> data.qid.tolist(), data.y.tolist(), data.group.tolist()
    (['a', 'b', 'b'], [2.0, 0.0, 1.0], [1, 2])
    >>> data.ungroup(data.y).tolist()
    [0.0, 2.0, 1.0]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        categorical: Sequence[str | int] | None = None,
        reference: RankingData | Columns | None = None,
    ) -> None:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            if isinstance(y, str):
                frame, y = _take_column(frame, y, "y")
            if isinstance(qid, str):
                frame, qid = _take_column(frame, qid, "qid")
            matrix, names, levels = _from_frame(frame, feature_names, categorical, reference)
        else:
            for name, value in (("y", y), ("qid", qid)):
                if isinstance(value, str):
                    raise ValueError(
                        f"{name}={value!r} names a column, but X is a {type(X).__name__} without "
                        f"columns. Pass {name} as an array, or X as a data frame."
                    )
            matrix, names, levels = _from_matrix(X, feature_names, categorical, reference)
        if matrix.shape[0] == 0 or matrix.shape[1] == 0:
            raise ValueError(
                f"the data is empty: it has {matrix.shape[0]} row(s) and {matrix.shape[1]} feature(s) "
                f"(shape={matrix.shape}) while a minimum of 1 is required."
            )
        if reference is not None:
            _check_same_columns(names, reference.feature_names)
            levels = _check_same_categories(levels, reference.categories)

        self.queries = Queries.of(matrix.shape[0], qid, group)
        self.y = check_labels(y, self.queries)
        self.X = matrix if self.queries.order is None else matrix[self.queries.order]
        self.weights = None if weights is None else self.queries.per_row(weights)
        self.named = feature_names is not None or isinstance(frame, nw.DataFrame)
        self.feature_names: list[str] = names
        self.categories: _Levels = levels
        _check_features(self)

    @property
    def qid(self) -> NDArray[Any]:
        """Query id of each row [rows]."""
        return np.repeat(self.queries.ids, self.queries.sizes)

    @property
    def group(self) -> NDArray[np.int64]:
        """Rows of each query [queries]."""
        return self.queries.sizes

    @property
    def query_ids(self) -> NDArray[Any]:
        """Id of each query [queries]."""
        return self.queries.ids

    @property
    def query_keys(self) -> NDArray[np.uint64]:
        """Stable 64-bit key of each query, a function of its id alone [queries]."""
        return self.queries.keys

    @property
    def boundaries(self) -> NDArray[np.int64]:
        """Query q owns rows ``boundaries[q]:boundaries[q + 1]`` [queries + 1]."""
        return self.queries.boundaries

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.queries.n_queries

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.queries.n_rows

    @property
    def one_weight_per_query(self) -> bool:
        """Whether weights, if there are any, are the same within each query."""
        if self.weights is None:
            return True
        return bool(np.array_equal(self.weights, np.repeat(self.weights[self.boundaries[:-1]], self.group)))

    def ungroup(self, grouped: NDArray[Any]) -> NDArray[Any]:
        """Bring values per row (scores, say) back into the order in which the caller gave the rows."""
        return self.queries.ungroup(grouped)

    def check_columns(self, reference: RankingData | Columns) -> None:
        """Raise ValueError unless this data has the columns and categories of ``reference``, in the same order."""
        _check_same_columns(self.feature_names, reference.feature_names)
        ours, theirs = (
            {name: levels for name, levels in one.categories.items() if levels is not None} for one in (self, reference)
        )
        if ours != theirs:
            raise ValueError(
                "the categories differ from those of the training data, so their codes mean something else; "
                "build this data with reference= the training data."
            )

    def subset(self, queries: ArrayLike) -> RankingData:
        """Keep some queries, by number (any order, kept ascending) or by a mask over the queries.

        Examples
        --------
        >>> data = RankingData([[1], [2], [3]], [0, 1, 1], qid=[7, 7, 9])
        >>> data.subset([1]).qid.tolist()
        [9]
        """
        chosen = np.atleast_1d(np.asarray(queries))
        if chosen.dtype == bool:
            if chosen.shape != (self.n_queries,):
                raise ValueError(
                    f"the mask has shape {chosen.shape} for {self.n_queries} queries; give one value per query."
                )
            chosen = np.flatnonzero(chosen)
        if chosen.size == 0:
            raise ValueError("no query was chosen: a subset needs at least one.")
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise ValueError("queries must be a list of query numbers, or a mask with one value per query.")
        if chosen.min() < 0 or chosen.max() >= self.n_queries or len(np.unique(chosen)) < len(chosen):
            raise ValueError(
                f"queries must be different numbers from 0 to {self.n_queries - 1}; got {chosen[:5].tolist()}..."
            )
        keep = np.zeros(self.n_queries, dtype=bool)
        keep[chosen] = True
        rows = np.repeat(keep, self.group)
        return self._like(
            self.X[rows],
            self.y[rows],
            self.qid[rows],
            None if self.weights is None else self.weights[rows],
        )

    def split(self, share: float = 0.2, *, seed: int = 0) -> tuple[RankingData, RankingData]:
        """Split by query into (the rest, ``share`` of the queries), at random but the same for a seed.

        Examples
        --------
        >>> data = RankingData(np.eye(10), np.ones(10), qid=range(10))
        >>> train, test = data.split(0.3)
        >>> train.n_queries, test.n_queries
        (7, 3)
        """
        n_test = round(share * self.n_queries)
        if not 0 < n_test < self.n_queries:
            raise ValueError(
                f"a share of {share} of {self.n_queries} queries leaves one side empty; "
                "choose one strictly between 0 and 1 that gives each side a query."
            )
        shuffled = np.random.default_rng(seed).permutation(self.n_queries)
        return self.subset(shuffled[n_test:]), self.subset(shuffled[:n_test])

    def kfold(self, k: int = 5, *, seed: int = 0) -> Iterator[tuple[RankingData, RankingData]]:
        """Yield ``k`` pairs (train, test); each query is in the test part of exactly one.

        Examples
        --------
        >>> data = RankingData(np.eye(10), np.ones(10), qid=range(10))
        >>> [test.n_queries for _, test in data.kfold(4)]
        [3, 3, 2, 2]
        """
        if not 2 <= k <= self.n_queries:
            raise ValueError(f"k={k} folds of {self.n_queries} queries; k must be from 2 to that number.")
        parts = np.array_split(np.random.default_rng(seed).permutation(self.n_queries), k)
        for part in parts:
            test = np.zeros(self.n_queries, dtype=bool)
            test[part] = True
            yield self.subset(~test), self.subset(test)

    @staticmethod
    def concatenate(parts: Sequence[RankingData]) -> RankingData:
        """Join data sets with the same columns; a query may not be in two of them.

        Examples
        --------
        >>> a = RankingData([[1.0]], [1], qid=[2])
        >>> b = RankingData([[3.0]], [0], qid=[1])
        >>> RankingData.concatenate([a, b]).qid.tolist()
        [1, 2]
        """
        if len(parts) == 0:
            raise ValueError("nothing to concatenate: give at least one data set.")
        first = parts[0]
        for part in parts[1:]:
            _check_same_columns(part.feature_names, first.feature_names)
            if part.categories != first.categories:
                raise ValueError(
                    "the categories differ between the parts; build the later ones with reference= the first."
                )
        ids = [value for part in parts for value in plain_ids(part.query_ids)]
        if len(set(ids)) < len(ids):
            twice = next(value for value in ids if ids.count(value) > 1)
            raise ValueError(
                f"query {twice!s} is in two of the parts, which would merge them into one query; "
                "give the queries different ids."
            )
        sparse = any(sp.issparse(part.X) for part in parts)
        stack = (lambda xs: sp.vstack(xs, format="csr")) if sparse else np.concatenate
        weighted = any(part.weights is not None for part in parts)
        weights = [np.ones(p.n_rows) if p.weights is None else p.weights for p in parts]
        return first._like(
            stack([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.qid for part in parts])
            if len({part.qid.dtype.kind for part in parts}) == 1
            else [value for part in parts for value in plain_ids(part.qid)],
            np.concatenate(weights) if weighted else None,
        )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write one Parquet file: the features, and the columns ``label``, ``qid`` and ``weight``.

        The file is complete or absent: it is written beside its place and then moved there.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if sp.issparse(self.X):
            raise ValueError(
                "Parquet holds dense columns and this data is sparse; use write_letor, or make X dense first."
            )
        columns: dict[str, Any] = {"label": self.y, "qid": _parquet_ids(self.qid)}
        if self.weights is not None:
            columns["weight"] = self.weights
        if clash := columns.keys() & set(self.feature_names):
            raise ValueError(f"a feature is named {sorted(clash)[0]!r}, which the file needs; rename it.")
        for number, name in enumerate(self.feature_names):
            columns[name] = np.ascontiguousarray(self.X[:, number])
        try:
            ours = json.dumps({"categories": self.categories, "weighted": self.weights is not None})
        except TypeError:
            raise ValueError(
                "the file holds categories that are text or numbers; turn other levels into text."
            ) from None
        table = pa.table(columns).replace_schema_metadata({"rankwright": ours})
        target = Path(path)
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            pq.write_table(table, part)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def from_parquet(
        cls,
        path: str | os.PathLike[str],
        *,
        label: str = "label",
        qid: str = "qid",
        weight: str | None = None,
        reference: RankingData | Columns | None = None,
    ) -> RankingData:
        """Read a Parquet file, ours or another: ``label``, ``qid`` and ``weight`` name its columns.

        Without ``weight`` a column of that name is used in files that `to_parquet` wrote.

        Examples
        --------
        >>> import tempfile
        >>> data = RankingData([[1.5], [2.5]], [0, 1], qid=[3, 3], feature_names=["bm25"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data.to_parquet(folder + "/train.parquet")
        ...     back = RankingData.from_parquet(folder + "/train.parquet")
        >>> back.feature_names, back.X.tolist()
        (['bm25'], [[1.5], [2.5]])
        """
        import pyarrow.parquet as pq

        return cls.from_arrow(pq.read_table(path), label=label, qid=qid, weight=weight, reference=reference)

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        label: str | None = "label",
        qid: str = "qid",
        weight: str | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        reference: RankingData | Columns | None = None,
    ) -> RankingData:
        """Take the columns of an Arrow table, as `from_parquet` does.

        Without a ``label`` all labels are 0: rows to predict. ``drop`` names columns that are no features,
        ``categorical`` those that hold categories.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"label": [0, 1], "qid": [3, 3], "url": ["x", "y"], "bm25": [1.5, 2.5]})
        >>> RankingData.from_arrow(table, drop=["url"]).X.tolist()
        [[1.5], [2.5]]
        """
        ours = json.loads((table.schema.metadata or {}).get(b"rankwright", b"{}"))
        if weight is None and ours.get("weighted"):
            weight = "weight"
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        unused = [name for name in index if isinstance(name, str) and name not in (label, qid, weight)]
        table = table.drop_columns(list({*unused, *drop}))  # row numbers that pandas stored are no feature
        weights = None
        if weight is not None:
            frame, weights = _take_column(nw.from_native(table, eager_only=True), weight, "weight")
            table = frame.to_native()
        stored = {name: v for name, v in ours.get("categories", {}).items() if name not in drop}
        levels: _Levels = {name: None if v is None else tuple(v) for name, v in stored.items()}
        if reference is not None:
            for name, known in levels.items():
                if known is not None:
                    table = _with_levels(table, name, known)
        named = list(dict.fromkeys([*levels, *categorical]))
        y = np.zeros(len(table)) if label is None else label
        data = cls(table, y, qid=qid, weights=weights, categorical=named or None, reference=reference)
        if reference is None:
            data.categories.update(levels)
        return data

    def _like(self, X: Any, y: Any, qid: Any, weights: Any) -> RankingData:
        """Other rows with this data's columns and categories."""
        data = RankingData(X, y, qid=qid, weights=weights, feature_names=self.feature_names)
        data.categories = self.categories
        return data

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"RankingData({self.n_rows} rows, {self.n_queries} queries, {len(self.feature_names)} features)"


def frame_columns(X: Any) -> list[str]:
    """Names of the columns of a data frame; none for anything else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else []


def drop_columns(X: Any, names: Sequence[str]) -> Any:
    """Leave out columns of a data frame, those of them that it has; anything else stays as it is."""
    present = set(names) & set(frame_columns(X))
    return nw.from_native(X, eager_only=True).drop(sorted(present)).to_native() if present else X


def encode_features(X: Any, columns: Columns) -> Any:
    """Turn the features of new rows into the matrix a model was trained on."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        matrix, names, levels = _from_frame(frame, None, None, columns)
    else:
        matrix, names, levels = _from_matrix(X, None, None, columns)
    if matrix.shape[1] != len(columns.feature_names):
        raise ValueError(
            f"X has {matrix.shape[1]} features, but Ranker is expecting {len(columns.feature_names)} features as input."
        )
    _check_same_columns(names, columns.feature_names)
    _check_same_categories(levels, columns.categories)
    values = matrix.data if sp.issparse(matrix) else matrix
    if np.isinf(values).any():
        raise ValueError("X has an infinite value; use NaN for a missing value, or a large finite number.")
    return matrix


_Matrix = Any  # a NumPy 2-D array or a SciPy CSR matrix
_Levels = dict[str, tuple[Any, ...] | None]


def _take_column(frame: nw.DataFrame[Any], name: str, argument: str) -> tuple[nw.DataFrame[Any], nw.Series[Any]]:
    if name not in frame.columns:
        raise ValueError(f"{argument}={name!r} is not a column of the data; it has {_shown(frame.columns)}.")
    return frame.drop(name), frame[name]


def _with_levels(table: Any, name: str, levels: tuple[Any, ...]) -> Any:
    """Put the levels of a column of an Arrow table in the place of their codes."""
    import pyarrow as pa

    codes = table[name].to_numpy()
    values = [None if np.isnan(code) else levels[int(code)] for code in codes]
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def _from_frame(
    frame: nw.DataFrame[Any],
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: RankingData | Columns | None,
) -> tuple[_Matrix, list[str], _Levels]:
    names = _check_names(frame.columns if feature_names is None else feature_names, len(frame.columns))
    named = _column_names(categorical, names)
    by_name = dict(zip(names, frame.iter_columns(), strict=True))
    known: _Levels = {}
    if reference is not None:
        known = reference.categories
        if set(names) == set(reference.feature_names):
            names = list(reference.feature_names)  # a frame knows its columns by name
        _check_same_columns(names, reference.feature_names)
    levels: _Levels = {}
    columns = []
    for name in names:
        series = by_name[name]
        is_category = series.dtype in (nw.Categorical, nw.Enum) or name in named or name in known
        if is_category and not (series.dtype.is_numeric() and known.get(name) is None):
            values, levels[name] = _codes(series, known.get(name))
        elif series.dtype.is_numeric() or series.dtype == nw.Boolean:
            values = series.cast(nw.Float64).to_numpy()
            if is_category:
                levels[name] = None
                _check_codes(np.asarray(values), name)
        else:
            raise ValueError(
                f"column {name!r} has the type {series.dtype}, not numbers. Name it in categorical=, or drop it."
            )
        columns.append(np.asarray(values, dtype=np.float64))
    matrix = np.column_stack(columns) if columns else np.empty((len(frame), 0))
    return matrix, names, levels


def _codes(series: nw.Series[Any], known: tuple[Any, ...] | None) -> tuple[NDArray[np.float64], tuple[Any, ...]]:
    """Code each level by its place in ``known`` (or among the sorted levels here); others are missing."""
    values = series.to_list()
    if known is None:
        known = tuple(sorted({v for v in values if not is_missing(v)}, key=lambda v: (str(type(v)), v)))
    place = {level: float(i) for i, level in enumerate(known)}
    return np.array([place.get(value, np.nan) for value in values]), known


def _from_matrix(
    X: Any,
    feature_names: Sequence[str] | None,
    categorical: Sequence[str | int] | None,
    reference: RankingData | Columns | None,
) -> tuple[_Matrix, list[str], _Levels]:
    if sp.issparse(X):
        matrix: _Matrix = sp.csr_matrix(X)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    else:
        matrix = _dense(X)
    n_columns = matrix.shape[1]
    if feature_names is not None:
        names = _check_names(feature_names, n_columns)
    elif reference is not None and len(reference.feature_names) == n_columns:
        names = list(reference.feature_names)
    else:
        names = [f"f{i}" for i in range(n_columns)]
    if categorical is None and reference is not None:
        categorical = [name for name in reference.categories if name in names]
    levels: _Levels = {}
    for name in _column_names(categorical, names):
        values = matrix[:, names.index(name)]
        _check_codes(values.toarray().ravel() if sp.issparse(values) else values, name)
        levels[name] = None
    return matrix, names, levels


def _dense(X: Any) -> NDArray[Any]:
    """X as a 2-D array, float32 and float64 as they are and other numbers as float64."""
    try:
        matrix = np.asarray(X) if not np.ma.isMaskedArray(X) else np.ma.filled(X.astype(np.float64), np.nan)
    except ValueError:
        raise ValueError("the rows of X have different lengths; give each row the same number of features.") from None
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
    if matrix.dtype.kind == "c":
        raise ValueError("Complex data not supported: give real and imaginary parts as two features.")
    raise ValueError("X holds values that are not numbers; pass categories in a data frame.")


def _check_names(feature_names: Sequence[str], n_columns: int) -> list[str]:
    names = [str(name) for name in feature_names]
    if len(names) != n_columns:
        raise ValueError(f"feature_names has {len(names)} names for {n_columns} columns; give one per column.")
    if len(names) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature name {twice!r} occurs twice; give each column its own name.")
    return names


def _column_names(columns: Sequence[str | int] | None, names: list[str]) -> list[str]:
    """Names of columns that were given by name or by number."""
    if isinstance(columns, str):
        raise ValueError(f"categorical must be a list of columns; write categorical=[{columns!r}].")
    found = []
    for column in columns or ():
        name = column
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            name = names[int(column)]
        if name not in names:
            raise ValueError(f"categorical column {column!r} is not a column of the data; it has {_shown(names)}.")
        found.append(name)
    return found


def _shown(names: Sequence[Any]) -> str:
    return ", ".join(str(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")


def _check_same_columns(ours: list[str], theirs: list[str]) -> None:
    if ours == theirs:
        return
    missing = [name for name in theirs if name not in ours]
    extra = [name for name in ours if name not in theirs]
    if missing or extra:
        detail = (f" Missing: {_shown(missing)}." if missing else "") + (
            f" Not expected: {_shown(extra)}." if extra else ""
        )
        raise ValueError(
            f"the data has {len(ours)} features where the training data has {len(theirs)}, and they differ."
            f"{detail} Give the same columns."
        )
    column = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    raise ValueError(
        f"column {column} is {ours[column]!r} where the training data has {theirs[column]!r}; "
        "give the columns in the training order."
    )


def _check_same_categories(ours: _Levels, theirs: _Levels) -> _Levels:
    """Return the training data's categories; codes may stand for its levels, but not text for its codes."""
    for name in ours.keys() | theirs.keys():
        if name not in theirs:
            raise ValueError(
                f"column {name!r} holds categories, but numbers in the training data; give it the same type in both."
            )
        if theirs[name] is None and ours.get(name) is not None:
            raise ValueError(f"column {name!r} holds text where the training data has codes; give codes in both.")
    return theirs


def _check_codes(values: NDArray[Any], name: str) -> None:
    present = values[~np.isnan(values)]
    if np.any((present < 0) | (present != np.trunc(present))):
        raise ValueError(f"categorical column {name!r} must hold whole numbers from 0 (or be text in a data frame).")


def _check_features(data: RankingData) -> None:
    if sp.issparse(data.X):
        if np.isinf(data.X.data).any():
            row, column = next((r, c) for r, c, v in zip(*sp.find(data.X), strict=True) if np.isinf(v))
            _refuse_infinity(data, int(row), int(column))
        return
    for start in range(0, data.n_rows, _ROWS_PER_CHECK):
        infinite = np.isinf(data.X[start : start + _ROWS_PER_CHECK])
        if infinite.any():
            row, column = np.argwhere(infinite)[0]
            _refuse_infinity(data, start + int(row), int(column))


def _refuse_infinity(data: RankingData, row: int, column: int) -> None:
    raise ValueError(
        f"feature {data.feature_names[column]!r} is infinite: {data.queries.where(row)}. "
        "Use NaN for a missing value, or a large finite number."
    )


def _parquet_ids(qid: NDArray[Any]) -> Any:
    if qid.dtype != object:
        return qid
    kinds = {type(value) for value in qid}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), str | int | bytes):
        raise ValueError(
            "Parquet columns hold ids of one plain type; turn the query ids into numbers or strings first."
        )
    return list(qid)
