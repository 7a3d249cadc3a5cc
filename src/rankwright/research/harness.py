"""A fair comparison of systems: the same folds, number of trees and selection rule for all, and paired tests.

For each fold and seed a system trains on the training queries. The number of trees is chosen on the validation queries
by the target metric, in the same way for every system. The test queries are scored once. Seeds are averaged per query,
the test queries of all folds are pooled, and systems are compared by paired tests over them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.evaluation.comparison import Comparison, compare
from rankwright.evaluation.per_query import Evaluation, evaluate
from rankwright.metrics import metric as parse_metric
from rankwright.research.libraries import LIGHTGBM, RANKWRIGHT, Library

Floats = NDArray[np.float64]
_Key = tuple[str, str, str, str, int]
_LINE_START = b'{"data": '  # of each line of a file of outcomes
_KEY_FORMAT = "k1"
_RECIPE_FORMAT = "v2"  # recipes without it hashed the source text of the defaults


class StagedModel(Protocol):
    """A trained model that scores documents with a part of its trees."""

    def staged_predict(self, data: RankingData, every: int) -> Iterable[Floats]:
        """Scores after ``every`` trees, twice as many, and so on up to all trees."""


@dataclass(frozen=True)
class Capabilities:
    """Which data a system can train on.

    Parameters
    ----------
    longest_query
        Largest number of documents of a query; None for no limit.
    largest_label
        Largest label; None for no limit.
    whole_labels
        Whether labels must be whole numbers.

    Examples
    --------
    >>> data = RankingData([[1.0], [2.0]], [0.5, 1], group=[2])
    >>> Capabilities(longest_query=1, whole_labels=True).problems(data)
    ['queries have at most 1 documents, but one has 2', 'labels are whole numbers, but one is 0.5']
    """

    longest_query: int | None = None
    largest_label: float | None = None
    whole_labels: bool = False

    def problems(self, data: RankingData) -> list[str]:
        """Return what the data has that the system does not support."""
        problems = []
        if self.longest_query is not None and data.group.max() > self.longest_query:
            problems.append(f"queries have at most {self.longest_query} documents, but one has {data.group.max()}")
        if self.largest_label is not None and data.y.max() > self.largest_label:
            problems.append(f"labels are at most {self.largest_label:g}, but one is {data.y.max():g}")
        fractions = data.y[data.y != np.floor(data.y)]
        if self.whole_labels and len(fractions):
            problems.append(f"labels are whole numbers, but one is {fractions[0]:g}")
        return problems


class System(Protocol):
    """A way of training: a library, an objective, and its parameters.

    A system that is not a dataclass is identified by its name alone. Optional attributes:

    - ``by_seed``: False if the model is the same for every seed, so that one training serves all seeds.
    - ``libraries``: a tuple of `Library`, the libraries that the system trains with.
    - ``capabilities``: `Capabilities`, the data that the system supports.
    - ``identity``: plain values that say what is trained, without the name; see `outcome_key`.
    - ``prepare``: called before the training and not timed, such as a search of parameters.
    - ``selection``: how the parameters were chosen, in words, once the system is prepared.
    """

    @property
    def name(self) -> str:
        """Name in tables, unique within a comparison."""

    @property
    def by_metric(self) -> bool:
        """Whether training depends on the target metric; if not, one training serves all targets."""

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> StagedModel:
        """Train for a metric."""


@dataclass(frozen=True)
class RankwrightSystem:
    """rankwright's Ranker as a system.

    Parameters
    ----------
    name
        Name in tables.
    params
        Parameters of `Ranker` besides metric, trees, seed and threads.
    by_metric
        False if the objective does not depend on the metric.

    Examples
    --------
    >>> RankwrightSystem("yetirank, few leaves", {"objective": "yetirank", "num_leaves": 8}, by_metric=False).name
    'yetirank, few leaves'
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric: bool = True
    libraries = (RANKWRIGHT, LIGHTGBM)

    @property
    def identity(self) -> dict[str, Any]:
        """All parameters of `Ranker`, the objective with its options written out."""
        from rankwright.objectives import objective
        from rankwright.ranker import Ranker

        parameters = Ranker(**dict(self.params)).get_params()
        source = parameters["objective"]
        return parameters if source == "auto" else {**parameters, "objective": repr(objective(source))}

    @property
    def by_seed(self) -> bool:
        """False if nothing is drawn: no sampling of rows or columns, no Langevin noise, no random gradient."""
        from rankwright.objectives import objective

        source = self.params.get("objective", "auto")
        sampled = any(self.params.get(share) != 1.0 for share in ("subsample", "colsample"))
        drawn = sampled or bool(self.params.get("langevin")) or "engine_params" in self.params
        return drawn or source == "auto" or objective(source).varies

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> StagedModel:
        """Train a Ranker."""
        from rankwright.ranker import Ranker

        common: dict[str, Any] = {"n_estimators": trees, "random_state": seed, "n_jobs": threads, "verbose": 0}
        ranker = Ranker(**{"metric": metric} | common | dict(self.params))
        return _RankerModel(ranker.fit(train))


