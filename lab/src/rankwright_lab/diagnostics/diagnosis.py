"""All diagnostics of a model on a data set, as one result: numbers, a short text and a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.data.labels import choose_label
from rankwright.evaluation.changes import (
    GapCurve,
    QueryChanges,
    generalisation_gap,
    query_changes,
    ranker_of,
    threads_of,
)
from rankwright.evaluation.per_query import evaluate
from rankwright.objectives import LambdaLoss, LambdaMART, Objective
from rankwright_lab.diagnostics.coherency import IncoherencyCurve, incoherency_curve
from rankwright_lab.diagnostics.common import plain
from rankwright_lab.diagnostics.directness_by_sigma import DirectnessCurve, directness_curve
from rankwright_lab.diagnostics.directness_gap import DirectnessPair, directness, directness_pair
from rankwright_lab.diagnostics.noise import Estimators, estimators

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.report.page import Page

_STAGES = 50
_SIGMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_MUS = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All diagnostics of a model, as returned by `diagnose`.

    Parameters
    ----------
    names
        Name of the model, and of the other model if there is one.
    incoherency
        Curves: the model's own gradient first, then the extended one.
    directness
        Curves of SoftRank for NDCG and of StochasticRank for the model's metric.
    pair
        Theorem 1 for the two models, whatever they were trained for, with the surrogate of StochasticRank and its
        default σ; None without a second one.
    estimators
        Comparison of gradient estimates.
    gap
        Generalisation gap; None without training data.
    changes
        Changes from the other model to this one; None without another.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> train, test = make_web_search(30, kind="short", random_state=1).split(0.5)
    >>> ranker = Ranker("lambdamart(truncation=k)", n_estimators=5, verbose=0, n_jobs=1).fit(train)
    >>> diagnosis = diagnose(ranker, test, train=train, repeats=10, samples=10)
    >>> sorted(diagnosis.to_dict())
    ['changes', 'directness', 'estimators', 'gap', 'incoherency', 'names', 'pair']
    """

    names: tuple[str, ...]
    incoherency: tuple[IncoherencyCurve, ...]
    directness: tuple[DirectnessCurve, ...]
    pair: DirectnessPair | None
    estimators: Estimators
    gap: GapCurve | None
    changes: QueryChanges | None

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON."""
        return {
            "names": list(self.names),
            "incoherency": [curve.to_dict() for curve in self.incoherency],
            "directness": [curve.to_dict() for curve in self.directness],
            "pair": None if self.pair is None else plain(asdict(self.pair)),
            "estimators": self.estimators.to_dict(),
            "gap": None if self.gap is None else plain(self.gap.to_dict()),
            "changes": None if self.changes is None else plain(self.changes.to_dict()),
        }

    def __str__(self) -> str:
        lines = [f"gradient of {curve.objective}: {curve.stages[-1]}" for curve in self.incoherency]
        for curve in self.directness:
            near, far = (
                f"{p.mean_gap:.2g} at σ = {p.sigma:g}"
                for p in (curve.points[0], curve.points[len(_SIGMAS) - 1])
            )
            lines.append(
                f"gap between {curve.metric} and its {curve.objective} surrogate: {near}, {far}"
            )
        best = min(self.estimators.rows, key=lambda row: row.cost)
        lines.append(
            f"cheapest gradient estimate: {best.name}, signal-to-noise {best.signal_to_noise:.2g} per draw"
        )
        if self.gap is not None:
            last = self.gap.points[-1].trees
            lines += [
                f"generalisation gap of {p.metric}: {p.gap:+.4f} [{p.low:+.4f}, {p.high:+.4f}]"
                for p in self.gap.points
                if p.trees == last
            ]
        if self.changes is not None:
            c = self.changes
            lines.append(
                f"{c.metric} against {c.names[0]}: {c.overall.difference:+.4f} [{c.overall.low:+.4f}, "
                f"{c.overall.high:+.4f}], {c.up.count} queries larger, {c.down.count} smaller, {c.same.count} the same"
            )
        return "\n".join(lines)

    def page(self, data_name: str = "test data") -> Page:
        """Return a report page; it needs the extra ``report``."""
        from rankwright.report.page import Page
        from rankwright_lab.diagnostics import report_sections as sections

        parts = [sections.incoherency_section(self.incoherency)]
        parts.append(sections.directness_section(self.directness, self.pair))
        parts.append(sections.estimators_section(self.estimators))
        if self.gap is not None:
            parts.append(sections.gap_section(self.gap))
        if self.changes is not None:
            parts.append(sections.changes_section(self.changes))
        return Page(f"Diagnostics of {self.names[0]}", parts, f"on {data_name}")


def diagnose(
    model: Any,
    data: RankingData,
    *,
    train: RankingData | None = None,
    against: Any = None,
    names: tuple[str, str] = ("model", "other model"),
    every: int | None = None,
    max_queries: int = 200,
    repeats: int = 50,
    samples: int = 64,
    seed: int = 0,
    threads: int | None = None,
    tell: Callable[[str], object] | None = None,
) -> Diagnosis:
    """Run all diagnostics of a model.

    Parameters
    ----------
    model
        A fitted `Ranker`, or a run that holds one.
    data
        Data to examine it on; training data shows the gradients of the training
        (without propensities and position bias).
    train
        Training data, for the generalisation gap.
    against
        Another model, for changes of queries and theorem 1.
    names
        Names of the two models.
    every
        Number of trees between two points of a curve; by default there are about 50 points.
    max_queries
        Largest number of queries, evenly spread, for directness and gradient estimates, which are costly.
    repeats, samples, seed
        As in `estimators` and `directness`.
    threads
        Number of threads; the model's ``n_jobs`` by default.
    tell
        Called with a line of text before each part.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> data = make_web_search(20, kind="short", random_state=1)
    >>> ranker = Ranker("lambdamart", n_estimators=3, verbose=0, n_jobs=1).fit(data)
    >>> diagnosis = diagnose(ranker, data, repeats=10, samples=10)
    >>> diagnosis.gap is None, diagnosis.changes is None
    (True, True)
    """
    report = tell or (lambda text: None)
    ranker = ranker_of(model)
    threads = threads_of(ranker, threads)
    target = ranker.metrics_[0].first
    if target.selects:
        raise ValueError(
            f"the model was trained for {target}, which selects documents; diagnostics are defined on rankings."
        )
    other = None if against is None else ranker_of(against)
    step = every or max(1, ranker.forest_.n_trees // _STAGES)
    report("gradient incoherency")
    curves = [incoherency_curve(ranker, data, every=step, threads=threads)]
    curves += [
        incoherency_curve(ranker, data, every=step, objective=extension, threads=threads)
        for extension in _extensions(ranker.objective_)
        if target.at is not None
    ]
    report("directness")
    sample = _spread(data, max_queries)
    scores = ranker.predict(sample)
    labels, plain = choose_label(sample.labels, target.label), replace(target, label=None)
    common: dict[str, Any] = {"labels": labels, "qid": sample.qid, "seed": seed, "threads": threads}
    smooth: dict[str, Any] = {
        **common,
        "metric": plain,
        "objective": "stochasticrank",
        "samples": samples,
    }
    gaps = [
        directness_curve(scores, **common, metric="ndcg", sigmas=_SIGMAS),
        directness_curve(scores, **smooth, sigmas=_SIGMAS, mus=_MUS),
    ]
    pair = None
    if other is not None:
        pair = directness_pair(
            directness(scores, **smooth), directness(other.predict(sample), **smooth)
        )
    report("gradient estimates")
    noise = estimators(
        scores, labels, qid=sample.qid, metric=plain, repeats=repeats, seed=seed, threads=threads
    )
    gap = changes = None
    if train is not None:
        report("generalisation gap")
        gap = generalisation_gap(ranker, train, data, every=step, threads=threads)
    if other is not None:
        report("changed queries")
        evaluations = [
            evaluate(
                candidate.predict(data),
                data.labels,
                qid=data.qid,
                metrics=[target],
                sample_weight=data.weights,
                n_jobs=threads,
            )
            for candidate in (other, ranker)
        ]
        changes = query_changes(*evaluations, names=(names[1], names[0]), seed=seed)
    used_names = names if other is not None else names[:1]
    return Diagnosis(used_names, tuple(curves), tuple(gaps), pair, noise, gap, changes)


def _extensions(objective: Objective) -> list[Objective]:
    """Return Lambda-eX of a truncated objective, for comparison; nothing for other objectives."""
    if (
        not isinstance(objective, LambdaMART | LambdaLoss)
        or objective.truncation is None
        or objective.extend
    ):
        return []
    return [replace(objective, extend="all")]


def _spread(data: RankingData, most: int) -> RankingData:
    """Return at most this many queries, evenly spread over the data."""
    if data.n_queries <= most:
        return data
    return data.subset(np.linspace(0, data.n_queries - 1, most).round().astype(np.int64))
