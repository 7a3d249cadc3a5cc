"""Data sets with the same columns and different queries, joined into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.columns import matched_names
from rankwright.data.on_disk import is_on_disk, row_ranges, write_rows
from rankwright.data.pairs import Pairs
from rankwright.data.queries import Queries, plain_ids

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData


def joined(parts: Sequence[RankingData]) -> RankingData:
    """Join data sets; raise ValueError where their columns, categories, fields or labels differ, or queries repeat."""
    check_joinable(parts)
    first, qids = parts[0], _row_ids(parts)
    weighted = any(part.weights is not None for part in parts)
    weights = [np.ones(p.n_rows) if p.weights is None else p.weights for p in parts]
    data = first.with_rows(
        _stacked([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(qids)
        if len({ids.dtype.kind for ids in qids}) == 1
        else [value for ids in qids for value in plain_ids(ids)],
        np.concatenate(weights) if weighted else None,
        {name: np.concatenate([part.fields[name] for part in parts]) for name in first.fields},
    )
    data.pairs = _joined_pairs(parts, data.queries)
    return data


def check_joinable(parts: Sequence[RankingData]) -> None:
    """Raise ValueError where `joined` would, before any row is copied."""
    if len(parts) == 0:
        raise ValueError("nothing to concatenate: give at least one data set.")
    first = parts[0]
    for part in parts[1:]:
        names = matched_names(part.feature_names, part.named, first)
        new_names = dict(zip(part.feature_names, names, strict=True))
        if {
            new_names[name]: levels for name, levels in part.categories.items()
        } != first.categories:
            raise ValueError(
                "the categories differ between the parts; create the later ones with reference= the first."
            )
    ids = [value for part in parts for value in plain_ids(part.query_ids)]
    if len(set(ids)) < len(ids) and not _numbered(parts):
        repeated = next(value for value in ids if ids.count(value) > 1)
        raise ValueError(
            f"query {repeated!s} is in two of the parts, which would merge them into one query; "
            "give the queries different ids."
        )
    if any(part.fields.keys() != first.fields.keys() for part in parts):
        raise ValueError(
            f"the parts have different fields: {sorted({tuple(part.fields) for part in parts})}; give each the same."
        )
    several = any(len(part.label_names) != 1 for part in parts)  # a label alone needs no name
    if several and any(part.label_names != first.label_names for part in parts):
        raise ValueError(
            f"the parts have different labels: {sorted({part.label_names for part in parts})}; give each the same."
        )


def _numbered(parts: Sequence[RankingData]) -> bool:
    return all(part.queries.numbered for part in parts)


def _row_ids(parts: Sequence[RankingData]) -> list[NDArray[Any]]:
    """Query ids of the rows of each part; mere numbers that repeat continue those of the parts before."""
    distinct = len(set().union(*(plain_ids(part.query_ids) for part in parts)))
    if not _numbered(parts) or distinct == sum(part.n_queries for part in parts):
        return [part.qid for part in parts]
    starts = np.cumsum([0, *(part.query_ids[-1] + 1 for part in parts)])
    return [part.qid + start for part, start in zip(parts, starts, strict=False)]


def _stacked(matrices: Sequence[Any]) -> Any:
    """Put the rows of matrices below each other, in a file if any of them is in a file."""
    if any(map(sp.issparse, matrices)):
        return sp.vstack(matrices, format="csr")
    if not any(map(is_on_disk, matrices)):
        return np.concatenate(matrices)
    blocks = (X[rows] for X in matrices for rows in row_ranges(X))
    shape = (sum(len(X) for X in matrices), matrices[0].shape[1])
    return write_rows(blocks, shape, np.result_type(*matrices))


def _joined_pairs(parts: Sequence[RankingData], queries: Queries) -> Pairs | None:
    """Join the pairs of parts whose rows follow each other."""
    if all(part.pairs is None for part in parts):
        return None
    starts = np.cumsum([0, *(part.n_rows for part in parts)])
    arrays = [
        (part.pairs.arrays, start)
        for part, start in zip(parts, starts, strict=False)
        if part.pairs is not None
    ]
    winner, loser = (
        np.concatenate([getattr(a, side) + start for a, start in arrays])
        for side in ("winner", "loser")
    )
    place = np.arange(queries.n_rows) if queries.order is None else np.argsort(queries.order)
    return Pairs.of_rows(
        place[winner], place[loser], np.concatenate([a.weight for a, _ in arrays]), queries
    )
