"""Relevance learned from clicks: a boosted model of the probability that an examined document is clicked.

Clicks follow the position-based model, click rate = θ_k γ(x), with γ = 1 / (1 + exp(-F(x))) and F a sum of trees. The
likelihood of the clicks is maximised over both: each round solves θ for the current γ and then adds a tree to F, from
the gradient and Fisher information of F

    Σ_k (c_k - n_k θ_k γ) (1 - γ) / (1 - θ_k γ)        Σ_k n_k θ_k γ (1 - γ)² / (1 - θ_k γ)

of each document, n_k its shows and c_k its clicks at position k. θ_1 = 1: only ratios can be learned.

Reference: Wang et al., "Position Bias Estimation for Unbiased Learning to Rank in Personal Search", WSDM 2018.

Departs from it: θ is solved exactly where EM takes one step, and F is fitted to the likelihood of the clicks itself,
whose gradient is that of EM's M step; the number of trees is chosen on queries that are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwright.clicks.cells import Cells, Floats, sums_by
from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest

_OPTIONS = {
    "num_leaves": 15,
    "max_depth": -1,
    "min_child_samples": 20,
    "reg_lambda": 1.0,
    "subsample": 1.0,
    "colsample": 1.0,
    "max_bin": 63,
}
_RATE = 0.15
_ROUNDS = 150
_PATIENCE = 15  # rounds without a better likelihood of the queries left out
_FLOOR = 1e-6  # smallest probability


class RelevanceModel(NamedTuple):
    """A fitted model."""

    curve: Floats  # θ [positions]
    base: float
    forest: Forest
    n_trees: int

    def relevance(self, X: Any) -> Floats:
        """Return γ of rows with the same columns."""
        return _sigmoid(self.base + self.forest.predict(X, stop=self.n_trees))


class _Rows(NamedTuple):
    """Cells whose groups are rows of data."""

    cells: Cells
    weight: Floats  # of each cell

    def totals(self, values: Floats) -> Floats:
        """Sum values of cells by position."""
        return sums_by(self.cells.position, values * self.weight, self.cells.n_positions)

    def by_row(self, values: Floats, n_rows: int) -> Floats:
        return sums_by(self.cells.group, values * self.weight, n_rows)


def fit_relevance(
    data: RankingData,
    cells: Cells,
    query_weight: Floats | None = None,
    curve: Floats | None = None,
    rounds: int | None = None,
    seed: int = 0,
) -> RelevanceModel:
    """Fit γ, and θ where ``curve`` does not give it.

    ``cells`` count by row of ``data``, which has the shown documents only. Without ``rounds`` their number is chosen on
    a fifth of the queries, left out, and all queries are then used.
    """
    weight = np.ones(len(cells.query)) if query_weight is None else query_weight[cells.query]
    if rounds is None:
        queries = np.unique(cells.query)
        is_left_out = np.zeros(int(queries.max()) + 1, dtype=bool)
        is_left_out[queries[np.random.default_rng(seed).permutation(len(queries))[: len(queries) // 5]]] = True
        left_out = is_left_out[cells.query]
        fitted, tested = _Rows(cells, weight * ~left_out), _Rows(cells, weight * left_out)
        rounds = _boost(data, fitted, curve, _ROUNDS, tested, seed).n_trees if left_out.any() else _ROUNDS
    return _boost(data, _Rows(cells, weight), curve, max(rounds, 1), None, seed)


def _boost(
    data: RankingData, rows: _Rows, known: Floats | None, rounds: int, tested: _Rows | None, seed: int
) -> RelevanceModel:
    cells = rows.cells
    grower = load_engine("lightgbm").grower([data], _OPTIONS, {}, seed, 1)
    grower.resume(0)
    shows, clicks = rows.totals(cells.shows), rows.totals(cells.clicks)
    rate = np.clip(clicks / np.maximum(shows, 1.0), _FLOOR, 1 - _FLOOR)
    curve = np.minimum(rate / rate[0], 1.0) if known is None else known
    start = np.clip(clicks.sum() / max(shows @ curve, 1.0), 0.01, 0.99)
    base = float(np.log(start / (1 - start)))
    F = np.full(data.n_rows, base)
    best, best_round, n_trees = -np.inf, 0, 0
    for n_trees in range(1, rounds + 1):
        gamma = _sigmoid(F)[cells.group]
        if known is None:
            curve = _solve_curve(rows, gamma, curve)
        p = np.minimum(curve[cells.position] * gamma, 1 - _FLOOR)
        score = (cells.clicks - cells.shows * p) * (1 - gamma) / (1 - p)
        information = cells.shows * p * (1 - gamma) ** 2 / (1 - p)
        tree = grower.grow(
            -rows.by_row(score, data.n_rows).astype(np.float32),
            np.maximum(rows.by_row(information, data.n_rows), _FLOOR).astype(np.float32),
        )
        if tree is None:
            n_trees -= 1
            break
        values = _RATE * tree.values
        tree.set(values)
        F += values[tree.leaves(0)]
        if tested is not None:
            reached = _likelihood(tested, _sigmoid(F)[cells.group], curve)
            if reached > best:
                best, best_round = reached, n_trees
            if n_trees - best_round >= _PATIENCE:
                break
    if known is None:
        curve = _solve_curve(rows, _sigmoid(F)[cells.group], curve)
    return RelevanceModel(curve, base, grower.forest(), n_trees if tested is None else best_round)


def _solve_curve(rows: _Rows, gamma: Floats, curve: Floats) -> Floats:
    """Maximise the likelihood over θ: Newton steps for each position in log θ, the first fixed at 1."""
    cells, log_curve = rows.cells, np.log(np.maximum(curve, _FLOOR))
    for _ in range(20):
        p = np.minimum(np.exp(log_curve)[cells.position] * gamma, 1 - _FLOOR)
        gradient = rows.totals((cells.clicks - cells.shows * p) / (1 - p))
        information = rows.totals(cells.shows * p / (1 - p)) + _FLOOR
        step = np.clip(gradient / information, -1.0, 1.0)
        step[0] = 0.0
        log_curve = np.clip(log_curve + step, np.log(_FLOOR), 0.7)
        if np.abs(step).max() < 1e-6:
            break
    return np.exp(log_curve)


def _likelihood(rows: _Rows, gamma: Floats, curve: Floats) -> float:
    cells = rows.cells
    p = np.clip(curve[cells.position] * gamma, _FLOOR, 1 - _FLOOR)
    terms = cells.clicks * np.log(p) + (cells.shows - cells.clicks) * np.log1p(-p)
    return float(rows.weight @ terms)


def _sigmoid(z: Floats) -> Floats:
    values: Floats = 1 / (1 + np.exp(-z))
    return values
