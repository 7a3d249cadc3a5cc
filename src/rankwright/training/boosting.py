"""The boosting loop: gradients in, trees out, with everything an engine leaves to us.

Scores are F = C G: the engine holds G, the sum of its trees, and C is a common factor. With Langevin boosting (SGLB)

    F_{t+1} = (1 - gamma eps) F_t + eps tree(grad + noise)        noise std sqrt(2 / (eps beta)) per document

shrinking all earlier trees is C_{t+1} = (1 - gamma eps) C_t, and the new tree is grown from the gradient divided by
C_{t+1}: leaf values are linear in the gradient, and the choice of splits does not depend on its scale.

Where the learning rate is left to the data and leaves are solved together, it is steered from tree to tree. The
queries are halved at random, leaf values v are solved on one half, and the step along v that is best for the other,

    a = -g'v / v'(H + ridge) v,          g, H of the other half,                             (agreement)

tells how much of the tree is signal: 1 if the halves agree, 0 if they have nothing in common. The rate grows while a
is above a target and shrinks below it: rate_{t+1} = rate_t exp(speed (a_t - target)). So data that are easy to learn
get large steps, and training slows down when what is left is noise. (The tree was chosen with both halves, so that
even in noise they agree by about a half.)

Reference: Ustimenko and Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting"; "StochasticRank"
paper, section 6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.evaluation.per_query import Evaluator
from rankwright.kernels.random import GAUSSIAN, noise_by_query, stream_of, uniform_by_key
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives.base import BoundObjective, Point

Floats = NDArray[np.float64]

# Sampling in the engine starts anew with each block of trees. A training that is resumed within a block skips the
# samples of its trees so far, at up to a third of the price of growing them, or repeats the trees if samples depend
# on them.
BLOCK, BLOCK_TO_REPEAT = 500, 20
_STRUCTURE, _LEAVES, _BAGGING, _HALVES, _BOOTSTRAP = range(101, 106)  # what a draw is for; objectives' are from 0
# On smaller data the engine's threads, which go on waiting for a while in a busy loop, cost more than ours gain; and on
# still smaller data more than the engine's own gain, much more where other processes want the cores.
_ROWS_TO_SHARE = 50_000
_VALUES_TO_SHARE = 300_000  # rows times columns
PHASES = ("gradients", "trees", "leaves", "evaluation")


@dataclass(frozen=True)
class Langevin:
    """Langevin boosting: 1 / temperature is the noise's power, ``shrink_rate`` is gamma."""

    temperature: float
    shrink_rate: float
    independent: bool


@dataclass(frozen=True)
class Steering:
    """How the learning rate follows the agreement of halves; docs/defaults.md has the measurements."""

    speed: float = 0.1
    target: float = 0.75
    least: float = 0.005
    most: float = 0.12

    def next(self, rate: float, agreed: float) -> float:
        """Return the learning rate of the next tree.

        Examples
        --------
        >>> Steering(speed=0.1, target=0.75).next(0.05, 0.75)
        0.05
        """
        return min(self.most, max(self.least, rate * math.exp(self.speed * (agreed - self.target))))


@dataclass(frozen=True)
class Settings:
    """What the loop needs to know besides data and objective.

    With ``steering``, which needs ``full_leaves``, the learning rate is only that of the first tree.
    """

    engine: str
    n_trees: int
    tree_options: dict[str, Any]
    engine_params: dict[str, Any]
    full_leaves: bool
    steering: Steering | None
    subsample_queries: float
    bagging_temperature: float
    langevin: Langevin | None
    patience: int | None
    seed: int
    threads: int


