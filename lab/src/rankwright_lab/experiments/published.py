"""Figures that the papers publish, read from the text files of ``published_values/``.

A file has a line ``columns:`` with the data sets, then for each metric a line ``[metric]`` followed by lines of a
system, a colon and a number per data set; ``-`` where the paper has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

_FOLDER = Path(__file__).parent / "published_values"
Row = tuple[float | None, ...]


@dataclass(frozen=True)
class PublishedValues:
    """Figures of a paper, in per cent unless the experiment says otherwise.

    Parameters
    ----------
    columns
        Data sets.
    values
        By metric and system, one figure per data set; None where the paper has none.
    """

    columns: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)

    def of(self, target: str, system: str) -> Row:
        """Return the figures of a system, None for each that is missing."""
        return self.values.get(target, {}).get(system, (None,) * len(self.columns))

    def joined(self, other: PublishedValues) -> PublishedValues:
        """Return these figures and those of further systems on the same data sets."""
        values = {
            target: {**rows, **other.values.get(target, {})} for target, rows in self.values.items()
        }
        return replace(self, values=values)


def read_published(name: str) -> PublishedValues:
    """Read a file of published figures.

    Examples
    --------
    >>> read_published("xendcg-table1").of("ndcg@5", "ListNet")
    (47.68, 71.76)
    """
    return parse_published((_FOLDER / f"{name}.txt").read_text(encoding="utf-8"), name)


def parse_published(text: str, source: str) -> PublishedValues:
    r"""Parse the text of such a file.

    Examples
    --------
    >>> parse_published("columns: A, B\n[map]\nours: 61.5 -", "table 9").of("map", "ours")
    (61.5, None)
    """
    first, *lines = text.splitlines()
    columns = tuple(name.strip() for name in first.removeprefix("columns:").split(","))
    values: dict[str, dict[str, Row]] = {}
    target = ""
    for line in lines:
        if line.startswith("["):
            target = line.strip("[]")
            values[target] = {}
            continue
        system, _, numbers = line.rpartition(":")
        row = tuple(None if word == "-" else float(word) for word in numbers.split())
        if len(row) != len(columns):
            raise ValueError(
                f"{source}: {system} has {len(row)} figures for {len(columns)} columns."
            )
        values[target][system] = row
    return PublishedValues(columns, values)
