"""Comparison studies: systems that are trained, tested and compared by paired tests. Most experiments are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.evaluation.comparison import PairedResult, compare
from rankwright.evaluation.per_query import Evaluation
from rankwright.evaluation.significance import holm
from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Cell, Table
from rankwright.research.experiments.base import (
    AGREES,
    CONTRADICTS,
    OPEN,
    Experiment,
    Findings,
    Job,
    Verdict,
)
from rankwright.research.experiments.published import PublishedValues
from rankwright.research.harness import (
    Capabilities,
    OutcomeStore,
    RankwrightSystem,
    StagedModel,
    System,
    capabilities_of,
    identity_of,
    libraries_of,
    run_systems,
)
from rankwright.research.kept_outcomes import BEST_OF
from rankwright.research.libraries import Library
from rankwright.tuning.space import Space

EVERY = 5  # trees: the number of them is chosen among the multiples of this
_LEVEL = 0.05
_ALIKE = 0.01  # two systems are alike if the interval of their difference is within a point
Measured = str | tuple[str, str]  # a system, or two for the difference of the first and the second
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

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> StagedModel:
        """Train the system."""
        return self.system.fit(train, metric, trees=trees, seed=seed, threads=threads)


@dataclass(frozen=True)
class Condition:
    """A change of the training data under which all systems are trained.

    Parameters
    ----------
    name
        Suffix of the systems' names; empty for no change.
    change
        Function from fold to fold, which leaves the test queries unchanged.
    """

    name: str = ""
    change: Callable[[Fold], Fold] = field(default=lambda fold: fold)

    def names(self, system: str) -> str:
        """Return the name of a system under this condition."""
        return f"{system}, {self.name}" if self.name else system


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: ``better`` has a higher ``target`` than ``worse``, or the two are alike.

    Parameters
    ----------
    better, worse
        A system; or two, for the difference of the first and the second.
    target
        The metric.
    alike
        The claim is that there is no relevant difference. It holds if the interval is within a point.
    text
        The claim in words; if empty, it is composed of the names.
    """

    better: Measured
    worse: Measured
    target: str
    alike: bool = False
    text: str = ""

    def __str__(self) -> str:
        relation = "like" if self.alike else "above"
        return self.text or f"{self.better} {relation} {self.worse} by {self.target}"

    def systems(self) -> set[str]:
        """Return the names of its systems."""
        return {name for side in (self.better, self.worse) for name in ([side] if isinstance(side, str) else side)}


