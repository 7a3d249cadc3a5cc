"""Parquet files as training data that only the workers read."""

from __future__ import annotations

import glob
import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_FOOTER = 65_536  # bytes at the end of a file, which describe its content


@dataclass(frozen=True)
class ParquetFiles:
    """A folder or pattern of Parquet files, for a fit on a cluster.

    Parameters
    ----------
    path
        A folder, whose files are found at any depth, a file, or a pattern such as ``data/*.parquet``.
    label, qid, weight
        Names of columns. Without ``weight``, weights are read only from files that `RankingData.to_parquet` wrote.
    categorical, drop
        Columns that hold categories, and columns to ignore.
    """

    path: str
    label: str = "label"
    qid: str = "qid"
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @cached_property
    def files(self) -> list[str]:
        """Absolute paths, ascending; at least one."""
        inside = os.path.join(glob.escape(self.path), "**", "*.parquet")
        found = sorted(glob.glob(inside, recursive=True) if os.path.isdir(self.path) else glob.glob(self.path))
        if not found:
            raise ValueError(
                f"there is no Parquet file at {self.path}; give a folder, a file or a pattern such as data/*.parquet."
            )
        return [os.path.abspath(name) for name in found]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels."""
        return (self.label,)

    @property
    def one_weight_per_query(self) -> bool:
        """Whether there are no weights, which might differ within a query."""
        return self.weight is None

    def description(self) -> dict[str, Any]:
        """Rows, columns and a fingerprint, from what the files say of themselves at their ends."""
        import pyarrow.parquet as pq

        rows, digest = 0, hashlib.blake2b(repr(self).encode(), digest_size=16)
        names: set[str] = set()
        for file in self.files:
            try:
                rows += pq.read_metadata(file).num_rows
                names |= set(pq.read_schema(file).names)
            except Exception as error:  # whatever a damaged file leads to
                raise ValueError(f"{file} is not a Parquet file, or it is damaged: {error}") from None
            with open(file, "rb") as content:
                size = content.seek(0, os.SEEK_END)
                content.seek(max(0, size - _FOOTER))
                digest.update(repr((os.path.basename(file), size)).encode() + content.read())
        features = len(names - {self.label, self.qid, self.weight, *self.drop})
        return {"rows": rows, "files": len(self.files), "features": features, "fingerprint": digest.hexdigest()}
