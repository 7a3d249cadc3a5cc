"""LETOR text, the format of MSLR-WEB, Yahoo and MQ: lines ``label qid:ID index:value ... # comment``."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from rankwright.data.columns import Columns, HasColumns, generated_names, shown
from rankwright.data.dataset import RankingData
from rankwright.data.formats import contract
from rankwright.data.formats.letor_parser import check_width, parse_letor
from rankwright.data.labels import UNNAMED
from rankwright.data.queries import Queries
from rankwright.support.checks import located
from rankwright.support.files import PathLike, read_text, replacing, unpacked_blocks

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles

_ENDS_TOKEN = re.compile(r"[ \t\n\v\f\r#]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOCID = re.compile(rb"\bdocid\s*=\s*(\S+)")


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

    Features that a row leaves out are 0, and ``nan`` is a missing value. Query ids are int64 if all ids
    of the file are integers, otherwise text. Numbers are read as the nearest float64. Columns are named by the file's
    own index, so that feature 39 is ``f39``; other data is matched with them by position. Document ids in comments,
    ``# docid = ID`` as in MQ2007 and MQ2008, become the field ``"docid"``; other comments are ignored.

    Parameters
    ----------
    paths
        A file, or several (train, validation, test) that get the same number of features.
    zero_based
        Whether the first feature has index 0 in the file; by default it has index 1.
    n_features
        Number of features; by default the largest index in any of the files.
    dtype
        float64, or float32 for half the memory.
    sparse
        Whether ``X`` is a SciPy CSR matrix of the features in the file.

    Returns
    -------
    RankingData or list of RankingData
        The data of each file: a list if ``paths`` is a list.

    Raises
    ------
    ValueError
        With the file and line, if a line has another form or an index twice.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1e-3 # docid = D5\n0 qid:7 2:4\n")
    ...     data = read_letor(path)
    >>> data.X.tolist(), data.y.tolist(), data.query_ids.tolist()
    ([[0.5, 0.0, 0.001], [0.0, 4.0, 0.0]], [2.0, 0.0], [7])
    >>> data.feature_names, data.fields["docid"].tolist()
    (['f1', 'f2', 'f3'], ['D5', ''])
    """
    files: list[PathLike] = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not files:
        raise ValueError("no file to read: give a path, or a list of at least one path.")
    parsed = [
        _parse(path, zero_based=zero_based, n_features=n_features, dtype=dtype, sparse=sparse)
        for path in files
    ]
    # All files get the same number of features, so that a model fits each of them.
    width = max(rows.X.shape[1] for rows in parsed)
    if width == 0:
        raise ValueError(
            f"{files[0]}: no row has a feature, so their number is unknown; pass n_features."
        )
    if n_features is None and not sparse:
        for path, rows in zip(files, parsed, strict=True):
            check_width(os.fspath(path), rows.X.shape[0], width, rows.X.size)
    columns = _columns(width, zero_based)
    data = []
    # Each matrix is freed once its data set exists, which may hold a copy.
    while parsed:
        data.append(parsed.pop(0).data(columns))
    return data[0] if isinstance(paths, str | os.PathLike) else data


