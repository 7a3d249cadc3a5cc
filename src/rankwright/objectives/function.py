"""An objective from a function of labels, scores and boundaries, and a check of gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries
from rankwright.objectives.base import Objective
from rankwright.objectives.gradient import Floats, Gradient, Problem


@dataclass(frozen=True)
class FunctionObjective(Objective):
    """An objective that calls ``function(labels, scores, boundaries)`` for gradient and curvature.

    A callable ``objective=`` becomes this class; create it for sums.

    Parameters
    ----------
    function
        Returns two arrays with a number per row: gradient of the loss to minimise, and curvature from
        0. The rows of a query are together: query q has the rows ``boundaries[q]:boundaries[q + 1]``.

    Examples
    --------
    >>> import rankwright as rw
    >>> def squared(labels, scores, boundaries):
    ...     return scores - labels, np.ones(len(labels))
    >>> rw.gradients(squared, scores=[0, 0], labels=[1, 0], group=[2])[0].tolist()
    [-1.0, 0.0]
    >>> print(rw.objectives.FunctionObjective(squared) + 0.5 * rw.objectives.QueryRMSE())
    function-squared + 0.5 queryrmse
    """

    function: Callable[..., Any] = field(kw_only=False)

    @property
    def source(self) -> str:
        """Module and name of the function."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{self.function.__module__}.{name}"

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the function to labels."""
        return _Called(problem, self)

    def __str__(self) -> str:
        # The text names no known objective, because a saved model cannot hold a function.
        name = re.sub(r"\W+", "-", self.source.rpartition(".")[2]).strip("-")
        return f"function-{name}"


class _Called(Gradient):
    """The function is called once for all queries, because it need not be safe in threads."""

    def __init__(self, problem: Problem, objective: FunctionObjective) -> None:
        super().__init__(problem)
        self._objective = objective
        self._lock = Lock()
        self._values: tuple[Floats, Floats] | None = None
        self._waiting = 0  # queries that still have to take their values

    def add(
        self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats
    ) -> None:
        """Add the values of the queries [q0, q1)."""
        with self._lock:
            if self._values is None:
                self._values = self._call(scores)
                self._waiting = self.problem.queries.n_queries
            values = self._values
            self._waiting -= q1 - q0
            if self._waiting == 0:
                self._values = None
        rows = slice(int(self.bounds[q0]), int(self.bounds[q1]))
        grad[rows] += values[0][rows]
        hess[rows] += values[1][rows]

    def _call(self, scores: Floats) -> tuple[Floats, Floats]:
        # A function that changes its arguments must not change the training.
        result = self._objective.function(
            self.problem.labels.copy(), scores.copy(), self.bounds.copy()
        )
        owner = f"the function {self._objective.source}"
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ValueError(
                f"{owner} must return gradient and curvature, two arrays; got a "
                f"{type(result).__name__}."
            )
        grad, hess = (np.asarray(values, np.float64) for values in result)
        for name, values in (("gradient", grad), ("curvature", hess)):
            if values.shape != scores.shape:
                raise ValueError(
                    f"{owner} returned a {name} of shape {values.shape} for {len(scores)} rows; "
                    "return one number per row."
                )
            bad = ~np.isfinite(values)
            if name == "curvature":
                bad |= values < 0
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise ValueError(
                    f"{owner} returned the {name} {values[row]} at row {row}, of "
                    f"{self.problem.queries.where(row)}; gradients must be finite, and curvature "
                    "must also not be negative (return ones if there is none)."
                )
        return grad, hess


class GradientCheck(NamedTuple):
    """Largest differences between an objective and finite differences, relative to the largest value.

    Parameters
    ----------
    gradient
        Of the gradient and the slope of the loss; None without a loss.
    curvature
        Of the curvature and the slope of the gradient, which may be wanted: many objectives use an
        approximation.
    symmetry
        Of the slope of gradient i along score j, and the reverse. They are equal for the gradient of
        any loss, so a large value is most likely a mistake.
    between_queries
        Largest slope of a gradient along a score of another query. It should be 0.
    """

    gradient: float | None
    curvature: float
    symmetry: float
    between_queries: float


def check_gradients(
    objective: str | Objective | Callable[..., Any],
    labels: ArrayLike | None = None,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    loss: Callable[[Floats, Floats, NDArray[np.int64]], float] | None = None,
    scores: ArrayLike | None = None,
    metric: Any = "ndcg",
    step: float = 1e-5,
    random_state: int = 0,
) -> GradientCheck:
    """Compare gradient and curvature of an objective with finite differences.

    Parameters
    ----------
    objective
        An objective, its text, or a function ``(labels, scores, boundaries)``.
    labels, qid, group
        A few small queries, because each row takes two gradients; by default four of five documents.
    loss
        The loss ``loss(labels, scores, boundaries)`` of all queries, for rows sorted by query.
    scores
        Where to compare; by default drawn from a normal distribution.
    metric
        As for `bind`.
    step
        Distance of the differences.
    random_state
        Seed of the scores.

    Examples
    --------
    >>> from rankwright import check_gradients
    >>> def squared(labels, scores, boundaries):
    ...     return scores - labels, np.ones(len(labels))
    >>> def loss(labels, scores, boundaries):
    ...     return np.sum((scores - labels) ** 2) / 2
    >>> check = check_gradients(squared, loss=loss)
    >>> check.gradient < 1e-6, check.curvature < 1e-6
    (True, True)
    """
    from rankwright.objectives import bind

    if labels is None:
        labels, group = np.resize([0, 3, 1, 0, 2, 1, 4], 20), [5] * 4
    queries = Queries.of(np.size(labels), qid, group)
    z = np.random.default_rng(random_state).normal(size=queries.n_rows)
    if scores is not None:
        z = queries.group(np.asarray(scores, np.float64))
    y = queries.group(np.asarray(labels, np.float64))
    bound = bind(objective, y, group=queries.sizes, metric=metric, n_jobs=1)
    grad, hess = bound(z)
    shifts = step * np.eye(len(z))
    slopes = np.array([bound(z + shift)[0] - bound(z - shift)[0] for shift in shifts]) / (2 * step)
    other = queries.query_of_row[:, None] != queries.query_of_row
    of_loss = None
    if loss is not None:
        bounds = queries.boundaries
        ends = [loss(y, z + shift, bounds) - loss(y, z - shift, bounds) for shift in shifts]
        of_loss = _relative(grad - np.array(ends) / (2 * step), grad)
    return GradientCheck(
        of_loss,
        _relative(hess - np.diag(slopes), slopes),
        _relative(slopes - slopes.T, slopes),
        float(np.abs(slopes[other]).max(initial=0.0)),
    )


def _relative(difference: Floats, values: Floats) -> float:
    """Return the largest difference relative to the largest value."""
    return float(np.abs(difference).max() / max(np.abs(values).max(), 1e-12))
