"""An experiment on the "Directness" paper (He and Liu): the distance of SoftRank's surrogate from NDCG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rankwright.report.page import Cell, Table
from rankwright_lab.experiments.base import (
    AGREES,
    CONTRADICTS,
    OPEN,
    Budget,
    Experiment,
    Findings,
    Job,
    Verdict,
)
from rankwright_lab.harness import Outcome, fit_whole

SIGMAS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5, 1e-6)
_MEASURES = ("mean_gap", "max_gap", "bounded", "max_gap_bounded", "mean_bound", "max_ratio")


class DirectnessExperiment(Experiment):
    """The gap between NDCG and SoftNDCG at the scores of a trained model, next to theorem 2."""

    def run(self, job: Job) -> Findings:
        """Train SoftRank on each fold, and measure the gap on its test queries at each sigma."""
        data, budget = job.settings.data_name, job.settings.budget
        for fold in job.settings.folds():
            for seed in range(budget.seeds):
                if not all(
                    job.store.has(data, fold.name, "softrank", _at(sigma), seed) for sigma in SIGMAS
                ):
                    self._measure(job, fold, seed)
        points = {
            sigma: [outcome for outcome in job.store.outcomes if outcome.target == _at(sigma)]
            for sigma in SIGMAS
        }
        rows = [_row(sigma, [outcome.values for outcome in own]) for sigma, own in points.items()]
        columns = [
            "σ",
            "mean gap",
            "largest gap",
            "queries under theorem 2",
            "largest gap there",
            "mean bound there",
        ]
        columns.append("largest gap / bound")
        return Findings(
            (Table("|NDCG - SoftNDCG|", columns, rows),),
            (_bounded(list(points.values())), _falls(_mean_gaps(points))),
        )

    def _measure(self, job: Job, fold: Any, seed: int) -> None:
        from rankwright.ranker import Ranker
        from rankwright_lab.diagnostics import directness_curve

        threads = job.settings.threads
        options: dict[str, Any] = {
            "n_estimators": job.settings.budget.trees,
            "n_jobs": threads,
            "verbose": 0,
        }
        ranker = fit_whole(Ranker("softrank", "ndcg", random_state=seed, **options), fold.train)
        test = fold.test
        curve = directness_curve(
            ranker.predict(test), test.y, group=test.group, sigmas=SIGMAS, threads=threads
        )
        for sigma, point in zip(SIGMAS, curve.points, strict=True):
            if job.store.has(job.settings.data_name, fold.name, "softrank", _at(sigma), seed):
                continue
            values = {name: [float(getattr(point, name))] for name in _MEASURES}
            trees, seconds = job.settings.budget.trees, sum(ranker.times_.values())
            job.add(fold.name, "softrank", _at(sigma), seed, values, trees=trees, seconds=seconds)


def _at(sigma: float) -> str:
    return f"σ = {sigma:g}"


def _row(sigma: float, measured: Sequence[dict[str, list[float]]]) -> list[Cell]:
    mean = f"{np.mean([values['mean_gap'][0] for values in measured]):.2e}"
    worst = f"{max(values['max_gap'][0] for values in measured):.2e}"
    queries = int(sum(values["bounded"][0] for values in measured))
    under = [values for values in measured if values["bounded"][0]]
    if not under:
        return [f"{sigma:g}", mean, worst, queries, None, None, None]
    largest, ratio = (
        max(values[name][0] for values in under) for name in ("max_gap_bounded", "max_ratio")
    )
    bound = np.average(
        [values["mean_bound"][0] for values in under],
        weights=[values["bounded"][0] for values in under],
    )
    return [f"{sigma:g}", mean, worst, queries, f"{largest:.2e}", f"{bound:.2e}", f"{ratio:.2e}"]


def _mean_gaps(points: dict[float, list[Outcome]]) -> list[float]:
    """Return the mean gap at each sigma, in descending order of sigma."""
    return [
        float(np.mean([outcome.values["mean_gap"][0] for outcome in own]))
        for own in points.values()
    ]


def _bounded(points: Sequence[Sequence[Outcome]]) -> Verdict:
    under = [outcome.values for own in points for outcome in own if outcome.values["bounded"][0]]
    claim = "the gap is below the bound of theorem 2 wherever its condition holds"
    if not under:
        return Verdict(claim, OPEN, "no query meets the condition at any of the σ")
    ratio = max(values["max_ratio"][0] for values in under)
    count = int(sum(values["bounded"][0] for values in under))
    outcome = AGREES if ratio <= 1 else CONTRADICTS
    return Verdict(
        claim, outcome, f"largest gap / bound {ratio:.2e}, over {count} pairs of a query and a σ"
    )


def _falls(gaps: Sequence[float]) -> Verdict:
    falling = all(late <= early for early, late in pairwise(gaps))
    outcome = AGREES if falling and gaps[-1] < 1e-3 * gaps[0] else CONTRADICTS
    evidence = f"mean gap {gaps[0]:.2e} at the largest σ, {gaps[-1]:.2e} at the smallest"
    return Verdict("the gap falls to 0 with σ", outcome, evidence)


DIRECTNESS = DirectnessExperiment(
    name="softrank-directness",
    paper="Directness",
    source="theorem 2",
    title="SoftRank's surrogate and NDCG",
    full=Budget(seeds=1, trees=300, queries=1000, length=40, folds=5),
    quick=Budget(seeds=1, trees=30, queries=150, length=20, folds=1),
    kind="web",
    departs="The paper has a proof and no measurements. The bound is theorem 2, with its errors corrected. "
    "Equal scores keep a gap however small σ is: ties count as the worst order.",
)

EXPERIMENTS: tuple[Experiment, ...] = (DIRECTNESS,)
