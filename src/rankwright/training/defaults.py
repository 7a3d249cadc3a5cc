"""Settings that the user left to the data; docs/defaults.md has the measurements behind each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.labels import choose_label
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.objectives.bound import BoundObjective
from rankwright.support.reducer import ALONE, Reducer, addable
from rankwright.training.from_clicks import document_weights
from rankwright.training.settings import Langevin, Plan
from rankwright.training.steering import Steering
from rankwright.training.stopping import errors_allowed

DEFAULTS_VERSION = (
    2  # increase it when a choice made here changes: stored outcomes are then computed again
)
_FEW = 0.1  # of the documents: a smaller share of relevant ones is few
# Weights of 0.03 make the default reg_lambda of 0.3 count as 10 would, which measured better. Where few documents are
# relevant, squared error would mostly fit the others, so its weight falls with their share.
_AUTO = "0.03 yetiloss(permutations=2, neighbours=3) + {} n^-0.5 queryrmse"
AUTO_PAIRS = "ranknet(pairs)"  # where there are pairs and no labels
_AUTO_WEIGHT = 0.03
_FIRST_RATE = 0.03  # of a training whose learning rate is steered
_ENOUGH_QUERIES = 20  # to steer by: halves of fewer say nothing about each other
_TEMPERATURE = 0.7  # of the queries' random weights
_COLUMNS = 0.7  # share of the columns in a tree
_OF_GIVEN = (
    0.6  # power of the share of given columns, by which it falls with features within the query
)
_ROWS = 0.7  # share of the rows in a tree, where queries have no random weights
_MOST_SHRINKING = (
    30.0  # engines hold gains in 32 bits, and those of the last tree grow with exp(2 * shrinking)
)


def is_auto(objective: str | Objective) -> bool:
    """Tell whether the objective is left to the data."""
    return isinstance(objective, str) and objective.strip() == "auto"


def resolve_objective(
    objective: str | Objective, metric: Metric, relevant_share: float = 1.0
) -> Objective:
    """Read an objective; ``"auto"`` is the one for the metric and the share of relevant documents."""
    if is_auto(objective):
        weight = _AUTO_WEIGHT * min(
            1.0, max(relevant_share / _FEW, 1e-4)
        )  # a weight must be above 0
        objective = "stochasticrank" if metric.selects else _AUTO.format(f"{weight:.2g}")
    return parse_objective(objective)


@dataclass(frozen=True)
class Counts:
    """What settings are chosen by, over all machines."""

    rows: int
    queries: int
    relevant: int
    even_weights: bool

    @classmethod
    def of(cls, train: RankingData, label: str | None, reducer: Reducer) -> Counts:
        """Count rows, queries and documents relevant by a label; see whether weights are the same within each query."""
        relevant = np.count_nonzero(choose_label(train.labels, label) > 0) if train.labels else 0
        local = (train.n_rows, train.n_queries, relevant, not train.one_weight_per_query)
        rows, queries, relevant, uneven = reducer.sum(np.array(local, dtype=np.float64)).tolist()
        return cls(int(rows), int(queries), int(relevant), uneven == 0)

    @property
    def relevant_share(self) -> float:
        """Share of the documents that are relevant."""
        return self.relevant / self.rows


def for_data(plan: Plan, train: RankingData, reducer: Reducer = ALONE, *, derived: int = 0) -> Plan:
    """Fill in what the data decides: the objective, tree options that are None, the bootstrap, and the steering.

    ``derived`` of the columns are features within the query. Full leaf values need the same weight for all rows of a
    query; without it they become diagonal, or, if the user asked for them, training refuses later.
    """
    settings, counts = plan.settings, Counts.of(train, plan.target.first.label, reducer)
    objective = resolve_objective(plan.parameters["objective"], plan.target, counts.relevant_share)
    if is_auto(plan.parameters["objective"]) and not train.labels:
        objective = parse_objective(AUTO_PAIRS)
    if train.pairs is not None and not any(term.from_pairs for _, _, term in objective.terms()):
        raise ValueError(
            f"there are pairs, and the objective {plan.parameters['objective']} does not learn from them; add a term "
            "that does, as in 'yetiloss + 0.1 ranknet(pairs)'."
        )
    options = settings.tree_options
    rate, leaves, bins, rows = (
        options[name] for name in ("learning_rate", "num_leaves", "max_bin", "subsample")
    )
    columns = options["colsample"]
    temperature = plan.parameters["bagging_temperature"]
    ratio = max(1.0, counts.rows / 10_000)
    full = settings.full_leaves and (
        plan.parameters["leaf_values"] == "full" or counts.even_weights
    )
    if leaves is None:
        leaves = min(64, round(16 * ratio**0.5))
    if bins is None:
        bins = min(255, round(63 * ratio**0.5))
    if temperature is None:
        temperature = (
            _TEMPERATURE if full and rows is None and counts.relevant_share >= _FEW else 0.0
        )
    if rows is None:
        rows = 1.0 if temperature > 0 else _ROWS
    if columns is None:
        columns = _COLUMNS * (1 - derived / len(train.feature_names)) ** _OF_GIVEN
    langevin, steering = settings.langevin, None
    if rate is None and full and langevin is None and counts.queries >= _ENOUGH_QUERIES:
        rate, steering = _FIRST_RATE, Steering()
    elif rate is None:
        rate = min(0.1, 0.06 * ratio**0.25)
        if objective.first_order:
            inverse, queries = document_weights(settings.propensity, train), train.queries.grouped()
            shared: dict[str, Any] = {
                "seed": settings.seed,
                "pairs": train.pairs,
                "inverse": inverse,
            }
            bound = BoundObjective(objective, train.labels, queries, plan.target, **shared)
            squares = addable(
                np.square(bound(np.zeros(train.n_rows))[0]), counts.rows, reducer
            ).sum()
            size = float(np.sqrt(reducer.sum(np.array([squares]))[0] / counts.rows))
            rate = 0.03 * rate / size if size > 0 else rate
    if langevin is not None:
        _check_shrinking(langevin, rate, settings.n_trees)
    chosen = {
        "learning_rate": rate,
        "num_leaves": leaves,
        "max_bin": bins,
        "subsample": rows,
        "colsample": columns,
    }
    settings = replace(
        settings,
        tree_options={**options, **chosen},
        full_leaves=full,
        steering=steering,
        stopping_errors=errors_allowed(steered=steering is not None),
        bagging_temperature=float(temperature),
    )
    return plan._replace(objective=objective, settings=settings)


def _check_shrinking(langevin: Langevin, rate: float, n_trees: int) -> None:
    """Raise ValueError if the first tree would be shrunk away, or so far that an engine could not grow the last one."""
    share = langevin.shrink_rate * rate
    if share >= 1:
        raise ValueError(f"shrink_rate * learning_rate must be below 1; got {share:g}.")
    each = -math.log1p(-share)
    if n_trees * each > _MOST_SHRINKING:
        raise ValueError(
            f"shrink_rate={langevin.shrink_rate:g} at a learning rate of {rate:g} shrinks the first of {n_trees} trees "
            f"by exp(-{n_trees * each:.3g}), and exp(-{_MOST_SHRINKING:g}) is the most that an engine's numbers of 32 "
            f"bits allow; use a smaller shrink_rate or at most {int(_MOST_SHRINKING / each)} trees."
        )
