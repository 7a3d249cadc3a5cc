"""An honest comparison of systems: the same folds, trees and choices for everyone, and tests on pooled queries.

For each fold and seed a system trains on the training queries; the number of trees is chosen on the validation queries
by the target metric, in the same way for every system; the test queries are scored once. Seeds are averaged per
query, the test queries of all folds are pooled, and systems are compared by paired tests over them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.evaluation.comparison import Comparison, compare
from rankwright.evaluation.per_query import Evaluation, evaluate
from rankwright.metrics import metric as parse_metric

Floats = NDArray[np.float64]
_Key = tuple[str, str, str, str, int]
_BEGINNING = b'{"data": '  # of each line of a file of outcomes


class Model(Protocol):
    """What a system returns from training."""

    def staged_predict(self, data: RankingData, every: int) -> Iterable[Floats]:
        """Scores after ``every`` trees, twice as many, and so on to all."""


class System(Protocol):
    """A way of training: a library, an objective, and its parameters.

    One that is no dataclass is told apart from another by its name alone. One with an attribute ``by_seed`` that is
    False gives the same model for every seed, so one training serves all.
    """

    @property
    def name(self) -> str:
        """What tables call it; two systems of one comparison differ in it."""

    @property
    def by_metric(self) -> bool:
        """Whether training depends on the target metric; if not, one training serves all targets."""

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train for a metric."""


@dataclass(frozen=True)
class Ours:
    """rankwright's Ranker as a system.

    Parameters
    ----------
    name
        What tables call it.
    params
        Parameters of `Ranker`, besides metric, trees, seed and threads.
    by_metric
        False where the objective does not depend on the metric.

    Examples
    --------
    >>> Ours("yetirank, few leaves", {"objective": "yetirank", "num_leaves": 8}, by_metric=False).name
    'yetirank, few leaves'
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric: bool = True
    libraries = ("rankwright", "lightgbm")

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train a Ranker."""
        from rankwright.ranker import Ranker

        common: dict[str, Any] = {"n_estimators": trees, "random_state": seed, "n_jobs": threads, "verbose": 0}
        ranker = Ranker(**{"metric": metric} | common | dict(self.params))
        return _Fitted(ranker.fit(train))


@dataclass(frozen=True)
class _Fitted:
    ranker: Any

    @property
    def gradient_seconds(self) -> float:
        """Time that the whole training spent in the objective: gradients, and leaf values where it computes them."""
        times: dict[str, float] = self.ranker.times_
        return times["gradients"] + times["leaves"]

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        yield from self.ranker.staged_predict(data, every=every)


