"""Features that compare a value with the values of the other documents of its query.

Sums go over the values in ascending order, and results are rounded to 32 bits, as in training. So the
features have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright_scorer.trees import ZERO

Floats = NDArray[np.float64]

KINDS = ("rank", "z", "gap", "share", "mean", "max", "rrf")
_RRF_OFFSET = 60.0
_LARGEST = float(np.finfo(np.float32).max)
# Larger numbers, and their reciprocals, are scaled before they are squared.
_SQUARES_OVERFLOW = 1e150
# The linear start cuts larger z, and rounds its features to multiples of 1 / _STEPS.
_MOST_Z = 4.0
_STEPS = 65536.0


class Comparison:
    """The features of the columns of a query, each computed when it is asked for.

    Parameters
    ----------
    x
        Values of the documents of a query, NaN if missing [documents, columns].
    """

    def __init__(self, x: Floats) -> None:
        self._x = x
        # Missing values come last.
        ascending = np.sort(x, axis=0)
        present = ~np.isnan(ascending)
        self.count = present.sum(axis=0)
        self._last = np.maximum(self.count - 1, 0)[None]
        lowest = self._lowest = ascending[0]
        self._highest = np.take_along_axis(ascending, self._last, axis=0)[0]
        biggest = np.maximum(np.abs(lowest), np.abs(self._highest))
        plain = (biggest > 1.0 / _SQUARES_OVERFLOW) & (biggest < _SQUARES_OVERFLOW)
        self._scale = np.where(plain | (biggest == 0) | np.isnan(biggest), 1.0, biggest)
        # Zeros in place of missing values change no sum.
        self._ascending = np.where(present, ascending / self._scale, 0.0)
        self._present = present
        self._bottom = lowest / self._scale
        # Mean distance from the lowest value, which is exact if values are close together.
        above = np.where(present, self._ascending - self._bottom, 0.0)
        self._above = self._sum(above) / np.maximum(self.count, 1)

    def _sum(self, values: Floats) -> Floats:
        """Add the values of each column one after the other, in ascending order."""
        return np.asarray(np.cumsum(values, axis=0)[-1])

    def rank(self) -> Floats:
        """1 for the largest value; equal values share the mean of their ranks."""
        ranks = np.empty(self._x.shape)
        for column, x in enumerate(self._x.T):
            present = np.sort(x[~np.isnan(x)])
            below = np.searchsorted(present, x, side="left")
            up_to = np.searchsorted(present, x, side="right")
            ranks[:, column] = len(present) - 0.5 * (below + up_to) + 0.5
        return ranks

    def rrf(self) -> Floats:
        """1 / (60 + rank)."""
        return np.asarray(1.0 / (_RRF_OFFSET + self.rank()))

    def z(self) -> Floats:
        """Distance from the mean in standard deviations; 0 if all values are equal."""
        deviations = np.where(self._present, self._ascending - self._bottom - self._above, 0.0)
        spread = np.sqrt(self._sum(deviations * deviations) / np.maximum(self.count, 1))
        spread = np.where(self._highest == self._lowest, 0.0, spread)
        distance = self._x / self._scale - self._bottom - self._above
        return np.where(spread > 0, distance / np.where(spread > 0, spread, 1.0), 0.0)

    def gap(self) -> Floats:
        """Distance from the largest value."""
        return np.asarray(self._highest - self._x)

    def share(self) -> Floats:
        """Share of the sum of magnitudes; 0 if all values are 0."""
        magnitude = self._sum(np.abs(self._ascending))
        divisor = np.where(magnitude > 0, magnitude, 1.0)
        return np.where(magnitude > 0, self._x / self._scale / divisor, 0.0)

    def mean(self) -> Floats:
        """Return the mean, the same for all documents."""
        mean = self._sum(self._ascending) / np.maximum(self.count, 1)
        mean = np.where(self._highest == self._lowest, self._bottom, mean)
        return np.broadcast_to(mean * self._scale, self._x.shape)

    def max(self) -> Floats:
        """Return the largest value, the same for all documents."""
        return np.broadcast_to(self._highest, self._x.shape)

    def of(self, kind: str) -> Floats:
        """Return a feature by its name, rounded to 32 bits; a missing value stays missing."""
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.clip(getattr(self, kind)(), -_LARGEST, _LARGEST)
        rounded = values.astype(np.float32).astype(np.float64)
        return np.where(np.isnan(self._x), np.nan, rounded)


class Recipe(NamedTuple):
    """The features within the query of a model's trees: of each kind, the columns that have it."""

    columns: tuple[tuple[str, NDArray[np.int64]], ...] = ()

    @classmethod
    def read(cls, table: dict[str, Any], names: Sequence[str]) -> Recipe:
        """Read the kinds of each column from the manifest."""
        unknown = {kind for kinds in table.values() for kind in kinds} - set(KINDS)
        if unknown or not set(table) <= set(names):
            raise ValueError("the manifest garbles the features within the query.")
        columns = []
        for kind in KINDS:
            sources = [n for n, name in enumerate(names) if kind in table.get(name, ())]
            if sources:
                columns.append((kind, np.array(sources, dtype=np.int64)))
        return cls(tuple(columns))

    @property
    def n_features(self) -> int:
        """Number of columns that are added."""
        return sum(len(sources) for _, sources in self.columns)

    def fill(self, matrix: Floats, queries: list[NDArray[np.int64]]) -> Floats:
        """Return the rows with their features within the query as last columns."""
        filled = np.empty((len(matrix), matrix.shape[1] + self.n_features))
        filled[:, : matrix.shape[1]] = matrix
        for rows in queries:
            first = matrix.shape[1]
            for kind, sources in self.columns:
                after = first + len(sources)
                filled[rows, first:after] = Comparison(matrix[np.ix_(rows, sources)]).of(kind)
                first = after
        return filled


