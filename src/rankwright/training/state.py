"""The state of a training, and its progress as callbacks receive it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rankwright.engines.contract import Forest
from rankwright.kernels.jit import compile_seconds
from rankwright.metrics import Metric

PHASES = ("preparation", "compilation", "gradients", "trees", "leaves", "evaluation")


def no_times() -> dict[str, float]:
    """Return the seconds of each phase before anything has been done."""
    return dict.fromkeys(PHASES, 0.0)


@contextmanager
def timed(times: dict[str, float], phase: str) -> Iterator[None]:
    """Add the seconds of the block to a phase, and seconds of compiling kernels to compilation."""
    start, compiled = time.perf_counter(), compile_seconds()
    yield
    # Kernels are compiled on first use, in the middle of a phase, and would distort its time.
    compiling = compile_seconds() - compiled
    times["compilation"] += compiling
    times[phase] += max(time.perf_counter() - start - compiling, 0.0)


def total_scores(
    base: NDArray[np.float64] | None, factor: float, sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return scores: the base scores, plus the sums of the trees times their common factor."""
    scores = factor * sums
    if base is not None:
        scores += base
    return scores


@dataclass
class State:
    """The point that a training has reached: enough to resume it with the same result.

    Parameters
    ----------
    forest
        The trees, to be multiplied by ``factor``; None before the first snapshot.
    initial_trees
        How many of them belong to an earlier model.
    trees
        Number of trees after each iteration (an iteration may find no split).
    factors
        Common factor of all trees after each iteration.
    rates
        If the learning rate is steered: the rate of the next tree, after each iteration.
    biases
        If position bias is learned: its values, all columns in a row, after each iteration.
    history
        Metrics of each evaluation set after each iteration, by name.
    kept, errors
        If an evaluation set is watched: the iteration, from 1, that the model would keep the trees
        up to after each iteration, and the standard error of each iteration's difference from the
        best (`rankwright.training.stopping`).
    finished_after
        The iteration, from 1, after which more have no effect; None if it is not known yet.
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
    kept: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    finished_after: int | None = None
    times: dict[str, float] = field(default_factory=no_times)

    @classmethod
    def initial(cls, forest: Forest | None) -> State:
        """Return the state before the first iteration, with the trees of an earlier model if any."""
        if forest is None:
            return cls()
        return cls(forest=forest, initial_trees=forest.n_trees)

    @property
    def iteration(self) -> int:
        """Number of complete iterations: an iteration is complete once ``trees`` has it."""
        return len(self.trees)

    @property
    def finished(self) -> bool:
        """Whether more iterations have no effect."""
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
        """Return a copy that ends after the first iterations, without parts of an incomplete iteration.

        Its trees are taken from ``forest``, by default from its own forest. This object is not
        changed, so it does not matter when an interrupt hits.
        """
        if forest is None:
            forest = self.forest
        trees = self.trees[:iterations]
        if forest is not None:
            forest = forest.first(trees[-1] if trees else self.initial_trees)
        # A copy of the first iterations may go on, so it does not keep the end of the training.
        keeps_end = self.finished and iterations >= self.iteration
        return State(
            forest=forest,
            initial_trees=self.initial_trees,
            trees=trees,
            factors=self.factors[:iterations],
            rates=self.rates[:iterations],
            biases=self.biases[:iterations],
            history=[
                {name: curve[:iterations] for name, curve in curves.items()}
                for curves in self.history
            ],
            kept=self.kept[:iterations],
            errors=self.errors[:iterations],
            finished_after=self.finished_after if keeps_end else None,
            times=dict(self.times),
        )

    def best(self, metric: Metric) -> int | None:
        """Return the iteration, from 1, with the best first metric on the first evaluation set."""
        if not self.history:
            return None
        curve = np.array(next(iter(self.history[0].values())), dtype=np.float64)
        if np.isnan(curve).all():
            return None
        return int(np.nanargmax(curve if metric.higher_is_better else -curve)) + 1


@dataclass(frozen=True)
class Progress:
    """The progress of a training, as a callback receives it after each iteration.

    Parameters
    ----------
    iteration, n_estimators
        Iterations so far, and in all.
    done
        Iterations of this run, without iterations before it resumed.
    history
        Metrics of each evaluation set after each iteration, by name.
    seconds
        Time of this run so far.
    times
        Seconds in each phase, with the time before it resumed: ``"preparation"`` of the data,
        ``"compilation"`` of kernels (first run only), ``"gradients"``, ``"trees"``, ``"leaves"``
        (values that are not computed by the engine) and ``"evaluation"``.
    compile_seconds
        The part of ``seconds`` in which kernels were compiled. It does not help to estimate the
        time that is left.
    stage
        Name of the pass, if a training has several, for example ``"refit"``; empty for the pass
        with the curves that are kept.
    """

    iteration: int
    n_estimators: int
    done: int
    history: Sequence[dict[str, list[float]]]
    seconds: float
    times: dict[str, float]
    compile_seconds: float = 0.0
    stage: str = ""
