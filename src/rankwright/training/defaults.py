"""What is chosen where it was left open, by the data; docs/defaults.md has the measurements behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.objectives.base import BoundObjective
from rankwright.training.boosting import Settings, Steering

DEFAULTS_VERSION = 1  # increase it when a choice made here changes: stored outcomes are then computed again
_FEW = 0.1  # of the documents: a smaller share of relevant ones is few
# Weights of 0.03 make the default reg_lambda of 0.3 count as 10 would, which measured better. Where few documents are
# relevant, squared error would mostly fit the others, so its weight falls with their share.
_AUTO = "0.03 yetiloss(permutations=2, neighbours=3) + {} n^-0.5 queryrmse"
_AUTO_WEIGHT = 0.03
_FIRST_RATE = 0.03  # of a training whose learning rate is steered
_ENOUGH_QUERIES = 20  # to steer by: halves of fewer say nothing about each other
_TEMPERATURE = 0.7  # of the queries' random weights
_ROWS = 0.7  # share of the rows in a tree, where queries have no random weights


def is_auto(objective: str | Objective) -> bool:
    """Tell whether the objective is left open."""
    return isinstance(objective, str) and objective.strip() == "auto"


def resolve_objective(
    objective: str | Objective, metric: Metric, labels: NDArray[np.float64] | None = None
) -> Objective:
    """Read an objective; ``"auto"`` is the one for the metric and, where labels are known, their share above 0."""
    if is_auto(objective):
        relevant = 1.0 if labels is None else float(np.mean(labels > 0))
        weight = _AUTO_WEIGHT * min(1.0, max(relevant / _FEW, 1e-4))  # a weight must be above 0
        objective = "stochasticrank" if metric.selects else _AUTO.format(f"{weight:.2g}")
    return parse_objective(objective)


def choose_settings(
    settings: Settings,
    train: RankingData,
    objective: Objective,
    target: Metric,
    *,
    temperature: float | None,
    always_full: bool,
) -> Settings:
    """Fill in the tree options that are None, the temperature, and how the learning rate is steered.

    Full leaf values need the same weight for all rows of a query; without it they become diagonal, or, if the user
    asked for them (``always_full``), training refuses later.
    """
    options = settings.tree_options
    rate, leaves, bins, rows = (options[name] for name in ("learning_rate", "num_leaves", "max_bin", "subsample"))
    ratio = max(1.0, train.n_rows / 10_000)
    full = settings.full_leaves and (always_full or train.one_weight_per_query)
    if leaves is None:
        leaves = min(64, round(16 * ratio**0.5))
    if bins is None:
        bins = min(255, round(63 * ratio**0.5))
    if temperature is None:
        weighted = full and rows is None and np.mean(train.y > 0) >= _FEW
        temperature = _TEMPERATURE if weighted else 0.0
    if rows is None:
        rows = 1.0 if temperature > 0 else _ROWS
    langevin, steering = settings.langevin, None
    if rate is None and full and langevin is None and train.n_queries >= _ENOUGH_QUERIES:
        rate, steering = _FIRST_RATE, Steering()
    elif rate is None:
        rate = min(0.1, 0.06 * ratio**0.25)
        if objective.first_order:
            bound = BoundObjective(objective, train.y, train.queries.grouped(), target, seed=settings.seed)
            size = float(np.sqrt(np.mean(np.square(bound(np.zeros(train.n_rows))[0]))))
            rate = 0.03 * rate / size if size > 0 else rate
    if langevin is not None and langevin.shrink_rate * rate >= 1:
        raise ValueError(f"shrink_rate * learning_rate must be below 1; got {langevin.shrink_rate * rate:g}.")
    chosen = {"learning_rate": rate, "num_leaves": leaves, "max_bin": bins, "subsample": rows}
    return replace(
        settings,
        tree_options={**options, **chosen},
        full_leaves=full,
        steering=steering,
        bagging_temperature=float(temperature),
    )
