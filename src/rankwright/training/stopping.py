"""Early stopping that keeps the noise of the validation queries in mind.

The best of 300 values of a noisy curve is the luckiest value, often after few trees. So two models
are compared query by query: with the difference d of the best tree's value and tree t's value in
each query, the mean of d is uncertain by its standard error

    se = sqrt(sum w^2 (d - mean d)^2) / sum w * sqrt(n / (n - 1)),        w the weights of n queries.

The rule ``"within_error"`` ends with the last tree whose mean of d is at most a few standard errors
(`errors_allowed`). It keeps trees that cannot be told apart from the best, because more trees
measured better if there is no evidence against them (docs/defaults.md). The rule ``"best"`` ends
with the best tree.

On a flat curve a later tree is nearly always within the error, so patience cannot count from the
tree that is kept. With the rule ``"within_error"`` it counts from the last tree at which the mean
over 50 trees was the best so far (lab/records/stopping.md), and with ``"best"`` from the best tree.

Only the best tree's values have to be remembered: a new best tree is the last within its own
error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwright.support.reducer import ALONE, Reducer, addable

Floats = NDArray[np.float64]

RULES = ("within_error", "best")
# Trees that the curve is averaged over to see an improvement, by rule.
_WINDOWS = {"within_error": 50, "best": 1}


def errors_allowed(*, steered: bool) -> float:
    """Return the standard errors that a tree may be below the best and still count as equal to it.

    A steered learning rate slows down by itself when queries disagree. Later trees then do little
    harm, so it takes more to leave them out. With a constant rate they overfit.
    """
    return 1.5 if steered else 1.0


class Improvement:
    """Follows the mean of a curve over its last iterations.

    Parameters
    ----------
    window
        Number of iterations that the mean is over.
    higher_is_better
        Whether higher values are better.

    Examples
    --------
    >>> smoothed = Improvement(2).after([0.5, 0.7, 0.6, 0.6])
    >>> smoothed.iteration, smoothed.waited
    (3, 1)
    """

    def __init__(self, window: int, *, higher_is_better: bool = True) -> None:
        self._window = window
        # Sums of fractions are exact, so that a flat curve does not improve by rounding.
        self._recent: deque[Fraction] = deque()
        self._sum = Fraction(0)
        self._highest: Fraction | None = None
        self._sign = 1 if higher_is_better else -1
        self.iteration = 0  # with the best mean so far
        self.waited = 0  # iterations since then

    def see(self, value: float) -> None:
        """Take the value after an iteration."""
        self._recent.append(self._sign * Fraction(value))
        self._sum += self._recent[-1]
        if len(self._recent) > self._window:
            self._sum -= self._recent.popleft()
        self.waited += 1
        mean = self._sum / len(self._recent)
        if self._highest is None or mean > self._highest:
            self._highest = mean
            self.iteration += self.waited
            self.waited = 0

    def after(self, curve: Iterable[float], patience: int | None = None) -> Self:
        """Take the values of a curve, up to so many iterations without an improvement."""
        for value in curve:
            self.see(value)
            if patience is not None and self.waited >= patience:
                break
        return self


def improvement_for(rule: str, *, higher_is_better: bool) -> Improvement:
    """Return the improvement that patience counts from under a rule."""
    return Improvement(_WINDOWS[rule], higher_is_better=higher_is_better)


class Kept(NamedTuple):
    """The iteration to keep the trees up to, and the error of this iteration's difference to the best."""

    iteration: int
    error: float


