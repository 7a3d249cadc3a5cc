"""Us and the peers, side by side: the same folds, the same number of trees, the same machine, in turn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from rankwright._io import replacing
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold, folds_by_query
from rankwright.data.synthetic import make_web_search
from rankwright.environment import environment
from rankwright.research.bench.files import BENCH, FORMAT_VERSION
from rankwright.research.bench.memory import peak_memory
from rankwright.research.bench.summary import equal_quality, quality, speed
from rankwright.research.harness import Outcome, Results, System, describe, recipe, run_systems
from rankwright.research.peers import CatBoost, LightGBM, XGBoost, YetiRankByMetric, gradient_seconds

METRICS = ("ndcg@10", "map", "mrr", "err")
PACKAGES = ("rankwright", "lightgbm", "catboost", "xgboost", "numpy", "numba", "scipy")
_MEMORY_TREES = 10  # the peak comes with the first trees


def generated_folds(kind: str, queries: int) -> tuple[str, Callable[[], Iterable[Fold]]]:
    """Name and folds of generated data of a kind of `make_web_search`.

    Examples
    --------
    >>> name, folds = generated_folds("short", 10)
    >>> name, len(list(folds()))
    ('short, 10 queries', 5)
    """
    return f"{kind}, {queries} queries", lambda: folds_by_query(make_web_search(queries, kind=kind), 5)  # type: ignore[arg-type]


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

    Each system is warmed up first. On the first fold of each data set, the peak memory is measured in a process of
    its own for each system, and the time of the gradients where the system itself does not tell. Then come folds,
    seeds and, innermost, systems.

    Parameters
    ----------
    systems
        What to compare; the others are tested against the first.
    data
        For each name, a function that gives the folds.
    targets, seeds, trees, every, threads
        As in `run_systems`; NDCG@10, MAP, MRR and ERR are evaluated besides the targets.
    reach
        The time is taken until the validation value is this share of the best of any system.
    work
        Beginning of the names of two files that keep what was measured, ``work.outcomes.jsonl`` and
        ``work.costs.json``, so that an interrupted benchmark goes on where it was.
    progress
        Called with a line of text for each measurement.

    Examples
    --------
    >>> from rankwright.research.harness import Ours
    >>> data = dict([generated_folds("short", 15)])
    >>> result = run_bench([Ours("ours")], data, targets=["ndcg@10"], seeds=1, trees=2, every=1, threads=1)
    >>> [(row["system"], row["queries"]) for row in result["quality"]]
    [('ours', 15)]
    """
    tell = progress or (lambda line: None)
    results = Results(None if work is None else f"{os.fspath(work)}.outcomes.jsonl")
    costs = _Costs(None if work is None else Path(f"{os.fspath(work)}.costs.json"))
    names = [system.name for system in systems]
    _warm_up(systems, targets, threads, tell)
    described = []

    def show(one: Outcome) -> None:
        place = f"{one.data}, fold {one.fold}, seed {one.seed}: {one.system} for {one.target}"
        tell(f"{place}: {one.fit_seconds:.1f} s, validation {one.valid:.4f} with {one.trees} trees")

    found: dict[tuple[str, str, str], dict[str, float | None]] = {}
    for name, folds in data.items():
        each = iter(folds())
        first = next(each)
        described.append({"name": name, **_sizes(first)})
        for system in systems:
            made_by = recipe(system, trees=trees, every=every, threads=threads)
            for target in targets:
                trained_for = target if system.by_metric else targets[0]
                measure = partial(_cost, system, first.train, trained_for, trees, threads, tell)
                key = f"{name} / {system.name} / {trained_for} / {made_by}"
                found[name, system.name, target] = costs.get(key, measure)
        run_systems(
            systems,
            chain([first], each),
            data=name,
            targets=targets,
            metrics=METRICS,
            seeds=seeds,
            trees=trees,
            every=every,
            threads=threads,
            results=results,
            progress=show,
        )
    # A file may hold more than was asked for now: other data, systems, targets or seeds.
    kept = Results()
    for one in results.outcomes:
        if one.data in data and one.system in names and one.target in targets and one.seed < seeds:
            kept.add(one)
    rows: dict[str, list[dict[str, Any]]] = {"quality": [], "speed": [], "equal_quality": []}
    for target in targets:
        rows["quality"] += quality(kept, list(data), names, target)
        rows["speed"] += speed(kept, list(data), names, target, trees=trees, reach=reach, costs=found)
        rows["equal_quality"] += equal_quality(kept, list(data), names, target)
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
        "data": described,
        **rows,
    }


class _Costs:
    """What is measured once for a system on a data set, kept in a file if one is named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, dict[str, float | None]] = {}
        if path is not None and path.exists():
            try:
                self._known = json.loads(path.read_bytes())
            except ValueError:
                raise ValueError(f"{path} is not valid JSON; delete it to measure anew.") from None

    def get(self, key: str, measure: Callable[[], dict[str, float | None]]) -> dict[str, float | None]:
        if key not in self._known:
            self._known[key] = measure()
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(self._path) as file:
                    file.write((json.dumps(self._known, indent=1) + "\n").encode())
        return dict(self._known[key])


def _cost(
    system: System, train: RankingData, target: str, trees: int, threads: int, tell: Callable[[str], object]
) -> dict[str, float | None]:
    cost = peak_memory(system, train, target, trees=min(trees, _MEMORY_TREES), threads=threads)
    if isinstance(system, LightGBM | CatBoost | YetiRankByMetric | XGBoost):
        cost["gradient_ms"] = 1000 * gradient_seconds(system, train, target, threads=threads)
    tell(f"{system.name} for {target}: peak memory {cost['peak_mb']:.0f} MB")
    return cost


def _warm_up(systems: Sequence[System], targets: Sequence[str], threads: int, tell: Callable[[str], object]) -> None:
    """Load and compile before anything is timed."""
    fold = next(folds_by_query(make_web_search(15, n_features=20, mean_length=20), 3))
    for system in systems:
        tell(f"warming up {system.name}")
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