def write_letor(
    data: RankingData, path: PathLike, *, zero_based: bool = False, sparse: bool | None = None
) -> None:
    """Write ranking data as LETOR text, as gzip if the name ends in ``.gz``.

    Every number is written with enough digits to read back the same float64. The file is complete or
    absent, and the same data gives the same bytes. The format cannot hold feature names or
    categories, so these are left out, and query ids must differ as text. The field ``"docid"`` is
    written as a comment.

    Parameters
    ----------
    data
        Data to write, in its grouped order.
    path
        The file. An existing file is overwritten.
    zero_based
        Whether the first feature gets index 0 instead of 1.
    sparse
        Whether to leave out the features that are 0; by default if ``data.X`` is sparse. If the
        last features are 0 in all rows, `read_letor` then needs ``n_features``.

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
    if data.pairs is not None or len(data.label_names) > 1:
        unwritten = f"the labels {', '.join(data.label_names)}"
        if data.pairs is not None:
            unwritten = "pairs"
        raise ValueError(
            f"LETOR text holds one label per row, but this data has {unwritten}; write Parquet or "
            "CSV."
        )
    if data.weights is not None:
        raise ValueError(
            "LETOR text cannot hold weights, but this data has them. Write Parquet or CSV, or "
            "create the data without weights."
        )
    if np.isnan(data.y).any():
        raise ValueError(
            "LETOR text cannot hold missing labels, but this data has unjudged documents. Write "
            "Parquet or CSV."
        )
    if sparse is None:
        sparse = sp.issparse(data.X)
    # The texts that repeat in every row are made once.
    first_index = int(not zero_based)
    prefixes = [f"{first_index + column}:" for column in range(data.X.shape[1])]
    ids = np.repeat(np.array(_id_texts(data.query_ids), dtype=object), data.group)
    features = _feature_rows(data.X, sparse)
    with replacing(path) as file:
        for label, qid, (columns, values), comment in zip(
            data.y.tolist(), ids, features, _comments(data), strict=True
        ):
            words = [_digits(label), f"qid:{qid}"]
            words += [prefixes[c] + _digits(v) for c, v in zip(columns, values, strict=True)]
            file.write(" ".join(words).encode() + comment + b"\n")


class Letor(contract.Format):
    """LETOR text, plain or gzip."""

    name = "LETOR text"
    suffixes = (".txt", ".letor", ".svm", ".svmlight", ".dat")
    compressible = True
    has_columns = False

    def read(self, path: PathLike, options: contract.ReadOptions) -> RankingData:
        """Read a file, with columns that match a reference by position."""
        _check_one_label(path, options)
        rows = _parse(path, zero_based=options.zero_based)
        width = rows.X.shape[1]
        columns = _columns(width, options.zero_based)
        if options.reference is not None:
            columns = Columns.of(options.reference)
            # The warning points to the caller of `read_data`.
            _match(rows.source, width, columns, options.zero_based, stacklevel=4)
        if options.labelled is False:
            rows.y[:] = 0
        return rows.data(columns)

    def write(self, data: RankingData, path: PathLike) -> None:
        """Write ranking data as LETOR text."""
        write_letor(data, path)

    def blocks(
        self, files: DataFiles, options: contract.ReadOptions, show: contract.Show
    ) -> contract.Blocks:
        """Read all of the text once, for the number of features and the type of the query ids."""
        source = files.files[0]
        _check_one_label(source, options)
        if options.fields:
            raise ValueError(
                f"{source} is LETOR text, which has no column {options.fields[0]!r}; give Parquet."
            )
        n_rows = width = n_entries = 0
        text_ids = False
        # Versions are taken before the first look, so that no later change goes unnoticed.
        versions = contract.versions_of(files)
        reader = LetorBlocks(files, Columns([], {}), options, versions, 0, show)
        for text, name, line in reader.texts("columns"):
            # The number of features is not known yet, and a wrong index could make a dense matrix
            # very large. Sparse rows take memory only for the entries that are there.
            X, _, ids = parse_letor(
                text, source=name, zero_based=options.zero_based, sparse=True, first_line=line
            )
            text_ids |= ids.dtype.kind not in "iu"
            n_rows += X.shape[0]
            width = max(width, X.shape[1])
            n_entries += X.nnz
        if n_rows == 0:
            raise ValueError(
                f"{source} has no rows; expected lines of the form 'label qid:ID index:value'."
            )
        if options.reference is not None:
            columns = Columns.of(options.reference)
            _match(source, width, columns, options.zero_based, stacklevel=5)
        else:
            if width == 0:
                raise ValueError(f"{source}: no row has a feature, so their number is unknown.")
            check_width(source, n_rows, width, n_entries)
            columns = _columns(width, options.zero_based)
        return LetorBlocks(files, columns, options, versions, n_rows, show, text_ids)


LETOR = Letor()


@dataclass(frozen=True, eq=False)
class LetorBlocks(contract.FilesInBlocks):
    """Rows of LETOR text in blocks.

    With ``text_ids`` query ids are text, because not all ids of the files are whole numbers.
    """

    text_ids: bool = False

    def blocks(self, purpose: str) -> Iterator[contract.RowBlock]:
        """Yield all rows, from the first file to the last."""
        start = 0
        width = len(self.columns.feature_names)
        for text, source, line in self.texts(purpose, contract.rows_per_block(width)):
            # All blocks have the same width and the same type of ids, because the
            # first look found them.
            X, y, ids = parse_letor(
                text,
                source=source,
                zero_based=self.options.zero_based,
                n_features=width,
                text_ids=self.text_ids,
                first_line=line,
            )
            queries = Queries.from_qid(ids)
            rows = queries.group(start + np.arange(len(y)))
            labels = {}
            if self.options.labelled:
                labels[UNNAMED] = queries.group(y)
            yield contract.RowBlock(rows, queries.group(X), labels, queries.grouped(), None, {})
            start += len(y)

    def texts(self, purpose: str, most: int | None = None) -> Iterator[tuple[bytes, str, int]]:
        """Yield whole lines, at most so many at once, with the name of their file and the number of the first line."""
        total, before = self.files.n_bytes, 0
        for name in self.unchanged_files():
            rest, line = b"", 1  # the beginning of a line that goes on in the next block
            for block, read in unpacked_blocks(name, contract.BLOCK_BYTES):
                # A block may end in the middle of a line. The rest waits for the
                # next block.
                whole, end, rest_of_line = block.rpartition(b"\n")
                if not end:
                    rest += block
                    continue
                text = rest + whole + end
                rest = rest_of_line
                for piece in _pieces(text, most):
                    if piece.strip():
                        yield piece, name, line
                    line += piece.count(b"\n")
                self.show(purpose, before + read, total)
            if rest.strip():
                yield rest + b"\n", name, line
            before += os.path.getsize(name)
        self.show(purpose, total, total)


@dataclass(frozen=True, eq=False)
class _Parsed:
    """Rows of a file."""

    source: str
    X: Any
    y: NDArray[np.float64]
    qid: NDArray[Any]
    fields: dict[str, NDArray[Any]]

    def data(self, columns: Columns) -> RankingData:
        """Return the rows as ranking data; columns that the file does not have are 0."""
        X = _widened(self.X, len(columns.feature_names))
        try:
            return RankingData(X, self.y, qid=self.qid, reference=columns, fields=self.fields)
        except ValueError as error:
            raise located(self.source, error) from None


def _parse(path: PathLike, **options: Any) -> _Parsed:
    text, source = read_text(path), os.fspath(path)
    X, y, qid = parse_letor(text, source=source, **options)
    return _Parsed(source, X, y, qid, comment_fields(text))


def _columns(width: int, zero_based: bool) -> Columns:
    """Name columns by their indices in the file."""
    first_index = int(not zero_based)
    return Columns(generated_names(width, first_index), {}, False, first_index)


def _check_one_label(path: PathLike, options: contract.ReadOptions) -> None:
    if len(options.labels) > 1:
        raise ValueError(
            f"{path} is LETOR text, which has one label, not {', '.join(options.labels)}; use "
            "Parquet or CSV."
        )


def _match(
    source: str, width: int, reference: HasColumns, zero_based: bool, *, stacklevel: int
) -> None:
    """Match features with the columns of a reference by position, and warn if that is worth a look.

    If the reference was LETOR text too, its last features may be missing: they are taken as 0.
    """
    expected = len(reference.feature_names)
    # LETOR text holds numbers, so the texts of categories cannot be matched.
    texts = [name for name, levels in reference.categories.items() if levels is not None]
    if texts:
        raise ValueError(
            f"{source} is LETOR text, which holds numbers only, but the training data has text in "
            f"the categorical column {texts[0]!r}; give Parquet or CSV with the columns of the "
            "training data."
        )
    was_letor = reference.first_index is not None
    if width > expected or (width < expected and not was_letor):
        plural = "s" if expected > 1 else ""
        names = ""
        if reference.named:
            names = f" ({shown(reference.feature_names)})"
        kind = "" if was_letor else " and was not LETOR text"
        raise ValueError(
            f"{source} has {width} features, but the training data has {expected} column{plural}"
            f"{names}{kind}; give a file with the columns of the training data."
        )
    # Files often leave out features that are 0 in all rows, so the last of them may be
    # missing.
    if width < expected:
        first_index = int(not zero_based)
        first, last = width + first_index, expected - 1 + first_index
        indices = f"features {first} to {last}"
        if first == last:
            indices = f"feature {first}"
        note = f"{source} has no {indices} of the training data; taken as 0 in all rows."
        warnings.warn(note, stacklevel=stacklevel)
    elif reference.named:
        warnings.warn(
            f"{source} has no column names; its {width} features are matched with the columns of "
            "the training data by position.",
            stacklevel=stacklevel,
        )


def _widened(X: Any, width: int) -> Any:
    """Add columns of zeros up to ``width``."""
    n_rows, n_columns = X.shape
    if n_columns == width:
        return X
    if sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(n_rows, width))
    return np.pad(X, ((0, 0), (0, width - n_columns)))


def _pieces(text: bytes, most: int | None) -> Iterator[bytes]:
    """Cut text into pieces of at most so many lines: rows of few entries take far more memory than their text."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    if most is None or len(ends) <= most:
        yield text
        return
    cuts = [0, *ends[most - 1 : -1 : most].tolist(), len(text)]
    for start, stop in pairwise(cuts):
        yield text[start:stop]


