"""Tuning: hyper-parameters chosen on validation queries, by random trials and then by guided ones.

Each trial trains on every fold; its value is the mean over the folds of the best validation value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.labels import choose_label
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.tuning.constraint import Constraint, read_constraints
from rankwright.tuning.result import Tuning
from rankwright.tuning.space import (
    PRESETS,
    Space,
    check_names,
    check_preset,
    default_values,
    ranker_parameters,
    search_space,
)
from rankwright.tuning.trials import Part, TrialWatch, check_count, run_trials

_FOLDS = 3


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
    check_count("trees", max_trees)
    metrics = [str(target), *(str(one.metric) for one in constraints if one.metric != target)]
    constant = {"metric": metrics[0] if len(metrics) == 1 else metrics, "random_state": seed}
    first = None
    if plan.from_defaults:  # some of them depend on the data: train one tree to get them
        ranker = Ranker(
            objective, target, n_estimators=1, random_state=seed, n_jobs=threads, verbose=0
        )
        first = default_values(full_space, source, ranker.fit(parts[0][0]))

    def parameters(values: Mapping[str, Any], trees: int | None = None) -> dict[str, Any]:
        return {
            **constant,
            **ranker_parameters(source, values),
            "n_estimators": max_trees if trees is None else trees,
        }

    def measure(values: Mapping[str, Any], watch: TrialWatch) -> None:
        for train, held_out in parts:
            # The whole curve is of interest, up to the usual patience after its best value.
            stopping: dict[str, Any] = {
                "early_stopping_rounds": plan.patience,
                "stopping_rule": "best",
            }
            ranker = Ranker(**parameters(values), **stopping, n_jobs=threads, verbose=0)
            ranker.fit(
                train,
                eval_set=[held_out],
                callbacks=[
                    lambda now: watch.report(_curve(now.history[0]), now.iteration / max_trees)
                ],
            )
            if ranker.interrupted_:
                raise KeyboardInterrupt
            curves = ranker.evals_result_["valid_0"]
            watch.fold_done(
                _curve(curves), every=1, beside=[curves[str(one.metric)] for one in constraints]
            )

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
    return run_trials(
        full_space,
        measure,
        parts,
        target=target,
        parameters=parameters,
        first=first,
        search=search,
        trials=plan.trials if trials is None else trials,
        startup=plan.startup,
        pruning=plan.pruning
        and not constraints,  # what leads without the constraint would stop what meets it
        constraints=constraints,
        seconds=seconds,
        study=study,
        seed=seed,
        progress=progress,
    )


def validation_parts(
    data: RankingData, valid: RankingData | None, folds: int | None, seed: int
) -> list[Part]:
    """Return pairs of queries to train and to validate on: those given, or each fold with the rest."""
    if valid is not None and folds is not None:
        raise ValueError(
            "valid and folds exclude each other; leave out folds to validate on valid."
        )
    if valid is not None:
        valid.check_columns(data)
    parts = (
        [(data, valid)]
        if valid is not None
        else list(data.kfold(_FOLDS if folds is None else folds, seed=seed))
    )
    if not all(held_out.labels for _, held_out in parts):
        raise ValueError(
            "the validation queries have no labels to evaluate with; give labelled ones as valid."
        )
    return parts


def _without_full_leaves(space: dict[str, Any], data: RankingData) -> dict[str, Any]:
    """Restrict the space to diagonal leaf values if weights differ within a query."""
    if data.one_weight_per_query:
        return space
    return {**space, "leaf_values": "diagonal"}


def _curve(history: Mapping[str, Sequence[float]]) -> Sequence[float]:
    return next(iter(history.values()))
