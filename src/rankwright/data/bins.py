"""Columns as numbers of bins, with edges that depend on the rows alone: not on their order, nor on who holds them.

Edges come from a sample of the rows, those with the smallest hashes of query and content. Samples of parts of the data
combine to that of the whole, so any partitioning gives the same edges, and few rows are all taken. A value x is in bin
b if edge_{b-1} < x <= edge_b: a tree that splits bins splits values at the edge. Missing values have a bin of their
own, and a category is the bin of its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.matrices import Matrix
from rankwright.data.on_disk import is_on_disk, row_ranges, write_rows
from rankwright.data.queries import mix
from rankwright.data.row_order import row_hashes
from rankwright.kernels.bins import choose_edges, encode_rows
from rankwright.kernels.threads import available_threads, equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import ZERO

Floats = NDArray[np.float64]

SAMPLE_ROWS = 100_000  # that edges are chosen from: about 400 for each of 255 bins
_ROWS_AT_ONCE = 16_384  # of a sparse matrix that are made dense at a time
_ROWS_PER_THREAD = 10_000
_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class RowSample:
    """Rows that edges are chosen from; samples of two parts of the data combine to that of both.

    Parameters
    ----------
    rows
        Features of the sampled rows [sample, columns].
    hashes
        Of query and content, ascending [sample].
    largest
        Largest value of each column over all rows, 0 where all are missing [columns]. Only categories need it.
    has_missing
        Whether a column has missing values in any row [columns].
    size
        The most rows to take.

    Examples
    --------
    >>> X, keys = np.arange(6.0)[:, None], np.zeros(6, dtype=np.uint64)
    >>> whole = RowSample.of(X, keys, size=4)
    >>> parts = RowSample.of(X[4:], keys[4:], size=4).joined(RowSample.of(X[:4], keys[:4], size=4))
    >>> bool((parts.rows == whole.rows).all()), whole.largest.tolist()
    (True, [5.0])
    """

    rows: NDArray[Any]
    hashes: NDArray[np.uint64]
    largest: Floats
    has_missing: NDArray[np.bool_]
    size: int

    @classmethod
    def of(
        cls,
        X: Matrix,
        keys: NDArray[np.uint64],
        *,
        size: int = SAMPLE_ROWS,
        threads: int | None = None,
    ) -> RowSample:
        """Sample rows of a matrix; ``keys`` has the key of each row's query."""
        hashes = mix(keys ^ mix(row_hashes(X, threads)))
        if len(hashes) > size:
            chosen = np.argpartition(hashes, size - 1)[:size]
            chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
        else:
            chosen = np.argsort(hashes, kind="stable")
        rows = X[chosen].toarray() if sp.issparse(X) else X[chosen]
        return cls(rows, hashes[chosen], *_extremes(X), size)

    def up_to(self, largest: np.uint64) -> RowSample:
        """Return the rows with hashes up to this one; extremes are still those of all rows."""
        chosen = self.hashes <= largest
        return replace(self, rows=self.rows[chosen], hashes=self.hashes[chosen])

    def joined(self, other: RowSample) -> RowSample:
        """Return the sample of both parts."""
        hashes = np.concatenate([self.hashes, other.hashes])
        chosen = np.argsort(hashes, kind="stable")[: self.size]
        rows = np.concatenate([self.rows, other.rows])[chosen]
        largest, has_missing = (
            np.maximum(self.largest, other.largest),
            self.has_missing | other.has_missing,
        )
        return RowSample(rows, hashes[chosen], largest, has_missing, self.size)


def _extremes(X: Matrix) -> tuple[Floats, NDArray[np.bool_]]:
    """Largest value of each column, at least 0, and whether it has missing values."""
    largest, has_missing = np.zeros(X.shape[1]), np.zeros(X.shape[1], dtype=bool)
    for low in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows = X[low : low + _ROWS_AT_ONCE]
        dense = rows.toarray() if sp.issparse(rows) else rows
        np.fmax(largest, np.fmax.reduce(dense, axis=0), out=largest)
        has_missing |= np.isnan(
            dense.sum(axis=0, dtype=np.float64)
        )  # finite but for missing values
    return largest, has_missing


