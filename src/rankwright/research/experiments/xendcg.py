"""Experiments of the "XE-NDCG" paper (Bruch, WWW 2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rankwright.data.corruption import with_added_negatives, with_clicks, with_label_noise
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Fold
from rankwright.research.experiments.base import Budget, Experiment, figures
from rankwright.research.experiments.study import Claim, Condition, Study, claims
from rankwright.research.harness import Ours

PAPER = "XE-NDCG"
LEVELS = (0.2, 0.4, 0.6, 0.8)
CLICK_NOISE = (0.05, 0.1, 0.15, 0.2, 0.25)
STEP = 0.02 * 500
_TREES: dict[str, Any] = {
    "num_leaves": 400,
    "min_child_samples": 50,
    "reg_lambda": 0.0,
    "subsample": 1.0,
    "colsample": 1.0,
}
_LISTNET = Ours("ListNet", {"objective": "listnet", **_TREES}, by_metric=False)
_LAMBDAMART = Ours("LambdaMART", {"objective": "lambdamart", **_TREES})
_XENDCG = Ours("XE-NDCG", {"objective": "xendcg", **_TREES}, by_metric=False)
_DEPARTS = (
    "The learning rate is the paper's 0.02 for its 500 trees, and larger in proportion for fewer trees. Folds and "
    "seeds stand for the paper's 100 random splits."
)

TABLE1 = Study(
    name="xendcg-table1",
    paper=PAPER,
    source="table 1",
    title="XE-NDCG, LambdaMART and ListNet",
    full=Budget(seeds=5, trees=500, queries=1000, folds=5),
    quick=Budget(seeds=2, trees=100, queries=250, length=40, folds=1),
    kind="web",
    targets=("ndcg@5", "ndcg@10"),
    systems=(_LAMBDAMART, _LISTNET, _XENDCG),
    step=STEP,
    published=figures(
        "table 1",
        "Web30K, Yahoo",
        """
        [ndcg@5]
        ListNet: 47.68 71.76
        LambdaMART: 48.08 73.00
        XE-NDCG: 48.23 73.37
        [ndcg@10]
        ListNet: 49.76 76.52
        LambdaMART: 49.94 77.49
        XE-NDCG: 50.27 77.84
        """,
    ),
    claims=claims("XE-NDCG > LambdaMART > ListNet\nXE-NDCG > ListNet", ("ndcg@5", "ndcg@10")),
    departs=_DEPARTS,
)


def _train_only(corrupt: Callable[[RankingData], RankingData]) -> Callable[[Fold], Fold]:
    return lambda fold: replace(fold, train=corrupt(fold.train))


def _negatives(share: float) -> Condition:
    return Condition(f"{share:.0%} negatives", _train_only(lambda data: with_added_negatives(data, share)))


def _label_noise(share: float) -> Condition:
    return Condition(f"{share:.0%} random labels", _train_only(lambda data: with_label_noise(data, share)))


def _clicks(noise: float) -> Condition:
    def change(fold: Fold) -> Fold:
        return replace(fold, train=with_clicks(fold.train, noise), valid=with_clicks(fold.valid, noise))

    return Condition(f"clicks at {noise:g}", change)


def _slower(clean: Condition, noisy: Condition) -> Claim:
    """Claim that XE-NDCG loses less than LambdaMART from one condition to the other."""
    better, worse = ((noisy.names(name), clean.names(name)) for name in ("XE-NDCG", "LambdaMART"))
    start = f" from {clean.name}" if clean.name else ""
    return Claim(better, worse, "ndcg@5", text=f"XE-NDCG loses less than LambdaMART{start} with {noisy.name}")


_CLEAN = Condition()
_CORRUPTED = (*map(_negatives, LEVELS), *map(_label_noise, LEVELS))

ROBUSTNESS = Study(
    name="xendcg-robustness",
    paper=PAPER,
    source="figures 3 (a) to (d)",
    title="Added negatives and random labels in the training data",
    full=Budget(seeds=5, trees=500, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=60, queries=200, length=30, folds=1),
    kind="web",
    targets=("ndcg@5",),
    systems=(_LAMBDAMART, _XENDCG),
    conditions=(_CLEAN, *_CORRUPTED),
    step=STEP,
    claims=tuple(_slower(_CLEAN, one) for one in _CORRUPTED),
    departs=_DEPARTS + " The paper has curves and no figures.",
)

_CLICKED = tuple(map(_clicks, CLICK_NOISE))

CLICKS = Study(
    name="xendcg-clicks",
    paper=PAPER,
    source="figure 4",
    title="Training on simulated clicks",
    full=Budget(seeds=5, trees=500, queries=1000, folds=5),
    quick=Budget(seeds=1, trees=60, queries=200, length=30, folds=1),
    kind="web",
    targets=("ndcg@5",),
    systems=(_LAMBDAMART, _XENDCG),
    conditions=_CLICKED,
    step=STEP,
    claims=(
        *(Claim(one.names("XE-NDCG"), one.names("LambdaMART"), "ndcg@5") for one in _CLICKED),
        *(_slower(_CLICKED[0], one) for one in _CLICKED[1:]),
    ),
    departs=_DEPARTS + " The paper has curves and no figures. Validation queries are clicks too, as in the paper.",
)

EXPERIMENTS: tuple[Experiment, ...] = (TABLE1, ROBUSTNESS, CLICKS)
