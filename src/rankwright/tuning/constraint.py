"""Conditions that the result of a search must meet, for example ``ndcg@10[margin] >= 0.4``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric


@dataclass(frozen=True)
class Constraint:
    """A bound of a metric on validation queries.

    Parameters
    ----------
    metric
        The metric.
    bound
        The least or largest value that is allowed.
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
        """Read a constraint from its text form: a metric, >= or <=, and a number."""
        sign = ">=" if ">=" in str(text) else "<="
        left, _, right = str(text).partition(sign)
        try:
            bound = float(right)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(
                f"{text!r} is not a constraint: expected a metric, >= or <=, and a number, as in "
                "'ndcg@10[margin] >= 0.4'."
            )
        return cls(parse_metric(left.strip()), bound, sign == ">=")

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the bound; 0 or less if it meets the constraint."""
        return self.bound - value if self.at_least else value - self.bound

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}"


def read_constraints(
    constraint: str | Constraint | Sequence[str | Constraint] | None,
) -> tuple[Constraint, ...]:
    """Read one constraint or several, as text or as values; none for None."""
    if constraint is None:
        return ()
    given: list[Any] = (
        [constraint] if isinstance(constraint, str | Constraint) else list(constraint)
    )
    constraints = tuple(
        item if isinstance(item, Constraint) else Constraint.read(item) for item in given
    )
    if len({str(item.metric) for item in constraints}) < len(constraints):
        raise ValueError("two constraints bound the same metric; give one for each metric.")
    return constraints
