"""Settings that the user left to the data; docs/defaults.md has the measurements behind each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.labels import choose_label
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.objectives.bound import BoundObjective
from rankwright.support.reducer import ALONE, Reducer, addable
from rankwright.training.state import total_scores
from rankwright.training.steering import Steering
from rankwright.training.stopping import errors_allowed

if TYPE_CHECKING:
    from rankwright.training.groups import Langevin
    from rankwright.training.plan import Plan, TreeOptions

# Increase it when a choice made here changes: stored outcomes are then computed again.
DEFAULTS_VERSION = 2
# A smaller share of relevant documents counts as few.
_FEW = 0.1
# Weights of 0.03 make the default reg_lambda of 0.3 count as 10 would, and this measured better. If
# few documents are relevant, squared error would mostly fit the other documents. So its weight
# falls with the share of relevant documents.
_AUTO = "0.03 yetiloss(permutations=2, neighbours=3) + {} n^-0.5 queryrmse"
_AUTO_WEIGHT = 0.03
# The objective "auto" for pairs without labels.
AUTO_PAIRS = "ranknet(pairs)"
# The rate at which a steered training starts.
_FIRST_RATE = 0.03
# Halves of fewer queries say too little about each other to steer by.
_ENOUGH_QUERIES = 20
# Temperature of the random weights of queries.
_TEMPERATURE = 0.7
# Shares of the columns and, without random weights of queries, of the rows in a tree.
_COLUMNS = 0.7
_ROWS = 0.7
# With features within the query, the share of columns falls by this power of the given columns'
# share.
_OF_GIVEN = 0.6
# Engines hold gains in 32 bits, and the last tree's gains grow with exp(2 * shrinking).
_MOST_SHRINKING = 30.0


def is_auto(objective: str | Objective) -> bool:
    """Return True if the objective is left to the data."""
    return isinstance(objective, str) and objective.strip() == "auto"


def resolve_objective(
    objective: str | Objective, metric: Metric, relevant_share: float = 1.0
) -> Objective:
    """Read an objective; ``"auto"`` depends on the metric and the share of relevant documents."""
    if is_auto(objective):
        return auto_objective(metric, relevant_share)
    return parse_objective(objective)


def auto_objective(metric: Metric, relevant_share: float) -> Objective:
    """Return the objective for a metric and a share of relevant documents."""
    if metric.selects:
        return parse_objective("stochasticrank")
    # A weight must be above 0.
    weight = _AUTO_WEIGHT * min(1.0, max(relevant_share / _FEW, 1e-4))
    return parse_objective(_AUTO.format(f"{weight:.2g}"))


@dataclass(frozen=True)
class Counts:
    """The counts that settings are chosen by, over all machines."""

    rows: int
    queries: int
    relevant: int
    even_weights: bool

    @classmethod
    def of(cls, train: RankingData, label: str | None, reducer: Reducer) -> Counts:
        """Count rows, queries and relevant documents, and check the weights of each query."""
        relevant = 0
        if train.labels:
            relevant = int(np.count_nonzero(choose_label(train.labels, label) > 0))
        # A single sum over the machines gives all counts. Weights are even if no machine has uneven
        # weights.
        local = (train.n_rows, train.n_queries, relevant, not train.one_weight_per_query)
        rows, queries, relevant, uneven = reducer.sum(np.array(local, dtype=np.float64)).tolist()
        return cls(int(rows), int(queries), int(relevant), uneven == 0)

    @property
    def relevant_share(self) -> float:
        """Share of the documents that are relevant."""
        return self.relevant / self.rows

    @property
    def few_relevant(self) -> bool:
        """Whether few documents are relevant."""
        return self.relevant_share < _FEW

    @property
    def ten_thousands(self) -> float:
        """Rows in units of 10 000, and at least 1: the size that defaults grow with."""
        return max(1.0, self.rows / 10_000)


def for_data(plan: Plan, train: RankingData, reducer: Reducer = ALONE, *, derived: int = 0) -> Plan:
    """Fill in the settings that the data decides.

    These are the objective, the linear start, tree options that are None, the bootstrap, and the learning rate with
    its steering. Full leaf values need the same weight for all rows of a query. Without it they
    become diagonal, or, if the user asked for them, training refuses later.

    Parameters
    ----------
    plan
        The plan as the parameters say.
    train
        Training data of this machine.
    reducer
        Sums over all machines.
    derived
        Number of columns that are features within the query.
    """
    counts = Counts.of(train, plan.target.first.label, reducer)
    # If the user asked for full leaf values, they stay, so that training can explain why they are
    # impossible.
    full_leaves = plan.full_leaves and (plan.full_leaves_required or counts.even_weights)
    # The choices below depend on the objective and on the leaf values.
    plan = replace(plan, objective=_objective(plan, train, counts), full_leaves=full_leaves)
    # A model to add trees to brings the linear start of its trees.
    if plan.start is not None and plan.linear is None:
        # Few trainings have a linear start, and the others load faster without the import.
        from rankwright.training.linear import fit_linear

        plan = replace(plan, linear=fit_linear(plan, train, reducer))
    temperature = _bagging_temperature(plan, counts)
    # Steering compares the leaf systems of two halves of the queries, so it needs full leaf values
    # and enough queries. The noise of Langevin boosting is made for a constant rate.
    steered = (
        plan.learning_rate is None
        and full_leaves
        and plan.langevin is None
        and counts.queries >= _ENOUGH_QUERIES
    )
    rate = plan.learning_rate
    if steered:
        rate = _FIRST_RATE
    elif rate is None:
        rate = _constant_rate(plan, train, counts, reducer)
    if plan.langevin is not None:
        _check_shrinking(plan.langevin, rate, plan.n_trees)
    given_share = 1 - derived / len(train.feature_names)
    return replace(
        plan,
        notice=_notice(plan, counts, rate, steered=steered),
        learning_rate=rate,
        tree_options=_tree_options(plan.tree_options, counts, temperature, given_share),
        bagging_temperature=temperature,
        steering=Steering() if steered else None,
        stopping_errors=errors_allowed(steered=steered),
    )


def _notice(plan: Plan, counts: Counts, rate: float, *, steered: bool) -> str:
    """Say what switched full leaf values or the steered rate off, if the user did not choose that."""
    constant = ""
    if plan.learning_rate is None and not steered:
        constant = f"the learning rate is {rate:.3g} for all trees, not steered"
    if plan.full_leaves:
        # Of both, only the rate can be switched off.
        why = "langevin is for a constant rate"
        if plan.langevin is None:
            why = f"{counts.queries} queries are too few to steer by"
        return f"Note: {constant}, because {why}." if constant else ""
    if plan.parameters["leaf_values"] == "diagonal":
        return f"Note: {constant}, because leaf_values='diagonal'." if constant else ""
    effects = ", and ".join(filter(None, ["leaf values are diagonal, not full", constant]))
    return f"Note: {effects}, because {_why_diagonal(plan, counts)}."


def _why_diagonal(plan: Plan, counts: Counts) -> str:
    """Give the first reason why leaf values are not solved together, with a remedy if there is one."""
    curved = plan.objective.capabilities.full_curvature
    if not plan.auto_objective and not curved:
        return f"the objective {plan.objective} has no curvature between documents"
    if not plan.auto_objective:
        return "the objective is not 'auto'; leaf_values='full' solves them together"
    if not curved:
        return f"the objective for {plan.target} is {plan.objective}, without curvature between documents"
    if plan.tree_options.reg_lambda == 0:
        return "reg_lambda=0, and full leaf values need it above 0"
    if not counts.even_weights:
        return "weights differ within a query; give each query one weight"
    return f"engine_params ({', '.join(plan.engine_params)}) need the engine's own leaf values"


def _objective(plan: Plan, train: RankingData, counts: Counts) -> Objective:
    objective = plan.objective
    if plan.auto_objective and not train.labels:
        objective = parse_objective(AUTO_PAIRS)
    elif plan.auto_objective:
        objective = auto_objective(plan.target, counts.relevant_share)
    # Pairs without a term that learns from them would be ignored silently.
    if train.pairs is not None and not any(term.from_pairs for _, _, term in objective.terms()):
        name = "auto" if plan.auto_objective else objective
        raise ValueError(
            f"there are pairs, and the objective {name} does not learn from them; add a term that "
            "does, as in 'yetiloss + 0.1 ranknet(pairs)'."
        )
    return objective


def _bagging_temperature(plan: Plan, counts: Counts) -> float:
    if plan.bagging_temperature is not None:
        return plan.bagging_temperature
    if plan.full_leaves and plan.tree_options.subsample is None and not counts.few_relevant:
        return _TEMPERATURE
    return 0.0


def _tree_options(
    options: TreeOptions, counts: Counts, temperature: float, given_share: float
) -> TreeOptions:
    # More rows support more leaves and finer bins: both grow with the square root of the rows.
    root = counts.ten_thousands**0.5
    if options.num_leaves is None:
        options = replace(options, num_leaves=min(64, round(16 * root)))
    if options.max_bin is None:
        options = replace(options, max_bin=min(255, round(63 * root)))
    # Random weights of queries already vary the trees, so rows are drawn only without them.
    if options.subsample is None:
        options = replace(options, subsample=1.0 if temperature > 0 else _ROWS)
    if options.colsample is None:
        options = replace(options, colsample=_COLUMNS * given_share**_OF_GIVEN)
    return options


def _constant_rate(plan: Plan, train: RankingData, counts: Counts, reducer: Reducer) -> float:
    rate = float(min(0.1, 0.06 * counts.ten_thousands**0.25))
    if not plan.objective.capabilities.first_order:
        return rate
    # Steps are as long as the gradient here, so the rate is divided by its size at the start.
    bound = BoundObjective(
        plan.objective,
        train.labels,
        train.queries.grouped(),
        plan.target,
        seed=plan.seed,
        pairs=train.pairs,
        inverse=plan.inverse_propensities(train),
    )
    gradient, _ = bound(total_scores(plan.base_scores(train), 1.0, np.zeros(train.n_rows)))
    squares = addable(np.square(gradient), counts.rows, reducer).sum()
    size = float(np.sqrt(reducer.sum(np.array([squares]))[0] / counts.rows))
    if size > 0:
        rate = 0.03 * rate / size
    return rate


def _check_shrinking(langevin: Langevin, rate: float, n_trees: int) -> None:
    """Raise ValueError if shrinking would end the first tree, or leave the last tree no gain."""
    share = langevin.shrink_rate * rate
    if share >= 1:
        raise ValueError(f"shrink_rate * learning_rate must be below 1; got {share:g}.")
    # Each tree multiplies all earlier trees by 1 - share, which is exp(-each).
    each = -math.log1p(-share)
    if n_trees * each > _MOST_SHRINKING:
        raise ValueError(
            f"shrink_rate={langevin.shrink_rate:g} at a learning rate of {rate:g} shrinks the "
            f"first of {n_trees} trees by exp(-{n_trees * each:.3g}), and "
            f"exp(-{_MOST_SHRINKING:g}) is the most that an engine's numbers of 32 bits allow; use "
            f"a smaller shrink_rate or at most {int(_MOST_SHRINKING / each)} trees."
        )