def comment_fields(text: bytes | bytearray) -> dict[str, NDArray[Any]]:
    r"""Return the document ids in the comments of LETOR text, "" for a row without id, as a field.

    Examples
    --------
    >>> comment_fields(b"1 qid:1 1:2 #docid = GX1 inc = 1\n\n# docid = none\n0 qid:1 1:3\n")["docid"].tolist()
    ['GX1', '']
    """
    if b"docid" not in text:
        return {}
    # Only lines with a row count, because a comment may stand alone.
    ids = []
    for line in bytes(text).split(b"\n"):
        row, _, comment = line.partition(b"#")
        if row.strip():
            match = _DOCID.search(comment)
            docid = b"" if match is None else match[1]
            ids.append(docid.decode(errors="replace"))
    if not any(ids):
        return {}
    return {"docid": np.array(ids, dtype=object)}


def _comments(data: RankingData) -> Iterator[bytes]:
    if "docid" not in data.fields:
        yield from [b""] * data.n_rows
        return
    for value in data.fields["docid"].tolist():
        docid = str(value)
        if any(character.isspace() for character in docid):
            raise ValueError(
                f"document id {docid!r} cannot be written: in LETOR text an id must not contain "
                "whitespace. Rename the document, or write Parquet."
            )
        yield f" #docid = {docid}".encode() if docid else b""