@dataclass(frozen=True)
class _RankerModel:
    ranker: Any

    @property
    def gradient_seconds(self) -> float:
        """Time of the whole training in the objective: gradients, and leaf values if it computes them."""
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


def describe(system: System) -> dict[str, Any]:
    """Return what identifies a system: its parameters, with the defaults of `Ranker`, and versions of libraries.

    Examples
    --------
    >>> describe(RankwrightSystem("few leaves", {"num_leaves": 8}))["parameters"]["num_leaves"]
    8
    """
    parameters: dict[str, Any] = {}
    if isinstance(system, RankwrightSystem):
        from rankwright.ranker import Ranker

        parameters = Ranker(**dict(system.params)).get_params()
    elif is_dataclass(system) and not isinstance(system, type):
        parameters = asdict(system)
    return {"name": system.name, "parameters": parameters, "versions": _versions(system)}


def _versions(system: System) -> dict[str, str]:
    return {library.name: library.version for library in libraries_of(system)}


def _defaults_version(system: System) -> int | None:
    from rankwright.training.defaults import DEFAULTS_VERSION

    return DEFAULTS_VERSION if RANKWRIGHT in libraries_of(system) else None


def recipe(system: System, *, trees: int, every: int, threads: int) -> str:
    """Return a short text that changes with everything that affects an outcome except data, target and seed.

    `DEFAULTS_VERSION` stands for what Ranker chooses where a parameter is ``"auto"`` or None.

    Examples
    --------
    >>> small, large = RankwrightSystem("a", {"num_leaves": 8}), RankwrightSystem("a", {"num_leaves": 31})
    >>> recipe(small, trees=5, every=1, threads=1) == recipe(large, trees=5, every=1, threads=1)
    False
    """
    content = [describe(system), trees, every, threads, _defaults_version(system)]
    return f"{_RECIPE_FORMAT}-{_hash(content)[:16]}"


def identity_of(system: System) -> Any:
    """Return plain values that say what a system trains, without the name that a comparison gives it."""
    if hasattr(system, "identity"):
        return system.identity
    if is_dataclass(system) and not isinstance(system, type):
        return [type(system).__name__, {name: value for name, value in asdict(system).items() if name != "name"}]
    return system.name


def nameless_recipe(system: System, *, trees: int, every: int, threads: int) -> str:
    """Return a text like `recipe` that does not change with the name of the system.

    Examples
    --------
    >>> systems = [RankwrightSystem("a", {"objective": "yetiloss"}), RankwrightSystem("b", {"objective": "yetiloss()"})]
    >>> first, second = (nameless_recipe(system, trees=5, every=1, threads=1) for system in systems)
    >>> first == second
    True
    """
    return _hash([identity_of(system), _versions(system), _defaults_version(system), trees, every, threads])


def outcome_key(own_recipe: str, data: Sequence[str], target: str, seed: int) -> str:
    """Return a short text that is equal for outcomes of the same training, whatever system and data are called.

    Two experiments that train the same parameters on the same rows can then share an outcome.

    Parameters
    ----------
    own_recipe
        What is trained; see `nameless_recipe`.
    data
        Hashes of the training, validation and test queries; see `hashes_of`.
    target, seed
        The metric, and the seed; 0 where nothing is drawn.
    """
    return f"{_KEY_FORMAT}-{_hash([own_recipe, list(data), target, seed])[:24]}"


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def hashes_of(fold: Fold) -> list[str]:
    """Return hashes of the training, validation and test queries of a fold."""
    from rankwright.training.checkpoint import fingerprint

    return [fingerprint(part) for part in (fold.train, fold.valid, fold.test)]


