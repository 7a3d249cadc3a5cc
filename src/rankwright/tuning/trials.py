"""Trials of a search, drawn by Optuna and stopped if they fall behind.

Optuna's TPE draws the trials with a seed that is a function of (seed, number of finished trials). So an interrupted
search resumes with the trials of an uninterrupted one. From the second half of the first fold on, a trial is stopped
if its value is worse than the median of the earlier trials at the same point.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import evaluate_data
from rankwright.metrics import Metric
from rankwright.support import checks
from rankwright.support.ranges import Choice, Range
from rankwright.tuning.constraint import Constraint
from rankwright.tuning.result import Trial, Tuning, improvement_sign
from rankwright.tuning.space import Space, sample
from rankwright.tuning.study import load_optuna, open_study, quiet_optuna

_STEPS = 10  # reports of a trial in each fold
# The first reports stop no trial: a low learning rate starts behind without being worse.
_WARMUP_STEPS = _STEPS // 2
_PRUNING_MIN_TRIALS = 5  # complete trials to compare with
_IMPORTANCE_MIN_TRIALS = 4  # complete trials to rank parameters by importance

Part = tuple[RankingData, RankingData]


class _OutOfTime(Exception):
    """The time of a search ended during a trial."""


class TrialWatch:
    """Follows a trial: reports its values, and ends it if it should be pruned or time is up."""

    def __init__(self, trial: Any, sign: float, worst: Sequence[float], deadline: float) -> None:
        self.sign = sign
        self.values: list[float] = []
        self.trees: list[int] = []
        self.constrained: list[list[float]] = []  # per fold, the metrics of the constraints
        self._trial = trial
        self._worst = worst
        self._deadline = deadline
        self._improvement = 0.0  # of the finished folds
        self._reported = 0

    def report(self, curve: Sequence[float], share: float) -> None:
        """Report the values of a fold up to a share of its trees."""
        if time.monotonic() > self._deadline:
            raise _OutOfTime
        fold = len(self.values)
        step = fold * _STEPS + math.floor(share * _STEPS + 1e-9)
        if step <= self._reported:
            return
        # The improvement over the worst order is never negative, so the sum over folds and trees only grows, as the
        # pruner assumes. Skipped steps have the same value.
        improvement = self._improvement + self.sign * (self._best(curve) - self._worst[fold])
        while self._reported < step:
            self._trial.report(improvement, self._reported)
            self._reported += 1
        if self._trial.should_prune():
            raise load_optuna().TrialPruned

    def fold_done(
        self, curve: Sequence[float], *, every: int, constrained: Sequence[Sequence[float]] = ()
    ) -> None:
        """Finish a fold.

        Parameters
        ----------
        curve
            Values of the metric after each ``every`` trees.
        every
            Trees between two values.
        constrained
            Curves of the metrics of the constraints.
        """
        best = self._best(curve)
        place = list(curve).index(best)
        self.constrained.append([values[place] for values in constrained])
        self.report(curve, 1.0)
        self._improvement += self.sign * (best - self._worst[len(self.values)])
        self.values.append(best)
        self.trees.append(every * (place + 1))

    def _best(self, curve: Sequence[float]) -> float:
        return self.sign * max(self.sign * value for value in curve)


def run_trials(
    space: Space,
    measure: Callable[[Mapping[str, Any], TrialWatch], None],
    parts: Sequence[Part],
    *,
    target: Metric,
    parameters: Callable[[Mapping[str, Any], int | None], dict[str, Any]],
    first: Mapping[str, Any] | None,
    search: Mapping[str, Any],
    trials: int,
    startup: int,
    pruning: bool,
    seconds: float | None,
    study: str | os.PathLike[str] | None,
    seed: int,
    progress: Callable[[Tuning], object] | None,
    constraints: tuple[Constraint, ...] = (),
) -> Tuning:
    """Run trials until their number or the time is reached.

    Parameters
    ----------
    space
        Values to try, by name.
    measure
        Trains with drawn values, and tells a watch the values of each fold.
    parts
        Queries to train and to validate on.
    target
        The metric to optimise.
    parameters
        Turns drawn values and a number of trees into the parameters of a trial.
    first
        Values of the first trial; None draws them.
    search
        Description of the search, to be stored with the study.
    trials, startup, pruning
        Number of trials, how many of them are random, and whether trials are stopped that fall behind.
    seconds, study, seed, progress, constraints
        As in `rankwright.tune`.
    """
    optuna = load_optuna()
    checks.whole("trials", trials, least=1)
    checks.whole("startup", startup, least=1)
    deadline = math.inf
    if seconds is not None:
        deadline = time.monotonic() + checks.positive("seconds", seconds)
    sign = improvement_sign(target)
    worst = [
        validation_value(np.zeros(held_out.n_rows), held_out, target, 1) for _, held_out in parts
    ]
    pruner = optuna.pruners.NopPruner()
    if pruning:
        pruner = optuna.pruners.MedianPruner(_PRUNING_MIN_TRIALS, _WARMUP_STEPS)
    complete, pruned = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
    with open_study(study, search, pruner) as current:

        def finished_trials() -> list[Any]:
            return list(current.get_trials(deepcopy=False, states=(complete, pruned)))

        def result(*, interrupted: bool = False) -> Tuning:
            finished = finished_trials()
            done = tuple(
                _trial(trial, number, space, parameters, startup)
                for number, trial in enumerate(finished, start=1)
            )
            return Tuning(
                str(target), done, interrupted, lambda: _importance(finished), constraints
            )

        while True:
            finished = finished_trials()
            any_complete = any(trial.state == complete for trial in finished)
            out_of_time = any_complete and time.monotonic() > deadline
            if len(finished) >= trials or out_of_time:
                return result()
            waiting = current.get_trials(states=(optuna.trial.TrialState.WAITING,))
            if first is not None and not finished and not waiting:
                current.enqueue_trial(dict(first))
            # A new seed for each trial, so that it depends only on the trials before it.
            trial_seed = int(np.random.SeedSequence([seed, len(finished)]).generate_state(1)[0])
            current.sampler = optuna.samplers.TPESampler(n_startup_trials=startup, seed=trial_seed)
            trial = current.ask()
            # The first complete trial may take any time, because a search needs a result.
            watch = TrialWatch(trial, sign, worst, deadline if any_complete else math.inf)
            try:
                _run_trial(current, trial, watch, space, measure, constraints)
            except _OutOfTime:
                return result()
            except KeyboardInterrupt:
                if not any_complete:
                    raise
                return result(interrupted=True)
            if progress is not None:
                progress(result())


def _run_trial(
    study: Any,
    trial: Any,
    watch: TrialWatch,
    space: Space,
    measure: Callable[[Mapping[str, Any], TrialWatch], None],
    constraints: Sequence[Constraint],
) -> None:
    """Draw values, measure them, and store the outcome in the study."""
    optuna = load_optuna()
    start = time.perf_counter()
    try:
        values = sample(space, trial)
        trial.set_user_attr("values", values)
        measure(values, watch)
    except optuna.TrialPruned:
        trial.set_user_attr("seconds", time.perf_counter() - start)
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return
    except BaseException:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        raise
    trial.set_user_attr("seconds", time.perf_counter() - start)
    trial.set_user_attr("fold_values", watch.values)
    trial.set_user_attr("fold_trees", watch.trees)
    _set_constraints(trial, constraints, watch)
    study.tell(trial, watch.sign * float(np.mean(watch.values)))


def _set_constraints(trial: Any, constraints: Sequence[Constraint], watch: TrialWatch) -> None:
    """Store how far a trial is from the constraints, because that guides the later trials."""
    if not constraints:
        return
    means = [float(np.mean(values)) for values in zip(*watch.constrained, strict=True)]
    for constraint, value in zip(constraints, means, strict=True):
        if math.isnan(value):
            raise ValueError(
                f"no validation query has a relevant document, so {constraint.metric} has no value."
            )
        trial.set_constraint(str(constraint), constraint.excess(value))
    trial.set_user_attr("constraint_values", means)


def _trial(
    trial: Any,
    number: int,
    space: Space,
    parameters: Callable[[Mapping[str, Any], int | None], dict[str, Any]],
    startup: int,
) -> Trial:
    """Return a trial of Optuna as a `Trial`."""
    stored = trial.user_attrs
    fold_values, fold_trees = stored.get("fold_values", ()), stored.get("fold_trees", ())
    value, trees = None, None
    if fold_values:
        value = float(np.mean(fold_values))
        trees = max(1, round(float(np.mean(fold_trees))))
    origin = "random" if number <= startup else "guided"
    if "fixed_params" in trial.system_attrs:
        origin = "defaults"
    drawn = {
        name: value
        for name, value in stored["values"].items()
        if isinstance(space[name], Range | Choice)
    }
    return Trial(
        number=number,
        values=drawn,
        params=parameters(stored["values"], trees),
        value=value,
        trees=trees,
        fold_values=tuple(fold_values),
        fold_trees=tuple(fold_trees),
        seconds=stored["seconds"],
        origin=origin,
        constraint_values=tuple(stored.get("constraint_values", ())),
        excess=float(sum(max(0.0, excess) for excess in trial.constraints.values())),
    )


def _importance(trials: Sequence[Any]) -> dict[str, float]:
    optuna = load_optuna()
    complete = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    if len(complete) < _IMPORTANCE_MIN_TRIALS:
        return {}
    with quiet_optuna():
        study = optuna.create_study(direction="maximize")
    study.add_trials(complete)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    shares: dict[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return shares


def validation_value(
    scores: NDArray[np.float64], data: RankingData, metric: Metric, threads: int
) -> float:
    """Evaluate a metric on validation queries."""
    mean = evaluate_data(scores, data, [metric], n_jobs=threads).mean[str(metric)]
    if math.isnan(mean):
        raise ValueError(
            f"no validation query has a relevant document, so {metric} has no value; validate on other queries, or use "
            "fewer folds."
        )
    return mean
