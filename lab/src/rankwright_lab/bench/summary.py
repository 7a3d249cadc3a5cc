"""Figures computed from outcomes: quality with paired tests, times, and the time to reach a given quality."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.metrics import metric as parse_metric
from rankwright_lab.harness import Outcome, OutcomeStore

ALL = "all data"
_PAIRED = ("difference", "low", "high", "p", "p_adjusted", "significant", "wins", "ties", "losses")
Costs = Mapping[tuple[str, str, str], Mapping[str, float | None]]


def quality(
    store: OutcomeStore, data: Sequence[str], systems: Sequence[str], target: str
) -> list[dict[str, Any]]:
    """Return means of each system on each data set, and on all pooled, tested against the first system.

    ``difference`` is the system minus the first one, with its 95 % interval and p-values (Fisher's randomisation test;
    ``p_adjusted`` by Holm over the systems). All are None for the first one itself.
    """
    rows = []
    for name in [*data, ALL] if len(data) > 1 else data:
        part = _store_of([outcome for outcome in store.outcomes if name in (ALL, outcome.data)])
        comparison = part.comparison(target, baseline=systems[0]).rows if len(systems) > 1 else ()
        paired = {row.system: row for row in comparison}
        for system in systems:
            evaluation = part.evaluation(system, target)
            row = paired.get(system)
            rows.append(
                {
                    "data": name,
                    "target": target,
                    "system": system,
                    "queries": int(np.isfinite(evaluation.per_query[target]).sum()),
                    "mean": evaluation.mean[target],
                    "means": evaluation.mean,
                    "trees": statistics.mean(
                        outcome.trees
                        for outcome in part.outcomes
                        if outcome.system == system and outcome.target == target
                    ),
                    **{key: getattr(row, key, None) for key in _PAIRED},
                }
            )
    return rows


def speed(
    store: OutcomeStore,
    data: Sequence[str],
    systems: Sequence[str],
    target: str,
    *,
    trees: int,
    reach: float,
    costs: Costs,
) -> list[dict[str, Any]]:
    """Return median times over folds and seeds of each system on each data set, and ``costs`` that were measured once.

    ``gradient_ms`` is per tree, as reported by the system, or else as measured separately. ``reach_seconds`` is the
    time until the validation value reaches a level, and ``reached`` the share of trainings that reach it. The level of
    a fold is ``reach`` times the best value of any system on the fold.
    """
    rows = []
    for name in data:
        here = [
            outcome
            for outcome in store.outcomes
            if outcome.data == name and outcome.target == target
        ]
        levels = _levels(here, target, reach)
        for system in systems:
            own = [outcome for outcome in here if outcome.system == system]
            times = [seconds_until(outcome, levels[outcome.fold]) for outcome in own]
            cost = costs.get((name, system, target), {})
            gradients = [
                1000 * outcome.gradient_seconds / trees
                for outcome in own
                if outcome.gradient_seconds is not None
            ]
            rows.append(
                {
                    "data": name,
                    "target": target,
                    "system": system,
                    "fit_seconds": statistics.median(outcome.fit_seconds for outcome in own),
                    "predict_seconds": statistics.median(
                        outcome.predict_seconds for outcome in own
                    ),
                    "gradient_ms": statistics.median(gradients)
                    if gradients
                    else cost.get("gradient_ms"),
                    "peak_mb": cost.get("peak_mb"),
                    "added_mb": cost.get("added_mb"),
                    "level": statistics.mean(levels.values()),
                    "reach_seconds": _median(times),
                    "reached": _reached(times),
                }
            )
    return rows


def equal_quality(
    store: OutcomeStore, data: Sequence[str], systems: Sequence[str], target: str
) -> list[dict[str, Any]]:
    """Compare the time of the first system to the best validation value of each other one with that one's own time.

    Medians over folds and seeds; ``reached`` is the share of trainings in which the first system reaches the value.
    """
    rows = []
    for name in data:
        here = {
            (outcome.system, outcome.fold, outcome.seed): outcome
            for outcome in store.outcomes
            if outcome.data == name and outcome.target == target
        }
        for peer in systems[1:]:
            peer_outcomes = [outcome for (system, _, _), outcome in here.items() if system == peer]
            own = [seconds_until(outcome, outcome.valid) for outcome in peer_outcomes]
            first = [
                seconds_until(here[systems[0], outcome.fold, outcome.seed], outcome.valid)
                for outcome in peer_outcomes
            ]
            rows.append(
                {
                    "data": name,
                    "target": target,
                    "system": peer,
                    "own_seconds": _median(own),
                    "first_seconds": _median(first),
                    "ratio": _median([a / b for a, b in zip(first, own, strict=True)]),
                    "reached": _reached(first),
                }
            )
    return rows


def seconds_until(outcome: Outcome, level: float) -> float:
    """Return the training time until the validation value is at least as good as ``level``; infinite if it never is.

    All trees are assumed to cost the same, including a share of the preparation before the first.
    """
    sign = _sign(outcome.target)
    for stage, value in enumerate(outcome.curve, start=1):
        if sign * value >= sign * level:
            return outcome.fit_seconds * stage / len(outcome.curve)
    return math.inf


def _median(times: Sequence[float]) -> float | None:
    """Return the median, with infinite times for levels that were never reached; None if it is infinite."""
    middle = statistics.median(times)
    return middle if math.isfinite(middle) else None


def _reached(times: Sequence[float]) -> float:
    return sum(map(math.isfinite, times)) / len(times)


def _levels(outcomes: Iterable[Outcome], target: str, reach: float) -> dict[str, float]:
    sign = _sign(target)
    best: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        best.setdefault((outcome.fold, outcome.system), []).append(outcome.valid)
    levels: dict[str, float] = {}
    for (fold, _), values in best.items():
        mean = statistics.mean(values)
        if sign * mean > sign * levels.get(fold, -sign * math.inf):
            levels[fold] = mean
    return {fold: value * reach if sign > 0 else value / reach for fold, value in levels.items()}


def _sign(target: str) -> float:
    return 1.0 if parse_metric(target).higher_is_better else -1.0


def _store_of(outcomes: Iterable[Outcome]) -> OutcomeStore:
    part = OutcomeStore()
    for outcome in outcomes:
        part.add(outcome)
    return part