def _id_texts(query_ids: NDArray[Any]) -> list[str]:
    texts = [str(value) for value in query_ids.tolist()]
    for text in texts:
        if text == "" or _ENDS_TOKEN.search(text):
            raise ValueError(
                f"query id {text!r} cannot be written: in LETOR text an id must not be empty or "
                "contain whitespace or '#'. Rename the query, or write Parquet."
            )
    # Ids that are all whole numbers are read as numbers, so that 1 and 01 would be the same query.
    distinct: set[Any] = set(texts)
    if all(_INTEGER.fullmatch(text) for text in texts):
        distinct = {int(text) for text in texts}
    if len(distinct) < len(texts):
        raise ValueError(
            "two query ids are the same once written as text, which would merge the queries; "
            "give them ids that differ as text (and as numbers, if all are numbers)."
        )
    return texts


def _feature_rows(X: Any, sparse: bool) -> Iterator[tuple[Iterable[int], list[float]]]:
    """Yield (columns, values) of each row; without the zeros if ``sparse``."""
    n_rows, n_columns = X.shape
    for row in range(n_rows):
        if sp.issparse(X) and sparse:
            entries = slice(X.indptr[row], X.indptr[row + 1])
            yield X.indices[entries].tolist(), X.data[entries].tolist()
            continue
        values = X[row]
        if sp.issparse(X):
            values = values.toarray()[0]
        if sparse:
            # -0.0 is written, because a feature that is left out is read as 0.0.
            columns = np.flatnonzero((values != 0) | np.signbit(values))
            yield columns.tolist(), values[columns].tolist()
        else:
            yield range(n_columns), values.tolist()


def _digits(value: float) -> str:
    return repr(value).removesuffix(".0")
