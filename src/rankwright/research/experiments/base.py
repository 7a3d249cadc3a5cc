"""What the experiments share: how much to do, on which data, what was found, and what the paper has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rankwright.data.folds import Fold, read_folds
from rankwright.data.synthetic import make_web_search
from rankwright.report.page import Table
from rankwright.research.harness import Outcome, Results

AGREES, CONTRADICTS, OPEN, MIXED = "agrees", "contradicts", "not significant", "mixed"
_KINDS = ("web", "sparse", "short")
_GROWING = ("seeds", "folds")


@dataclass(frozen=True)
class Budget:
    """How much an experiment does.

    Parameters
    ----------
    seeds
        Number of seeds; of rounds where times are measured.
    trees
        Number of trees at most.
    queries
        Generated queries of a fold: three quarters train and one validates, and as many again are tested on. None
        where an experiment has data of its own.
    length
        Mean number of documents of a generated query; None for the kind's own.
    folds
        Number of folds, each of fresh queries if they are generated; out of those there are otherwise.
    trials
        Trials of tuning for each system, metric and fold; None where nothing is tuned.
    """

    seeds: int
    trees: int
    queries: int | None = None
    length: float | None = None
    folds: int | None = None
    trials: int | None = None


@dataclass(frozen=True)
class Settings:
    """What one run of an experiment does: a budget, the data and the threads.

    Parameters
    ----------
    experiment
        Name of the experiment.
    budget
        How much to do.
    kind
        Kind of the generated data.
    data
        A LETOR folder or file instead of generated data.
    targets
        The metrics, where not all of the experiment's.
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
        """What tables call the data."""
        if self.data is not None:
            return self.data.resolve().name
        length = "" if self.budget.length is None else f" of {self.budget.length:g} documents on average"
        return f"generated, {self.kind}, {self.budget.queries} queries{length}" if self.kind else "the paper's example"

    def folds(self) -> Iterator[Fold]:
        """Yield the folds, one at a time."""
        if self.data is not None:
            return islice(read_folds(self.data), self.budget.folds)
        return (self._generated(number) for number in range(self.budget.folds or 0))

    def _generated(self, number: int) -> Fold:
        """Make a fold of fresh queries: as many to test on as to train and validate on together."""
        queries = int(self.budget.queries or 0)
        sizes = {"train": queries - queries // 4, "valid": queries // 4, "test": queries}
        first, parts = 2 * queries * number, {}
        for part, size in sizes.items():
            kinds: dict[str, Any] = {"kind": self.kind, "mean_length": self.budget.length}
            parts[part] = make_web_search(size, first_query=first, **kinds)
            first += size
        return Fold(str(number + 1), **parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        budget = {one.name: getattr(self.budget, one.name) for one in fields(Budget)}
        where = {"data": self.data_name, "kind": self.kind, "targets": list(self.targets)}
        return {"experiment": self.experiment, **where, **budget, "quick": self.quick, "threads": self.threads}

    def command(self) -> str:
        """Return the command line that asks for these settings."""
        words = ["rankwright reproduce", self.experiment]
        words += [f"--data {self.data.name}"] if self.data is not None else []
        words += [f"--kind {self.kind}"] if self.kind is not None and self.data is None else []
        words += [f'--targets "{" ".join(self.targets)}"'] if self.targets else []
        words += ["--quick"] if self.quick else []
        chosen = {one.name: getattr(self.budget, one.name) for one in fields(Budget)}
        words += [f"--{name} {value:g}" for name, value in chosen.items() if value is not None]
        words += [f"--threads {self.threads}"] if self.threads > 1 else []
        return " ".join(words)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings in which outcomes of two runs would not belong together.

    More seeds or folds, or other metrics, add to what is there; with fewer, outcomes would be there that are not meant.
    """

    def fits(name: str) -> bool:
        if name in _GROWING and old.get(name) is not None and new[name] is not None:
            return bool(new[name] >= old[name])
        return name == "targets" or old.get(name) == new[name]

    return [name for name in new if not fits(name)]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper is met.

    Parameters
    ----------
    claim
        The claim.
    outcome
        ``"agrees"``, ``"contradicts"``, ``"not significant"`` or ``"mixed"`` (some seeds do, some do not).
    evidence
        The figures that decide.
    """

    claim: str
    outcome: str
    evidence: str


@dataclass(frozen=True)
class Findings:
    """What an experiment has found: tables next to the paper's figures, and verdicts on its claims."""

    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Job:
    """One run of an experiment.

    Parameters
    ----------
    settings
        What to do.
    results
        Outcomes so far, kept in a file.
    progress
        Called with each new outcome.
    """

    settings: Settings
    results: Results
    progress: Callable[[Outcome], object] | None = None

    def keep(self, outcome: Outcome) -> None:
        """Keep an outcome that an experiment computed by itself."""
        self.results.add(outcome)
        if self.progress is not None:
            self.progress(outcome)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment of a paper.

    Parameters
    ----------
    name
        What the command calls it.
    paper, source
        Short name of the paper, and where in it.
    title
        What is examined.
    full, quick
        The budget as close to the paper as is affordable, and one for five minutes.
    kind
        Kind of the generated data; None where the data are the experiment's own.
    targets
        Metrics.
    departs
        Where the experiment differs from the paper's.
    """

    name: str
    paper: str
    source: str
    title: str
    full: Budget
    quick: Budget
    kind: str | None = None
    targets: tuple[str, ...] = ()
    departs: str = ""

    def run(self, job: Job) -> Findings:
        """Compute what is missing, and draw the conclusions."""
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
    ) -> Settings:
        """Return the settings of a run; ``changes`` are values of the budget, None for no change."""
        budget = self.quick if quick else self.full
        given = {name: value for name, value in changes.items() if value is not None}
        if self.kind is None and (data is not None or kind is not None):
            raise ValueError(f"{self.name} has data of its own; leave out the choice of other data.")
        if data is not None and (kind is not None or given.keys() & {"queries", "length"}):
            raise ValueError("kind, queries and length are of generated data; leave them out, or leave out data.")
        if kind is not None and kind not in _KINDS:
            raise ValueError(f"unknown kind {kind!r} of generated data; choose one of {', '.join(_KINDS)}.")
        for name in given:
            if name != "length" and getattr(budget, name) is None:
                raise ValueError(f"{self.name} has no {name} to choose; leave that out.")
        if self.kind is None and "length" in given:
            raise ValueError(f"{self.name} has data of its own; leave out length.")
        unknown = [one for one in targets if one not in self.targets]
        if unknown:
            raise ValueError(
                f"{self.name} has no metric {unknown[0]!r}; it has {', '.join(self.targets) or 'none to choose'}."
            )
        budget = replace(budget, **given)  # type: ignore[arg-type]
        if data is not None:
            budget = replace(budget, queries=None, length=None)
        return Settings(self.name, budget, kind if kind else self.kind, data, targets, quick, threads)


@dataclass(frozen=True)
class Figures:
    """Figures of a paper, in per cent unless the experiment says otherwise.

    Parameters
    ----------
    source
        Where they stand.
    columns
        Data sets.
    values
        By metric and system, one figure per data set; None where the paper has none.
    """

    source: str
    columns: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, tuple[float | None, ...]]] = field(default_factory=dict)

    def of(self, target: str, system: str) -> tuple[float | None, ...]:
        """Return the figures of a system, None for each that is not there."""
        return self.values.get(target, {}).get(system, (None,) * len(self.columns))

    def joined(self, other: Figures) -> Figures:
        """Return these figures and those of further systems, of the same data sets."""
        both = {target: {**rows, **other.values.get(target, {})} for target, rows in self.values.items()}
        return replace(self, values=both)


def figures(source: str, columns: str, text: str) -> Figures:
    """Read figures from text: ``[metric]`` lines, each followed by lines of a name, a colon and numbers.

    Examples
    --------
    >>> figures("table 9", "A, B", "[map]; ours: 61.5 -").of("map", "ours")
    (61.5, None)
    """
    names = tuple(one.strip() for one in columns.split(","))
    values: dict[str, dict[str, tuple[float | None, ...]]] = {}
    target = ""
    for line in filter(None, (line.strip() for line in re.split(r"[\n;]", text))):
        if line.startswith("["):
            target = line.strip("[]")
            values[target] = {}
            continue
        system, _, numbers = line.rpartition(":")
        row = tuple(None if word == "-" else float(word) for word in numbers.split())
        if len(row) != len(names):
            raise ValueError(f"{source}: {system} has {len(row)} figures for {len(names)} columns.")
        values[target][system.strip()] = row
    return Figures(source, names, values)
