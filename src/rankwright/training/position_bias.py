"""Position bias, learned while boosting: where a document was shown, apart from what it is.

Clicks follow scores f(document) + b[position]. Gradients are taken at that sum; the trees learn f and b is solved
beside each tree by the same leaf system, with the values of the bias column as the leaves of one more tree:

    (H + P) step = -(g + P b)        P = u (ridge I + smoothness D'D)        b <- b + step

g and H are the gradient and the curvature summed by position at the scores of this iteration, D b the differences of
neighbouring positions, and u the mean curvature of a document, so that ``ridge`` and ``smoothness`` count documents,
whatever the scale of the objective. H decides how fast b gets to its place, and not where that is: on larger data it is
that of one part of the queries at a time, scaled to all documents. Several columns add up: f + b[position] + b[device].
Their system is summed over all combinations of their values first, and then over each column.

The step is a whole step of Newton's method, although trees take a fraction of theirs: trees then learn from documents
shown at the same place, and what they have not learned yet inflates b instead of f (docs/bias.md has measurements).

References: Guo et al., "PAL", RecSys 2019, for the additive form; LightGBM's lambdarank has a diagonal step of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.kernels.cholesky import solve_positive
from rankwright.objectives.bound import BoundObjective, Point
from rankwright.support.reducer import ALONE, Reducer
from rankwright.training.bias_columns import read_columns
from rankwright.training.settings import BiasSettings

Floats = NDArray[np.float64]

_MOST_CELLS = (
    600  # combinations of values with full curvature between them; more have a diagonal one
)


class PositionBias:
    """The biases of a training: where they enter the scores, and their step after each gradient.

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
        starts = np.cumsum([0, *sizes[:-1]])
        self.size = sum(sizes)  # number of values, all columns in a row
        self._codes = [column.codes + start for column, start in zip(columns, starts, strict=True)]
        self._rows = float(reducer.sum(np.array([float(train.n_rows)]))[0])
        cells = math.prod(sizes)
        # Whether the values are solved together; otherwise each on its own curvature.
        self.full = (
            gradient.objective.full_curvature
            and train.one_weight_per_query
            and cells <= _MOST_CELLS
        )
        if self.full:
            self._cell = np.ravel_multi_index([column.codes for column in columns], sizes)
            levels = np.unravel_index(np.arange(cells), sizes)  # of each cell
            self._member = np.concatenate(
                [np.eye(n)[level].T for n, level in zip(sizes, levels, strict=True)]
            )
        parts = gradient.leaf_parts
        several = reducer.max(np.array([float(len(parts))]))[0] > 1
        self._parts = parts if several and not gradient.objective.preconditioned else []
        self._penalty = np.zeros((self.size, self.size))
        for column, start, n in zip(columns, starts, sizes, strict=True):
            differences = np.diff(np.eye(n), axis=0)
            smooth = settings.smoothness * differences.T @ differences if column.ordered else 0.0
            self._penalty[start : start + n, start : start + n] = (
                settings.ridge * np.eye(n) + smooth
            )

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
        own = self._by_level(point.hess)
        unit = own.sum() / (len(self._codes) * self._rows)
        if not unit > 0:  # no query has anything to learn
            return values
        if not self.full:
            grad, curvature = self._by_level(point.grad), np.diag(own)
        elif (part := self.part(iteration)) is not None:
            grad, curvature = (
                self._by_level(point.grad),
                self._sampled_curvature(point, part, query_weight, own),
            )
        else:
            by_cell, between = point.leaf_system(
                self._cell, self._member.shape[1], query_weight=query_weight
            )
            grad = self._member @ self._reducer.sum(by_cell)
            curvature = self._member @ self._reducer.sum(between) @ self._member.T
        penalty = unit * self._penalty
        step: Floats = solve_positive(curvature + penalty, -(grad + penalty @ values))
        return values + step

    def part(self, iteration: int) -> int | None:
        """Return the number of the leaf part whose curvature a step uses; None where it is that of all queries."""
        return iteration % len(self._parts) if self._parts else None

    def _sampled_curvature(
        self, point: Point, part: int, query_weight: Floats | None, own: Floats
    ) -> Floats:
        """Curvature of one part of the queries, another one in each iteration, scaled to that of all documents."""
        _, between = point.leaf_system(
            self._cell, self._member.shape[1], query_weight=query_weight, part=part
        )
        sampled = self._by_level(point.hess, self._parts[part])
        if not sampled.sum() > 0:
            return np.diag(own)
        # One factor for all levels, so that a shift of all values still has no curvature: nothing but the ridge would
        # stop a step in a direction that has none by mistake. Levels that the part has too few of are made stiffer.
        scale = own.sum() / sampled.sum()
        curvature: Floats = scale * self._member @ self._reducer.sum(between) @ self._member.T
        return curvature + np.diag(np.maximum(own - scale * sampled, 0.0))

    def _by_level(self, of_rows: Floats, rows: slice = slice(None)) -> Floats:
        """Sum by level, all columns in a row."""
        sums = np.zeros(self.size)
        for codes in self._codes:
            sums += np.bincount(codes[rows], of_rows[rows], self.size)
        return self._reducer.sum(sums)
