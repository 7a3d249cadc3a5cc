"""Early stopping that keeps the noise of the validation queries in mind.

The best of 300 values of a noisy curve is the luckiest value, often after few trees. So two models
are compared query by query: with the difference d of the best tree's value and tree t's value in
each query, the mean of d is uncertain by its standard error

    se = sqrt(sum w^2 (d - mean d)^2) / sum w * sqrt(n / (n - 1)),        w the weights of n queries.

The rule ``"within_error"`` ends with the last tree whose mean of d is at most a few standard errors
(`errors_allowed`). It keeps trees that cannot be told apart from the best, because more trees
measured better if there is no evidence against them (docs/defaults.md). The rule ``"best"`` ends
with the best tree.

Only the best tree's values have to be remembered: a new best tree is the last within its own
error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.support.reducer import ALONE, Reducer, addable

Floats = NDArray[np.float64]

RULES = ("within_error", "best")


def errors_allowed(*, steered: bool) -> float:
    """Return the standard errors that a tree may be below the best and still count as equal to it.

    A steered learning rate slows down by itself when queries disagree. Later trees then do little
    harm, so it takes more to leave them out. With a constant rate they overfit.
    """
    return 1.5 if steered else 1.0


class TreesChosen(NamedTuple):
    """The iteration to end with, after an iteration, and the error of its difference to the best."""

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
        reducer: Reducer = ALONE,
    ) -> None:
        self._rule = rule
        self._errors = errors
        self._sign = 1.0 if higher_is_better else -1.0
        self._weights = weights
        self._reducer = reducer
        self._best: Floats | None = None
        self._highest = -math.inf
        self._choice = 0

    def see(self, iteration: int, values: Floats, mean: float) -> TreesChosen:
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
            self._choice = iteration
        return TreesChosen(self._choice, error)

    def resume(self, best: Floats, mean: float, choice: int) -> None:
        """Continue after iterations with the values and mean of the best, and their choice."""
        self._best, self._highest, self._choice = best, self._sign * mean, choice

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
    rule: str, best: int, choice: int, curve: Any, errors: Sequence[float], allowed: float = 1.0
) -> dict[str, Any]:
    """Describe the end of a training for the manifest: the rule, and how flat the curve is.

    ``difference`` is the loss of the validation metric from its best value to the tree that the
    model ends with, and ``error`` its standard error over queries. ``last_within_error`` is the
    last iteration that is within ``standard_errors`` of the best, whatever the rule.

    Parameters
    ----------
    rule
        One of `RULES`.
    best, choice
        The iteration with the best value and the iteration of the rule, from 1.
    curve, errors
        Value after each iteration, and the standard error of its difference from the best value so
        far.
    allowed
        Standard errors that a tree may be below the best.
    """

    def is_level(iteration: int) -> bool:
        # The choice is always level, whatever the rounding of its difference.
        difference = abs(curve[best - 1] - curve[iteration - 1])
        return iteration == choice or difference <= allowed * errors[iteration - 1]

    return {
        "rule": rule,
        "best_iteration": best,
        "chosen_iteration": choice,
        "difference": float(abs(curve[best - 1] - curve[choice - 1])),
        "error": float(errors[choice - 1]),
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
    iterations = ("best_iteration", "chosen_iteration", "last_within_error")
    numbers = ("difference", "error", "standard_errors")
    return (
        values.get("rule") in RULES
        and all(type(values.get(name)) is int and values[name] >= 1 for name in iterations)
        and all(isinstance(values.get(name), int | float) for name in numbers)
    )


def stopping_sentence(stopping: dict[str, Any], *, refit: bool = False) -> str:
    """Return a sentence about the tree that a training ended with, and how flat the curve is.

    Parameters
    ----------
    stopping
        As `describe_stopping` returns it, with the number of ``folds`` if folds chose.
    refit
        Whether the model comes from a second training.

    Examples
    --------
    >>> stopping_sentence(describe_stopping("within_error", 2, 3, [0.5, 0.7, 0.65], [0, 0, 0.05]))
    'It ends with tree 3, the last within one standard error of the best, tree 2: 0.0500 ± 0.0500 apart.'
    >>> stopping_sentence(describe_stopping("best", 2, 2, [0.5, 0.7, 0.65], [0, 0, 0.05], 1.5))
    'It ends with the best tree, 2 (rule: best); the last within 1.5 standard errors of it is tree 3.'
    """
    best, choice = stopping["best_iteration"], stopping["chosen_iteration"]
    where = "It"
    if "folds" in stopping:
        where = f"Over {stopping['folds']} folds it"
    elif refit:
        where = "Before the refit it"
    allowed = stopping["standard_errors"]
    within = f"within {allowed:g} standard errors"
    if allowed == 1:
        within = "within one standard error"
    if best != choice:
        return (
            f"{where} ends with tree {choice}, the last {within} of the best, tree {best}: "
            f"{stopping['difference']:.4f} ± {stopping['error']:.4f} apart."
        )
    last = stopping["last_within_error"]
    flat = f"no later tree is {within} of it"
    if last > best:
        flat = f"the last {within} of it is tree {last}"
    return f"{where} ends with the best tree, {best} (rule: {stopping['rule']}); {flat}."
