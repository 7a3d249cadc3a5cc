"""Tuning: hyper-parameters chosen on validation queries, by random trials and then by guided ones.

Each trial trains on every fold; its value is the mean over the folds of the best validation value. Optuna's TPE draws
the trials, with a seed that is a function of (seed, number of finished trials): an interrupted search resumes with the
same trials as an uninterrupted one. From the second half of the first fold, a trial whose value is worse than the
median of the earlier ones at the same point is stopped.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright._html import table
from rankwright._io import replacing
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.data.labels import choose_label
from rankwright.evaluation.per_query import evaluate
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.ranges import Choice, Range
from rankwright.research.harness import System, check_installed
from rankwright.tuning.constraint import Constraint, read_constraints
from rankwright.tuning.space import (
    PRESETS,
    Space,
    check_names,
    check_preset,
    default_values,
    ranker_parameters,
    sample,
    search_space,
)
from rankwright.tuning.study import load_optuna, open_study, quiet_optuna

if TYPE_CHECKING:
    import pandas as pd

_STEPS = 10  # reports of a trial in each fold
_WARMUP_STEPS = _STEPS // 2  # the first reports stop no trial: a low learning rate starts behind, and is not worse
_FOLDS = 3
_PRUNING_MIN_TRIALS = 5  # complete trials to compare with
_IMPORTANCE_MIN_TRIALS = 4  # complete trials to rank parameters by importance
_HEADING = "# Found by rankwright tune"
_TABLE_ROWS = 10  # trials in the printed table

Part = tuple[RankingData, RankingData]


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Parameters
    ----------
    number
        Number from 1, in the order of the search.
    values
        Drawn values, by the names of the space.
    params
        Parameters to train with: of `Ranker`, or of the system that was tuned.
    value
        Mean over the folds of the best validation value; None if the trial was stopped early.
    trees
        Mean over the folds of the number of trees with the best value, rounded; None if the trial was stopped early.
    fold_values, fold_trees
        Best value of each fold, and its number of trees.
    seconds
        Duration.
    origin
        Where its values come from: ``"defaults"``, ``"random"`` or, if the search learned from earlier trials,
        ``"guided"``.
    constraint_values
        Values of the metrics of the constraints, each the mean over the folds, with the trees of the best value.
    excess
        By how much it misses the constraints in all; 0 if it meets them.
    """

    number: int
    values: dict[str, Any]
    params: dict[str, Any]
    value: float | None
    trees: int | None
    fold_values: tuple[float, ...]
    fold_trees: tuple[int, ...]
    seconds: float
    origin: str
    constraint_values: tuple[float, ...] = ()
    excess: float = 0.0