@dataclass(frozen=True)
class Outcome:
    """One system, trained and tested once.

    Parameters
    ----------
    data, fold, system, target, seed
        What was trained on what, and the metric that chose the number of trees.
    trees
        The number chosen.
    valid
        The target on the validation queries there.
    fit_seconds, predict_seconds
        Time of training, and of scoring the test queries with all trees; the library's own preparation of the rows
        is in both.
    query_ids, values
        The test queries, and the value of each by metric (NaN where skipped).
    gradient_seconds
        The part of the training that the objective took, where the system tells it.
    curve
        The target on the validation queries at each number of trees it was chosen from.
    recipe
        Stands for the system's parameters, the trees, the threads and the versions; see `recipe`.
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


def describe(system: System) -> dict[str, Any]:
    """Everything that tells a system from another: parameters, with defaults for ours, and versions of libraries.

    Examples
    --------
    >>> describe(Ours("few leaves", {"num_leaves": 8}))["parameters"]["num_leaves"]
    8
    """
    parameters: dict[str, Any] = {}
    if isinstance(system, Ours):
        from rankwright.ranker import Ranker

        parameters = Ranker(**dict(system.params)).get_params()
    elif is_dataclass(system) and not isinstance(system, type):
        parameters = asdict(system)
    versions = {name: version(name) for name in getattr(system, "libraries", ())}
    return {"name": system.name, "parameters": parameters, "versions": versions}


def recipe(system: System, *, trees: int, every: int, threads: int) -> str:
    """Return a short text that changes with all that shapes an outcome besides data, target and seed.

    Examples
    --------
    >>> small, large = Ours("a", {"num_leaves": 8}), Ours("a", {"num_leaves": 31})
    >>> recipe(small, trees=5, every=1, threads=1) == recipe(large, trees=5, every=1, threads=1)
    False
    """
    described = json.dumps([describe(system), trees, every, threads], sort_keys=True, default=str)
    if isinstance(system, Ours):  # what "auto" and None stand for is written there
        from rankwright.training import defaults

        described += Path(defaults.__file__).read_text(encoding="utf-8")
    return hashlib.sha256(described.encode()).hexdigest()[:16]


class Results:
    """Outcomes, kept in a file if one is named, so that an interrupted comparison goes on where it was.

    A later outcome takes the place of an earlier one of the same data, fold, system, target and seed. Where its
    recipe differs, it takes the place of all that the system had on these data.

    Parameters
    ----------
    path
        A file of one JSON object per line; created, or read if it is there.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> from rankwright.data.folds import folds_by_query
    >>> folds = folds_by_query(make_web_search(24, n_features=20, mean_length=20), 3)
    >>> systems = [Ours("small", {"num_leaves": 4, "min_child_samples": 5}), Ours("large", {"min_child_samples": 5})]
    >>> results = run_systems(systems, folds, data="generated", targets=["ndcg@10"], seeds=2, trees=20)
    >>> results.comparison("ndcg@10").baseline
    'small'
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._by_key: dict[_Key, Outcome] = {}
        self._recipes: dict[tuple[str, str], str] = {}
        if self.path is not None and self.path.exists():
            for outcome in _read_outcomes(self.path):
                self._keep(outcome)

    @property
    def outcomes(self) -> list[Outcome]:
        """All outcomes, in order of appearance."""
        return list(self._by_key.values())

    def find(self, data: str, fold: str, system: str, target: str, seed: int) -> Outcome | None:
        """Return an outcome if it is there."""
        return self._by_key.get((data, fold, system, target, seed))

    def has(self, data: str, fold: str, system: str, target: str, seed: int) -> bool:
        """Tell whether an outcome is there."""
        return self.find(data, fold, system, target, seed) is not None

    def of(self, data: str, fold: str, system: str, seed: int) -> list[Outcome]:
        """Return the outcomes of one training or, where it depends on the target, of one for each."""
        wanted = data, fold, system, seed
        return [one for one in self.outcomes if (one.data, one.fold, one.system, one.seed) == wanted]

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, in the file too."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        self._keep(outcome)

    def systems(self, target: str) -> list[str]:
        """Names of the systems, in order of appearance."""
        return list(dict.fromkeys(one.system for one in self.outcomes if one.target == target))

    def evaluation(self, system: str, target: str) -> Evaluation:
        """Values of a system per query: seeds averaged, the test queries of all data and folds pooled."""
        chosen = [one for one in self.outcomes if one.system == system and one.target == target]
        if not chosen:
            raise ValueError(f"no outcome of {system!r} for {target!r}; there are {self.systems(target)}.")
        by_fold: dict[tuple[str, str], list[Outcome]] = {}
        for one in chosen:
            by_fold.setdefault((one.data, one.fold), []).append(one)
        per_query = {
            name: np.concatenate([np.mean([one.values[name] for one in same], axis=0) for same in by_fold.values()])
            for name in chosen[0].values
        }
        ids = [f"{data} {query}" for (data, _), same in by_fold.items() for query in same[0].query_ids]
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
        """Compare all systems with a baseline (the first, if none is named) by paired tests; see `compare`."""
        names = self.systems(target)
        if len(names) < 2:
            raise ValueError(f"a comparison needs two systems trained for {target!r}; there are {names}.")
        if baseline is not None:
            if baseline not in names:
                raise ValueError(f"no system is called {baseline!r}; there are {', '.join(names)}.")
            names.remove(baseline)
            names.insert(0, baseline)
        evaluations = [self.evaluation(name, target) for name in names]
        return compare(*evaluations, names=names, metrics=list(metrics or [target]))

    def _keep(self, outcome: Outcome) -> None:
        place = outcome.data, outcome.system
        if outcome.recipe and self._recipes.setdefault(place, outcome.recipe) != outcome.recipe:
            self._by_key = {
                key: one
                for key, one in self._by_key.items()
                if (one.data, one.system) != place or one.recipe in ("", outcome.recipe)
            }
            self._recipes[place] = outcome.recipe
        self._by_key[outcome.data, outcome.fold, outcome.system, outcome.target, outcome.seed] = outcome


