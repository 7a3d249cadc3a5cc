"""Ranking data in files: LETOR text, Parquet and CSV, told apart by the ending of the name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright._io import PathLike, replacing
from rankwright.data.dataset import RankingData
from rankwright.data.encoding import Columns
from rankwright.data.letor import parse_letor, read_letor, read_text, write_letor

_LETOR = (".txt", ".letor", ".svm", ".svmlight", ".dat")
_PARQUET = (".parquet", ".pq")
_CSV = {".csv": ",", ".tsv": "\t"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_data(
    path: PathLike,
    *,
    label: str = "label",
    qid: str = "qid",
    weight: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    zero_based: bool = False,
    labelled: bool = True,
    reference: RankingData | Columns | None = None,
) -> RankingData:
    r"""Read ranking data from a file.

    The ending says the format: ``.txt``, ``.letor``, ``.svm``, ``.svmlight`` or ``.dat`` is LETOR text, ``.parquet``
    or ``.pq`` Parquet, ``.csv`` or ``.tsv`` a table with a header. Text may be packed: ``.gz``.

    In a CSV file an empty field, ``NA`` or ``nan`` is missing, and query ids are numbers if all of them are whole
    numbers. LETOR text has no names, so the options about columns do not touch it; ``zero_based`` touches nothing else.

    Parameters
    ----------
    path
        The file.
    label, qid, weight
        Names of the columns. Without ``weight`` only weights that `write_data` wrote to Parquet are used.
    drop
        Columns that are no features.
    categorical
        Columns that hold categories.
    zero_based
        Whether the first feature of LETOR text has index 0; by default it has index 1.
    labelled
        False for rows to predict: a table needs no labels then, and all become 0.
    reference
        Training data, or a model's ``columns_``: this data gets the same columns and categories. Columns named in
        ``drop`` and ``categorical`` may then be absent.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.csv")
    ...     _ = path.write_text("grade,query,bm25\n2,a,7.5\n0,a,\n")
    ...     data = read_data(path, label="grade", qid="query")
    >>> data.y.tolist(), data.X.tolist(), data.feature_names
    ([2.0, 0.0], [[7.5], [nan]], ['bm25'])
    """
    kind = _format(path)
    if kind in _LETOR:
        return _read_letor(path, zero_based, labelled, reference)
    texts = () if reference is None else tuple(name for name, known in reference.categories.items() if known)
    table = _read_parquet(path) if kind in _PARQUET else _read_csv(path, _CSV[kind], qid, texts)
    there = table.column_names
    if reference is not None:
        drop, categorical = ([name for name in names if name in there] for names in (drop, categorical))
    if not labelled and label in there:
        drop = [*drop, label]
    needed = [("label", label)] if labelled else []
    needed += [("qid", qid)] + ([] if weight is None else [("weight", weight)])
    for option, name in [*needed, *(("drop", one) for one in drop), *(("categorical", one) for one in categorical)]:
        if name not in there:
            raise ValueError(
                f"{path} has no column {name!r}; it has {_shown(there)}. Name one of them with {option} "
                f"(--{option} on the command line)."
            )
    try:
        return RankingData.from_arrow(
            table,
            label=label if labelled else None,
            qid=qid,
            weight=weight,
            drop=drop,
            categorical=categorical,
            reference=reference,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_parts(paths: Sequence[PathLike], **options: Any) -> list[RankingData]:
    r"""Read files that belong together, such as training and validation data: all get the first one's columns.

    LETOR files have as many features as the largest index in any of them says. ``options`` are those of `read_data`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [pathlib.Path(folder, name) for name in ("a.txt", "b.txt")]
    ...     _ = [path.write_text(f"1 qid:1 {i}:0.5\n") for i, path in enumerate(paths, start=1)]
    ...     [part.X.tolist() for part in read_parts(paths)]
    [[[0.5, 0.0]], [[0.0, 0.5]]]
    """
    if options.get("reference") is None and all(_format(path) in _LETOR for path in paths):
        return read_letor(list(paths), zero_based=options.get("zero_based", False))
    first = read_data(paths[0], **options)
    return [first, *(read_data(path, **{**options, "reference": first}) for path in paths[1:])]


def write_data(data: RankingData, path: PathLike) -> None:
    """Write ranking data to a file whose ending says the format, as `read_data` reads it.

    Queries ascend by id, and rows keep their order within a query. Numbers, missing values and -0.0 come back with the
    same bits. LETOR text holds neither names nor categories (their codes are written) nor weights (refused); CSV holds
    categories as text, which `read_data` is told about by ``categorical``. The file is complete or absent.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> data = RankingData([[0.1], [float("nan")]], [1, 0], qid=["a", "a"], feature_names=["bm25"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_data(data, pathlib.Path(folder, "a.csv"))
    ...     print(pathlib.Path(folder, "a.csv").read_text())
    "label","qid","bm25"
    1,"a",0.1
    0,"a",
    """
    kind = _format(path)
    if kind in _LETOR:
        write_letor(data, path)
    elif kind in _PARQUET:
        data.to_parquet(path)
    else:
        _write_csv(data, path, _CSV[kind])


def document_names(data: RankingData) -> list[str]:
    """Name the documents, in the data's order, by query and row: ``qid-1``, ``qid-2``, ... in the order of the file.

    The name of a document does not depend on the order in which the file has the queries.

    Examples
    --------
    >>> document_names(RankingData([[1], [2], [3]], [0, 1, 0], qid=["b", "a", "b"]))
    ['a-1', 'b-1', 'b-2']
    """
    return [
        f"{qid}-{number}"
        for qid, size in zip(data.query_ids.tolist(), data.group.tolist(), strict=True)
        for number in range(1, size + 1)
    ]


def _format(path: PathLike) -> str:
    name = Path(path)
    packed = name.suffix == ".gz"
    ending = Path(name.stem).suffix if packed else name.suffix
    if ending in _LETOR or ending in _CSV or (ending in _PARQUET and not packed):
        return ending
    raise ValueError(
        f"{os.fspath(path)!r} does not say its format; end it in {', '.join(_LETOR)} (LETOR), .csv, .tsv (both also "
        "with .gz) or .parquet."
    )


def _read_letor(
    path: PathLike, zero_based: bool, labelled: bool, reference: RankingData | Columns | None
) -> RankingData:
    n_features = None if reference is None else len(reference.feature_names)
    X, y, qid = parse_letor(read_text(path), source=os.fspath(path), zero_based=zero_based, n_features=n_features)
    try:
        return RankingData(X, y if labelled else np.zeros(len(y)), qid=qid, reference=reference)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_parquet(path: PathLike) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(path, "rb") as file:
        try:
            return pq.read_table(file)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not Parquet, or it is damaged: {_first_line(error)}") from None


def _read_csv(path: PathLike, delimiter: str, qid: str, texts: Sequence[str]) -> Any:
    """Read a table: ids as text or whole numbers, all other numbers as float64, ``texts`` as text."""
    import pyarrow as pa
    import pyarrow.csv as pc

    # A copy in Arrow's own memory: its reading threads may outlive the call, and one that frees memory of Python's
    # while the interpreter ends would end the process with an error of its own.
    with pa.BufferOutputStream() as copy:
        copy.write(read_text(path))
        content = copy.getvalue()
    parse = pc.ParseOptions(delimiter=delimiter)
    try:
        with pc.open_csv(pa.BufferReader(content), parse_options=parse) as reader:  # types of the first rows
            schema = reader.schema
        types = {
            field.name: pa.float64()
            for field in schema
            if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        }
        types |= {name: pa.string() for name in (qid, *texts) if name in schema.names}
        # A field in quotes is text even where it reads NA or nothing; without quotes that is missing.
        convert = pc.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
        table = pc.read_csv(pa.BufferReader(content), parse_options=parse, convert_options=convert)
    except pa.ArrowException as error:
        raise ValueError(f"{path} is not a table that can be read: {_first_line(error)}") from None
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0]!r}; give each its own name.")
    if qid in table.column_names:
        ids = table[qid].to_pylist()
        if all(text is not None and _INTEGER.fullmatch(text) for text in ids):
            numbers = pa.array([int(text) for text in ids], pa.int64())
            table = table.set_column(table.column_names.index(qid), qid, numbers)
    return table


def _write_csv(data: RankingData, path: PathLike, delimiter: str) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    columns: dict[str, Any] = {"label": data.y, "qid": [str(qid) for qid in data.qid.tolist()]}
    if data.qid.dtype.kind in "iu":
        columns["qid"] = data.qid
    elif len({str(qid) for qid in data.query_ids.tolist()}) < data.n_queries:
        raise ValueError("two query ids are the same once written as text; give them ids that differ as text.")
    if data.weights is not None:
        columns["weight"] = data.weights
    if clash := columns.keys() & set(data.feature_names):
        raise ValueError(f"a feature is named {sorted(clash)[0]!r}, which the file needs; rename it.")
    for number, name in enumerate(data.feature_names):
        values = data.X[:, number]
        columns[name] = _written(values.toarray().ravel() if sp.issparse(values) else values, data.categories.get(name))
    with replacing(path) as file:
        pc.write_csv(pa.table(columns), file, pc.WriteOptions(delimiter=delimiter))


def _written(values: NDArray[Any], levels: tuple[Any, ...] | None) -> Any:
    """A column of Arrow: missing values as null, codes as the text of their levels."""
    import pyarrow as pa

    if levels is None:
        return pa.array(values.astype(np.float64), mask=np.isnan(values))
    return pa.array([None if np.isnan(code) else str(levels[int(code)]) for code in values])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".") + "."
