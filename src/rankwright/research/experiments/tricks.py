"""Experiments of the "Which Tricks" paper (Lyzhin, Ustimenko, Gulin and Prokhorenkova, ICML 2023)."""

from __future__ import annotations

from typing import Any

from rankwright.research.experiments.base import Budget, Experiment, figures
from rankwright.research.experiments.gap import Gap
from rankwright.research.experiments.study import Named, Study, claims
from rankwright.research.experiments.tuned import LIGHTGBM
from rankwright.research.harness import Ours, System
from rankwright.research.peers import LightGBM

PAPER = "Which Tricks"
ERR = "err(gain=linear)"
FOUR = ("ndcg@10", "mrr", "map", ERR)
SIX = ("ndcg@1", "ndcg@5", *FOUR)
_ALL_SETS = "Web10K, Web30K, Yahoo S1, Yahoo S2, Istella, Istella-S"
_THREE_SETS = "Web10K, Yahoo S2, Istella-S"

_LIGHTGBM: System = Named("LightGBM", LightGBM("lambdarank"))
_QUERYRMSE = Ours("QueryRMSE", {"objective": "queryrmse"}, by_metric=False)
_LAMBDAMART = Ours("LambdaMART", {"objective": "lambdamart"})
_YETIRANK = Ours("YetiRank", {"objective": "yetirank"}, by_metric=False)
_YETILOSS = Ours("YetiLoss", {"objective": "yetiloss"})
_STOCHASTICRANK = Ours(
    "StochasticRank",
    {"objective": "stochasticrank(mu=0.02)", "langevin": True, "diffusion_temperature": 1e8, "shrink_rate": 1e-4},
)
_TREES = "Trees are LightGBM's, not CatBoost's oblivious ones. "

TABLE2 = Study(
    name="tricks-table2",
    paper=PAPER,
    source="table 2",
    title="Methods compared after tuning",
    full=Budget(seeds=1, trees=1000, queries=1000, folds=1, trials=100),
    quick=Budget(seeds=1, trees=40, queries=120, length=30, folds=1, trials=3),
    kind="web",
    targets=FOUR,
    systems=(_LIGHTGBM, _QUERYRMSE, _LAMBDAMART, _STOCHASTICRANK, _YETIRANK, _YETILOSS),
    only={"LightGBM": ("ndcg@10",)},
    spaces={name: {} for name in ("QueryRMSE", "LambdaMART", "StochasticRank", "YetiRank", "YetiLoss")}
    | {"LightGBM": LIGHTGBM},
    published=figures(
        "table 2",
        _ALL_SETS,
        f"""
        [ndcg@10]
        LightGBM: 50.39 52.21 78.88 77.25 72.89 76.48
        QueryRMSE: 50.55 52.19 79.10 78.01 69.66 74.83
        LambdaMART: 49.38 50.93 78.63 77.31 69.83 75.55
        StochasticRank: 50.34 51.63 78.98 77.77 68.46 74.88
        YetiRank: 50.75 52.31 79.19 77.99 73.02 77.15
        YetiLoss: 50.76 51.90 78.67 77.77 71.60 76.32
        [mrr]
        QueryRMSE: 83.47 85.38 91.03 92.56 96.23 97.63
        LambdaMART: 82.59 84.12 90.75 92.34 95.18 96.96
        StochasticRank: 83.51 85.43 90.72 93.08 96.54 97.83
        YetiRank: 84.21 85.58 91.20 93.05 96.70 97.58
        YetiLoss: 84.17 86.01 90.88 93.21 97.16 97.97
        [map]
        QueryRMSE: 62.11 63.51 86.06 88.40 78.11 88.59
        LambdaMART: 57.93 58.58 85.91 89.14 80.80 90.28
        YetiRank: 62.07 63.39 85.94 88.00 80.01 89.09
        YetiLoss: 62.62 64.03 86.46 89.37 82.66 91.07
        [{ERR}]
        QueryRMSE: 57.27 59.30 66.76 67.16 85.29 85.55
        LambdaMART: 56.54 58.76 66.22 66.55 84.71 85.24
        StochasticRank: 56.94 59.34 66.64 67.17 85.44 85.98
        YetiRank: 57.41 59.53 66.69 67.27 87.29 86.97
        YetiLoss: 57.46 59.53 66.71 67.15 86.83 86.59
        """,
    ),
    claims=(
        *claims("StochasticRank > LambdaMART", ["ndcg@10", "mrr", ERR]),
        *claims("YetiRank > StochasticRank\nYetiRank > LambdaMART\nYetiRank > YetiLoss", ["ndcg@10"]),
        *claims("YetiLoss > YetiRank\nYetiLoss > QueryRMSE\nYetiLoss > LambdaMART", ["map", "mrr"]),
        *claims("YetiLoss > LambdaMART", [ERR]),
    ),
    departs=_TREES + "StochasticRank takes MAP too here. Each system has the same number of trials.",
)

