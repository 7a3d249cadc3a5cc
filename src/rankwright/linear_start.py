"""A linear ranker: the scores from which boosting may start.

With ``start="linear"`` each column x gives a document two features, which compare it with the other
documents of its query:

    rank   0.5 for the largest value down to -0.5 for the smallest, 0 if the value is missing
    z      (x - mean) / standard deviation, at most 4 either way, divided by 4; 0 if it is missing

With ``start="linear-global"`` it gives one feature that needs no other document:

    quantile   the share of the training rows with smaller values, less 0.5, in up to 32 steps

A column with many missing values has a further feature, `missing`: 1 for these and 0 otherwise.
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
from rankwright.kernels.tree_arrays import AS_ZERO, AT_MOST, NAN_TO_DEFAULT, ZERO, TreeArrays
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

    @property
    def within_query(self) -> bool:
        """Whether the features compare a document with the others of its query."""
        return True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The features that every column has; both rise with its values."""
        return ("rank", "z")

    @property
    def sources(self) -> list[str]:
        """The column of each feature."""
        return [*self.columns * len(self.kinds), *self.flagged]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        kinds = [kind for kind in self.kinds for _ in self.columns]
        kinds += ["missing"] * len(self.flagged)
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
        self, X: Matrix, queries: Queries | None, threads: int = 1
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of grouped rows, whole queries each, with their features.

        Rows on disk and rows of a sparse matrix are read in blocks, so memory is bounded. Features
        that compare no documents need no queries.
        """
        order = None if queries is None else queries.order
        bounds = np.arange(X.shape[0] + 1) if queries is None else queries.boundaries
        n_rows = max(1, _VALUES_AT_ONCE // len(self.sources))
        first = 0
        while first < len(bounds) - 1:
            # Features compare the documents of a query, so blocks end where queries end.
            after = int(np.searchsorted(bounds, bounds[first] + n_rows, side="right")) - 1
            after = max(after, first + 1)
            rows = slice(int(bounds[first]), int(bounds[after]))
            block = X[rows] if order is None else X[order[rows]]
            values = np.ascontiguousarray(as_dense(block)[:, self.places])
            yield rows, self.fill(values, bounds[first : after + 1] - bounds[first], threads)
            first = after


@dataclass(frozen=True)
class QuantileFeatures(LinearFeatures):
    """The features of a linear ranker that scores documents one by one: quantiles of columns.

    Parameters
    ----------
    columns, places, flagged
        As for `LinearFeatures`.
    edges
        For each column the edges between its steps, ascending. A value x is in step s if
        edge_{s-1} < x <= edge_s.
    levels
        For each column the value of the feature in each step.
    complete
        Columns without missing values in the training data: a missing value counts as 0 there, as
        in LightGBM. In other columns the feature of a missing value is 0.
    """

    edges: tuple[tuple[float, ...], ...] = ()
    levels: tuple[tuple[float, ...], ...] = ()
    complete: tuple[str, ...] = ()

    @property
    def within_query(self) -> bool:
        """Whether the features compare a document with the others of its query."""
        return False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The feature that every column has."""
        return ("quantile",)

    def fill(self, values: NDArray[Any], boundaries: NDArray[np.int64], threads: int = 1) -> Floats:
        """Return the features of rows [rows, features]; the queries and threads change nothing."""
        n = len(self.columns)
        features = np.empty((len(values), n + len(self.flagged)))
        for number, name in enumerate(self.columns):
            features[:, number] = self.quantiles(number, values[:, number])
            if name in self.flagged:
                features[:, n + self.flagged.index(name)] = np.isnan(values[:, number])
        return features

    def quantiles(self, number: int, values: NDArray[Any]) -> Floats:
        """Return the feature of values of a column, by its number among the columns."""
        missing = np.isnan(values)
        # Trees take numbers this small for 0, and the exported start is trees.
        known = np.where(missing | (np.abs(values) <= ZERO), 0.0, values)
        steps = np.searchsorted(np.array(self.edges[number]), known)
        quantiles = np.array(self.levels[number])[steps]
        if self.columns[number] not in self.complete:
            quantiles[missing] = 0.0
        return quantiles


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
    >>> data = rw.make_web_search(40, n_features=20, random_state=1)
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
        parts = [s.features for s in starts if isinstance(s.features, QuantileFeatures)]
        if parts:
            return _mean_of_quantiles(starts, parts)
        first = starts[0].features
        # Members may differ in the columns that have many missing values.
        flags = {name for start in starts for name in start.features.flagged}
        flagged = tuple(name for name in first.columns if name in flags)
        features = LinearFeatures(first.columns, first.places, flagged)
        total = np.zeros(len(features.names))
        for start in starts:
            places = [features.names.index(name) for name in start.features.names]
            total[places] += start.coefficients
        return cls.of(features, total / len(starts), *_mean_settings(starts))

    def scores(self, X: Matrix, queries: Queries | None, threads: int = 1) -> Floats:
        """Return the score of each row of X, in the order of its rows."""
        scores = np.empty(X.shape[0])
        for rows, values in self.features.blocks(X, queries, threads):
            scores[rows] = values @ self.coefficients
        return scores if queries is None else np.asarray(queries.ungroup(scores))

    def trees(self) -> list[TreeArrays]:
        """Return a start that compares no documents as trees, one per column.

        A score is the sum of their leaf values, with the same bits.
        """
        features = self.features
        if not isinstance(features, QuantileFeatures):
            return []
        coefficient = dict(zip(features.names, self.coefficients.tolist(), strict=True))
        trees = []
        for number, name in enumerate(features.columns):
            values = np.array(features.levels[number]) * coefficient[f"{name} [quantile]"]
            missing = None
            if name not in features.complete:
                missing = coefficient.get(f"{name} [missing]", 0.0)
            if missing or values.any():
                trees.append(
                    _steps_tree(features.places[number], features.edges[number], values, missing)
                )
        return trees

    def contributions(
        self, X: Matrix, queries: Queries | None, n_columns: int, threads: int = 1
    ) -> Floats:
        """Return the part of each of the first columns of X in each score [rows, columns].

        The parts add up to the score exactly.
        """
        parts = np.zeros((X.shape[0], n_columns))
        place = dict(zip(self.features.columns, self.features.places, strict=True))
        places = [place[name] for name in self.features.sources]
        for rows, values in self.features.blocks(X, queries, threads):
            # A column has several features, so their terms are added one after the other.
            for column, term in zip(places, (values * self.coefficients).T, strict=True):
                parts[rows, column] += term
        return parts if queries is None else np.asarray(queries.ungroup(parts))

    def to_manifest(self) -> dict[str, Any]:
        """Return the ranker as the manifest of a model holds it."""
        entry = {
            "columns": list(self.features.columns),
            "flagged": list(self.features.flagged),
            "coefficients": self.coefficients.tolist(),
            "ridge": self.ridge,
            "kept": self.kept,
        }
        if isinstance(self.features, QuantileFeatures):
            entry["complete"] = list(self.features.complete)
            for name in ("edges", "levels"):
                entry[name] = [list(steps) for steps in getattr(self.features, name)]
        return entry

    @classmethod
    def of_manifest(cls, entry: Any, names: Sequence[str]) -> LinearStart:
        """Read an entry of a manifest; raise ValueError if it does not fit the model's columns."""
        try:
            features = _stored_features(entry, names)
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


