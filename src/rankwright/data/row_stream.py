"""A matrix whose rows are in files. Whoever needs them reads blocks of them, in the order in which they are stored.

Nothing but the number of each row, and a hash of its content, stays in memory. Choosing rows and putting them in
another order changes the numbers alone, and features within the query are computed while rows are read. Engines turn
the blocks into bins, of one byte a value; trees score them as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.within_query import Recipe

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_ROWS_AT_ONCE = 16_384  # of a matrix in memory
_WAITING_BYTES = 1 << 27  # of rows that wait for others of their queries


class _Block(Protocol):
    """Some rows: their numbers among those of all files, and their features."""

    @property
    def rows(self) -> Rows:
        """Numbers."""

    @property
    def X(self) -> Floats:
        """Features [rows, columns]."""


class Blocks(Protocol):
    """A reader of files, which yields all of their rows whenever it is asked."""

    def blocks(self, purpose: str) -> Iterator[_Block]:
        """Yield all rows; ``purpose`` says to the user what for."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows of some files: who reads them, how many there are, and a hash of each row's content [rows]."""

    reader: Blocks
    hashes: NDArray[np.uint64]


class RowStream:
    """A matrix of rows in files.

    Parameters
    ----------
    sources
        Where the rows are; those of the second source are numbered after those of the first, and so on.
    rows
        Number of the row at each place; None for all rows as they are in the files.
    n_columns
        Number of columns in the files.
    recipe, names, boundaries
        Features within the query to add to the columns of these names, where query q owns the places
        ``boundaries[q]:boundaries[q + 1]``.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        sources: Sequence[Source],
        rows: Rows | None,
        n_columns: int,
        recipe: Recipe | None = None,
        names: Sequence[str] = (),
        boundaries: NDArray[np.int64] | None = None,
    ) -> None:
        self._sources = sources
        self._rows = rows
        self._n_columns = n_columns
        self._recipe = recipe or Recipe()
        self._names = names
        self._boundaries = boundaries
        self._n_in_files = sum(len(source.hashes) for source in sources)
        n_rows = self._n_in_files if rows is None else len(rows)
        self.shape = (n_rows, n_columns + len(self._recipe.names))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: Any) -> RowStream:
        """Choose rows, or put them in another order; nothing is read."""
        if isinstance(places, tuple | int | np.integer):  # columns or single values
            self.__array__()
        assert not self._recipe, "features within the query are added last"
        is_order = isinstance(places, np.ndarray) and places.dtype == np.int64
        rows = (
            places if self._rows is None and is_order else self._numbers[places]
        )  # which costs no second array
        return RowStream(self._sources, rows, self._n_columns)

    @property
    def _numbers(self) -> Rows:
        """Number of the row at each place."""
        return np.arange(self._n_in_files) if self._rows is None else self._rows

    def __iter__(self) -> NoReturn:
        self.__array__()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(
            "these rows are in files, from which fit, predict and score read them block by block; for anything else "
            "hold them in memory: read_data(path)."
        )

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Hash of the columns of each row in the files, as `rankwright.data.row_order.row_hashes` computes it."""
        every = [source.hashes for source in self._sources]
        joined = every[0] if len(every) == 1 else np.concatenate(every)
        return joined if self._rows is None else joined[self._rows]

    def joined(self, other: RowStream) -> RowStream:
        """Append rows of other files with the same columns."""
        assert not self._recipe, "features within the query are added last"
        rows = np.concatenate([self._numbers, self._n_in_files + other._numbers])
        return RowStream([*self._sources, *other._sources], rows, self._n_columns)

    def extended(
        self, recipe: Recipe, names: Sequence[str], boundaries: NDArray[np.int64]
    ) -> RowStream:
        """Add features within the query, which are computed when rows are read."""
        assert not self._recipe, "features within the query are added once"
        return RowStream(self._sources, self._rows, self._n_columns, recipe, names, boundaries)

    def batches(self, purpose: str) -> Iterator[tuple[Rows, Floats]]:
        """Read all rows: places of some rows and their features, in whichever order is quickest to read."""
        yield from self._whole_queries(purpose) if self._recipe else self._stored(purpose)

    def _stored(self, purpose: str) -> Iterator[tuple[Rows, Floats]]:
        place = np.full(self._n_in_files, -1, dtype=np.int64)
        place[self._numbers] = np.arange(len(self))
        first = 0
        for source in self._sources:
            n_read = 0
            for block in source.reader.blocks(purpose):
                n_read += len(block.X)
                if n_read <= len(source.hashes):
                    places = place[first + block.rows]
                    chosen = places >= 0
                    if chosen.all():
                        yield places, block.X
                    elif chosen.any():
                        yield places[chosen], block.X[chosen]
            if n_read != len(source.hashes):
                raise ValueError(
                    f"the files have changed since they were first read: there are {n_read} rows, and there were "
                    f"{len(source.hashes)}. Start again once they are complete."
                )
            first += n_read

    def _whole_queries(self, purpose: str) -> Iterator[tuple[Rows, Floats]]:
        """Read rows, and add features within the query once all rows of a query are there.

        Rows whose queries are incomplete wait in memory. Where queries are scattered over the files and too many rows
        would wait, further queries are left for another pass over the files.
        """
        assert self._boundaries is not None
        sizes = np.diff(self._boundaries)
        query_of = np.repeat(np.arange(len(sizes)), sizes)
        most = max(1, _WAITING_BYTES // (8 * self._n_columns))
        done = np.zeros(len(sizes), dtype=bool)
        while not done.all():
            missing = sizes.copy()
            refused = done.copy()
            waiting: list[tuple[Rows, Floats]] = []
            n_waiting = n_complete = 0
            for places, X in self._stored(purpose):
                queries = query_of[places]
                if n_waiting >= most:
                    refused |= np.bincount(queries, minlength=len(sizes)).astype(bool) & (
                        missing == sizes
                    )
                wanted = ~refused[queries]
                if not wanted.any():
                    continue
                counts = np.bincount(queries[wanted], minlength=len(sizes))
                missing -= counts
                complete = (counts > 0) & (missing == 0)
                done |= complete
                n_complete += int(sizes[complete].sum())
                waiting.append((places[wanted], X[wanted]))
                n_waiting += int(wanted.sum())
                if n_complete and 2 * n_complete >= n_waiting:
                    yield self._with_features(waiting, query_of, done)
                    n_waiting, n_complete = n_waiting - n_complete, 0
            if waiting:
                yield self._with_features(waiting, query_of, done)

    def _with_features(
        self, waiting: list[tuple[Rows, Floats]], query_of: Rows, done: NDArray[np.bool_]
    ) -> tuple[Rows, Floats]:
        """Take the rows of complete queries out of those that wait, in order, and add their features."""
        places, X = (
            np.concatenate([one[0] for one in waiting]),
            np.concatenate([one[1] for one in waiting]),
        )
        complete = done[query_of[places]]
        waiting[:] = [] if complete.all() else [(places[~complete], X[~complete])]
        chosen = np.flatnonzero(complete)
        chosen = chosen[np.argsort(places[chosen])]
        places = places[chosen]
        boundaries = np.append(np.flatnonzero(np.diff(query_of[places], prepend=-1)), len(places))
        return places, self._recipe.extended(X[chosen], self._names, boundaries)


def in_memory(X: Any) -> Any:
    """Return a matrix as it is, or one whose rows come in batches, and are few, as an array."""
    if not hasattr(X, "batches"):
        return X
    rows = np.empty(X.shape, dtype=X.dtype)
    for places, block in X.batches("some rows"):
        rows[places] = block
    return rows


def batches_of(X: Any, purpose: str) -> Iterator[tuple[Any, Floats]]:
    """Yield places and dense features of some rows of any matrix, in memory or not."""
    if hasattr(X, "batches"):
        yield from X.batches(purpose)
        return
    for low in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows = X[low : low + _ROWS_AT_ONCE]
        yield np.arange(low, low + rows.shape[0]), rows.toarray() if sp.issparse(rows) else rows
