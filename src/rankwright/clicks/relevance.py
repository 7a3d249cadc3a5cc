"""Relevance learned from clicks: a boosted model of the probability that an examined document is clicked.

Clicks follow the position-based model, click rate = θ_k γ(x), with γ = 1 / (1 + exp(-F(x))) and F a sum of trees. A
tree is grown from the gradient and the Fisher information of the likelihood of the clicks. For a document these are

    Σ_k (c_k - n_k θ_k γ) (1 - γ) / (1 - θ_k γ)        Σ_k n_k θ_k γ (1 - γ)² / (1 - θ_k γ),

with n_k its shows and c_k its clicks at position k. If θ is not known it is learned in turn, between trees:

    θ_k = m_k / m_1,        m_k = Σ c_k / Σ n_k γ̂,

with γ̂ of a query from a model that was trained on other queries. So neither noise that the trees fit nor a wrong scale
of γ̂ distorts θ. θ is still wrong if the logged lists follow relevance that the features do not explain.

Reference: Wang et al., "Position Bias Estimation for Unbiased Learning to Rank in Personal Search", WSDM 2018.

Departs from it: F is fitted to the likelihood of the clicks itself, with the gradient of EM's M step; θ comes from
the equation above, where EM takes a step with γ̂ of the queries themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.cells import Cells, Floats, Integers, sums_by
from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest, Growth

_OPTIONS = {
    "num_leaves": 31,
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
_FLOOR = 1e-6  # smallest probability and information


class RelevanceModel(NamedTuple):
    """A fitted model."""

    base: float
    forest: Forest

    def relevance(self, X: Any) -> Floats:
        """Return γ of rows with the same columns."""
        return _sigmoid(self.base + self.forest.predict(X))


def fit_relevance(data: RankingData, cells: Cells, curve: Floats, seed: int = 0) -> RelevanceModel:
    """Fit γ for a known θ.

    ``cells`` count by row of ``data``. The number of trees is chosen on a fifth of the queries. All queries are then
    used.
    """
    is_held_out = np.random.default_rng(seed).permutation(data.n_queries) < data.n_queries // 5
    base = _base(cells, curve)
    # Fewer than 5 queries leave none to hold out, so all rounds are used.
    rounds = _ROUNDS
    if is_held_out.any():
        held_out = is_held_out[data.queries.query_of_row]
        trial = _Boosting(data, ~held_out, base, seed)
        rounds = _best_round(trial, cells, curve, held_out[cells.group])
    final = _Boosting(data, np.ones(data.n_rows, dtype=bool), base, seed)
    for _ in range(rounds):
        if not final.step(cells, curve):
            break
    return RelevanceModel(base, final.forest())


def learn_curve(data: RankingData, cells: Cells, seed: int = 0) -> tuple[Floats, Floats]:
    """Learn θ and γ in turn; return γ̂ of each cell, from queries other than its own, and θ."""
    half = np.random.default_rng(seed).permutation(data.n_queries) % 2
    side = half[data.queries.query_of_row]
    shows, clicks = cells.by_position()
    # The start takes all documents as equally relevant.
    rate = np.clip(clicks / shows, _FLOOR, 1.0)
    curve = rate / rate[0]
    base = _base(cells, curve)
    # The relevance of a half comes from the model of the other half.
    models = [_Boosting(data, side != s, base, seed) for s in (0, 1)]
    for _ in range(_ROUNDS):
        grown = [model.step(cells, curve) for model in models]
        F = np.where(side == 0, models[0].F, models[1].F)
        gamma = _sigmoid(F)[cells.group]
        curve = curve_given(cells, gamma, np.ones(len(gamma)))
        if not any(grown):
            break
    return gamma, curve


def curve_given(cells: Cells, gamma: Floats, weight: Floats) -> Floats:
    """Return θ for relevances and weights of cells."""
    clicks = sums_by(cells.position, weight * cells.clicks, cells.n_positions)
    expected = sums_by(cells.position, weight * (cells.shows * gamma), cells.n_positions)
    rate: Floats = np.maximum(clicks, _FLOOR) / np.maximum(expected, _FLOOR)
    curve: Floats = rate / rate[0]
    return curve


def take_rows(data: RankingData, rows: Integers) -> RankingData:
    """Return some rows of data, without weights and fields."""
    return data.with_rows(data.X[rows], data.y[rows], data.qid[rows], None, {})


class _Boosting:
    """Trees grown on some rows of data, and F of all rows."""

    def __init__(
        self, data: RankingData, is_inside: NDArray[np.bool_], base: float, seed: int
    ) -> None:
        self._parts = [np.flatnonzero(is_inside)]
        if not is_inside.all():
            self._parts.append(np.flatnonzero(~is_inside))
        sets = [take_rows(data, rows) for rows in self._parts]
        self._grower = load_engine("lightgbm").grower(Growth(sets, _OPTIONS, {}, seed, threads=1))
        self._grower.resume(0)
        self.F = np.full(data.n_rows, base)

    def step(self, cells: Cells, curve: Floats) -> bool:
        """Add a tree, or return False if no split improves the likelihood."""
        gamma = _sigmoid(self.F)[cells.group]
        p = np.minimum(curve[cells.position] * gamma, 1 - _FLOOR)
        score = (cells.clicks - cells.shows * p) * (1 - gamma) / (1 - p)
        information = cells.shows * p * (1 - gamma) ** 2 / (1 - p)
        inside = self._parts[0]
        gradient = sums_by(cells.group, score, len(self.F))[inside]
        curvature = sums_by(cells.group, information, len(self.F))[inside]
        # Growers minimise, so the gradient of the likelihood changes its sign.
        tree = self._grower.grow(
            (-gradient).astype(np.float32), np.maximum(curvature, _FLOOR).astype(np.float32)
        )
        if tree is None:
            return False
        values = _RATE * tree.values
        tree.set(values)
        for part, rows in enumerate(self._parts):
            self.F[rows] += values[tree.leaves(part)]
        return True

    def forest(self) -> Forest:
        """Return the trees."""
        return self._grower.forest()


def _base(cells: Cells, curve: Floats) -> float:
    """Return F of the mean relevance."""
    mean = np.clip(cells.clicks.sum() / (cells.shows @ curve[cells.position]), 0.01, 0.99)
    return float(np.log(mean / (1 - mean)))


def _best_round(model: _Boosting, cells: Cells, curve: Floats, tested: NDArray[np.bool_]) -> int:
    """Return the number of trees with the best likelihood of the tested cells."""
    clicks, shows = cells.clicks[tested], cells.shows[tested]
    best, best_round = -np.inf, 0
    for n_trees in range(1, _ROUNDS + 1):
        if not model.step(cells, curve) or n_trees - best_round > _PATIENCE:
            break
        rate = curve[cells.position] * _sigmoid(model.F)[cells.group]
        p = np.clip(rate[tested], _FLOOR, 1 - _FLOOR)
        reached = float((clicks * np.log(p) + (shows - clicks) * np.log1p(-p)).sum())
        if reached > best:
            best, best_round = reached, n_trees
    return best_round


def _sigmoid(z: Floats) -> Floats:
    values: Floats = 1 / (1 + np.exp(-z))
    return values
