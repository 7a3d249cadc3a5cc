"""Rows of files in blocks of bounded size: what is needed to read data that is larger than memory, again and again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.arrow import table_metadata
from rankwright.data.dataset import RankingData
from rankwright.data.encoding import sorted_levels
from rankwright.data.files import DataFiles, check_column_options, open_parquet, parquet_head
from rankwright.data.letor_parser import check_width, parse_letor
from rankwright.data.matching import Columns, HasColumns, generated_names
from rankwright.data.queries import Queries
from rankwright.data.tables import check_letor_columns
from rankwright.support.files import check_unpacked, require_arrow, unpacked_blocks

BLOCK_BYTES = 1 << 24  # of the features in a block, as numbers of eight bytes, and of text
_BUFFER = 1 << 16  # bytes of a column that are read at a time: each column has a buffer
_LEAST_ROWS = 256
_ROW_BYTES = 64  # about what stays in memory of a row: label, query, hash, number

Show = Callable[[str, int, int], None]  # what is being done, bytes read so far, and bytes in all
Versions = Mapping[str, tuple[int, int]]  # size of each file, and when it was last written


class RowBlock(NamedTuple):
    """Some rows: their numbers among those of all files, and what belongs to each."""

    rows: NDArray[np.int64]
    X: NDArray[np.float64]
    labels: Mapping[str, NDArray[np.float64]]
    queries: Queries  # of the rows in the order of the block
    weights: NDArray[np.float64] | None
    fields: Mapping[str, NDArray[Any]]


def silent(_: str, __: int, ___: int) -> None:
    """Show nothing."""


def _check_version(name: str, versions: Versions) -> None:
    if _version(name) != versions[name]:
        raise ValueError(
            f"{name} has changed since it was first read. Start again once all files are complete."
        )


def _version(name: str) -> tuple[int, int]:
    status = os.stat(name)
    return status.st_size, status.st_mtime_ns


@dataclass(frozen=True, eq=False)
class ParquetBlocks:
    """Rows of Parquet files.

    Parameters
    ----------
    files
        Where they are.
    columns
        Columns and categories that all files must have, in this order.
    labelled
        Whether there are labels to read.
    versions
        What the files were when they were first looked at.
    n_rows
        Number of rows in all files.
    show
        Is called with the bytes read.
    """

    files: DataFiles
    columns: Columns
    labelled: bool
    versions: Versions
    n_rows: int
    show: Show = silent

    @classmethod
    def of(
        cls, files: DataFiles, reference: HasColumns | None, labelled: bool, show: Show
    ) -> ParquetBlocks:
        """Look at the schemas of all files, and find the categories of text columns."""
        require_arrow()
        versions = {name: _version(name) for name in files.files}
        heads = {name: parquet_head(name) for name in files.files}
        schemas = {name: head.schema for name, head in heads.items()}
        first = next(iter(schemas))
        for name, head in heads.items():
            check_unpacked(name, _ROW_BYTES * head.n_rows, "write it as several files")
        n_rows = sum(head.n_rows for head in heads.values())
        if n_rows == 0:
            raise ValueError(
                f"the data is empty: no row is in {first}{' and the others' if len(schemas) > 1 else ''}."
            )
        for name, schema in schemas.items():
            _check_schema(
                name, schema, files, labelled, reference is not None, (first, schemas[first])
            )
        if reference is not None:
            columns = Columns(
                list(reference.feature_names),
                reference.categories,
                reference.named,
                reference.first_index,
            )
            return cls(files, columns, labelled, versions, n_rows, show)
        _, data = next(cls(files, Columns([], {}), labelled, versions, n_rows).parts("", None))
        stored = [_stored_levels(schema) for schema in schemas.values()]
        levels = dict(data.categories)
        for name, known in data.categories.items():
            if known is None:
                continue
            if all(one.get(name) == list(known) for one in stored):
                continue  # codes of levels that all files agree on
            levels[name] = _levels(files.files, name)
        columns = Columns(data.feature_names, levels, data.named, None)
        return cls(files, columns, labelled, versions, n_rows, show)

    def blocks(self, purpose: str) -> Iterator[RowBlock]:
        """Yield all rows, from the first file to the last."""
        for start, data in self.parts(purpose, self.columns):
            order = data.queries.order
            rows = np.arange(start, start + data.n_rows) if order is None else start + order
            fields = {name: data.fields[name] for name in self.files.fields}
            labels = data.labels if self.labelled else {}
            yield RowBlock(rows, data.X, labels, data.queries.grouped(), data.weights, fields)

    def parts(self, purpose: str, reference: Columns | None) -> Iterator[tuple[int, RankingData]]:
        """Yield the number of the first row of each block, and its data."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        total, before, start = self.files.n_bytes, 0, 0
        for name in self.files.files:
            row = 0
            _check_version(name, self.versions)
            try:
                with pq.ParquetFile(name, buffer_size=_BUFFER, pre_buffer=False) as file:
                    n_rows, size = file.metadata.num_rows, os.path.getsize(name)
                    batch_size = max(
                        _LEAST_ROWS, BLOCK_BYTES // (8 * max(1, file.metadata.num_columns))
                    )
                    for batch in file.iter_batches(batch_size):
                        if len(batch) == 0:
                            continue
                        # A file has two copies of its metadata, and batches show the other one.
                        table = pa.Table.from_batches([batch]).replace_schema_metadata(
                            file.schema_arrow.metadata
                        )
                        yield start + row, self._data(table, reference)
                        row += len(batch)
                        self.show(purpose, before + size * row // max(1, n_rows), total)
                        batch = table = None  # else they stay in memory while the next one is read
                    if (
                        row != n_rows
                    ):  # where a column is shorter than the others, the rest is silently left out
                        raise ValueError(
                            f"it says that it has {n_rows} rows; the file is damaged, write it again"
                        )
            except (pa.ArrowException, OSError, ValueError) as error:
                where = f"{name}, rows {row} and after" if row else name
                raise ValueError(f"{where}: {_sentence(error)}") from None
            _check_version(name, self.versions)
            start, before = start + row, before + size
            pa.default_memory_pool().release_unused()  # which would keep what it has freed
        self.show(purpose, total, total)

    def _data(self, table: Any, reference: Columns | None) -> RankingData:
        files, metadata = self.files, table_metadata(table)
        label: Any = files.label if isinstance(files.label, str) else list(files.label)
        if label == "label" and label not in table.column_names and metadata.get("labels"):
            label = list(metadata["labels"])
        drop = (
            list(files.drop)
            if reference is None
            else [name for name in files.drop if name in table.column_names]
        )
        if not self.labelled:
            drop += [
                name
                for name in ([label] if isinstance(label, str) else label)
                if name in table.column_names
            ]
            label = None
        present = table.column_names
        return RankingData.from_arrow(
            table,
            label=label,
            qid=files.qid,
            weight=files.weight,
            drop=drop,
            categorical=[
                name for name in files.categorical if reference is None or name in present
            ],
            fields=files.fields,
            reference=reference,
        )


def _check_schema(
    name: str,
    schema: Any,
    files: DataFiles,
    labelled: bool,
    reference: bool,
    first: tuple[str, Any],
) -> None:
    """Raise ValueError, naming the file, where a column is missing, or is not that of the first file."""
    metadata = (schema.metadata or {}).get(b"rankwright", b"")
    required = [
        ("qid", files.qid),
        ("weight", files.weight),
        *(("fields", field) for field in files.fields),
    ]
    if labelled and not (files.label == "label" and b'"labels"' in metadata):
        required += [("label", label) for label in files.labels]
    if not reference:  # other data may lack columns that are not looked at
        required += [
            (option, one) for option in ("drop", "categorical") for one in getattr(files, option)
        ]
    columns = set(schema.names)
    for option, column in required:
        if column is not None and column not in columns:
            shown = ", ".join(schema.names[:8]) + (", ..." if len(schema.names) > 8 else "")
            raise ValueError(f"{name} has no column {column!r} ({option}); it has {shown}.")
    missing, other = sorted(set(first[1].names) - columns), sorted(columns - set(first[1].names))
    if missing or other:
        text = f"it has no {missing[0]!r}" if missing else f"it has {other[0]!r} beside them"
        raise ValueError(
            f"{name} does not have the columns of {first[0]}: {text}. Write all files with the same."
        )
    for column in schema.names:
        ours, theirs = (_kind(one.field(column).type) for one in (schema, first[1]))
        if ours != theirs:
            raise ValueError(
                f"{name}: column {column!r} holds {ours}, but {theirs} in {first[0]}; use one type."
            )


def _kind(kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return "categories"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return "numbers"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def _stored_levels(schema: Any) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = table_metadata(schema.empty_table()).get("categories", {})
        return stored
    except ValueError:  # the first block says so, with the name of its file
        return {}


def _levels(files: list[str], column: str) -> tuple[Any, ...]:
    """All values of a categorical column; those of codes that a file explains are what it says."""
    found: set[Any] = set()
    for name in files:
        stored = _stored_levels(parquet_head(name).schema).get(column)
        if stored is not None:
            found |= set(stored)
            continue
        with open_parquet(name) as file:
            for batch in file.iter_batches(columns=[column]):
                found |= set(batch.column(0).unique().to_pylist())
    found -= {None}
    return sorted_levels({value for value in found if value == value}, column)


@dataclass(frozen=True, eq=False)
class LetorBlocks:
    """Rows of LETOR text, plain or gzip; the parameters are those of `ParquetBlocks`.

    With ``text_ids`` query ids are text, because not all of the data are whole numbers.
    """

    files: DataFiles
    columns: Columns
    labelled: bool
    versions: Versions
    n_rows: int
    text_ids: bool
    show: Show = silent

    @classmethod
    def of(
        cls, files: DataFiles, reference: HasColumns | None, labelled: bool, show: Show
    ) -> LetorBlocks:
        """Read all of the text once, for the number of features and the type of the query ids."""
        if len(files.labels) > 1 or files.fields:
            name = files.fields[0] if files.fields else files.labels[1]
            raise ValueError(
                f"{files.files[0]} is LETOR text, which has no column {name!r}; give Parquet."
            )
        first_index = 0 if files.zero_based else 1
        n_rows = width = entries = 0
        text_ids = False
        versions = {name: _version(name) for name in files.files}
        unsettled = cls(files, Columns([], {}), labelled, versions, 0, False, show)
        for text, source, line in unsettled._texts("columns"):
            options: dict[str, Any] = {
                "source": source,
                "zero_based": files.zero_based,
                "first_line": line,
            }
            X, _, ids = parse_letor(
                text, **options, sparse=True
            )  # takes memory for what is there alone
            text_ids |= ids.dtype.kind not in "iu"
            n_rows, width, entries = n_rows + X.shape[0], max(width, X.shape[1]), entries + X.nnz
        if n_rows == 0:
            raise ValueError(
                f"{files.files[0]} has no rows; expected lines of the form 'label qid:ID index:value'."
            )
        if reference is not None:
            check_letor_columns(width, files.files[0], first_index, reference)
            columns = Columns(
                list(reference.feature_names),
                reference.categories,
                reference.named,
                reference.first_index,
            )
            return cls(files, columns, labelled, versions, n_rows, text_ids, show)
        if width == 0:
            raise ValueError(f"{files.files[0]}: no row has a feature, so their number is unknown.")
        check_width(files.files[0], n_rows, width, entries)
        names = generated_names(width, first_index)
        columns = Columns(names, {}, False, first_index)
        return cls(files, columns, labelled, versions, n_rows, text_ids, show)

    def blocks(self, purpose: str) -> Iterator[RowBlock]:
        """Yield all rows, from the first file to the last."""
        start, width = 0, len(self.columns.feature_names)
        for text, source, line in self._texts(
            purpose, max(_LEAST_ROWS, BLOCK_BYTES // (8 * width))
        ):
            X, y, ids = parse_letor(
                text,
                source=source,
                zero_based=self.files.zero_based,
                n_features=width,
                text_ids=self.text_ids,
                first_line=line,
            )
            queries, rows = Queries.from_qid(ids), np.arange(start, start + len(y))
            if queries.order is not None:
                X, y, rows, queries = (
                    X[queries.order],
                    y[queries.order],
                    rows[queries.order],
                    queries.grouped(),
                )
            yield RowBlock(rows, X, {"label": y} if self.labelled else {}, queries, None, {})
            start += len(y)

    def _texts(self, purpose: str, most: int | None = None) -> Iterator[tuple[bytes, str, int]]:
        """Yield whole lines, at most so many at once, with the name of their file and the number of the first one."""
        total, before = self.files.n_bytes, 0
        for name in self.files.files:
            _check_version(name, self.versions)
            rest, line = b"", 1
            for block, read in unpacked_blocks(name, BLOCK_BYTES):
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
            _check_version(name, self.versions)
            before += os.path.getsize(name)
        self.show(purpose, total, total)


def _pieces(text: bytes, most: int | None) -> Iterator[bytes]:
    """Cut text into pieces of at most so many lines: rows of few entries take far more memory than their text."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    if most is None or len(ends) <= most:
        yield text
        return
    cuts = [0, *ends[most - 1 : -1 : most].tolist(), len(text)]
    for start, stop in pairwise(cuts):
        yield text[start:stop]


def _sentence(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".") + "."


def blocks_of(
    files: DataFiles, reference: HasColumns | None, labelled: bool, show: Show
) -> ParquetBlocks | LetorBlocks:
    """Return the reader of files, by their format."""
    if reference is None:
        check_column_options(files.files[0], vars(files))
    return (LetorBlocks if files.is_letor else ParquetBlocks).of(files, reference, labelled, show)
