"""A matrix in memory with features within the query, which are computed when rows are asked for.

What stays in memory is the matrix as it was given. Engines turn blocks of the extended rows into bins, of one byte a
value, so that no second matrix of floats is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.row_order import row_hashes
from rankwright.data.within_query import Recipe

_VALUES_AT_ONCE = 1 << 22


class GivenRows:
    """Rows of a dense matrix, put in an order when they are asked for.

    Parameters
    ----------
    X
        The matrix.
    order
        Row at each place; None for the rows as they are.
    """

    def __init__(self, X: NDArray[Any], order: NDArray[np.int64] | None) -> None:
        self._X = X
        self._order = order
        self.shape = X.shape
        self.dtype = X.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, places: slice) -> NDArray[Any]:
        chosen: NDArray[Any] = (
            self._X[places] if self._order is None else self._X[self._order[places]]
        )
        return chosen


class ExtendedRows:
    """Rows of a dense matrix with the columns of a recipe behind the given ones.

    Parameters
    ----------
    X
        The matrix, which must not change meanwhile.
    order
        Row at each place; None for the rows as they are.
    boundaries
        Query q owns the places ``boundaries[q]:boundaries[q + 1]``.
    recipe, names
        The features to add, and the names of the given columns.
    threads
        Number of threads; all cores by default. The values do not depend on it.

    Attributes
    ----------
    given : GivenRows
        The rows without features within the query.
    steps : tuple of ndarray
        Which columns are read and written, by number: `rankwright.data.within_query.Recipe.steps`.
    starts : ndarray
        Place of the first row of each block, and the number of rows behind them. Blocks have whole queries.
    """

    def __init__(
        self,
        X: NDArray[Any],
        order: NDArray[np.int64] | None,
        boundaries: NDArray[np.int64],
        recipe: Recipe,
        names: Sequence[str],
        threads: int | None = None,
    ) -> None:
        self.given = GivenRows(X, order)
        self._X = X
        self._order = order
        self.dtype = X.dtype
        self.shape = (X.shape[0], X.shape[1] + len(recipe.names))
        self.steps = recipe.steps(names)
        self._boundaries = boundaries
        self._recipe = recipe
        self._names = names
        self._threads = threads
        least, n_queries = max(1, _VALUES_AT_ONCE // self.shape[1]), len(boundaries) - 1
        self._queries = [0]  # the first of each block
        while (first := self._queries[-1]) < n_queries:
            after = int(np.searchsorted(boundaries, boundaries[first] + least))
            self._queries.append(min(max(after, first + 1), n_queries))
        self.starts: NDArray[np.int64] = boundaries[self._queries]

    def __len__(self) -> int:
        return int(self.shape[0])

    def block(self, number: int) -> NDArray[Any]:
        """Return the rows of a block [rows, columns]."""
        first, last = self._queries[number], self._queries[number + 1]
        boundaries = self._boundaries[first : last + 1]
        rows = self.given[boundaries[0] : boundaries[-1]]
        block: NDArray[Any] = self._recipe.extended(
            rows, self._names, boundaries - boundaries[0], threads=self._threads
        )
        return block

    def toarray(self) -> NDArray[Any]:
        """Return all rows as an array."""
        rows: NDArray[Any] = self._recipe.extended(
            self._X, self._names, self._boundaries, order=self._order, threads=self._threads
        )
        return rows

    def batches(self, purpose: str) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield places and rows of each block, as `rankwright.data.row_stream.RowStream` does."""
        for number, start in enumerate(self.starts[:-1]):
            yield np.arange(start, self.starts[number + 1]), self.block(number)

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """Hash of the given columns of each row, as `rankwright.data.row_order.row_hashes` computes it."""
        ranges = zip(self.starts[:-1], self.starts[1:], strict=True)
        return np.concatenate(
            [row_hashes(self.given[start:stop], self._threads) for start, stop in ranges]
        )
