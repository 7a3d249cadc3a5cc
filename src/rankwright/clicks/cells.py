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
        """Return shows and clicks [groups, positions], with the weight of their query as a factor."""
        shape = (int(self.group.max()) + 1, self.n_positions)
        weight = 1.0 if query_weight is None else query_weight[self.query]
        place = self.group * self.n_positions + self.position
        shows = sums_by(place, self.shows * weight, shape[0] * shape[1])
        clicks = sums_by(place, self.clicks * weight, shape[0] * shape[1])
        return shows.reshape(shape), clicks.reshape(shape)

    def by_position(self) -> tuple[Floats, Floats]:
        """Return shows and clicks [positions]."""
        shows = sums_by(self.position, self.shows, self.n_positions)
        return shows, sums_by(self.position, self.clicks, self.n_positions)

    def subset(self, rows: NDArray[np.bool_]) -> Cells:
        """Keep some cells, and number their groups anew."""
        group = np.unique(self.group[rows], return_inverse=True)[1]
        query, position = self.query[rows], self.position[rows]
        return Cells(query, group, position, self.shows[rows], self.clicks[rows], self.n_positions)


def count(
    log: ClickLog, group: Integers, position: Integers, rows: NDArray[np.bool_] | None = None
) -> Cells:
    """Count shows and clicks of the given rows, or of all."""
    # One number for query, group and position, because unique rows of numbers are slow to find.
    n_groups, n_positions = int(group.max()) + 1, int(position.max()) + 1
    counted = slice(None) if rows is None else rows
    keys = (log.queries.query_of_row * n_groups + group) * n_positions + position
    keys, cell = np.unique(keys[counted], return_inverse=True)
    query, key_in_query = np.divmod(keys, n_groups * n_positions)
    shows = sums_by(cell, np.ones(len(cell)), len(keys))
    clicks = sums_by(cell, log.click[counted], len(keys))
    return Cells(query, *np.divmod(key_in_query, n_positions), shows, clicks, n_positions)


def limited(log: ClickLog, limit: int) -> Integers:
    """Return the positions from 0. Positions past ``limit`` share a number."""
    positions: Integers = np.minimum(log.position, limit) - 1
    return positions


def by_document(log: ClickLog, position: Integers) -> Cells:
    """Count by document. A document in two queries counts as two."""
    documents = Queries.from_qid(log.document)
    code = documents.ungroup(documents.query_of_row)
    pair = np.unique(log.queries.query_of_row * documents.n_queries + code, return_inverse=True)[1]
    return count(log, pair, position)


def by_randomised_positions(log: ClickLog, position: Integers) -> Cells:
    """Count the randomised rows by the set of positions that took part in their list.

    All positions of a set have the same relevance on average, because chance decided which document stood where.
    """
    if "randomised" not in log.fields:
        raise ValueError(
            "the log has no field 'randomised' that marks documents whose places were exchanged by "
            "chance; add it, or use the method harvest or em."
        )
    rows = np.asarray(log.fields["randomised"], dtype=bool)
    if not rows.any():
        raise ValueError("no row of the log is marked as randomised; use the method harvest or em.")
    # A set of positions is a row of flags, packed into bits to compare it as a few bytes.
    sets = np.zeros((log.n_impressions, int(position.max()) + 1), dtype=np.uint8)
    sets[log.impression[rows], position[rows]] = 1
    number = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)[1].ravel()
    return count(log, number[log.impression], position, rows)