def check_installed(systems: Iterable[System]) -> None:
    """Raise an ImportError that names the missing libraries of the systems and how to install them."""
    missing: dict[Library, str] = {}
    for system in systems:
        for library in libraries_of(system):
            if not library.installed:
                missing.setdefault(library, system.name)
    if missing:
        needs = [
            f"{name} needs {library.name}, which is not installed: {library.install_command}"
            for library, name in missing.items()
        ]
        raise ImportError(f"{'; '.join(needs)}.")


def check_supported(systems: Iterable[System], data: RankingData) -> None:
    """Raise a ValueError if a system does not support the data."""
    for system in systems:
        problems = capabilities_of(system).problems(data)
        if problems:
            raise ValueError(f"{system.name} cannot train on these data: {'; '.join(problems)}. Leave this system out.")


def capabilities_of(system: System) -> Capabilities:
    """Return the capabilities that a system declares; without any, it supports all data."""
    capabilities: Capabilities = getattr(system, "capabilities", Capabilities())
    return capabilities


def libraries_of(system: System) -> tuple[Library, ...]:
    """Return the libraries that a system declares."""
    libraries: tuple[Library, ...] = getattr(system, "libraries", ())
    return libraries


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
    >>> from rankwright.data.folds import folds_by_query
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
            outcome for outcome in self.outcomes if (outcome.data, outcome.fold, outcome.system, outcome.seed) == key
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
        return list(dict.fromkeys(outcome.system for outcome in self.outcomes if outcome.target == target))

    def evaluation(self, system: str, target: str) -> Evaluation:
        """Values of a system per query: seeds averaged, the test queries of all data and folds pooled."""
        own = [outcome for outcome in self.outcomes if outcome.system == system and outcome.target == target]
        if not own:
            raise ValueError(f"no outcome of {system!r} for {target!r}; known systems: {self.systems(target)}.")
        by_fold: dict[tuple[str, str], list[Outcome]] = {}
        for outcome in own:
            by_fold.setdefault((outcome.data, outcome.fold), []).append(outcome)
        per_query = {
            name: np.concatenate(
                [np.mean([outcome.values[name] for outcome in seeds], axis=0) for seeds in by_fold.values()]
            )
            for name in own[0].values
        }
        ids = [f"{data} {query}" for (data, _), seeds in by_fold.items() for query in seeds[0].query_ids]
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
                key: outcome for key, outcome in self._by_key.items() if (outcome.data, outcome.system) != place
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
    store: OutcomeStore | None = None,
    reuse: Mapping[str, Outcome] | None = None,
    tested: bool = True,
    progress: Callable[[Outcome], object] | None = None,
) -> OutcomeStore:
    """Train and test every system on every fold with every seed, systems interleaved.

    Missing libraries are reported before anything is trained, unsupported data before the training on a fold.

    Parameters
    ----------
    systems, folds
        What to compare, on which data.
    data
        Name of the data.
    targets
        Metrics to train for and to choose the number of trees by, each a comparison of its own.
    metrics
        Metrics to evaluate on the test queries besides the target of each outcome.
    seeds, trees, threads
        Number of seeds, largest number of trees, and number of threads.
    every
        The number of trees is chosen among the multiples of this.
    store
        Where outcomes are stored. Stored outcomes are not computed again, unless they have another recipe, other
        queries, or lack one of the metrics.
    reuse
        Outcomes of other runs by their keys, which are stored instead of being computed again; see `outcome_key` and
        `rankwright.research.kept_outcomes`.
    tested
        False accepts stored and reused outcomes without values on the test queries, where only their validation
        values are needed.
    progress
        Called with each outcome that was computed.
    """
    store = OutcomeStore() if store is None else store
    check_installed(systems)
    work = {"trees": trees, "every": every, "threads": threads}
    recipes = [(recipe(system, **work), nameless_recipe(system, **work)) for system in systems]
    for fold in folds:
        check_supported(systems, fold.train)
        queries = [str(query) for query in fold.test.query_ids]
        hashes = cache(partial(hashes_of, fold))
        for seed in range(seeds):
            for system, (own_recipe, nameless) in zip(systems, recipes, strict=True):
                drawn = getattr(system, "by_seed", True)
                missing: dict[str, str] = {}  # keys by target
                for target in targets:
                    reported = list(dict.fromkeys([target, *metrics])) if tested else []
                    old = store.find(data, fold.name, system.name, target, seed)
                    if old is not None and old.recipe == own_recipe and _complete(old, queries, reported):
                        continue
                    key = outcome_key(nameless, hashes(), target, seed if drawn else 0)
                    known = (reuse or {}).get(key)
                    if known is not None and _complete(replace(known, query_ids=queries), queries, reported):
                        named = replace(known, data=data, fold=fold.name, system=system.name, seed=seed)
                        store.add(replace(named, query_ids=queries, recipe=own_recipe))
                    else:
                        missing[target] = key
                for group in [[target] for target in missing] if system.by_metric else [list(missing)]:
                    if not group:
                        continue
                    outcomes: Iterable[Outcome] = _outcomes(
                        system, fold, data, group, metrics, seed, trees, every, threads
                    )
                    if seed > 0 and not drawn:
                        same = store.of(data, fold.name, system.name, seed=0)
                        outcomes = [outcome for outcome in same if outcome.target in group]
                    for outcome in outcomes:
                        complete = replace(outcome, seed=seed, recipe=own_recipe, key=missing[outcome.target])
                        store.add(complete)
                        if progress is not None:
                            progress(complete)
    return store


