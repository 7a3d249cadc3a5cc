"""LETOR text, the format of MSLR-WEB, Yahoo and MQ: ``label qid:ID index:value ... # comment``."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NoReturn, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from rankwright._io import PathLike, replacing
from rankwright.data.dataset import RankingData
from rankwright.kernels import letor_text

_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20
_BYTES_PER_THREAD = 1 << 20  # below this, handing out the work costs as much as it saves
_MAX_THREADS = 8
_PIECES_PER_THREAD = 4  # so that a thread that was held up leaves work to the others
_HEAD_BYTES = 1 << 16  # enough of a file to guess the number of its features from
_SHORTEST_ENTRY = len("1:2 ")  # bounds the entries of a line by its bytes
_UNDECIDED_NUMBERS = 1024  # numbers left to Python's float at a time: few files have even one
_EXCERPT = 60
_ENDS_TOKEN = re.compile(r"[ \t\n\v\f\r#]")
_INTEGER = re.compile(r"[+-]?[0-9]+")


@overload
def read_letor(  # type: ignore[overload-overlap]  # a str is a sequence of str too
    paths: PathLike,
    *,
    zero_based: bool = ...,
    n_features: int | None = ...,
    dtype: DTypeLike = ...,
    sparse: bool = ...,
) -> RankingData: ...


@overload
def read_letor(
    paths: Sequence[PathLike],
    *,
    zero_based: bool = ...,
    n_features: int | None = ...,
    dtype: DTypeLike = ...,
    sparse: bool = ...,
) -> list[RankingData]: ...


def read_letor(
    paths: PathLike | Sequence[PathLike],
    *,
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    sparse: bool = False,
) -> RankingData | list[RankingData]:
    r"""Read LETOR text files, plain or gzip.

    Features that a row does not give are 0, and ``nan`` is missing. Query ids are int64 if all ids
    of the file are, otherwise text. Numbers are the nearest float64 to what is written.

    Parameters
    ----------
    paths
        One file, or several (train, validation, test) that shall get the same number of features.
    zero_based
        Whether the first feature has index 0 in the file; by default it has index 1.
    n_features
        Number of features; by default the largest index in any of the files says it.
    dtype
        float64, or float32 for half the memory.
    sparse
        Whether ``X`` becomes a SciPy CSR matrix of the features given in the file.

    Returns
    -------
    RankingData or list of RankingData
        One per file: a list if ``paths`` is one.

    Raises
    ------
    ValueError
        With the file and the line if one is not as above, or if an index occurs twice in it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1e-3 # best\n0 qid:7 2:4\n")
    ...     data = read_letor(path)
    >>> data.X.tolist(), data.y.tolist(), data.query_ids.tolist()
    ([[0.5, 0.0, 0.001], [0.0, 4.0, 0.0]], [2.0, 0.0], [7])
    """
    files: list[PathLike] = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not files:
        raise ValueError("no file to read: give a path, or a list with at least one.")
    parsed = [
        parse_letor(
            read_text(path),
            source=os.fspath(path),
            zero_based=zero_based,
            n_features=n_features,
            dtype=dtype,
            sparse=sparse,
        )
        for path in files
    ]
    width = max(X.shape[1] for X, _, _ in parsed)
    if width == 0:
        raise ValueError(f"{files[0]}: no row gives a feature, so their number is unknown; pass n_features.")
    data = []
    while parsed:  # each matrix is let go once its data set is made, which may have copied it
        X, y, qid = parsed.pop(0)
        data.append(RankingData(_widen(X, width), y, qid=qid))
    return data[0] if isinstance(paths, str | os.PathLike) else data


def parse_letor(
    text: bytes | bytearray,
    *,
    source: str = "text",
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    sparse: bool = False,
) -> tuple[Any, NDArray[np.float64], NDArray[Any]]:
    r"""Parse LETOR text as `read_letor` does, into (X, y, qid) in the order of the lines.

    Parameters
    ----------
    text
        The content of a file.
    source
        What error messages call it.
    zero_based, n_features, dtype, sparse
        As in `read_letor`.

    Examples
    --------
    >>> X, y, qid = parse_letor(b"1 qid:b 1:2.5\n0 qid:a 2:7\n")
    >>> X.tolist(), y.tolist(), qid.tolist()
    ([[2.5, 0.0], [0.0, 7.0]], [1.0, 0.0], ['b', 'a'])
    """
    first_index = 0 if zero_based else 1
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float64 or float32, got {dtype}.")
    if n_features is not None and not 1 <= n_features <= letor_text.MAX_INDEX:
        raise ValueError(
            f"n_features must be from 1 to {letor_text.MAX_INDEX}, got {n_features}; "
            "leave it out to take the largest index of the file."
        )
    if not text.endswith(b"\n"):
        text = text + b"\n"
    codes = np.frombuffer(text, dtype=np.uint8)
    codes.flags.writeable = False  # bytes and bytearray give the kernels the same type of array
    n_threads = _count_threads(len(text))
    pieces = _split_at_lines(text, n_threads * _PIECES_PER_THREAD)
    with ThreadPoolExecutor(n_threads) as pool:
        counts = list(pool.map(lambda piece: letor_text.measure(codes, *piece), pieces))
        rows, colons, longest = (list(count) for count in zip(*counts, strict=True))
        if sum(rows) == 0:
            raise ValueError(f"{source} holds no rows; expected lines of the form 'label qid:ID index:value'.")
        first_rows = list(accumulate(rows[:-1], initial=0))
        first_entries = list(accumulate(colons[:-1], initial=0))
        reader = _Reader(text, codes, source, first_index, n_features, sparse)

        def read(width: int) -> tuple[_Table, list[_Piece]]:
            entries = sum(colons) if sparse else None
            table = _allocate(source, sum(rows), width, max(longest), dtype, entries)
            read_piece = partial(reader.read, table)
            return table, list(pool.map(read_piece, pieces, first_rows, first_entries))

        if n_features is not None:
            table, done = read(n_features)
        elif sparse:
            table, done = read(letor_text.MAX_INDEX + 1 - first_index)
        else:
            # The first lines of most files have all features. If not, look at all and start again.
            head = (0, text.find(b"\n", min(_HEAD_BYTES, len(text) - 1)) + 1)
            table, done = read(reader.width(pool, [head]))
            if any(piece.too_narrow for piece in done):
                del table
                table, done = read(reader.width(pool, pieces))

    ids = table.ids if all(piece.integer_ids for piece in done) else reader.text_ids(table.id_spans)
    if sparse:
        return _csr_matrix(table, done, n_features), table.labels, ids
    return table.values.reshape(table.shape), table.labels, ids


def write_letor(data: RankingData, path: PathLike, *, zero_based: bool = False, sparse: bool | None = None) -> None:
    """Write ranking data as LETOR text, as gzip if the name ends in ``.gz``.

    Every number is written with as many digits as it takes to read the same float64 back. The file
    is complete or absent, and the same data gives the same bytes. The format has no place for
    feature names and categories, so these are left out; query ids must differ as text.

    Parameters
    ----------
    data
        What to write, in its grouped order.
    path
        The file; one of this name is replaced.
    zero_based
        Whether the first feature gets index 0 in place of 1.
    sparse
        Whether to leave out the features that are 0; by default if ``data.X`` is sparse. If the
        last features are 0 in all rows, `read_letor` then needs to be told ``n_features``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> data = RankingData([[0.1, 3], [0, 5]], [1, 0], qid=[4, 4])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_letor(data, pathlib.Path(folder, "a.txt"))
    ...     print(pathlib.Path(folder, "a.txt").read_text())
    1 qid:4 1:0.1 2:3
    0 qid:4 1:0 2:5
    """
    if data.weights is not None:
        raise ValueError(
            "LETOR text has no place for weights, and this data has some. Write Parquet, or drop "
            "them: RankingData(data.X, data.y, qid=data.qid)."
        )
    ids = np.repeat(np.array(_written_ids(data.query_ids), dtype=object), data.group)
    prefixes = [f"{index}:" for index in range(1 - zero_based, data.X.shape[1] + 1 - zero_based)]
    features = _feature_rows(data.X, sp.issparse(data.X) if sparse is None else sparse)
    with replacing(path) as file:
        for label, qid, (columns, values) in zip(data.y.tolist(), ids, features, strict=True):
            words = [prefixes[c] + _digits(v) for c, v in zip(columns, values, strict=True)]
            file.write(" ".join([_digits(label), f"qid:{qid}", *words]).encode() + b"\n")


def read_text(path: PathLike) -> bytearray:
    """Read a whole file, unpacked if its content is gzip, and see that it ends with a newline."""
    content = bytearray()
    with open(path, "rb") as file:
        is_gzip = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        stream = gzip.GzipFile(fileobj=file) if is_gzip else file
        try:
            # A growing bytearray needs the memory of the content once, unlike gzip.decompress.
            while block := stream.read(_READ_BYTES):
                content += block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{path}: the gzip data is damaged or cut off ({error}). Copy or download it again."
            ) from error
    if not content.endswith(b"\n"):
        content += b"\n"
    return content


@dataclass(frozen=True)
class _Table:
    """What the kernel fills; ``columns`` only if the matrix is sparse."""

    shape: tuple[int, int]
    longest: int
    values: NDArray[Any]
    columns: NDArray[np.int32] | None
    row_sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    ids: NDArray[np.int64]
    id_spans: NDArray[np.int64]


@dataclass(frozen=True)
class _Piece:
    """How reading a piece of the text went: the entries it filled, and what may need more work."""

    entries: slice
    integer_ids: bool
    too_narrow: bool


def _allocate(
    source: str, rows: int, width: int, longest_line: int, dtype: np.dtype[Any], entries: int | None
) -> _Table:
    """Make a dense table, or a sparse one if ``entries`` says for how many entries."""
    try:
        values = np.zeros(rows * width, dtype) if entries is None else np.empty(entries, dtype)
    except (MemoryError, ValueError):
        raise ValueError(
            f"{source}: a dense matrix of {rows} rows and {width} features does not fit into "
            "memory. Read it with sparse=True, or check the largest index."
        ) from None
    return _Table(
        shape=(rows, width),
        longest=longest_line // _SHORTEST_ENTRY + 1,
        values=values,
        columns=None if entries is None else np.empty(entries, np.int32),
        row_sizes=np.empty(rows, np.int64),
        labels=np.empty(rows),
        ids=np.empty(rows, np.int64),
        id_spans=np.empty((rows, 2), np.int64),
    )


def _csr_matrix(table: _Table, pieces: list[_Piece], n_features: int | None) -> Any:
    assert table.columns is not None
    values = np.concatenate([table.values[piece.entries] for piece in pieces])
    columns = np.concatenate([table.columns[piece.entries] for piece in pieces])
    width = int(columns.max(initial=-1)) + 1 if n_features is None else n_features
    row_starts = np.concatenate(([0], np.cumsum(table.row_sizes)))
    matrix = sp.csr_matrix((values, columns, row_starts), shape=(table.shape[0], width))
    matrix.sort_indices()
    return matrix


@dataclass(frozen=True)
class _Reader:
    """Reads pieces of a text into a table, several at a time."""

    text: bytes | bytearray
    codes: NDArray[np.uint8]
    source: str
    first_index: int
    n_features: int | None
    sparse: bool

    def width(self, pool: ThreadPoolExecutor, pieces: list[tuple[int, int]]) -> int:
        """Find how many features the largest index in the pieces asks for."""
        found = pool.map(lambda piece: letor_text.find_largest_index(self.codes, *piece), pieces)
        largest, pos = max(found)
        if largest > letor_text.MAX_INDEX:
            self._refuse(letor_text.INDEX_TOO_LARGE, pos, np.float64)
        return int(max(largest + 1 - self.first_index, 0))

    def read(self, table: _Table, piece: tuple[int, int], row: int, first_entry: int) -> _Piece:
        """Read a piece of the text into the table, from the given row and entry on."""
        pos, stop = piece
        entry = first_entry
        columns = np.empty(table.longest, np.int32) if table.columns is None else table.columns
        undecided = np.empty((max(_UNDECIDED_NUMBERS, table.longest + 1), 3), np.int64)
        integer_ids = True
        arrays = letor_text.ParsedRows(
            table.values, columns, table.row_sizes, table.labels, table.ids, table.id_spans, undecided
        )
        limits = (self.first_index, table.shape[1], table.longest, not self.sparse)
        while pos < stop:
            outcome, pos, row, entry, n_undecided, integers = letor_text.parse_rows(
                self.codes, pos, stop, row, entry, *limits, arrays
            )
            self._decide(table, undecided[:n_undecided])
            integer_ids = integer_ids and integers
            is_guess = self.n_features is None and not self.sparse
            if outcome == letor_text.INDEX_TOO_LARGE and is_guess:
                return _Piece(slice(first_entry, entry), integer_ids, too_narrow=True)
            if outcome != letor_text.OK:
                self._refuse(outcome, pos, table.values.dtype)
        return _Piece(slice(first_entry, entry), integer_ids, too_narrow=False)

    def _decide(self, table: _Table, undecided: NDArray[np.int64]) -> None:
        """Let Python parse the numbers that the kernel could not round for certain."""
        for slot, start, stop in undecided.tolist():
            array, place = (table.labels, -1 - slot) if slot < 0 else (table.values, slot)
            with np.errstate(over="ignore"):
                array[place] = float(self.text[start:stop])
            if np.isinf(array[place]):
                outcome = letor_text.BAD_LABEL if slot < 0 else letor_text.INFINITE
                self._refuse(outcome, start, array.dtype)

    def text_ids(self, spans: NDArray[np.int64]) -> NDArray[np.str_]:
        """Take the query ids from the text as they are."""
        ids = []
        for start, stop in spans.tolist():
            try:
                ids.append(self.text[start:stop].decode())
            except UnicodeDecodeError:
                self._refuse_token(start, "expected a query id in UTF-8")
        return np.array(ids)

    def _refuse(self, outcome: int, pos: int, dtype: DTypeLike) -> NoReturn:
        limit = letor_text.MAX_INDEX
        if self.n_features is not None:
            limit = self.n_features - 1 + self.first_index
        bounds = f"expected indices up to {limit}; mend the file or n_features"
        reasons = {
            letor_text.BAD_LABEL: "expected a label, a finite number not below 0",
            letor_text.BAD_QID: "expected qid:ID after the label",
            letor_text.BAD_INDEX: "expected index:value, the index a whole number",
            letor_text.BAD_VALUE: "expected a number after the colon",
            letor_text.INFINITE: f"expected a finite {np.dtype(dtype)}, or nan for a missing value",
            letor_text.INDEX_ZERO: "expected indices from 1 on; if they start at 0, pass zero_based=True",
            letor_text.INDEX_TOO_LARGE: bounds,
            letor_text.DUPLICATE: "expected each index once in a row, but one occurs twice",
        }
        self._refuse_token(pos, reasons[outcome])

    def _refuse_token(self, pos: int, reason: str) -> NoReturn:
        """Raise for the token at ``pos``, showing it with some of its line."""
        number = self.text.count(b"\n", 0, pos) + 1
        start = self.text.rfind(b"\n", 0, pos) + 1
        stop = self.text.find(b"\n", pos)
        shown_from = max(start, pos - _EXCERPT // 2)
        shown_to = min(stop, shown_from + _EXCERPT)
        shown = self.text[shown_from:shown_to].decode(errors="replace").rstrip()
        excerpt = f"{'...' * (shown_from > start)}{shown}{'...' * (shown_to < stop)}"
        raise ValueError(f"{self.source}, line {number}: {reason}. The line reads {excerpt!r}.")


def _count_threads(n_bytes: int) -> int:
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        processors = os.cpu_count() or 1
    return max(1, min(processors, _MAX_THREADS, n_bytes // _BYTES_PER_THREAD))


def _split_at_lines(text: bytes | bytearray, n_pieces: int) -> list[tuple[int, int]]:
    """Cut the text into pieces of whole lines, some of them empty if there are few lines."""
    cuts = [0]
    for piece in range(1, n_pieces):
        target = max(cuts[-1], len(text) * piece // n_pieces, 1)
        cuts.append(text.find(b"\n", target - 1) + 1)
    return list(pairwise([*cuts, len(text)]))


def _widen(X: Any, width: int) -> Any:
    """Add columns of zeros up to ``width``."""
    rows, columns = X.shape
    if columns == width:
        return X
    if sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(rows, width))
    wide = np.zeros((rows, width), X.dtype)
    wide[:, :columns] = X
    return wide


def _written_ids(query_ids: NDArray[Any]) -> list[str]:
    written = [str(value) for value in query_ids.tolist()]
    for text in written:
        if text == "" or _ENDS_TOKEN.search(text):
            raise ValueError(
                f"query id {text!r} cannot be written: in LETOR text an id has no blank or '#' and "
                "is not empty. Rename the query, or write Parquet."
            )
    integers = all(_INTEGER.fullmatch(text) for text in written)
    if len({int(text) for text in written} if integers else set(written)) < len(written):
        raise ValueError(
            "two query ids are the same once written as text, which would merge the queries; "
            "give them ids that differ as text (and as numbers, if all are numbers)."
        )
    return written


def _feature_rows(X: Any, sparse: bool) -> Iterator[tuple[Iterable[int], list[float]]]:
    """Yield (columns, values) of each row; without the zeros if ``sparse``."""
    n_rows, n_columns = X.shape
    for row in range(n_rows):
        if not sparse:
            values = X[row].toarray()[0] if sp.issparse(X) else X[row]
            yield range(n_columns), values.tolist()
        elif sp.issparse(X):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            yield X.indices[entries].tolist(), X.data[entries].tolist()
        else:
            kept = np.flatnonzero((X[row] != 0) | np.signbit(X[row]))  # -0.0 would come back as 0.0
            yield kept.tolist(), X[row, kept].tolist()


def _digits(value: float) -> str:
    return repr(value).removesuffix(".0")
