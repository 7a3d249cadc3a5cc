"""Counts of a click log: how often each group of documents was shown and clicked at each position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries

if TYPE_CHECKING:
    from rankwright.clicks.log import ClickLog

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def sums_by(number: Integers, values: NDArray[Any], n: int) -> Floats:
    """Sum values by a number from 0 to n - 1 [n]."""
    sums: Floats = np.bincount(number, weights=values, minlength=n).astype(np.float64)
    return sums


class Cells(NamedTuple):
    """Counts by query, group and position; groups and positions are numbers from 0."""

    query: Integers
    group: Integers
    position: Integers
    shows: Floats
    clicks: Floats
    n_positions: int

    def tables(self, query_weight: Floats | None = None) -> tuple[Floats, Floats]:
        """Return shows and clicks [groups, positions], each query counted as often as its weight says."""
        shape = (int(self.group.max()) + 1, self.n_positions)
        weight = 1.0 if query_weight is None else query_weight[self.query]
        place = self.group * self.n_positions + self.position
        shows, clicks = (
            sums_by(place, values * weight, shape[0] * shape[1]).reshape(shape)
            for values in (self.shows, self.clicks)
        )
        return shows, clicks

    def chosen(self, rows: NDArray[np.bool_]) -> Cells:
        """Keep some cells, and number their groups anew."""
        group = np.unique(self.group[rows], return_inverse=True)[1]
        return Cells(
            self.query[rows],
            group,
            self.position[rows],
            self.shows[rows],
            self.clicks[rows],
            self.n_positions,
        )


def count(
    log: ClickLog, group: Integers, position: Integers, rows: NDArray[np.bool_] | None = None
) -> Cells:
    """Count shows and clicks; groups and positions are numbers from 0."""
    n_positions = int(position.max()) + 1
    query = log.queries.query_of_row
    chosen = slice(None) if rows is None else rows
    keys, cell = np.unique(
        (query * (int(group.max()) + 1) + group)[chosen] * n_positions + position[chosen],
        return_inverse=True,
    )
    shows, clicks = (
        sums_by(cell, values, len(keys)) for values in (np.ones(len(cell)), log.click[chosen])
    )
    first = np.unique(cell, return_index=True)[1]
    return Cells(
        query[chosen][first], group[chosen][first], keys % n_positions, shows, clicks, n_positions
    )


def limited(log: ClickLog, limit: int) -> Integers:
    """Return the positions from 0; those past ``limit`` are one."""
    positions: Integers = np.minimum(log.position, limit) - 1
    return positions


def by_document(log: ClickLog, position: Integers) -> Cells:
    """Count by document: the same one in two queries counts as two."""
    documents = Queries.from_qid(log.document)
    code = documents.ungroup(documents.query_of_row)
    pair = np.unique(log.queries.query_of_row * documents.n_queries + code, return_inverse=True)[1]
    return count(log, pair, position)


def by_randomised_positions(log: ClickLog, position: Integers) -> Cells:
    """Count the randomised rows by the set of positions that took part in their list.

    Chance decided which document of the set stood where, so all positions of a set had the same relevance on average.
    """
    if "randomised" not in log.fields:
        raise ValueError(
            "the log has no field 'randomised' that marks documents whose places were exchanged by chance; add it, or "
            "use the method harvest or em."
        )
    rows = np.asarray(log.fields["randomised"], dtype=bool)
    if not rows.any():
        raise ValueError("no row of the log is marked as randomised; use the method harvest or em.")
    sets = np.zeros((log.n_impressions, int(position.max()) + 1), dtype=np.uint8)
    sets[log.impression[rows], position[rows]] = 1
    number = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)[1].ravel()
    return count(log, number[log.impression], position, rows)
