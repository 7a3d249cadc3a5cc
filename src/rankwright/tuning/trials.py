"""Trials of a search, drawn by Optuna and stopped where they fall behind.

Optuna's TPE draws the trials, with a seed that is a function of (seed, number of finished trials): an interrupted
search resumes with the same trials as an uninterrupted one. From the second half of the first fold, a trial whose value
is worse than the median of the earlier ones at the same point is stopped.
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
from rankwright.evaluation.per_query import evaluate
from rankwright.metrics import Metric
from rankwright.support.ranges import Choice, Range
from rankwright.tuning.constraint import Constraint
from rankwright.tuning.result import Trial, Tuning, improvement_sign
from rankwright.tuning.space import Space, sample
from rankwright.tuning.study import load_optuna, open_study, quiet_optuna

_STEPS = 10  # reports of a trial in each fold
_WARMUP_STEPS = (
    _STEPS // 2
)  # the first reports stop no trial: a low learning rate starts behind, and is not worse
_PRUNING_MIN_TRIALS = 5  # complete trials to compare with
_IMPORTANCE_MIN_TRIALS = 4  # complete trials to rank parameters by importance

Part = tuple[RankingData, RankingData]


class _OutOfTime(Exception):
    """The time of a search ended during a trial."""


class TrialWatch:
    """Follows a trial: reports its values, and ends it if it should be pruned or time is up."""

    def __init__(self, trial: Any, sign: float, worst: Sequence[float], deadline: float) -> None:
        self.values: list[float] = []
        self.trees: list[int] = []
        self.beside: list[list[float]] = []  # values of the constraints' metrics in each fold
        self._trial = trial
        self._sign = sign
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
        improvement = self._improvement + self._sign * (self._best(curve) - self._worst[fold])
        while self._reported < step:
            self._trial.report(improvement, self._reported)
            self._reported += 1
        if self._trial.should_prune():
            raise load_optuna().TrialPruned

    def fold_done(
        self, curve: Sequence[float], *, every: int, beside: Sequence[Sequence[float]] = ()
    ) -> None:
        """Finish a fold with its values after each ``every`` trees, and those of other metrics."""
        best = self._best(curve)
        place = list(curve).index(best)
        trees = every * (place + 1)
        self.beside.append([other[place] for other in beside])
        self.report(curve, 1.0)
        self._improvement += self._sign * (best - self._worst[len(self.values)])
        self.values.append(best)
        self.trees.append(trees)

    def _best(self, curve: Sequence[float]) -> float:
        return self._sign * max(self._sign * value for value in curve)


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
    """Run trials until their number or the time is reached."""
    optuna = load_optuna()
    check_count("trials", trials)
    check_count("startup", startup)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be a positive number; got {seconds!r}.")
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    sign = improvement_sign(target)
    worst = [
        validation_value(np.zeros(held_out.n_rows), held_out, target, 1) for _, held_out in parts
    ]
    pruner = (
        optuna.pruners.MedianPruner(_PRUNING_MIN_TRIALS, _WARMUP_STEPS)
        if pruning
        else optuna.pruners.NopPruner()
    )
    complete, pruned, failed = (
        getattr(optuna.trial.TrialState, name) for name in ("COMPLETE", "PRUNED", "FAIL")
    )
    with open_study(study, search, pruner) as current:

        def result(interrupted: bool = False) -> Tuning:
            finished = current.get_trials(deepcopy=False, states=(complete, pruned))
            done = tuple(
                _trial(trial, number, space, parameters, startup)
                for number, trial in enumerate(finished, start=1)
            )
            return Tuning(
                str(target), done, interrupted, lambda: _importance(finished), constraints
            )

        while True:
            finished = current.get_trials(deepcopy=False, states=(complete, pruned))
            any_complete = any(trial.state == complete for trial in finished)
            if len(finished) >= trials or (any_complete and time.monotonic() > deadline):
                return result()
            if (
                not finished
                and first is not None
                and not current.get_trials(states=(optuna.trial.TrialState.WAITING,))
            ):
                current.enqueue_trial(dict(first))
            # A new seed for each trial, so that it depends only on the trials before it.
            trial_seed = int(np.random.SeedSequence([seed, len(finished)]).generate_state(1)[0])
            current.sampler = optuna.samplers.TPESampler(n_startup_trials=startup, seed=trial_seed)
            trial = current.ask()
            watch = TrialWatch(trial, sign, worst, deadline if any_complete else math.inf)
            start = time.perf_counter()
            try:
                values = sample(space, trial)
                trial.set_user_attr("values", values)
                measure(values, watch)
            except optuna.TrialPruned:
                trial.set_user_attr("seconds", time.perf_counter() - start)
                current.tell(trial, state=pruned)
            except _OutOfTime:
                current.tell(trial, state=failed)
                return result()
            except KeyboardInterrupt:
                current.tell(trial, state=failed)
                if not any_complete:
                    raise
                return result(interrupted=True)
            except BaseException:
                current.tell(trial, state=failed)
                raise
            else:
                trial.set_user_attr("seconds", time.perf_counter() - start)
                trial.set_user_attr("fold_values", watch.values)
                trial.set_user_attr("fold_trees", watch.trees)
                _set_constraints(trial, constraints, watch)
                current.tell(trial, sign * float(np.mean(watch.values)))
            if progress is not None:
                progress(result())


def _set_constraints(trial: Any, constraints: Sequence[Constraint], watch: TrialWatch) -> None:
    """Tell the study how far a trial is from the constraints, which guides the later ones."""
    values = [float(np.mean(of_folds)) for of_folds in zip(*watch.beside, strict=True)]
    for constraint, value in zip(constraints, values, strict=True):
        if math.isnan(value):
            raise ValueError(
                f"no validation query has a relevant document, so {constraint.metric} has no value."
            )
        trial.set_constraint(str(constraint), constraint.excess(value))
    if constraints:
        trial.set_user_attr("constraint_values", values)


def _trial(
    trial: Any,
    number: int,
    space: Space,
    parameters: Callable[[Mapping[str, Any], int | None], dict[str, Any]],
    startup: int,
) -> Trial:
    stored = trial.user_attrs
    enqueued = "fixed_params" in trial.system_attrs
    fold_values, fold_trees = stored.get("fold_values", ()), stored.get("fold_trees", ())
    trees = max(1, round(float(np.mean(fold_trees)))) if fold_trees else None
    return Trial(
        number=number,
        values={
            name: value
            for name, value in stored["values"].items()
            if isinstance(space[name], Range | Choice)
        },
        params=parameters(stored["values"], trees),
        value=float(np.mean(fold_values)) if fold_values else None,
        trees=trees,
        fold_values=tuple(fold_values),
        fold_trees=tuple(fold_trees),
        seconds=stored["seconds"],
        origin="defaults" if enqueued else "random" if number <= startup else "guided",
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
    result = evaluate(
        scores,
        data.labels,
        group=data.group,
        metrics=[metric],
        weights=data.weights,
        threads=threads,
    )
    mean = result.mean[str(metric)]
    if math.isnan(mean):
        raise ValueError(
            f"no validation query has a relevant document, so {metric} has no value; validate on other queries, or use "
            "fewer folds."
        )
    return mean


def check_count(name: str, value: Any) -> None:
    """Refuse what is not a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number; got {value!r}.")
