"""Scores and SHAP values from packed trees, for the forests of every engine and without any engine's library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import dense_blocks, is_sparse
from rankwright.kernels.threads import equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import PackedTrees, TreeArrays, depth, pack

if TYPE_CHECKING:
    from rankwright.kernels.shap import Covers

# SHAP values take time and memory with the square of the number of nodes from the root to a leaf.
DEEPEST_EXPLAINED = 1024
_VISITS_PER_THREAD = 200_000  # rows times trees: fewer are done before another thread has started
_ROWS_AT_ONCE = 4096


class PackedForest(ABC):
    """The part of a forest that is the same for all engines, computed from the plain arrays of its trees."""

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """Number of trees."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns."""

    @abstractmethod
    def trees(self) -> Iterator[TreeArrays]:
        """Yield each tree as plain arrays."""

    @abstractmethod
    def leaf_covers(self) -> Iterator[NDArray[np.float64]]:
        """Yield the training rows in each leaf, or the sum of their curvature, tree by tree."""

    @cached_property
    def packed(self) -> PackedTrees:
        """The trees in one set of arrays, every tree checked."""
        return pack(self.trees(), self.n_features)

    def predict(
        self,
        X: Any,
        *,
        threads: int = 1,
        start: int = 0,
        stop: int | None = None,
        initial: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Add the trees [start, stop) to an initial score of each row, 0 by default."""
        last = self.n_trees if stop is None else stop
        return score(self.packed, X, start, last, threads, initial)

    def contributions(self, X: Any, *, threads: int = 1) -> NDArray[np.float64]:
        """Exact SHAP values [rows, columns + 1], the last column the expected value."""
        from rankwright.kernels.shap import add_shap_values

        levels = depth(self.packed)
        if levels > DEEPEST_EXPLAINED:
            raise ValueError(
                f"SHAP values need trees of at most {DEEPEST_EXPLAINED} levels; "
                f"the model has one of {levels}."
            )
        out = np.zeros((X.shape[0], self.n_features + 1))
        for rows, block in dense_blocks(X, _ROWS_AT_ONCE):
            add = partial(
                add_shap_values,
                X=np.ascontiguousarray(block, dtype=np.float64),
                trees=self.packed,
                covers=self._covers,
                levels=levels,
                out=out[rows],
            )
            run_ranges(add, equal_ranges(len(block), threads))
        return out

    @cached_property
    def _covers(self) -> Covers:
        from rankwright.kernels.shap import Covers

        return Covers.of_leaves(self.packed, np.concatenate([*self.leaf_covers(), np.empty(0)]))

    def importances(self, kind: str) -> NDArray[np.float64]:
        """Total gain (``"gain"``) or number of splits (``"split"``) of each column."""
        sums = np.zeros(self.n_features)
        for tree in self.trees():
            np.add.at(sums, tree.feature, tree.gain if kind == "gain" else 1.0)
        return sums


def score(
    trees: PackedTrees,
    X: Any,
    start: int,
    stop: int,
    threads: int,
    initial: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Add the trees [start, stop) to an initial score of each row, 0 by default.

    The bits are the same for any number of threads.
    """
    from rankwright.kernels.trees import score_rows

    out = np.zeros(X.shape[0]) if initial is None else initial.copy()
    if is_sparse(X):
        for rows, block in dense_blocks(X, _ROWS_AT_ONCE):
            out[rows] = score(trees, block, start, stop, threads, out[rows])
        return out
    n_threads = min(threads, 1 + len(out) * (stop - start) // _VISITS_PER_THREAD)
    dense = np.ascontiguousarray(X)
    if dense.dtype not in (np.float32, np.float64):
        dense = dense.astype(np.float64)
    if len(out):
        scoring = partial(score_rows, X=dense, trees=trees, first=start, last=stop, out=out)
        run_ranges(scoring, equal_ranges(len(out), n_threads))
    return out
