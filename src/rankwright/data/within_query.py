"""Features within the query: columns computed from the values that a column has in the documents of a query.

Whether a score of 12 is high depends on the scores of the other documents of its query. Trees look at
each document alone, so such a comparison has to be a feature. For the values x of a column in a
query, missing values left out:

    rank    1 for the largest value, equal values share the mean of their ranks
    z       (x - mean) / standard deviation; 0 if all are equal
    gap     max - x
    share   x / sum of |x|; 0 if all are 0
    mean    the mean of the query, the same for all its documents
    max     the maximum, likewise
    rrf     1 / (60 + rank), the term of reciprocal rank fusion

A missing value stays missing. A query of one document has rank 1, z 0, gap 0 and the share of its sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import HasColumns, shown
from rankwright.data.matrices import Matrix, is_sparse
from rankwright.data.on_disk import BLOCK_BYTES, is_on_disk, write_rows
from rankwright.kernels.threads import available_threads, even_ranges, run_ranges

KINDS = ("rank", "z", "gap", "share", "mean", "max", "rrf")  # in the order of the kernel
RRF_OFFSET = 60  # the constant of reciprocal rank fusion
_VALUES_PER_THREAD = 200_000  # to sort fewer values takes less time than to start a thread
_ROWS_AT_ONCE = 65_536
_MOST_OF_SPARSE = 1000  # columns added to sparse data, because they are dense

Option = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True)
class Recipe:
    """Which features within the query are added to the columns of a data set.

    Parameters
    ----------
    sources
        Each column with the kinds of features that are computed from it, in the order of the columns.
        Kinds are in the order of `KINDS`.

    Examples
    --------
    >>> recipe = Recipe((("bm25", ("rank", "gap")), ("length", ("rank",))))
    >>> recipe.names
    ['bm25 [rank]', 'length [rank]', 'bm25 [gap]']
    """

    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sources)

    @property
    def names(self) -> list[str]:
        """Names of the columns that are added, kind by kind."""
        names = []
        for kind in KINDS:
            names += [f"{name} [{kind}]" for name, kinds in self.sources if kind in kinds]
        return names

    @property
    def table(self) -> dict[str, list[str]]:
        """Kinds by column, as the manifest of a model holds them."""
        return {name: list(kinds) for name, kinds in self.sources}

    def describe(self) -> str:
        """Describe the features in a few words.

        Examples
        --------
        >>> Recipe((("bm25", ("rank", "gap")),)).describe()
        '2 features within the query (bm25 [rank], ...)'
        >>> Recipe().describe()
        'no features within the query'
        """
        names = self.names
        if not names:
            return "no features within the query"
        more = ", ..." if len(names) > 1 else ""
        return f"{len(names)} features within the query ({names[0]}{more})"

    def steps(self, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the columns to read, and the columns to write [sources, kinds], -1 for none.

        The columns to write follow the columns of these names.
        """
        # New columns follow the given columns, so that a model's trees can number both.
        position = {name: number for number, name in enumerate([*names, *self.names])}
        columns = np.array([position[name] for name, _ in self.sources], dtype=np.int64)
        targets = np.full((len(self.sources), len(KINDS)), -1, dtype=np.int64)
        for row, (name, kinds) in enumerate(self.sources):
            for kind in kinds:
                targets[row, KINDS.index(kind)] = position[f"{name} [{kind}]"]
        return columns, targets

    def extended(
        self,
        X: Matrix,
        names: Sequence[str],
        boundaries: NDArray[np.int64],
        *,
        order: NDArray[np.int64] | None = None,
        threads: int | None = None,
    ) -> Matrix:
        """Return the rows, in another order if ``order`` is given, with the features within the query as last columns.

        Parameters
        ----------
        X
            Rows [rows, columns].
        names
            Names of the columns.
        boundaries
            In the new order, query q owns the rows ``boundaries[q]:boundaries[q + 1]``.
        order
            Row at each place.
        threads
            Number of threads; all cores by default. The result does not depend on it.
        """
        # The wider matrix would not fit in memory either.
        if is_on_disk(X):
            blocks = self._extended_blocks(X, names, boundaries, order, threads)
            return write_rows(blocks, (len(X), X.shape[1] + len(self.names)), X.dtype)
        columns, targets = self.steps(names)
        if is_sparse(X):
            if order is not None:
                X = X[order]
            return self._extended_sparse(X, columns, targets, boundaries, threads)
        n_rows, n_given = X.shape
        matrix = np.empty((n_rows, n_given + len(self.names)), dtype=X.dtype)
        # Rows are copied in blocks, because a copy of all rows in the new order would be a second matrix.
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            rows: Any = slice(start, start + _ROWS_AT_ONCE)
            matrix[rows, :n_given] = X[rows] if order is None else X[order[rows]]
        _fill(matrix, columns, targets, boundaries, threads)
        return matrix

    def _extended_blocks(
        self,
        X: Matrix,
        names: Sequence[str],
        boundaries: NDArray[np.int64],
        order: NDArray[np.int64] | None,
        threads: int | None,
    ) -> Iterator[NDArray[Any]]:
        """Yield the rows with their new columns in blocks of whole queries, which are of bounded memory."""
        width = X.shape[1] + len(self.names)
        n_queries = len(boundaries) - 1
        n_rows = max(1, BLOCK_BYTES // (width * X.itemsize))
        first = 0
        while first < n_queries:
            # Features depend on all documents of a query, so blocks end where queries
            # end.
            after = int(np.searchsorted(boundaries, boundaries[first] + n_rows, side="right")) - 1
            after = max(after, first + 1)  # a query may be longer than a block
            start, stop = boundaries[first], boundaries[after]
            rows = np.array(X[start:stop]) if order is None else X[order[start:stop]]
            bounds = boundaries[first : after + 1] - start
            yield self.extended(rows, names, bounds, threads=threads)
            first = after

    def _extended_sparse(
        self,
        X: Matrix,
        columns: NDArray[np.int64],
        targets: NDArray[np.int64],
        boundaries: NDArray[np.int64],
        threads: int | None,
    ) -> Matrix:
        from scipy.sparse import csr_matrix, hstack

        derived = len(self.names)
        if derived > _MOST_OF_SPARSE:
            raise ValueError(
                f"within_query would add {derived} dense columns to a sparse matrix; name the "
                f"columns that matter, at most {_MOST_OF_SPARSE}: within_query={{'bm25': 'rank'}}."
            )
        # The kernel works on dense columns, so the source columns are copied beside the new columns.
        dense = np.empty((X.shape[0], len(columns) + derived), dtype=X.dtype)
        dense[:, : len(columns)] = X[:, columns].toarray()
        shifted = np.where(targets < 0, -1, targets - X.shape[1] + len(columns))
        _fill(dense, np.arange(len(columns)), shifted, boundaries, threads)
        return hstack([X, csr_matrix(dense[:, len(columns) :])], format="csr", dtype=X.dtype)


def ranks_of_columns(
    matrix: NDArray[np.float64], boundaries: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the rank of each value within its query, for each column; equal values share the mean of their ranks.

    Examples
    --------
    >>> ranks_of_columns(np.array([[3.0], [9.0], [np.nan], [9.0]]), np.array([0, 4])).ravel().tolist()
    [3.0, 1.5, nan, 1.5]
    """
    names = [str(number) for number in range(matrix.shape[1])]
    recipe = Recipe(tuple((name, ("rank",)) for name in names))
    extended: NDArray[np.float64] = recipe.extended(matrix, names, boundaries)
    return extended[:, len(names) :]


def _fill(
    matrix: NDArray[Any],
    columns: NDArray[np.int64],
    targets: NDArray[np.int64],
    boundaries: NDArray[np.int64],
    threads: int | None,
) -> None:
    if len(matrix) == 0:
        return
    # Imported here because a model loads without compiled code.
    from rankwright.kernels.within_query import fill_within_query

    fill = partial(
        fill_within_query, bounds=boundaries, matrix=matrix, columns=columns, targets=targets
    )
    # Queries have different sizes, so threads get ranges of about as many rows.
    most_threads = 1 + len(matrix) * len(columns) // _VALUES_PER_THREAD
    n_threads = min(available_threads(threads), most_threads)
    run_ranges(fill, even_ranges(np.diff(boundaries).astype(np.float64), n_threads))


def read_kinds(option: Any, where: str = "within_query") -> tuple[str, ...]:
    """Read kinds of features, as a single text or several, in the order of `KINDS`.

    Examples
    --------
    >>> read_kinds("z, rank")
    ('rank', 'z')
    """
    words = option
    if isinstance(option, str):
        words = re.findall(r"[^\s,]+", option)
    # Sets are refused because they cannot be saved, and iterators because they can be read only once.
    if not isinstance(words, list | tuple):
        raise ValueError(
            f"{where} must be names of features, {', '.join(KINDS)}, or a list of them; got "
            f"{option!r}."
        )
    for word in words:
        if not isinstance(word, str) or word not in KINDS:
            raise ValueError(f"{where} has {word!r}, which is not one of {', '.join(KINDS)}.")
    if not words:
        raise ValueError(
            f"{where} names no feature; choose from {', '.join(KINDS)}, or leave it out."
        )
    return tuple(kind for kind in KINDS if kind in words)


def check_option(option: Any, called: str = "within_query") -> None:
    """Raise ValueError, with the option's name, unless it can be used with some data."""
    # Columns are not known yet, so only the form is checked here.
    if isinstance(option, Mapping):
        for column, kinds in option.items():
            if not isinstance(column, str):
                raise ValueError(
                    f"{called} must name columns by their names, 'f0' for the first of an array; "
                    f"got {column!r}."
                )
            read_kinds(kinds, f"{called} of column {column!r}")
        if not option:
            raise ValueError(
                f"{called} is an empty dict; name columns with their features, or leave it out."
            )
    elif option is not None:
        read_kinds(option, called)


def read_recipe(option: Any, columns: HasColumns, called: str = "within_query") -> Recipe:
    """Read the option ``within_query`` of an estimator for the columns of its data.

    Parameters
    ----------
    option
        Kinds of features for all columns that hold no categories, or a dict of kinds by column; None for none.
    columns
        The data, or its columns.
    called
        Name of the option, for errors.

    Examples
    --------
    >>> from rankwright.data.columns import Columns
    >>> read_recipe("rank", Columns(["bm25", "language"], {"language": ("de", "en")})).names
    ['bm25 [rank]']
    >>> read_recipe({"bm25": ["rank", "z"]}, Columns(["length", "bm25"], {})).names
    ['bm25 [rank]', 'bm25 [z]']
    """
    check_option(option, called)
    if option is None:
        return Recipe()
    names = list(columns.feature_names)
    if isinstance(option, Mapping):
        # Every name is checked, because a misspelt column would silently give no
        # features.
        for name in option:
            if name not in names:
                raise ValueError(
                    f"{called} names {name!r}, which is not a column of the data; it has "
                    f"{shown(names)}."
                )
            if name in columns.categories:
                raise ValueError(
                    f"{called} names {name!r}, which holds categories; they have no order to rank "
                    "by."
                )
        sources = [(name, read_kinds(option[name])) for name in names if name in option]
    else:
        kinds = read_kinds(option, called)
        sources = [(name, kinds) for name in names if name not in columns.categories]
        if not sources:
            raise ValueError(
                f"{called} has no column to compute features from: all hold categories; leave it "
                "out."
            )
    recipe = Recipe(tuple(sources))
    # A frame may have a column with the name of a new feature, for example from an earlier
    # run.
    taken = sorted(set(recipe.names) & set(names))
    if taken:
        raise ValueError(
            f"{called} would add a second column {taken[0]!r}; rename the one that is there."
        )
    return recipe


def stored_recipe(table: Any, names: Sequence[str]) -> Recipe:
    """Read the recipe that a manifest holds; raise ValueError if it is not a recipe for these columns."""
    if not isinstance(table, dict) or not set(table) <= set(names):
        raise ValueError(
            "the manifest's features within the query name columns that the model does not have."
        )
    return Recipe(tuple((name, read_kinds(table[name])) for name in names if name in table))