def _stored_features(entry: Any, names: Sequence[str]) -> LinearFeatures:
    """Read the features of an entry of a manifest; raise KeyError, TypeError or ValueError if damaged."""
    columns, flagged = tuple(entry["columns"]), tuple(entry["flagged"])
    number = {name: place for place, name in enumerate(names)}
    places = tuple(number[name] for name in columns)
    if "edges" not in entry:
        return LinearFeatures(columns, places, flagged)
    edges, levels = (
        tuple(tuple(map(float, steps)) for steps in entry[name]) for name in ("edges", "levels")
    )
    sizes = [(len(column) + 1, list(column) == sorted(set(column))) for column in edges]
    if sizes != [(len(column), True) for column in levels] or len(edges) != len(columns):
        raise ValueError("edges and levels do not belong together")
    return QuantileFeatures(columns, places, flagged, edges, levels, tuple(entry["complete"]))


def _mean_settings(starts: Sequence[LinearStart]) -> tuple[float, float]:
    """Return the mean ridge and the mean share of several linear rankers."""
    ridges, shares = [start.ridge for start in starts], [start.kept for start in starts]
    return float(np.mean(ridges)), float(np.mean(shares))


def _mean_of_quantiles(
    starts: Sequence[LinearStart], parts: Sequence[QuantileFeatures]
) -> LinearStart:
    """Return the mean of linear rankers, each with steps of its own."""
    columns = parts[0].columns
    weights = [
        dict(zip(start.features.names, (start.coefficients / len(starts)).tolist(), strict=True))
        for start in starts
    ]
    edges, levels, sizes, of_missing = [], [], [], {}
    for number, name in enumerate(columns):
        union = sorted({edge for part in parts for edge in part.edges[number]})
        # A step has the value of its largest number. The last entry is for missing values.
        numbers = np.array([*union, np.inf, np.nan])
        values = np.zeros(len(numbers))
        for weight, part in zip(weights, parts, strict=True):
            values += weight[f"{name} [quantile]"] * part.quantiles(number, numbers)
            values[-1] += weight.get(f"{name} [missing]", 0.0)
        size = float(np.abs(values[:-1]).max()) or 1.0
        edges.append(tuple(union))
        levels.append(tuple(rounded(values[:-1] / size).tolist()))
        sizes.append(size)
        if not all(name in part.complete for part in parts):
            of_missing[name] = float(values[-1])
    features = QuantileFeatures(
        columns,
        parts[0].places,
        flagged=tuple(of_missing),
        edges=tuple(edges),
        levels=tuple(levels),
        complete=tuple(name for name in columns if name not in of_missing),
    )
    coefficients = np.array([*sizes, *of_missing.values()])
    return LinearStart.of(features, coefficients, *_mean_settings(starts))


