"""Where a training stands, and what callbacks learn of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from rankwright.engines.contract import Forest
from rankwright.kernels.compilation import compile_seconds
from rankwright.metrics import Metric

PHASES = ("preparation", "compilation", "gradients", "trees", "leaves", "evaluation")


def no_times() -> dict[str, float]:
    """Return the seconds of each phase before anything has been done."""
    return dict.fromkeys(PHASES, 0.0)


@contextmanager
def timed(times: dict[str, float], phase: str) -> Iterator[None]:
    """Add the seconds of the block to a phase, and those in which kernels were compiled to the phase of compilation."""
    start, compiled = time.perf_counter(), compile_seconds()
    yield
    compiling = compile_seconds() - compiled
    times["compilation"] += compiling
    times[phase] += max(time.perf_counter() - start - compiling, 0.0)


@dataclass
class State:
    """Where a training stands: enough to resume it as if nothing had happened.

    Parameters
    ----------
    forest
        The trees, whose scores are to be multiplied by ``factor``; None before the first snapshot.
    initial_trees
        How many of them belong to an earlier model.
    trees
        Number of trees after each iteration (an iteration may find nothing to split).
    factors
        Common factor of all trees after each iteration.
    rates
        Where the learning rate is steered: that of the next tree, after each iteration.
    biases
        Where position bias is learned: its values, all columns in a row, after each iteration.
    history
        Metrics of each evaluation set after each iteration, by name.
    choices, errors
        Where an evaluation set is watched: the iteration, from 1, that the model would end with after each iteration,
        and the standard error of each iteration's difference from the best (`rankwright.training.stopping`).
    finished_after
        The iteration, from 1, after which more would change nothing; None if it is not known yet.
    times
        Seconds in each phase.
    """

    forest: Forest | None = None
    initial_trees: int = 0
    trees: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    biases: list[list[float]] = field(default_factory=list)
    history: list[dict[str, list[float]]] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    finished_after: int | None = None
    times: dict[str, float] = field(default_factory=no_times)

    @property
    def iteration(self) -> int:
        """Number of complete iterations: one is complete, whatever else is recorded of it, once ``trees`` has it."""
        return len(self.trees)

    @property
    def finished(self) -> bool:
        """Whether more iterations would change nothing."""
        return self.finished_after is not None and self.iteration >= self.finished_after

    @property
    def factor(self) -> float:
        """The common factor of all trees so far."""
        return self.factors[-1] if self.factors else 1.0

    @property
    def n_trees(self) -> int:
        """Number of trees so far."""
        return self.trees[-1] if self.trees else self.initial_trees

    def first(self, iterations: int, forest: Forest | None = None) -> State:
        """Return a copy that ends after the first iterations, without what an incomplete one left behind.

        Its trees are those of ``forest``, by default of its own. As this object is not changed, it does not matter
        where an interrupt hits.
        """
        forest = self.forest if forest is None else forest
        trees = self.trees[:iterations]
        return State(
            forest=None
            if forest is None
            else forest.first(trees[-1] if trees else self.initial_trees),
            initial_trees=self.initial_trees,
            trees=trees,
            factors=self.factors[:iterations],
            rates=self.rates[:iterations],
            biases=self.biases[:iterations],
            history=[
                {name: curve[:iterations] for name, curve in curves.items()}
                for curves in self.history
            ],
            choices=self.choices[:iterations],
            errors=self.errors[:iterations],
            finished_after=self.finished_after
            if self.finished and iterations >= self.iteration
            else None,
            times=dict(self.times),
        )

    def best(self, metric: Metric) -> int | None:
        """Return the iteration, from 1, with the best first metric on the first evaluation set."""
        if not self.history:
            return None
        curve = np.array(next(iter(self.history[0].values())))
        if not metric.higher_is_better:
            curve = -curve
        return int(np.argmax(np.where(np.isnan(curve), -np.inf, curve))) + 1


@dataclass(frozen=True)
class Progress:
    """What a callback learns after each iteration.

    Parameters
    ----------
    iteration, n_estimators
        Iterations so far, and in all.
    done
        Iterations of this run, without those before it resumed.
    history
        Metrics of each evaluation set after each iteration, by name.
    seconds
        Time of this run so far.
    times
        Seconds in each phase, with those before it resumed: ``"preparation"`` of the data, ``"compilation"`` of
        kernels (first run only), ``"gradients"``, ``"trees"``, ``"leaves"`` (values that are not computed by the
        engine) and ``"evaluation"``.
    compile_seconds
        The part of ``seconds`` in which kernels were compiled: it says nothing about the time that is left.
    stage
        Name of the pass of a training that has several, such as ``"refit"``; empty for the one whose curves are kept.
    """

    iteration: int
    n_estimators: int
    done: int
    history: Sequence[dict[str, list[float]]]
    seconds: float
    times: dict[str, float]
    compile_seconds: float = 0.0
    stage: str = ""
