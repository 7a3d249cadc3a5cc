"""Parse LETOR text, lines ``label qid:ID index:value ... # comment``, in pieces by several threads.

A compiled kernel reads the lines into arrays. Python decides the few numbers that the kernel cannot
round with certainty, and writes the errors.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from rankwright.data.queries import text_array
from rankwright.kernels import letor_text
from rankwright.kernels.threads import available_threads
from rankwright.support.checks import ArgumentError

_BYTES_PER_THREAD = 1 << 20  # to start a thread for less takes as long as it saves
_MAX_THREADS = 8
_PIECES_PER_THREAD = 4  # so that other threads can take over the work of a slow thread
_HEAD_BYTES = 1 << 16  # enough of a file to guess the number of features
_SHORTEST_ENTRY = len("1:2 ")  # bounds the entries of a line by its bytes
_UNDECIDED_NUMBERS = 1024  # numbers left to Python's float at a time; most files have none
_EXCERPT = 60
_CELLS_FREELY = 1 << 25  # of a dense matrix: a quarter of a gigabyte
_CELLS_PER_ENTRY = 200  # a larger matrix with more cells is probably a mistake in an index
_WIDE = 1 << 20  # features, because their names take memory too


def parse_letor(
    text: bytes | bytearray,
    *,
    source: str = "text",
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    sparse: bool = False,
    text_ids: bool = False,
    first_line: int = 1,
) -> tuple[Any, NDArray[np.float64], NDArray[Any]]:
    r"""Parse LETOR text into (X, y, qid), in the order of the lines.

    Parameters
    ----------
    text
        The content of a file.
    source
        Name of the text in error messages.
    zero_based, n_features, dtype, sparse
        As in `read_letor`.
    text_ids
        Whether query ids are text even if all of them are whole numbers, because ids in other parts of
        the data are not.
    first_line
        Number of the first line in error messages.

    Examples
    --------
    >>> X, y, qid = parse_letor(b"1 qid:b 1:2.5\n0 qid:a 2:7\n")
    >>> X.tolist(), y.tolist(), qid.tolist()
    ([[2.5, 0.0], [0.0, 7.0]], [1.0, 0.0], ['b', 'a'])
    """
    first_index = int(not zero_based)
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float64 or float32, got {dtype}.")
    if n_features is not None and not 1 <= n_features <= letor_text.MAX_INDEX:
        raise ValueError(
            f"n_features must be from 1 to {letor_text.MAX_INDEX}, got {n_features}; "
            "leave it out to use the largest index of the file."
        )
    if not text.endswith(b"\n"):
        text = text + b"\n"
    codes = np.frombuffer(text, dtype=np.uint8)
    # Kernels are compiled for a single array type, but bytes and bytearray give two.
    codes.flags.writeable = False
    n_threads = _count_threads(len(text))
    pieces = _split_at_lines(text, n_threads * _PIECES_PER_THREAD)
    with ThreadPoolExecutor(n_threads) as pool:
        counts = list(pool.map(lambda piece: letor_text.measure(codes, *piece), pieces))
        rows, colons, longest = (list(count) for count in zip(*counts, strict=True))
        if sum(rows) == 0:
            raise ValueError(
                f"{source} has no rows; expected lines of the form 'label qid:ID index:value'."
            )
        first_rows = list(accumulate(rows[:-1], initial=0))
        first_entries = list(accumulate(colons[:-1], initial=0))
        reader = _Reader(text, codes, source, first_index, n_features, sparse, first_line)

        def read(width: int) -> tuple[_Table, list[_PieceResult]]:
            # A dense table is bounded before it is allocated, because a wrong index
            # could make it very large.
            n_entries = None
            if sparse:
                n_entries = sum(colons)
            elif n_features is None:
                check_width(source, sum(rows), width, sum(colons) - sum(rows))
            table = _allocate(source, sum(rows), width, max(longest), dtype, n_entries)
            read_piece = partial(reader.read, table)
            return table, list(pool.map(read_piece, pieces, first_rows, first_entries))

        if n_features is not None:
            table, results = read(n_features)
        elif sparse:
            table, results = read(letor_text.MAX_INDEX + 1 - first_index)
        else:
            # The first lines of most files have all features. If not, look at all lines and start again.
            head = (0, text.find(b"\n", min(_HEAD_BYTES, len(text) - 1)) + 1)
            table, results = read(reader.width(pool, [head]))
            if any(result.too_narrow for result in results):
                del table
                table, results = read(reader.width(pool, pieces))

    ids: NDArray[Any] = table.ids
    # A single id that is not a whole number makes all ids text.
    if text_ids or not all(result.integer_ids for result in results):
        ids = reader.text_ids(table.id_spans)
    if sparse:
        matrix = _csr_matrix(table, results, n_features)
        if n_features is None and _is_implausible(matrix.shape[1], matrix.nnz):
            raise ValueError(f"{source}: {_implausible(matrix.shape[1], matrix.nnz)}")
        return matrix, table.labels, ids
    return table.values.reshape(table.shape), table.labels, ids


def check_width(source: str, rows: int, width: int, entries: int) -> None:
    """Raise ValueError if a dense matrix would be very large only because of a few large indices."""
    # Large data is fine if it has as many entries. Only a nearly empty matrix is suspicious.
    cells = rows * width
    is_large = cells > _CELLS_FREELY and cells > _CELLS_PER_ENTRY * entries
    if is_large or _is_implausible(width, entries):
        raise ValueError(
            f"{source}: {_implausible(width, entries)} A dense matrix would take "
            f"{cells * 8 / 2**30:.1f} GB; read_letor(..., sparse=True) takes what the entries need."
        )


def _is_implausible(width: int, entries: int) -> bool:
    """Return True if a large number of features comes from a few large indices."""
    return width > _WIDE and width > _CELLS_PER_ENTRY * entries


def _implausible(width: int, entries: int) -> str:
    return (
        f"the largest index makes {width} features, but there are only {entries} entries. Fix the "
        "file, or pass n_features if that is meant."
    )


@dataclass(frozen=True)
class _Table:
    """Arrays that the kernel fills; there are ``columns`` only if the matrix is sparse."""

    shape: tuple[int, int]
    longest: int
    values: NDArray[Any]
    columns: NDArray[np.int32] | None
    row_sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    ids: NDArray[np.int64]
    id_spans: NDArray[np.int64]


@dataclass(frozen=True)
class _PieceResult:
    """Result of reading a piece of the text: the entries it filled, and whether to read it again."""

    entries: slice
    integer_ids: bool
    too_narrow: bool


def _allocate(
    source: str,
    rows: int,
    width: int,
    longest_line: int,
    dtype: np.dtype[Any],
    n_entries: int | None,
) -> _Table:
    """Allocate a dense table, or a sparse table for ``n_entries``."""
    columns = None
    try:
        if n_entries is None:
            values = np.zeros(rows * width, dtype)
        else:
            values = np.empty(n_entries, dtype)
            columns = np.empty(n_entries, np.int32)
    except (MemoryError, ValueError):
        raise ValueError(
            f"{source}: a dense matrix of {rows} rows and {width} features does not fit into "
            "memory. Check the largest index, or read it with read_letor(..., sparse=True)."
        ) from None
    return _Table(
        shape=(rows, width),
        longest=longest_line // _SHORTEST_ENTRY + 1,
        values=values,
        columns=columns,
        row_sizes=np.empty(rows, np.int64),
        labels=np.empty(rows),
        ids=np.empty(rows, np.int64),
        id_spans=np.empty((rows, 2), np.int64),
    )


def _csr_matrix(table: _Table, results: list[_PieceResult], n_features: int | None) -> Any:
    assert table.columns is not None
    # Each piece filled a part of the table that was large enough, so the gaps are left out.
    values = np.concatenate([table.values[result.entries] for result in results])
    columns = np.concatenate([table.columns[result.entries] for result in results])
    width = n_features
    if width is None:
        width = int(columns.max(initial=-1)) + 1
    row_starts = np.concatenate(([0], np.cumsum(table.row_sizes)))
    matrix = sp.csr_matrix((values, columns, row_starts), shape=(table.shape[0], width))
    matrix.sort_indices()
    return matrix


@dataclass(frozen=True)
class _Reader:
    """Read pieces of a text into a table; several threads may use a reader at once."""

    text: bytes | bytearray
    codes: NDArray[np.uint8]
    source: str
    first_index: int
    n_features: int | None
    sparse: bool
    first_line: int

    def width(self, pool: ThreadPoolExecutor, pieces: list[tuple[int, int]]) -> int:
        """Return the number of features up to the largest index in the pieces."""
        largest, pos = max(
            pool.map(lambda piece: letor_text.find_largest_index(self.codes, *piece), pieces)
        )
        if largest > letor_text.MAX_INDEX:
            self._refuse(letor_text.INDEX_TOO_LARGE, pos, np.float64)
        return int(max(largest + 1 - self.first_index, 0))

    def read(
        self, table: _Table, piece: tuple[int, int], row: int, first_entry: int
    ) -> _PieceResult:
        """Read a piece of the text into the table, starting at the given row and entry."""
        pos, stop = piece
        entry = first_entry
        columns = table.columns
        if columns is None:
            columns = np.empty(table.longest, np.int32)
        # The kernel returns whenever this buffer is full, and continues from where it
        # stopped.
        undecided = np.empty((max(_UNDECIDED_NUMBERS, table.longest + 1), 3), np.int64)
        integer_ids = True
        arrays = letor_text.ParsedRows(
            table.values,
            columns,
            table.row_sizes,
            table.labels,
            table.ids,
            table.id_spans,
            undecided,
        )
        limits = (self.first_index, table.shape[1], table.longest, not self.sparse)
        while pos < stop:
            code, pos, row, entry, n_undecided, integers = letor_text.parse_rows(
                self.codes, pos, stop, row, entry, *limits, arrays
            )
            self._decide(table, undecided[:n_undecided])
            integer_ids = integer_ids and integers
            # The width was guessed from the first lines, so a larger index is not an
            # error yet.
            is_guess = self.n_features is None and not self.sparse
            if code == letor_text.INDEX_TOO_LARGE and is_guess:
                return _PieceResult(slice(first_entry, entry), integer_ids, too_narrow=True)
            if code != letor_text.OK:
                self._refuse(code, pos, table.values.dtype)
        return _PieceResult(slice(first_entry, entry), integer_ids, too_narrow=False)

    def _decide(self, table: _Table, undecided: NDArray[np.int64]) -> None:
        """Let Python parse the numbers that the kernel could not round with certainty."""
        for slot, start, stop in undecided.tolist():
            array, position, code = table.values, slot, letor_text.INFINITE
            if slot < 0:  # a label
                array, position, code = table.labels, -1 - slot, letor_text.BAD_LABEL
            with np.errstate(over="ignore"):
                array[position] = float(self.text[start:stop])
            if np.isinf(array[position]):
                self._refuse(code, start, array.dtype)

    def text_ids(self, spans: NDArray[np.int64]) -> NDArray[Any]:
        """Return the query ids as text."""
        ids = []
        for start, stop in spans.tolist():
            try:
                ids.append(self.text[start:stop].decode())
            except UnicodeDecodeError:
                raise self._token_error(start, "expected a query id in UTF-8") from None
        return text_array(ids)

    def _refuse(self, code: int, pos: int, dtype: DTypeLike) -> NoReturn:
        limit = letor_text.MAX_INDEX
        if self.n_features is not None:
            limit = self.n_features - 1 + self.first_index
        bounds = f"expected indices up to {limit}; fix the file or n_features"
        reasons = {
            letor_text.BAD_LABEL: "expected a label, a finite non-negative number",
            letor_text.BAD_QID: "expected qid:ID after the label",
            letor_text.BAD_INDEX: "expected index:value, the index a whole number",
            letor_text.BAD_VALUE: "expected a number after the colon",
            letor_text.INFINITE: f"expected a finite {np.dtype(dtype)}, or nan for a missing value",
            letor_text.INDEX_ZERO: "expected indices from 1",
            letor_text.INDEX_TOO_LARGE: bounds,
            letor_text.DUPLICATE: "expected each index once per row, but one occurs twice",
        }
        error = self._token_error(pos, reasons[code])
        if code == letor_text.INDEX_ZERO:
            problem = f"{error} If the indices start at 0,"
            raise ArgumentError("zero_based", "must be set.", problem=problem)
        raise error

    def _token_error(self, pos: int, reason: str) -> ValueError:
        """Return an error about the token at ``pos``, with an excerpt of its line."""
        # The excerpt is around the token, because lines can be very long.
        number = self.text.count(b"\n", 0, pos) + self.first_line
        start = self.text.rfind(b"\n", 0, pos) + 1
        stop = self.text.find(b"\n", pos)
        first = max(start, pos - _EXCERPT // 2)
        last = min(stop, first + _EXCERPT)
        text = self.text[first:last].decode(errors="replace").rstrip()
        before = "..." if first > start else ""
        after = "..." if last < stop else ""
        excerpt = f"{before}{text}{after}"
        return ValueError(f"{self.source}, line {number}: {reason}. The line reads {excerpt!r}.")


def _count_threads(n_bytes: int) -> int:
    return max(1, min(available_threads(None), _MAX_THREADS, n_bytes // _BYTES_PER_THREAD))


def _split_at_lines(text: bytes | bytearray, n_pieces: int) -> list[tuple[int, int]]:
    """Cut the text into pieces of whole lines, some of them empty if there are few lines."""
    cuts = [0]
    # Each cut moves to the end of its line, so that no line is divided.
    for piece in range(1, n_pieces):
        target = max(cuts[-1], len(text) * piece // n_pieces, 1)
        cuts.append(text.find(b"\n", target - 1) + 1)
    return list(pairwise([*cuts, len(text)]))
