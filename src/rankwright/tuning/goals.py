"""A sweep over the weights of several goals, and its Pareto front: what more of one goal costs of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.evaluation.per_query import evaluate
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.support.tables import Cell, Table, Tabular, columns_of
from rankwright.tuning.search import validation_parts

_STEPS, _STEPS_OF_MANY = 10, 4  # from one goal to another, for two goals and for more
_FIXED = {
    "objective": "goals",
    "metric": "metrics",
    "random_state": "seed",
    "n_jobs": "threads",
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
        signs = np.array(
            [1 if parse_metric(name).higher_is_better else -1 for name in self.metrics]
        )
        wanted = signs * np.asarray(values, dtype=np.float64)
        own = [signs * np.array(point.values) for point in self.points]
        return [
            point
            for point, v in zip(self.points, own, strict=True)
            if np.all(v >= wanted) and np.any(v > wanted)
        ]

    def table(self) -> list[dict[str, Any]]:
        """Return a row per training: shares, metrics, whether it is on the front, and the objective."""
        front = self.front()
        return [
            dict(zip((f"share {goal}" for goal in self.goals), point.shares, strict=True))
            | dict(zip(self.metrics, point.values, strict=True))
            | {"front": point in front, "objective": point.objective}
            for point in self.points
        ]

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
    folds: int | None = None,
    steps: int | None = None,
    shares: Sequence[Sequence[float]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    threads: int | None = None,
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
    seed, threads
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
    >>> sweep = sweep_goals(data, steps=2, folds=2, parameters={"n_estimators": 5}, threads=1)
    >>> [point.shares for point in sweep.points]
    [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    >>> sweep.points[1].objective
    '0.5 yetiloss(label=relevance) + 0.5 yetiloss(label=margin)'
    """
    if goals is None:
        goals = [f"yetiloss(label={name})" for name in data.label_names]
    if metrics is None:
        metrics = [f"ndcg@10[{name}]" for name in data.label_names]
    terms, targets = (
        [parse_objective(goal) for goal in goals],
        [parse_metric(text) for text in metrics],
    )
    if len(terms) < 2 or len(targets) != len(terms):
        raise ValueError(
            f"a sweep needs two goals or more and a metric for each; got {len(terms)} goals and {len(targets)} metrics."
            " Give data with several labels, or the objectives and metrics of the goals."
        )
    chosen = dict(parameters or {})
    for name in chosen:
        if name in _FIXED:
            raise ValueError(f"{name} cannot be set in parameters; use {_FIXED[name]} instead.")
    if chosen.get("early_stopping_rounds") is not None:
        raise ValueError(
            "a sweep compares equal numbers of trees; leave out early_stopping_rounds."
        )
    weights = (
        _all_shares(len(terms), steps)
        if shares is None
        else [_shares(one, len(terms)) for one in shares]
    )
    parts = validation_parts(data, valid, folds, seed)
    sweep = GoalSweep(tuple(map(str, terms)), tuple(map(str, targets)), ())
    for point_shares in weights:
        objective = _mixture(terms, point_shares)
        values = [_values(objective, targets, part, chosen, seed, threads) for part in parts]
        point = GoalPoint(point_shares, str(objective), tuple(np.mean(values, axis=0).tolist()))
        sweep = GoalSweep(sweep.goals, sweep.metrics, (*sweep.points, point))
        if progress is not None:
            progress(sweep)
    return sweep


def _all_shares(n: int, steps: int | None) -> list[tuple[float, ...]]:
    """All shares of n goals in whole steps, from the first goal alone to the last one alone."""
    if steps is None:
        steps = _STEPS if n == 2 else _STEPS_OF_MANY
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number from 1; got {steps!r}.")
    counts = [one for one in product(range(steps, -1, -1), repeat=n) if sum(one) == steps]
    return [tuple(count / steps for count in one) for one in counts]


def _shares(weights: Sequence[float], n: int) -> tuple[float, ...]:
    values = np.asarray(weights, dtype=np.float64)
    if (
        values.shape != (n,)
        or not np.all(np.isfinite(values))
        or np.any(values < 0)
        or values.sum() <= 0
    ):
        raise ValueError(
            f"shares must hold {n} non-negative numbers for each training, not all 0; got {weights!r}."
        )
    return tuple((values / values.sum()).tolist())


def _mixture(terms: Sequence[Objective], shares: Sequence[float]) -> Objective:
    parts = [
        term if share == 1 else share * term
        for term, share in zip(terms, shares, strict=True)
        if share > 0
    ]
    return reduce(add, parts)


def _values(
    objective: Objective,
    metrics: Sequence[Metric],
    part: tuple[RankingData, RankingData],
    parameters: Mapping[str, Any],
    seed: int,
    threads: int | None,
) -> list[float]:
    from rankwright.ranker import Ranker

    train, held_out = part
    ranker = Ranker(
        objective, list(metrics), **parameters, random_state=seed, n_jobs=threads, verbose=0
    ).fit(train)
    if ranker.interrupted_:
        raise KeyboardInterrupt
    scores, by_name = ranker.predict(held_out), held_out.labels
    result = evaluate(
        scores,
        by_name,
        group=held_out.group,
        metrics=metrics,
        weights=held_out.weights,
        threads=threads,
    )
    return list(result.mean.values())