@dataclass(frozen=True, eq=False)
class Bins:
    """Edges of the bins of all columns.

    Parameters
    ----------
    edges
        For each column the edges between its bins, ascending; a categorical column has none.
    categories
        For each column the number of categories, 0 if it is not categorical [columns].
    has_missing
        Whether a column of the rows had missing values [columns].

    Examples
    --------
    >>> bins = Bins.of(np.array([[1.0], [2.0], [4.0], [np.nan]]), max_bin=2)
    >>> bins.edges[0].tolist(), bins.encode(np.array([[1.5], [3.5], [np.nan]])).tolist()
    ([3.0], [[0], [1], [255]])
    """

    edges: tuple[Floats, ...]
    categories: NDArray[np.int64]
    has_missing: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        rows: RowSample | NDArray[Any],
        max_bin: int | Sequence[int],
        categorical: Sequence[int] = (),
    ) -> Bins:
        """Choose edges from a sample.

        Parameters
        ----------
        rows
            A sample, or all rows.
        max_bin
            The most bins of a column, without that of missing values; or one number for each column.
        categorical
            Numbers of the columns that hold categories.
        """
        if isinstance(rows, RowSample):
            sample, largest, has_missing = rows.rows, rows.largest, rows.has_missing
        else:
            sample, (largest, has_missing) = rows, _extremes(rows)
        n_columns = sample.shape[1]
        most = np.broadcast_to(np.asarray(max_bin, dtype=np.int64), n_columns)
        if most.min() < 2:
            raise ValueError(f"max_bin must be at least 2; got {max_bin!r}.")
        categories = np.zeros(n_columns, dtype=np.int64)
        categories[list(categorical)] = largest[list(categorical)].astype(np.int64) + 1
        edges = [
            np.empty(0) if categories[column] else _edges(sample[:, column], int(most[column]))
            for column in range(n_columns)
        ]
        return cls(tuple(edges), categories, has_missing)

    @cached_property
    def n_bins(self) -> NDArray[np.int64]:
        """Number of bins of each column, without that of missing values [columns]."""
        return np.where(
            self.categories > 0, self.categories, [len(edges) + 1 for edges in self.edges]
        )

    @cached_property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type for bins, a category past those known, and missing values."""
        most = int((self.n_bins + (self.categories > 0)).max())
        return next(width for width in _WIDTHS if most <= np.iinfo(width).max)

    @property
    def missing(self) -> int:
        """Bin of missing values."""
        return int(np.iinfo(self.dtype).max)

    @cached_property
    def _table(self) -> Floats:
        longest = max(len(edges) for edges in self.edges)
        table = np.full((len(self.edges), (1 << longest.bit_length()) - 1), np.inf)
        for column, edges in enumerate(self.edges):
            table[column, : len(edges)] = edges
        return table

    def encode(self, X: Matrix, *, threads: int | None = None) -> NDArray[Any]:
        """Return the bins of a matrix [rows, columns], in a file if the matrix is in a file."""
        if X.shape[1] != len(self.edges):
            raise ValueError(f"the rows have {X.shape[1]} columns and the bins {len(self.edges)}.")
        if is_on_disk(X):
            blocks = (self._encode_dense(X[rows], threads) for rows in row_ranges(X))
            return write_rows(blocks, X.shape, self.dtype)
        if not sp.issparse(X):
            return self._encode_dense(X, threads)
        codes = np.empty(X.shape, dtype=self.dtype)
        for start in range(0, X.shape[0], _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            codes[rows] = self._encode_dense(X[rows].toarray(), threads)
        return codes

    def _encode_dense(self, X: NDArray[Any], threads: int | None) -> NDArray[Any]:
        codes = np.empty(X.shape, dtype=self.dtype)
        encode = partial(
            encode_rows,
            X=X,
            table=self._table,
            n_bins=self.n_bins,
            is_category=self.categories > 0,
            out=codes,
        )
        n_threads = min(available_threads(threads), 1 + len(X) // _ROWS_PER_THREAD)
        run_ranges(encode, equal_ranges(len(X), n_threads))
        return codes


def _edges(column: NDArray[Any], most: int) -> Floats:
    values = column[~np.isnan(column)].astype(np.float64)
    values[np.abs(values) <= ZERO] = 0.0
    distinct, counts = np.unique(values, return_counts=True)
    edges = np.empty(max(0, min(most, len(distinct)) - 1))
    if len(edges) == 0:
        return edges
    return edges[: choose_edges(distinct, counts, most, edges)].copy()
