"""Tuning as in the "Which Tricks" paper: random trials, then Bayesian ones, evaluated on validation queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.objectives import objective as parse_objective
from rankwright.support.ranges import Range
from rankwright.tuning.space import PRESETS, Space, ranker_parameters, search_space
from rankwright_lab.experiments.base import Job
from rankwright_lab.experiments.comparison_study import NamedSystem
from rankwright_lab.folds import Fold
from rankwright_lab.harness import RankwrightSystem, StagedModel, System, identity_of, libraries_of
from rankwright_lab.tuning import tune_system

# Ranges for LightGBM in the paper's appendix A, by LightGBM's parameter names.
LIGHTGBM_SPACE: Space = {
    "learning_rate": Range(1e-3, 1.0, log=True),
    "lambda_l2": Range(0.1, 100.0, log=True),
    "max_depth": Range(6, 16),
    "num_leaves": Range(16, 256, log=True),
    "min_data_in_leaf": Range(1, 1000, log=True),
}


class TunedSystem:
    """A system whose parameters are tuned for each fold and metric, once it has to be trained.

    Recipes identify it by its name alone, keys by its search.

    Parameters
    ----------
    name
        Name in outcomes.
    system
        The system without the chosen parameters.
    identity
        Plain values that say what is searched, and how.
    search
        Return the system with the chosen parameters; these parameters; and how many trials were drawn at random and
        how many were guided, in words.
    """

    by_metric = True

    def __init__(
        self,
        name: str,
        system: System,
        identity: Any,
        search: Callable[[], tuple[System, dict[str, Any], str]],
    ) -> None:
        self.name = name
        self.identity = identity
        self.libraries = libraries_of(system)
        self._search = search

    @cached_property
    def _found(self) -> tuple[System, dict[str, Any], str]:
        return self._search()

    @property
    def system(self) -> System:
        """The system with the chosen parameters."""
        return self._found[0]

    @property
    def chosen(self) -> dict[str, Any]:
        """The chosen parameters by name."""
        return self._found[1]

    @property
    def selection(self) -> str:
        """How many trials were drawn at random and how many were guided, in words."""
        return self._found[2]

    def prepare(self) -> None:
        """Run the search, or read its result."""
        self._found  # noqa: B018

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train the system."""
        return self.system.fit(train, metric, trees=trees, seed=seed, threads=threads)


def tune_on_fold(
    job: Job, fold: Fold, system: System, name: str, target: str, space: Space
) -> TunedSystem:
    """Return a system that is trained with the best parameters of the trials in the budget.

    Trials are stored in ``trials/`` beside the outcomes, from which an interrupted search resumes.

    Parameters
    ----------
    job, fold, target
        The run, and the fold and metric to tune on; the test queries are not read.
    system, name
        The system, and its name in outcomes.
    space
        For rankwright, changes to the paper's space for the objective; for another library, the whole space.
    """
    budget = job.settings.budget
    if job.store.path is None or budget.trials is None:
        raise ValueError(
            "tuning needs a file of outcomes, to store its trials beside it, and a number of trials."
        )
    if isinstance(system, NamedSystem):
        system = system.system
    if isinstance(system, RankwrightSystem):
        source = parse_objective(system.params["objective"])
        space = {**search_space(source, target, preset="paper"), **space}

    def make_system(values: Mapping[str, Any]) -> System:
        params = (
            ranker_parameters(source, values) if isinstance(system, RankwrightSystem) else values
        )
        return replace(system, params={**system.params, **params})  # type: ignore[type-var, attr-defined]

    preset = PRESETS["paper"]
    file = re.sub(r"[^a-z0-9]+", "-", f"fold {fold.name} {name} {target}".lower()).strip("-")
    options: dict[str, Any] = {
        "trials": budget.trials,
        "startup": preset.startup,
        "pruning": preset.pruning,
    }
    study = job.store.path.with_name("trials") / f"{file}.log"
    work: dict[str, Any] = {"trees": budget.trees, "study": study, "threads": job.settings.threads}

    def search() -> tuple[System, dict[str, Any], str]:
        tuning = tune_system(make_system, space, [fold], target=target, **options, **work)
        if tuning.interrupted:  # fewer trials than asked for must not decide; the study resumes
            raise KeyboardInterrupt
        return make_system(tuning.best), dict(tuning.best), tuning.origins()

    identity = [
        identity_of(system),
        {name: repr(values) for name, values in space.items()},
        options,
    ]
    return TunedSystem(name, system, identity, search)
