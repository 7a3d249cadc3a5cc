"""The boosting loop: gradients in, trees out, with everything an engine leaves to us.

Scores are F = C G: G is the sum of the trees, and C is a common factor. With Langevin boosting (SGLB)

    F_{t+1} = (1 - gamma eps) F_t + eps tree(grad + noise)        noise std sqrt(2 hess / (eps T)) per document

shrinking all earlier trees is C_{t+1} = (1 - gamma eps) C_t, and the new tree is grown from the gradient divided by
C_{t+1}: leaf values are linear in the gradient, and the choice of splits does not depend on its scale. Gains of splits
are multiplied by C_{t+1}^2, as if the tree had been grown from the gradient itself.

A leaf divides the sum of grad + noise by the sum of hess, and Langevin dynamics need noise of the variance 2 P / beta
with the preconditioner P of the drift, here 1 / sum of hess. So a row's noise has a variance proportional to its
curvature, and a row without curvature has none. Leaves that are solved together get it from the diagonal curvature too.
As grad is summed over the N queries, training tends to exp(-beta L) with L the mean loss and beta = N T, where T is the
``diffusion_temperature``, counted as CatBoost does: the same T is colder on more data.

Reference: Ustimenko and Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting"; "StochasticRank"
paper, section 6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rankwright.data.bins import Bins
from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.engines.contract import Growth
from rankwright.evaluation.per_query import Evaluator
from rankwright.kernels.cholesky import solve_positive
from rankwright.kernels.compilation import compile_seconds
from rankwright.kernels.trees import add_leaf_values
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives.bound import BoundObjective, Point
from rankwright.support.reducer import ALONE, Reducer, addable, rounding
from rankwright.training.draws import DrawPurpose, QueryDraws
from rankwright.training.from_clicks import document_weights
from rankwright.training.grid import to_grid
from rankwright.training.position_bias import PositionBias
from rankwright.training.settings import Settings
from rankwright.training.state import Progress, State, timed
from rankwright.training.steering import agreement
from rankwright.training.stopping import Watch

Floats = NDArray[np.float64]
Leaves = NDArray[np.int64]

# On smaller data the threads of the gradient cost more than they gain: an engine's own, which wait for a while in a
# busy loop, are in their way.
ROWS_TO_SHARE = 50_000


class Boosting:
    """Trains a forest.

    Parameters
    ----------
    objective, metrics
        What to optimise, and what to evaluate, by name; the objective optimises the first.
    train, valid
        Data with the same columns. The training data may be among the evaluation sets and costs no second copy there.
    settings
        The rest.
    reducer
        Sums and maxima over all machines that train together, each with some of the queries.
    bins
        Edges of the bins that all of these machines agreed on; None if the engine chooses them.
    """

    def __init__(
        self,
        objective: Objective,
        metrics: dict[str, Metric],
        train: RankingData,
        valid: Sequence[RankingData],
        settings: Settings,
        reducer: Reducer = ALONE,
        bins: Bins | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.target = next(iter(metrics.values()))
        self.valid = valid
        self._reducer = reducer
        others = [data for data in valid if data is not train]
        self._parts = [train, *others]
        numbers = iter(range(1, len(self._parts)))
        self._part_of = [0 if data is train else next(numbers) for data in valid]
        self._n_rows = int(reducer.sum(np.array([float(train.n_rows)]))[0])
        self.queries = train.queries.grouped()
        self.draws = QueryDraws(self.queries, settings)
        self.gradient = BoundObjective(
            objective,
            train.labels,
            self.queries,
            self.target,
            seed=settings.seed,
            threads=settings.threads if train.n_rows >= ROWS_TO_SHARE else 1,
            weights=train.weights,
            pairs=train.pairs,
            inverse=document_weights(settings.propensity, train),
        )
        # Each iteration is done with its gradient before the next one starts, so all write into the same arrays.
        self._gradient_memory = np.empty(train.n_rows), np.empty(train.n_rows)
        self.bias = (
            None
            if settings.bias is None
            else PositionBias(settings.bias, train, self.gradient, reducer)
        )
        if (
            settings.full_leaves
        ):  # raises now, not after the first tree, where the objective or the weights forbid it
            self.gradient.leaf_system(
                np.zeros(train.n_rows), np.zeros(train.n_rows, dtype=np.int64), 1
            )
        self._evaluators = [self._evaluator(number) for number in range(len(valid))]
        self._watch = self._new_watch()
        self.grower = load_engine(settings.engine).grower(
            Growth(
                self._parts,
                settings.tree_options,
                settings.engine_params,
                settings.seed,
                settings.threads,
                reducer,
                bins,
            )
        )
        self._start = State()
        self._run: tuple[State, State] | None = (
            None  # where the trees of the grower start, and where training stands
        )

    def run(self, start: State, after: Callable[[Progress], bool]) -> None:
        """Train from ``start`` until done, stopped early, or ``after`` returns True or raises.

        Whatever ends the run, an interrupt anywhere included, `snapshot` returns the complete iterations.
        """
        if not start.history:
            start.history = [{name: [] for name in self.metrics} for _ in self.valid]
        self._start = start
        if start.finished or start.iteration >= self.settings.n_trees:
            return
        start = start.first(self.grower.resume(start.iteration))
        state = replace(start.first(start.iteration), forest=None)
        scores = self._scores_of(start)
        self._resume_watch(start)
        self._run = start, state  # in one step: an interrupt may hit between any two lines
        began, compiled = time.perf_counter(), compile_seconds()
        while state.iteration < self.settings.n_trees and not state.finished:
            self._iterate(state, scores)
            progress = Progress(
                iteration=state.iteration,
                n_estimators=self.settings.n_trees,
                done=state.iteration - start.iteration,
                history=state.history,
                seconds=time.perf_counter() - began,
                times=dict(state.times),
                compile_seconds=compile_seconds() - compiled,
            )
            if after(progress):
                break

    @property
    def iteration(self) -> int:
        """Number of complete iterations."""
        return (self._start if self._run is None else self._run[1]).iteration

    def snapshot(self) -> State:
        """Return the state after the complete iterations, with their trees."""
        if self._run is None:
            return self._start
        start, state = self._run
        forest = self.grower.forest()
        return state.first(
            state.iteration, forest if start.forest is None else start.forest.joined(forest)
        )

    def _scores_of(self, state: State) -> list[Floats]:
        if state.forest is None:
            return [np.zeros(part.n_rows) for part in self._parts]
        return [state.forest.predict(part.X, threads=self.settings.threads) for part in self._parts]

    def _iterate(self, state: State, scores: list[Floats]) -> None:
        settings, it = self.settings, state.iteration
        rate = state.rates[-1] if state.rates else settings.tree_options["learning_rate"]
        shrink = (
            1.0 - settings.langevin.shrink_rate * rate if settings.langevin is not None else 1.0
        )
        factor = state.factor * shrink
        agreed: float | None = None
        with timed(state.times, "gradients"):
            sums_leaves = settings.full_leaves or (self.bias is not None and self.bias.full)
            part = None if settings.full_leaves or self.bias is None else self.bias.part(it)
            biased = self._biased(state, scores[0])
            point = self.gradient.at(
                biased, it, leaves=sums_leaves, part=part, out=self._gradient_memory
            )
            subsample = self.draws.subsample(it)
            grad, hess = self._for_splits(it, point, subsample)
        with timed(state.times, "trees"):
            tree = self.grower.grow(
                self._on_grid(grad if factor == 1.0 else grad / factor), self._on_grid(hess)
            )
            del grad, hess  # on large data what follows is the peak of memory
            leaves = [] if tree is None else [tree.leaves(part) for part in range(len(scores))]
        if tree is not None:
            if settings.own_leaves:
                with timed(state.times, "leaves"):
                    values, agreed = self._leaf_values(
                        it, point, leaves[0], len(tree.values), subsample
                    )
                values *= rate / factor
            else:
                values = tree.values * rate
            with timed(state.times, "trees"):
                tree.set(values, gain_factor=factor**2)
                for part, leaf in enumerate(leaves):
                    add_leaf_values(0, len(leaf), leaf, values, scores[part])
        if self.bias is not None:
            with timed(state.times, "leaves"):
                earlier = np.array(state.biases[-1] if state.biases else [0.0] * self.bias.size)
                state.biases.append(self.bias.step(earlier, point, it, subsample).tolist())
        with timed(state.times, "evaluation"):
            self._evaluate(state, factor, scores)
        state.factors.append(factor)
        if settings.steering is not None:
            state.rates.append(rate if agreed is None else settings.steering.next(rate, agreed))
        finished = tree is None and not self._may_split_later(state)
        if settings.patience is not None:
            finished |= it + 1 - state.choices[it] >= settings.patience
        state.finished_after = it + 1 if finished else None
        state.trees.append(
            state.n_trees + (tree is not None)
        )  # the iteration is complete in this one step

    def _biased(self, state: State, scores: Floats) -> Floats:
        """Scores at which gradients are taken: of the trees, plus the bias of where documents were shown."""
        if state.factor == 1.0 and self.bias is None:
            return scores  # on large data a copy counts; they change only when the gradient is no longer used
        total = state.factor * scores
        if self.bias is not None and state.biases:
            total += self.bias.of_rows(np.array(state.biases[-1]))
        return total

    def _for_splits(self, it: int, point: Point, subsample: Floats | None) -> tuple[Floats, Floats]:
        """Gradient and curvature that splits are chosen by: with weights of queries, and with noise."""
        grad, hess = point.grad, point.hess
        if subsample is not None:
            rows = np.repeat(subsample, self.queries.sizes)
            grad *= rows
            hess *= rows
        weights = self.draws.bootstrap(it)
        if weights is not None:
            grad, hess = grad * weights, hess * weights
        if self.settings.langevin is not None:
            grad = grad + self.draws.noise(it, DrawPurpose.SPLIT_NOISE) * np.sqrt(hess)
        return grad, hess

    def _on_grid(self, values: Floats) -> NDArray[np.float32]:
        return to_grid(values, self._n_rows, self._reducer)

    def _leaf_values(
        self, it: int, point: Point, leaf: Leaves, n: int, subsample: Floats | None
    ) -> tuple[Floats, float | None]:
        """Newton's leaf values, all leaves solved together or each on its own with fresh noise, and their agreement."""
        settings, first = self.settings, self._reducer.first
        ridge = settings.tree_options["reg_lambda"]
        noise: Floats = np.zeros(n)
        if settings.langevin is not None:
            purpose = (
                DrawPurpose.LEAF_NOISE if settings.langevin.independent else DrawPurpose.SPLIT_NOISE
            )
            noise = self._sums(leaf, self.draws.noise(it, purpose) * np.sqrt(point.hess), n)
        if not settings.full_leaves:
            grad, hess = (self._sums(leaf, values, n) for values in (point.grad, point.hess))
            return -(grad + noise) / (hess + ridge), None
        # Leaves of the two halves are told apart by their numbers, so that one pass gives both systems.
        halves = 1 if settings.steering is None else 2
        if settings.steering is not None:
            shifted = np.repeat(n * self.draws.halves(it), self.queries.sizes)
            shifted += leaf
            leaf = shifted
        digits = self._rounding(point) if self._reducer.exact else (0.0, 0.0)
        g, between = point.leaf_system(leaf, halves * n, query_weight=subsample, rounding=digits)
        gradients = self._reducer.sum(g).reshape(halves, n)
        between = self._reducer.sum(between)
        curvatures = np.array(
            [between[i * n : (i + 1) * n, i * n : (i + 1) * n] for i in range(halves)]
        )
        total = curvatures.sum(axis=0) + ridge * np.eye(n)
        values: Floats = first(-solve_positive(total, gradients.sum(axis=0) + noise))
        if settings.steering is None:
            return values, None
        return values, float(first(np.array([agreement(gradients, curvatures, ridge)]))[0])

    def _sums(self, leaf: Leaves, values: Floats, n_leaves: int) -> Floats:
        """Sum values of rows by leaf, over all machines."""
        terms = addable(values, self._n_rows, self._reducer)
        return self._reducer.sum(np.bincount(leaf, terms, n_leaves).astype(np.float64, copy=False))

    def _rounding(self, point: Point) -> tuple[float, float]:
        """Roundings by which sums of the gradient and of the curvature are exact; totals are exact themselves."""
        sizes = [
            addable(np.abs(values), self._n_rows, self._reducer).sum()
            for values in (point.grad, point.hess)
        ]
        grad, hess = self._reducer.sum(np.array(sizes)).tolist()
        return rounding(grad), rounding(hess)

    def _may_split_later(self, state: State) -> bool:
        """Tell whether a later iteration may find a split where this one found none."""
        settings = self.settings
        if (
            len(state.biases) > 1 and state.biases[-1] != state.biases[-2]
        ):  # gradients at other scores
            return self.grower.can_split
        weighted = settings.subsample_queries < 1 or settings.bagging_temperature > 0
        drawn = weighted or self.grower.draws or settings.langevin is not None
        return self.grower.can_split and (drawn or self.gradient.objective.varies)

    def _evaluator(self, number: int) -> Evaluator | None:
        """Bind the metrics that are defined on an evaluation set; the user is warned of others once."""
        data = self.valid[number]
        if not data.labels:
            raise ValueError(
                f"eval_set[{number}] has no labels to evaluate with; give (X, y, qid), or leave it out."
            )
        bind = partial(
            Evaluator,
            data.labels,
            group=data.group,
            weights=data.weights,
            threads=self.settings.threads,
            reducer=self._reducer,
        )
        means = bind(metrics=list(self.metrics.values()))(np.zeros(data.n_rows)).mean
        defined = [metric for metric in self.metrics.values() if not math.isnan(means[str(metric)])]
        if number == 0 and self.settings.patience is not None and self.target not in defined:
            raise ValueError(
                f"early_stopping_rounds watches {self.target} on eval_set[0], where no query has a relevant document; "
                "give an evaluation set with relevant documents."
            )
        return bind(metrics=defined) if defined else None

    def _evaluate(self, state: State, factor: float, scores: list[Floats]) -> None:
        for number, evaluator in enumerate(self._evaluators):
            result = (
                None if evaluator is None else evaluator(factor * scores[self._part_of[number]])
            )
            means = {} if result is None else result.mean
            for name, curve in state.history[number].items():
                curve.append(means.get(str(self.metrics[name]), math.nan))
            if number == 0 and self._watch is not None and result is not None:
                name = str(self.target)
                choice, error = self._watch.see(
                    state.iteration + 1, result.per_query[name], means[name]
                )
                state.choices.append(choice)
                state.errors.append(error)

    def _new_watch(self) -> Watch | None:
        """Follow the first metric on the first evaluation set, if it decides where training ends."""
        evaluator = self._evaluators[0] if self._evaluators else None
        if self.settings.patience is None or evaluator is None:
            return None
        return Watch(
            self.settings.stopping_rule,
            higher_is_better=self.target.higher_is_better,
            weights=evaluator.weights,
            errors=self.settings.stopping_errors,
            reducer=self._reducer,
        )

    def _resume_watch(self, start: State) -> None:
        """Compute the values of the best iteration so far again, which the next ones are compared with."""
        self._watch, best = self._new_watch(), start.best(self.target) if start.choices else None
        evaluator = self._evaluators[0] if self._evaluators else None
        if self._watch is None or best is None or evaluator is None or start.forest is None:
            return
        part = self._parts[self._part_of[0]]
        scores = start.forest.predict(
            part.X, threads=self.settings.threads, stop=start.trees[best - 1]
        )
        result = evaluator(start.factors[best - 1] * scores)
        curve = next(iter(start.history[0].values()))
        self._watch.resume(result.per_query[str(self.target)], curve[best - 1], start.choices[-1])