TABLE4 = Study(
    name="tricks-table4",
    paper=PAPER,
    source="table 4",
    title="Methods compared with their defaults",
    full=Budget(seeds=5, trees=1000, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=100, queries=250, length=40, folds=1),
    kind="web",
    targets=FOUR,
    systems=(_LIGHTGBM, _QUERYRMSE, _LAMBDAMART, _YETIRANK, _YETILOSS),
    only={"LightGBM": ("ndcg@10",)},
    published=figures(
        "table 4",
        _ALL_SETS,
        f"""
        [ndcg@10]
        LightGBM: 50.34 51.06 78.34 76.96 67.71 73.67
        QueryRMSE: 49.82 50.68 78.34 78.03 65.45 72.60
        LambdaMART: 48.56 49.50 77.44 76.46 66.25 73.37
        YetiRank: 50.18 50.91 78.58 78.15 68.86 74.72
        YetiLoss: 50.14 50.91 78.03 77.55 68.73 74.62
        [mrr]
        QueryRMSE: 83.44 84.87 90.78 93.25 94.76 96.89
        LambdaMART: 82.36 83.97 90.72 91.84 94.73 96.81
        YetiRank: 83.81 85.10 91.02 93.16 95.59 97.09
        YetiLoss: 84.50 85.98 91.14 93.76 96.40 97.71
        [map]
        QueryRMSE: 61.85 63.00 85.66 88.40 72.61 85.95
        LambdaMART: 56.89 55.81 85.92 89.14 75.21 87.49
        YetiRank: 61.80 63.03 85.66 88.00 75.36 86.82
        YetiLoss: 62.43 63.58 86.41 89.36 76.61 88.14
        [{ERR}]
        QueryRMSE: 56.98 58.64 66.26 67.20 83.06 84.14
        LambdaMART: 55.92 57.74 65.99 66.41 83.01 84.41
        YetiRank: 57.12 58.73 66.54 67.28 85.31 85.77
        YetiLoss: 57.16 58.80 66.50 67.22 85.46 85.71
        """,
    ),
    claims=(
        *claims("YetiRank > LightGBM\nYetiRank > QueryRMSE\nYetiRank > LambdaMART\nYetiRank > YetiLoss", ["ndcg@10"]),
        *claims("YetiLoss > YetiRank\nYetiLoss > QueryRMSE\nYetiLoss > LambdaMART", ["mrr", "map"]),
        *claims("YetiLoss > LambdaMART", [ERR]),
    ),
    departs=_TREES + "The defaults are those of Ranker, and LightGBM's own for LightGBM.",
)


def _noisy(name: str, objective: str, **params: Any) -> tuple[Ours, ...]:
    noises = {"logistic": "logistic", "Gaussian": "gaussian", "no smoothing": "none"}
    return tuple(
        Ours(f"{name}, {shown}", {"objective": f"{objective}(noise={noise})"}, **params)
        for shown, noise in noises.items()
    )


