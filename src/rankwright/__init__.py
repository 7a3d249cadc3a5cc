"""Gradient-boosted tree rankers that optimise the ranking metric itself.

Names are imported on first use, so that ``import rankwright`` costs nothing and loads no engine.
"""

from typing import TYPE_CHECKING

from rankwright._lazy import lazy_names

if TYPE_CHECKING:
    from rankwright import diagnostics, metrics, objectives
    from rankwright.clicks.interleaving import InterleavedList, interleave, simulate_interleaving
    from rankwright.clicks.log import ClickLog
    from rankwright.clicks.offline import ClickEvaluation, evaluate_clicks
    from rankwright.clicks.preference import (
        InterleavingResult,
        compare_interleaved,
        interleaving_sample_size,
    )
    from rankwright.clicks.propensities import Propensities, estimate_propensities
    from rankwright.clicks.reading import read_clicks
    from rankwright.clicks.simulation import simulate_clicks
    from rankwright.cluster.options import Cluster
    from rankwright.data.dataset import RankingData
    from rankwright.data.letor import read_letor, write_letor
    from rankwright.data.streaming import stream_data
    from rankwright.data.synthetic import make_web_search
    from rankwright.data.tables import read_data, write_data
    from rankwright.data.trec import align, read_qrels, read_trec_run, write_qrels, write_trec_run
    from rankwright.evaluation.comparison import Comparison, compare
    from rankwright.evaluation.per_query import Evaluation, evaluate
    from rankwright.evaluation.permutation import PermutationImportance
    from rankwright.evaluation.reliability import Reliability, reliability
    from rankwright.explanation import Explanation
    from rankwright.exporting import export
    from rankwright.metrics import Metric, metric
    from rankwright.model import Model, load
    from rankwright.objectives import bind, gradients, objective
    from rankwright.plots import (
        plot_comparison,
        plot_curves,
        plot_importance,
        plot_position_bias,
        plot_queries,
    )
    from rankwright.ranker import Ranker
    from rankwright.runs import Run, train_run
    from rankwright.score_plots import plot_explanation, plot_reliability
    from rankwright.support.ranges import Choice, Range
    from rankwright.transformer import WithinQuery
    from rankwright.tuning.goals import GoalSweep, sweep_goals
    from rankwright.tuning.result import Tuning
    from rankwright.tuning.search import tune
    from rankwright.tuning.space import search_space

__version__ = "0.1.0"
__all__ = [
    "Choice",
    "ClickEvaluation",
    "ClickLog",
    "Cluster",
    "Comparison",
    "Evaluation",
    "Explanation",
    "GoalSweep",
    "InterleavedList",
    "InterleavingResult",
    "Metric",
    "Model",
    "PermutationImportance",
    "Propensities",
    "Range",
    "Ranker",
    "RankingData",
    "Reliability",
    "Run",
    "Tuning",
    "WithinQuery",
    "align",
    "bind",
    "compare",
    "compare_interleaved",
    "diagnostics",
    "estimate_propensities",
    "evaluate",
    "evaluate_clicks",
    "export",
    "gradients",
    "interleave",
    "interleaving_sample_size",
    "load",
    "make_web_search",
    "metric",
    "metrics",
    "objective",
    "objectives",
    "plot_comparison",
    "plot_curves",
    "plot_explanation",
    "plot_importance",
    "plot_position_bias",
    "plot_queries",
    "plot_reliability",
    "read_clicks",
    "read_data",
    "read_letor",
    "read_qrels",
    "read_trec_run",
    "reliability",
    "search_space",
    "simulate_clicks",
    "simulate_interleaving",
    "stream_data",
    "sweep_goals",
    "train_run",
    "tune",
    "write_data",
    "write_letor",
    "write_qrels",
    "write_trec_run",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "clicks.interleaving": ("InterleavedList", "interleave", "simulate_interleaving"),
        "clicks.log": ("ClickLog",),
        "clicks.offline": ("ClickEvaluation", "evaluate_clicks"),
        "clicks.preference": (
            "InterleavingResult",
            "compare_interleaved",
            "interleaving_sample_size",
        ),
        "clicks.propensities": ("Propensities", "estimate_propensities"),
        "clicks.reading": ("read_clicks",),
        "clicks.simulation": ("simulate_clicks",),
        "cluster.options": ("Cluster",),
        "data.dataset": ("RankingData",),
        "data.letor": ("read_letor", "write_letor"),
        "data.synthetic": ("make_web_search",),
        "data.streaming": ("stream_data",),
        "data.tables": ("read_data", "write_data"),
        "data.trec": ("align", "read_qrels", "read_trec_run", "write_qrels", "write_trec_run"),
        "evaluation.comparison": ("Comparison", "compare"),
        "evaluation.per_query": ("Evaluation", "evaluate"),
        "evaluation.permutation": ("PermutationImportance",),
        "evaluation.reliability": ("Reliability", "reliability"),
        "explanation": ("Explanation",),
        "exporting": ("export",),
        "metrics": ("Metric", "metric"),
        "model": ("Model", "load"),
        "objectives": ("bind", "gradients", "objective"),
        "plots": (
            "plot_comparison",
            "plot_curves",
            "plot_importance",
            "plot_position_bias",
            "plot_queries",
        ),
        "support.ranges": ("Choice", "Range"),
        "ranker": ("Ranker",),
        "runs": ("Run", "train_run"),
        "tuning.goals": ("GoalSweep", "sweep_goals"),
        "score_plots": ("plot_explanation", "plot_reliability"),
        "transformer": ("WithinQuery",),
        "tuning.result": ("Tuning",),
        "tuning.search": ("tune",),
        "tuning.space": ("search_space",),
    },
    modules=("diagnostics", "metrics", "objectives"),
)