def claims(text: str, targets: Iterable[str], *, alike: bool = False) -> tuple[Claim, ...]:
    """Read claims such as ``"a > b > c"`` or ``"a > c"`` on several lines, for each target.

    Examples
    --------
    >>> [str(claim) for claim in claims("a > b > c", ["map"])]
    ['a above b by map', 'b above c by map']
    """
    chains = [[name.strip() for name in line.split(" > ")] for line in text.splitlines() if line.strip()]
    pairs = [pair for chain in chains for pair in pairwise(chain)]
    return tuple(Claim(better, worse, target, alike) for target in targets for better, worse in pairs)


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
        `rankwright.research.experiments.tuned.tune_on_fold`.
    variants
        Settings of `Ranker` by name, one of which is chosen for each system of rankwright, fold, seed and metric on the
        validation queries. Their outcomes are stored under the names of system and variant. Trials take their place.
    peer_variants
        The same for systems of other libraries, by the name of the system.
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
    along: tuple[int, ...] = ()

    @property
    def tunable(self) -> bool:
        """Whether systems can be tuned."""
        return bool(self.spaces)

    def run(self, job: Job) -> Findings:
        """Train and test systems whose outcomes are missing, and compare all."""
        settings = job.settings
        searches: Counter[str] = Counter()
        chosen: dict[str, Counter[str]] = {}
        for fold in settings.folds():
            for condition in self.conditions:
                changed = condition.change(fold)
                for system in self.systems:
                    searches.update(self._run_system(job, changed, condition, system))
                    if self._variants_of(job, system):
                        own = chosen.setdefault(system.name, Counter())
                        own.update(self._choose_variants(job, changed, condition, system))
        targets = settings.targets or self.targets
        verdicts = judge([claim for claim in self.claims if claim.target in targets], job.store, self.published)
        notes = [f"{number} searches with trials: {origins}" for origins, number in searches.items()]
        for name, counts in chosen.items():
            variants = self.peer_variants.get(name, self.variants)
            times = ", ".join(f"{variant} {counts[variant]} times" for variant in variants)
            notes.append(f"Chosen on validation queries for {name}: {times}")
        note = "; ".join(notes)
        tables = [self._table(job.store, target, note) for target in targets]
        stages = [trees for trees in self.along if trees <= settings.budget.trees]
        tables += [self._along(job.store, target, stages) for target in targets if stages]
        return Findings(tuple(tables), tuple(verdicts))

    def _run_system(self, job: Job, fold: Fold, condition: Condition, system: System) -> list[str]:
        """Train and test a system; return, for each search of its parameters, which trials it had."""
        budget, targets = job.settings.budget, self._targets(job, system.name)
        if system.name in self.spaces and budget.trials:
            from rankwright.research.experiments.tuned import tune_on_fold

            name, space, origins = condition.names(system.name), self.spaces[system.name], []
            for target in targets:
                self._train(job, fold, tune_on_fold(job, fold, system, name, target, space), [target])
                outcome = job.store.find(job.settings.data_name, fold.name, name, target, seed=0)
                origins += [outcome.selection] if outcome is not None and outcome.selection else []
            return origins
        for variant in self._variants_of(job, system) or [""]:
            self._train(job, fold, self._variant(job, condition, system, variant), targets, tested=not variant)
        return []

    def _train(self, job: Job, fold: Fold, system: System, targets: list[str], *, tested: bool = True) -> None:
        run_systems(
            [system],
            [fold],
            data=job.settings.data_name,
            targets=targets,
            seeds=job.settings.budget.seeds,
            trees=job.settings.budget.trees,
            every=EVERY,
            threads=job.settings.threads,
            store=job.store,
            reuse=job.reuse,
            tested=tested,
            progress=job.progress,
        )

    def _variant(self, job: Job, condition: Condition, system: System, variant: str) -> NamedSystem:
        """Return a system with the parameters of a variant, or without a variant if its name is empty."""
        trained, name = self._at_rate(system, job.settings.budget.trees), condition.names(system.name)
        if isinstance(trained, NamedSystem):
            trained = trained.system
        if not variant:
            return NamedSystem(name, trained)
        params = {**trained.params, **self._variants_of(job, system)[variant]}  # type: ignore[attr-defined]
        return NamedSystem(f"{name}, {variant}", replace(trained, params=params))  # type: ignore[type-var]

    def _targets(self, job: Job, system: str) -> list[str]:
        return [
            target for target in job.settings.targets or self.targets if target in self.only.get(system, self.targets)
        ]

    def _variants_of(self, job: Job, system: System) -> Variants:
        if system.name in self.spaces and job.settings.budget.trials:
            return {}
        return self.variants if isinstance(system, RankwrightSystem) else self.peer_variants.get(system.name, {})

    def _choose_variants(self, job: Job, fold: Fold, condition: Condition, system: System) -> list[str]:
        """Store, for each metric and seed, the outcome of the variant that is best on the validation queries.

        Return the names of the chosen variants.
        """
        data, name, names = job.settings.data_name, condition.names(system.name), []
        for target in self._targets(job, system.name):
            sign = 1.0 if parse_metric(target).higher_is_better else -1.0
            for seed in range(job.settings.budget.seeds):
                found = {
                    variant: job.store.find(data, fold.name, f"{name}, {variant}", target, seed)
                    for variant in self._variants_of(job, system)
                }
                outcomes = {variant: outcome for variant, outcome in found.items() if outcome is not None}
                best = max(outcomes, key=lambda variant: sign * outcomes[variant].valid)
                names.append(best)
                # A reused outcome may lack its values on the test queries; this trains it then.
                self._train(job, fold, self._variant(job, condition, system, best), [target])
                recipe = BEST_OF + " ".join(outcome.recipe for outcome in outcomes.values())
                trained = job.store.find(data, fold.name, f"{name}, {best}", target, seed)
                winner = replace(trained or outcomes[best], system=name, recipe=recipe)
                old = job.store.find(data, fold.name, name, target, seed)
                if old is None or (old.recipe, old.valid, old.trees) != (recipe, winner.valid, winner.trees):
                    job.store.add(winner)
        return names

    def _at_rate(self, system: System, trees: int) -> System:
        if self.step is None or not isinstance(system, RankwrightSystem):
            return system
        return replace(system, params={**system.params, "learning_rate": self.step / trees})

    def _names(self, target: str) -> list[str]:
        return [
            condition.names(system.name)
            for condition in self.conditions
            for system in self.systems
            if target in self.only.get(system.name, self.targets)
        ]

    def _along(self, store: OutcomeStore, target: str, stages: Sequence[int]) -> Table:
        """Return the values on validation queries by number of trees; a model of fewer trees keeps its last value."""
        rows: list[list[Cell]] = []
        for name in self._names(target):
            curves = [o.curve for o in store.outcomes if (o.system, o.target) == (name, target)]
            means = [np.mean([curve[min(-(-n // EVERY), len(curve)) - 1] for curve in curves]) for n in stages]
            rows.append([name, *(f"{100 * mean:.2f}" for mean in means)])
        title = f"{target} on validation queries, by number of trees, per cent"
        return Table(title, ["system", *map(str, stages)], rows)

    def _table(self, store: OutcomeStore, target: str, note: str) -> Table:
        names = self._names(target)
        compared: dict[str, PairedResult] = {}
        if len(names) > 1:
            evaluations = [store.evaluation(name, target) for name in names]
            compared = {row.system: row for row in compare(*evaluations, names=names, metrics=[target]).rows}
        rows = []
        for name in names:
            own = [outcome for outcome in store.outcomes if (outcome.system, outcome.target) == (name, target)]
            trees = f"{np.mean([outcome.trees for outcome in own]):.0f}"
            mean = f"{100 * store.evaluation(name, target).mean[target]:.2f}"
            published = self.published.of(target, name)
            row: list[Cell] = [name, mean, *_difference(compared.get(name)), trees]
            rows.append(row + [None if value is None else f"{value:.2f}" for value in published])
        columns = ["system", "here", f"difference from {names[0]}", "95 % interval", "p (Holm)", "trees"]
        columns += [f"paper, {name}" for name in self.published.columns]
        return Table(f"{target}, per cent", columns, rows, f"{note}." if note else "")


def _difference(row: PairedResult | None) -> list[Cell]:
    if row is None:
        return [None, None, None]
    interval = f"[{100 * row.low:+.2f}, {100 * row.high:+.2f}]"
    return [f"{100 * row.difference:+.2f}", interval, p_text(row.p_adjusted).removeprefix("= ")]


def p_text(p: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.0001)
    ('= 0.031', '< 0.001')
    """
    return f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def judge(claims: Sequence[Claim], store: OutcomeStore, published: PublishedValues = NOTHING) -> list[Verdict]:
    """Test claims by paired tests over the test queries, with Holm's correction over the claims of each metric.

    Parameters
    ----------
    claims
        The claims.
    store
        Outcomes of all their systems.
    published
        The paper's figures; the evidence then says on how many of its data sets each claim holds.
    """
    verdicts = []
    for target in dict.fromkeys(claim.target for claim in claims):
        own = [claim for claim in claims if claim.target == target]
        rows = [_paired(claim, store) for claim in own]
        for claim, row, p in zip(own, rows, holm([row.p for row in rows]), strict=True):
            evidence = (
                f"{100 * row.difference:+.2f} points [{100 * row.low:+.2f}, {100 * row.high:+.2f}], "
                f"p {p_text(p)}, {row.n_queries} queries"
            )
            verdicts.append(Verdict(str(claim), _outcome(claim, row, p), evidence + _in_the_paper(claim, published)))
    return verdicts


def _outcome(claim: Claim, row: PairedResult, p: float) -> str:
    if claim.alike and row.low >= -_ALIKE and row.high <= _ALIKE:
        return AGREES
    if p > _LEVEL:
        return OPEN
    return AGREES if row.difference > 0 and not claim.alike else CONTRADICTS


def _paired(claim: Claim, store: OutcomeStore) -> PairedResult:
    sides = [_values(side, store, claim.target) for side in (claim.worse, claim.better)]
    return compare(*sides, metrics=[claim.target]).rows[0]


def _values(side: Measured, store: OutcomeStore, target: str) -> Evaluation:
    if isinstance(side, str):
        return store.evaluation(side, target)
    first, second = (store.evaluation(name, target) for name in side)
    change = first.per_query[target] - second.per_query[target]
    return replace(first, per_query={target: change}, mean={target: float(np.nanmean(change))})


def _in_the_paper(claim: Claim, published: PublishedValues) -> str:
    """Say on how many of the paper's data sets the first figure is above the second."""
    if not (isinstance(claim.better, str) and isinstance(claim.worse, str)):
        return ""
    sides = (published.of(claim.target, claim.better), published.of(claim.target, claim.worse))
    pairs = [(a, b) for a, b in zip(*sides, strict=True) if a is not None and b is not None]
    if not pairs:
        return ""
    return f"; in the paper above on {sum(a > b for a, b in pairs)} of {len(pairs)} data sets"
