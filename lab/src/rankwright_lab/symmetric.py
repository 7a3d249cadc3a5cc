"""Symmetric trees, as CatBoost grows them: all nodes of a level have the same split.

LightGBM and XGBoost cannot grow them, and CatBoost takes no gradients of a query: its pool keeps its targets, so each
tree would quantise the data again. So the laboratory has a compact grower, to tell what a paper's loss adds from what
its trees add. It is an engine like others, `Ranker(engine="symmetric")`, once this module is imported. A tree has
log2(num_leaves) levels. As in CatBoost, leaves need no number of rows, and missing values are below all numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankwright.data.bins import Bins, RowSample
from rankwright.data.dataset import RankingData
from rankwright.engines import ENGINES
from rankwright.engines.contract import Engine, Growth, Needs
from rankwright.engines.xgboost.forest import GrownTree, XGBoostForest
from rankwright.kernels.tree_arrays import AT_MOST, NAN_TO_DEFAULT, TreeArrays

Floats = NDArray[np.float64]
_LEAST_GAIN = (
    1e-9  # relative improvement of a level's score, below which a tree has no further level
)


class SymmetricTrees:
    """The engine; `rankwright.engines.contract.Engine` describes each name."""

    name = "symmetric"
    version = "1"
    file_name = "trees.json"
    several_machines = False

    def check(self, params: Mapping[str, Any], needs: Needs) -> list[str]:
        """Refuse parameters of a library, because there is none, and monotone constraints."""
        if needs.ordered:
            return ["engine='symmetric' has no monotone constraints; leave out monotone."]
        return [f"engine='symmetric' has no parameter {name!r}; leave it out." for name in params]

    def decided_options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Decide nothing."""
        return {}

    def grower(self, growth: Growth) -> Grower:
        """Prepare to grow trees."""
        return Grower(growth)

    def load(self, content: bytes) -> XGBoostForest:
        """Read a model file."""
        return XGBoostForest.load(content)

    def booster(self, content: bytes) -> XGBoostForest:
        """Return the forest itself, because there is no library."""
        return self.load(content)


class Grower:
    """Grows trees; `rankwright.engines.contract.Grower` describes each name."""

    def __init__(self, growth: Growth) -> None:
        train, options = growth.parts[0], growth.options
        if options["min_child_samples"] > 1 or options["max_depth"] > 0:
            raise ValueError(
                "engine='symmetric' limits neither rows of leaves nor depth; use min_child_samples=1, and num_leaves "
                "for the number of levels."
            )
        keys = np.repeat(train.queries.keys, train.queries.sizes)
        sample = RowSample.of(train.X, keys, threads=growth.threads)
        self._bins = Bins.of(sample, options["max_bin"], [])
        if train.categories:
            raise ValueError("engine='symmetric' is for numbers; leave categorical columns out.")
        self._codes = [_columns_of(self._bins, part) for part in growth.parts]
        self._levels = int(np.log2(options["num_leaves"]))
        self._ridge = float(options["reg_lambda"])
        self._shares = options["subsample"], options["colsample"]
        self._seed = growth.seed
        self._iteration = 0
        self._trees: list[_Tree] = []
        self._n_codes = self._bins.n_bins + 1  # with missing values
        self.can_split = bool(np.any(self._bins.n_bins + self._bins.has_missing > 1))
        self.draws = min(self._shares) < 1

    def resume(self, iteration: int) -> int:
        """Continue anywhere: a tree depends on nothing before it."""
        self._iteration, self._trees = iteration, []
        return iteration

    def grow(self, grad: NDArray[np.float32], hess: NDArray[np.float32]) -> _Tree | None:
        """Grow one tree, level by level."""
        random = np.random.default_rng([self._seed, self._iteration])
        self._iteration += 1
        row_share, column_share = self._shares
        n_columns, n_rows = self._codes[0].shape
        drawn = random.random(n_rows) < row_share
        columns = np.flatnonzero(random.random(n_columns) < column_share)
        g, h = np.where(drawn, grad, 0.0), np.where(drawn, hess, 0.0)
        leaf = np.zeros(n_rows, dtype=np.int64)
        splits: list[tuple[int, int, float]] = []
        score = _score(g, h, leaf, 1, self._ridge)
        for level in range(self._levels):
            column, last_code, found = best_split(
                self._codes[0], g, h, leaf, 1 << level, columns, self._n_codes, self._ridge
            )
            if column < 0 or found <= score * (1 + _LEAST_GAIN):
                break
            splits.append((column, last_code, found - score))
            score = found
            leaf = 2 * leaf + (self._codes[0][column] > last_code)
        if not splits:
            return None
        n_leaves = 1 << len(splits)
        sums = [np.bincount(leaf, values, n_leaves).astype(np.float64) for values in (g, h)]
        self._trees.append(_Tree(splits, sums, self._ridge, self._bins, self._codes))
        return self._trees[-1]

    def forest(self) -> XGBoostForest:
        """Return the trees since `resume`."""
        return XGBoostForest([tree.finished() for tree in self._trees], len(self._bins.edges))


