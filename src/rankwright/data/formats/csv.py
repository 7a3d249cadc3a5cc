"""Text files with a table: a header, then a line for each row with commas or tabs between the values.

If a quote is not closed, Arrow takes all that follows as a single value, or drops it up to the end of a
block of text. Therefore a row of empty values is added at the end of the text: it comes back only if
every quote is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import IO, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.formats.tables import TableFormat, check_names_differ, columns_beside_features
from rankwright.support.files import PathLike, read_text, require_arrow

_BLOCK = 1 << 20  # bytes; a row has to fit
# In older versions of Arrow, threads may wait for each other forever after a file that is not valid.
_FIRST_WITH_SAFE_THREADS = 23
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class Csv(TableFormat):
    """Comma-separated values. An empty field, ``NA`` or ``nan`` is missing."""

    name = "CSV"
    suffixes = (".csv",)
    compressible = True
    in_blocks = False
    separator: ClassVar[str] = ","

    def read_table(self, path: PathLike, qid: str | None = None, texts: Sequence[str] = ()) -> Any:
        """Read a file: query ids as text or whole numbers, all other numbers as float64."""
        require_arrow()
        import pyarrow as pa
        import pyarrow.csv as pc

        def convert(schema: Any) -> Any:
            # Arrow guesses types. Whole numbers become floats, because a missing
            # value has no integer.
            types = {}
            for field in schema:
                if pa.types.is_integer(field.type) or pa.types.is_null(field.type):
                    types[field.name] = pa.float64()
            for name in (qid, *texts):
                if name in schema.names:
                    types[name] = pa.string()
            # A quoted field is text even if it is NA or empty. Without quotes these are missing values.
            return pc.ConvertOptions(
                column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
            )

        table = _read(path, self.separator, convert)
        check_names_differ(path, table.column_names)
        for field in table.schema:
            if pa.types.is_binary(field.type):
                raise ValueError(
                    f"{path}: column {field.name!r} has text that is not UTF-8; save the file as "
                    "UTF-8."
                )
        # Query ids are read as text first, because a guess from the first rows could be
        # wrong.
        if qid in table.column_names:
            ids = table[qid].to_pylist()
            if all(text is not None and _INTEGER.fullmatch(text) for text in ids):
                numbers = pa.array([int(text) for text in ids], pa.int64())
                table = table.set_column(table.column_names.index(qid), qid, numbers)
        return table

    def write_table(self, table: Any, file: IO[bytes]) -> None:
        """Write a table to an open file."""
        import pyarrow.csv as pc

        pc.write_csv(table, file, pc.WriteOptions(delimiter=self.separator))

    def table_of_data(self, data: RankingData) -> Any:
        """Return a table with missing values as null, and categories as text."""
        import pyarrow as pa

        ids: Any = data.qid
        # Ids of any other type are written as text, so they must differ as text.
        if ids.dtype.kind not in "iu":
            if len({str(qid) for qid in data.query_ids.tolist()}) < data.n_queries:
                raise ValueError(
                    "two query ids are the same once written as text; give them ids that differ "
                    "as text."
                )
            ids = [str(qid) for qid in ids.tolist()]
        columns = columns_beside_features(data, ids)
        for number, name in enumerate(data.feature_names):
            values = data.X[:, number]
            if sp.issparse(values):
                values = values.toarray().ravel()
            columns[name] = _column(values, data.categories.get(name))
        return pa.table(columns)


class Tsv(Csv):
    """Tab-separated values."""

    name = "TSV"
    suffixes = (".tsv",)
    separator = "\t"


def _column(values: NDArray[Any], levels: tuple[Any, ...] | None) -> Any:
    """Return an Arrow column: missing values as null, codes as the text of their levels."""
    import pyarrow as pa

    if levels is None:
        return pa.array(values.astype(np.float64), mask=np.isnan(values))
    return pa.array([None if np.isnan(code) else str(levels[int(code)]) for code in values])


def _read(path: PathLike, separator: str, convert: Callable[[Any], Any]) -> Any:
    """Read a table with the conversions that ``convert`` chooses for the schema that Arrow guesses."""
    import pyarrow as pa
    import pyarrow.csv as pc

    content = _in_arrow_memory(read_text(path))
    threads = int(pa.__version__.partition(".")[0]) >= _FIRST_WITH_SAFE_THREADS
    options = {
        "read_options": pc.ReadOptions(block_size=_BLOCK, use_threads=threads),
        "parse_options": pc.ParseOptions(delimiter=separator, newlines_in_values=True),
    }
    try:
        # The header and first rows give the schema, which decides how columns are
        # converted.
        with pc.open_csv(pa.BufferReader(content), **options) as reader:
            schema = reader.schema
        empty_row = b"\n" + separator.encode() * (len(schema) - 1) + b"\n"
        content = _in_arrow_memory(content, empty_row)
        table = pc.read_csv(pa.BufferReader(content), convert_options=convert(schema), **options)
    except pa.ArrowException as error:
        raise ValueError(_explain(path, content, error)) from None
    except UnicodeDecodeError:
        raise ValueError(
            f"{path}: the name of a column is not UTF-8; save the file as UTF-8."
        ) from None
    if len(schema) == 1:  # an empty line is not a row
        return table
    if any(column[-1].as_py() not in (None, "") for column in table.columns):
        raise ValueError(
            f'{path}: row {len(table)} has a quote (") that is not closed; close it, or remove it.'
        )
    return table.slice(0, len(table) - 1)


def _in_arrow_memory(*parts: Any) -> Any:
    """Copy bytes, because Arrow's threads may outlive the call and crash as they free Python's memory at exit."""
    import pyarrow as pa

    with pa.BufferOutputStream() as copy:
        for part in parts:
            copy.write(part)
        return copy.getvalue()


def _explain(path: PathLike, content: Any, error: Exception) -> str:
    """Explain why Arrow cannot read a file."""
    # Arrow's message about blocks does not help. Usually a quote is open, or a line is too
    # long.
    reason = str(error).split("\n")[0].rstrip(".")
    no_block_ends = "Empty CSV" in reason and content.size > _BLOCK
    if "straddl" not in reason and not no_block_ends:
        return f"{path} is not a valid table: {reason}."
    # A row is longer than a block.
    for number, line in enumerate(bytes(memoryview(content)).split(b"\n"), start=1):
        if len(line) > _BLOCK:
            return (
                f"{path}: line {number} is longer than {_BLOCK} bytes, the most that a row of CSV "
                "may have; write the table as Parquet, or fix that line."
            )
    return f'{path}: a row has a quote (") that is not closed; close it, or remove it.'


CSV = Csv()
TSV = Tsv()