@dataclass
class State:
    """Where training stands: enough to go on from there, as if nothing had happened.

    ``text`` is the engine's model text, to be multiplied by ``factor``, and began with ``initial_trees`` of another
    model. After each iteration, ``trees`` has the number of trees (an iteration may find nothing to split), ``factors``
    the factor, ``rates`` the learning rate of the next tree where it is steered, and ``history`` the metrics of each
    evaluation set. ``finished`` says that more iterations are no use. ``times`` sums the seconds of each phase.
    """

    text: str | None = None
    initial_trees: int = 0
    trees: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    history: list[dict[str, list[float]]] = field(default_factory=list)
    finished: bool = False
    times: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @property
    def iteration(self) -> int:
        """Number of iterations done."""
        return len(self.trees)

    @property
    def factor(self) -> float:
        """The common factor of all trees so far."""
        return self.factors[-1] if self.factors else 1.0

    @property
    def n_trees(self) -> int:
        """Number of trees so far."""
        return self.trees[-1] if self.trees else self.initial_trees

    def keep(self, iterations: int) -> None:
        """Forget what later iterations left behind; ``text`` is not touched."""
        del self.trees[iterations:], self.factors[iterations:], self.rates[iterations:]
        for curve in (curve for curves in self.history for curve in curves.values()):
            del curve[iterations:]

    def best(self, metric: Metric) -> int | None:
        """Return the iteration, from 1, with the best first metric on the first evaluation set."""
        if not self.history or not self.iteration:
            return None
        curve = np.array(next(iter(self.history[0].values())))
        if not metric.higher_is_better:
            curve = -curve
        return int(np.argmax(np.where(np.isnan(curve), -np.inf, curve))) + 1


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration.

    Parameters
    ----------
    iteration, n_estimators
        Iterations done, and to do in all.
    history
        Metrics of each evaluation set after each iteration, by name.
    done
        Iterations of this run, without those it resumed from.
    seconds
        Time of this run so far.
    times
        Seconds in each phase, with those it resumed from: ``"gradients"``, ``"trees"``, ``"leaves"`` (values computed
        here, not by the engine) and ``"evaluation"``.
    """

    iteration: int
    n_estimators: int
    done: int
    history: Sequence[dict[str, list[float]]]
    seconds: float
    times: dict[str, float]


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
    """

    def __init__(
        self,
        objective: Objective,
        metrics: dict[str, Metric],
        train: RankingData,
        valid: Sequence[RankingData],
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.target = next(iter(metrics.values()))
        self.train = train
        self.valid = valid
        others = [data for data in valid if data is not train]
        self._parts = [train, *others]
        places = iter(range(1, len(self._parts)))
        self._part_of = [0 if data is train else next(places) for data in valid]
        self.engine = load_engine(settings.engine)
        self.queries = train.queries.grouped()
        self.gradient = BoundObjective(
            objective,
            train.y,
            self.queries,
            self.target,
            seed=settings.seed,
            threads=settings.threads if train.n_rows >= _ROWS_TO_SHARE else 1,
            weights=train.weights,
        )
        if settings.full_leaves:  # raises now, not after the first tree, where the objective or the weights forbid it
            self.gradient.leaf_system(np.zeros(train.n_rows), np.zeros(train.n_rows, dtype=np.int64), 1)
        self._evaluators = [self._evaluator(number) for number in range(len(valid))]
        enough = train.n_rows * len(train.feature_names) >= _VALUES_TO_SHARE
        threads = settings.threads if enough else 1
        self.grower = self.engine.Grower(
            train, others, settings.tree_options, settings.engine_params, settings.seed, threads
        )
        langevin = settings.langevin
        self._own_leaves = settings.full_leaves or (langevin is not None and langevin.independent)
        self._earlier: list[str] = []  # texts of the trees before the grower's block
        self._earlier_trees = 0

    def run(self, state: State, after: Callable[[State, Progress], bool]) -> None:
        """Train on from ``state`` until done, stopped early, or ``after`` returns True or raises.

        ``state`` stays current, whatever ends the run.
        """
        if state.finished or state.iteration >= self.settings.n_trees:
            return
        if not state.history:
            state.history = [{name: [] for name in self.metrics} for _ in self.valid]
        block = BLOCK_TO_REPEAT if self.grower.samples_by_node else BLOCK
        if self.grower.samples_by_node:
            self._rewind(state, state.iteration - state.iteration % block)
        scores = self._scores_of(state)
        began = time.perf_counter()
        resumed = state.iteration
        self._earlier, self._earlier_trees = [state.text] if state.text is not None else [], state.n_trees
        self.grower.start(state.iteration // block, self._host_scores(scores), state.iteration % block)
        try:
            while state.iteration < self.settings.n_trees and not state.finished:
                if state.iteration % block == 0 and state.iteration > resumed and self.grower.samples:
                    self._earlier, self._earlier_trees = self._texts(state), state.n_trees
                    self.grower.start(state.iteration // block, self._host_scores(scores))
                self._iterate(state, scores)
                progress = Progress(
                    iteration=state.iteration,
                    n_estimators=self.settings.n_trees,
                    done=state.iteration - resumed,
                    history=state.history,
                    seconds=time.perf_counter() - began,
                    times=dict(state.times),
                )
                if after(state, progress):
                    break
        finally:
            state.keep(state.iteration)
            self.snapshot(state)

    def snapshot(self, state: State) -> None:
        """Write the trees of the iterations that are complete into ``state.text``."""
        state.text = self.engine.join_texts(self._texts(state))

    def _texts(self, state: State) -> list[str]:
        complete = state.n_trees - self._earlier_trees
        return self._earlier + ([self.grower.text(complete)] if complete > 0 or not self._earlier else [])

    def _rewind(self, state: State, iteration: int) -> None:
        """Go back to where the engine's sampling starts anew, so that what follows is as if nothing had happened."""
        if iteration == state.iteration:
            return
        state.keep(iteration)
        state.text = self.engine.Forest(state.text).first(state.n_trees).text if state.n_trees else None

    def _scores_of(self, state: State) -> list[Floats]:
        if state.text is None:
            return [np.zeros(part.n_rows) for part in self._parts]
        forest = self.engine.Forest(state.text)
        return [forest.predict(part.X, threads=self.settings.threads) for part in self._parts]

    def _host_scores(self, scores: list[Floats]) -> list[Floats] | None:
        """Scores for the engine to start from: none where it only has to tell leaves apart."""
        return None if self._own_leaves else scores

    def _iterate(self, state: State, scores: list[Floats]) -> None:
        settings, it = self.settings, state.iteration
        rate = state.rates[-1] if state.rates else settings.tree_options["learning_rate"]
        shrink = 1.0 - settings.langevin.shrink_rate * rate if settings.langevin is not None else 1.0
        factor = state.factor * shrink
        agreed: float | None = None
        with _timed(state, "gradients"):
            point = self.gradient.at(state.factor * scores[0], it, leaves=settings.full_leaves)
            grad, hess = point.grad, point.hess
            kept = self._bag(it)
            if kept is not None:
                rows = np.repeat(kept, self.queries.sizes)
                grad *= rows
                hess *= rows
            weights = self._bootstrap(it)
            noisy, curved = (grad, hess) if weights is None else (grad * weights, hess * weights)
            if settings.langevin is not None:
                noisy = noisy + self._noise(it, _STRUCTURE)
        with _timed(state, "trees"):
            before = [self.grower.scores(part) for part in range(len(scores))] if self._own_leaves else []
            grown = self.grower.grow(noisy / factor, curved)
            if grown and not self._own_leaves:
                for part in range(len(scores)):
                    scores[part] = self.grower.scores(part)
        if grown and self._own_leaves:
            with _timed(state, "leaves"):
                leaves = [self.grower.leaves(part, before[part]) for part in range(len(scores))]
                values, agreed = self._leaf_values(it, point, leaves[0], kept)
                values *= rate / factor
                self.grower.rewrite(values)
                for part, leaf in enumerate(leaves):
                    scores[part] += values[leaf]
        with _timed(state, "evaluation"):
            self._evaluate(state, factor, scores)
        state.factors.append(factor)
        if settings.steering is not None:
            state.rates.append(rate if agreed is None else settings.steering.next(rate, agreed))
        state.trees.append(self._earlier_trees + self.grower.n_trees)
        state.finished = not grown and not self._random()
        best = state.best(self.target)
        if settings.patience is not None and best is not None:
            state.finished |= state.iteration - best >= settings.patience

    def _leaf_values(
        self, it: int, point: Point, leaf: NDArray[np.int64], kept: Floats | None
    ) -> tuple[Floats, float | None]:
        """Newton's leaf values, all leaves solved together or each on its own with fresh noise, and their agreement."""
        settings = self.settings
        ridge = settings.tree_options["reg_lambda"]
        n = len(self.grower.leaf_values())
        noise: NDArray[Any] = np.zeros(n)
        if settings.langevin is not None:
            purpose = _LEAVES if settings.langevin.independent else _STRUCTURE
            noise = np.bincount(leaf, self._noise(it, purpose), n)
        if settings.full_leaves:
            # Leaves of the two halves are told apart by their numbers, so that one pass gives both systems.
            parts = 1 if settings.steering is None else 2
            shift = 0 if settings.steering is None else n * np.repeat(self._halves(it), self.queries.sizes)
            g, between = point.leaf_system(leaf + shift, parts * n, query_weight=kept)
            gs = g.reshape(parts, n)
            curvatures = np.array([between[i * n : (i + 1) * n, i * n : (i + 1) * n] for i in range(parts)])
            solved: Floats = -np.linalg.solve(curvatures.sum(axis=0) + ridge * np.eye(n), gs.sum(axis=0) + noise)
            return solved, None if settings.steering is None else agreement(gs, curvatures, ridge)
        values: Floats = -(np.bincount(leaf, point.grad, n) + noise) / (np.bincount(leaf, point.hess, n) + ridge)
        return values, None

    def _noise(self, iteration: int, purpose: int) -> Floats:
        langevin = self.settings.langevin
        assert langevin is not None
        out = np.empty(self.train.n_rows)
        stream = stream_of(self.settings.seed, iteration, purpose)
        queries = self.queries
        noise_by_query(0, queries.n_queries, queries.boundaries, queries.keys, GAUSSIAN, stream, 0, out)
        out *= math.sqrt(2.0 / (self.settings.tree_options["learning_rate"] * langevin.temperature))
        return out

    def _halves(self, iteration: int) -> NDArray[np.int64]:
        """Half of each query, 0 or 1, by (seed, iteration, key)."""
        draws = np.empty(self.queries.n_queries)
        uniform_by_key(self.queries.keys, stream_of(self.settings.seed, iteration, _HALVES), 0, draws)
        return (draws < 0.5).astype(np.int64)

    def _bag(self, iteration: int) -> Floats | None:
        """Choose queries: 1 for those that take part, by (seed, iteration, key)."""
        if self.settings.subsample_queries >= 1:
            return None
        draws = np.empty(self.queries.n_queries)
        uniform_by_key(self.queries.keys, stream_of(self.settings.seed, iteration, _BAGGING), 0, draws)
        kept: Floats = (draws < self.settings.subsample_queries).astype(np.float64)
        return kept

    def _bootstrap(self, iteration: int) -> Floats | None:
        """Weigh the queries, one weight per row, by (seed, iteration, key): the Bayesian bootstrap at temperature 1."""
        if self.settings.bagging_temperature == 0:
            return None
        draws = np.empty(self.queries.n_queries)
        uniform_by_key(self.queries.keys, stream_of(self.settings.seed, iteration, _BOOTSTRAP), 0, draws)
        return np.repeat((-np.log(draws)) ** self.settings.bagging_temperature, self.queries.sizes)

    def _random(self) -> bool:
        """Tell whether a later iteration may find a split where this one found none."""
        stochastic = any(term.stochastic for _, _, term in self.gradient.objective.terms())
        sampled = self.grower.samples or self.settings.subsample_queries < 1 or self.settings.bagging_temperature > 0
        return self.grower.can_split and (stochastic or sampled or self.settings.langevin is not None)

    def _evaluator(self, number: int) -> Evaluator | None:
        """Bind the metrics that an evaluation set can tell; the user is warned of others once."""
        data = self.valid[number]
        bind = partial(Evaluator, data.y, group=data.group, weights=data.weights, threads=self.settings.threads)
        means = bind(metrics=list(self.metrics.values()))(np.zeros(data.n_rows)).mean
        told = [one for one in self.metrics.values() if not math.isnan(means[str(one)])]
        if number == 0 and self.settings.patience is not None and self.target not in told:
            raise ValueError(
                f"early_stopping_rounds watches {self.target} on eval_set[0], where no query has a relevant document; "
                "give an evaluation set with relevant documents."
            )
        return bind(metrics=told) if told else None

    def _evaluate(self, state: State, factor: float, scores: list[Floats]) -> None:
        for number, evaluator in enumerate(self._evaluators):
            means = {} if evaluator is None else evaluator(factor * scores[self._part_of[number]]).mean
            for name, curve in state.history[number].items():
                curve.append(means.get(str(self.metrics[name]), math.nan))


def agreement(gradients: Floats, curvatures: Floats, ridge: float) -> float:
    """How far leaf values solved on one half of the queries suit the other half, from 0 to 1; see (agreement) above.

    Parameters
    ----------
    gradients, curvatures
        Of the leaves, for both halves: [2, leaves] and [2, leaves, leaves].
    ridge
        Of the whole; each half has half of it.

    Examples
    --------
    Two leaves of curvature 1. The halves want the same, and then the opposite:

    >>> curvatures = np.array([np.eye(2), np.eye(2)])
    >>> agreement(np.array([[1.0, -2.0], [1.0, -2.0]]), curvatures, ridge=0.2)
    1.0
    >>> agreement(np.array([[1.0, -2.0], [-1.0, 2.0]]), curvatures, ridge=0.2)
    0.0
    """
    systems = curvatures + ridge / 2 * np.eye(gradients.shape[1])
    values = -np.linalg.solve(systems, gradients[..., None])[..., 0]
    wanted = -np.sum(values * gradients[::-1])
    curved = float(np.einsum("hl,hlm,hm->", values, systems[::-1], values))
    return float(np.clip(wanted / curved, 0.0, 1.0)) if curved > 0 else 0.0


@contextmanager
def _timed(state: State, phase: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    state.times[phase] += time.perf_counter() - began
