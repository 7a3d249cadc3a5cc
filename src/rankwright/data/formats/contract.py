"""The interface of file formats, `Format`, and rows of files in blocks, for data that is larger than memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import Columns, HasColumns
from rankwright.data.dataset import RankingData
from rankwright.data.queries import Queries
from rankwright.support.files import PathLike

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles

BLOCK_BYTES = 1 << 24  # of the features in a block, as numbers of eight bytes, and of text
LEAST_ROWS = 256

# Options of `read_data` that name a column, which becomes a field with the name of the option.
NAMED_FIELDS = ("docid", "query_text", "time")

Show = Callable[[str, int, int], None]  # purpose of reading, bytes read so far, and bytes in all


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How the columns of a file are used; `rankwright.read_data` has the same parameters."""

    label: str | tuple[str, ...] = "label"
    qid: str = "qid"
    weight: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    docid: str | None = None
    query_text: str | None = None
    time: str | None = None
    zero_based: bool = False
    labelled: bool | None = True
    features: bool = True
    reference: HasColumns | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, the main label first."""
        return (self.label,) if isinstance(self.label, str) else self.label


class RowBlock(NamedTuple):
    """Some rows, grouped by query, with the number of each row among the rows of all files."""

    rows: NDArray[np.int64]
    X: NDArray[np.float64]
    labels: Mapping[str, NDArray[np.float64]]
    queries: Queries  # of the rows in the order of the block
    weights: NDArray[np.float64] | None
    fields: Mapping[str, NDArray[Any]]


class Blocks(Protocol):
    """A reader that yields the rows of files as often as needed."""

    @property
    def columns(self) -> Columns:
        """Columns and categories of the rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def blocks(self, purpose: str) -> Iterator[RowBlock]:
        """Yield all rows, from the first file to the last; ``purpose`` is shown to the user."""


class Format(ABC):
    """A file format of ranking data.

    A format is an instance of a subclass, and an entry in the registry of `rankwright.data.formats`.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    compressible: ClassVar[bool] = False  # a suffix may be followed by .gz
    has_columns: ClassVar[bool] = True  # columns have names
    in_blocks: ClassVar[bool] = True  # `blocks` can read it

    @abstractmethod
    def read(self, path: PathLike, options: ReadOptions) -> RankingData:
        """Read a file; errors name it."""

    @abstractmethod
    def write(self, data: RankingData, path: PathLike) -> None:
        """Write a file, complete or not at all."""

    def blocks(self, files: DataFiles, options: ReadOptions, show: Show) -> Blocks:
        """Return a reader of files, after a first look at all of them."""
        raise ValueError(f"{self.name} cannot be read batch by batch: {files.files[0]}.")

    def bytes_in_memory(self, path: PathLike) -> int:
        """Estimate how much memory the rows of a file take, as numbers of eight bytes.

        A number in text takes about eight bytes too, with its index and a blank.
        """
        size = os.path.getsize(path)
        if os.fspath(path).endswith(".gz"):
            size *= 8  # text of numbers shrinks to about an eighth
        return size


def silent(_purpose: str, _read: int, _all: int) -> None:
    """Show no progress."""


def rows_per_block(n_columns: int) -> int:
    """Return how many rows a block may have."""
    return max(LEAST_ROWS, BLOCK_BYTES // (8 * max(1, n_columns)))


@dataclass(frozen=True, eq=False)
class FilesInBlocks:
    """The part of a reader that is the same for all formats: which files, and that they stay the same.

    Parameters
    ----------
    files
        The files.
    columns
        Columns and categories that all files must have, in this order.
    options
        How the columns are used.
    versions
        Size of each file, and when it was last written, when it was first looked at.
    n_rows
        Number of rows in all files.
    show
        Is called with the bytes read.
    """

    files: DataFiles
    columns: Columns
    options: ReadOptions
    versions: Mapping[str, tuple[int, int]]
    n_rows: int
    show: Show

    def unchanged_files(self) -> Iterator[str]:
        """Yield the files in turn, and raise ValueError if a file has changed since the first look."""
        # A file may change before it is read or while it is read, so it is checked twice.
        for name in self.files.files:
            _check_version(name, self.versions)
            yield name
            _check_version(name, self.versions)


def versions_of(files: DataFiles) -> dict[str, tuple[int, int]]:
    """Return the size of each file, and when it was last written."""
    return {name: _version(name) for name in files.files}


def _version(name: str) -> tuple[int, int]:
    status = os.stat(name)
    return status.st_size, status.st_mtime_ns


def _check_version(name: str, versions: Mapping[str, tuple[int, int]]) -> None:
    if _version(name) != versions[name]:
        raise ValueError(
            f"{name} has changed since it was first read. Start again once all files are complete."
        )
