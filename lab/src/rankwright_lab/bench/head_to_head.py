"""rankwright and its peers side by side: the same folds, number of trees and machine, taking turns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.synthetic import make_web_search
from rankwright.support.environment import environment
from rankwright.support.files import replacing
from rankwright_lab.bench.memory import peak_memory
from rankwright_lab.bench.result_files import BENCH, FORMAT_VERSION
from rankwright_lab.bench.summary import equal_quality, quality, speed
from rankwright_lab.folds import Fold, folds_by_query
from rankwright_lab.harness import (
    Outcome,
    OutcomeStore,
    System,
    check_installed,
    check_supported,
    describe,
    recipe,
    run_systems,
)
from rankwright_lab.peers import CatBoost, LightGBM, XGBoost, YetiRankByMetric, gradient_seconds

METRICS = ("ndcg@10", "map", "mrr", "err")
PACKAGES = ("rankwright", "lightgbm", "catboost", "xgboost", "numpy", "numba", "scipy")
_MEMORY_TREES = 10  # the first trees reach the peak


def generated_folds(kind: str, queries: int) -> tuple[str, Callable[[], Iterable[Fold]]]:
    """Return the name and the folds of generated data of a kind of `make_web_search`.

    Examples
    --------
    >>> name, folds = generated_folds("short", 10)
    >>> name, len(list(folds()))
    ('short, 10 queries', 5)
    """
    return f"{kind}, {queries} queries", lambda: folds_by_query(
        make_web_search(queries, kind=kind),  # type: ignore[arg-type]
        5,
    )


def run_bench(
    systems: Sequence[System],
    data: Mapping[str, Callable[[], Iterable[Fold]]],
    *,
    targets: Sequence[str] = ("ndcg@10", "map"),
    seeds: int = 5,
    trees: int = 300,
    every: int = 5,
    threads: int = 2,
    reach: float = 0.98,
    work: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Compare systems and return the figures, ready for `write_result`.

    Each system is warmed up first. On the first fold of each data set, the peak memory of each system is measured in a
    separate process, and the time of its gradients if the system does not report it. Then all systems train in turn for
    every fold and seed.

    Parameters
    ----------
    systems
        Systems to compare; the others are tested against the first.
    data
        For each name, a function that returns the folds.
    targets, seeds, trees, every, threads
        As in `run_systems`; NDCG@10, MAP, MRR and ERR are evaluated besides the targets.
    reach
        Share of the best validation value of any system; the time to reach it is measured.
    work
        Prefix of two files that store measurements, ``work.outcomes.jsonl`` and ``work.costs.json``, from which an
        interrupted benchmark resumes.
    progress
        Called with a line of text for each measurement.

    Examples
    --------
    >>> from rankwright_lab.harness import RankwrightSystem
    >>> data = dict([generated_folds("short", 15)])
    >>> result = run_bench([RankwrightSystem("small")], data, targets=["ndcg@10"], seeds=1, trees=2, every=1, threads=1)
    >>> [(row["system"], row["queries"]) for row in result["quality"]]
    [('small', 15)]
    """
    check_installed(systems)
    show = progress or (lambda line: None)
    store = OutcomeStore(None if work is None else f"{os.fspath(work)}.outcomes.jsonl")
    cost_file = _CostFile(None if work is None else Path(f"{os.fspath(work)}.costs.json"))
    names = [system.name for system in systems]
    _warm_up(systems, targets, threads, show)
    data_sizes = []

    def report(outcome: Outcome) -> None:
        place = f"{outcome.data}, fold {outcome.fold}, seed {outcome.seed}: {outcome.system} for {outcome.target}"
        show(
            f"{place}: {outcome.fit_seconds:.1f} s, validation {outcome.valid:.4f} with {outcome.trees} trees"
        )

    costs: dict[tuple[str, str, str], dict[str, float | None]] = {}
    for name, folds in data.items():
        rest = iter(folds())
        first = next(rest)
        check_supported(systems, first.train)
        data_sizes.append({"name": name, **_sizes(first)})
        for system in systems:
            own_recipe = recipe(system, trees=trees, every=every, threads=threads)
            for target in targets:
                trained_for = target if system.by_metric else targets[0]
                measure = partial(_cost, system, first.train, trained_for, trees, threads, show)
                key = f"{name} / {system.name} / {trained_for} / {own_recipe}"
                costs[name, system.name, target] = cost_file.get(key, measure)
        run_systems(
            systems,
            chain([first], rest),
            data=name,
            targets=targets,
            metrics=[*targets, *METRICS],
            seeds=seeds,
            trees=trees,
            every=every,
            threads=threads,
            store=store,
            progress=report,
        )
    # The file may hold further data, systems, targets or seeds.
    selected = OutcomeStore()
    for outcome in store.outcomes:
        if (
            outcome.data in data
            and outcome.system in names
            and outcome.target in targets
            and outcome.seed < seeds
        ):
            selected.add(outcome)
    rows: dict[str, list[dict[str, Any]]] = {"quality": [], "speed": [], "equal_quality": []}
    for target in targets:
        rows["quality"] += quality(selected, list(data), names, target)
        rows["speed"] += speed(
            selected, list(data), names, target, trees=trees, reach=reach, costs=costs
        )
        rows["equal_quality"] += equal_quality(selected, list(data), names, target)
    return {
        "format": BENCH,
        "format_version": FORMAT_VERSION,
        "date": date.today().isoformat(),
        "environment": environment(PACKAGES),
        "settings": {
            "targets": list(targets),
            "seeds": seeds,
            "trees": trees,
            "every": every,
            "threads": threads,
            "reach": reach,
        },
        "systems": [describe(system) for system in systems],
        "data": data_sizes,
        **rows,
    }