def rounded(features: Floats) -> Floats:
    """Round features to multiples of 2^-16, so that scores are exact sums."""
    return np.asarray(np.rint(np.ldexp(features, FEATURE_BITS)) * 2.0**-FEATURE_BITS)


def _steps_tree(
    column: int, edges: Sequence[float], values: Floats, missing: float | None
) -> TreeArrays:
    """Return a tree with a leaf for each step of a column.

    ``missing`` is the value of missing values; None to read them as 0.
    """
    n_nodes = len(edges) + (missing is not None)
    threshold, left, right = (np.empty(n_nodes) for _ in range(3))
    n_written = 0

    def write(first: int, last: int) -> int:
        """Write the splits between the steps from first to last; return the node, or ~leaf."""
        nonlocal n_written
        if first == last:
            return ~first
        node = n_written
        n_written += 1
        middle = (first + last) // 2
        threshold[node] = edges[middle]
        left[node] = write(first, middle)
        right[node] = write(middle + 1, last)
        return node

    rule = AS_ZERO
    if missing is not None:
        rule = NAN_TO_DEFAULT
        # All numbers go left, and the leaf of missing values comes last.
        n_written = 1
        threshold[0], right[0] = np.inf, ~len(values)
        left[0] = write(0, len(edges))
        values = np.append(values, missing)
    else:
        write(0, len(edges))
    return TreeArrays(
        feature=np.full(n_nodes, column, dtype=np.int32),
        threshold=threshold,
        decision=np.full(n_nodes, AT_MOST, dtype=np.uint8),
        missing=np.full(n_nodes, rule, dtype=np.uint8),
        default_left=np.zeros(n_nodes, dtype=np.bool_),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        categories=(np.empty(0, dtype=np.int64),) * n_nodes,
        value=values,
        gain=np.zeros(n_nodes),
    )