_SMOOTHED_YETILOSS = """
[ndcg@1]
YetiLoss, logistic: 48.24 74.64 70.36
YetiLoss, Gaussian: 49.99 74.36 70.45
YetiLoss, no smoothing: 48.75 71.89 68.32
[ndcg@5]
YetiLoss, logistic: 48.61 74.49 70.39
YetiLoss, Gaussian: 49.25 74.17 70.37
YetiLoss, no smoothing: 46.85 71.51 68.46
[ndcg@10]
YetiLoss, logistic: 50.76 77.77 76.32
YetiLoss, Gaussian: 50.79 77.55 76.28
YetiLoss, no smoothing: 48.49 75.29 74.55
[mrr]
YetiLoss, logistic: 84.17 93.21 97.97
YetiLoss, Gaussian: 84.28 93.61 97.83
YetiLoss, no smoothing: 82.70 91.94 97.38
[map]
YetiLoss, logistic: 62.62 89.37 91.07
YetiLoss, Gaussian: 62.52 89.37 91.08
YetiLoss, no smoothing: 61.32 88.13 89.89
[err(gain=linear)]
YetiLoss, logistic: 57.46 67.15 86.59
YetiLoss, Gaussian: 57.55 66.99 86.25
"""
_SMOOTHED_YETIRANK = """
[ndcg@1]
YetiRank, logistic: 48.59 75.34 70.80
YetiRank, Gaussian: 49.86 75.19 71.62
YetiRank, no smoothing: 48.26 73.70 70.47
[ndcg@5]
YetiRank, logistic: 48.54 74.93 70.81
YetiRank, Gaussian: 49.40 74.99 70.94
YetiRank, no smoothing: 47.52 72.14 69.82
[ndcg@10]
YetiRank, logistic: 50.75 77.99 77.15
YetiRank, Gaussian: 51.00 78.07 77.23
YetiRank, no smoothing: 49.05 75.57 75.80
[mrr]
YetiRank, logistic: 84.21 93.05 97.58
YetiRank, Gaussian: 83.85 93.07 97.47
YetiRank, no smoothing: 83.15 92.23 97.13
[map]
YetiRank, logistic: 62.07 88.00 89.09
YetiRank, Gaussian: 61.85 87.80 89.02
YetiRank, no smoothing: 60.38 86.85 87.47
[err(gain=linear)]
YetiRank, logistic: 57.41 67.27 86.97
YetiRank, Gaussian: 57.76 67.15 86.87
"""
_SMOOTHING_MATTERS = "YetiLoss, logistic > YetiLoss, no smoothing\nYetiLoss, Gaussian > YetiLoss, no smoothing"

TABLE3 = Study(
    name="tricks-table3",
    paper=PAPER,
    source="table 3",
    title="The smoothing of YetiLoss",
    full=Budget(seeds=5, trees=1000, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=100, queries=250, length=40, folds=1),
    kind="web",
    targets=("ndcg@10", "mrr", "map"),
    systems=_noisy("YetiLoss", "yetiloss"),
    published=figures("table 3", _THREE_SETS, _SMOOTHED_YETILOSS),
    claims=(
        *claims(_SMOOTHING_MATTERS, ("ndcg@10", "mrr", "map")),
        *claims("YetiLoss, logistic > YetiLoss, Gaussian", ("ndcg@10", "mrr", "map"), alike=True),
    ),
    departs=_TREES + "Parameters are the defaults of Ranker; the paper tuned.",
)

SMOOTHING = Study(
    name="tricks-smoothing",
    paper=PAPER,
    source="tables 11 to 22",
    title="The smoothing of YetiRank and YetiLoss, all metrics",
    full=Budget(seeds=5, trees=1000, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=60, queries=200, length=30, folds=1),
    kind="web",
    targets=SIX,
    systems=(*_noisy("YetiLoss", "yetiloss"), *_noisy("YetiRank", "yetirank", by_metric=False)),
    published=figures("tables 11 to 22", _THREE_SETS, _SMOOTHED_YETILOSS).joined(
        figures("tables 11 to 16", _THREE_SETS, _SMOOTHED_YETIRANK)
    ),
    claims=claims(_SMOOTHING_MATTERS + "\n" + _SMOOTHING_MATTERS.replace("YetiLoss", "YetiRank"), SIX),
    departs=_TREES + "Parameters are the defaults of Ranker; the paper tuned.",
)

