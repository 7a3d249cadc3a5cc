"""Files of ranking data: which there are, and in which format; the file extension gives it."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rankwright.support.files import PathLike, check_unpacked, require_arrow

LETOR = (".txt", ".letor", ".svm", ".svmlight", ".dat")
PARQUET = (".parquet", ".pq")
CSV = {".csv": ",", ".tsv": "\t"}
_FOOTER = 65_536  # bytes at the end of a file, which describe its content


def extension_of(path: PathLike) -> str:
    """Return the extension of a file, without that of compression; raise ValueError where it is not a known one."""
    name = Path(path)
    compressed = name.suffix == ".gz"
    extension = Path(name.stem).suffix if compressed else name.suffix
    if extension in LETOR or extension in CSV or (extension in PARQUET and not compressed):
        return extension
    raise ValueError(
        f"{os.fspath(path)!r} has no known file extension; use {', '.join(LETOR)} (LETOR), .csv, .tsv (both also "
        "with .gz) or .parquet."
    )


class ParquetHead(NamedTuple):
    """What a Parquet file says of itself."""

    schema: Any
    n_rows: int


def parquet_head(path: PathLike) -> ParquetHead:
    """Look at a Parquet file without reading its rows; one that is damaged is a ValueError that names it."""
    with open_parquet(path) as file:
        head = ParquetHead(file.schema_arrow, file.metadata.num_rows)
    for name, times in Counter(head.schema.names).items():
        if times > 1:
            raise ValueError(f"{path} has two columns named {name!r}; give each its own name.")
    return head


def read_parquet(path: PathLike) -> Any:
    """Read a Parquet file as an Arrow table; one that is damaged, or was made to harm, is a ValueError that names it.

    Text that is stored once for many rows can still take far more memory than the file.
    """
    head = parquet_head(path)
    check_unpacked(path, 8 * head.n_rows * len(head.schema), "read it in blocks: stream_data(path)")
    with open_parquet(path) as file:
        # A file has two copies of its metadata, and what is read shows the other one.
        table = file.read().replace_schema_metadata(file.schema_arrow.metadata)
    if len(table) != head.n_rows:
        raise ValueError(
            f"{path} says that it has {head.n_rows} rows, and {len(table)} can be read. Write it again."
        )
    return table


@contextmanager
def open_parquet(path: PathLike) -> Iterator[Any]:
    """Open a Parquet file; what turns out to be damaged while it is open is a ValueError that names it."""
    require_arrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(path, "rb") as content:
        try:
            yield pq.ParquetFile(content)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise ValueError(
                f"{path} is not a valid Parquet file: {reason}. Write it again."
            ) from None


def check_columns_of_files(
    y: Any, qid: Any, weights: Any, group: Any = None, fields: Sequence[Any] = ()
) -> None:
    """Raise ValueError where arguments of ``fit`` beside files are not names of columns; there may be several labels.

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
    given = {
        "y": y if isinstance(y, list | tuple) else [y],
        "qid": [qid],
        "sample_weight": [weights],
    }
    for name, values in {**given, "position, propensity and document": fields}.items():
        if any(value is not None and not isinstance(value, str) for value in values):
            raise ValueError(
                f"X names files, so {name} must be names of their columns, not arrays."
            )


def check_column_options(path: PathLike, given: Mapping[str, Any]) -> None:
    """Raise ValueError where options of `read_data` mean nothing for a file: names of columns for LETOR text.

    Examples
    --------
    >>> check_column_options("a.txt", {"qid": "query"})
    Traceback (most recent call last):
    ValueError: a.txt is LETOR text, whose columns have no names, so qid= applies to none; give Parquet or CSV.
    """
    if extension_of(path) not in LETOR:
        if given.get("zero_based"):
            raise ValueError(
                f"{path} is not LETOR text, whose indices zero_based= is about; leave it out."
            )
        return
    usual = {"label": "label", "qid": "qid"}
    for option in (
        "label",
        "qid",
        "weight",
        "drop",
        "categorical",
        "fields",
        "docid",
        "query_text",
    ):
        if given.get(option) and given[option] != usual.get(option):
            raise ValueError(
                f"{path} is LETOR text, whose columns have no names, so {option}= applies to none; give Parquet or CSV."
            )


