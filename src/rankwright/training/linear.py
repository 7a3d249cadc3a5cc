"""Fit the linear ranker that boosting starts from.

The loss is the squared error of scores and labels within each query, divided by the root of its
number of documents (queryrmse with the factor n^-0.5), so the best coefficients are the solution of
one system. Ridge and share are chosen on held-out queries: the system is a sum over queries, so a
fold needs no further pass over the rows. Data with few queries keep less, see `_ENOUGH_QUERIES`.

All sums are of whole multiples of a unit, and exact. So the bits do not depend on threads, on the
order of rows, on blocks or on machines.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.bins import Bins, RowSample
from rankwright.data.columns import shown
from rankwright.data.dataset import RankingData
from rankwright.data.matrices import as_dense, dense_blocks
from rankwright.kernels.cholesky import solve_positive
from rankwright.kernels.random import Stream, stream_of, uniform_by_key
from rankwright.linear_start import LinearFeatures, LinearStart, QuantileFeatures, rounded
from rankwright.objectives import objective
from rankwright.objectives.bound import BoundObjective
from rankwright.support.checks import ArgumentError
from rankwright.support.reducer import ALONE, Reducer
from rankwright.training.plan import STARTS, Plan

Floats = NDArray[np.float64]

# Other objectives did not give better starts, and this one is solved in a single step.
_OBJECTIVE = objective("n^-0.5 queryrmse")
_FOLDS = 5
# As shares of the mean curvature of a feature, which does not depend on the number of queries.
_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# With fewer queries, less is kept in proportion. A ridge that is best for the linear ranker alone
# then leaves errors in it that trees cannot undo.
_ENOUGH_QUERIES = 80
# A column gets a feature for missing values if more than this share of the rows lacks a value.
_MANY_MISSING = 0.05
# The curvature between all features has to fit in memory.
_MOST_COLUMNS = 1000
_EXACT_BITS = 51
# Steps of a column that is transformed by itself alone.
_STEPS = 32
# A gradient that is this share of the largest is rounding.
_TOLERANCE = 1e-12


def start_columns(option: Any, data: RankingData) -> tuple[str, ...]:
    """Return the columns of the data that a linear start compares.

    Examples
    --------
    >>> data = RankingData([[1.0, 2.0]], [1], qid=[5], feature_names=["bm25", "age"])
    >>> start_columns("linear", data), start_columns({"columns": ["age"]}, data)
    (('bm25', 'age'), ('age',))
    """
    names = data.feature_names[: len(data.feature_names) - data.n_derived]
    numeric = tuple(name for name in names if name not in data.categories)
    if option not in STARTS:
        for name in option["columns"]:
            if name not in numeric:
                raise ArgumentError(
                    "start",
                    f"names the column {name!r}, which the data does not have or which holds "
                    f"categories; columns of numbers are {shown(list(numeric))}.",
                )
        numeric = tuple(name for name in numeric if name in option["columns"])
    if not numeric:
        raise ArgumentError("start", "needs a column of numbers, and all columns hold categories.")
    if len(numeric) > _MOST_COLUMNS:
        raise ArgumentError(
            "start",
            f"would compare {len(numeric)} columns, and {_MOST_COLUMNS} are the most; name those "
            "that matter, as in start={'columns': ['bm25', 'age']}.",
        )
    return numeric


class _Systems(NamedTuple):
    """Curvature [folds, features, features] and right sides [folds, features] of the folds."""

    curvature: Floats
    right: Floats

    def loss(self, fold: int, coefficients: Floats) -> tuple[float, float]:
        """Return the quadratic and the linear term of the loss in the queries of a fold."""
        bent = np.sum(coefficients * np.sum(self.curvature[fold] * coefficients, axis=1))
        return float(bent), float(np.sum(self.right[fold] * coefficients))


def fit_linear(plan: Plan, train: RankingData, reducer: Reducer = ALONE) -> LinearStart:
    """Fit the linear ranker on the training data of all machines."""
    if not train.labels:
        raise ArgumentError("start", "learns from labels, and there are pairs alone; leave it out.")
    sizes = reducer.sum(np.array([float(train.n_rows), float(train.n_queries)]))
    n_rows, n_queries = map(int, sizes)
    columns = start_columns(plan.start, train)
    features = _features(columns, train, n_rows, reducer)
    if plan.start == "linear-global":
        features = _quantiles(features, train, plan.threads)
    # Missing values are neither more nor less than a number, so flags of them have no sign.
    signs = np.zeros(len(features.names))
    for number, name in enumerate(columns):
        signs[number : len(columns) * len(features.kinds) : len(columns)] = plan.monotone.get(
            name, 0
        )
    systems = _systems(plan, features, train, n_rows, reducer)
    total = _Systems(*(part.sum(axis=0) for part in systems))
    n_features = len(features.names)
    level = float(np.trace(total.curvature)) / n_features
    best = (0.0, _RIDGES[-1], 0.0)
    for ridge in _RIDGES:
        bent, straight = 0.0, 0.0
        for fold in range(_FOLDS):
            rest = total.curvature - systems.curvature[fold]
            found = signed_solution(rest, total.right - systems.right[fold], ridge * level, signs)
            terms = systems.loss(fold, found)
            bent, straight = bent + terms[0], straight + terms[1]
        # Held-out queries decide about the ridge, and about how much of the ranker is kept. With
        # nothing to learn, every loss is 0 and nothing is kept.
        for share in _SHARES:
            loss = share**2 * bent - 2 * share * straight
            if loss < best[0]:
                best = (loss, ridge, share)
    _, ridge, share = best
    share *= min(1.0, n_queries / _ENOUGH_QUERIES)
    found = share * signed_solution(total.curvature, total.right, ridge * level, signs)
    # All machines take the solution of the first.
    return LinearStart.of(features, reducer.first(found), ridge, share)


def _features(
    columns: tuple[str, ...], train: RankingData, n_rows: int, reducer: Reducer
) -> LinearFeatures:
    """Return the features; columns with many missing values have one for them."""
    places = tuple(train.feature_names.index(name) for name in columns)
    features = LinearFeatures(columns, places)
    missing = np.zeros(len(columns))
    for _, values in dense_blocks(train.X):
        missing += np.count_nonzero(np.isnan(values[:, features.places]), axis=0)
    many = reducer.sum(missing) > _MANY_MISSING * n_rows
    return replace(features, flagged=tuple(np.array(columns)[many].tolist()))


def _quantiles(features: LinearFeatures, train: RankingData, threads: int) -> QuantileFeatures:
    """Return the quantiles of the same columns, from a sample of the rows of one machine."""
    keys = np.repeat(train.query_keys, train.group)
    sample = RowSample.of(train.X, keys, threads=threads)
    rows = as_dense(sample.rows)[:, features.places]
    edges, levels = [], []
    for column, found in enumerate(Bins.of(rows, _STEPS).edges):
        # Engines that hold features in 32 bits then have the same steps.
        with np.errstate(over="ignore"):
            steps = np.unique(found.astype(np.float32)).astype(np.float64)
        steps = steps[np.isfinite(steps)]
        values = rows[:, column]
        places = np.searchsorted(steps, values[~np.isnan(values)])
        counts = np.bincount(places, minlength=len(steps) + 1)
        middle = (np.cumsum(counts) - counts / 2) / max(1, counts.sum())
        edges.append(tuple(steps.tolist()))
        levels.append(tuple(rounded(middle - 0.5).tolist()))
    has_missing = sample.has_missing[list(features.places)]
    complete = np.array(features.columns)[~has_missing]
    return QuantileFeatures(
        features.columns,
        features.places,
        features.flagged,
        edges=tuple(edges),
        levels=tuple(levels),
        complete=tuple(complete.tolist()),
    )


def _systems(
    plan: Plan, features: LinearFeatures, train: RankingData, n_rows: int, reducer: Reducer
) -> _Systems:
    """Sum the system of each fold over the queries of all machines."""
    queries = train.queries.grouped()
    bounds = queries.boundaries
    bound = BoundObjective(
        _OBJECTIVE,
        train.labels,
        queries,
        plan.target,
        threads=plan.threads,
        weights=train.weights,
        inverse=plan.inverse_propensities(train),
    )
    start = plan.base_scores(train)
    grad, hess = bound(np.zeros(train.n_rows) if start is None else start)
    # The loss of a query is the weighted squared error of (response - scores), with the best level
    # of the query taken away from both.
    largest = float(reducer.max(np.array([hess.max()]))[0])
    roots = np.sqrt(hess / (largest or 1.0))
    response = np.zeros(train.n_rows)
    np.divide(-grad, hess, out=response, where=hess > 0)
    response -= np.repeat(_means(response[:, None], hess, bounds), queries.sizes, axis=0)[:, 0]
    response *= roots
    # With features up to 2 in size, sums over all rows stay below 2^53 units.
    bits = (_EXACT_BITS - math.ceil(math.log2(n_rows + 1))) // 2
    scale = float(reducer.max(np.array([np.abs(response).max()]))[0]) or 1.0
    response = _on_grid(response / scale, bits)
    folds = np.empty(queries.n_queries)
    uniform_by_key(queries.keys, stream_of(plan.seed, 0, Stream.LINEAR_FOLDS), 0, folds)
    fold_of = np.repeat((folds * _FOLDS).astype(np.int64), queries.sizes)
    n = len(features.names)
    curvature, right = np.zeros((_FOLDS, n, n)), np.zeros((_FOLDS, n))
    for rows, values in features.blocks(train.X, queries, plan.threads):
        first, after = np.searchsorted(bounds, [rows.start, rows.stop])
        inside = bounds[first : after + 1] - rows.start
        values -= np.repeat(_means(values, hess[rows], inside), np.diff(inside), axis=0)
        values = _on_grid(values * roots[rows, None], bits)
        for fold in range(_FOLDS):
            chosen = fold_of[rows] == fold
            curvature[fold] += values[chosen].T @ values[chosen]
            right[fold] += values[chosen].T @ response[rows][chosen]
    return _Systems(reducer.sum(curvature), scale * reducer.sum(right))


def _on_grid(values: Floats, bits: int) -> Floats:
    """Round to multiples of 2^-bits."""
    return np.asarray(np.rint(np.ldexp(values, bits)) * 2.0**-bits)


def signed_solution(curvature: Floats, right: Floats, ridge: float, signs: Floats) -> Floats:
    """Minimise x'(curvature + ridge) x / 2 - right'x, where x keeps the signs other than 0.

    This is the active set of Lawson and Hanson ("Solving Least Squares Problems", chapter 23): a
    coefficient whose gradient has its sign is let free, and goes back to 0 before its sign would
    change. Each set of free coefficients is better than all before it, so the search ends.
    """
    system = curvature + ridge * np.eye(len(right))
    free = signs == 0
    x = np.zeros(len(right))
    while True:
        solution = np.zeros(len(right))
        solution[free] = solve_positive(system[np.ix_(free, free)], right[free])
        wrong = free & (signs * solution < 0)
        if wrong.any():
            # The largest step towards the solution that changes no sign.
            steps = x[wrong] / (x[wrong] - solution[wrong])
            x += steps.min() * (solution - x)
            stopped = np.flatnonzero(wrong)[steps == steps.min()]
            x[stopped] = 0.0
            free[stopped] = False
            continue
        x = solution
        # Sums by np.sum have the same bits for any number of threads.
        gain = np.where(free, 0.0, signs * (right - np.sum(system * x, axis=1)))
        if gain.max(initial=0.0) <= _TOLERANCE * np.abs(right).max(initial=0.0):
            return x
        free[np.argmax(gain)] = True


def _means(values: Floats, weights: Floats, boundaries: NDArray[np.int64]) -> Floats:
    """Return the weighted mean of each query [queries, columns]."""
    sums = np.add.reduceat(values * weights[:, None], boundaries[:-1], axis=0)
    total = np.add.reduceat(weights, boundaries[:-1])
    # A query without weight does not count, so its mean does not matter.
    total[total == 0] = 1.0
    return np.asarray(sums / total[:, None])
