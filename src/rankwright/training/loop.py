"""The boosting loop: gradients in, trees out, with everything that an engine leaves to the loop.

Scores are F = B + C G: B is the base score of each row, 0 unless scores to start from are given, G
is the sum of the trees, and C is a common factor. With Langevin boosting (SGLB)

    f_{t+1} = (1 - gamma eps) f_t + eps tree(grad + noise)    noise std sqrt(2 hess / (eps T)) per row

for f = C G, shrinking all earlier trees is C_{t+1} = (1 - gamma eps) C_t. Base scores are not
shrunk: shrinking regularises what the trees learn, and base scores are data. The new tree is grown
from the gradient divided by C_{t+1}, because leaf values are linear in the gradient, and the choice
of splits does not depend on its scale. Gains of splits are multiplied by C_{t+1}^2, as if the tree
had been grown from the gradient itself.

A leaf divides the sum of grad + noise by the sum of hess. Langevin dynamics need noise of the
variance 2 P / beta with the preconditioner P of the drift, here 1 / sum of hess. So the variance of
a row's noise is proportional to its curvature, and a row without curvature has none. Leaves that
are solved together get their noise from the diagonal curvature too. Because grad is summed over the
N queries, training tends to exp(-beta L) with L the mean loss and beta = N T. T is the
``temperature``, counted as CatBoost does: the same T is colder on more data.

Reference: Ustimenko and Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting";
"StochasticRank" paper, section 6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.queries import Queries
from rankwright.engines import load_engine
from rankwright.engines.contract import Growth
from rankwright.evaluation.per_query import Evaluator
from rankwright.kernels.arithmetic import round_to
from rankwright.kernels.cholesky import solve_positive
from rankwright.kernels.jit import compile_seconds
from rankwright.kernels.random import GAUSSIAN, Stream, noise_by_query, stream_of, uniform_by_key
from rankwright.kernels.trees import add_leaf_values
from rankwright.objectives.bound import BoundObjective, Point
from rankwright.support.reducer import ALONE, Reducer, addable, rounding
from rankwright.training.plan import Plan
from rankwright.training.state import Progress, State, timed, total_scores
from rankwright.training.steering import agreement
from rankwright.training.stopping import Watch

if TYPE_CHECKING:
    from rankwright.data.bins import Bins
    from rankwright.kernels.tree_arrays import TreeArrays
    from rankwright.training.bias import BiasSolver
    from rankwright.training.monotone import Solve

Floats = NDArray[np.float64]
Leaves = NDArray[np.int64]

# On smaller data the threads of the gradient cost more than they gain, because the engine's own
# threads wait for a while in a busy loop and are in their way.
ROWS_TO_SHARE = 50_000

# Sums and squares of larger gradients leave the range of float32.
_LARGEST_GRADIENT = 1e30


class QueryDraws:
    """Random draws for the queries of a training set, by (seed, iteration, query key) alone."""

    def __init__(self, queries: Queries, plan: Plan) -> None:
        self._queries = queries
        self._plan = plan

    def subsample(self, iteration: int) -> Floats | None:
        """1 for queries that take part and 0 for others [queries], or None if all take part."""
        share = self._plan.subsample_queries
        if share >= 1:
            return None
        return (self._uniform(iteration, Stream.SUBSAMPLE) < share).astype(np.float64)

    def bootstrap(self, iteration: int) -> Floats | None:
        """Weight of each row's query when a tree is grown [rows], or None if all weigh the same.

        At temperature 1 this is the Bayesian bootstrap.
        """
        temperature = self._plan.bagging_temperature
        if not temperature:
            return None
        # The logarithm of a uniform draw is exponential, and the Bayesian bootstrap weighs queries
        # by exponential draws.
        weights = (-np.log(self._uniform(iteration, Stream.BOOTSTRAP))) ** temperature
        return np.repeat(weights, self._queries.sizes)

    def halves(self, iteration: int) -> NDArray[np.int64]:
        """Half of each query, 0 or 1 [queries]."""
        return (self._uniform(iteration, Stream.HALVES) < 0.5).astype(np.int64)

    def noise(self, iteration: int, stream: Stream) -> Floats:
        """Langevin noise of each row [rows], with standard deviation sqrt(2 / (rate * temperature)).

        This is the noise of a row of curvature 1: the caller multiplies it by the square root of
        the curvature.
        """
        langevin = self._plan.langevin
        assert langevin is not None
        queries = self._queries
        noise = np.empty(queries.n_rows)
        key = stream_of(self._plan.seed, iteration, stream)
        # Draws depend on the keys of queries, so they do not depend on the order of queries or on
        # the machine that has them.
        noise_by_query(
            0, queries.n_queries, queries.boundaries, queries.keys, GAUSSIAN, key, 0, noise
        )
        noise *= math.sqrt(2.0 / (self._plan.first_rate * langevin.temperature))
        return noise

    def _uniform(self, iteration: int, stream: Stream) -> Floats:
        draws = np.empty(self._queries.n_queries)
        uniform_by_key(self._queries.keys, stream_of(self._plan.seed, iteration, stream), 0, draws)
        return draws


def to_grid(values: Floats, n_rows: int, reducer: Reducer) -> NDArray[np.float32]:
    """Round to whole multiples of a small unit, so that an engine's sums in doubles are exact.

    Exact sums do not depend on their order: trees are the same for any number of threads, and
    whichever way the engine builds its histograms. The unit is 2^-28 of the largest value, or as
    fine as the number of rows on all machines allows.
    """
    largest = float(reducer.max(np.array([np.abs(values).max()]))[0])
    # The comparison is false for NaN too.
    if not largest <= _LARGEST_GRADIENT:
        raise ValueError(
            f"a gradient or curvature is {largest:.3g}, more than an engine's numbers of 32 bits "
            "can hold; use smaller weights or factors of the objective, best around 1."
        )
    # A double has 53 bits, so a sum of n rows is exact if each row uses about log2(n) bits fewer.
    bits = min(28, 51 - int(np.ceil(np.log2(n_rows))))
    unit = 1.0
    if largest > 0:
        unit = 2.0 ** (np.floor(np.log2(largest)) + 1 - bits)
    rounded = np.empty(len(values), dtype=np.float32)
    round_to(values, unit, rounded)
    return rounded


class Boosting:
    """Trains a forest.

    Parameters
    ----------
    plan
        The plan, with the settings that the data decides filled in.
    train, valid
        Data with the same columns. The training data may be among the evaluation sets and costs no
        second copy there.
    reducer
        Sums and maxima over all machines that train together, each with some of the queries.
    bins
        Edges of the bins that all of these machines agreed on; None if the engine chooses them.
    """

    def __init__(
        self,
        plan: Plan,
        train: RankingData,
        valid: Sequence[RankingData],
        reducer: Reducer = ALONE,
        bins: Bins | None = None,
    ) -> None:
        self.plan = plan
        self.valid = valid
        self._reducer = reducer
        self._parts = [train]
        self._part_of = []
        for data in valid:
            if data is train:
                self._part_of.append(0)
            else:
                self._part_of.append(len(self._parts))
                self._parts.append(data)
        self._base = [plan.base_scores(part) for part in self._parts]
        self._n_rows = int(reducer.sum(np.array([float(train.n_rows)]))[0])
        self.queries = train.queries.grouped()
        self.draws = QueryDraws(self.queries, plan)
        self.gradient = self._bound_objective(train)
        # Each iteration is done with its gradient before the next iteration starts, so all
        # iterations write into the same arrays.
        self._gradient_memory = np.empty(train.n_rows), np.empty(train.n_rows)
        self.bias = self._position_bias(train)
        if plan.full_leaves:
            # Raises now, not after the first tree, if the objective or the weights forbid it.
            leaf = np.zeros(train.n_rows, dtype=np.int64)
            self.gradient.leaf_system(np.zeros(train.n_rows), leaf, 1)
        self._evaluators = [self._evaluator(number) for number in range(len(valid))]
        self._watch = self._new_watch()
        self._signs = self._column_signs()
        growth = Growth(
            self._parts,
            asdict(plan.tree_options),
            plan.engine_params,
            plan.seed,
            plan.threads,
            reducer,
            bins,
            self._signs,
        )
        self.grower = load_engine(plan.engine).grower(growth)
        self._start = State()
        # The state that the grower's trees start from, and the state of the training.
        self._run: tuple[State, State] | None = None

    def _bound_objective(self, train: RankingData) -> BoundObjective:
        plan = self.plan
        return BoundObjective(
            plan.objective,
            train.labels,
            self.queries,
            plan.target,
            seed=plan.seed,
            threads=plan.threads if train.n_rows >= ROWS_TO_SHARE else 1,
            weights=train.weights,
            pairs=train.pairs,
            inverse=plan.inverse_propensities(train),
        )

    def _column_signs(self) -> tuple[int, ...]:
        """Return the monotone constraint of each column; none without constraints."""
        if not self.plan.monotone:
            return ()
        from rankwright.training.monotone import column_signs

        return column_signs(self.plan.monotone, self._parts[0], self._reducer)

    def _ordered_solver(self, tree: TreeArrays) -> Solve:
        from rankwright.training.monotone import solver

        return solver(tree, self._signs)

    def _position_bias(self, train: RankingData) -> BiasSolver | None:
        if not self.plan.bias.columns:
            return None
        from rankwright.training.bias import BiasSolver

        return BiasSolver(self.plan.bias, train, self.gradient, self._reducer)

    def run(self, start: State, after: Callable[[Progress], bool]) -> None:
        """Train from ``start`` until done, stopped early, or ``after`` returns True or raises.

        Whatever ends the run, for example an interrupt anywhere, `snapshot` returns the complete
        iterations.
        """
        if not start.history:
            start.history = [{name: [] for name in self.plan.metrics} for _ in self.valid]
        self._start = start
        if start.finished or start.iteration >= self.plan.n_trees:
            return
        # The engine may have to repeat some iterations, and the state is cut to the same iteration.
        start = start.first(self.grower.resume(start.iteration))
        state = replace(start.first(start.iteration), forest=None)
        # The new trees stay in the grower, and `snapshot` joins them to the trees of the start.
        scores = self._scores_of(start)
        self._resume_watch(start)
        # Both are set in the same step, because an interrupt may hit between any two lines.
        self._run = start, state
        began, compiled = time.perf_counter(), compile_seconds()
        while state.iteration < self.plan.n_trees and not state.finished:
            self._iterate(state, scores)
            progress = Progress(
                iteration=state.iteration,
                n_estimators=self.plan.n_trees,
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
        if self._run is None:
            return self._start.iteration
        return self._run[1].iteration

    def snapshot(self) -> State:
        """Return the state after the complete iterations, with their trees."""
        if self._run is None:
            return self._start
        start, state = self._run
        forest = self.grower.forest()
        if start.forest is not None:
            forest = start.forest.joined(forest)
        return state.first(state.iteration, forest)

    def _scores_of(self, state: State) -> list[Floats]:
        """Sum the trees for each part, without base scores and the common factor."""
        forest = state.forest
        if forest is None:
            return [np.zeros(part.n_rows) for part in self._parts]
        return [forest.predict(part.X, threads=self.plan.threads) for part in self._parts]

    def _iterate(self, state: State, scores: list[Floats]) -> None:
        plan, it = self.plan, state.iteration
        rate = state.rates[-1] if state.rates else plan.first_rate
        factor = state.factor
        if plan.langevin is not None:
            # A smaller common factor shrinks all earlier trees at once.
            factor *= 1.0 - plan.langevin.shrink_rate * rate
        agreed: float | None = None
        with timed(state.times, "gradients"):
            # The point is asked for leaf systems only if trees or biases are solved. For biases
            # alone, a part of the queries is enough.
            sums_leaves = plan.full_leaves or (self.bias is not None and self.bias.full)
            part = None
            if self.bias is not None and not plan.full_leaves:
                part = self.bias.part(it)
            biased = self._biased(state, scores[0])
            point = self.gradient.at(
                biased, it, leaves=sums_leaves, part=part, out=self._gradient_memory
            )
            subsample = self.draws.subsample(it)
            grad, hess = self._for_splits(it, point, subsample)
        with timed(state.times, "trees"):
            # The factor will multiply the tree, so the gradient is divided by it.
            if factor != 1.0:
                grad = grad / factor
            tree = self.grower.grow(self._on_grid(grad), self._on_grid(hess))
            # On large data the next lines are the peak of memory.
            del grad, hess
            leaves: list[Leaves] = []
            if tree is not None:
                leaves = [tree.leaves(part) for part in range(len(scores))]
        if tree is not None:
            if plan.own_leaves:
                with timed(state.times, "leaves"):
                    solve: Solve = solve_positive
                    if self._signs:
                        solve = self._ordered_solver(tree.arrays)
                    n = len(tree.values)
                    values, agreed = self._leaf_values(it, point, leaves[0], n, subsample, solve)
                values *= rate / factor
            else:
                values = tree.values * rate
            with timed(state.times, "trees"):
                tree.set(values, gain_factor=factor**2)
                # Scores are kept without the factor, because the factor changes with each tree.
                for part, leaf in enumerate(leaves):
                    add_leaf_values(0, len(leaf), leaf, values, scores[part])
        if self.bias is not None:
            with timed(state.times, "leaves"):
                # The biases step from the same gradient as the tree.
                earlier = np.zeros(self.bias.size)
                if state.biases:
                    earlier = np.array(state.biases[-1])
                state.biases.append(self.bias.step(earlier, point, it, subsample).tolist())
        with timed(state.times, "evaluation"):
            self._evaluate(state, factor, scores)
        state.factors.append(factor)
        if plan.steering is not None:
            if agreed is not None:
                rate = plan.steering.next(rate, agreed)
            state.rates.append(rate)
        # Without a split, the next iteration is the same again unless something is drawn anew.
        finished = tree is None and not self._may_split_later(state)
        if self._watch is not None:
            finished |= self._watch.finished
        state.finished_after = it + 1 if finished else None
        # This single step completes the iteration. `State.first` cuts off the other entries if an
        # interrupt comes before it.
        state.trees.append(state.n_trees + (tree is not None))

    def _biased(self, state: State, scores: Floats) -> Floats:
        """Return the scores for the gradient: of base and trees, plus the bias of each position."""
        if state.factor == 1.0 and self._base[0] is None and self.bias is None:
            # We return the array itself because a copy would double the memory on large data. This
            # is safe: the scores only change after the gradient has been used.
            return scores
        total = total_scores(self._base[0], state.factor, scores)
        if self.bias is not None and state.biases:
            total += self.bias.of_rows(np.array(state.biases[-1]))
        return total

    def _for_splits(self, it: int, point: Point, subsample: Floats | None) -> tuple[Floats, Floats]:
        """Return gradient and curvature to choose splits by, with query weights and noise."""
        grad, hess = point.grad, point.hess
        # The arrays are changed in place, so queries that do not take part are not in the leaf
        # values either.
        if subsample is not None:
            rows = np.repeat(subsample, self.queries.sizes)
            grad *= rows
            hess *= rows
        # The bootstrap makes new arrays, because leaf values that the loop computes do not use it.
        weights = self.draws.bootstrap(it)
        if weights is not None:
            grad, hess = grad * weights, hess * weights
        if self.plan.langevin is not None:
            grad = grad + self.draws.noise(it, Stream.SPLIT_NOISE) * np.sqrt(hess)
        return grad, hess

    def _on_grid(self, values: Floats) -> NDArray[np.float32]:
        return to_grid(values, self._n_rows, self._reducer)

    def _leaf_values(
        self,
        it: int,
        point: Point,
        leaf: Leaves,
        n: int,
        subsample: Floats | None,
        solve: Solve = solve_positive,
    ) -> tuple[Floats, float | None]:
        """Return Newton's leaf values and the agreement of the two halves of the queries.

        The leaves are solved together, or each by itself with fresh noise.
        """
        plan, first = self.plan, self._reducer.first
        ridge = plan.tree_options.reg_lambda
        noise = self._leaf_noise(it, point, leaf, n)
        # Each leaf is a system of its own here, with a diagonal curvature.
        if not plan.full_leaves:
            grad, hess = (self._sums(leaf, values, n) for values in (point.grad, point.hess))
            if self._signs:
                return first(-solve(np.diag(hess + ridge), grad + noise)), None
            return -(grad + noise) / (hess + ridge), None
        halves = 1
        if plan.steering is not None:
            # The numbers of the leaves tell the two halves apart, so that a single pass gives
            # both systems.
            halves = 2
            shifted = np.repeat(n * self.draws.halves(it), self.queries.sizes)
            shifted += leaf
            leaf = shifted
        digits = self._rounding(point) if self._reducer.exact else (0.0, 0.0)
        g, between = point.leaf_system(leaf, halves * n, query_weight=subsample, rounding=digits)
        gradients = self._reducer.sum(g).reshape(halves, n)
        between = self._reducer.sum(between)
        # Documents of different halves are in different queries, so there is no curvature between
        # the halves.
        blocks = [slice(half * n, (half + 1) * n) for half in range(halves)]
        curvatures = np.array([between[block, block] for block in blocks])
        total = curvatures.sum(axis=0) + ridge * np.eye(n)
        # All machines take the solution of the first, because solvers may differ in the last bits.
        values: Floats = first(-solve(total, gradients.sum(axis=0) + noise))
        if plan.steering is None:
            return values, None
        agreed = agreement(gradients, curvatures, ridge, solve)
        return values, float(first(np.array([agreed]))[0])

    def _leaf_noise(self, it: int, point: Point, leaf: Leaves, n: int) -> Floats:
        """Sum the Langevin noise of each leaf [leaves]."""
        langevin = self.plan.langevin
        if langevin is None:
            return np.zeros(n)
        stream = Stream.SPLIT_NOISE
        if langevin.independent:
            stream = Stream.LEAF_NOISE
        return self._sums(leaf, self.draws.noise(it, stream) * np.sqrt(point.hess), n)

    def _sums(self, leaf: Leaves, values: Floats, n_leaves: int) -> Floats:
        """Sum values of rows by leaf, over all machines."""
        terms = addable(values, self._n_rows, self._reducer)
        return self._reducer.sum(np.bincount(leaf, terms, n_leaves).astype(np.float64, copy=False))

    def _rounding(self, point: Point) -> tuple[float, float]:
        """Return roundings with which sums of the gradient and of the curvature are exact.

        The totals that they are made for are exact themselves.
        """
        sizes = [
            addable(np.abs(values), self._n_rows, self._reducer).sum()
            for values in (point.grad, point.hess)
        ]
        grad, hess = self._reducer.sum(np.array(sizes)).tolist()
        return rounding(grad), rounding(hess)

    def _may_split_later(self, state: State) -> bool:
        """Return True if a later iteration may find a split although this iteration found none."""
        plan = self.plan
        if not self.grower.can_split:
            return False
        if len(state.biases) > 1 and state.biases[-1] != state.biases[-2]:
            # The next gradient is taken at other scores.
            return True
        # Anything drawn at random may give the next tree another gradient.
        weighted = plan.subsample_queries < 1 or bool(plan.bagging_temperature)
        drawn = weighted or self.grower.draws or plan.langevin is not None
        return drawn or self.gradient.objective.varies

    def _evaluator(self, number: int) -> Evaluator | None:
        """Bind the metrics that are defined on an evaluation set, and warn of the others once."""
        data, plan = self.valid[number], self.plan
        if not data.labels:
            raise ValueError(
                f"eval_set[{number}] has no labels to evaluate with; give (X, y, qid), or leave it "
                "out."
            )
        bind = partial(
            Evaluator,
            data.labels,
            group=data.group,
            weights=data.weights,
            threads=plan.threads,
            reducer=self._reducer,
        )
        # A metric without a mean at scores of 0 has no query that counts.
        means = bind(metrics=list(plan.metrics.values()))(np.zeros(data.n_rows)).mean
        defined = [metric for metric in plan.metrics.values() if not math.isnan(means[str(metric)])]
        if number == 0 and plan.patience is not None and plan.target not in defined:
            raise ValueError(
                f"early_stopping_rounds watches {plan.target} on eval_set[0], where no query has a "
                "relevant document; give an evaluation set with relevant documents."
            )
        return bind(metrics=defined) if defined else None

    def _evaluate(self, state: State, factor: float, scores: list[Floats]) -> None:
        for number, evaluator in enumerate(self._evaluators):
            curves = state.history[number]
            if evaluator is None:
                # Curves have a value for each iteration, even if no metric is defined.
                for curve in curves.values():
                    curve.append(math.nan)
                continue
            part = self._part_of[number]
            result = evaluator(total_scores(self._base[part], factor, scores[part]))
            for name, curve in curves.items():
                curve.append(result.mean.get(str(self.plan.metrics[name]), math.nan))
            if number == 0 and self._watch is not None:
                target = str(self.plan.target)
                kept, error = self._watch.see(
                    state.iteration + 1, result.per_query[target], result.mean[target]
                )
                state.kept.append(kept)
                state.errors.append(error)

    def _new_watch(self) -> Watch | None:
        """Follow the first metric on the first evaluation set, if it decides about the end."""
        evaluator = next(iter(self._evaluators), None)
        if self.plan.patience is None or evaluator is None:
            return None
        return Watch(
            self.plan.stopping_rule,
            higher_is_better=self.plan.target.higher_is_better,
            weights=evaluator.weights,
            errors=self.plan.stopping_errors,
            patience=self.plan.patience,
            reducer=self._reducer,
        )

    def _resume_watch(self, start: State) -> None:
        """Compute the values of the best iteration so far again, to compare later iterations with."""
        self._watch = self._new_watch()
        if self._watch is None or not start.kept or start.forest is None:
            return
        best, evaluator = start.best(self.plan.target), self._evaluators[0]
        assert best is not None
        assert evaluator is not None
        part = self._part_of[0]
        # A checkpoint has no values of single queries, so the trees are scored up to that
        # iteration.
        sums = start.forest.predict(
            self._parts[part].X, threads=self.plan.threads, stop=start.trees[best - 1]
        )
        result = evaluator(total_scores(self._base[part], start.factors[best - 1], sums))
        curve = next(iter(start.history[0].values()))
        values = result.per_query[str(self.plan.target)]
        self._watch.resume(values, curve, start.kept[-1])
