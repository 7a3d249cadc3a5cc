"""Columns of data and of models, and how those of one are matched with those of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Levels = dict[str, tuple[Any, ...] | None]


@dataclass(frozen=True)
class Columns:
    """Names of the columns and levels of the categorical ones, which other data must match.

    Parameters
    ----------
    feature_names, categories
        Names of the columns, and levels of the categorical ones.
    named
        Whether the names were given. Generated ones, those of arrays and LETOR text, are matched by position.
    first_index
        For columns of LETOR text the index of the first one in the file, 1 or 0; None for others.
    """

    feature_names: list[str]
    categories: Levels
    named: bool = True
    first_index: int | None = None


class HasColumns(Protocol):
    """Data or a model whose columns other data must match."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""

    @property
    def categories(self) -> Levels:
        """Levels of the categorical columns."""

    @property
    def named(self) -> bool:
        """Whether the names were given."""

    @property
    def first_index(self) -> int | None:
        """Index of the first column in LETOR text; None for other data."""


def shown(names: Sequence[Any]) -> str:
    """Return the first few names, for errors."""
    return ", ".join(str(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")


def generated_names(n_columns: int, first: int = 0) -> list[str]:
    """Name columns without names by their numbers, from ``first``.

    Examples
    --------
    >>> generated_names(2), generated_names(2, first=1)
    (['f0', 'f1'], ['f1', 'f2'])
    """
    return [f"f{number}" for number in range(first, first + n_columns)]


def matched_names(names: list[str], named: bool, reference: HasColumns) -> list[str]:
    """Return the reference's names for columns that match them; raise ValueError where they do not.

    Columns are matched by name where both sides were given names, and otherwise by position: names that were
    generated say nothing, so only the number has to agree.

    Examples
    --------
    >>> matched_names(["bm25", "length"], True, Columns(["f1", "f2"], {}, named=False))
    ['f1', 'f2']
    """
    theirs = list(reference.feature_names)
    if set(names) != set(theirs) and not (named and reference.named):
        if len(names) == len(theirs):
            return theirs
        why = "Columns without names are matched by position; give as many as in the training data"
        if reference.first_index is not None:
            if named:
                why = "The training data was LETOR text, so columns are matched by position; give all, in its order"
            else:
                why += f" (read_letor(..., n_features={len(theirs)}) for LETOR text)"
        raise ValueError(
            f"X has {len(names)} features, but Ranker is expecting {len(theirs)} features as input. {why}."
        )
    check_same_columns(names, theirs)
    return theirs


def check_same_columns(ours: list[str], theirs: list[str]) -> None:
    """Raise ValueError unless the names are the same, in the same order."""
    if ours == theirs:
        return
    missing = [name for name in theirs if name not in ours]
    extra = [name for name in ours if name not in theirs]
    if missing or extra:
        detail = (f" Missing: {shown(missing)}." if missing else "") + (
            f" Not expected: {shown(extra)}." if extra else ""
        )
        raise ValueError(
            f"the columns of the data ({len(ours)}) are not those of the training data ({len(theirs)}).{detail} Give "
            "the same columns."
        )
    column = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    raise ValueError(
        f"column {column} is {ours[column]!r}, but {theirs[column]!r} in the training data; "
        "give the columns in the same order."
    )


def check_same_categories(ours: Levels, theirs: Levels) -> Levels:
    """Return the training data's categories; codes may replace its levels, but levels may not replace its codes."""
    for name in ours.keys() | theirs.keys():
        if name not in theirs:
            raise ValueError(
                f"column {name!r} holds categories here but numbers in the training data; use one type in both."
            )
        if theirs[name] is None and ours.get(name) is not None:
            raise ValueError(
                f"column {name!r} holds text here but codes in the training data; give codes in both."
            )
    return theirs
