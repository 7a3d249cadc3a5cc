"""Tables of comma-separated values, as Arrow reads them, without what it would leave out in silence.

Where a quote is not closed, Arrow takes all that follows as one value, or drops it up to the end of a block of text.
Here a row of empty values is added at the end: it comes back only if every quote is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwright.support.files import PathLike, read_text, require_arrow

_BLOCK = 1 << 20  # bytes; a row has to fit


def read_csv(path: PathLike, delimiter: str, convert: Callable[[Any], Any]) -> Any:
    """Read a table, whose values are converted by Arrow's options that ``convert`` gives for the schema it guessed."""
    require_arrow()
    import pyarrow as pa
    import pyarrow.csv as pc

    content = _in_arrow_memory(read_text(path))
    options = {
        "read_options": pc.ReadOptions(block_size=_BLOCK),
        "parse_options": pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    }
    try:
        with pc.open_csv(pa.BufferReader(content), **options) as reader:
            schema = reader.schema
        content = _in_arrow_memory(content, b"\n" + delimiter.encode() * (len(schema) - 1) + b"\n")
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
    """Copy bytes: Arrow's threads may outlive the call, and crash as they free Python's memory when it exits."""
    import pyarrow as pa

    with pa.BufferOutputStream() as copy:
        for part in parts:
            copy.write(part)
        return copy.getvalue()


def _explain(path: PathLike, content: Any, error: Exception) -> str:
    """Say what is wrong with a file that Arrow cannot read."""
    reason = str(error).split("\n")[0].rstrip(".")
    if "straddl" in reason or (
        "Empty CSV" in reason and content.size > _BLOCK
    ):  # a row is longer than a block
        lengths = enumerate(map(len, bytes(memoryview(content)).split(b"\n")), start=1)
        long = next((number for number, length in lengths if length > _BLOCK), None)
        if long is None:
            return f'{path}: a row has a quote (") that is not closed; close it, or remove it.'
        return (
            f"{path}: line {long} is longer than {_BLOCK} bytes, the most that a row of CSV may have; write the table "
            "as Parquet, or fix that line."
        )
    return f"{path} is not a valid table: {reason}."
