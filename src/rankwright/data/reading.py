"""Read and write ranking data in files. The file extension gives the format (`rankwright.data.formats`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.data.columns import Columns
from rankwright.data.dataset import RankingData
from rankwright.data.formats import check_column_options, format_of, table_format_of
from rankwright.data.formats.contract import ReadOptions
from rankwright.data.formats.letor import read_letor
from rankwright.support.files import PathLike, replacing, require_arrow


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
    time: str | None = None,
    zero_based: bool = False,
    labelled: bool | None = True,
    features: bool = True,
    reference: RankingData | Columns | None = None,
) -> RankingData:
    r"""Read ranking data from a file.

    The file extension gives the format: ``.txt``, ``.letor``, ``.svm``, ``.svmlight`` or ``.dat`` for
    LETOR text, ``.parquet`` or ``.pq`` for Parquet, ``.arrow`` or ``.feather`` for Arrow, ``.csv`` or
    ``.tsv`` for a table with a header. Text may be compressed, for example ``train.csv.gz``.

    In a CSV file an empty field, ``NA`` or ``nan`` is missing, and query ids are numbers if all of them
    are whole numbers. LETOR text has no column names, so options that name columns are an error, and so
    is ``zero_based`` for other files. If there is a ``reference``, these options are ignored, because
    they may be for its format.

    Parameters
    ----------
    path
        The file.
    label, qid, weight
        Names of the columns. Several labels are a list of names, the main label first. Without ``label``
        and ``weight``, a Parquet or Arrow file that `write_data` wrote has the names of its labels and
        weights; other files are read without weights.
    drop
        Columns to ignore.
    categorical
        Columns that hold categories.
    fields
        Columns that are not features and travel with the rows, for example the position at which a
        document was shown. LETOR text has none.
    docid, query_text
        Columns with document ids and with the text of each row's query. They become the fields
        ``"docid"`` and ``"query_text"``, which travel with the rows into predictions, TREC files and
        reports. LETOR text has document ids in its comments.
    time
        Column with the time of each row, numbers or dates. It becomes the field ``"time"``, for splits and
        folds in the order of time.
    zero_based
        Whether the first feature of LETOR text has index 0; by default it has index 1.
    labelled
        False for rows to predict, which need no labels. None for rows with pairs, which may have no
        labels: they are read if the file has the column.
    features
        False if only labels, queries and fields of a table are needed. Other columns may then hold
        anything, or be missing, and the only feature is a column of zeros.
    reference
        Training data, or a model's ``columns_``: this data gets the same columns and categories. Columns
        named in ``drop``, ``categorical``, ``fields``, ``docid``, ``query_text`` and ``time`` may be missing.
        LETOR text has no names, so it is matched by position and must have as many features. Only if
        the reference is LETOR text too, the last features may be missing. They are then 0, with a
        warning that names them.

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
    options = ReadOptions(
        label=label if isinstance(label, str) else tuple(label),
        qid=qid,
        weight=weight,
        drop=tuple(drop),
        categorical=tuple(categorical),
        fields=tuple(fields),
        docid=docid,
        query_text=query_text,
        time=time,
        zero_based=zero_based,
        labelled=labelled,
        features=features,
        reference=reference,
    )
    if reference is None:
        check_column_options(path, vars(options))
    return format_of(path).read(path, options)


def read_parts(
    paths: Sequence[PathLike],
    *,
    pairs: PathLike | None = None,
    document: str | None = None,
    **options: Any,
) -> list[RankingData]:
    r"""Read files that belong together, for example training and validation data, with the columns of the first.

    The number of features of LETOR files is the largest index in any of them. ``options`` are options
    of `read_data`. ``pairs``, as in `RankingData`, belong to the rows of the first file, by number or by
    the column ``document``. If there are pairs, the files need no labels.

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
        fields = list(options.get("fields", ()))
        if document is not None:
            fields.append(document)
        # Rows with pairs may have no labels, so these are read only if they are there or named.
        labelled = True if "label" in options else None
        given = {"labelled": labelled, **options, "fields": fields}
        first, *more = read_parts(paths, **given)
        return [first.with_pairs(pairs, document, as_given=True), *more]
    # LETOR files are read together, because the widest file decides the number of features.
    in_letor = not any(format_of(path).has_columns for path in paths)
    if in_letor and options.get("reference") is None:
        check_column_options(paths[0], options)
        return read_letor(list(paths), zero_based=options.get("zero_based", False))
    # Later files get the columns and category codes of the first.
    first = read_data(paths[0], **options)
    later = [read_data(path, **{**options, "reference": first}) for path in paths[1:]]
    return [first, *later]


def write_data(data: RankingData, path: PathLike) -> None:
    """Write ranking data to a file; the extension gives the format, as in `read_data`.

    Queries are sorted by id, and rows keep their order within a query. Numbers, missing values and -0.0
    are read back with the same bits. LETOR text cannot hold names (left out), categories (written as
    codes) or weights (an error). CSV holds categories as text, to be named in ``categorical`` of
    `read_data`. The file is complete or absent.

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
    format_of(path).write(data, path)


def read_table(path: PathLike, qid: str | None = None, texts: Sequence[str] = ()) -> Any:
    """Read a file with named columns as an Arrow table.

    In a file without types, such as CSV, ``qid`` is read as whole numbers or text, and ``texts`` as text.
    """
    return table_format_of(path).read_table(path, qid, texts)


def write_table(columns: Mapping[str, Sequence[Any]], path: PathLike) -> None:
    """Write columns to a file with named columns, complete or not at all."""
    require_arrow()
    import pyarrow as pa

    file_format = table_format_of(path)
    table = pa.table({name: list(values) for name, values in columns.items()})
    with replacing(path) as file:
        file_format.write_table(table, file)
