"""The boosting loop: gradients in, trees out, with everything an engine leaves to us.

Scores are F = C G: the engine holds G, the sum of its trees, and C is a common factor. With Langevin boosting (SGLB)

    F_{t+1} = (1 - gamma eps) F_t + eps tree(grad + noise)        noise std sqrt(2 / (eps beta)) per document

shrinking all earlier trees is C_{t+1} = (1 - gamma eps) C_t, and the new tree is grown from the gradient divided by
C_{t+1}: leaf values are linear in the gradient, and the choice of splits does not depend on its scale.

Reference: Ustimenko and Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting"; "StochasticRank"
paper, section 6.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data import RankingData
from rankwright.engines import load_engine
from rankwright.evaluation import evaluate
from rankwright.kernels.random import GAUSSIAN, noise_by_query, stream_of, uniform_by_key
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives.base import BoundObjective

Floats = NDArray[np.float64]

BLOCK = 10  # sampling in the engine starts anew after so many trees, so that training can resume between blocks
_STRUCTURE, _LEAVES, _BAGGING = range(101, 104)  # what a draw is for; objectives number theirs from 0


@dataclass(frozen=True)
class Langevin:
    """Langevin boosting: 1 / temperature is the noise's power, ``shrink_rate`` is gamma."""

    temperature: float
    shrink_rate: float
    independent: bool


@dataclass(frozen=True)
class Settings:
    """What the loop needs to know besides data and objective."""

    engine: str
    n_trees: int
    tree_options: dict[str, Any]
    engine_params: dict[str, Any]
    full_leaves: bool
    subsample_queries: float
    langevin: Langevin | None
    patience: int | None
    seed: int
    threads: int