def run_systems(
    systems: Sequence[System],
    folds: Iterable[Fold],
    *,
    data: str,
    targets: Sequence[str],
    metrics: Sequence[str] = (),
    seeds: int = 5,
    trees: int = 300,
    every: int = 5,
    threads: int = 1,
    results: Results | None = None,
    progress: Callable[[Outcome], object] | None = None,
) -> Results:
    """Train and test every system on every fold with every seed, systems interleaved.

    Parameters
    ----------
    systems, folds
        What to compare on what.
    data
        Name of the data.
    targets
        Metrics to train for and to choose the number of trees by, each a comparison of its own.
    metrics
        What to evaluate on the test queries besides the targets.
    seeds, trees, threads
        Number of seeds, of trees at most, and of threads.
    every
        The number of trees is chosen among the multiples of this.
    results
        Where to keep outcomes; those already there are not computed again, unless they were made by another recipe,
        on other queries or without a metric that is wanted now.
    progress
        Called with each new outcome.
    """
    kept = Results() if results is None else results
    reported = list(dict.fromkeys([*targets, *metrics]))
    recipes = [recipe(system, trees=trees, every=every, threads=threads) for system in systems]
    for fold in folds:
        queries = [str(query) for query in fold.test.query_ids]
        for seed in range(seeds):
            for system, made_by in zip(systems, recipes, strict=True):
                olds = {target: kept.find(data, fold.name, system.name, target, seed) for target in targets}
                missing = [target for target, old in olds.items() if not _usable(old, made_by, queries, reported)]
                for group in [[one] for one in missing] if system.by_metric else [missing]:
                    if not group:
                        continue
                    made: Iterable[Outcome] = _outcomes(
                        system, fold, data, group, reported, seed, trees, every, threads
                    )
                    if seed > 0 and not getattr(system, "by_seed", True):
                        made = [one for one in kept.of(data, fold.name, system.name, seed=0) if one.target in group]
                    for one in made:
                        outcome = replace(one, seed=seed, recipe=made_by)
                        kept.add(outcome)
                        if progress is not None:
                            progress(outcome)
    return kept


def _usable(old: Outcome | None, made_by: str, queries: Sequence[str], metrics: Sequence[str]) -> bool:
    return (
        old is not None
        and old.recipe in ("", made_by)
        and old.query_ids == list(queries)
        and old.values.keys() >= set(metrics)
    )


def _outcomes(
    system: System,
    fold: Fold,
    data: str,
    targets: Sequence[str],
    reported: Sequence[str],
    seed: int,
    trees: int,
    every: int,
    threads: int,
) -> Iterator[Outcome]:
    began = time.perf_counter()
    model = system.fit(fold.train, targets[0], trees=trees, seed=seed, threads=threads)
    fitted = time.perf_counter()
    for _ in model.staged_predict(fold.test, trees):
        pass  # one stage of all trees, as in use
    predicted = time.perf_counter()
    curves = _curves(model, fold.valid, targets, every, threads)
    for one, curve in curves.items():
        if np.isnan(curve).any():
            raise ValueError(
                f"{data}, fold {fold.name}: {one} has no value on any validation query, so it cannot choose; "
                "validate on queries that have relevant documents."
            )
    best = {one: _best(one, curve) for one, curve in curves.items()}
    wanted = set(best.values())
    stages = {number: scores for number, scores in enumerate(_stages(model, fold.test, every)) if number in wanted}
    for one, curve in curves.items():
        scores = stages[best[one]]
        tested = evaluate(scores, fold.test.y, group=fold.test.group, metrics=list(reported), threads=threads)
        yield Outcome(
            data=data,
            fold=fold.name,
            system=system.name,
            target=one,
            seed=seed,
            trees=min((best[one] + 1) * every, trees),
            valid=curve[best[one]],
            fit_seconds=fitted - began,
            predict_seconds=predicted - fitted,
            query_ids=[str(query) for query in fold.test.query_ids],
            values={name: values.tolist() for name, values in tested.per_query.items()},
            gradient_seconds=getattr(model, "gradient_seconds", None),
            curve=curve,
        )


def _stages(model: Model, data: RankingData, every: int) -> Iterator[Floats]:
    """Scores after each stage; a model without trees has one, where all documents are equal."""
    empty = True
    for scores in model.staged_predict(data, every):
        empty = False
        yield scores
    if empty:
        yield np.zeros(data.n_rows)


def _curves(
    model: Model, valid: RankingData, targets: Sequence[str], every: int, threads: int
) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {one: [] for one in targets}
    for scores in _stages(model, valid, every):
        result = evaluate(scores, valid.y, group=valid.group, metrics=list(targets), threads=threads)
        for one in targets:
            curves[one].append(result.mean[one])
    return curves


def _best(target: str, curve: Sequence[float]) -> int:
    sign = 1.0 if parse_metric(target).higher_is_better else -1.0
    return int(np.argmax(sign * np.array(curve)))


def _read_outcomes(path: Path) -> Iterator[Outcome]:
    """Outcomes of a file; an unfinished last line, left by an interruption, is cut off."""
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:complete].splitlines(), start=1):
        try:
            yield Outcome(**json.loads(line))
        except (ValueError, TypeError):
            raise _no_outcome(path, number) from None
    if complete < len(content):
        if not content[complete:].startswith(_BEGINNING[: len(content) - complete]):
            raise _no_outcome(path, content.count(b"\n") + 1)
        os.truncate(path, complete)


def _no_outcome(path: Path, line: int) -> ValueError:
    return ValueError(f"{path}, line {line}: expected an outcome as a JSON object; delete the line or the file.")
