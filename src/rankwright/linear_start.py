"""A linear ranker on features within the query: the scores from which boosting may start.

Each column x gives a document two features, which compare it with the other documents of its query:

    rank   0.5 for the largest value down to -0.5 for the smallest, 0 if the value is missing
    z      (x - mean) / standard deviation, at most 4 either way, divided by 4; 0 if it is missing

A column with many missing values has a third feature, `missing`: 1 for these and 0 otherwise.
Features are rounded to multiples of 2^-16, and coefficients to multiples that leave room for the sum
in a double. So scores are exact sums: they have the same bits for any order, thread or library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import Matrix, as_dense
from rankwright.data.queries import Queries
from rankwright.kernels.threads import even_ranges, run_ranges
from rankwright.support.tables import Table, Tabular

Floats = NDArray[np.float64]

# Features are multiples of 2^-16 with a size of at most 1.
FEATURE_BITS = 16
_DOUBLE_BITS = 53
_VALUES_AT_ONCE = 4_000_000
# To compare fewer values takes less time than to start a thread.
_VALUES_PER_THREAD = 200_000
_SHOWN = 20


@dataclass(frozen=True)
class LinearFeatures:
    """The features of a linear ranker: rank and z of columns, and flags of missing values.

    Parameters
    ----------
    columns
        Names of the columns that are compared.
    places
        Their numbers among the columns of the data.
    flagged
        The columns among them that have a feature for missing values.

    Examples
    --------
    >>> LinearFeatures(("bm25", "age"), (0, 3), ("age",)).names
    ['bm25 [rank]', 'age [rank]', 'bm25 [z]', 'age [z]', 'age [missing]']
    """

    columns: tuple[str, ...]
    places: tuple[int, ...]
    flagged: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, columns: Sequence[str], flagged: Sequence[str], names: Sequence[str]
    ) -> LinearFeatures:
        """Return the features of some columns of data with these names."""
        number = {name: place for place, name in enumerate(names)}
        return cls(tuple(columns), tuple(number[name] for name in columns), tuple(flagged))

    @property
    def sources(self) -> list[str]:
        """The column of each feature."""
        return [*self.columns, *self.columns, *self.flagged]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        n = len(self.columns)
        kinds = ["rank"] * n + ["z"] * n + ["missing"] * len(self.flagged)
        return [f"{column} [{kind}]" for column, kind in zip(self.sources, kinds, strict=True)]

    def fill(self, values: NDArray[Any], boundaries: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the features of rows [rows, features] from the columns' values [rows, columns].

        Query q owns the rows ``boundaries[q]:boundaries[q + 1]``.
        """
        # Imported here because a model loads without compiled code.
        from rankwright.kernels.within_query import fill_compared

        features = np.empty((len(values), 2 * len(self.columns) + len(self.flagged)))
        flagged = np.array([self.columns.index(name) for name in self.flagged], dtype=np.int64)
        fill = partial(
            fill_compared,
            bounds=boundaries,
            matrix=values,
            flagged=flagged,
            steps=float(1 << FEATURE_BITS),
            features=features,
        )
        n_threads = min(threads, 1 + values.size // _VALUES_PER_THREAD)
        run_ranges(fill, even_ranges(np.diff(boundaries).astype(np.float64), n_threads))
        return features

    def blocks(
        self, X: Matrix, queries: Queries, threads: int = 1
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of grouped rows, whole queries each, with their features.

        Rows on disk and rows of a sparse matrix are read in blocks, so memory is bounded.
        """
        bounds = queries.boundaries
        n_rows = max(1, _VALUES_AT_ONCE // len(self.sources))
        first = 0
        while first < queries.n_queries:
            # Features compare the documents of a query, so blocks end where queries end.
            after = int(np.searchsorted(bounds, bounds[first] + n_rows, side="right")) - 1
            after = max(after, first + 1)
            rows = slice(int(bounds[first]), int(bounds[after]))
            block = X[rows] if queries.order is None else X[queries.order[rows]]
            values = np.ascontiguousarray(as_dense(block)[:, self.places])
            yield rows, self.fill(values, bounds[first : after + 1] - bounds[first], threads)
            first = after


@dataclass(frozen=True, eq=False)
class LinearStart(Tabular):
    """The linear ranker that boosting started from, as ``Ranker.linear_``.

    Attributes
    ----------
    features : LinearFeatures
        The features.
    coefficients : ndarray
        Coefficient of each feature [features].
    ridge : float
        L2 regularisation that folds of the queries chose, as a share of the mean curvature.
    kept : float
        Share of the fitted coefficients that folds of the queries chose to keep, from 0 to 1.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(40, n_features=20, seed=1)
    >>> ranker = rw.Ranker(start="linear", n_estimators=3, verbose=0).fit(data)
    >>> ranker.linear_.to_dataframe().columns.tolist()
    ['feature', 'column', 'coefficient']
    """

    features: LinearFeatures
    coefficients: Floats
    ridge: float
    kept: float

    @classmethod
    def of(
        cls, features: LinearFeatures, coefficients: Floats, ridge: float, kept: float
    ) -> LinearStart:
        """Round the coefficients, so that scores are exact."""
        largest = float(np.abs(coefficients).max(initial=0.0))
        room = _DOUBLE_BITS - FEATURE_BITS - math.ceil(math.log2(len(coefficients) + 1))
        unit = 2.0 ** (math.frexp(largest)[1] - room)
        return cls(features, np.rint(coefficients / unit) * unit, ridge, kept)

    @classmethod
    def mean(cls, starts: Sequence[LinearStart]) -> LinearStart:
        """Return the linear ranker with the mean score of several."""
        first = starts[0].features
        # Members may differ in the columns that have many missing values.
        flags = {name for start in starts for name in start.features.flagged}
        flagged = tuple(name for name in first.columns if name in flags)
        features = LinearFeatures(first.columns, first.places, flagged)
        total = np.zeros(len(features.names))
        for start in starts:
            places = [features.names.index(name) for name in start.features.names]
            total[places] += start.coefficients
        ridge, kept = (
            float(np.mean([getattr(s, key) for s in starts])) for key in ("ridge", "kept")
        )
        return cls.of(features, total / len(starts), ridge, kept)

    def scores(self, X: Matrix, queries: Queries, threads: int = 1) -> Floats:
        """Return the score of each row of X, in the order of its rows."""
        scores = np.empty(queries.n_rows)
        for rows, values in self.features.blocks(X, queries, threads):
            scores[rows] = values @ self.coefficients
        return np.asarray(queries.ungroup(scores))

    def contributions(
        self, X: Matrix, queries: Queries, n_columns: int, threads: int = 1
    ) -> Floats:
        """Return the part of each of the first columns of X in each score [rows, columns].

        The parts add up to the score exactly.
        """
        parts = np.zeros((queries.n_rows, n_columns))
        place = dict(zip(self.features.columns, self.features.places, strict=True))
        places = [place[name] for name in self.features.sources]
        for rows, values in self.features.blocks(X, queries, threads):
            # A column has several features, so their terms are added one after the other.
            for column, term in zip(places, (values * self.coefficients).T, strict=True):
                parts[rows, column] += term
        return np.asarray(queries.ungroup(parts))

    def to_manifest(self) -> dict[str, Any]:
        """Return the ranker as the manifest of a model holds it."""
        return {
            "columns": list(self.features.columns),
            "flagged": list(self.features.flagged),
            "coefficients": self.coefficients.tolist(),
            "ridge": self.ridge,
            "kept": self.kept,
        }

    @classmethod
    def of_manifest(cls, entry: Any, names: Sequence[str]) -> LinearStart:
        """Read an entry of a manifest; raise ValueError if it does not fit the model's columns."""
        try:
            features = LinearFeatures.of(entry["columns"], entry["flagged"], names)
            coefficients = np.array(entry["coefficients"], dtype=np.float64)
            ridge, kept = float(entry["ridge"]), float(entry["kept"])
            known = set(features.flagged) <= set(features.columns)
            fits = known and coefficients.shape == (len(features.names),)
        except (KeyError, TypeError, ValueError):
            fits = False
        if not fits or not np.isfinite(coefficients).all():
            raise ValueError("the manifest garbles the linear start; it was damaged.")
        return cls(features, coefficients, ridge, kept)

    def _columns(self) -> Mapping[str, Any]:
        return {
            "feature": self.features.names,
            "column": self.features.sources,
            "coefficient": self.coefficients,
        }

    def largest(self, top: int = _SHOWN) -> list[tuple[str, float]]:
        """Return the features with the largest coefficients by size, largest first."""
        order = np.argsort(-np.abs(self.coefficients), kind="stable")[:top]
        names = self.features.names
        return [(names[place], float(self.coefficients[place])) for place in order]

    def _table(self) -> Table:
        note = f"{self.kept:.0%} of the fitted coefficients are kept; ridge {self.ridge:g}."
        rest = len(self.coefficients) - _SHOWN
        if rest > 0:
            note += f" {rest} smaller coefficients are not shown."
        rows = [[name, f"{value:+.4f}"] for name, value in self.largest()]
        return Table("", ["feature", "coefficient"], rows, note)
