"""Ranking data in files: LETOR text, Parquet and CSV; the file extension gives the format."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.arrow import label_columns, table_metadata
from rankwright.data.csv_text import read_csv
from rankwright.data.dataset import RankingData
from rankwright.data.files import (
    CSV,
    LETOR,
    PARQUET,
    check_column_options,
    extension_of,
    read_parquet,
)
from rankwright.data.letor import comment_fields, letor_data, read_letor, widen, write_letor
from rankwright.data.letor_parser import parse_letor
from rankwright.data.matching import Columns, HasColumns
from rankwright.support.files import PathLike, read_text, replacing, require_arrow

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_data(
    path: PathLike,
    *,
    label: str | Sequence[str] = "label",
    qid: str = "qid",
    weight: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    fields: Sequence[str] = (),
    docid: str | None = None,
    query_text: str | None = None,
    zero_based: bool = False,
    labelled: bool | None = True,
    features: bool = True,
    reference: RankingData | Columns | None = None,
) -> RankingData:
    r"""Read ranking data from a file.

    The file extension gives the format: ``.txt``, ``.letor``, ``.svm``, ``.svmlight`` or ``.dat`` is LETOR text,
    ``.parquet`` or ``.pq`` Parquet, ``.csv`` or ``.tsv`` a table with a header. Text may be compressed: ``.gz``.

    In a CSV file an empty field, ``NA`` or ``nan`` is missing, and query ids are numbers if all of them are whole
    numbers. LETOR text has no column names, so options that name columns are an error, and so is ``zero_based`` for
    other files; where there is a ``reference``, whose options may be for its own format, they are ignored.

    Parameters
    ----------
    path
        The file.
    label, qid, weight
        Names of the columns. Several labels are a list of names, the main one first; without ``label``, those of a
        Parquet file that `write_data` wrote. Without ``weight``, weights are read only from such a file.
    drop
        Columns to ignore.
    categorical
        Columns that hold categories.
    fields
        Columns that are not features and travel with the rows, such as the position at which a document was shown;
        LETOR text has none.
    docid, query_text
        Columns with document ids and with the text of each row's query. They become the fields ``"docid"`` and
        ``"query_text"``, which travel with the rows into predictions, TREC files and reports. LETOR text has document
        ids in its comments.
    zero_based
        Whether the first feature of LETOR text has index 0; by default it has index 1.
    labelled
        False for rows to predict, which need no labels; None for rows with pairs, which may have none: labels are
        read where the file has the column.
    features
        False where only labels, queries and fields of Parquet or CSV are of interest: other columns may then hold
        anything, or be missing, and the only feature is a column of zeros.
    reference
        Training data, or a model's ``columns_``: this data gets the same columns and categories. Columns named in
        ``drop``, ``categorical``, ``fields``, ``docid`` and ``query_text`` may then be missing. LETOR text, which has
        no names, is matched by position and must have as many features; only where the reference is LETOR text too may
        the last ones be missing, which are then 0, with a warning that names them.

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
    if reference is None:
        options = {
            "label": label,
            "qid": qid,
            "weight": weight,
            "docid": docid,
            "query_text": query_text,
        }
        options |= {"drop": drop, "categorical": categorical, "fields": fields}
        check_column_options(path, options | {"zero_based": zero_based})
    if extension_of(path) in LETOR:
        if not isinstance(label, str):
            raise ValueError(
                f"{path} is LETOR text, which has one label, not {', '.join(label)}; use Parquet or CSV."
            )
        return _read_letor(path, zero_based, labelled is not False, reference)
    texts = (
        ()
        if reference is None
        else tuple(name for name, levels in reference.categories.items() if levels)
    )
    table = read_table(path, qid, texts)
    columns = table.column_names
    try:
        written = table_metadata(table).get("labels")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if label == "label" and label not in columns and written:
        label = list(written)
    labels = [label] if isinstance(label, str) else list(label)
    if labelled is None:
        labelled = any(name in columns for name in labels)
    if reference is not None:
        drop, categorical, fields = (
            [name for name in names if name in columns] for names in (drop, categorical, fields)
        )
    if not labelled:
        drop = [*drop, *(name for name in labels if name in columns and name not in drop)]
    required = [("label", name) for name in labels] if labelled else []
    required += [("qid", qid)] + ([] if weight is None else [("weight", weight)])
    named = {"docid": docid, "query_text": query_text}
    if reference is not None:
        named = {option: name if name in columns else None for option, name in named.items()}
    required += [(option, name) for option, name in named.items() if name is not None]
    for option, listed in (("drop", drop), ("categorical", categorical), ("fields", fields)):
        required += [(option, name) for name in listed]
    for option, name in required:
        if name not in columns:
            near = get_close_matches(name, columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{path} has no column {name!r}; it has {_shown(columns)}.{hint} Name one of them in {option}=."
            )
    given = {option: name for option, name in named.items() if name is not None}
    table, fields = _name_fields(table, path, given, fields)
    if not features:
        drop, categorical = (
            _feature_columns(table, (*(labels if labelled else ()), qid, weight, *fields)),
            (),
        )
        table = table.append_column("no feature", [np.zeros(len(table))])
    try:
        return RankingData.from_arrow(
            table,
            label=None if not labelled else labels[0] if len(labels) == 1 else labels,
            qid=qid,
            weight=weight,
            drop=drop,
            categorical=categorical,
            fields=fields,
            reference=reference,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_table(path: PathLike, qid: str, texts: Sequence[str] = ()) -> Any:
    """Read Parquet or CSV as an Arrow table; ``texts`` are columns of CSV that hold text."""
    extension = extension_of(path)
    if extension in LETOR:
        raise ValueError(
            f"{os.fspath(path)!r} is LETOR text, which has no columns; give Parquet or CSV."
        )
    return (
        read_parquet(path) if extension in PARQUET else _read_csv(path, CSV[extension], qid, texts)
    )


def read_parts(
    paths: Sequence[PathLike],
    *,
    pairs: PathLike | None = None,
    document: str | None = None,
    **options: Any,
) -> list[RankingData]:
    r"""Read files that belong together, such as training and validation data, with the columns of the first file.

    The number of features of LETOR files is the largest index in any of them. ``options`` are those of `read_data`.
    ``pairs``, as in `RankingData`, belong to the rows of the first file, by number or by the column ``document``; where
    there are some, the files need no labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [pathlib.Path(folder, name) for name in ("a.txt", "b.txt")]
    ...     _ = [path.write_text(f"1 qid:1 {i}:0.5\n") for i, path in enumerate(paths, start=1)]
    ...     [part.X.tolist() for part in read_parts(paths)]
    [[[0.5, 0.0]], [[0.0, 0.5]]]
    """
    if pairs is not None:
        fields = [*options.get("fields", ()), *([] if document is None else [document])]
        labelled = None if "label" not in options else True
        first, *others = read_parts(paths, **{"labelled": labelled, **options, "fields": fields})
        return [first.with_pairs(pairs, document, as_given=True), *others]
    by_name = any(options.get(name) for name in ("fields", "categorical", "drop", "weight"))
    letor = all(extension_of(path) in LETOR for path in paths) and not by_name
    if options.get("reference") is None and letor and isinstance(options.get("label", ""), str):
        check_column_options(paths[0], options)
        return read_letor(list(paths), zero_based=options.get("zero_based", False))
    first = read_data(paths[0], **options)
    return [first, *(read_data(path, **{**options, "reference": first}) for path in paths[1:])]


def write_data(data: RankingData, path: PathLike) -> None:
    """Write ranking data to a file; the extension gives the format, as in `read_data`.

    Queries are sorted by id, and rows keep their order within a query. Numbers, missing values and -0.0 are read back
    with the same bits. LETOR text cannot hold names (left out), categories (written as codes) or weights (an error);
    CSV holds categories as text, to be named in ``categorical`` of `read_data`. The file is complete or absent.

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
    extension = extension_of(path)
    if extension in LETOR:
        write_letor(data, path)
    elif extension in PARQUET:
        data.to_parquet(path)
    else:
        _write_csv(data, path, CSV[extension])


def write_table(columns: Mapping[str, Sequence[Any]], path: PathLike) -> None:
    """Write columns to Parquet or CSV, by the extension; the file is complete or absent."""
    require_arrow()
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    extension = extension_of(path)
    if extension in LETOR or Path(path).suffix == ".gz":
        raise ValueError(f"{os.fspath(path)!r} must end in .parquet, .csv or .tsv.")
    table = pa.table({name: list(values) for name, values in columns.items()})
    with replacing(path) as file:
        if extension in PARQUET:
            pq.write_table(table, file)
        else:
            pc.write_csv(table, file, pc.WriteOptions(delimiter=CSV[extension]))


def document_names(data: RankingData) -> list[str]:
    """Name the documents, in the order of the data's rows, by the field ``"docid"``.

    A row without one is named by query and row, ``qid-1``, ``qid-2``, ..., which does not depend on the order of the
    queries in the file.

    Examples
    --------
    >>> document_names(RankingData([[1], [2], [3]], [0, 1, 0], qid=["b", "a", "b"]))
    ['a-1', 'b-1', 'b-2']
    >>> document_names(RankingData([[1], [2]], [0, 1], qid=["b", "b"], fields={"docid": ["x", ""]}))
    ['x', 'b-2']
    """
    numbered = numbered_names(data)
    if "docid" not in data.fields:
        return numbered
    names = [
        str(docid) or number
        for docid, number in zip(data.fields["docid"].tolist(), numbered, strict=True)
    ]
    seen: set[tuple[Any, str]] = set()
    for pair in zip(data.qid.tolist(), names, strict=True):
        if pair in seen:
            raise ValueError(
                f"query {pair[0]!r} has two documents with the id {pair[1]!r}; give each its own id."
            )
        seen.add(pair)
    return names


def numbered_names(data: RankingData) -> list[str]:
    """Name the documents by query and row, whatever ids they have."""
    return [
        f"{qid}-{number}"
        for qid, size in zip(data.query_ids.tolist(), data.group.tolist(), strict=True)
        for number in range(1, size + 1)
    ]


def _name_fields(
    table: Any, path: PathLike, columns: dict[str, str], fields: Sequence[str]
) -> tuple[Any, list[str]]:
    """Give the columns of fields the names that the rest of the package knows them by."""
    for field, column in columns.items():
        if column == field:
            continue
        if field in table.column_names:
            raise ValueError(
                f"{path} has a column {field!r} beside {column!r}; name it in drop=, or as {field}=."
            )
        table = table.append_column(field, table[column])
    others = set(columns.values()) - columns.keys() - set(fields)
    return table.drop_columns(sorted(others)) if others else table, [*columns, *fields]


def _feature_columns(table: Any, named: Sequence[str | None]) -> list[str]:
    """Return the columns that are neither named nor what `write_data` wrote beside features."""
    metadata = table_metadata(table)
    others = {
        *named,
        *metadata.get("fields", []),
        *(["weight"] if metadata.get("weighted") else []),
    }
    return [name for name in table.column_names if name not in others]


def _read_letor(
    path: PathLike, zero_based: bool, labelled: bool, reference: RankingData | Columns | None
) -> RankingData:
    text, source = read_text(path), os.fspath(path)
    X, y, qid = parse_letor(text, source=source, zero_based=zero_based)
    if reference is not None:
        check_letor_columns(X.shape[1], source, 0 if zero_based else 1, reference)
        X = widen(X, len(reference.feature_names))
    labels = y if labelled else np.zeros(len(y))
    try:
        if reference is None:
            return letor_data(X, labels, qid, comment_fields(text), zero_based=zero_based)
        return RankingData(X, labels, qid=qid, reference=reference, fields=comment_fields(text))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def check_letor_columns(width: int, source: str, first_index: int, reference: HasColumns) -> None:
    """Match the features of LETOR text with the columns of a reference, by position; missing ones are 0."""
    expected = len(reference.feature_names)
    texts = [name for name, levels in reference.categories.items() if levels is not None]
    if texts:
        raise ValueError(
            f"{source} is LETOR text, which holds numbers only, but the training data has text in the categorical "
            f"column {texts[0]!r}; give Parquet or CSV with the columns of the training data."
        )
    if width > expected or (width < expected and reference.first_index is None):
        names = (
            f" ({_shown(reference.feature_names[:4])}{', ...' if expected > 4 else ''})"
            if reference.named
            else ""
        )
        other = " and was not LETOR text" if reference.first_index is None else ""
        raise ValueError(
            f"{source} has {width} features, but the training data has {expected} column{'s' * (expected > 1)}"
            f"{names}{other}; give a file with the columns of the training data."
        )
    if width < expected:
        first, last = width + first_index, expected - 1 + first_index
        indices = f"feature {first}" if first == last else f"features {first} to {last}"
        warnings.warn(
            f"{source} has no {indices} of the training data; taken as 0 in all rows.", stacklevel=4
        )
    elif reference.named:
        warnings.warn(
            f"{source} has no column names; its {width} features are matched with the columns of the training data "
            "by position.",
            stacklevel=4,
        )


def _read_csv(path: PathLike, delimiter: str, qid: str, texts: Sequence[str]) -> Any:
    """Read a table: ids as text or whole numbers, all other numbers as float64, ``texts`` as text."""
    require_arrow()
    import pyarrow as pa
    import pyarrow.csv as pc

    def convert(schema: Any) -> Any:
        types = {
            field.name: pa.float64()
            for field in schema
            if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        }
        types |= {name: pa.string() for name in (qid, *texts) if name in schema.names}
        # A quoted field is text even if it is NA or empty; without quotes these are missing values.
        return pc.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        )

    table = read_csv(path, delimiter, convert)
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path} has two columns named {repeated[0]!r}; give each its own name.")
    if unreadable := [field.name for field in table.schema if pa.types.is_binary(field.type)]:
        raise ValueError(
            f"{path}: column {unreadable[0]!r} has text that is not UTF-8; save the file as UTF-8."
        )
    if qid in table.column_names:
        ids = table[qid].to_pylist()
        if all(text is not None and _INTEGER.fullmatch(text) for text in ids):
            numbers = pa.array([int(text) for text in ids], pa.int64())
            table = table.set_column(table.column_names.index(qid), qid, numbers)
    return table


def _write_csv(data: RankingData, path: PathLike, delimiter: str) -> None:
    require_arrow()
    import pyarrow as pa
    import pyarrow.csv as pc

    integer_ids = data.qid.dtype.kind in "iu"
    if not integer_ids and len({str(qid) for qid in data.query_ids.tolist()}) < data.n_queries:
        raise ValueError(
            "two query ids are the same once written as text; give them ids that differ as text."
        )
    columns = label_columns(
        data, data.qid if integer_ids else [str(qid) for qid in data.qid.tolist()]
    )
    for number, name in enumerate(data.feature_names):
        values = data.X[:, number]
        dense = values.toarray().ravel() if sp.issparse(values) else values
        columns[name] = _csv_column(dense, data.categories.get(name))
    with replacing(path) as file:
        pc.write_csv(pa.table(columns), file, pc.WriteOptions(delimiter=delimiter))


def _csv_column(values: NDArray[Any], levels: tuple[Any, ...] | None) -> Any:
    """Return an Arrow column: missing values as null, codes as the text of their levels."""
    require_arrow()
    import pyarrow as pa

    if levels is None:
        return pa.array(values.astype(np.float64), mask=np.isnan(values))
    return pa.array([None if np.isnan(code) else str(levels[int(code)]) for code in values])


def _shown(names: Sequence[str]) -> str:
    """List names; of many the first and the last, where labels and ids usually are."""
    return ", ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-6:]])
