"""The file formats of ranking data: the extension of a file gives its format.

A new format is a file with a subclass of `Format`, and an entry in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwright.data.columns import HasColumns
from rankwright.data.formats.arrow import ARROW
from rankwright.data.formats.contract import NAMED_FIELDS, Blocks, Format, ReadOptions, Show
from rankwright.data.formats.csv import CSV, TSV
from rankwright.data.formats.letor import LETOR
from rankwright.data.formats.parquet import PARQUET
from rankwright.data.formats.tables import TableFormat
from rankwright.support.checks import ArgumentError
from rankwright.support.files import PathLike

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles

# A folder is searched for the formats in this order.
FORMATS: tuple[Format, ...] = (PARQUET, ARROW, CSV, TSV, LETOR)
TABLE_SUFFIXES = [suffix for table in FORMATS if table.has_columns for suffix in table.suffixes]


def format_of(path: PathLike) -> Format:
    """Return the format of a file by its extension; raise ValueError if no format has it.

    Examples
    --------
    >>> format_of("train.csv.gz").name
    'CSV'
    """
    name = Path(path)
    # The extension before .gz gives the format of the text.
    is_compressed = name.suffix == ".gz"
    suffix = name.suffix
    if is_compressed:
        suffix = Path(name.stem).suffix
    for file_format in FORMATS:
        if suffix in file_format.suffixes and (file_format.compressible or not is_compressed):
            return file_format
    choices = [f"{', '.join(choice.suffixes)} ({choice.name})" for choice in FORMATS]
    raise ValueError(
        f"{os.fspath(path)!r} has no known file extension; use {', '.join(choices)}. Text may also "
        "end in .gz."
    )


def table_format_of(path: PathLike) -> TableFormat:
    """Return the format of a file with named columns; raise ValueError for other files."""
    file_format = format_of(path)
    if not isinstance(file_format, TableFormat):
        raise ValueError(
            f"{os.fspath(path)!r} is {file_format.name}, which has no named columns; the name must "
            f"end in {', '.join(TABLE_SUFFIXES)}."
        )
    return file_format


def blocks_of(files: DataFiles, reference: HasColumns | None, labelled: bool, show: Show) -> Blocks:
    """Return a reader of files that yields blocks of rows, after a first look at all files.

    Parameters
    ----------
    files
        The files, and names of their columns.
    reference
        Data or a model with the columns that the files must have.
    labelled
        Whether there are labels to read.
    show
        Is called with the purpose of reading, the bytes read so far, and the bytes in all.
    """
    if reference is None:
        check_column_options(files.files[0], vars(files))
    options = replace(files, labelled=labelled, reference=reference)
    return files.format.blocks(files, options, show)


def check_column_options(path: PathLike, given: Mapping[str, Any]) -> None:
    """Raise ValueError if options of `read_data` do not apply to a file, for example names of columns for LETOR text.

    Examples
    --------
    >>> check_column_options("a.txt", {"qid": "query"})
    Traceback (most recent call last):
    rankwright.support.checks.ArgumentError: qid is for named columns, ...
    """
    file_format = format_of(path)
    if file_format.has_columns:
        if given.get("zero_based"):
            raise ArgumentError(
                "zero_based",
                f"is about the indices of LETOR text, and {path} is another format; leave it out.",
            )
        return
    # Options with their usual values were not given, so they are no mistake.
    usual = ReadOptions()
    for option in ("label", "qid", "weight", "drop", "categorical", "fields", *NAMED_FIELDS):
        value = given.get(option)
        if value and value != getattr(usual, option):
            raise ArgumentError(
                option,
                f"is for named columns, and the columns of {file_format.name} such as {path} have "
                "no names; give Parquet or CSV.",
            )