class _Tree:
    """A grown tree: one split for each level."""

    def __init__(
        self,
        splits: list[tuple[int, int, float]],
        sums: list[Floats],
        ridge: float,
        bins: Bins,
        codes: list[NDArray[Any]],
    ) -> None:
        self._splits, self._codes = splits, codes
        grad, self._cover = sums
        curvature = self._cover + ridge
        self.values = np.divide(-grad, curvature, out=np.zeros_like(grad), where=curvature > 0)
        self.arrays = _arrays(splits, bins, self.values)

    def leaves(self, part: int) -> NDArray[np.int64]:
        """Read the leaf off the codes: one binary digit for each level."""
        codes = self._codes[part]
        leaf = np.zeros(codes.shape[1], dtype=np.int64)
        for column, last_code, _ in self._splits:
            leaf = 2 * leaf + (codes[column] > last_code)
        return leaf

    def set(self, values: Floats, gain_factor: float = 1.0) -> None:
        """Decide the leaf values and the scale of the gains."""
        gain = gain_factor * self.arrays.gain
        self.arrays = self.arrays._replace(value=np.array(values), gain=gain)

    def finished(self) -> GrownTree:
        """Return the tree with its values."""
        return GrownTree(self.arrays, self._cover)


def _arrays(splits: list[tuple[int, int, float]], bins: Bins, values: Floats) -> TreeArrays:
    """Write the levels as nodes: node 2^level - 1 + path, where a path has a binary digit for each level above."""
    sizes = [1 << level for level in range(len(splits))]
    columns, last_codes, gains = (np.array(part) for part in zip(*splits, strict=True))
    # Code 0 is for missing values, so that the first edge ends code 1.
    edges = [np.append(-np.inf, edges) for edges in bins.edges]
    thresholds = np.array(
        [edges[column][last] for column, last in zip(columns, last_codes, strict=True)]
    )
    first_child = np.arange(1, 2 * len(values) - 1, 2)
    n_nodes = len(values) - 1
    # Numbers past the last node are leaves.
    left, right = (
        np.where(child < n_nodes, child, ~(child - n_nodes)).astype(np.int32)
        for child in (first_child, first_child + 1)
    )
    return TreeArrays(
        feature=np.repeat(columns, sizes).astype(np.int32),
        threshold=np.repeat(thresholds, sizes),
        decision=np.full(n_nodes, AT_MOST, dtype=np.uint8),
        missing=np.full(n_nodes, NAN_TO_DEFAULT, dtype=np.uint8),
        default_left=np.ones(n_nodes, dtype=bool),
        left=left,
        right=right,
        categories=(np.empty(0, dtype=np.int64),) * n_nodes,
        value=values,
        gain=np.repeat(gains / sizes, sizes),
    )


def _columns_of(bins: Bins, data: RankingData) -> NDArray[Any]:
    """Return codes of all rows: 0 for a missing value, else the bin plus 1. Each column of the data is a row."""
    codes = bins.encode(data.X)
    codes += codes.dtype.type(
        1
    )  # the code of missing values is the largest number, which becomes 0
    return np.ascontiguousarray(codes.T)


def _score(g: Floats, h: Floats, leaf: NDArray[np.int64], n_leaves: int, ridge: float) -> float:
    """Return the sum of G^2 / (H + ridge) over the leaves."""
    grad, curvature = np.bincount(leaf, g, n_leaves), np.bincount(leaf, h, n_leaves) + ridge
    return float(np.sum(np.divide(grad**2, curvature, out=grad**2 * 0, where=curvature > 0)))


@njit(cache=True)
def best_split(
    codes: Any, g: Any, h: Any, leaf: Any, n_leaves: int, columns: Any, n_codes: Any, ridge: float
) -> tuple[int, int, float]:
    """Return the column and the last code on the left that are best for all leaves together, and their score."""
    best_column, best_code, best = -1, -1, -1.0
    sums = np.zeros((n_codes.max(), n_leaves, 2))
    for column in columns:
        sums[: n_codes[column]] = 0.0
        for row in range(len(leaf)):
            code = codes[column, row]
            sums[code, leaf[row], 0] += g[row]
            sums[code, leaf[row], 1] += h[row]
        all_sums = sums[: n_codes[column]].sum(axis=0)
        left = np.zeros((n_leaves, 2))
        for last_code in range(n_codes[column] - 1):
            score = 0.0
            for node in range(n_leaves):
                left[node] += sums[last_code, node]
                for grad, curvature in (
                    (left[node, 0], left[node, 1]),
                    (all_sums[node, 0] - left[node, 0], all_sums[node, 1] - left[node, 1]),
                ):
                    # A difference of sums may be a rounding error above 0 where no row is left.
                    if curvature + ridge > 1e-12:
                        score += grad * grad / (curvature + ridge)
            if score > best:
                best_column, best_code, best = column, last_code, score
    return best_column, best_code, best


ENGINE: Engine = SymmetricTrees()
ENGINES[ENGINE.name] = __name__
