"""Trees from gradients, by XGBoost, on columns that are bins already.

The code relies on these facts, and a test holds each of them: XGBoost makes no bins of its own from bin numbers; a tree
depends on the gradients and on no earlier tree; if sums of gradients are exact, the numbers of threads and machines
change nothing; a column of weight 0 is not sampled. Rows and columns are sampled here, by (seed, iteration, query key),
so that a training can resume at any iteration.

XGBoost limits the curvature of leaves, not their rows. ``min_child_samples`` rows count as that many times the mean
curvature of the sampled rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rankwright.data.bins import Bins, RowSample
from rankwright.data.dataset import RankingData
from rankwright.data.on_disk import row_ranges
from rankwright.engines.contract import Growth
from rankwright.engines.gate import GATE, threads_for
from rankwright.engines.xgboost.binned import Layout
from rankwright.engines.xgboost.forest import GrownTree, XGBoostForest
from rankwright.engines.xgboost.parameters import MOST_BINS, check_columns, xgboost_parameters
from rankwright.engines.xgboost.tree import LeafFinder, read_tree
from rankwright.kernels.random import UNIFORM, Stream, fill_uniform, noise_by_query, stream_of
from rankwright.support.interrupts import deferred_interrupts
from rankwright.support.memory import release_memory

Floats = NDArray[np.float64]

# Weight of a sampled column, so large that no column of weight 0 comes before it.
_SAMPLED = np.float32(1e30)


class Grower:
    """Grows trees; `rankwright.engines.contract.Grower` describes each name."""

    def __init__(self, growth: Growth) -> None:
        train, options, params = growth.parts[0], growth.options, growth.params
        n_columns = len(train.feature_names)
        self.threads = threads_for(growth.threads, train.n_rows * n_columns)
        self._queries = train.queries
        self._seed = growth.seed
        self._reducer = growth.reducer
        self._subsample, self._colsample = options["subsample"], options["colsample"]
        self._least_rows = options["min_child_samples"]
        self._least_weight = float(params.get("min_child_weight", 0.0))
        self.draws = self._subsample < 1 or self._colsample < 1
        check_columns(params, train.feature_names)
        bins = growth.bins
        if bins is None:
            bins = _choose_bins(train, options["max_bin"], self.threads)
        _check_categories(bins, train.feature_names)
        release_memory()
        self._codes = [bins.encode(part.X, threads=self.threads) for part in growth.parts]
        self._layout = Layout(bins)
        self._n_features = n_columns
        self.can_split = self._layout.can_split
        column_of = self._layout.column_of.tolist()
        self._params = xgboost_parameters(
            options, params, train.feature_names, column_of, self.threads, growth.signs
        )
        self._trees: list[_Tree] = []
        self._iteration = 0
        if self.can_split:
            with _refusals(), GATE.calls_with(self.threads):
                self._matrix = _matrix_of(self._codes[0], self._layout, self.threads)
                self._booster = xgb.Booster(
                    self._params | {"max_bin": self._matrix_bins()}, [self._matrix]
                )

    def _matrix_bins(self) -> int:
        bins = self._layout.bins
        return int((bins.n_bins + bins.has_missing).max()) + 1

    def resume(self, iteration: int) -> int:
        """Continue anywhere: a tree depends on nothing before it."""
        self._iteration, self._trees = iteration, []
        return iteration

    def grow(self, grad: NDArray[np.float32], hess: NDArray[np.float32]) -> _Tree | None:
        """Grow one tree."""
        iteration, self._iteration = self._iteration, self._iteration + 1
        if not self.can_split:
            return None
        drawn = self._drawn_rows(iteration)
        if drawn is not None:
            grad, hess = np.where(drawn, grad, np.float32(0)), np.where(drawn, hess, np.float32(0))
        with _refusals(), GATE.calls_with(self.threads):
            least = {"min_child_weight": self._least_curvature(hess, drawn)}
            self._booster.set_param(least | self._draw_columns(iteration))
            rounds = self._booster.num_boosted_rounds()
            self._booster.boost(self._matrix, iteration=rounds, grad=grad, hess=hess)
            text = self._booster[rounds : rounds + 1].save_raw("json")
        found = read_tree(
            json.loads(bytes(text))["learner"]["gradient_booster"]["model"]["trees"][0],
            self._layout,
        )
        if found is None:
            return None
        tree, last_bin = found
        finder = LeafFinder(tree.arrays, last_bin, self._layout.bins.n_bins)
        self._trees.append(_Tree(tree, finder, self._codes, self.threads))
        return self._trees[-1]

    def _drawn_rows(self, iteration: int) -> NDArray[np.bool_] | None:
        """Return a mask of the rows to grow the tree from, or None for all."""
        if self._subsample >= 1:
            return None
        queries = self._queries
        draws = np.empty(queries.n_rows)
        stream = stream_of(self._seed, iteration, Stream.XGBOOST_ROWS)
        noise_by_query(
            0, queries.n_queries, queries.boundaries, queries.keys, UNIFORM, stream, 0, draws
        )
        drawn: NDArray[np.bool_] = draws < self._subsample
        return drawn

    def _least_curvature(self, hess: NDArray[np.float32], drawn: NDArray[np.bool_] | None) -> float:
        """Return the least curvature of a leaf: ``min_child_samples`` times the mean curvature of a row."""
        rows = len(hess) if drawn is None else np.count_nonzero(drawn)
        local = np.array([hess.sum(dtype=np.float64), float(rows)])
        curvature, n_rows = self._reducer.sum(local).tolist()
        return max(self._least_weight, float(self._least_rows * curvature / max(1.0, n_rows)))

    def _draw_columns(self, iteration: int) -> dict[str, float]:
        """Give weights to the sampled columns, and return the parameter that decides their number."""
        if self._colsample >= 1:
            return {}
        bins = self._layout.bins
        usable = np.flatnonzero(bins.n_bins + bins.has_missing > 1)
        draws = np.empty(self._n_features + 1)
        fill_uniform(
            draws,
            self._n_features,
            stream_of(self._seed, iteration, Stream.XGBOOST_COLUMNS),
            np.uint64(0),
            0,
        )
        n_sampled = max(1, round(self._colsample * len(usable)))
        sampled = usable[np.argsort(draws[usable], kind="stable")[:n_sampled]]
        is_sampled = np.isin(self._layout.column_of, sampled)
        weights = np.where(is_sampled, _SAMPLED, np.float32(0))
        self._matrix.set_info(feature_weights=weights)
        return {"colsample_bytree": (np.count_nonzero(weights) + 0.5) / len(weights)}

    def forest(self) -> XGBoostForest:
        """Return the trees since `resume`."""
        return XGBoostForest([tree.finished() for tree in self._trees], self._n_features)


class _Tree:
    """A grown tree, which finds the leaves of rows by their bins."""

    def __init__(
        self, tree: GrownTree, finder: LeafFinder, codes: Sequence[NDArray[Any]], threads: int
    ) -> None:
        self.values, self.arrays = tree.arrays.value, tree.arrays
        self._tree = self._finished = tree
        self._finder = finder
        self._codes = codes
        self._threads = threads

    def leaves(self, part: int) -> NDArray[np.int64]:
        """Walk down by bins."""
        return self._finder.leaves(self._codes[part], self._threads)

    def set(self, values: Floats, gain_factor: float = 1.0) -> None:
        """Decide the leaf values and the scale of the gains."""
        arrays = self._tree.arrays._replace(
            value=np.array(values), gain=gain_factor * self._tree.arrays.gain
        )
        self._finished = self._tree._replace(arrays=arrays)

    def finished(self) -> GrownTree:
        """Return the tree with its values."""
        return self._finished


class _Blocks(xgb.DataIter):
    """Rows for XGBoost's matrix, block by block, because they take more memory with its columns.

    Parameters
    ----------
    codes
        The bins.
    layout
        XGBoost's columns.
    kinds
        XGBoost's type of each of them.
    """

    def __init__(self, codes: NDArray[Any], layout: Layout, kinds: list[str]) -> None:
        super().__init__()
        self._codes, self._layout, self._kinds = codes, layout, kinds
        self.reset()

    def reset(self) -> None:
        """Start again with the first block: XGBoost asks for all rows several times."""
        self._ranges = row_ranges(self._codes)

    def next(self, input_data: Callable[..., Any]) -> bool:
        """Hand over one block; return False after the last."""
        rows = next(self._ranges, None)
        if rows is None:
            return False
        input_data(data=self._layout.columns(self._codes[rows]), feature_types=self._kinds)
        return True


def _matrix_of(codes: NDArray[Any], layout: Layout, threads: int) -> xgb.QuantileDMatrix:
    """Build XGBoost's matrix from bins. The bin numbers are its bins too: it finds no edges of its own."""
    values, kinds = layout.values()
    options: dict[str, Any] = {
        "enable_categorical": True,
        "max_bin": len(values) + 1,
        "nthread": threads,
    }
    reference = xgb.QuantileDMatrix(values, feature_types=kinds, **options)
    # An interrupt in the middle of the rows would make XGBoost take the rows so far for all.
    with deferred_interrupts():
        blocks = _Blocks(codes, layout, kinds)
        return xgb.QuantileDMatrix(blocks, ref=reference, **options)


def _choose_bins(train: RankingData, max_bin: int, threads: int) -> Bins:
    keys = np.repeat(train.queries.keys, train.queries.sizes)
    categorical = [train.feature_names.index(name) for name in train.categories]
    return Bins.of(RowSample.of(train.X, keys, threads=threads), max_bin, categorical)


def _check_categories(bins: Bins, names: Sequence[str]) -> None:
    column = int(bins.n_bins.argmax())
    if bins.n_bins[column] > MOST_BINS:
        raise ValueError(
            f"the column {names[column]!r} has {bins.n_bins[column]} categories, and XGBoost keeps a sum "
            f"for each: at most {MOST_BINS} are possible. Join the rare ones, or leave the column out."
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except xgb.core.XGBoostError as error:
        first = str(error).split("\n")[0]
        if (
            xgb.collective.is_distributed()
        ):  # it accepted the data, so what fails later is the network
            raise ConnectionError(
                f"XGBoost could not grow a tree with the other machines: {first}"
            ) from None
        raise ValueError(f"XGBoost refuses the data or engine_params: {first}") from None
