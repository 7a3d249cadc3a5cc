"""What the experiments share: budgets, settings, verdicts and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rankwright.data.synthetic import make_web_search
from rankwright.report.page import Table
from rankwright_lab.folds import Fold, count_folds, fold_files, read_folds
from rankwright_lab.harness import Outcome, OutcomeStore

AGREES, CONTRADICTS, OPEN, MIXED = "agrees", "contradicts", "not significant", "mixed"
_KINDS = ("web", "sparse", "short")
_GROWING = ("seeds", "folds")


@dataclass(frozen=True)
class Budget:
    """How much work an experiment does.

    Parameters
    ----------
    seeds
        Number of seeds, or of rounds if times are measured.
    trees
        Largest number of trees.
    queries
        Generated queries of a fold: three quarters for training, one quarter for validation, and as many again for
        testing. None if an experiment has data of its own.
    length
        Mean number of documents of a generated query; None for the default of the kind.
    folds
        Number of folds: each of another generated world, or the first folds of the data.
    trials
        Trials of tuning for each system, metric and fold; None if nothing is tuned.
    """

    seeds: int
    trees: int
    queries: int | None = None
    length: float | None = None
    folds: int | None = None
    trials: int | None = None


@dataclass(frozen=True)
class ExperimentSettings:
    """Settings of one run of an experiment: a budget, the data and the threads.

    Parameters
    ----------
    experiment
        Name of the experiment.
    budget
        How much work to do.
    kind
        Kind of the generated data.
    data
        A LETOR folder or file instead of generated data.
    targets
        Metrics; empty for all of the experiment.
    quick
        Whether this is the small form of the experiment.
    threads
        Number of threads.
    """

    experiment: str
    budget: Budget
    kind: str | None = None
    data: Path | None = None
    targets: tuple[str, ...] = ()
    quick: bool = False
    threads: int = 1

    @property
    def data_name(self) -> str:
        """Name of the data in tables."""
        if self.data is not None:
            return self.data.resolve().name
        length = (
            "" if self.budget.length is None else f" of {self.budget.length:g} documents on average"
        )
        return (
            f"generated, {self.kind}, {self.budget.queries} queries{length}"
            if self.kind
            else "the paper's example"
        )

    def folds(self) -> Iterator[Fold]:
        """Yield the folds, one at a time."""
        if self.data is not None:
            return islice(read_folds(self.data), self.budget.folds)
        return (self._generated(number) for number in range(self.budget.folds or 0))

    def _generated(self, number: int) -> Fold:
        """Generate a fold, a world of its own: as many queries for testing as for training and validation together."""
        queries = int(self.budget.queries or 0)
        sizes = {"train": queries - queries // 4, "valid": queries // 4, "test": queries}
        first, parts = (
            2 * queries * number,
            {},
        )  # ids differ between worlds too, since all test queries are pooled
        for part, size in sizes.items():
            kinds: dict[str, Any] = {"kind": self.kind, "mean_length": self.budget.length}
            parts[part] = make_web_search(size, first_query=first, random_state=number, **kinds)
            first += size
        return Fold(str(number + 1), **parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        budget = {part.name: getattr(self.budget, part.name) for part in fields(Budget)}
        where = {
            "data": self.data_name,
            "data_bytes": self._data_bytes(),
            "kind": self.kind,
            "targets": list(self.targets),
        }
        return {
            "experiment": self.experiment,
            **where,
            **budget,
            "quick": self.quick,
            "threads": self.threads,
        }

    def _data_bytes(self) -> int | None:
        """Return the size of the data's files, by which other data of the same name is noticed."""
        return (
            None
            if self.data is None
            else sum(file.stat().st_size for file in fold_files(self.data))
        )

    def command(self) -> str:
        """Return the command line for these settings."""
        words = ["rankwright-lab reproduce", self.experiment]
        words += [f"--data {self.data.name}"] if self.data is not None else []
        words += [f"--kind {self.kind}"] if self.kind is not None and self.data is None else []
        words += [f'--targets "{" ".join(self.targets)}"'] if self.targets else []
        words += ["--quick"] if self.quick else []
        chosen = {part.name: getattr(self.budget, part.name) for part in fields(Budget)}
        words += [f"--{name} {value:g}" for name, value in chosen.items() if value is not None]
        words += [f"--threads {self.threads}"] if self.threads > 1 else []
        return " ".join(words)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that prevent a run from adding to the outcomes of another.

    More seeds or folds, or other metrics, add to the outcomes. Fewer seeds or folds would leave outcomes that the run
    does not ask for. What an older run did not store prevents nothing.
    """

    def compatible(name: str) -> bool:
        if name in _GROWING and old.get(name) is not None and new[name] is not None:
            return bool(new[name] >= old[name])
        return name == "targets" or old.get(name, new[name]) == new[name]

    return [name for name in new if not compatible(name)]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper holds here.

    Parameters
    ----------
    claim
        The claim.
    outcome
        ``"agrees"``, ``"contradicts"``, ``"not significant"`` or ``"mixed"`` (it holds for some seeds).
    evidence
        The figures behind the verdict.
    """

    claim: str
    outcome: str
    evidence: str


