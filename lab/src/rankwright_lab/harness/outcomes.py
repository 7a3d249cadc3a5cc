"""Outcomes of trainings, and the file that stores them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.evaluation.comparison import Comparison, compare
from rankwright.evaluation.per_query import Evaluation

_Key = tuple[str, str, str, str, int]
_LINE_START = b'{"data": '  # of each line of a file of outcomes


@dataclass(frozen=True)
class Outcome:
    """One system, trained and tested once.

    Parameters
    ----------
    data, fold, system, target, seed
        What was trained on which data, and the metric that chose the number of trees.
    trees
        The chosen number of trees.
    valid
        Value of the target on the validation queries at that number.
    fit_seconds, predict_seconds
        Time of training, and of scoring the test queries with all trees. Both include the library's own preparation
        of the rows.
    query_ids, values
        The test queries, and their values by metric (NaN for skipped queries).
    gradient_seconds
        Time that the training spent in the objective, if the system reports it.
    curve
        Value of the target on the validation queries at each candidate number of trees.
    recipe
        Identifies the system's parameters, the trees, the threads and the versions; see `recipe`.
    key
        Identifies the outcome by its content; see `outcome_key`.
    selection
        How the parameters were chosen, in words, if they were.
    parameters
        The parameters that were chosen, if they were.
    """

    data: str
    fold: str
    system: str
    target: str
    seed: int
    trees: int
    valid: float
    fit_seconds: float
    predict_seconds: float
    query_ids: list[str]
    values: dict[str, list[float]]
    gradient_seconds: float | None = None
    curve: list[float] = field(default_factory=list)
    recipe: str = ""
    key: str = ""
    selection: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


class OutcomeStore:
    """Outcomes, optionally stored in a file, from which an interrupted comparison resumes.

    A later outcome replaces an earlier one of the same data, fold, system, target and seed. If its recipe differs, it
    replaces all outcomes of the system on these data.

    Parameters
    ----------
    path
        A file of one JSON object per line. It is read if it exists, else created.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> from rankwright_lab.folds import folds_by_query
    >>> from rankwright_lab.harness import RankwrightSystem, run_systems
    >>> folds = folds_by_query(make_web_search(24, n_features=20, mean_length=20), 3)
    >>> systems = [RankwrightSystem(f"{n} leaves", {"num_leaves": n, "min_child_samples": 5}) for n in (4, 8)]
    >>> store = run_systems(systems, folds, data="generated", targets=["ndcg@10"], seeds=2, trees=20)
    >>> store.comparison("ndcg@10").baseline
    '4 leaves'
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._by_key: dict[_Key, Outcome] = {}
        self._recipes: dict[tuple[str, str], str] = {}
        if self.path is not None and self.path.exists():
            for outcome in read_outcomes(self.path, repair=True):
                self._insert(outcome)

    @property
    def outcomes(self) -> list[Outcome]:
        """All outcomes, in order of appearance."""
        return list(self._by_key.values())

    def find(self, data: str, fold: str, system: str, target: str, seed: int) -> Outcome | None:
        """Return an outcome, or None if it is missing."""
        return self._by_key.get((data, fold, system, target, seed))

    def has(self, data: str, fold: str, system: str, target: str, seed: int) -> bool:
        """Whether an outcome is stored."""
        return self.find(data, fold, system, target, seed) is not None

    def of(self, data: str, fold: str, system: str, seed: int) -> list[Outcome]:
        """Return the outcomes of a fold and seed, one for each target."""
        key = data, fold, system, seed
        return [
            outcome
            for outcome in self.outcomes
            if (outcome.data, outcome.fold, outcome.system, outcome.seed) == key
        ]

    def add(self, outcome: Outcome) -> None:
        """Store an outcome, in the file as well."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        self._insert(outcome)

    def systems(self, target: str) -> list[str]:
        """Names of the systems, in order of appearance."""
        return list(
            dict.fromkeys(outcome.system for outcome in self.outcomes if outcome.target == target)
        )

    def evaluation(self, system: str, target: str) -> Evaluation:
        """Values of a system per query: seeds averaged, the test queries of all data and folds pooled."""
        own = [
            outcome
            for outcome in self.outcomes
            if outcome.system == system and outcome.target == target
        ]
        if not own:
            raise ValueError(
                f"no outcome of {system!r} for {target!r}; known systems: {self.systems(target)}."
            )
        by_fold: dict[tuple[str, str], list[Outcome]] = {}
        for outcome in own:
            by_fold.setdefault((outcome.data, outcome.fold), []).append(outcome)
        per_query = {
            name: np.concatenate(
                [
                    np.mean([outcome.values[name] for outcome in seeds], axis=0)
                    for seeds in by_fold.values()
                ]
            )
            for name in own[0].values
        }
        ids = [
            f"{data} {query}"
            for (data, _), seeds in by_fold.items()
            for query in seeds[0].query_ids
        ]
        return Evaluation(
            mean={name: float(np.nanmean(values)) for name, values in per_query.items()},
            per_query=per_query,
            query_ids=np.array(ids),
            ties="worst",
            empty="skip",
        )

    def comparison(
        self, target: str, *, baseline: str | None = None, metrics: Sequence[str] | None = None
    ) -> Comparison:
        """Compare all systems with a baseline, by default the first, by paired tests; see `compare`."""
        names = self.systems(target)
        if len(names) < 2:
            raise ValueError(f"a comparison needs two systems trained for {target!r}; got {names}.")
        if baseline is not None:
            if baseline not in names:
                raise ValueError(f"unknown system {baseline!r}; choose one of {', '.join(names)}.")
            names.remove(baseline)
            names.insert(0, baseline)
        evaluations = [self.evaluation(name, target) for name in names]
        return compare(*evaluations, names=names, metrics=list(metrics or [target]))

    def _insert(self, outcome: Outcome) -> None:
        place = outcome.data, outcome.system
        if self._recipes.setdefault(place, outcome.recipe) != outcome.recipe:
            self._by_key = {
                key: outcome
                for key, outcome in self._by_key.items()
                if (outcome.data, outcome.system) != place
            }
            self._recipes[place] = outcome.recipe
        self._by_key[outcome.data, outcome.fold, outcome.system, outcome.target, outcome.seed] = (
            outcome
        )


def read_outcomes(path: Path, *, repair: bool = False) -> Iterator[Outcome]:
    """Read the outcomes of a file without an incomplete last line, left by an interruption; ``repair`` removes it."""
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:complete].splitlines(), start=1):
        try:
            yield Outcome(**json.loads(line))
        except (ValueError, TypeError):
            raise _invalid_line(path, number) from None
    if complete < len(content):
        if not content[complete:].startswith(_LINE_START[: len(content) - complete]):
            raise _invalid_line(path, content.count(b"\n") + 1)
        if repair:
            os.truncate(path, complete)


def _invalid_line(path: Path, line: int) -> ValueError:
    return ValueError(
        f"{path}, line {line}: expected an outcome as a JSON object; delete the line or the file."
    )