class _CostFile:
    """Measurements that are taken once for a system on a data set, optionally stored in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, dict[str, float | None]] = {}
        if path is not None and path.exists():
            try:
                self._known = json.loads(path.read_bytes())
            except ValueError:
                raise ValueError(f"{path} is not valid JSON; delete it to measure again.") from None

    def get(
        self, key: str, measure: Callable[[], dict[str, float | None]]
    ) -> dict[str, float | None]:
        if key not in self._known:
            self._known[key] = measure()
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(self._path) as file:
                    file.write((json.dumps(self._known, indent=1) + "\n").encode())
        return dict(self._known[key])


def _cost(
    system: System,
    train: RankingData,
    target: str,
    trees: int,
    threads: int,
    show: Callable[[str], object],
) -> dict[str, float | None]:
    cost = peak_memory(system, train, target, trees=min(trees, _MEMORY_TREES), threads=threads)
    if isinstance(system, LightGBM | CatBoost | YetiRankByMetric | XGBoost):
        cost["gradient_ms"] = 1000 * gradient_seconds(system, train, target, threads=threads)
    show(f"{system.name} for {target}: peak memory {cost['peak_mb']:.0f} MB")
    return cost


def _warm_up(
    systems: Sequence[System], targets: Sequence[str], threads: int, show: Callable[[str], object]
) -> None:
    """Load and compile before anything is timed."""
    fold = next(folds_by_query(make_web_search(15, n_features=20, mean_length=20), 3))
    for system in systems:
        show(f"warming up {system.name}")
        for target in targets if system.by_metric else targets[:1]:
            model = system.fit(fold.train, target, trees=2, seed=0, threads=threads)
            list(model.staged_predict(fold.test, 1))


def _sizes(fold: Fold) -> dict[str, int]:
    parts = (fold.train, fold.valid, fold.test)
    return {
        "queries": sum(part.n_queries for part in parts),
        "documents": sum(part.n_rows for part in parts),
        "features": len(fold.train.feature_names),
    }
