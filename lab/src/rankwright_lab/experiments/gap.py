"""Generalisation gaps: how much better a model is on the queries it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.evaluation.significance import holm
from rankwright.report.page import Cell, Table
from rankwright_lab.experiments.base import AGREES, CONTRADICTS, OPEN, Findings, Job, Verdict
from rankwright_lab.experiments.claims import Claim, p_text
from rankwright_lab.experiments.comparison_study import ComparisonStudy
from rankwright_lab.folds import Fold
from rankwright_lab.harness import OutcomeStore

Floats = NDArray[np.float64]
_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class GapStudy(ComparisonStudy):
    """A study that compares training value minus test value; a claim says that a gap is larger."""

    def run(self, job: Job) -> Findings:
        """Test each model on its training queries as well."""
        for fold in job.settings.folds():
            both = replace(fold, test=_both_sides(fold))
            for system in self.systems:
                seeds = range(job.settings.budget.seeds)
                self._run_system(job, both, self.conditions[0], system, seeds)
        targets = job.settings.targets or self.targets
        tables, verdicts = [], []
        for target in targets:
            names = [
                system.name
                for system in self.systems
                if target in self.only.get(system.name, self.targets)
            ]
            values = {name: _split(job.store, name, target) for name in names}
            tables.append(self._gaps(target, values))
            verdicts += judge_gaps(
                [claim for claim in self.claims if claim.target == target], values
            )
        return Findings(tuple(tables), tuple(verdicts))

    def _gaps(self, target: str, values: Mapping[str, tuple[Floats, Floats]]) -> Table:
        rows: list[list[Cell]] = []
        for name, (train, test) in values.items():
            low, high = _welch(train, test)[1]
            gap = np.nanmean(train) - np.nanmean(test)
            means = (f"{100 * value:.2f}" for value in (np.nanmean(train), np.nanmean(test), gap))
            own: list[Cell] = [name, *means, f"[{100 * low:.2f}, {100 * high:.2f}]"]
            rows.append(
                own
                + [
                    None if value is None else f"{value:.2f}"
                    for value in self.published.of(target, name)
                ]
            )
        columns = ["system", "train", "test", "gap", "95 % interval"]
        return Table(
            f"{target}, per cent",
            columns + [f"paper's gap, {column}" for column in self.published.columns],
            rows,
        )


def _both_sides(fold: Fold) -> RankingData:
    """Return the training and the test queries. Ids name the side, because files may number their queries alike."""
    sides = []
    for side, data in (("train", fold.train), ("test", fold.test)):
        ids = np.array([f"{side} {query}" for query in data.query_ids])
        qid = np.repeat(ids, data.group)
        sides.append(data.with_rows(data.X, data.y, qid, data.weights, data.fields))
    return RankingData.concatenate(sides)


def _split(store: OutcomeStore, system: str, target: str) -> tuple[Floats, Floats]:
    """Return values per training query and per test query, averaged over seeds and over folds."""
    sums: dict[str, list[float]] = {}
    for outcome in store.outcomes:
        if (outcome.system, outcome.target) == (system, target):
            for query, value in zip(outcome.query_ids, outcome.values[target], strict=True):
                sums.setdefault(query, []).append(value)
    train, test = (
        np.array([np.mean(sums[query]) for query in sorted(sums) if query.startswith(side)])
        for side in ("train ", "test ")
    )
    return train, test


def judge_gaps(
    claims: Sequence[Claim], values: Mapping[str, tuple[Floats, Floats]]
) -> list[Verdict]:
    """Compare gaps: the difference of two systems on the training queries with that on the test queries."""
    tests = []
    for claim in claims:
        better, worse = values[str(claim.better)], values[str(claim.worse)]
        tests.append(_welch(better[0] - worse[0], better[1] - worse[1]))
    verdicts = []
    for claim, (difference, (low, high), _), p in zip(
        claims, tests, holm([test[2] for test in tests]), strict=True
    ):
        outcome = OPEN if p > _LEVEL else AGREES if difference > 0 else CONTRADICTS
        evidence = (
            f"{100 * difference:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}], p {p_text(p)}"
        )
        verdicts.append(
            Verdict(
                f"the gap of {claim.better} above that of {claim.worse} by {claim.target}",
                outcome,
                evidence,
            )
        )
    return verdicts


def _welch(first: Floats, second: Floats) -> tuple[float, tuple[float, float], float]:
    """Return the difference of two means, its 95 % interval and the p-value of Welch's test."""
    from scipy.stats import ttest_ind

    sides = [values[~np.isnan(values)] for values in (first, second)]
    test = ttest_ind(*sides, equal_var=False)
    interval = test.confidence_interval()
    return (
        float(sides[0].mean() - sides[1].mean()),
        (float(interval.low), float(interval.high)),
        float(test.pvalue),
    )
