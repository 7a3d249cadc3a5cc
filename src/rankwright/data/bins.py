"""Columns as numbers of bins. The edges depend on the rows alone, not on their order or on the machine that has them.

Edges come from a sample: the rows with the smallest hashes of query and content. Samples of parts of the data combine
to the sample of the whole, so any partitioning gives the same edges. If there are few rows, the sample has all of them.

A value x is in bin b if edge_{b-1} < x <= edge_b, so a tree that splits bins splits values at an edge. Missing values
have a bin of their own, and a category is the bin of its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import Matrix, as_dense, dense_blocks, is_sparse
from rankwright.data.on_disk import is_on_disk, row_ranges, write_rows
from rankwright.data.queries import mix
from rankwright.data.row_order import row_hashes
from rankwright.kernels.bins import choose_edges, encode_rows
from rankwright.kernels.threads import available_threads, equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import ZERO

Floats = NDArray[np.float64]

SAMPLE_ROWS = 100_000  # about 400 for each of 255 bins
_ROWS_PER_THREAD = 10_000
_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class RowSample:
    """Rows that edges are chosen from. The samples of two parts of the data combine to the sample of both.

    Parameters
    ----------
    rows
        Features of the sampled rows [sample, columns].
    hashes
        Hashes of query and content, ascending [sample].
    largest
        Largest value of each column over all rows, at least 0 [columns]. It gives the number of categories.
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
        # The smallest hashes are a random sample that does not depend on how rows were
        # divided into parts.
        if len(hashes) > size:
            sampled = np.argpartition(hashes, size - 1)[:size]
            sampled = sampled[np.argsort(hashes[sampled], kind="stable")]
        else:
            sampled = np.argsort(hashes, kind="stable")
        return cls(as_dense(X[sampled]), hashes[sampled], *_extremes(X), size)

    def up_to(self, largest: np.uint64) -> RowSample:
        """Return the rows with hashes up to a limit; ``largest`` and ``has_missing`` are still of all rows."""
        kept = self.hashes <= largest
        return replace(self, rows=self.rows[kept], hashes=self.hashes[kept])

    def joined(self, other: RowSample) -> RowSample:
        """Return the sample of both parts."""
        # The smallest hashes of both samples are the smallest hashes of all rows.
        hashes = np.concatenate([self.hashes, other.hashes])
        kept = np.argsort(hashes, kind="stable")[: self.size]
        return RowSample(
            rows=np.concatenate([self.rows, other.rows])[kept],
            hashes=hashes[kept],
            largest=np.maximum(self.largest, other.largest),
            has_missing=self.has_missing | other.has_missing,
            size=self.size,
        )


def _extremes(X: Matrix) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the largest value of each column, at least 0, and whether it has missing values."""
    largest, has_missing = np.zeros(X.shape[1]), np.zeros(X.shape[1], dtype=bool)
    for _, rows in dense_blocks(X):
        np.fmax(largest, np.fmax.reduce(rows, axis=0), out=largest)
        # A sum is finite unless a value is missing, because infinite values are refused.
        has_missing |= np.isnan(rows.sum(axis=0, dtype=np.float64))
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
            The most bins of a column, missing values apart; or a number for each column.
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
        # A category is its own bin, so only numeric columns need edges.
        categories[list(categorical)] = largest[list(categorical)].astype(np.int64) + 1
        edges = [np.empty(0)] * n_columns
        for column in np.flatnonzero(categories == 0).tolist():
            edges[column] = _edges(sample[:, column], int(most[column]))
        return cls(tuple(edges), categories, has_missing)

    @cached_property
    def n_bins(self) -> NDArray[np.int64]:
        """Number of bins of each column, missing values apart [columns]."""
        return np.where(
            self.categories > 0, self.categories, [len(edges) + 1 for edges in self.edges]
        )

    @cached_property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type for bins, for a category that was not in training, and for missing values."""
        # One bin more is for categories that were not in training, and the largest number
        # for missing values.
        most = int((self.n_bins + (self.categories > 0)).max())
        return next(width for width in _WIDTHS if most <= np.iinfo(width).max)

    @property
    def missing(self) -> int:
        """Bin of missing values."""
        return int(np.iinfo(self.dtype).max)

    @cached_property
    def _table(self) -> Floats:
        """The edges of all columns, filled up with infinity to a number of edges that can be halved."""
        # The kernel searches all columns with the same number of halvings, because it
        # then needs no branches.
        longest = max(len(edges) for edges in self.edges)
        table = np.full((len(self.edges), (1 << longest.bit_length()) - 1), np.inf)
        for column, edges in enumerate(self.edges):
            table[column, : len(edges)] = edges
        return table

    def encode(self, X: Matrix, *, threads: int | None = None) -> NDArray[Any]:
        """Return the bins of a matrix [rows, columns], in a file if the matrix is in a file."""
        if X.shape[1] != len(self.edges):
            raise ValueError(f"the rows have {X.shape[1]} columns and the bins {len(self.edges)}.")
        # Bins of a mapped matrix may not fit in memory either.
        if is_on_disk(X):
            blocks = (self._encode_dense(X[rows], threads) for rows in row_ranges(X))
            return write_rows(blocks, X.shape, self.dtype)
        if not is_sparse(X):
            return self._encode_dense(X, threads)
        # The rows of a sparse matrix become dense in blocks, because only bins fit in
        # memory for all rows.
        codes = np.empty(X.shape, dtype=self.dtype)
        for rows, block in dense_blocks(X):
            codes[rows] = self._encode_dense(block, threads)
        return codes

    def _encode_dense(self, X: NDArray[Any], threads: int | None) -> NDArray[Any]:
        codes = np.empty(X.shape, dtype=self.dtype)
        # Starting a thread takes longer than encoding a few thousand rows.
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
    """Choose the edges of at most so many bins from the sampled values of a column."""
    values = column[~np.isnan(column)].astype(np.float64)
    # Trees take tiny values for 0, so an edge must not separate them.
    values[np.abs(values) <= ZERO] = 0.0
    distinct, counts = np.unique(values, return_counts=True)
    edges = np.empty(max(0, min(most, len(distinct)) - 1))
    if len(edges) == 0:
        return edges
    return edges[: choose_edges(distinct, counts, most, edges)].copy()
