"""Tuning: hyperparameters chosen on validation queries, by random trials and then by guided ones.

Each trial trains on every fold. Its value is the mean over the folds of the best validation value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.arguments import evaluation_sets, ranking_data
from rankwright.data.base_score import base_field
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Folds
from rankwright.data.labels import choose_label
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.support import checks
from rankwright.tuning.constraint import Constraint, read_constraints
from rankwright.tuning.result import Tuning
from rankwright.tuning.space import (
    PRESETS,
    Space,
    check_names,
    default_values,
    ranker_parameters,
    search_space,
)
from rankwright.tuning.trials import Part, TrialWatch, run_trials

_FOLDS = 3


def tune(
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    group: Any = None,
    sample_weight: Any = None,
    metric: str | Metric = "ndcg@10",
    objective: str | Objective = "auto",
    constraint: str | Constraint | Sequence[str | Constraint] | None = None,
    valid: Any = None,
    base_score: str | None = None,
    folds: int | str | None = None,
    preset: str = "default",
    space: Space | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    n_estimators: int | None = None,
    study: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[Tuning], object] | None = None,
) -> Tuning:
    """Choose the hyperparameters of a `Ranker` on validation queries.

    The number of trees is the best one on validation, averaged over the folds. Ctrl-C ends the search and returns the
    result so far, if a trial is complete.

    Parameters
    ----------
    X, y, qid, group, sample_weight
        Queries to train on, as in `Ranker.fit`: a `RankingData`, or features, labels and query ids.
    metric, objective
        As in `Ranker`.
    constraint
        One or several conditions that the result has to meet on validation queries: ``"ndcg@10[margin] >= 0.4"``.
        They are checked at the number of trees with the best metric. Of the trials that meet them, the trial with the
        best metric wins. With a constraint no trial is stopped early.
    valid
        Queries to validate on, as a set of ``eval_set`` in `Ranker.fit`. Without them the queries are split into folds,
        each of which validates once.
    base_score
        Name of the field or feature with the scores to start from; see `Ranker.fit`.
    folds
        Number of folds if ``valid`` is not given; 3 by default. ``"time"``: folds in the order of time, as in `Ranker`.
    preset
        ``"default"``: 50 trials, the first with the Ranker's defaults and 19 drawn at random; up to 500 trees, stopped
        after 50 without improvement. ``"paper"``: the protocol of the "Which Tricks" paper, 20 random trials and then
        80 guided ones, 1000 trees, nothing stopped early.
    space
        Changes to `rankwright.tuning.space.search_space`: by name a `Range`, a `Choice`, or a fixed value.
    trials, seconds
        Limits of the search: the number of trials, including the trials of a resumed study, and the time of this call.
        A trial that exceeds the time is dropped, unless it is the first.
    n_estimators
        Largest number of trees, instead of the preset's.
    study
        A file that stores each trial, and from which the same call resumes after an interruption.
    random_state
        Seed of the search, of the folds and of each training. The same seed gives the same trials.
    n_jobs
        Number of threads; all cores by default. The result does not depend on it.
    progress
        Called after each trial with the result so far.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> data = make_web_search(24, n_features=20, mean_length=20)
    >>> tuning = tune(data, metric="map", trials=2, n_estimators=5, folds=2, n_jobs=1)
    >>> ranker = Ranker(**tuning.best, verbose=0).fit(data)
    >>> tuning = tune(data, constraint="map >= 0.1", trials=2, n_estimators=5, folds=2, n_jobs=1)
    >>> tuning.best_trial.constraint_values[0] > 0.1
    True
    """
    from rankwright.ranker import Ranker
    from rankwright.training.checkpoint import fingerprint
    from rankwright.training.defaults import AUTO_PAIRS, is_auto, resolve_objective

    checks.choice("preset", preset, PRESETS)
    data = ranking_data(X, y, qid, group, sample_weight)
    if valid is not None:
        (valid,) = evaluation_sets([valid], data, y, qid, given=X)
    plan = PRESETS[preset]
    target = parse_metric(metric)
    constraints = read_constraints(constraint)
    labels = choose_label(data.labels, target.first.label) if data.labels else data.y
    if is_auto(objective) and not data.labels:
        objective = AUTO_PAIRS
    resolved = resolve_objective(objective, target, float(np.mean(labels[data.judged] > 0)))
    full_space = search_space(objective, metric, preset=preset)
    if not data.one_weight_per_query:
        full_space["leaf_values"] = "diagonal"
    check_names(space or {}, resolved)
    full_space |= dict(space or {})
    parts = validation_parts(data, valid, folds, random_state)
    training = _Training(
        resolved,
        target,
        constraints,
        plan.trees if n_estimators is None else checks.whole("n_estimators", n_estimators, least=1),
        plan.patience,
        random_state,
        n_jobs,
        base_score,
    )
    first = None
    if plan.from_defaults:
        # Some defaults depend on the data: we train one tree to get them.
        ranker = Ranker(
            objective, target, n_estimators=1, random_state=random_state, n_jobs=n_jobs, verbose=0
        )
        ranker.fit(parts[0][0], base_score=base_score)
        first = default_values(full_space, resolved, ranker)
    search = {
        "data": [
            fingerprint(part, base_field(part, base_score))
            for part in (data, valid)
            if part is not None
        ],
        "metric": str(target),
        "objective": str(resolved),
        "space": {name: repr(values) for name, values in full_space.items()},
        "folds": folds if isinstance(folds, str) else len(parts),
        "n_estimators": training.max_trees,
        "preset": preset,
        "random_state": random_state,
    }
    if base_score is not None:
        search["base_score"] = base_score
    if constraints:
        search["constraints"] = [str(constraint) for constraint in constraints]
    return run_trials(
        full_space,
        lambda values, watch: training.measure(values, watch, parts),
        parts,
        target=target,
        parameters=training.parameters,
        first=first,
        search=search,
        trials=plan.trials if trials is None else trials,
        startup=plan.startup,
        # A trial that leads without the constraints would stop trials that meet them.
        pruning=plan.pruning and not constraints,
        constraints=constraints,
        seconds=seconds,
        study=study,
        seed=random_state,
        progress=progress,
    )


@dataclass(frozen=True)
class _Training:
    """How each trial trains, apart from the values that are drawn."""

    objective: Objective
    metric: Metric
    constraints: tuple[Constraint, ...]
    max_trees: int
    patience: int | None
    seed: int
    threads: int | None
    base_score: str | None

    def parameters(self, values: Mapping[str, Any], trees: int | None = None) -> dict[str, Any]:
        """Return the parameters of `Ranker` for drawn values and a number of trees."""
        metrics = [str(self.metric)]
        for constraint in self.constraints:
            if constraint.metric != self.metric:
                metrics.append(str(constraint.metric))
        return {
            "metric": metrics[0] if len(metrics) == 1 else metrics,
            "random_state": self.seed,
            **ranker_parameters(self.objective, values),
            "n_estimators": self.max_trees if trees is None else trees,
        }

    def measure(self, values: Mapping[str, Any], watch: TrialWatch, parts: Sequence[Part]) -> None:
        """Train on each fold, and tell the watch the values on the held-out queries."""
        from rankwright.ranker import Ranker

        def report(now: Any) -> None:
            watch.report(_first_curve(now.history[0]), now.iteration / self.max_trees)

        for train, held_out in parts:
            ranker = Ranker(
                **self.parameters(values),
                early_stopping_rounds=self.patience,
                # The best tree counts here, not the last tree that is about as good.
                stopping_rule="best",
                n_jobs=self.threads,
                verbose=0,
            )
            ranker.fit(train, base_score=self.base_score, eval_set=[held_out], callbacks=[report])
            if ranker.interrupted_:
                raise KeyboardInterrupt
            curves = ranker.evals_result_["valid_0"]
            watch.fold_done(
                _first_curve(curves),
                every=1,
                constrained=[curves[str(constraint.metric)] for constraint in self.constraints],
            )


def validation_parts(
    data: RankingData, valid: RankingData | None, folds: int | str | None, seed: int
) -> list[Part]:
    """Return pairs of queries to train and to validate on: the given ones, or each fold with the rest."""
    if valid is None:
        parts = list(Folds.of(folds, _FOLDS).parts(data, seed))
    elif folds is None:
        valid.check_columns(data)
        parts = [(data, valid)]
    else:
        raise ValueError(
            "valid and folds exclude each other; leave out folds to validate on valid."
        )
    if not all(held_out.labels for _, held_out in parts):
        raise ValueError(
            "the validation queries have no labels to evaluate with; give labelled ones as valid."
        )
    return parts


def _first_curve(history: Mapping[str, Sequence[float]]) -> Sequence[float]:
    return next(iter(history.values()))