class LinearStart(NamedTuple):
    """A linear ranker on ranks, z and flags of missing values: the score that the trees add to."""

    columns: NDArray[np.int64]
    flagged: NDArray[np.int64]
    coefficients: Floats  # of ranks, z and flags

    @property
    def within_query(self) -> bool:
        """Whether it compares the documents of a query."""
        return True

    def scores(self, matrix: Floats, queries: list[NDArray[np.int64]]) -> Floats:
        """Return the score of each row; the terms add up exactly, so their order does not matter."""
        scores = np.empty(len(matrix))
        for rows in queries:
            x = matrix[np.ix_(rows, self.columns)]
            compared = Comparison(x)
            span = np.maximum(compared.count - 1, 1)
            rank = (0.5 * (compared.count + 1) - compared.of("rank")) / span
            z = np.clip(compared.of("z"), -_MOST_Z, _MOST_Z) / _MOST_Z
            features = np.rint(np.nan_to_num(np.hstack([rank, z])) * _STEPS) / _STEPS
            flags = np.isnan(matrix[np.ix_(rows, self.flagged)])
            scores[rows] = np.hstack([features, flags]) @ self.coefficients
        return scores


class GlobalStart(NamedTuple):
    """A linear ranker on quantiles of columns, which scores documents one by one."""

    columns: NDArray[np.int64]
    flagged: NDArray[np.int64]
    coefficients: Floats  # of quantiles and flags
    edges: list[Floats]  # between the steps of each column
    levels: list[Floats]  # the quantile of each step
    complete: NDArray[np.bool_]  # whether missing values count as 0 [columns]

    @property
    def within_query(self) -> bool:
        """Whether it compares the documents of a query."""
        return False

    def scores(self, matrix: Floats, queries: list[NDArray[np.int64]]) -> Floats:
        """Return the score of each row; the queries change nothing."""
        quantiles = np.empty((len(matrix), len(self.columns)))
        for number, column in enumerate(self.columns.tolist()):
            x = matrix[:, column]
            missing = np.isnan(x)
            known = np.where(missing | (np.abs(x) <= ZERO), 0.0, x)
            found = self.levels[number][np.searchsorted(self.edges[number], known)]
            if not self.complete[number]:
                found[missing] = 0.0
            quantiles[:, number] = found
        features = np.hstack([quantiles, np.isnan(matrix[:, self.flagged])])
        return np.asarray(features @ self.coefficients)


def read_start(
    entries: list[dict[str, Any]], names: Sequence[str]
) -> LinearStart | GlobalStart | None:
    """Read the linear ranker of the manifest, with members the mean of theirs; None without."""
    if not entries:
        return None
    # The mean of the members comes last.
    entry = entries[-1]
    number = {name: place for place, name in enumerate(names)}
    columns, flagged = (
        np.array([number[name] for name in entry[key]], dtype=np.int64)
        for key in ("columns", "flagged")
    )
    coefficients = np.array(entry["coefficients"], dtype=np.float64)
    n_kinds = 1 if "edges" in entry else 2
    fits = coefficients.shape == (n_kinds * len(columns) + len(flagged),)
    if not fits or not np.isfinite(coefficients).all():
        raise ValueError("the manifest garbles the linear start.")
    if n_kinds == 2:
        return LinearStart(columns, flagged, coefficients)
    edges, levels = (
        [np.array(part, dtype=np.float64) for part in entry[key]] for key in ("edges", "levels")
    )
    if [len(part) + 1 for part in edges] != [len(part) for part in levels]:
        raise ValueError("the manifest garbles the linear start.")
    complete = np.array([name in entry["complete"] for name in entry["columns"]], dtype=np.bool_)
    return GlobalStart(columns, flagged, coefficients, edges, levels, complete)