class Watch:
    """Follows the values of the queries of an evaluation set from tree to tree.

    Parameters
    ----------
    rule
        One of `RULES`.
    higher_is_better
        Whether higher values of the metric are better.
    weights
        Weights of the queries, or None.
    errors
        Standard errors that a tree may be below the best.
    patience
        Iterations without an improvement after which training ends; None for no end.
    reducer
        Sums over all machines, each with some of the queries.

    Examples
    --------
    The second tree is best. The third differs by 0.05 ± 0.05, the fourth by 0.2 ± 0:

    >>> watch = Watch("within_error")
    >>> values = [[0.5, 0.5], [0.6, 0.8], [0.6, 0.7], [0.4, 0.6]]
    >>> [watch.see(number, np.array(each), np.mean(each)).iteration for number, each in enumerate(values, start=1)]
    [1, 2, 3, 3]
    """

    def __init__(
        self,
        rule: str,
        *,
        higher_is_better: bool = True,
        weights: Floats | None = None,
        errors: float = 1.0,
        patience: int | None = None,
        reducer: Reducer = ALONE,
    ) -> None:
        self._rule = rule
        self._errors = errors
        self._sign = 1.0 if higher_is_better else -1.0
        self._weights = weights
        self._reducer = reducer
        self._best: Floats | None = None
        self._highest = -math.inf
        self._kept = 0
        self._patience = patience
        self._improvement = improvement_for(rule, higher_is_better=higher_is_better)

    @property
    def finished(self) -> bool:
        """Whether the iterations without an improvement are as many as the patience."""
        return self._patience is not None and self._improvement.waited >= self._patience

    def see(self, iteration: int, values: Floats, mean: float) -> Kept:
        """Take the value of each query after an iteration, and their mean.

        Values of queries that do not count are NaN. The mean decides which tree is best, as in
        everything else that reads the curve. The mean of the differences may say otherwise in its
        last digit when two trees are level.
        """
        better = self._best is None or self._sign * mean > self._highest
        # The best tree does not differ from itself.
        difference = error = 0.0
        if better:
            self._best, self._highest = values, self._sign * mean
        else:
            difference, error = self._compared(values)
        if better or (self._rule == "within_error" and difference <= self._errors * error):
            self._kept = iteration
        self._improvement.see(mean)
        return Kept(self._kept, error)

    def resume(self, best: Floats, curve: Sequence[float], kept: int) -> None:
        """Continue after iterations with these means, the best one's values, and the kept iteration."""
        self._improvement.after(curve)
        self._highest = max(self._sign * mean for mean in curve)
        self._best, self._kept = best, kept

    def _compared(self, values: Floats) -> tuple[float, float]:
        """Return by how much the best tree is better, and the standard error of the difference."""
        assert self._best is not None
        d = self._sign * (self._best - values)
        w = self._weights
        if w is None:
            w = np.ones(len(d))
        # Queries without a value or a weight do not count.
        counted = ~np.isnan(d) & (w > 0)
        d, w = d[counted], w[counted]
        n = int(self._reducer.sum(np.array([float(len(d))]))[0])
        # Machines can add these sums, and the standard error follows from the totals.
        terms = (w, w * d, w * w, w * w * d, w * w * d * d)
        local = [addable(term, n, self._reducer).sum() for term in terms]
        weight, wd, w2, w2d, w2d2 = self._reducer.sum(np.array(local)).tolist()
        mean = wd / weight
        # Rounding can make the sum of squares negative if all differences are alike.
        squares = max(0.0, w2d2 - 2 * mean * w2d + mean * mean * w2)
        return mean, math.sqrt(squares * n / max(n - 1, 1)) / weight


def describe_stopping(
    curve: Any,
    errors: Sequence[float],
    kept: int,
    *,
    rule: str = "within_error",
    allowed: float = 1.0,
    patience: int | None = None,
    higher_is_better: bool = True,
) -> dict[str, Any]:
    """Describe early stopping for the manifest: the rule, and how flat the curve is.

    ``difference`` is the loss of the validation metric from its best value to the tree that the
    model ends with, and ``error`` its standard error over queries. ``last_within_error`` is the
    last iteration that is within ``standard_errors`` of the best, whatever the rule. The rule
    ``"best"`` would have kept ``kept_by_best``.

    Parameters
    ----------
    curve, errors
        Value after each iteration, and the standard error of its difference from the best value so
        far.
    kept
        The iteration that the model ends with, from 1.
    rule
        One of `RULES`.
    allowed
        Standard errors that a tree may be below the best.
    patience
        Iterations without an improvement after which training ends.
    higher_is_better
        Whether higher values are better.
    """
    best = Improvement(1, higher_is_better=higher_is_better).after(curve).iteration
    by_best = Improvement(1, higher_is_better=higher_is_better).after(curve, patience).iteration

    def is_level(iteration: int) -> bool:
        # The kept iteration is always level, whatever the rounding of its difference.
        difference = abs(curve[best - 1] - curve[iteration - 1])
        return iteration == kept or difference <= allowed * errors[iteration - 1]

    return {
        "rule": rule,
        "best_iteration": best,
        "kept_iteration": kept,
        "kept_by_best": by_best,
        "difference": float(abs(curve[best - 1] - curve[kept - 1])),
        "error": float(errors[kept - 1]),
        "standard_errors": allowed,
        "last_within_error": max(filter(is_level, range(best, len(curve) + 1))),
    }


def read_stopping(values: Any) -> dict[str, Any] | None:
    """Check the manifest's entry about early stopping; raise ValueError if it is damaged."""
    if values is None:
        return None
    if not isinstance(values, dict) or not _is_description(values):
        raise ValueError("the manifest's entry about early stopping is not one; it was damaged.")
    return values


def _is_description(values: dict[str, Any]) -> bool:
    iterations = ("best_iteration", "kept_iteration", "kept_by_best", "last_within_error")
    numbers = ("difference", "error", "standard_errors")
    return (
        values.get("rule") in RULES
        and all(type(values.get(name)) is int and values[name] >= 1 for name in iterations)
        and all(isinstance(values.get(name), int | float) for name in numbers)
    )