@dataclass(frozen=True, eq=False)
class Tuning:
    """Result of a search; prints as a table of the best trials.

    Attributes
    ----------
    metric : str
        The optimised metric.
    trials : tuple of Trial
        All trials, in the order of the search.
    interrupted : bool
        True if Ctrl-C ended the search.
    constraints : tuple of Constraint
        What the result has to meet.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> tuning = tune(make_web_search(24, n_features=20), trials=1, trees=3, folds=2, threads=1)
    >>> print(tuning)
    trial  ndcg@10  trees  parameters
        1  0...      ...
    1 trials, 0 of them stopped early.
    """

    metric: str
    trials: tuple[Trial, ...]
    interrupted: bool
    _importance: Callable[[], dict[str, float]]
    constraints: tuple[Constraint, ...] = ()

    @property
    def best_trial(self) -> Trial:
        """The trial with the best value that meets the constraints, or else comes nearest; the first of equals."""
        return self.ranked()[0]

    @property
    def best(self) -> dict[str, Any]:
        """Parameters of the best trial: ``Ranker(**tuning.best)`` is the tuned ranker."""
        return dict(self.best_trial.params)

    def ranked(self) -> list[Trial]:
        """Return the complete trials, the best first; those that miss a constraint come last, the nearest first."""
        sign = _sign(self.metric)
        complete = [(trial, trial.value) for trial in self.trials if trial.value is not None]
        return [trial for trial, _ in sorted(complete, key=lambda pair: (pair[0].excess, -sign * pair[1]))]

    def shortfall(self) -> str:
        """Say by how much the best trial misses the constraints; empty if it meets them."""
        best = self.best_trial
        if best.excess <= 0:
            return ""
        values = zip(self.constraints, best.constraint_values, strict=True)
        return "No trial meets the constraints; the nearest has " + ", ".join(
            f"{one.metric} {value:.4f} for {one}" for one, value in values if one.excess(value) > 0
        )

    def origins(self) -> str:
        """Say how many trials had the defaults, were drawn at random and were guided by earlier ones."""
        counts = Counter(trial.origin for trial in self.trials)
        first = f"{counts['defaults']} with the defaults, " if counts["defaults"] else ""
        return f"{first}{counts['random']} drawn at random, {counts['guided']} guided by earlier ones"

    def importance(self) -> dict[str, float]:
        """Return how much each parameter separates the best tenth of the trials from the rest, the largest share first.

        By PED-ANOVA over the complete trials; shares sum to 1. Empty for fewer than four complete trials.
        """
        return self._importance()

    def table(self) -> list[dict[str, Any]]:
        """Return a row per trial in the order of the search: number, value, trees, seconds and the drawn values."""
        return [
            {"trial": trial.number, self.metric: trial.value}
            | dict(zip(map(_metric_text, self.constraints), trial.constraint_values, strict=False))
            | {"trees": trial.trees, "seconds": trial.seconds}
            | trial.values
            for trial in self.trials
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas; run `pip install pandas`.") from error
        return pd.DataFrame(self.table())

    def save_config(self, path: str | os.PathLike[str]) -> None:
        """Write the best parameters to a TOML file for ``rankwright train --config``."""
        import tomli_w

        best = self.best_trial
        heading = f"{_HEADING}: {self.metric} {best.value:.4f} on validation queries, {len(self.trials)} trials."
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(f"{heading}\n".encode())
            tomli_w.dump({name: value for name, value in best.params.items() if value is not None}, file)

    def _repr_html_(self) -> str:
        header, body, note = self._cells()
        return table(header, body, note, f"Best: Ranker({', '.join(_value_texts(self.best))})" if body else "")

    def __str__(self) -> str:
        header, body, note = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
        lines = [
            "  ".join([*(cell.rjust(w) for cell, w in zip(row[:-1], widths, strict=False)), row[-1]])
            for row in (header, *body)
        ]
        return "\n".join([*lines, note])

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        """Heading and rows of the table of the best trials, and the note below it."""
        header = ["trial", self.metric, *map(_metric_text, self.constraints), "trees", "parameters"]
        body = [
            [
                str(trial.number),
                f"{trial.value:.4f}",
                *(f"{value:.4f}" for value in trial.constraint_values),
                str(trial.trees),
                ", ".join(_value_texts(trial.values)),
            ]
            for trial in self.ranked()[:_TABLE_ROWS]
        ]
        stopped = sum(trial.value is None for trial in self.trials)
        note = f"{len(self.trials)} trials, {stopped} of them stopped early."
        if self.constraints:
            met = sum(trial.value is not None and trial.excess <= 0 for trial in self.trials)
            note += f" {met} meet {' and '.join(map(str, self.constraints))}."
        return header, body, note


def tune(
    data: RankingData,
    *,
    metric: str | Metric = "ndcg@10",
    objective: str | Objective = "auto",
    constraint: str | Constraint | Sequence[str | Constraint] | None = None,
    valid: RankingData | None = None,
    folds: int | None = None,
    preset: str = "default",
    space: Space | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    trees: int | None = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Tuning], object] | None = None,
) -> Tuning:
    """Choose the hyper-parameters of a `Ranker` on validation queries.

    The number of trees is the best one on validation, averaged over the folds. Ctrl-C ends the search and returns the
    result so far, if a trial is complete.

    Parameters
    ----------
    data
        Queries to train on.
    metric, objective
        As in `Ranker`.
    constraint
        What the result has to meet on validation queries, one or several: ``"ndcg@10[margin] >= 0.4"``. The value is
        that of the trees with the best metric. The trial that meets it with the best metric wins. With a constraint no
        trial is stopped early.
    valid
        Queries to validate on. Without them ``data`` is split by query into folds, each of which validates once.
    folds
        Number of folds if ``valid`` is not given; 3 by default.
    preset
        ``"default"``: 50 trials, the first with the Ranker's defaults and 19 drawn at random; up to 500 trees, stopped
        after 50 without improvement. ``"paper"``: the protocol of the "Which Tricks" paper, 20 random trials and then
        80 guided ones, 1000 trees, nothing stopped early.
    space
        Changes to `rankwright.tuning.space.search_space`: by name a `Range`, a `Choice`, or a fixed value.
    trials, seconds
        Limits of the search: the number of trials, including those of a resumed study, and the time of this call. A
        trial that exceeds the time is dropped, unless it is the first.
    trees
        Largest number of trees, instead of the preset's.
    study
        A file that stores each trial, and from which the same call resumes after an interruption.
    seed
        Seed of the search, of the folds and of each training. The same seed gives the same trials.
    threads
        Number of threads; all cores by default. The result does not depend on it.
    progress
        Called after each trial with the result so far.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> data = make_web_search(24, n_features=20, mean_length=20)
    >>> tuning = tune(data, metric="map", trials=2, trees=5, folds=2, threads=1)
    >>> ranker = Ranker(**tuning.best, verbose=0).fit(data)
    >>> tuning = tune(data, constraint="map >= 0.1", trials=2, trees=5, folds=2, threads=1)
    >>> tuning.best_trial.constraint_values[0] > 0.1
    True
    """
    from rankwright.ranker import Ranker
    from rankwright.training.checkpoint import fingerprint
    from rankwright.training.defaults import AUTO_PAIRS, is_auto, resolve_objective

    check_preset(preset)
    plan = PRESETS[preset]
    target = parse_metric(metric)
    constraints = read_constraints(constraint)
    labels = choose_label(data.labels, target.first.label) if data.labels else data.y
    if is_auto(objective) and not data.labels:
        objective = AUTO_PAIRS
    source = resolve_objective(objective, target, float(np.mean(labels > 0)))
    full_space = _without_full_leaves(search_space(objective, metric, preset=preset), data)
    check_names(space or {}, source)
    full_space |= dict(space or {})
    parts = validation_parts(data, valid, folds, seed)
    max_trees = plan.trees if trees is None else trees
    _check_count("trees", max_trees)
    metrics = [str(target), *(str(one.metric) for one in constraints if one.metric != target)]
    constant = {"metric": metrics[0] if len(metrics) == 1 else metrics, "random_state": seed}
    first = None
    if plan.from_defaults:  # some of them depend on the data: train one tree to get them
        ranker = Ranker(objective, target, n_estimators=1, random_state=seed, n_jobs=threads, verbose=0)
        first = default_values(full_space, source, ranker.fit(parts[0][0]))

    def parameters(values: Mapping[str, Any], trees: int | None = None) -> dict[str, Any]:
        return {**constant, **ranker_parameters(source, values), "n_estimators": max_trees if trees is None else trees}

    def measure(values: Mapping[str, Any], watch: _Watch) -> None:
        for train, held_out in parts:
            # The whole curve is of interest, up to the usual patience after its best value.
            stopping: dict[str, Any] = {"early_stopping_rounds": plan.patience, "stopping_rule": "best"}
            ranker = Ranker(**parameters(values), **stopping, n_jobs=threads, verbose=0)
            ranker.fit(
                train,
                eval_set=[held_out],
                callbacks=[lambda now: watch.report(_curve(now.history[0]), now.iteration / max_trees)],
            )
            if ranker.interrupted_:
                raise KeyboardInterrupt
            curves = ranker.evals_result_["valid_0"]
            watch.fold_done(_curve(curves), every=1, beside=[curves[str(one.metric)] for one in constraints])

    search = {
        "data": [fingerprint(part) for part in (data, *([] if valid is None else [valid]))],
        "metric": str(target),
        "objective": str(source),
        "space": {name: repr(values) for name, values in full_space.items()},
        "folds": len(parts),
        "trees": max_trees,
        "preset": preset,
        "seed": seed,
    }
    if constraints:
        search["constraints"] = [str(one) for one in constraints]
    return _search(
        full_space,
        measure,
        parts,
        target=target,
        parameters=parameters,
        first=first,
        search=search,
        trials=plan.trials if trials is None else trials,
        startup=plan.startup,
        pruning=plan.pruning and not constraints,  # what leads without the constraint would stop what meets it
        constraints=constraints,
        seconds=seconds,
        study=study,
        seed=seed,
        progress=progress,
    )


