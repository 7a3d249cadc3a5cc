"""Join data sets with the same columns and different queries."""

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
    """Join data sets, or raise ValueError as `check_joinable` does."""
    check_joinable(parts)
    first = parts[0]
    weights = joined_weights([part.weights for part in parts], [part.n_rows for part in parts])
    fields = {name: np.concatenate([part.fields[name] for part in parts]) for name in first.fields}
    labels = np.concatenate([part.y for part in parts])
    X = stacked([part.X for part in parts])
    # Rows are grouped anew, because queries are sorted by id over all parts.
    data = first.with_rows(X, labels, _row_ids(parts), weights, fields)
    data.pairs = _joined_pairs(parts, data.queries)
    return data


def check_joinable(parts: Sequence[RankingData]) -> None:
    """Raise ValueError if columns, categories, fields or labels differ, or if a query is in two parts."""
    if len(parts) == 0:
        raise ValueError("nothing to concatenate: give at least one data set.")
    first = parts[0]
    # Codes of categories mean the same only if the levels are the same.
    for part in parts[1:]:
        names = matched_names(part.feature_names, part.named, first)
        new_name = dict(zip(part.feature_names, names, strict=True))
        categories = {new_name[name]: levels for name, levels in part.categories.items()}
        if categories != first.categories:
            raise ValueError(
                "the categories differ between the parts; create the later ones with reference= "
                "the first."
            )
    # The same id in two parts would silently merge two queries.
    if not _numbered(parts):
        seen = set()
        for part in parts:
            for query in plain_ids(part.query_ids):
                if query in seen:
                    raise ValueError(
                        f"query {query!s} is in two of the parts, which would merge them into one "
                        "query; give the queries different ids."
                    )
                seen.add(query)
    if any(part.fields.keys() != first.fields.keys() for part in parts):
        different = sorted({tuple(part.fields) for part in parts})
        raise ValueError(f"the parts have different fields: {different}; give each the same.")
    # A label alone needs no name.
    has_several = any(len(part.label_names) != 1 for part in parts)
    names_of_labels = {part.label_names for part in parts}
    if has_several and len(names_of_labels) > 1:
        raise ValueError(
            f"the parts have different labels: {sorted(names_of_labels)}; give each the same."
        )


def _numbered(parts: Sequence[RankingData]) -> bool:
    """Return True if the ids of queries are only numbers, because the sizes of queries were given."""
    return all(part.queries.numbered for part in parts)


def _row_ids(parts: Sequence[RankingData]) -> Any:
    """Return the query ids of all rows. If ids are only numbers, later parts continue the numbers of earlier parts."""
    ids = [part.qid for part in parts]
    if _numbered(parts):
        distinct = set().union(*(part.query_ids.tolist() for part in parts))
        if len(distinct) < sum(part.n_queries for part in parts):
            starts = np.cumsum([0, *(part.query_ids[-1] + 1 for part in parts)])
            ids = [part + start for part, start in zip(ids, starts, strict=False)]
    return joined_ids(ids)


def joined_ids(parts: Sequence[NDArray[Any]]) -> Any:
    """Join arrays of query ids."""
    if len({ids.dtype.kind for ids in parts}) == 1:
        return np.concatenate(parts)
    # NumPy would turn ids of different types into texts, so that 1 and "1" were the same query.
    return [value for ids in parts for value in plain_ids(ids)]


def joined_weights(
    parts: Sequence[NDArray[np.float64] | None], sizes: Sequence[int]
) -> NDArray[np.float64] | None:
    """Join weights of rows; a part without weights counts as weight 1 beside parts with weights."""
    if all(weights is None for weights in parts):
        return None
    pairs = zip(parts, sizes, strict=True)
    return np.concatenate([np.ones(n) if weights is None else weights for weights, n in pairs])


def stacked(matrices: Sequence[Any]) -> Any:
    """Put the rows of matrices below each other, in a file if any of them is in a file."""
    if any(map(sp.issparse, matrices)):
        return sp.vstack(matrices, format="csr")
    if not any(map(is_on_disk, matrices)):
        return np.concatenate(matrices)
    # Rows are copied block by block, so that the joined matrix is never in memory as a whole.
    blocks = (X[rows] for X in matrices for rows in row_ranges(X))
    shape = (sum(len(X) for X in matrices), matrices[0].shape[1])
    return write_rows(blocks, shape, np.result_type(*matrices))


def _joined_pairs(parts: Sequence[RankingData], queries: Queries) -> Pairs | None:
    """Join the pairs of parts, with rows that follow each other before they are grouped."""
    winners: list[NDArray[np.int64]] = []
    losers: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    # Row numbers of a part continue after the rows of the parts before.
    start = 0
    for part in parts:
        if part.pairs is not None:
            _, winner, loser, weight = part.pairs.arrays
            winners.append(winner + start)
            losers.append(loser + start)
            weights.append(weight)
        start += part.n_rows
    if not winners:
        return None
    # Grouping moved the rows once more, and pairs have to follow.
    place = np.arange(queries.n_rows)
    if queries.order is not None:
        place = np.argsort(queries.order)
    winner, loser = place[np.concatenate(winners)], place[np.concatenate(losers)]
    return Pairs.of_rows(winner, loser, np.concatenate(weights), queries)
