"""One training from start to end: progress, callbacks, checkpoints, and a Ctrl-C at any moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.kernels.compilation import announcing
from rankwright.support.interrupts import deferred_interrupts
from rankwright.support.locks import locked_folder
from rankwright.support.reducer import ALONE, EXACT_ALONE, Reducer
from rankwright.training.boosting import Boosting
from rankwright.training.checkpoint import Checkpoint
from rankwright.training.progress import Display, show_notice
from rankwright.training.settings import Plan
from rankwright.training.state import Progress, State, timed

_LOG = logging.getLogger("rankwright")

Callbacks = Sequence[Callable[[Progress], object]]


def check_callbacks(callbacks: Any) -> None:
    """Raise ValueError unless callbacks are None or a list of functions."""
    functions = [] if callbacks is None else callbacks
    if not isinstance(functions, list | tuple) or not all(
        callable(function) for function in functions
    ):
        raise ValueError(
            f"callbacks must be a list of functions that take a Progress; got {callbacks!r}."
        )


def reducer_alone(plan: Plan) -> Reducer:
    """One machine; it adds as several would where the engine could use them, so that they would give the same model."""
    return EXACT_ALONE if load_engine(plan.settings.engine).several_machines else ALONE


def run_training(
    plan: Plan,
    train: RankingData,
    valid: Sequence[RankingData],
    initial: Forest | None,
    *,
    times: dict[str, float],
    checkpoint: Any,
    verbose: int,
    callbacks: Callbacks | None,
    finish: Callable[[State, bool], None],
    stage: str = "",
) -> None:
    """Train, and call ``finish`` with the final state and whether Ctrl-C ended the training.

    Parameters
    ----------
    plan
        What to train, with what the data decides filled in.
    train, valid
        Data to train on and to evaluate.
    initial
        Trees to add to.
    times
        Seconds of each phase so far.
    checkpoint
        The estimator's option.
    verbose, callbacks
        What to show, and functions to call, after each tree.
    finish
        Takes over the result; a second Ctrl-C takes effect only when it is done.
    stage
        Name of this part of a training that has several; empty for the one that the curves are of.
    """
    state = State() if initial is None else State(forest=initial, initial_trees=initial.n_trees)
    saved = Checkpoint.of(checkpoint, plan, [train, *valid], initial)
    with nullcontext() if saved is None else locked_folder(saved.path, "a training"):
        if saved is not None:
            state = (saved.load() or state).first(
                plan.settings.n_trees
            )  # it may have more trees than are wanted now
        with announcing(show_notice(verbose)), timed(times, "preparation"):
            boosting = Boosting(
                plan.objective, plan.metrics, train, valid, plan.settings, reducer_alone(plan)
            )
        with Display(verbose, plan.settings.n_trees, plan.target) as display:
            for phase, seconds in times.items():
                state.times[phase] += seconds
            interrupted = _run(boosting, state, display, callbacks or (), saved, stage)
        with deferred_interrupts():
            state = boosting.snapshot()
            if saved is not None:
                saved.save(state)
            finish(state, interrupted)
            if state.n_trees == state.initial_trees and not interrupted:
                _LOG.warning(
                    "no tree found a split, so the model is constant: %s", _why_constant(train)
                )
            if interrupted:
                _LOG.warning(
                    "training was interrupted after %d iterations; the model has the trees so far",
                    state.iteration,
                )


def _why_constant(train: RankingData) -> str:
    """Say what keeps trees from growing: certain where the labels show it, otherwise what it may be."""
    starts = train.queries.boundaries[:-1]
    flat = all(
        np.array_equal(np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))
        for values in train.labels.values()
    )
    if train.pairs is None and flat:
        return "no query has two documents with different labels, so there is no order to learn"
    return (
        f"features may be constant, min_child_samples too large for {train.n_rows} rows, what engine_params asks of a "
        "split too much, weights so small that no leaf has curvature, or the metric the same for every order, as "
        "precision is without a cutoff"
    )


def _run(
    boosting: Boosting,
    start: State,
    display: Display,
    callbacks: Callbacks,
    checkpoint: Checkpoint | None,
    stage: str,
) -> bool:
    """Train; return whether Ctrl-C ended it."""

    def after(progress: Progress) -> bool:
        progress = replace(progress, stage=stage)
        display.update(progress)
        answers = [callback(progress) is True for callback in callbacks]
        if checkpoint is not None:
            checkpoint.save_if_due(boosting)  # last: what callbacks recorded covers it
        return any(answers)

    try:
        boosting.run(start, after)
    except KeyboardInterrupt:
        if boosting.iteration == 0:
            raise  # there is no tree to keep
        return True
    return False