def _complete(outcome: Outcome, queries: Sequence[str], metrics: Sequence[str]) -> bool:
    """Whether an outcome has the values of these metrics for each of these queries."""
    return outcome.query_ids == list(queries) and all(
        len(outcome.values.get(name, ())) == len(queries) for name in metrics
    )


def _outcomes(
    system: System,
    fold: Fold,
    data: str,
    targets: Sequence[str],
    metrics: Sequence[str],
    seed: int,
    trees: int,
    every: int,
    threads: int,
) -> Iterator[Outcome]:
    getattr(system, "prepare", lambda: None)()
    start = time.perf_counter()
    model = system.fit(fold.train, targets[0], trees=trees, seed=seed, threads=threads)
    fitted = time.perf_counter()
    for _ in model.staged_predict(fold.test, trees):
        pass  # one stage of all trees, as in production
    predicted = time.perf_counter()
    curves = _curves(model, fold.valid, targets, every, threads)
    for target, curve in curves.items():
        if np.isnan(curve).any():
            raise ValueError(
                f"{data}, fold {fold.name}: {target} has no value on any validation query, so the number of trees "
                "cannot be chosen; validate on queries that have relevant documents."
            )
    best = {target: _best(target, curve) for target, curve in curves.items()}
    needed = islice(stages_of(model, fold.test, every), max(best.values()) + 1)
    stages = {number: scores for number, scores in enumerate(needed) if number in best.values()}
    for target, curve in curves.items():
        scores = stages[best[target]]
        reported = list(dict.fromkeys([target, *metrics]))
        tested = evaluate(scores, fold.test.y, group=fold.test.group, metrics=reported, threads=threads)
        yield Outcome(
            data=data,
            fold=fold.name,
            system=system.name,
            target=target,
            seed=seed,
            trees=min((best[target] + 1) * every, trees),
            valid=curve[best[target]],
            fit_seconds=fitted - start,
            predict_seconds=predicted - fitted,
            query_ids=[str(query) for query in fold.test.query_ids],
            values={name: values.tolist() for name, values in tested.per_query.items()},
            gradient_seconds=getattr(model, "gradient_seconds", None),
            curve=curve,
            selection=getattr(system, "selection", ""),
        )


def stages_of(model: StagedModel, data: RankingData, every: int) -> Iterator[Floats]:
    """Yield scores after each stage; a model without trees has one stage, with equal scores."""
    empty = True
    for scores in model.staged_predict(data, every):
        empty = False
        yield scores
    if empty:
        yield np.zeros(data.n_rows)


def _curves(
    model: StagedModel, valid: RankingData, targets: Sequence[str], every: int, threads: int
) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {target: [] for target in targets}
    for scores in stages_of(model, valid, every):
        result = evaluate(scores, valid.y, group=valid.group, metrics=list(targets), threads=threads)
        for target in targets:
            curves[target].append(result.mean[target])
    return curves


def _best(target: str, curve: Sequence[float]) -> int:
    sign = 1.0 if parse_metric(target).higher_is_better else -1.0
    return int(np.argmax(sign * np.array(curve)))


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
    return ValueError(f"{path}, line {line}: expected an outcome as a JSON object; delete the line or the file.")
