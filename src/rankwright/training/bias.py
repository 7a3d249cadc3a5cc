"""Position bias, learned while boosting: the effect of the place where a document was shown.

Clicks follow scores f(document) + b[position]. Gradients are taken at this sum. The trees learn f,
and b is solved beside each tree by the same leaf system, with the values of the bias column as the
leaves of a further tree:

    (H + P) step = -(g + P b)        P = u (ridge I + smoothness D'D)        b <- b + step

g and H are the gradient and the curvature summed by position at the scores of this iteration, D b
the differences of neighbouring positions, and u the mean curvature of a document. So ``ridge`` and
``smoothness`` count documents, for any scale of the objective. H decides how fast b gets to its
place, but not the place. So on larger data H comes from a part of the queries, another part in each
iteration, scaled to all documents. Several columns add up: f + b[position] + b[device]. Their
system is summed over all combinations of their values first, and then over each column.

The step is a whole step of Newton's method, although a tree takes a fraction of its step. So the
trees learn from documents shown at the same place. Signal that they have not learned yet inflates b
instead of f (docs/bias.md has measurements).

References: Guo et al., "PAL", RecSys 2019, for the additive form. LightGBM's lambdarank has a
diagonal step of it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.matrices import as_dense
from rankwright.data.queries import Queries, is_missing
from rankwright.data.row_order import row_hashes
from rankwright.kernels.cholesky import solve_positive
from rankwright.objectives.bound import BoundObjective, Point
from rankwright.support.checks import is_number
from rankwright.support.reducer import ALONE, Alone, Reducer
from rankwright.training.plan import BiasSettings

Floats = NDArray[np.float64]

_MOST_CATEGORIES = 500
# Rows and pairs of rows of which the overlap of the logged rankings is tested.
_ROWS_TO_TEST = 20_000
_PAIRS_TO_TRY = 100
# More combinations of values get a diagonal curvature instead of a full matrix.
_MOST_CELLS = 600


class BiasSolver:
    """The biases of a training: their part of the scores, and their step after each gradient.

    Parameters
    ----------
    settings
        Columns and regularisation.
    train
        Training data, with the columns among its fields.
    gradient
        The objective on this data.
    reducer
        Sums and maxima over all machines.
    """

    def __init__(
        self,
        settings: BiasSettings,
        train: RankingData,
        gradient: BoundObjective,
        reducer: Reducer = ALONE,
    ) -> None:
        self._reducer = reducer
        columns = read_columns(settings, train, reducer)
        sizes = [len(column.levels) for column in columns]
        # The values of all columns lie in a row, so the codes of a column are shifted to its place.
        starts = np.cumsum([0, *sizes[:-1]])
        # Number of values, all columns in a row.
        self.size = sum(sizes)
        self._codes = [column.codes + start for column, start in zip(columns, starts, strict=True)]
        self._rows = float(reducer.sum(np.array([float(train.n_rows)]))[0])
        # A cell is a combination of values, with a value of each column.
        cells = math.prod(sizes)
        # Whether the values are solved together, or each with its own curvature.
        self.full = (
            gradient.objective.capabilities.full_curvature
            and train.one_weight_per_query
            and cells <= _MOST_CELLS
        )
        if self.full:
            # Sums are taken by cell first. The member matrix then adds the cells with the same
            # value.
            self._cell = np.ravel_multi_index([column.codes for column in columns], sizes)
            levels_of_cells = np.unravel_index(np.arange(cells), sizes)
            self._member = np.concatenate(
                [np.eye(n)[level].T for n, level in zip(sizes, levels_of_cells, strict=True)]
            )
        # Machines sum the curvature together, so several parts on any machine decide for all
        # machines.
        self._parts = gradient.leaf_parts
        several = reducer.max(np.array([float(len(self._parts))]))[0] > 1
        if not several or gradient.objective.capabilities.preconditioned:
            self._parts = []
        # The ridge pulls values towards 0, and smoothness pulls neighbouring positions together.
        self._penalty = np.zeros((self.size, self.size))
        for column, start, n in zip(columns, starts, sizes, strict=True):
            block = settings.ridge * np.eye(n)
            if column.ordered:
                differences = np.diff(np.eye(n), axis=0)
                block += settings.smoothness * differences.T @ differences
            self._penalty[start : start + n, start : start + n] = block

    def of_rows(self, values: Floats) -> Floats:
        """Sum the biases of each row [rows]."""
        total: Floats = values[self._codes[0]]
        for codes in self._codes[1:]:
            total = total + values[codes]
        return total

    def step(
        self, values: Floats, point: Point, iteration: int, query_weight: Floats | None = None
    ) -> Floats:
        """Return the values after a step of Newton's method."""
        diagonal = self._by_level(point.hess)
        unit = diagonal.sum() / (len(self._codes) * self._rows)
        if not unit > 0:
            # There is no pair of documents to learn from.
            return values
        part = self.part(iteration)
        # All queries are in the gradient, because it decides which values the steps lead to. The
        # curvature only decides how fast, so a diagonal or a part of the queries is enough.
        if not self.full:
            grad, curvature = self._by_level(point.grad), np.diag(diagonal)
        elif part is not None:
            grad = self._by_level(point.grad)
            curvature = self._sampled_curvature(point, part, query_weight, diagonal)
        else:
            by_cell, between = point.leaf_system(
                self._cell, self._member.shape[1], query_weight=query_weight
            )
            grad = self._member @ self._reducer.sum(by_cell)
            curvature = self._member @ self._reducer.sum(between) @ self._member.T
        # The settings count documents; the mean curvature of a document turns them into the scale
        # of the objective.
        penalty = unit * self._penalty
        step: Floats = solve_positive(curvature + penalty, -(grad + penalty @ values))
        return values + step

    def part(self, iteration: int) -> int | None:
        """Return the number of the leaf part for the curvature; None means all queries."""
        return iteration % len(self._parts) if self._parts else None

    def _sampled_curvature(
        self, point: Point, part: int, query_weight: Floats | None, diagonal: Floats
    ) -> Floats:
        """Return the curvature of a part of the queries, scaled to all documents."""
        _, between = point.leaf_system(
            self._cell, self._member.shape[1], query_weight=query_weight, part=part
        )
        sampled = self._by_level(point.hess, self._parts[part])
        # A part without pairs of documents has no curvature that could be scaled.
        if not sampled.sum() > 0:
            return np.diag(diagonal)
        # All levels have the same factor, so that a shift of all values still has no curvature.
        # Only the ridge would stop a step in a direction that lost its curvature by mistake. Levels
        # that are rare in the part are made stiffer.
        scale = diagonal.sum() / sampled.sum()
        curvature: Floats = scale * self._member @ self._reducer.sum(between) @ self._member.T
        return curvature + np.diag(np.maximum(diagonal - scale * sampled, 0.0))

    def _by_level(self, of_rows: Floats, rows: slice = slice(None)) -> Floats:
        """Sum by level, all columns in a row."""
        sums = np.zeros(self.size)
        for codes in self._codes:
            sums += np.bincount(codes[rows], of_rows[rows], self.size)
        return self._reducer.sum(sums)