NEIGHBOURS = Study(
    name="tricks-neighbours",
    paper=PAPER,
    source="figure 1, tables 5 to 10",
    title="How many neighbours YetiLoss looks at",
    full=Budget(seeds=5, trees=1000, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=60, queries=200, length=30, folds=1),
    kind="web",
    targets=SIX,
    systems=tuple(
        Ours(f"YetiLoss, {count}", {"objective": f"yetiloss(neighbours={count})"}) for count in (1, 2, 3, "all")
    ),
    published=figures(
        "tables 5 to 10",
        _THREE_SETS,
        f"""
        [ndcg@1]
        YetiLoss, 1: 48.24 74.64 70.36
        YetiLoss, 2: 49.27 74.60 70.70
        YetiLoss, all: 47.70 74.74 70.93
        [ndcg@5]
        YetiLoss, 1: 48.61 74.49 70.39
        YetiLoss, 2: 49.02 74.29 70.61
        YetiLoss, all: 48.36 74.65 70.44
        [ndcg@10]
        YetiLoss, 1: 50.76 77.77 76.32
        YetiLoss, 2: 50.90 77.68 76.69
        YetiLoss, 3: 50.99 77.76 76.74
        YetiLoss, all: 50.56 77.90 76.79
        [mrr]
        YetiLoss, 1: 84.17 93.21 97.97
        YetiLoss, 2: 84.18 93.75 97.99
        YetiLoss, 3: 84.39 93.22 97.82
        YetiLoss, all: 84.19 93.84 97.90
        [map]
        YetiLoss, 1: 62.62 89.37 91.07
        YetiLoss, 2: 62.62 89.30 91.06
        YetiLoss, 3: 62.54 89.38 91.16
        YetiLoss, all: 62.32 89.36 90.43
        [{ERR}]
        YetiLoss, 1: 57.46 67.15 86.59
        YetiLoss, 2: 57.91 67.28 86.71
        YetiLoss, 3: 57.59 67.13 86.48
        YetiLoss, all: 57.07 67.32 86.44
        """,
    ),
    claims=claims("\n".join(f"YetiLoss, {count} > YetiLoss, 1" for count in (2, 3, "all")), SIX, alike=True),
    departs=(
        _TREES + "Parameters are the defaults of Ranker; the paper tuned. Pairs up to so many places apart count here, "
        "in the paper's text those of exactly so many."
    ),
)

GAP = Gap(
    name="tricks-gap",
    paper=PAPER,
    source="tables 23 to 26",
    title="Generalisation gaps",
    full=Budget(seeds=5, trees=1000, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=80, queries=250, length=30, folds=1),
    kind="web",
    targets=FOUR,
    systems=(_YETIRANK, _YETILOSS, _STOCHASTICRANK, _LAMBDAMART, _LIGHTGBM),
    only={"LightGBM": ("ndcg@10",)},
    published=figures(
        "tables 23 to 26",
        _ALL_SETS,
        f"""
        [ndcg@10]
        YetiRank: 6.13 5.12 7.37 12.54 6.83 8.71
        YetiLoss: 6.92 3.57 5.34 17.06 5.57 8.91
        StochasticRank: 10.23 6.33 6.73 13.73 3.71 8.17
        LambdaMART: 5.87 4.79 4.72 13.17 3.55 4.57
        LightGBM: 9.25 10.37 9.67 9.39 9.61 11.77
        [mrr]
        YetiRank: 2.80 1.27 1.86 3.21 1.70 1.90
        YetiLoss: 3.64 1.63 4.04 4.67 1.82 1.88
        StochasticRank: 4.63 3.77 3.20 2.56 1.70 1.62
        LambdaMART: 3.52 1.15 2.51 3.67 2.42 2.70
        [map]
        YetiRank: 3.31 1.63 3.54 6.15 4.53 3.18
        YetiLoss: 3.24 2.20 4.24 6.69 6.74 5.20
        LambdaMART: 4.46 1.32 1.22 7.36 4.94 3.74
        [{ERR}]
        YetiRank: 4.39 3.00 3.64 6.13 4.02 7.55
        YetiLoss: 4.26 2.58 3.34 5.08 4.17 7.55
        StochasticRank: 5.88 3.48 3.36 6.09 2.33 5.84
        LambdaMART: 7.31 4.92 2.63 5.50 3.11 6.65
        """,
    ),
    claims=(
        *claims("YetiLoss > YetiRank", ("mrr", "map")),
        *claims("LightGBM > YetiRank\nLightGBM > YetiLoss", ["ndcg@10"]),
    ),
    departs=_TREES + "Parameters are the defaults of Ranker; the paper tuned. The paper's figures here are its gaps.",
)

EXPERIMENTS: tuple[Experiment, ...] = (TABLE2, TABLE3, SMOOTHING, NEIGHBOURS, TABLE4, GAP)
