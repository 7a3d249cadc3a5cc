"""Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rankwright.data.formats.contract import rows_per_block
from rankwright.data.formats.tables import BinaryTableFormat, Head, arrow_errors, check_names_differ
from rankwright.support.files import PathLike, require_arrow

_BUFFER = 1 << 16  # bytes of a column that are read at a time: each column has a buffer


class Parquet(BinaryTableFormat):
    """Parquet files."""

    name = "Parquet"
    suffixes = (".parquet", ".pq")

    def head(self, path: PathLike) -> Head:
        """Read the footer of a file."""
        with open(path, "rb") as content, _opened(path, content) as file:
            head = Head(file.schema_arrow, file.metadata.num_rows)
        check_names_differ(path, head.schema.names)
        return head

    def read_all(self, path: PathLike) -> Any:
        """Read all rows of a file as a table."""
        with open(path, "rb") as content, _opened(path, content) as file:
            return file.read().replace_schema_metadata(file.schema_arrow.metadata)

    def batches(self, path: PathLike, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of a file as tables of bounded size."""
        import pyarrow as pa

        # Arrow reads a file that it opened itself without waiting for Python's lock.
        source = os.fspath(path)
        with _opened(path, source, buffer_size=_BUFFER, pre_buffer=False) as file:
            n_rows = rows_per_block(file.metadata.num_columns)
            # A file has two copies of its metadata, and batches have the other copy.
            metadata = file.schema_arrow.metadata
            for batch in file.iter_batches(n_rows, columns=columns):
                yield pa.Table.from_batches([batch]).replace_schema_metadata(metadata)
                del batch  # it would stay in memory while the next batch is read

    def write_table(self, table: Any, file: IO[bytes]) -> None:
        """Write a table to an open file."""
        import pyarrow.parquet as pq

        pq.write_table(table, file)


@contextmanager
def _opened(path: PathLike, source: Any, **options: Any) -> Iterator[Any]:
    require_arrow()
    import pyarrow.parquet as pq

    with arrow_errors(path, "Parquet"), pq.ParquetFile(source, **options) as file:
        yield file


PARQUET = Parquet()
