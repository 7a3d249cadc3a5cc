"""Trees from gradients, by LightGBM.

Only LightGBM's public interface is used. The code relies on these facts, and a test holds each of them: the trained
scores equal the sum of the trees' outputs bit by bit; the number of threads changes nothing if sums of gradients are
exact; the rows and columns that a tree is grown from depend on the number of trees before it, but not on their
gradients.

LightGBM cannot return the leaf of each training row. It keeps a score of each row, the sum of its trees. A score
changes by the value of the row's leaf, so the leaf is found from the change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.matrices import Matrix
from rankwright.data.on_disk import is_on_disk
from rankwright.engines.contract import Growth
from rankwright.engines.gate import GATE, threads_for
from rankwright.engines.lightgbm.forest import LightGBMForest, tree_values
from rankwright.engines.lightgbm.parameters import (
    SEEDS,
    checked_columns,
    lightgbm_parameters,
    samples_at_nodes,
)
from rankwright.kernels.threads import equal_ranges, run_ranges
from rankwright.kernels.tree_arrays import TreeArrays
from rankwright.kernels.trees import leaves_by_change
from rankwright.support.memory import release_memory

Floats = NDArray[np.float64]

# Sampling starts afresh with each block of trees. A training that resumes within a block skips the samples of its trees
# so far, which takes up to a third of the time of growing them, or repeats the trees if samples depend on them.
BLOCK, BLOCK_TO_REPEAT = 500, 20
ROWS_TO_SAMPLE = 200_000  # LightGBM's default number of rows that bins are chosen from
_ROWS_PER_THREAD = 100_000  # of a look-up: fewer are done before another thread has started


class Grower:
    """Grows trees; `rankwright.engines.contract.Grower` describes each name."""

    def __init__(self, growth: Growth) -> None:
        train, options = growth.parts[0], growth.options
        self.threads = threads_for(growth.threads, train.n_rows * len(train.feature_names))
        params = checked_columns(growth.params, len(train.feature_names), _most_leaves(options))
        self._seed = growth.seed
        self._params = rows_to_sample(train) | lightgbm_parameters(
            options, params, self.threads, growth.signs
        )
        if is_on_disk(train.X):
            # Otherwise LightGBM makes a second copy of the bins, by rows, to see which copy is faster. Rows are on the
            # disk because memory is short. The trees are the same.
            self._params["force_col_wise"] = True
        self._repeats = samples_at_nodes(params)
        self.draws = options["subsample"] < 1 or options["colsample"] < 1 or self._repeats
        self._block = BLOCK_TO_REPEAT if self._repeats else BLOCK
        self._names = plain_names(train.feature_names)
        self._categorical = [train.feature_names.index(name) for name in train.categories]
        self._matrices = [part.X for part in growth.parts]
        with _refusals(), GATE.calls_with(self.threads):
            set_threads(self.threads)
            self._sets = [self._training_set(train.X)]
            self._sets += [self._further_set(X) for X in self._matrices[1:]]
        # LightGBM refuses data in which no column can be split: all are constant, or leaves must be too large.
        self.can_split = any(
            self._sets[0].feature_num_bin(column) > 1 for column in range(len(self._names))
        )
        self._iteration = self._resumed_at = 0
        self._finished: LightGBMForest | None = None  # trees of the blocks before
        self._booster: lgb.Booster | None = None  # of this block
        self._trees: list[_Tree] = []  # of this block
        self._newest: _Tree | None = None  # which still knows the leaves of rows
        self._scores: list[Floats] = []  # of each part before the newest tree
        self._largest = 0.0  # no score is larger

    def _training_set(self, X: Matrix) -> lgb.Dataset:
        """Choose bins, and keep the rows as bins."""
        params = {k: v for k, v in self._params.items() if k not in ("objective", "metric")}
        params["data_random_seed"] = self._seed % 2**31
        return self._constructed(X, params, None)

    def _further_set(self, X: Matrix) -> lgb.Dataset:
        """Keep rows as the bins of the training set."""
        # The training set does not state the number of threads, and without it all cores would be used.
        params = {**self._sets[0].get_params(), "num_threads": self.threads}
        return self._constructed(X, params, self._sets[0])

    def _constructed(
        self, X: Matrix, params: dict[str, Any], reference: lgb.Dataset | None
    ) -> lgb.Dataset:
        dataset = lgb.Dataset(
            X,
            np.zeros(X.shape[0], dtype=np.float32),
            reference=reference,
            feature_name=self._names,
            categorical_feature=self._categorical,
            params=params,
            free_raw_data=False,
        ).construct()
        release_memory()
        return dataset

    def resume(self, iteration: int) -> int:
        """Skip the samples of the trees so far, or return to the start of their block if samples depend on trees."""
        self._iteration = iteration - iteration % self._block if self._repeats else iteration
        self._resumed_at = self._iteration
        self._finished, self._trees, self._newest = None, [], None
        self._start_block(skip=self._iteration % self._block if self.draws else 0)
        return self._iteration

    def _start_block(self, skip: int = 0) -> None:
        """Start a booster whose sampling depends on (seed, block), after the samples of ``skip`` trees."""
        self._scores, self._largest = [np.zeros(dataset.num_data()) for dataset in self._sets], 0.0
        if not self.can_split:
            return
        block = self._iteration // self._block
        words = np.random.SeedSequence([self._seed % 2**63, block]).generate_state(
            len(SEEDS), np.uint32
        )
        seeds = {name: int(word >> 2) for name, word in zip(SEEDS, words, strict=True)}
        del seeds["data_random_seed"]  # bins are made once
        with _refusals(), GATE.calls_with(self.threads):
            self._booster = lgb.Booster(self._params | seeds, self._sets[0])
            for number, dataset in enumerate(self._sets[1:], start=1):
                self._booster.add_valid(dataset, f"part {number}")
        nothing = np.zeros(self._sets[0].num_data(), dtype=np.float32)
        for _ in range(skip):
            # Each call passes the gate alone, so that Ctrl-C need not wait for all of them.
            with GATE.calls_with(self.threads):
                # Without gradients LightGBM draws a sample, and finds no split.
                self._booster.update(fobj=lambda *_: (nothing, nothing))

    def grow(self, grad: NDArray[np.float32], hess: NDArray[np.float32]) -> _Tree | None:
        """Grow one tree."""
        if self._newest is not None:
            self._newest.add_to_scores()
            self._newest = None
        if self.draws and self._iteration % self._block == 0 and self._iteration > self._resumed_at:
            self._finished, self._trees = self.forest(), []
            self._start_block()
        self._iteration += 1
        if self._booster is None:
            return None
        with _refusals(), GATE.calls_with(self.threads):
            finished = self._booster.update(fobj=lambda *_: (grad, hess))
        if finished:
            return None
        # The number of a tree is not that of the iteration: LightGBM keeps a first tree without a split.
        self._newest = _Tree(
            self._booster, self._matrices, self._scores, self._largest, self.threads
        )
        self._largest = self._newest.largest
        self._trees.append(self._newest)
        return self._newest

    def forest(self) -> LightGBMForest:
        """Return the trees since `resume`."""
        if self._booster is None:
            block = LightGBMForest.of_text(_text_without_trees(self._names))
        else:
            block = LightGBMForest.of_text(str(self._booster.model_to_string(num_iteration=-1)))
            block = block.finished(
                (tree.number, tree.final_values, tree.gain_factor) for tree in self._trees
            )
        return block if self._finished is None else self._finished.joined(block)


class _Tree:
    """The newest tree. Once another tree is grown, only its number and the values that were set are of use."""

    def __init__(
        self,
        booster: lgb.Booster,
        matrices: Sequence[Any],
        before: Sequence[Floats],
        largest: float,
        threads: int,
    ) -> None:
        self.number = int(booster.current_iteration()) - 1
        text = booster.model_to_string(start_iteration=self.number, num_iteration=1)
        self.values = self.final_values = tree_values(text)
        self.gain_factor = 1.0
        self._booster: lgb.Booster | None = booster
        self._matrices = matrices
        self._before = before
        # No score is larger after this tree.
        self.largest = largest + float(np.abs(self.values).max())
        self._threads = threads

    @property
    def arrays(self) -> TreeArrays:
        """The splits, read from the text of this tree."""
        assert self._booster is not None, "only the newest tree can be read"
        text = self._booster.model_to_string(start_iteration=self.number, num_iteration=1)
        return next(LightGBMForest.of_text(text).trees())

    def set(self, values: Floats, gain_factor: float = 1.0) -> None:
        """Decide the leaf values and the scale of the gains; they are written when the forest is asked for."""
        self.final_values, self.gain_factor = np.array(values), gain_factor

    def leaves(self, part: int) -> NDArray[np.int64]:
        """Look up the change of each score among the sorted leaf values.

        If two values are too close to tell apart, LightGBM predicts the leaves instead.
        """
        order = np.argsort(self.values)
        ranked = self.values[order]
        gap = np.min(np.diff(ranked)) if len(ranked) > 1 else np.inf
        if gap <= 1e-12 * max(1.0, self.largest):
            return self._predicted_leaves(part)
        before, middle = self._before[part], (ranked[1:] + ranked[:-1]) / 2
        leaves = np.empty(len(before), dtype=np.int64)
        n_threads = min(self._threads, 1 + len(before) // _ROWS_PER_THREAD)

        def look_up(after: Floats) -> None:
            find = partial(
                leaves_by_change,
                before=before,
                after=after,
                middle=middle,
                leaf_at=order,
                out=leaves,
            )
            run_ranges(find, equal_ranges(len(before), n_threads))

        self._see_scores(part, look_up)
        return leaves

    def _predicted_leaves(self, part: int) -> NDArray[np.int64]:
        assert self._booster is not None
        options: dict[str, Any] = {
            "start_iteration": self.number,
            "num_iteration": 1,
            "num_threads": self._threads,
        }
        with GATE.calls_with(self._threads):
            leaves = self._booster.predict(self._matrices[part], pred_leaf=True, **options)
        return np.asarray(leaves).reshape(-1).astype(np.int64)

    def _see_scores(self, part: int, see: Callable[[Floats], None]) -> None:
        """Call ``see`` with LightGBM's own array of the scores of a part with this tree; it must not be kept."""
        assert self._booster is not None, "only the newest tree knows the leaves of rows"
        parts = iter([0] if part == 0 else range(1, len(self._matrices)))

        def show(scores: Floats, _: lgb.Dataset) -> tuple[str, float, bool]:
            if next(parts) == part:
                see(scores)
            return "seen", 0.0, True

        (self._booster.eval_train if part == 0 else self._booster.eval_valid)(feval=show)

    def add_to_scores(self) -> None:
        """Replace the scores of all parts before this tree by the scores with it, and release the booster."""
        for part, before in enumerate(self._before):
            self._see_scores(part, partial(np.copyto, before))
        self._booster, self._before = None, ()