@dataclass(frozen=True, eq=False)
class BiasColumn:
    """A column with a bias for each of its values.

    Parameters
    ----------
    name
        Name of the column.
    levels
        Its values: categories, or positions from 1 on, with the last for all positions from there
        on.
    codes
        Number of the level of each row [rows].
    ordered
        Whether levels are positions, so that neighbours are alike.
    """

    name: str
    levels: tuple[Any, ...]
    codes: NDArray[np.int64]
    ordered: bool


def read_columns(
    settings: BiasSettings, data: RankingData, reducer: Reducer = ALONE
) -> list[BiasColumn]:
    """Read the bias columns from the fields of the data; raise ValueError for an unusable column.

    A column of numbers holds positions, and any other column holds categories.

    Examples
    --------
    >>> shown = {"position": [1, 2, 1, 7], "device": ["phone", "desk", "desk", "phone"]}
    >>> X, y = [[0.1], [0.2], [0.3], [0.4]], [0, 1, 1, 0]
    >>> data = RankingData(X, y, qid=[1, 1, 2, 2], fields=shown)
    >>> columns = read_columns(BiasSettings(("position", "device"), limit=3), data)
    >>> [(column.levels, column.codes.tolist()) for column in columns]
    [((1, 2, 3), [0, 1, 0, 2]), (('desk', 'phone'), [1, 0, 0, 1])]
    """
    columns = []
    for name in settings.columns:
        values = data.fields[name]
        positions = _numbers(values)
        if positions is None:
            column = _categories(name, values, data.queries, reducer)
        else:
            column = _positions(name, positions, data.queries, settings.limit, reducer)
        columns.append(column)
    return columns


