"""What the "XE-NDCG" paper proves and simulates about its loss: the bound of theorem 1, the Jensen gap of figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.queries import Queries
from rankwright.evaluation.per_query import evaluate
from rankwright.objectives import bind
from rankwright.report.page import Cell, Table
from rankwright_lab.experiments.base import (
    AGREES,
    CONTRADICTS,
    Budget,
    Experiment,
    Findings,
    Job,
    Verdict,
)
from rankwright_lab.folds import Fold
from rankwright_lab.harness import fit_whole

_Floats = NDArray[np.float64]
_EXAMPLES, _DOCUMENTS, _DRAWS = 50, 100, 100
_SHARES = (
    0.5,
    0.2,
    0.15,
    0.1,
    0.05,
)  # of the labels 0 to 4: larger ones are rarer, as in section 5.4


def cross_entropies(
    scores: _Floats, labels: _Floats, queries: Queries, *, iteration: int = 0
) -> _Floats:
    """Return XE-NDCG of each query with a uniform gamma; queries of equal labels have no gradient, and NaN.

    The library gives gradients, softmax minus target, from which the target distribution is read off.

    Examples
    --------
    >>> cross_entropies(np.zeros(2), np.array([1.0, 0.0]), Queries.of(2, None, [2])).round(4).tolist()
    [0.6931]
    """
    bound = bind("xendcg(newton=false)", labels, group=queries.sizes, n_jobs=1)
    grad, _ = bound(scores, iteration)
    starts = queries.boundaries[:-1]
    highest = np.repeat(np.maximum.reduceat(scores, starts), queries.sizes)
    log_sum = np.repeat(np.log(np.add.reduceat(np.exp(scores - highest), starts)), queries.sizes)
    log_softmax = scores - highest - log_sum
    target = np.exp(log_softmax) - grad
    losses: _Floats = -np.add.reduceat(target * log_softmax, starts)
    mixed = np.maximum.reduceat(labels, starts) > np.minimum.reduceat(labels, starts)
    return np.where(mixed, losses, np.nan)


def jensen_gaps(seed: int = 0) -> _Floats:
    """Simulate figure 1: the Jensen gap of each example [examples, draws of gamma].

    Examples
    --------
    >>> bool((jensen_gaps() > 0).all())
    True
    """
    random = np.random.default_rng(seed)
    scores = random.uniform(size=(_EXAMPLES, 1, _DOCUMENTS))
    labels = random.choice(len(_SHARES), p=_SHARES, size=(_EXAMPLES, 1, _DOCUMENTS))
    gamma = random.uniform(size=(_EXAMPLES, _DRAWS, _DOCUMENTS))
    softmax = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    phi = 2.0**labels - gamma
    phi /= phi.sum(axis=-1, keepdims=True)
    gaps: _Floats = np.log((phi * softmax).sum(axis=-1)) - (phi * np.log(softmax)).sum(axis=-1)
    return gaps


class BoundExperiment(Experiment):
    """Theorem 1 on test queries at the scores of a model, and figure 1 by simulation."""

    def run(self, job: Job) -> Findings:
        """Train XE-NDCG on each fold, and compare both sides of the theorem along its trees."""
        stages = [
            0,
            *(
                trees
                for trees in (1, 5, 10, 50, 100, 200, 500)
                if trees <= job.settings.budget.trees
            ),
        ]
        for fold in job.settings.folds():
            for seed in range(job.settings.budget.seeds):
                if not all(
                    job.store.has(job.settings.data_name, fold.name, "xendcg", _after(n), seed)
                    for n in stages
                ):
                    _measure(job, fold, seed, stages)
        points = {
            n: [outcome.values for outcome in job.store.outcomes if outcome.target == _after(n)]
            for n in stages
        }
        rows: list[list[Cell]] = [
            [
                n,
                *(
                    f"{np.mean([values[name][0] for values in own]):.4f}"
                    for name in ("ndcg", "metric side", "loss")
                ),
            ]
            for n, own in points.items()
        ]
        theorem = Table(
            "Both sides of theorem 1 on test queries, by number of trees",
            ["trees", "mean NDCG", "-log(mean NDCG + mean 1 / ideal DCG)", "mean loss"],
            rows,
            "The theorem says that the third column is at most the fourth.",
        )
        gaps = jensen_gaps()
        quantiles = np.quantile(gaps, (0.0, 0.25, 0.5, 0.75, 1.0), axis=1).mean(axis=1)
        figure = Table(
            "Figure 1: Jensen gap over draws of gamma, mean over simulated examples",
            ["smallest", "lower quartile", "median", "upper quartile", "largest"],
            [[f"{value:.4f}" for value in quantiles]],
            f"{_EXAMPLES} examples of {_DOCUMENTS} documents with {_DRAWS} draws of gamma each. The range over it is "
            f"{np.median(np.ptp(gaps, axis=1)) / gaps.mean():.1%} of the mean gap; its standard deviation within an "
            f"example is {gaps.std(axis=1).mean():.4f}, that of the examples' means {gaps.mean(axis=1).std():.4f}.",
        )
        return Findings((theorem, figure), (_holds(list(points.values())),))


def _measure(job: Job, fold: Fold, seed: int, stages: Sequence[int]) -> None:
    from rankwright.ranker import Ranker

    options: dict[str, Any] = {
        "n_estimators": stages[-1],
        "n_jobs": job.settings.threads,
        "verbose": 0,
    }
    ranker = fit_whole(
        Ranker("xendcg", "ndcg", random_state=seed, num_leaves=31, **options), fold.train
    )
    test = fold.test
    staged = enumerate(ranker.staged_predict(test, every=1), start=1)
    at_stages = {0: np.zeros(test.n_rows)} | {
        trees: scores for trees, scores in staged if trees in stages
    }
    for trees, scores in at_stages.items():
        if job.store.has(job.settings.data_name, fold.name, "xendcg", _after(trees), seed):
            continue
        values = {name: [value] for name, value in both_sides(scores, test).items()}
        seconds = sum(ranker.times_.values())
        job.add(fold.name, "xendcg", _after(trees), seed, values, trees=trees, seconds=seconds)


def both_sides(scores: _Floats, data: RankingData) -> dict[str, float]:
    """Return mean NDCG, the side of theorem 1 that has it, and the mean loss, over queries of different labels."""
    queries = data.queries
    losses = cross_entropies(queries.group(scores), queries.group(data.y), queries)
    values = evaluate(scores, data.y, group=data.group, metrics=["ndcg"], empty="zero").per_query[
        "ndcg"
    ]
    ideal = evaluate(data.y, data.y, group=data.group, metrics=["dcg"], empty="zero").per_query[
        "dcg"
    ]
    own = ~np.isnan(losses)
    mean = float(values[own].mean())
    return {
        "ndcg": mean,
        "metric side": float(-np.log(mean + np.mean(1 / ideal[own]))),
        "loss": float(losses[own].mean()),
    }


def _after(trees: int) -> str:
    return f"after {trees} trees"


def _holds(points: Sequence[Sequence[dict[str, list[float]]]]) -> Verdict:
    slack = [values["loss"][0] - values["metric side"][0] for own in points for values in own]
    outcome = AGREES if min(slack) >= 0 else CONTRADICTS
    evidence = (
        f"smallest distance {min(slack):.3f}, largest {max(slack):.3f}, over {len(slack)} models"
    )
    return Verdict("the loss bounds NDCG as theorem 1 says", outcome, evidence)


BOUND = BoundExperiment(
    name="xendcg-figure1",
    paper="XE-NDCG",
    source="theorem 1, figure 1",
    title="The bound of XE-NDCG and the Jensen gap",
    kind="web",
    full=Budget(seeds=1, trees=500, queries=1000, length=20, folds=3),
    quick=Budget(seeds=1, trees=30, queries=150, length=20, folds=1),
    departs="The paper proves the theorem and does not measure it. Labels of the simulation are 0 to 4 with shares "
    ".5, .2, .15, .1, .05, those of section 5.4; the paper only says that larger labels are rarer.",
)

EXPERIMENTS: tuple[Experiment, ...] = (BOUND,)
