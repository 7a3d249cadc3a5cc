"""Comparison studies: systems that are trained, tested and compared by paired tests. Most experiments are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.evaluation.comparison import PairedResult, compare
from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Cell, Table
from rankwright.tuning.space import Space
from rankwright_lab.experiments.base import Experiment, Findings, Job
from rankwright_lab.experiments.claims import Claim, judge, p_text
from rankwright_lab.experiments.published import PublishedValues
from rankwright_lab.folds import Fold
from rankwright_lab.harness import (
    Capabilities,
    Outcome,
    RankwrightSystem,
    StagedModel,
    System,
    capabilities_of,
    identity_of,
    libraries_of,
    run_systems,
)
from rankwright_lab.kept_outcomes import BEST_OF
from rankwright_lab.libraries import Library

EVERY = 5  # trees: the number of them is chosen among the multiples of this
Variants = Mapping[str, Mapping[str, Any]]  # parameters by name
NOTHING = PublishedValues()


@dataclass(frozen=True)
class NamedSystem:
    """A system under the name that the paper gives it."""

    name: str
    system: System

    @property
    def by_metric(self) -> bool:
        """Whether the training of the system depends on the metric."""
        return self.system.by_metric

    @property
    def by_seed(self) -> bool:
        """Whether the training of the system depends on the seed."""
        return bool(getattr(self.system, "by_seed", True))

    @property
    def identity(self) -> Any:
        """What the system trains, whatever it is called."""
        return identity_of(self.system)

    @property
    def libraries(self) -> tuple[Library, ...]:
        """Libraries of the system."""
        return libraries_of(self.system)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the system."""
        return capabilities_of(self.system)

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train the system."""
        return self.system.fit(train, metric, trees=trees, seed=seed, threads=threads)


class DrawnSystem(NamedSystem):
    """A system whose training data depend on the seed."""

    by_seed = True


@dataclass(frozen=True)
class Condition:
    """A change of the training data under which all systems are trained.

    Parameters
    ----------
    name
        Suffix of the systems' names; empty for no change.
    change
        Function from a fold and a seed to a fold, which leaves the test queries unchanged.
    drawn
        Whether the change depends on the seed.
    generated_only
        Whether it applies to generated data alone.
    """

    name: str = ""
    change: Callable[[Fold, int], Fold] = field(default=lambda fold, seed: fold)
    drawn: bool = False
    generated_only: bool = False

    def names(self, system: str) -> str:
        """Return the name of a system under this condition."""
        return f"{system}, {self.name}" if self.name else system


@dataclass(frozen=True, kw_only=True)
class ComparisonStudy(Experiment):
    """Systems compared on folds.

    Parameters
    ----------
    systems
        Systems to compare, the baseline of the table first.
    only
        Metrics of the systems that do not support all of them.
    published
        The paper's figures.
    claims
        The paper's claims.
    conditions
        Changes of the training data; each system is trained under each.
    step
        Learning rate times number of trees in the paper; it determines the learning rate of rankwright's systems. None
        keeps the rate of each system.
    spaces
        The systems that are tuned if the budget has trials, each with its space; see
        `rankwright_lab.experiments.tuned.tune_on_fold`.
    variants
        Settings of `Ranker` by name, one of which is chosen for each system of rankwright, fold, seed and metric on the
        validation queries. Their outcomes are stored under the names of system and variant. Trials take their place.
    peer_variants
        The same for systems of other libraries, by the name of the system.
    variant_trees
        Trees at most with which variants are compared, if the budget has more: the chosen one is then trained with all
        trees of the budget, and the number of trees is chosen again. None compares them with all trees.
    along
        Numbers of trees at which a second table has the values on the validation queries; empty for no such table.
    """

    systems: tuple[System, ...]
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published: PublishedValues = NOTHING
    claims: tuple[Claim, ...] = ()
    conditions: tuple[Condition, ...] = (Condition(),)
    step: float | None = None
    spaces: Mapping[str, Space] = field(default_factory=dict)
    variants: Variants = field(default_factory=dict)
    peer_variants: Mapping[str, Variants] = field(default_factory=dict)
    variant_trees: int | None = None
    along: tuple[int, ...] = ()

    @property
    def tunable(self) -> bool:
        """Whether systems can be tuned."""
        return bool(self.spaces)

    def run(self, job: Job) -> Findings:
        """Train and test systems whose outcomes are missing, and compare all."""
        settings = job.settings
        targets = settings.targets or self.targets
        searches: dict[str, Counter[str]] = {target: Counter() for target in targets}
        chosen: dict[tuple[str, str], Counter[str]] = {}  # by target and system
        seeds = range(settings.budget.seeds)
        for fold in settings.folds():
            for condition in self._conditions(job):
                for together in [[seed] for seed in seeds] if condition.drawn else [list(seeds)]:
                    changed = condition.change(fold, together[0])
                    for system in self.systems:
                        for target, origins in self._run_system(
                            job, changed, condition, system, together
                        ):
                            searches[target][origins] += 1
                        if self._variants_of(job, system):
                            for target, variant in self._choose_variants(
                                job, changed, condition, system, together
                            ):
                                chosen.setdefault((target, system.name), Counter())[variant] += 1
        names = {name for target in targets for name in self._names(job, target)}
        tested = [
            claim for claim in self.claims if claim.target in targets and claim.systems() <= names
        ]
        verdicts = judge(tested, job.store, self.published)
        notes = {
            target: [f"{number} searches with trials: {origins}" for origins, number in own.items()]
            for target, own in searches.items()
        }
        for (target, name), counts in chosen.items():
            variants = self.peer_variants.get(name, self.variants)
            times = ", ".join(
                f"{variant} {counts[variant]} times" for variant in variants if counts[variant]
            )
            notes[target].append(f"Chosen on validation queries for {name}: {times}")
        tables = [self._table(job, target, "; ".join(notes[target])) for target in targets]
        tables += [table for target in targets for table in self._parameters(job, target)]
        stages = [trees for trees in self.along if trees <= settings.budget.trees]
        tables += [self._along(job, target, stages) for target in targets if stages]
        return Findings(tuple(tables), tuple(verdicts))

    def _conditions(self, job: Job) -> list[Condition]:
        return [
            condition
            for condition in self.conditions
            if job.settings.data is None or not condition.generated_only
        ]

    def _run_system(
        self, job: Job, fold: Fold, condition: Condition, system: System, seeds: Sequence[int]
    ) -> list[tuple[str, str]]:
        """Train and test a system; return, for each search of its parameters, its target and which trials it had."""
        budget, targets = job.settings.budget, self._targets(job, system.name)
        if system.name in self.spaces and budget.trials:
            from rankwright_lab.experiments.tuned import tune_on_fold

            name, space = condition.names(system.name), self.spaces[system.name]
            origins: list[tuple[str, str]] = []
            for target in targets:
                self._train(
                    job, fold, tune_on_fold(job, fold, system, name, target, space), [target], seeds
                )
                outcome = job.store.find(job.settings.data_name, fold.name, name, target, seeds[0])
                origins += (
                    [(target, outcome.selection)]
                    if outcome is not None and outcome.selection
                    else []
                )
            return origins
        if not self._variants_of(job, system):
            self._train(job, fold, self._named(job, condition, system), targets, seeds)
        for variant in self._variants_of(job, system):
            named, trees = (
                self._variant(job, condition, system, variant),
                self._trees_of_variants(job),
            )
            self._train(job, fold, named, targets, seeds, trees=trees, tested=False)
        return []

    def _train(
        self,
        job: Job,
        fold: Fold,
        system: System,
        targets: list[str],
        seeds: Sequence[int],
        *,
        trees: int | None = None,
        tested: bool = True,
    ) -> None:
        """Train and test a system, with all trees of the budget unless others are given."""
        run_systems(
            [system],
            [fold],
            data=job.settings.data_name,
            targets=targets,
            seeds=seeds,
            trees=job.settings.budget.trees if trees is None else trees,
            every=EVERY,
            threads=job.settings.threads,
            store=job.store,
            reuse=job.reuse,
            tested=tested,
            progress=job.progress,
        )

    def _named(self, job: Job, condition: Condition, system: System) -> NamedSystem:
        """Return a system under its name in this condition, with the learning rate of the study."""
        trained = self._at_rate(system, job.settings.budget.trees)
        create = DrawnSystem if condition.drawn else NamedSystem
        return create(
            condition.names(system.name),
            trained.system if isinstance(trained, NamedSystem) else trained,
        )

    def _variant(self, job: Job, condition: Condition, system: System, variant: str) -> NamedSystem:
        """Return a system with the parameters of a variant."""
        named = self._named(job, condition, system)
        params = {**named.system.params, **self._variants_of(job, system)[variant]}  # type: ignore[attr-defined]
        system = replace(named.system, params=params)  # type: ignore[type-var]
        return replace(named, name=f"{named.name}, {variant}", system=system)

    def _trees_of_variants(self, job: Job) -> int:
        return min(job.settings.budget.trees, self.variant_trees or job.settings.budget.trees)

    def _targets(self, job: Job, system: str) -> list[str]:
        return [
            target
            for target in job.settings.targets or self.targets
            if target in self.only.get(system, self.targets)
        ]

    def _variants_of(self, job: Job, system: System) -> Variants:
        if system.name in self.spaces and job.settings.budget.trials:
            return {}
        return (
            self.variants
            if isinstance(system, RankwrightSystem)
            else self.peer_variants.get(system.name, {})
        )

    def _choose_variants(
        self, job: Job, fold: Fold, condition: Condition, system: System, seeds: Sequence[int]
    ) -> list[tuple[str, str]]:
        """Store, for each metric and seed, the outcome of the variant that is best on the validation queries.

        Return the metrics with the names of the chosen variants.
        """
        data, name = job.settings.data_name, condition.names(system.name)
        names: list[tuple[str, str]] = []
        variants = {
            variant: self._variant(job, condition, system, variant)
            for variant in self._variants_of(job, system)
        }
        trees = job.settings.budget.trees
        more_trees = trees > self._trees_of_variants(job)
        for seed in seeds:
            compared: dict[str, list[Outcome]] = {}  # by target
            best: dict[str, str] = {}
            for target in self._targets(job, system.name):
                sign = 1.0 if parse_metric(target).higher_is_better else -1.0
                found = {
                    variant: job.store.find(data, fold.name, named.name, target, seed)
                    for variant, named in variants.items()
                }
                outcomes = {
                    variant: outcome for variant, outcome in found.items() if outcome is not None
                }
                compared[target] = list(outcomes.values())
                best[target] = max(outcomes, key=lambda variant: sign * outcomes[variant].valid)
            names += best.items()
            for variant in dict.fromkeys(best.values()):
                chosen = variants[variant]
                if more_trees:  # under a name of its own, beside the outcome that it was chosen by
                    chosen = replace(chosen, name=f"{chosen.name}, {trees} trees")
                targets = [target for target, own in best.items() if own == variant]
                # Without more trees this trains only where a reused outcome lacks its values on the test queries.
                self._train(job, fold, chosen, targets, [seed])
                for target in targets:
                    trained = job.store.find(data, fold.name, chosen.name, target, seed)
                    assert trained is not None
                    recipe = BEST_OF + " ".join(outcome.recipe for outcome in compared[target])
                    recipe += f" {trees} trees" if more_trees else ""
                    winner = replace(trained, system=name, recipe=recipe)
                    old = job.store.find(data, fold.name, name, target, seed)
                    if old is None or (old.recipe, old.key) != (recipe, winner.key):
                        job.store.add(winner)
        return names

    def _at_rate(self, system: System, trees: int) -> System:
        if self.step is None or not isinstance(system, RankwrightSystem):
            return system
        return replace(system, params={**system.params, "learning_rate": self.step / trees})

    def _names(self, job: Job, target: str) -> list[str]:
        return [
            condition.names(system.name)
            for condition in self._conditions(job)
            for system in self.systems
            if target in self.only.get(system.name, self.targets)
        ]

    def _parameters(self, job: Job, target: str) -> list[Table]:
        """Return a table of the parameters that trials chose, with a row for each system, fold and seed."""
        names = set(self._names(job, target))
        rows: list[list[Cell]] = []
        for outcome in job.store.outcomes:
            if outcome.target == target and outcome.system in names and outcome.parameters:
                values = outcome.parameters.items()
                text = ", ".join(f"{name} {_shown(value)}" for name, value in values)
                rows.append([outcome.system, outcome.fold, outcome.seed, text])
        if not rows:
            return []
        columns = ["system", "fold", "seed", "parameters"]
        return [Table(f"Parameters that trials chose for {target}", columns, rows)]

    def _along(self, job: Job, target: str, stages: Sequence[int]) -> Table:
        """Return the values on validation queries by number of trees; a model of fewer trees keeps its last value."""
        rows: list[list[Cell]] = []
        for name in self._names(job, target):
            curves = [o.curve for o in job.store.outcomes if (o.system, o.target) == (name, target)]
            means = [
                np.mean([curve[min(-(-n // EVERY), len(curve)) - 1] for curve in curves])
                for n in stages
            ]
            rows.append([name, *(f"{100 * mean:.2f}" for mean in means)])
        title = f"{target} on validation queries, by number of trees, per cent"
        return Table(title, ["system", *map(str, stages)], rows)

    def _table(self, job: Job, target: str, note: str) -> Table:
        store, names = job.store, self._names(job, target)
        compared: dict[str, PairedResult] = {}
        if len(names) > 1:
            evaluations = [store.evaluation(name, target) for name in names]
            compared = {
                row.system: row for row in compare(*evaluations, names=names, metrics=[target]).rows
            }
        rows = []
        for name in names:
            own = [
                outcome
                for outcome in store.outcomes
                if (outcome.system, outcome.target) == (name, target)
            ]
            trees = f"{np.mean([outcome.trees for outcome in own]):.0f}"
            mean = f"{100 * store.evaluation(name, target).mean[target]:.2f}"
            published = self.published.of(target, name)
            row: list[Cell] = [name, mean, *_difference(compared.get(name)), trees]
            rows.append(row + [None if value is None else f"{value:.2f}" for value in published])
        columns = [
            "system",
            "here",
            f"difference from {names[0]}",
            "95 % interval",
            "p (Holm)",
            "trees",
        ]
        columns += [f"paper, {name}" for name in self.published.columns]
        return Table(f"{target}, per cent", columns, rows, f"{note}." if note else "")


def _shown(value: Any) -> str:
    """Return a parameter with four digits, if it is a number with more."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _difference(row: PairedResult | None) -> list[Cell]:
    if row is None:
        return [None, None, None]
    interval = f"[{100 * row.low:+.2f}, {100 * row.high:+.2f}]"
    return [f"{100 * row.difference:+.2f}", interval, p_text(row.p_adjusted).removeprefix("= ")]
