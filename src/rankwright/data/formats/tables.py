"""Formats whose files are tables with named columns: how tables become ranking data, and ranking data tables.

`write` describes the columns in the table's metadata, under the name ``rankwright``: the categories
of columns that hold codes, the fields, the labels if there are several, and whether there are
weights. So a file that was written here is read back as it was without naming its columns again.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.columns import Columns, Levels, sorted_levels
from rankwright.data.dataset import RankingData
from rankwright.data.formats import contract
from rankwright.data.formats.contract import ReadOptions
from rankwright.data.labels import UNNAMED
from rankwright.data.queries import as_floats
from rankwright.support.checks import ArgumentError, located
from rankwright.support.files import PathLike, check_unpacked, replacing, require_arrow

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles

_ROW_BYTES = 64  # about the memory that a row of streamed files takes: label, query, hash, number
_NO_FEATURE = "no feature"


class Head(NamedTuple):
    """The description that a file contains of itself."""

    schema: Any
    n_rows: int


class TableFormat(contract.Format):
    """A format whose files are read as Arrow tables."""

    @abstractmethod
    def read_table(self, path: PathLike, qid: str | None = None, texts: Sequence[str] = ()) -> Any:
        """Read a file as an Arrow table.

        A format without types has to know which column holds query ids, whole numbers or text, and
        which columns hold text.
        """

    @abstractmethod
    def write_table(self, table: Any, file: IO[bytes]) -> None:
        """Write an Arrow table to an open file."""

    def read(self, path: PathLike, options: ReadOptions) -> RankingData:
        """Read a file as ranking data."""
        # Categories of the training data are read as text, even if they look like numbers
        # here.
        texts: list[str] = []
        if options.reference is not None:
            categories = options.reference.categories
            texts = [name for name, levels in categories.items() if levels]
        table = self.read_table(path, options.qid, texts)
        options = resolved(options, path, table.schema)
        with naming_file(path):
            return data_of_table(table, options)

    def write(self, data: RankingData, path: PathLike) -> None:
        """Write ranking data as a table."""
        require_arrow()
        table = self.table_of_data(data)
        with replacing(path) as file:
            self.write_table(table, file)

    def table_of_data(self, data: RankingData) -> Any:
        """Return the features, the columns ``label``, ``qid`` and ``weight``, and the fields as a table."""
        import pyarrow as pa

        if sp.issparse(data.X):
            raise ValueError(
                f"{self.name} needs dense columns, but this data is sparse; use write_letor, or "
                "make X dense first."
            )
        columns = columns_beside_features(data, _plain_ids(data.qid))
        for number, name in enumerate(data.feature_names):
            columns[name] = np.ascontiguousarray(data.X[:, number])
        description: dict[str, Any] = {
            "categories": data.categories,
            "weighted": data.weights is not None,
            "fields": [name for name in data.fields if name not in data.label_names],
        }
        if len(data.label_names) > 1:
            description["labels"] = data.label_names
        # The description makes names of columns unnecessary when the file is read again.
        try:
            metadata = json.dumps(description)
        except TypeError:
            raise ValueError(
                "the file can hold only categories that are text or numbers; turn others into text."
            ) from None
        return pa.table(columns).replace_schema_metadata({"rankwright": metadata})


class BinaryTableFormat(TableFormat):
    """A format whose files have typed columns, and can be read batch by batch."""

    @abstractmethod
    def head(self, path: PathLike) -> Head:
        """Read the description of a file without its rows."""

    @abstractmethod
    def batches(self, path: PathLike, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of a file as tables of bounded size; a damaged file is a ValueError."""

    @abstractmethod
    def read_all(self, path: PathLike) -> Any:
        """Read all rows of a file as a table."""

    def read_table(self, path: PathLike, qid: str | None = None, texts: Sequence[str] = ()) -> Any:
        """Read a file as an Arrow table, unless it would take far more memory than its size.

        Text that is stored once for many rows can still take far more memory than the file.
        """
        head = self.head(path)
        check_unpacked(path, _size(head), "read it in blocks: stream_data(path)")
        table = self.read_all(path)
        if len(table) != head.n_rows:
            raise ValueError(
                f"{path} says that it has {head.n_rows} rows, and {len(table)} can be read. Write "
                "it again."
            )
        return table

    def bytes_in_memory(self, path: PathLike) -> int:
        """Return how much memory the rows of a file take as numbers of eight bytes."""
        return _size(self.head(path))

    def blocks(
        self, files: DataFiles, options: ReadOptions, show: contract.Show
    ) -> contract.Blocks:
        """Look at the schemas of all files, find the categories of text columns, and return a reader."""
        require_arrow()
        versions = contract.versions_of(files)
        heads = {name: self.head(name) for name in files.files}
        first, *later = heads
        # Everything that a footer shows is checked before the rows are read, which may take long.
        for name, head in heads.items():
            check_unpacked(name, _ROW_BYTES * head.n_rows, "write it as several files")
        n_rows = sum(head.n_rows for head in heads.values())
        if n_rows == 0:
            others = " and the others" if later else ""
            raise ValueError(f"the data is empty: no row is in {first}{others}.")
        for name, head in heads.items():
            resolved(options, name, head.schema, need_fields=True)
            _check_same_schema(name, head.schema, first, heads[first].schema)
        options = resolved(options, first, heads[first].schema, need_fields=True)
        if options.reference is not None:
            columns = Columns.of(options.reference)
            return TableBlocks(files, columns, options, versions, n_rows, show, self)
        # The first block shows which columns hold text, whose categories must be known
        # before all rows are read.
        reader = TableBlocks(files, Columns([], {}), options, versions, n_rows, show, self)
        _, data = next(reader.parts(""))
        columns = Columns.of(data)
        descriptions = [table_metadata(head.schema) for head in heads.values()]
        for name, levels in data.categories.items():
            # Blocks of a file have the levels of the whole file, if these are in its description.
            if levels is not None and any(
                description.get("categories", {}).get(name) != list(levels)
                for description in descriptions
            ):
                columns.categories[name] = self._levels(heads, name)
        options = replace(options, reference=columns)
        return TableBlocks(files, columns, options, versions, n_rows, show, self)

    def _levels(self, heads: dict[str, Head], column: str) -> tuple[Any, ...]:
        """Return all values of a categorical column; codes stand for the levels that a file describes."""
        found: set[Any] = set()
        for name, head in heads.items():
            described = table_metadata(head.schema).get("categories", {}).get(column)
            if described is not None:
                found |= set(described)
                continue
            for table in self.batches(name, [column]):
                found |= set(table[column].unique().to_pylist())
        # None and NaN are missing values, not categories.
        present = {value for value in found if value is not None and value == value}
        return sorted_levels(present, column)


