"""Train and test systems on folds; see `rankwright_lab.harness`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import evaluate
from rankwright.metrics import metric as parse_metric
from rankwright_lab.folds import Fold
from rankwright_lab.harness.identity import hashes_of, nameless_recipe, outcome_key, recipe
from rankwright_lab.harness.outcomes import Outcome, OutcomeStore
from rankwright_lab.harness.systems import (
    Floats,
    StagedModel,
    System,
    check_installed,
    check_supported,
)


def run_systems(
    systems: Sequence[System],
    folds: Iterable[Fold],
    *,
    data: str,
    targets: Sequence[str],
    metrics: Sequence[str] = (),
    seeds: int | Sequence[int] = 5,
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
    seeds
        Number of seeds, or the seeds.
    trees, threads
        Largest number of trees, and number of threads.
    every
        The number of trees is chosen among the multiples of this.
    store
        Where outcomes are stored. Stored outcomes are not computed again, unless they have another recipe, are of
        other rows, or lack one of the metrics.
    reuse
        Outcomes of other runs by their keys, which are stored instead of being computed again; see `outcome_key` and
        `rankwright_lab.kept_outcomes`.
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
        for seed in range(seeds) if isinstance(seeds, int) else seeds:
            for system, (own_recipe, nameless) in zip(systems, recipes, strict=True):
                drawn = getattr(system, "by_seed", True)
                missing: dict[str, str] = {}  # keys by target
                for target in targets:
                    reported = list(dict.fromkeys([target, *metrics])) if tested else []
                    key = outcome_key(nameless, hashes_of(fold), target, seed if drawn else 0)
                    old = store.find(data, fold.name, system.name, target, seed)
                    if (
                        old is not None
                        and _same(old, own_recipe, key)
                        and _complete(old, queries, reported)
                    ):
                        continue
                    known = (reuse or {}).get(key)
                    if known is not None and _complete(
                        replace(known, query_ids=queries), queries, reported
                    ):
                        named = replace(
                            known, data=data, fold=fold.name, system=system.name, seed=seed
                        )
                        store.add(replace(named, query_ids=queries, recipe=own_recipe))
                    else:
                        missing[target] = key
                for group in (
                    [[target] for target in missing] if system.by_metric else [list(missing)]
                ):
                    if not group:
                        continue
                    # Where nothing is drawn, the first seed serves all.
                    same = [] if drawn else store.of(data, fold.name, system.name, seed=0)
                    outcomes: Iterable[Outcome] = [
                        outcome
                        for outcome in same
                        if outcome.target in group
                        and _same(outcome, own_recipe, missing[outcome.target])
                        and _complete(outcome, queries, [outcome.target])
                    ]
                    if len(list(outcomes)) < len(group):
                        outcomes = _outcomes(
                            system, fold, data, group, metrics, seed, trees, every, threads
                        )
                    for outcome in outcomes:
                        complete = replace(
                            outcome, seed=seed, recipe=own_recipe, key=missing[outcome.target]
                        )
                        store.add(complete)
                        if progress is not None:
                            progress(complete)
    return store


def _same(outcome: Outcome, own_recipe: str, key: str) -> bool:
    """Whether an outcome is of this training on these rows; without a key it is known by its recipe alone."""
    return outcome.recipe == own_recipe and outcome.key in ("", key)


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
        tested = evaluate(
            scores, fold.test.y, group=fold.test.group, metrics=reported, n_jobs=threads
        )
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
            parameters=getattr(system, "chosen", {}),
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
        result = evaluate(scores, valid.y, group=valid.group, metrics=list(targets), n_jobs=threads)
        for target in targets:
            curves[target].append(result.mean[target])
    return curves


def _best(target: str, curve: Sequence[float]) -> int:
    sign = 1.0 if parse_metric(target).higher_is_better else -1.0
    return int(np.argmax(sign * np.array(curve)))
