"""Estimate how likely each position is examined, relative to the first, from the clicks of a training.

A learned bias b is an amount of score, and its meaning for clicks depends on the objective. Let
users examine position k with probability θ_k and click on examined documents with probability γ, so
that a click has probability θ_k γ.

* A pair of a logistic loss compares odds, P(only i is clicked) / P(only j is clicked), so b_k tends
  to log θ_k - log((1 - θ_k γ) / (1 - θ_1 γ)): steeper than log θ_k, by up to 1 / (1 - γ) if clicks
  are frequent.
* A squared error makes b_k a difference of click rates, (θ_k - θ_1) times a mean γ.
* A softmax shares a target among the documents of a list: no function of b_k alone is θ_k.

So θ is estimated from the clicks themselves. Similar documents have the same γ on average wherever
they stood: click rate of group g at position k = γ_g θ_k. `rankwright.clicks.multiplicative` fits
this without knowing any γ_g. Rows with the same features are similar, for example the rows of a
document that was shown several times: such groups do not depend on the trees. If documents with
about the same score of the trees tell more positions apart, these groups are used instead. The
trees were trained on the clicks of the same documents. Because they fitted chance to some degree, θ
is somewhat too flat.

Categories are treated like positions. With several columns, the documents of a group have the same
values of the other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.cells import Cells, sums_by
from rankwright.clicks.multiplicative import curve_errors, fit_curve, informative, unreachable
from rankwright.data.dataset import RankingData
from rankwright.data.row_order import row_hashes
from rankwright.training.bias import BiasColumn, read_columns
from rankwright.training.plan import BiasSettings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SCORE_GROUPS = 100
# A table of groups by levels then takes 80 MB.
_MOST_CELLS = 10_000_000
# A level counts as known up to this standard error of log θ: a factor of e either way.
_KNOWN = 0.5


class Examination(NamedTuple):
    """Estimated examination of the levels of a column.

    Parameters
    ----------
    levels
        Numbers of the levels that were clicked.
    values
        Their examination, relative to the reference.
    errors
        Standard errors of the logarithms of the values.
    alike_by
        Whether documents are grouped by ``"features"`` or by ``"score"``.
    """

    levels: Integers
    values: Floats
    errors: Floats
    alike_by: str

    @property
    def n_known(self) -> int:
        """Number of levels that are known well."""
        return int(np.sum(self.errors < _KNOWN))

    def with_reference(self, reference: int) -> Examination:
        """Return the levels in the order of the column, after the reference was put first."""
        level = _swapped(self.levels, reference)
        order = np.argsort(level)
        return self._replace(
            levels=level[order], values=self.values[order], errors=self.errors[order]
        )


def describe_biases(
    settings: BiasSettings,
    data: RankingData,
    values: Sequence[float],
    n_features: int,
    scores: Callable[[], Floats],
) -> dict[str, Any]:
    """Describe each column as plain values: levels, biases, examination, and documents of each level.

    Positions are relative to the first, categories to the most frequent category. Levels without
    documents are left out. ``"examination"`` is missing if the clicks do not show it, and None for
    single levels that they do not show. For ``n_features`` and ``scores`` see
    `estimate_examination`.
    """
    described = {}
    start = 0
    columns = read_columns(settings, data)
    for number, column in enumerate(columns):
        biases = np.array(values[start : start + len(column.levels)])
        start += len(biases)
        # No bias was learned for levels without documents, so they are left out.
        documents = np.bincount(column.codes, minlength=len(biases))
        shown = np.flatnonzero(documents)
        # Categories have no first level, and the estimate is most certain for the most frequent
        # level.
        reference = int(np.argmax(documents))
        if column.ordered:
            reference = int(shown[0])
        entry: dict[str, Any] = {
            "levels": [column.levels[level] for level in shown],
            "values": (biases - biases[reference])[shown].tolist(),
            "documents": documents[shown].tolist(),
            "ordered": column.ordered,
        }
        estimate = estimate_examination(columns, number, reference, data, n_features, scores)
        if estimate is not None:
            levels = estimate.levels.tolist()
            found = dict(zip(levels, estimate.values.tolist(), strict=True))
            errors = dict(zip(levels, estimate.errors.tolist(), strict=True))
            entry["examination"] = [found.get(level) for level in shown.tolist()]
            entry["examination_error"] = [errors.get(level) for level in shown.tolist()]
            entry["alike_by"] = estimate.alike_by
        described[column.name] = entry
    return described


def estimate_examination(
    columns: Sequence[BiasColumn],
    number: int,
    reference: int,
    data: RankingData,
    n_features: int,
    scores: Callable[[], Floats],
) -> Examination | None:
    """Estimate the examination of the levels of a column; None if the clicks do not show it.

    Parameters
    ----------
    columns, number
        All bias columns, and the number of the column to estimate.
    reference
        The level that the other levels are relative to.
    data
        Training data. Its labels are clicks or click rates.
    n_features
        The number of columns that describe documents. Later columns depend on the list.
    scores
        Computes the scores of the trees. They are needed if no document is repeated.
    """
    # Pairs alone do not say how often a document was clicked.
    if not data.labels:
        return None
    column = columns[number]
    other_columns = [*columns[:number], *columns[number + 1 :]]

    def by_features() -> Integers:
        # Later columns depend on the list, so they differ between rows of the same document.
        hashes = row_hashes(data.X, n_given=n_features)
        return np.unique(hashes, return_inverse=True)[1].astype(np.int64)

    def by_score() -> Integers:
        of_rows = scores()
        # Quantiles make groups of about the same size.
        edges = np.quantile(of_rows, np.arange(1, _SCORE_GROUPS) / _SCORE_GROUPS)
        return np.searchsorted(edges, of_rows).astype(np.int64)

    # Groups by score are only formed if groups by features leave levels unknown, because they need
    # the scores of all rows.
    best: Examination | None = None
    for alike_by, grouping in (("features", by_features), ("score", by_score)):
        group = grouping()
        # The other biases are the same within a group, so they do not disturb its click rates.
        for other in other_columns:
            group = group * len(other.levels) + other.codes
        estimate = _estimate(_cells(group, column, reference, data), alike_by)
        if estimate is not None and (best is None or estimate.n_known > best.n_known):
            best = estimate
        if best is not None and best.n_known == len(column.levels):
            break
    return None if best is None else best.with_reference(reference)


def _cells(group: Integers, column: BiasColumn, reference: int, data: RankingData) -> Cells:
    """Count by group and level.

    The reference is the first level. Levels that were never clicked are left out.
    """
    n_levels = len(column.levels)
    level = _swapped(column.codes, reference)
    weight = data.weights
    if weight is None:
        weight = np.ones(data.n_rows)
    place = group * n_levels + level
    size = int(place.max()) + 1
    # Only cells that occur are numbered if a table of all cells is too large.
    if size > _MOST_CELLS:
        keys, place = np.unique(place, return_inverse=True)
        size = len(keys)
    else:
        # A table is faster than a sort.
        keys = np.arange(size)
    shows, clicks = (sums_by(place, values, size) for values in (weight, weight * data.y))
    seen = np.flatnonzero(shows)
    keys = keys[seen]
    return informative(
        Cells(keys * 0, keys // n_levels, keys % n_levels, shows[seen], clicks[seen], n_levels)
    )


def _estimate(cells: Cells, alike_by: str) -> Examination | None:
    """Estimate the levels that groups connect with the first level; None if there are none."""
    levels = np.arange(cells.n_positions)
    # Leaving out a level can disconnect other levels, so this repeats until no level is lost.
    while len(cells.group):
        clicks = sums_by(cells.position, cells.clicks, cells.n_positions)
        lost = {int(k) for k in np.flatnonzero(clicks == 0)} | {k - 1 for k in unreachable(cells)}
        # Without the reference, or with the reference alone, there is no ratio to estimate.
        if 0 in lost or len(lost) == cells.n_positions - 1:
            return None
        if not lost:
            tables = _largest(cells).tables()
            log_curve = fit_curve(*tables)
            return Examination(
                levels, np.exp(log_curve), curve_errors(*tables, log_curve), alike_by
            )
        positions = np.setdiff1d(np.arange(cells.n_positions), list(lost))
        levels, cells = levels[positions], _at(cells, positions)
    return None


def _at(cells: Cells, positions: Integers) -> Cells:
    """Keep some positions, and number them anew."""
    rows = np.isin(cells.position, positions)
    position = np.searchsorted(positions, cells.position[rows])
    return informative(cells.subset(rows)._replace(position=position, n_positions=len(positions)))


def _largest(cells: Cells) -> Cells:
    """Keep groups that fit into memory.

    The groups with the most clicks are kept, because the likelihood takes clicks as given.
    """
    by_group = sums_by(cells.group, cells.clicks, int(cells.group.max()) + 1)
    most = max(_MOST_CELLS // cells.n_positions, 1)
    if len(by_group) <= most:
        return cells
    order = np.argsort(-by_group, kind="stable")[:most]
    return cells.subset(np.isin(cells.group, order))


def _swapped(level: Integers, reference: int) -> Integers:
    """Exchange level 0 and the reference."""
    return np.where(level == 0, reference, np.where(level == reference, 0, level))