@dataclass(frozen=True, eq=False)
class TableBlocks(contract.FilesInBlocks):
    """Rows of files of tables in blocks."""

    format: BinaryTableFormat

    def blocks(self, purpose: str) -> Iterator[contract.RowBlock]:
        """Yield all rows, from the first file to the last."""
        for start, data in self.parts(purpose):
            rows = start + np.arange(data.n_rows)
            rows = data.queries.group(rows)
            fields = {name: data.fields[name] for name in self.options.fields}
            queries = data.queries.grouped()
            yield contract.RowBlock(rows, data.X, data.labels, queries, data.weights, fields)

    def parts(self, purpose: str) -> Iterator[tuple[int, RankingData]]:
        """Yield the number of the first row of each block, and its data."""
        import pyarrow as pa

        start = bytes_before = 0
        n_bytes = self.files.n_bytes
        for name in self.unchanged_files():
            row, size = 0, os.path.getsize(name)
            try:
                n_rows = self.format.head(name).n_rows
                for table in self.format.batches(name):
                    if len(table) == 0:
                        continue
                    yield start + row, data_of_table(table, self.options)
                    row += len(table)
                    self.show(purpose, bytes_before + size * row // max(1, n_rows), n_bytes)
                    del table  # it would stay in memory while the next batch is read
                # Arrow silently leaves out rows if a column is shorter than the others.
                if row != n_rows:
                    raise ValueError(
                        f"it says that it has {n_rows} rows; the file is damaged, write it again"
                    )
            except (pa.ArrowException, OSError, ValueError) as error:
                reason = str(error).split("\n")[0].rstrip(".")
                if not reason.startswith(name):
                    where = f"{name}, rows {row} and after" if row else name
                    reason = f"{where}: {reason}"
                raise ValueError(f"{reason}.") from None
            start, bytes_before = start + row, bytes_before + size
            pa.default_memory_pool().release_unused()  # Arrow would keep the memory
        self.show(purpose, n_bytes, n_bytes)


@contextmanager
def naming_file(path: PathLike) -> Iterator[None]:
    """Let errors about the content of a file begin with its name."""
    try:
        yield
    except ValueError as error:
        raise located(path, error) from None


@contextmanager
def arrow_errors(path: PathLike, name: str) -> Iterator[None]:
    """Turn errors of Arrow about a damaged file into a ValueError that names it."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ValueError(f"{path} is not a valid {name} file: {reason}. Write it again.") from None


def check_names_differ(path: PathLike, names: Sequence[str]) -> None:
    """Raise ValueError if two columns have the same name."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{path} has two columns named {name!r}; give each its own name.")