def _numbers(values: NDArray[Any]) -> NDArray[Any] | None:
    """Return a column of numbers, with NaN for missing numbers, or None for a column of categories."""
    if values.dtype.kind in "iuf":
        return values
    if values.dtype.kind != "O":
        return None
    # A column of objects holds numbers if every value that is present is a number. True and False
    # are categories.
    present = ~_missing(values)
    if not present.any() or not all(map(is_number, values[present])):
        return None
    numbers = np.full(len(values), np.nan)
    numbers[present] = values[present].astype(np.float64)
    return numbers


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.fromiter(map(is_missing, values.tolist()), np.bool_, len(values))


def _positions(
    name: str, values: NDArray[Any], queries: Queries, limit: int, reducer: Reducer
) -> BiasColumn:
    present = np.isfinite(values)
    if not present.all():
        row = int(np.argmin(present))
        raise ValueError(
            f"{name} is missing ({values[row]}) at {queries.where(row)}; a document without a "
            "position was not shown: leave it out, or give its position."
        )
    if np.any(values % 1 != 0):
        row = int(np.argmax(values % 1 != 0))
        raise ValueError(
            f"{name} is {values[row]} at {queries.where(row)}, and positions are whole numbers; "
            "categories are text."
        )
    lowest = int(values.min())
    if lowest == 0:
        # Queries of both kinds suggest that two logs were joined, and adding 1 everywhere would be
        # wrong then.
        tops = np.minimum.reduceat(values, queries.boundaries[:-1])
        from_0, from_1 = int(np.sum(tops == 0)), int(np.sum(tops == 1))
        if from_1:
            raise ValueError(
                f"{name} counts from 0 in {from_0} queries and from 1 in {from_1}, so the two are "
                "mixed; positions count from 1: add 1 where they count from 0."
            )
        raise ValueError(f"{name} counts from 0, and positions count from 1; add 1.")
    if lowest < 1:
        row = int(np.argmin(values))
        raise ValueError(
            f"{name} is {values[row]:g} at {queries.where(row)}; positions count from 1, and codes "
            "of categories must be text."
        )
    # The levels are the same on all machines, so the lowest position of all machines decides.
    if -reducer.max(np.array([-float(lowest)]))[0] >= limit:
        raise ValueError(
            f"{name} starts at {lowest}, and positions from limit={limit} of position_bias on share "
            "one value, so there is no bias to learn; count positions from 1, or raise the limit."
        )
    # Positions from the limit on share the last level, because few documents are shown there.
    last = int(reducer.max(np.array([min(float(values.max()), float(limit))]))[0])
    codes = np.minimum(values, last).astype(np.int64) - 1
    _require_variation(name, codes, queries, reducer)
    return BiasColumn(name, tuple(range(1, last + 1)), codes, ordered=True)


def _categories(name: str, values: NDArray[Any], queries: Queries, reducer: Reducer) -> BiasColumn:
    if not isinstance(reducer, Alone):
        raise ValueError(
            f"{name} holds text, whose levels several machines cannot agree on; give numbers from "
            "1."
        )
    missing = _missing(values)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} is missing at {queries.where(row)}; give a category of its own, such as "
            "'unknown'."
        )
    levels, codes = np.unique(values.astype(str), return_inverse=True)
    if len(levels) > _MOST_CATEGORIES:
        raise ValueError(
            f"{name} has {len(levels)} categories, and a bias is learned for at most "
            f"{_MOST_CATEGORIES}; merge the rare ones."
        )
    _require_variation(name, codes, queries, reducer)
    return BiasColumn(name, tuple(levels.tolist()), codes.astype(np.int64), ordered=False)