def tune_system(
    make_system: Callable[[Mapping[str, Any]], System],
    space: Space,
    folds: Iterable[Fold],
    *,
    target: str | Metric,
    trials: int = 50,
    startup: int = 20,
    seconds: float | None = None,
    trees: int = 300,
    every: int = 5,
    pruning: bool = True,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[Tuning], object] | None = None,
) -> Tuning:
    """Tune any system, such as a peer, in the same way as `tune`, on given folds.

    Only the validation queries are used; the test queries of the folds are not read. If the validation queries of a
    fold are test queries of another, tune on one fold at a time.

    Parameters
    ----------
    make_system
        Creates the system from values of the space.
    space
        By name a `Range`, a `Choice`, or a fixed value; `rankwright.tuning.space.PEERS` has a space for each peer.
    folds
        Folds to train and validate on.
    target
        The metric to optimise.
    trials, startup, seconds, study, progress
        As in `tune`; ``startup`` is the number of random trials.
    trees, every
        Largest number of trees; their number is chosen among the multiples of ``every``.
    pruning
        Whether a trial is stopped after a fold if its value is worse than the median of the earlier ones.
    seed, threads
        Seed of the search and of each training, and number of threads of the training.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> from rankwright.data.folds import folds_by_query
    >>> from rankwright.research.peers import LightGBM
    >>> from rankwright.ranges import Range
    >>> folds = folds_by_query(make_web_search(24, n_features=20, mean_length=20), 3)
    >>> tuning = tune_system(
    ...     lambda values: LightGBM("lambdarank", values),
    ...     {"num_leaves": Range(4, 16), "min_data_in_leaf": 5},
    ...     folds,
    ...     target="ndcg@10",
    ...     trials=2,
    ...     trees=10,
    ... )
    >>> tuning.best["min_data_in_leaf"]
    5
    """
    from rankwright.training.checkpoint import fingerprint

    _check_count("trees", trees)
    _check_count("every", every)
    default = make_system({})
    check_installed([default])
    metric = parse_metric(target)
    parts = [(fold.train, fold.valid) for fold in folds]

    def measure(values: Mapping[str, Any], watch: _Watch) -> None:
        system = make_system(values)
        for train, held_out in parts:
            model = system.fit(train, str(metric), trees=trees, seed=seed, threads=threads)
            stages = model.staged_predict(held_out, every)
            watch.fold_done([_value(scores, held_out, metric, threads) for scores in stages], every=every)

    search = {
        "system": default.name,
        "data": [fingerprint(part) for pair in parts for part in pair],
        "metric": str(metric),
        "space": {name: repr(values) for name, values in space.items()},
        "trees": [trees, every],
        "startup": startup,
        "pruning": pruning,
        "seed": seed,
    }
    return _search(
        space,
        measure,
        parts,
        target=metric,
        parameters=lambda values, _: dict(values),
        first=None,
        search=search,
        trials=trials,
        startup=startup,
        pruning=pruning,
        seconds=seconds,
        study=study,
        seed=seed,
        progress=progress,
    )