@dataclass
class State:
    """Where training stands: enough to go on from there, as if nothing had happened.

    ``text`` is the engine's model text, to be multiplied by ``factor``; ``trees`` counts the trees after each iteration
    (an iteration may find nothing to split); ``history`` holds the metrics of each evaluation set after each iteration.
    """

    text: str | None = None
    factor: float = 1.0
    trees: list[int] = field(default_factory=list)
    history: list[dict[str, list[float]]] = field(default_factory=list)
    finished: bool = False

    @property
    def iteration(self) -> int:
        """Number of iterations done."""
        return len(self.trees)

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
    seconds, objective_seconds
        Time of this run so far, and how much of it went into gradients.
    """

    iteration: int
    n_estimators: int
    done: int
    history: Sequence[dict[str, list[float]]]
    seconds: float
    objective_seconds: float


class Boosting:
    """Trains a forest.

    Parameters
    ----------
    objective, metrics
        What to optimise, and what to evaluate, by name; the objective optimises the first.
    train, valid
        Data with the same columns.
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
        self.engine = load_engine(settings.engine)
        self.queries = train.queries.grouped()
        self.gradient = BoundObjective(
            objective,
            train.y,
            self.queries,
            self.target,
            seed=settings.seed,
            threads=settings.threads,
            weights=train.weights,
        )
        self.grower = self.engine.Grower(
            train, valid, settings.tree_options, settings.engine_params, settings.seed, settings.threads
        )
        langevin = settings.langevin
        self._own_leaves = settings.full_leaves or (langevin is not None and langevin.independent)
        self._earlier: str | None = None  # trees before the grower's block
        self._earlier_trees = 0
        self._objective_seconds = 0.0

    def run(self, state: State, after: Callable[[State, Progress], None]) -> None:
        """Train on from ``state`` until done, stopped early, or ``after`` raises; ``state`` stays current."""
        if not state.history:
            state.history = [{name: [] for name in self.metrics} for _ in self.valid]
        scores = self._scores_of(state)
        began = time.perf_counter()
        resumed = state.iteration
        self._earlier = state.text
        self._earlier_trees = state.trees[-1] if state.trees else self._count(state.text)
        self.grower.start(state.iteration // BLOCK, self._host_scores(scores))
        try:
            while state.iteration < self.settings.n_trees and not state.finished:
                if state.iteration % BLOCK == 0 and self.grower.n_trees and self.grower.samples:
                    self.snapshot(state)
                    self._earlier, self._earlier_trees = state.text, state.trees[-1]
                    self.grower.start(state.iteration // BLOCK, self._host_scores(scores))
                self._iterate(state, scores)
                spent = time.perf_counter() - began
                after(
                    state,
                    Progress(
                        iteration=state.iteration,
                        n_estimators=self.settings.n_trees,
                        done=state.iteration - resumed,
                        history=state.history,
                        seconds=spent,
                        objective_seconds=self._objective_seconds,
                    ),
                )
        finally:
            self.snapshot(state)

    def snapshot(self, state: State) -> None:
        """Write the trees of the iterations that are complete into ``state.text``."""
        complete = (state.trees[-1] if state.trees else self._earlier_trees) - self._earlier_trees
        texts = [] if self._earlier is None else [self._earlier]
        texts += [self.grower.text(complete)] if complete > 0 else []
        if texts:
            state.text = self.engine.join_texts(texts)

    def can_resume_from(self, state: State) -> bool:
        """Tell whether training from this state goes on as if it had not stopped: between blocks of sampling."""
        return state.iteration % BLOCK == 0 or not self.grower.samples

    def _count(self, text: str | None) -> int:
        return 0 if text is None else int(self.engine.Forest(text).n_trees)

    def _scores_of(self, state: State) -> list[Floats]:
        parts = [self.train, *self.valid]
        if state.text is None:
            return [np.zeros(part.n_rows) for part in parts]
        forest = self.engine.Forest(state.text)
        return [forest.predict(part.X, threads=self.settings.threads) for part in parts]

    def _host_scores(self, scores: list[Floats]) -> list[Floats] | None:
        """Scores for the engine to start from: none where it only has to tell leaves apart."""
        return None if self._own_leaves else scores

    def _iterate(self, state: State, scores: list[Floats]) -> None:
        settings, it = self.settings, state.iteration
        rate = settings.tree_options["learning_rate"]
        shrink = 1.0 - settings.langevin.shrink_rate * rate if settings.langevin is not None else 1.0
        factor = state.factor * shrink
        began = time.perf_counter()
        grad, hess = self.gradient(state.factor * scores[0], it)
        self._objective_seconds += time.perf_counter() - began
        kept = self._bag(it)
        if kept is not None:
            rows = np.repeat(kept, self.queries.sizes)
            grad *= rows
            hess *= rows
        before = [self.grower.scores(part) for part in range(len(scores))] if self._own_leaves else []
        noisy = grad if settings.langevin is None else grad + self._noise(it, _STRUCTURE)
        grown = self.grower.grow(noisy / factor, hess)
        if grown and self._own_leaves:
            leaves = [self.grower.leaves(part, before[part]) for part in range(len(scores))]
            began = time.perf_counter()
            values = rate / factor * self._leaf_values(state, scores[0], leaves[0], grad, hess, kept)
            self._objective_seconds += time.perf_counter() - began
            self.grower.rewrite(values)
            for part, leaf in enumerate(leaves):
                scores[part] += values[leaf]
        elif grown:
            for part in range(len(scores)):
                scores[part] = self.grower.scores(part)
        self._evaluate(state, factor, scores)
        state.factor = factor
        state.trees.append(self._earlier_trees + self.grower.n_trees)
        state.finished = not grown and not self._random()
        best = state.best(self.target)
        if settings.patience is not None and best is not None:
            state.finished |= state.iteration - best >= settings.patience

    def _leaf_values(
        self,
        state: State,
        scores: Floats,
        leaf: NDArray[np.int64],
        grad: Floats,
        hess: Floats,
        kept: Floats | None,
    ) -> Floats:
        """Newton's leaf values: all leaves solved together, or each on its own with fresh noise."""
        settings, it = self.settings, state.iteration
        ridge = settings.tree_options["reg_lambda"]
        n = len(self.grower.leaf_values())
        noise: NDArray[Any] = np.zeros(n)
        if settings.langevin is not None:
            purpose = _LEAVES if settings.langevin.independent else _STRUCTURE
            noise = np.bincount(leaf, self._noise(it, purpose), n)
        if settings.full_leaves:
            g, between = self.gradient.leaf_system(state.factor * scores, leaf, n, it, query_weight=kept)
            solved: Floats = -np.linalg.solve(between + ridge * np.eye(n), g + noise)
            return solved
        values: Floats = -(np.bincount(leaf, grad, n) + noise) / (np.bincount(leaf, hess, n) + ridge)
        return values

    def _noise(self, iteration: int, purpose: int) -> Floats:
        langevin = self.settings.langevin
        assert langevin is not None
        out = np.empty(self.train.n_rows)
        if langevin.temperature == 0:
            out[:] = 0.0
            return out
        stream = stream_of(self.settings.seed, iteration, purpose)
        queries = self.queries
        noise_by_query(0, queries.n_queries, queries.boundaries, queries.keys, GAUSSIAN, stream, 0, out)
        out *= math.sqrt(2.0 / (self.settings.tree_options["learning_rate"] * langevin.temperature))
        return out

    def _bag(self, iteration: int) -> Floats | None:
        """Choose queries: 1 for those that take part, by (seed, iteration, key)."""
        if self.settings.subsample_queries >= 1:
            return None
        draws = np.empty(self.queries.n_queries)
        uniform_by_key(self.queries.keys, stream_of(self.settings.seed, iteration, _BAGGING), 0, draws)
        kept: Floats = (draws < self.settings.subsample_queries).astype(np.float64)
        return kept

    def _random(self) -> bool:
        """Tell whether a later iteration may find a split where this one found none."""
        stochastic = any(term.stochastic for _, _, term in self.gradient.objective.terms())
        sampled = self.grower.samples or self.settings.subsample_queries < 1
        return stochastic or sampled or self.settings.langevin is not None

    def _evaluate(self, state: State, factor: float, scores: list[Floats]) -> None:
        for number, data in enumerate(self.valid):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the caller was warned of empty metrics before training
                result = evaluate(
                    factor * scores[number + 1],
                    data.y,
                    group=data.group,
                    metrics=list(self.metrics.values()),
                    threads=self.settings.threads,
                )
            for name, one in self.metrics.items():
                state.history[number][name].append(result.mean[str(one)])
