"""A sweep over the weights of several goals, with its Pareto front: the price of each goal in terms of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import evaluate_data
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.support import checks
from rankwright.support.checks import ArgumentError
from rankwright.support.tables import Cell, Table, Tabular, columns_of
from rankwright.tuning.result import improvement_sign
from rankwright.tuning.search import validation_parts

_STEPS = 10  # from one goal to another
_STEPS_OF_MANY = 4  # the same for more than two goals
# Parameters of `Ranker` that the sweep sets itself, and the argument to use instead.
_FIXED = {
    "objective": "goals",
    "metric": "metrics",
    "random_state": "random_state",
    "n_jobs": "n_jobs",
    "verbose": "progress",
}


@dataclass(frozen=True)
class GoalPoint:
    """One training of a sweep.

    Parameters
    ----------
    shares
        Weight of each goal; they sum to 1.
    objective
        The objective of the training, as text.
    values
        Mean over the folds of each metric on the validation queries.
    """

    shares: tuple[float, ...]
    objective: str
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class GoalSweep(Tabular):
    """Result of `sweep_goals`; prints as a table.

    Attributes
    ----------
    goals, metrics : tuple of str
        The goals, and a metric for each of them.
    points : tuple of GoalPoint
        The trainings, from the first goal alone to the last one alone.

    Examples
    --------
    >>> values = {0.0: (0.9, 0.1), 0.5: (0.8, 0.7), 1.0: (0.7, 0.6)}
    >>> points = tuple(GoalPoint((1 - share, share), "...", pair) for share, pair in values.items())
    >>> sweep = GoalSweep(("a", "b"), ("ndcg[a]", "ndcg[b]"), points)
    >>> [point.values for point in sweep.front()]
    [(0.9, 0.1), (0.8, 0.7)]
    """

    goals: tuple[str, ...]
    metrics: tuple[str, ...]
    points: tuple[GoalPoint, ...]

    def front(self) -> list[GoalPoint]:
        """Return the points that no other point dominates: the Pareto front, in the order of the sweep."""
        return [point for point in self.points if not self.dominating(point.values)]

    def dominating(self, values: Sequence[float]) -> list[GoalPoint]:
        """Return the points that are at least as good as ``values`` in each metric, and better in one."""
        signs = np.array([improvement_sign(name) for name in self.metrics])
        advantages = [signs * np.subtract(point.values, values) for point in self.points]
        return [
            point
            for point, advantage in zip(self.points, advantages, strict=True)
            if np.all(advantage >= 0) and np.any(advantage > 0)
        ]

    def table(self) -> list[dict[str, Any]]:
        """Return a row per training: shares, metrics, whether it is on the front, and the objective."""
        front = self.front()
        rows = []
        for point in self.points:
            row: dict[str, Any] = {
                f"share {goal}": share for goal, share in zip(self.goals, point.shares, strict=True)
            }
            row |= zip(self.metrics, point.values, strict=True)
            rows.append(row | {"front": point in front, "objective": point.objective})
        return rows

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.table())

    def _table(self) -> Table:
        front = self.front()
        rows: list[list[Cell]] = [
            [
                " : ".join(f"{share:g}" for share in point.shares),
                *point.values,
                "yes" if point in front else "",
                point.objective,
            ]
            for point in self.points
        ]
        note = f"{len(front)} of {len(self.points)} trainings are on the front."
        return Table("", ["shares", *self.metrics, "front", "objective"], rows, note)


def sweep_goals(
    data: RankingData,
    goals: Sequence[str | Objective] | None = None,
    metrics: Sequence[str | Metric] | None = None,
    *,
    valid: RankingData | None = None,
    folds: int | str | None = None,
    steps: int | None = None,
    shares: Sequence[Sequence[float]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[GoalSweep], object] | None = None,
) -> GoalSweep:
    """Train for several goals with different weights, each with the same number of trees, and find the Pareto front.

    The objective of a training is the sum of the goals, each times its share. One training costs as much as another, so
    a sweep of two goals with ten steps costs eleven trainings per fold.

    Parameters
    ----------
    data
        Queries to train on.
    goals
        An objective for each goal: ``["yetiloss", "yetiloss(label=margin)"]``; by default yetiloss for each label.
    metrics
        A metric for each goal; by default ndcg@10 of each label. Objectives optimise the first, by their own labels.
    valid, folds
        As in `rankwright.tune`: queries to validate on, or the number of folds (3).
    steps
        Number of steps from one goal alone to another; 10 for two goals and 4 for more.
    shares
        Instead of ``steps``, the weights themselves: for each training one per goal; they need not sum to 1.
    parameters
        Parameters of the `Ranker`, such as ``n_estimators``.
    random_state, n_jobs
        As in `rankwright.tune`.
    progress
        Called after each training with the result so far.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwright import RankingData, make_web_search
    >>> data = make_web_search(30, n_features=20, mean_length=20)
    >>> labels = {"relevance": data.y, "margin": np.round(4 * np.random.default_rng(0).random(len(data)))}
    >>> data = RankingData(data.X, labels, qid=data.qid)
    >>> sweep = sweep_goals(data, steps=2, folds=2, parameters={"n_estimators": 5}, n_jobs=1)
    >>> [point.shares for point in sweep.points]
    [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    >>> sweep.points[1].objective
    '0.5 yetiloss(label=relevance) + 0.5 yetiloss(label=margin)'
    """
    if goals is None:
        goals = [f"yetiloss(label={name})" for name in data.label_names]
    if metrics is None:
        metrics = [f"ndcg@10[{name}]" for name in data.label_names]
    terms = [parse_objective(goal) for goal in goals]
    targets = [parse_metric(text) for text in metrics]
    if len(terms) < 2 or len(targets) != len(terms):
        raise ValueError(
            f"a sweep needs two goals or more and a metric for each; got {len(terms)} goals and {len(targets)} metrics."
            " Give data with several labels, or the objectives and metrics of the goals."
        )
    parameters = dict(parameters or {})
    for name in parameters:
        if name in _FIXED:
            raise ValueError(f"{name} cannot be set in parameters; use {_FIXED[name]} instead.")
    if parameters.get("early_stopping_rounds") is not None:
        raise ArgumentError(
            "early_stopping_rounds",
            "cannot be used, because a sweep compares equal numbers of trees; leave it out.",
        )
    if shares is None:
        all_shares = _even_shares(len(terms), steps)
    else:
        all_shares = [_normalised(weights, len(terms)) for weights in shares]
    parts = validation_parts(data, valid, folds, random_state)
    sweep = GoalSweep(tuple(map(str, terms)), tuple(map(str, targets)), ())
    for point_shares in all_shares:
        objective = _mixture(terms, point_shares)
        values = [
            _values(objective, targets, part, parameters, random_state, n_jobs) for part in parts
        ]
        point = GoalPoint(point_shares, str(objective), tuple(np.mean(values, axis=0).tolist()))
        sweep = replace(sweep, points=(*sweep.points, point))
        if progress is not None:
            progress(sweep)
    return sweep


def _even_shares(n: int, steps: int | None) -> list[tuple[float, ...]]:
    """Return all shares of n goals in whole steps, from the first goal alone to the last goal alone."""
    if steps is None:
        steps = _STEPS if n == 2 else _STEPS_OF_MANY
    checks.whole("steps", steps, least=1)
    combinations = product(range(steps, -1, -1), repeat=n)
    return [
        tuple(count / steps for count in counts) for counts in combinations if sum(counts) == steps
    ]


def _normalised(weights: Sequence[float], n: int) -> tuple[float, ...]:
    """Return weights as shares that sum to 1."""
    values = np.asarray(weights, dtype=np.float64)
    is_valid = values.shape == (n,) and np.isfinite(values).all() and (values >= 0).all()
    if not is_valid or values.sum() <= 0:
        raise ArgumentError(
            "shares",
            f"must hold {n} non-negative numbers for each training, not all 0; got {weights!r}.",
        )
    return tuple((values / values.sum()).tolist())


def _mixture(terms: Sequence[Objective], shares: Sequence[float]) -> Objective:
    """Return the sum of the goals, each times its share."""
    parts: list[Objective] = []
    for term, share in zip(terms, shares, strict=True):
        if share == 1:
            parts.append(term)
        elif share > 0:
            parts.append(share * term)
    return reduce(add, parts)


def _values(
    objective: Objective,
    metrics: Sequence[Metric],
    part: tuple[RankingData, RankingData],
    parameters: Mapping[str, Any],
    seed: int,
    threads: int | None,
) -> list[float]:
    """Return the metrics of a training on the held-out queries."""
    from rankwright.ranker import Ranker

    train, held_out = part
    ranker = Ranker(
        objective, list(metrics), **parameters, random_state=seed, n_jobs=threads, verbose=0
    ).fit(train)
    if ranker.interrupted_:
        raise KeyboardInterrupt
    result = evaluate_data(ranker.predict(held_out), held_out, metrics, n_jobs=threads)
    return list(result.mean.values())