def validation_parts(data: RankingData, valid: RankingData | None, folds: int | None, seed: int) -> list[Part]:
    """Return pairs of queries to train and to validate on: those given, or each fold with the rest."""
    if valid is not None and folds is not None:
        raise ValueError("valid and folds exclude each other; leave out folds to validate on valid.")
    if valid is not None:
        valid.check_columns(data)
    parts = [(data, valid)] if valid is not None else list(data.kfold(_FOLDS if folds is None else folds, seed=seed))
    if not all(held_out.labels for _, held_out in parts):
        raise ValueError("the validation queries have no labels to evaluate with; give labelled ones as valid.")
    return parts


def is_config(path: str | os.PathLike[str]) -> bool:
    """Whether a file was written by `Tuning.save_config`."""
    file = Path(path)
    return file.is_file() and file.read_bytes().startswith(_HEADING.encode())


class _OutOfTime(Exception):
    """The time of a search ended during a trial."""


class _Watch:
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

    def fold_done(self, curve: Sequence[float], *, every: int, beside: Sequence[Sequence[float]] = ()) -> None:
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


def _search(
    space: Space,
    measure: Callable[[Mapping[str, Any], _Watch], None],
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
    _check_count("trials", trials)
    _check_count("startup", startup)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be a positive number; got {seconds!r}.")
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    sign = _sign(target)
    worst = [_value(np.zeros(held_out.n_rows), held_out, target, 1) for _, held_out in parts]
    pruner = optuna.pruners.MedianPruner(_PRUNING_MIN_TRIALS, _WARMUP_STEPS) if pruning else optuna.pruners.NopPruner()
    complete, pruned, failed = (getattr(optuna.trial.TrialState, name) for name in ("COMPLETE", "PRUNED", "FAIL"))
    with open_study(study, search, pruner) as current:

        def result(interrupted: bool = False) -> Tuning:
            finished = current.get_trials(deepcopy=False, states=(complete, pruned))
            done = tuple(
                _trial(trial, number, space, parameters, startup) for number, trial in enumerate(finished, start=1)
            )
            return Tuning(str(target), done, interrupted, lambda: _importance(finished), constraints)

        while True:
            finished = current.get_trials(deepcopy=False, states=(complete, pruned))
            any_complete = any(trial.state == complete for trial in finished)
            if len(finished) >= trials or (any_complete and time.monotonic() > deadline):
                return result()
            if not finished and first is not None and not current.get_trials(states=(optuna.trial.TrialState.WAITING,)):
                current.enqueue_trial(dict(first))
            # A new seed for each trial, so that it depends only on the trials before it.
            trial_seed = int(np.random.SeedSequence([seed, len(finished)]).generate_state(1)[0])
            current.sampler = optuna.samplers.TPESampler(n_startup_trials=startup, seed=trial_seed)
            trial = current.ask()
            watch = _Watch(trial, sign, worst, deadline if any_complete else math.inf)
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


def _set_constraints(trial: Any, constraints: Sequence[Constraint], watch: _Watch) -> None:
    """Tell the study how far a trial is from the constraints, which guides the later ones."""
    values = [float(np.mean(of_folds)) for of_folds in zip(*watch.beside, strict=True)]
    for constraint, value in zip(constraints, values, strict=True):
        if math.isnan(value):
            raise ValueError(f"no validation query has a relevant document, so {constraint.metric} has no value.")
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
        values={name: value for name, value in stored["values"].items() if isinstance(space[name], Range | Choice)},
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


def _without_full_leaves(space: dict[str, Any], data: RankingData) -> dict[str, Any]:
    """Restrict the space to diagonal leaf values if weights differ within a query."""
    if data.one_weight_per_query:
        return space
    return {**space, "leaf_values": "diagonal"}


def _value(scores: NDArray[np.float64], data: RankingData, metric: Metric, threads: int) -> float:
    result = evaluate(scores, data.labels, group=data.group, metrics=[metric], weights=data.weights, threads=threads)
    mean = result.mean[str(metric)]
    if math.isnan(mean):
        raise ValueError(
            f"no validation query has a relevant document, so {metric} has no value; validate on other queries, or use "
            "fewer folds."
        )
    return mean


def _curve(history: Mapping[str, Sequence[float]]) -> Sequence[float]:
    return next(iter(history.values()))


def _metric_text(constraint: Constraint) -> str:
    return str(constraint.metric)


def _sign(metric: str | Metric) -> float:
    return 1.0 if parse_metric(metric).higher_is_better else -1.0


def _value_texts(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()]


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number; got {value!r}.")
