"""Gradient-boosted tree rankers that optimise the ranking metric itself."""

from typing import TYPE_CHECKING, Any

from rankwright.comparison import Comparison, compare
from rankwright.data import RankingData
from rankwright.evaluation import Evaluation, evaluate
from rankwright.letor import read_letor, write_letor
from rankwright.metrics import Metric, metric
from rankwright.objectives import bind, gradients, objective
from rankwright.synthetic import make_web_search
from rankwright.trec import align, read_qrels, read_trec_run, write_qrels, write_trec_run

if TYPE_CHECKING:
    from rankwright.ranker import Ranker

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Evaluation",
    "Metric",
    "Ranker",
    "RankingData",
    "align",
    "bind",
    "compare",
    "evaluate",
    "gradients",
    "make_web_search",
    "metric",
    "objective",
    "read_letor",
    "read_qrels",
    "read_trec_run",
    "write_letor",
    "write_qrels",
    "write_trec_run",
]


def __getattr__(name: str) -> Any:
    """Import the estimator on first use: it brings scikit-learn along, which takes its time."""
    if name == "Ranker":
        from rankwright.ranker import Ranker

        return Ranker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
