"""Tuning as in the "Which Tricks" paper: random trials, then Bayesian ones, judged on the validation queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.objectives import objective
from rankwright.ranges import Range
from rankwright.research.experiments.base import Job
from rankwright.research.experiments.study import Named
from rankwright.research.harness import Model, Ours, System
from rankwright.tuning.search import tune_system
from rankwright.tuning.space import PRESETS, Space, ranker_parameters, search_space

# Ranges of the paper's appendix A for LightGBM, by LightGBM's names.
LIGHTGBM: Space = {
    "learning_rate": Range(1e-3, 1.0, log=True),
    "lambda_l2": Range(0.1, 100.0, log=True),
    "max_depth": Range(6, 16),
    "num_leaves": Range(16, 256, log=True),
    "min_data_in_leaf": Range(1, 1000, log=True),
}


class Tuned:
    """A system whose parameters were chosen for each fold and metric; its name stands for all of them.

    Parameters
    ----------
    name
        What outcomes call it.
    system
        The system with the chosen parameters.
    """

    by_metric = True

    def __init__(self, name: str, system: System) -> None:
        self.name = name
        self.system = system

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train the system."""
        return self.system.fit(train, metric, trees=trees, seed=seed, threads=threads)


def tuned(job: Job, fold: Fold, system: System, name: str, target: str, space: Space) -> System:
    """Return a system with the best parameters of as many trials as the budget has.

    Trials are kept in ``trials/`` beside the outcomes, so that an interrupted search goes on.

    Parameters
    ----------
    job, fold, target
        What is run, and where and by what to choose; the fold's test queries are not read.
    system, name
        The system, and what outcomes call it.
    space
        Changes to the paper's space for the objective of a Ranker; the whole space of another library's system.
    """
    budget = job.settings.budget
    if job.results.path is None or budget.trials is None:
        raise ValueError("tuning needs a file of outcomes, to keep its trials beside it, and a number of trials.")
    if isinstance(system, Named):
        system = system.system
    if isinstance(system, Ours):
        made = objective(system.params["objective"])
        space = {**search_space(made, target, preset="paper"), **space}

    def make(values: Mapping[str, Any]) -> System:
        params = ranker_parameters(made, values) if isinstance(system, Ours) else values
        return replace(system, params={**system.params, **params})  # type: ignore[type-var, attr-defined]

    file = re.sub(r"[^a-z0-9]+", "-", f"fold {fold.name} {name} {target}".lower()).strip("-")
    found = tune_system(
        make,
        space,
        [fold],
        target=target,
        trials=budget.trials,
        startup=PRESETS["paper"].startup,
        trees=budget.trees,
        pruning=PRESETS["paper"].pruning,
        study=job.results.path.with_name("trials") / f"{file}.log",
        threads=job.settings.threads,
    )
    return Tuned(name, make(found.best))
