"""Gradient-boosted tree rankers that optimise the ranking metric itself.

Names are imported on first use, so that ``import rankwright`` costs nothing and loads no engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwright import diagnostics, metrics, objectives
    from rankwright.comparison import Comparison, compare
    from rankwright.data import RankingData
    from rankwright.evaluation import Evaluation, evaluate
    from rankwright.files import read_data, write_data
    from rankwright.letor import read_letor, write_letor
    from rankwright.metrics import Metric, metric
    from rankwright.objectives import bind, gradients, objective
    from rankwright.ranker import Ranker
    from rankwright.runs import Run, train_run
    from rankwright.spaces import Choice, Range, search_space
    from rankwright.synthetic import make_web_search
    from rankwright.trec import align, read_qrels, read_trec_run, write_qrels, write_trec_run
    from rankwright.tuning import Tuning, tune

__version__ = "0.1.0"
__all__ = [
    "Choice",
    "Comparison",
    "Evaluation",
    "Metric",
    "Range",
    "Ranker",
    "RankingData",
    "Run",
    "Tuning",
    "align",
    "bind",
    "compare",
    "diagnostics",
    "evaluate",
    "gradients",
    "make_web_search",
    "metric",
    "metrics",
    "objective",
    "objectives",
    "read_data",
    "read_letor",
    "read_qrels",
    "read_trec_run",
    "search_space",
    "train_run",
    "tune",
    "write_data",
    "write_letor",
    "write_qrels",
    "write_trec_run",
]

_HOME = {
    "comparison": ("Comparison", "compare"),
    "data": ("RankingData",),
    "evaluation": ("Evaluation", "evaluate"),
    "files": ("read_data", "write_data"),
    "letor": ("read_letor", "write_letor"),
    "metrics": ("Metric", "metric"),
    "objectives": ("bind", "gradients", "objective"),
    "ranker": ("Ranker",),
    "runs": ("Run", "train_run"),
    "spaces": ("Choice", "Range", "search_space"),
    "synthetic": ("make_web_search",),
    "trec": ("align", "read_qrels", "read_trec_run", "write_qrels", "write_trec_run"),
    "tuning": ("Tuning", "tune"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("diagnostics", "metrics", "objectives"):
        return import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