def _require_variation(name: str, codes: NDArray[Any], queries: Queries, reducer: Reducer) -> None:
    first = queries.boundaries[:-1]
    # A bias that is constant within each query cancels in all comparisons of documents.
    ranges = np.maximum.reduceat(codes, first) - np.minimum.reduceat(codes, first)
    if reducer.max(np.array([float(ranges.max())]))[0] == 0:
        raise ValueError(
            f"{name} is the same for all documents of each query, so its bias is not identifiable: "
            "it changes no order. Leave it out, or give logs in which it varies."
        )


def warn_without_overlap(settings: BiasSettings, data: RankingData) -> None:
    """Warn if bias and relevance can probably not be told apart in a log.

    A sample of the rows can show two cases: the same document is never seen at two positions
    although documents repeat, or a feature has the order of the positions in every query.
    """
    # The sample has whole queries, because the order of documents is compared within them.
    last = int(np.searchsorted(data.boundaries, min(_ROWS_TO_TEST, data.n_rows), side="left"))
    rows = slice(0, int(data.boundaries[max(last, 1)]))
    for name in settings.columns:
        numbers = _numbers(data.fields[name])
        if numbers is None:
            continue
        positions = numbers[rows]
        feature = _ordering_feature(data, positions, max(last, 1))
        if feature is not None:
            warnings.warn(
                f"the feature {feature!r} has the order of {name} in every query: the bias of a position and the "
                "relevance that this feature shows cannot be told apart. Leave the feature out of training, or log "
                "some rankings in another order.",
                UserWarning,
                stacklevel=4,
            )
        elif _never_moves(data, positions, rows):
            warnings.warn(
                f"no document was seen at two values of {name} although documents repeat: the logged rankings look "
                "deterministic, so bias and relevance can be told apart only by features that different documents "
                "share. Log some rankings in another order (swaps of two documents suffice) to be sure.",
                UserWarning,
                stacklevel=4,
            )


def _ordering_feature(data: RankingData, positions: NDArray[Any], n_queries: int) -> str | None:
    """Return a feature with the order of the positions in all of the first queries."""
    query = data.queries.query_of_row[: len(positions)]
    order = np.lexsort((positions, query))
    # Only neighbours within a query that were shown at different places say something about order.
    step = (query[order][1:] == query[order][:-1]) & (positions[order][1:] > positions[order][:-1])
    if n_queries < 2 or not step.any():
        return None
    X = data.X[: len(positions)]
    # Rows of neighbours in a list.
    pairs = np.column_stack((order[:-1], order[1:]))[step]
    for number, feature in enumerate(data.feature_names):
        # A few pairs rule out most features, and they are quick to test.
        if not _one_way(_changes(X, number, pairs[:_PAIRS_TO_TRY])):
            continue
        change = _changes(X, number, pairs)
        # A feature that is often missing or often tied does not determine the positions.
        present = change[~np.isnan(change)]
        if _one_way(present) and len(present) > 0.5 * len(change) and np.mean(present != 0) > 0.9:
            return feature
    return None


def _changes(X: Any, number: int, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the change of a feature from the first to the second row of each pair."""
    column = X[: int(pairs.max()) + 1][:, [number]]
    change = column[pairs[:, 1]] - column[pairs[:, 0]]
    return np.asarray(as_dense(change), dtype=np.float64).ravel()


def _one_way(change: NDArray[np.float64]) -> bool:
    """Return True if a feature never increases or never decreases."""
    return not (np.any(change > 0) and np.any(change < 0))


def _never_moves(data: RankingData, positions: NDArray[Any], rows: slice) -> bool:
    """Return True if some documents repeat and each has a single position."""
    hashes = row_hashes(data.X[rows], 1)
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) > 0.5 * len(hashes):
        # Too few documents repeat for a conclusion.
        return False
    return bool(np.all(positions == positions[first][number]))
