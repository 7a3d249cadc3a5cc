"""Files of LETOR text, the format of MSLR-WEB, Yahoo and MQ: ``label qid:ID index:value ... # comment``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.letor_parser import check_width, parse_letor
from rankwright.data.matching import generated_names
from rankwright.support.files import PathLike, read_text, replacing

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
        One file, or several (train, validation, test) that get the same number of features.
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
        One per file; a list if ``paths`` is a list.

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
    options: dict[str, Any] = {
        "zero_based": zero_based,
        "n_features": n_features,
        "dtype": dtype,
        "sparse": sparse,
    }
    parsed, fields = [], []
    for path in files:
        text = read_text(path)
        parsed.append(parse_letor(text, source=os.fspath(path), **options))
        fields.append(comment_fields(text))
        del text
    width = max(X.shape[1] for X, _, _ in parsed)
    if width == 0:
        raise ValueError(
            f"{files[0]}: no row has a feature, so their number is unknown; pass n_features."
        )
    if n_features is None:
        for path, (X, _, _) in zip(files, parsed, strict=True):
            if not sp.issparse(X):
                check_width(os.fspath(path), X.shape[0], width, X.size)
    data = []
    while parsed:  # frees each matrix once its data set exists, which may hold a copy
        X, y, qid = parsed.pop(0)
        data.append(letor_data(widen(X, width), y, qid, fields.pop(0), zero_based=zero_based))
    return data[0] if isinstance(paths, str | os.PathLike) else data


def write_letor(
    data: RankingData, path: PathLike, *, zero_based: bool = False, sparse: bool | None = None
) -> None:
    """Write ranking data as LETOR text, as gzip if the name ends in ``.gz``.

    Every number is written with enough digits to read back the same float64. The file is complete or
    absent, and the same data gives the same bytes. The format cannot hold feature names or
    categories, so these are left out; query ids must differ as text. The field ``"docid"`` is written as a comment.

    Parameters
    ----------
    data
        Data to write, in its grouped order.
    path
        The file; an existing one is overwritten.
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
    if len(data.label_names) > 1 or data.pairs is not None:
        more = "pairs" if data.pairs is not None else f"the labels {', '.join(data.label_names)}"
        raise ValueError(
            f"LETOR text holds one label per row, but this data has {more}; write Parquet or CSV."
        )
    if data.weights is not None:
        raise ValueError(
            "LETOR text cannot hold weights, but this data has them. Write Parquet or CSV, or create "
            "the data without weights."
        )
    ids = np.repeat(np.array(_id_texts(data.query_ids), dtype=object), data.group)
    prefixes = [f"{index}:" for index in range(1 - zero_based, data.X.shape[1] + 1 - zero_based)]
    features = _feature_rows(data.X, sp.issparse(data.X) if sparse is None else sparse)
    comments = _comments(data)
    with replacing(path) as file:
        for label, qid, (columns, values), comment in zip(
            data.y.tolist(), ids, features, comments, strict=True
        ):
            words = [prefixes[c] + _digits(v) for c, v in zip(columns, values, strict=True)]
            file.write(" ".join([_digits(label), f"qid:{qid}", *words]).encode() + comment + b"\n")


def comment_fields(text: bytes | bytearray) -> dict[str, NDArray[Any]]:
    r"""Return what the comments of LETOR text say about its rows: their document ids, "" where one has none.

    Examples
    --------
    >>> comment_fields(b"1 qid:1 1:2 #docid = GX1 inc = 1\n\n# docid = none\n0 qid:1 1:3\n")["docid"].tolist()
    ['GX1', '']
    """
    if b"docid" not in text:
        return {}
    ids = []
    for line in bytes(text).split(b"\n"):
        row, _, comment = line.partition(b"#")
        if row.strip():
            match = _DOCID.search(comment)
            ids.append("" if match is None else match[1].decode(errors="replace"))
    return {"docid": np.array(ids, dtype=object)} if any(ids) else {}


def _comments(data: RankingData) -> Iterator[bytes]:
    for docid in data.fields.get("docid", np.repeat("", data.n_rows)).tolist():
        text = str(docid)
        if any(character.isspace() for character in text):
            raise ValueError(
                f"document id {text!r} cannot be written: in LETOR text an id must not contain whitespace. Rename the "
                "document, or write Parquet."
            )
        yield f" #docid = {text}".encode() if text else b""


def letor_data(
    X: Any, y: Any, qid: Any, fields: Mapping[str, NDArray[Any]] | None = None, *, zero_based: bool
) -> RankingData:
    """Create data whose columns are named by their indices in a file.

    Examples
    --------
    >>> letor_data([[7.0, 8.0]], [1], [4], zero_based=True).feature_names
    ['f0', 'f1']
    """
    first = 0 if zero_based else 1
    data = RankingData(
        X, y, qid=qid, feature_names=generated_names(np.shape(X)[1], first), fields=fields
    )
    data.named, data.first_index = False, first
    return data


def widen(X: Any, width: int) -> Any:
    """Add columns of zeros up to ``width``."""
    rows, columns = X.shape
    if columns == width:
        return X
    if sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(rows, width))
    wide = np.zeros((rows, width), X.dtype)
    wide[:, :columns] = X
    return wide


def _id_texts(query_ids: NDArray[Any]) -> list[str]:
    texts = [str(value) for value in query_ids.tolist()]
    for text in texts:
        if text == "" or _ENDS_TOKEN.search(text):
            raise ValueError(
                f"query id {text!r} cannot be written: in LETOR text an id must not be empty or contain "
                "whitespace or '#'. Rename the query, or write Parquet."
            )
    integers = all(_INTEGER.fullmatch(text) for text in texts)
    if len({int(text) for text in texts} if integers else set(texts)) < len(texts):
        raise ValueError(
            "two query ids are the same once written as text, which would merge the queries; "
            "give them ids that differ as text (and as numbers, if all are numbers)."
        )
    return texts


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
            columns = np.flatnonzero(
                (X[row] != 0) | np.signbit(X[row])
            )  # -0.0 would be read back as 0.0
            yield columns.tolist(), X[row, columns].tolist()


def _digits(value: float) -> str:
    return repr(value).removesuffix(".0")