@dataclass(frozen=True)
class DataFiles:
    """Parquet files or LETOR text that are read batch by batch, here or by the workers of a cluster.

    Parameters
    ----------
    path
        A folder, whose files are found at any depth, a file, a pattern such as ``data/*.parquet``, or several of them.
    label, qid, weight
        Names of columns. Without ``weight``, weights are read only from files that `RankingData.to_parquet` wrote.
    categorical, drop, fields
        Columns that hold categories, columns to ignore, and columns that travel with the rows without being features.
    zero_based
        Whether the first feature of LETOR text has index 0.
    """

    path: str | tuple[str, ...]
    label: str | tuple[str, ...] = "label"
    qid: str = "qid"
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    zero_based: bool = False

    @classmethod
    def of(cls, path: Any, **options: Any) -> DataFiles:
        """Read paths and lists of names as a user gives them; options that are None are left out.

        Examples
        --------
        >>> DataFiles.of(["a.parquet", "b.parquet"], label="grade", drop=["url"]).drop
        ('url',)
        """
        several = isinstance(path, Sequence) and not isinstance(path, str)
        paths = tuple(os.fspath(one) for one in path) if several else os.fspath(path)
        chosen: dict[str, Any] = {
            name: value for name, value in options.items() if value is not None
        }
        chosen |= {name: tuple(value) for name, value in chosen.items() if isinstance(value, list)}
        return cls(paths, **chosen)

    @cached_property
    def files(self) -> list[str]:
        """Absolute paths, those of each pattern ascending; at least one, all of one format."""
        patterns = (self.path,) if isinstance(self.path, str) else self.path
        names = [os.path.abspath(name) for pattern in patterns for name in _matches(pattern)]
        for name in names:
            if not os.path.isfile(name):
                raise ValueError(
                    f"{name} is not a plain file but a pipe, a device or a folder; it is not read."
                )
        if not names:
            raise ValueError(
                "there is no file to read: the list of paths is empty; give at least one."
            )
        kinds = {extension_of(name) in LETOR: name for name in reversed(names)}
        for name in names:
            if extension_of(name) in CSV:
                raise ValueError(
                    f"{name} cannot be read batch by batch: Parquet and LETOR text can. Write it as Parquet, or hold "
                    "it in memory with read_data(path)."
                )
        if len(kinds) > 1:
            raise ValueError(
                f"{kinds[True]} is LETOR text and {kinds[False]} is not; give files of one format."
            )
        return names

    @property
    def is_letor(self) -> bool:
        """Whether the files are LETOR text."""
        return extension_of(self.files[0]) in LETOR

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels."""
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def one_weight_per_query(self) -> bool:
        """Whether there are no weights, which might differ within a query."""
        return self.weight is None

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(os.path.getsize(name) for name in self.files)

    def description(self) -> dict[str, Any]:
        """Rows, columns and a fingerprint, from what Parquet files say of themselves at their ends."""
        rows, digest = 0, hashlib.blake2b(repr(self).encode(), digest_size=16)
        names: set[str] = set()
        for file in self.files:
            head = parquet_head(file)
            rows += head.n_rows
            names |= set(head.schema.names)
            with open(file, "rb") as content:
                size = content.seek(0, os.SEEK_END)
                content.seek(max(0, size - _FOOTER))
                digest.update(repr((os.path.basename(file), size)).encode() + content.read())
        features = len(names - {*self.labels, self.qid, self.weight, *self.drop})
        return {
            "rows": rows,
            "files": len(self.files),
            "features": features,
            "fingerprint": digest.hexdigest(),
        }


def is_path(X: Any) -> bool:
    """Tell whether data is given as files: a path, a pattern, or a list of them."""
    several = (
        isinstance(X, list | tuple)
        and len(X) > 0
        and all(isinstance(one, str | os.PathLike) for one in X)
    )
    return several or isinstance(X, str | os.PathLike)


def rows_in_memory(path: PathLike) -> int:
    """About the bytes of a file's rows as numbers of eight bytes each; 0 if the file cannot be looked at.

    Examples
    --------
    >>> rows_in_memory("there is no such file.parquet")
    0
    """
    try:
        extension = extension_of(path)
        if extension in PARQUET:
            head = parquet_head(path)
            return 8 * head.n_rows * len(head.schema)
        packed = 8 if Path(path).suffix == ".gz" else 1
        return packed * os.path.getsize(
            path
        )  # of a number in text, with its index and a blank: about eight bytes
    except (OSError, ValueError):  # whoever reads the file says what is wrong with it
        return 0


def _matches(pattern: str) -> list[str]:
    """Files of a folder, at any depth, or of a pattern, ascending."""
    if os.path.isdir(pattern):
        inside = sorted(glob.glob(os.path.join(glob.escape(pattern), "**", "*"), recursive=True))
        for known in (PARQUET, LETOR):
            matching = [
                name
                for name in inside
                if name.removesuffix(".gz").endswith(known) and os.path.isfile(name)
            ]
            if matching:
                return matching
    elif matching := sorted(glob.glob(pattern)) or ([pattern] if os.path.isfile(pattern) else []):
        return matching
    raise ValueError(
        f"there is no Parquet file and no LETOR text at {pattern}; give a folder, a file or a pattern such as "
        "data/*.parquet."
    )
