"""Conditions that the result of a search must meet: ``ndcg@10[margin] >= 0.4``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric

_EXAMPLE = "'ndcg@10[margin] >= 0.4'"


@dataclass(frozen=True)
class Constraint:
    """A bound of a metric on validation queries.

    Parameters
    ----------
    metric
        What is bounded.
    bound
        The bound itself, which is allowed.
    at_least
        Whether the metric must be at least the bound; otherwise at most.

    Examples
    --------
    >>> limit = Constraint.read("ndcg@10[margin] >= 0.4")
    >>> limit.excess(0.3), limit.excess(0.5)
    (0.1..., -0.09...)
    """

    metric: Metric
    bound: float
    at_least: bool = True

    @classmethod
    def read(cls, text: str) -> Constraint:
        """Read a constraint from its text form, a metric, >= or <=, and a number."""
        for sign in (">=", "<="):
            left, found, right = str(text).partition(sign)
            if found:
                try:
                    bound = float(right)
                except ValueError:
                    break
                if math.isfinite(bound):
                    return cls(parse_metric(left.strip()), bound, sign == ">=")
        raise ValueError(
            f"{text!r} is not a constraint: expected a metric, >= or <=, and a number, as in {_EXAMPLE}."
        )

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the bound; 0 or less where it meets the constraint."""
        return self.bound - value if self.at_least else value - self.bound

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}"


def read_constraints(constraint: Any) -> tuple[Constraint, ...]:
    """Read one constraint or several, as text or as values; none for None."""
    if constraint is None:
        return ()
    listed: Sequence[Any] = (
        [constraint] if isinstance(constraint, str | Constraint) else list(constraint)
    )
    constraints = tuple(
        one if isinstance(one, Constraint) else Constraint.read(one) for one in listed
    )
    if len({str(one.metric) for one in constraints}) < len(constraints):
        raise ValueError("two constraints bound the same metric; give one for each metric.")
    return constraints