def _most_leaves(options: Mapping[str, Any]) -> int:
    n_leaves, depth = int(options["num_leaves"]), options["max_depth"]
    has_limit = 0 < depth < 31  # with more levels 2**depth is beyond LightGBM's whole numbers
    return min(n_leaves, 2**depth) if has_limit else n_leaves


def rows_to_sample(train: RankingData) -> dict[str, int]:
    """Return how many rows LightGBM chooses bins from, if these are fewer than by default.

    With features within the query fewer rows are used, so that LightGBM sorts as many values as without them.
    """
    n_columns = len(train.feature_names)
    n_drawn = ROWS_TO_SAMPLE * (n_columns - train.n_derived) // n_columns
    if n_drawn >= min(train.n_rows, ROWS_TO_SAMPLE):
        return {}
    return {"bin_construct_sample_cnt": n_drawn}


def set_threads(threads: int) -> None:
    """Set LightGBM's number of threads, in a block of `GATE` for that number.

    A data set that is made by reference to another one takes the number of threads of the last call. If that were not
    the number of the gate, another call that passes it could change the number before the rows are there, and LightGBM
    would write out of bounds, because it has buffers for as many threads as there were at first.
    """
    params = {"num_threads": threads, "min_data_in_leaf": 1, "min_data_in_bin": 1, "verbosity": -1}
    lgb.Dataset(np.array([[0.0], [1.0]]), params=params).construct()


def plain_names(names: Sequence[str]) -> list[str]:
    """Return names without the signs that LightGBM's text cannot hold; the manifest has the real names."""
    plain = [re.sub(r"[^\w.+-]", "_", name) or "_" for name in names]
    taken: set[str] = set()
    for number, name in enumerate(plain):
        while plain[number] in taken:
            plain[number] = f"{name}_{number}"
            name = plain[number]
        taken.add(plain[number])
    return plain


def _text_without_trees(names: list[str]) -> str:
    rows = np.array([[0.0], [1.0]]).repeat(len(names), axis=1)
    params = {
        "objective": "none",
        "verbosity": -1,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "num_threads": 1,
    }
    with GATE.calls_with(1):
        booster = lgb.Booster(
            params, lgb.Dataset(rows, np.zeros(2), feature_name=names, params=params)
        )
    return str(booster.model_to_string())


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except lgb.basic.LightGBMError as error:
        raise ValueError(f"LightGBM refuses the data or engine_params: {error}") from None