@dataclass(frozen=True)
class Findings:
    """Findings of an experiment: tables next to the paper's figures, and verdicts on its claims."""

    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Job:
    """One run of an experiment.

    Parameters
    ----------
    settings
        Settings of the run.
    store
        Outcomes so far, stored in a file.
    progress
        Called with each new outcome.
    reuse
        Outcomes of other runs by key, which need not be computed again; see `rankwright_lab.kept_outcomes`.
    """

    settings: ExperimentSettings
    store: OutcomeStore
    progress: Callable[[Outcome], object] | None = None
    reuse: Mapping[str, Outcome] = field(default_factory=dict)

    def add(
        self,
        fold: str,
        system: str,
        target: str,
        seed: int,
        values: Mapping[str, Sequence[float]],
        *,
        trees: int,
        seconds: float,
        queries: Sequence[str] = ("all",),
        recipe: str = "",
    ) -> None:
        """Store what an experiment measured by itself: ``values`` for each of ``queries``."""
        outcome = Outcome(
            data=self.settings.data_name,
            fold=fold,
            system=system,
            target=target,
            seed=seed,
            trees=trees,
            valid=float("nan"),
            fit_seconds=seconds,
            predict_seconds=0.0,
            query_ids=list(queries),
            values={name: list(own) for name, own in values.items()},
            recipe=recipe,
        )
        self.store.add(outcome)
        if self.progress is not None:
            self.progress(outcome)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment of a paper.

    Parameters
    ----------
    name
        Name on the command line.
    paper, source
        Short name of the paper, and the table or figure in it.
    title
        Subject of the experiment.
    full, quick
        A budget as close to the paper as is affordable, and one for five minutes.
    kind
        Kind of the generated data; None if the experiment has data of its own.
    targets
        Metrics.
    data_folds
        How many folds of real data the paper uses, if it says so: the default there. None takes those of the budget.
    departs
        How the experiment differs from the paper's.
    """

    name: str
    paper: str
    source: str
    title: str
    full: Budget
    quick: Budget
    kind: str | None = None
    targets: tuple[str, ...] = ()
    data_folds: int | None = None
    departs: str = ""

    @property
    def tunable(self) -> bool:
        """Whether trials of tuning can be asked for where the budget has none."""
        return False

    def run(self, job: Job) -> Findings:
        """Compute missing outcomes, and evaluate all of them."""
        raise TypeError(f"{type(self).__name__} must define run().")

    def settings(
        self,
        *,
        quick: bool = False,
        data: Path | None = None,
        kind: str | None = None,
        targets: tuple[str, ...] = (),
        threads: int = 1,
        **changes: float | None,
    ) -> ExperimentSettings:
        """Return the settings of a run; ``changes`` are values of the budget, None for no change."""
        budget = self.quick if quick else self.full
        changed = {name: value for name, value in changes.items() if value is not None}
        if self.kind is None and (data is not None or kind is not None):
            raise ValueError(f"{self.name} has data of its own; leave out data and kind.")
        if data is not None and (kind is not None or changed.keys() & {"queries", "length"}):
            raise ValueError(
                "kind, queries and length apply to generated data; leave them out, or leave out data."
            )
        if kind is not None and kind not in _KINDS:
            raise ValueError(
                f"unknown kind {kind!r} of generated data; choose one of {', '.join(_KINDS)}."
            )
        optional = {"length", *(["trials"] if self.tunable else [])}
        for name in changed:
            if name not in optional and getattr(budget, name) is None:
                raise ValueError(f"{self.name} does not use {name}; leave it out.")
        if self.kind is None and "length" in changed:
            raise ValueError(f"{self.name} has data of its own; leave out length.")
        unknown = [target for target in targets if target not in self.targets]
        if unknown:
            raise ValueError(
                f"{self.name} has no metric {unknown[0]!r}; it has {', '.join(self.targets) or 'none to choose'}."
            )
        budget = replace(budget, **changed)  # type: ignore[arg-type]
        if data is not None:
            available, wanted = count_folds(data), changed.get("folds", 0)
            if wanted > available:
                raise ValueError(
                    f"{data} has only {available} of {wanted} folds; leave folds out, or lower it."
                )
            if not wanted and self.data_folds is not None:
                budget = replace(budget, folds=self.data_folds)
            budget = replace(
                budget, queries=None, length=None, folds=min(budget.folds or available, available)
            )
        return ExperimentSettings(
            self.name, budget, kind if kind else self.kind, data, targets, quick, threads
        )
