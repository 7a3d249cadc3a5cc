"""Files of ranking data that are read batch by batch: which there are, and names of their columns."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankwright.data.formats import FORMATS, format_of
from rankwright.data.formats.contract import Format, ReadOptions
from rankwright.data.formats.tables import BinaryTableFormat
from rankwright.support.files import PathLike

_FOOTER = 65_536  # bytes at the end of a file, which describe its content


def check_columns_of_files(
    y: Any, qid: Any, weights: Any, group: Any = None, fields: Sequence[Any] = ()
) -> None:
    """Raise ValueError if arguments of ``fit`` beside files are not names of columns.

    Examples
    --------
    >>> check_columns_of_files(["relevance", "margin"], [1, 1], None)
    Traceback (most recent call last):
    ValueError: X names files, so qid must be names of their columns, not arrays.
    """
    if group is not None:
        raise ValueError(
            "X names files, whose column of query ids says what belongs together; leave out group."
        )
    # Arrays would have to be in the order of rows in the files, which is not known in
    # advance.
    given = {
        "y": y if isinstance(y, list | tuple) else [y],
        "qid": [qid],
        "sample_weight": [weights],
        "position, propensity, time, base_score and document": fields,
    }
    for name, values in given.items():
        for value in values:
            if value is not None and not isinstance(value, str):
                raise ValueError(
                    f"X names files, so {name} must be names of their columns, not arrays."
                )


@dataclass(frozen=True)
class DataFiles(ReadOptions):
    """Files that are read batch by batch, here or by the workers of a cluster.

    Parameters
    ----------
    path
        A folder, with files at any depth, a file, a pattern such as ``data/*.parquet``, or several of
        them.
    label, qid, weight
        Names of columns. Without ``weight``, weights are read only from files that
        `rankwright.write_data` wrote.
    categorical, drop, fields
        Columns that hold categories, columns to ignore, and columns that travel with the rows without
        being features.
    zero_based
        Whether the first feature of LETOR text has index 0.
    """

    path: str | tuple[str, ...]

    @classmethod
    def of(cls, path: Any, **options: Any) -> DataFiles:
        """Read paths and lists of names as a user gives them; options that are None are left out.

        Examples
        --------
        >>> DataFiles.of(["a.parquet", "b.parquet"], label="grade", drop=["url"]).drop
        ('url',)
        """
        paths: str | tuple[str, ...]
        if isinstance(path, Sequence) and not isinstance(path, str):
            paths = tuple(os.fspath(item) for item in path)
        else:
            paths = os.fspath(path)
        given: dict[str, Any] = {}
        for name, value in options.items():
            if isinstance(value, list):
                value = tuple(value)
            if value is not None:
                given[name] = value
        return cls(paths, **given)

    @cached_property
    def files(self) -> list[str]:
        """Absolute paths, sorted for each pattern; there is a file, and all have the same format."""
        # Paths are absolute, because workers of a cluster may run in another folder.
        patterns = (self.path,) if isinstance(self.path, str) else self.path
        names = [os.path.abspath(name) for pattern in patterns for name in _matches(pattern)]
        # Every path is checked before the first file is read, because reading may take
        # long.
        if not names:
            raise ValueError(
                "there is no file to read: the list of paths is empty; give at least one."
            )
        for name in names:
            if not os.path.isfile(name):
                raise ValueError(
                    f"{name} is not a plain file but a pipe, a device or a folder; it is not read."
                )
            if not format_of(name).in_blocks:
                raise ValueError(
                    f"{name} cannot be read batch by batch: Parquet, Arrow and LETOR text can. Write it "
                    "as Parquet, or hold it in memory with read_data(path)."
                )
        first = names[0]
        for name in names[1:]:
            if format_of(name) is not format_of(first):
                raise ValueError(
                    f"{name} is {format_of(name).name} and {first} is not; give files of one "
                    "format."
                )
        return names

    @property
    def format(self) -> Format:
        """Format of the files."""
        return format_of(self.files[0])

    @property
    def one_weight_per_query(self) -> bool:
        """Whether there are no weights, which might differ within a query."""
        return self.weight is None

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(os.path.getsize(name) for name in self.files)

    def description(self) -> dict[str, Any]:
        """Return rows, columns and a fingerprint, by the descriptions that the files contain."""
        # The footer describes the rows, so size and footer identify a file without
        # reading all of it.
        digest = hashlib.blake2b(repr(self).encode(), digest_size=16)
        n_rows = 0
        names: set[str] = set()
        for file in self.files:
            file_format = format_of(file)
            assert isinstance(file_format, BinaryTableFormat)  # workers read no other files
            head = file_format.head(file)
            n_rows += head.n_rows
            names |= set(head.schema.names)
            with open(file, "rb") as content:
                size = content.seek(0, os.SEEK_END)
                content.seek(max(0, size - _FOOTER))
                digest.update(repr((os.path.basename(file), size)).encode() + content.read())
        features = names - {*self.labels, self.qid, self.weight, *self.drop, *self.fields}
        return {
            "rows": n_rows,
            "files": len(self.files),
            "features": len(features),
            "fingerprint": digest.hexdigest(),
        }


def rows_in_memory(path: PathLike) -> int:
    """Estimate the bytes of a file's rows as numbers of eight bytes each; 0 if the file cannot be looked at.

    Examples
    --------
    >>> rows_in_memory("there is no such file.parquet")
    0
    """
    try:
        return format_of(path).bytes_in_memory(path)
    except (OSError, ValueError):  # reading the file will raise the error with its reason
        return 0


def _matches(pattern: str) -> list[str]:
    """Return the files of a folder, at any depth, or of a pattern, sorted."""
    found: list[str] = []
    if os.path.isdir(pattern):
        everything = os.path.join(glob.escape(pattern), "**", "*")
        inside = sorted(
            name for name in glob.glob(everything, recursive=True) if os.path.isfile(name)
        )
        # A folder may hold other files too, so only the first format that occurs in it is
        # read.
        for file_format in FORMATS:
            if file_format.in_blocks and not found:
                found = [
                    name
                    for name in inside
                    if name.removesuffix(".gz").endswith(file_format.suffixes)
                ]
    else:
        found = sorted(glob.glob(pattern))
        if not found and os.path.isfile(pattern):  # a name with characters of a pattern
            found = [pattern]
    if not found:
        raise ValueError(
            f"there is no Parquet file and no LETOR text at {pattern}; give a folder, a file or a "
            "pattern such as data/*.parquet."
        )
    return found
