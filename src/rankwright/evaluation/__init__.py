"""Metrics of a ranking, query by query, and the significance of differences between rankings."""

from typing import TYPE_CHECKING

from rankwright._lazy import lazy_names

if TYPE_CHECKING:
    from rankwright.evaluation.comparison import Comparison, compare
    from rankwright.evaluation.per_query import Evaluation, Evaluator, evaluate
    from rankwright.evaluation.permutation import PermutationImportance
    from rankwright.evaluation.reliability import Reliability, reliability

__all__ = [
    "Comparison",
    "Evaluation",
    "Evaluator",
    "PermutationImportance",
    "Reliability",
    "compare",
    "evaluate",
    "reliability",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "comparison": ("Comparison", "compare"),
        "per_query": ("Evaluation", "Evaluator", "evaluate"),
        "permutation": ("PermutationImportance",),
        "reliability": ("Reliability", "reliability"),
    },
)
