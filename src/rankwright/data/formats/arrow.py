"""Arrow files, also called Feather (version 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rankwright.data.formats.contract import rows_per_block
from rankwright.data.formats.tables import BinaryTableFormat, Head, arrow_errors, check_names_differ
from rankwright.support.files import PathLike, require_arrow


class Arrow(BinaryTableFormat):
    """Files of Arrow record batches (the IPC file format)."""

    name = "Arrow"
    suffixes = (".arrow", ".feather")

    def head(self, path: PathLike) -> Head:
        """Read the schema of a file, and count its rows."""
        with _opened(path) as file:
            schema = file.schema
        check_names_differ(path, schema.names)
        # The rows are counted by the first column alone.
        n_rows = sum(len(table) for table in self.batches(path, schema.names[:1]))
        return Head(schema, n_rows)

    def read_all(self, path: PathLike) -> Any:
        """Read all rows of a file as a table."""
        with _opened(path) as file:
            table = file.read_all()
            table.validate(full=True)
        return table

    def batches(self, path: PathLike, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of a file as tables of bounded size."""
        import pyarrow as pa

        with _opened(path, columns) as file:
            step = rows_per_block(len(file.schema))
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                # Arrow follows offsets and codes unchecked, so a damaged file could end the process.
                batch.validate(full=True)
                for start in range(0, len(batch), step):
                    rows = pa.Table.from_batches([batch.slice(start, step)])
                    yield rows.replace_schema_metadata(file.schema.metadata)

    def write_table(self, table: Any, file: IO[bytes]) -> None:
        """Write a table to an open file."""
        import pyarrow as pa

        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


@contextmanager
def _opened(path: PathLike, columns: Sequence[str] | None = None) -> Iterator[Any]:
    require_arrow()
    import pyarrow as pa

    with open(path, "rb") as content, arrow_errors(path, "Arrow"):
        file = pa.ipc.open_file(content)
        # Columns that are not needed are not read from the file.
        if columns is not None:
            numbers = [file.schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=numbers)
            file = pa.ipc.open_file(content, options=options)
        yield file


ARROW = Arrow()