def resolved(
    options: ReadOptions, path: PathLike, schema: Any, *, need_fields: bool = False
) -> ReadOptions:
    """Return the options for the columns of a file; raise ValueError if a column is missing.

    Names that the file describes itself are filled in. If there is a reference, columns that are no
    features may be missing, and they are left out: their names may be for the training data.
    """
    with naming_file(path):
        description = table_metadata(schema)
    columns = list(schema.names)
    # Several labels keep their names in the file, so there is no column "label".
    label = options.label
    if label == UNNAMED and label not in columns and description.get("labels"):
        label = tuple(description["labels"])
    options = replace(options, label=label)
    if options.weight is None and description.get("weighted"):
        options = replace(options, weight="weight")
    if options.labelled is None:
        is_there = any(name in columns for name in options.labels)
        options = replace(options, labelled=is_there)
    if options.reference is not None:
        options = _without_missing(options, columns, need_fields)

    required = [("qid", options.qid), ("weight", options.weight)]
    required += [(name, getattr(options, name)) for name in contract.NAMED_FIELDS]
    required += [("drop", name) for name in options.drop]
    required += [("categorical", name) for name in options.categorical]
    required += [("fields", name) for name in options.fields]
    if options.labelled:
        required = [*(("label", name) for name in options.labels), *required]
    for option, name in required:
        if name is not None and name not in columns:
            near = get_close_matches(name, columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            if len(columns) == 1 and ";" in columns[0]:
                hint = " The values are separated by semicolons; write the file with commas."
            raise ArgumentError(
                option,
                "must name one of them.",
                problem=f"{path} has no column {name!r}; it has {_shown(columns)}.{hint}",
            )
    return options


def _without_missing(options: ReadOptions, columns: list[str], need_fields: bool) -> ReadOptions:
    """Leave out names of columns that the file does not have."""

    def present(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in columns)

    named: dict[str, Any] = {}
    for name in contract.NAMED_FIELDS:
        column = getattr(options, name)
        named[name] = column if column in columns else None
    return replace(
        options,
        **named,
        drop=present(options.drop),
        categorical=present(options.categorical),
        fields=options.fields if need_fields else present(options.fields),
    )


def data_of_table(table: Any, options: ReadOptions) -> RankingData:
    """Return the ranking data of an Arrow table, whose columns the options name (see `resolved`).

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"label": [0, 1], "qid": [3, 3], "url": ["x", "y"], "bm25": [1.5, 2.5]})
    >>> data_of_table(table, ReadOptions(drop=("url",))).X.tolist()
    [[1.5], [2.5]]
    """
    import pyarrow as pa

    description = table_metadata(table.schema)
    table, named_fields = _rename_fields(table, options)
    drop = set(options.drop)
    labels = list(options.labels)
    if not options.labelled:
        # A label of rows to predict is not a feature.
        drop |= set(labels)
        labels = []
    # pandas stores row numbers as a column, which is not a feature unless it was named.
    used = {*labels, options.qid, options.weight}
    drop |= set(_pandas_index(table)) - used
    # A described field may have got the name that the package knows it by.
    gone = drop | (set(description.get("fields", [])) - set(table.column_names))
    described_fields = [name for name in description.get("fields", []) if name not in gone]
    fields = list(dict.fromkeys([*described_fields, *named_fields, *options.fields]))
    levels: Levels = {}
    for name, values in description.get("categories", {}).items():
        if name not in drop:
            levels[name] = None if values is None else tuple(values)
    categorical = [*levels, *options.categorical]
    if not options.features:
        # The other columns may hold anything, so they are not looked at.
        drop |= set(table.column_names) - {*used, *fields}
        levels, categorical = {}, []
        table = table.append_column(_NO_FEATURE, pa.array(np.zeros(len(table))))
    # Weights are an argument of their own, so their column is taken out.
    weights = None
    if options.weight is not None:
        weights = table[options.weight]
        drop.add(options.weight)
    table = table.drop_columns([name for name in table.column_names if name in drop])
    for name, texts in levels.items():
        if texts is not None:
            _check_codes(table, name, texts)
            # A reference may have other codes for the same levels.
            if options.reference is not None:
                table = _with_levels(table, name, texts)
    data = RankingData(
        table,
        labels or np.zeros(len(table)),
        qid=options.qid,
        sample_weight=weights,
        categorical=list(dict.fromkeys(categorical)) or None,
        reference=options.reference,
        fields=fields,
    )
    if options.reference is None:
        data.categories.update(levels)
    if not labels:
        data.label_names = ()
    return data


def _rename_fields(table: Any, options: ReadOptions) -> tuple[Any, list[str]]:
    """Give the columns of document ids, query texts and times the names that the package knows them by."""
    columns = {name: getattr(options, name) for name in contract.NAMED_FIELDS}
    named = {field: column for field, column in columns.items() if column is not None}
    for field, column in named.items():
        if column == field:
            continue
        if field in table.column_names:
            raise ArgumentError(
                field,
                f"names the column {column!r}, and there is a column {field!r} too; name that column, "
                "or drop it.",
            )
        table = table.append_column(field, table[column])
    renamed = set(named.values()) - named.keys() - set(options.fields)
    return table.drop_columns(sorted(renamed)), list(named)


def columns_beside_features(data: RankingData, ids: Any) -> dict[str, Any]:
    """Return the columns of a file that are not features: ``label``, ``qid``, ``weight`` and the fields."""
    if data.pairs is not None:
        raise ValueError(
            "the data has pairs, which a file of rows cannot hold; write rows without them."
        )
    label = data.label_names[0] if len(data.label_names) > 1 else UNNAMED
    columns = {label: data.y, "qid": ids}
    if data.weights is not None:
        columns["weight"] = data.weights
    for kind, names in (("field", [*data.fields]), ("feature", data.feature_names)):
        for name in sorted(names):
            if name in columns:
                raise ValueError(
                    f"a {kind} is named {name!r}, which the file needs itself; rename the {kind}."
                )
        if kind == "field":
            for name, values in data.fields.items():
                columns[name] = list(values) if values.dtype == object else values
    return columns


def table_metadata(schema: Any) -> dict[str, Any]:
    """Return the description of the columns that `write` left; raise ValueError if it was changed."""
    try:
        metadata = json.loads((schema.metadata or {}).get(b"rankwright", b"{}"))
        categories = metadata.get("categories", {})
        fields = metadata.get("fields", [])
        labels = metadata.get("labels") or []
        levels = [level for values in categories.values() for level in values or ()]
        is_valid = (
            all(values is None or isinstance(values, list) for values in categories.values())
            and isinstance(fields, list)
            and isinstance(labels, list)
            and all(isinstance(label, str) for label in labels)
            and {*categories, *fields, *labels} <= set(schema.names)
            and all(isinstance(level, str | int | float) for level in levels)
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            "the file's description of its columns (the metadata named rankwright) was damaged; "
            "write the file again, or remove the metadata to read its columns as they are."
        )
    return dict(metadata)


def _size(head: Head) -> int:
    """Return how many bytes the rows take as numbers of eight bytes."""
    return 8 * head.n_rows * len(head.schema)


def _shown(names: Sequence[str]) -> str:
    """List names; if there are many, the first and the last, because labels and ids are usually there."""
    if len(names) > 12:
        names = [*names[:6], "...", *names[-6:]]
    return ", ".join(names)


def _check_same_schema(name: str, schema: Any, first: str, first_schema: Any) -> None:
    """Raise ValueError if a file does not have the columns of the first file, with the same kinds of values."""
    missing = sorted(set(first_schema.names) - set(schema.names))
    extra = sorted(set(schema.names) - set(first_schema.names))
    if missing or extra:
        text = f"it has no {missing[0]!r}" if missing else f"it has {extra[0]!r} beside them"
        raise ValueError(
            f"{name} does not have the columns of {first}: {text}. Write all files with the same."
        )
    for column in schema.names:
        kind = _kind(schema.field(column).type)
        first_kind = _kind(first_schema.field(column).type)
        if kind != first_kind:
            raise ValueError(
                f"{name}: column {column!r} holds {kind}, but {first_kind} in {first}; use one "
                "type."
            )


def _kind(arrow_type: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        return "categories"
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return "numbers"
    if types.is_boolean(arrow_type):
        return "numbers"
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return "text"
    return str(arrow_type)


def _pandas_index(table: Any) -> list[str]:
    """Return the columns that hold the row numbers of a pandas frame."""
    try:
        names = (table.schema.pandas_metadata or {}).get("index_columns", [])
        return [name for name in names if isinstance(name, str) and name in table.column_names]
    except (ValueError, AttributeError, TypeError, RecursionError):  # not written by pandas
        return []


def _check_codes(table: Any, name: str, levels: tuple[Any, ...]) -> None:
    """Raise ValueError unless a column holds codes of these levels, or missing values."""
    values = table[name].to_numpy()
    codes = as_floats(
        values, f"column {name!r} must hold the codes of its {len(levels)} categories."
    )
    is_code = (codes >= 0) & (codes < len(levels)) & (codes == np.trunc(codes))
    bad = np.flatnonzero(~(np.isnan(codes) | is_code))
    if len(bad):
        problem = f"{codes[bad[0]]:g} in row {bad[0]}"
    elif len(set(levels)) < len(levels):
        problem = "a category twice"
    else:
        return
    raise ValueError(
        f"column {name!r} holds codes of {len(levels)} categories, from 0 to {len(levels) - 1}, "
        f"and has {problem}; write the file again."
    )


def _with_levels(table: Any, name: str, levels: tuple[Any, ...]) -> Any:
    """Replace the codes in a column of a table by the levels that they stand for."""
    import pyarrow as pa

    values = [None if np.isnan(code) else levels[int(code)] for code in table[name].to_numpy()]
    try:
        column = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        raise ValueError(
            f"column {name!r} has categories of several types, or very large numbers; write the "
            "file with text only."
        ) from None
    return table.set_column(table.column_names.index(name), name, column)


def _plain_ids(qid: NDArray[Any]) -> Any:
    if qid.dtype != object:
        return qid
    kinds = {type(value) for value in qid}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), str | int | bytes):
        raise ValueError(
            "the file needs query ids of one plain type; turn them into numbers or strings first."
        )
    return list(qid)
