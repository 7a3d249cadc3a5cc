"""What tuned systems of StochasticRank's experiments do where all else is equal: a diagnosis of tables 2 and 3.

    python benchmarks/stochasticrank_parts.py RUN [FILE]

RUN is a finished run of `rankwright-lab reproduce stochasticrank-table3` or `stochasticrank-table2` on generated
data. Its systems were tuned one by one, so that their differences contain the luck of each search, and the limits of
its budget. Here the parameters that a search found are kept. For table 3 one part at a time is changed: mu, Langevin
boosting, SFA, or the estimator. For table 2 the systems get as many trees as the paper has, 1000. A system whose
outcomes the run took over from another one (--reuse) has no trials in its folder; it is searched again, with the same
trials. Every model is evaluated on 3000 further queries of its world, which no search, validation or test has read. A
table with the differences and their intervals is added to FILE, benchmarks/results/stochasticrank_parts.md if left
out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, compare, evaluate, make_web_search
from rankwright.evaluation.per_query import Evaluation
from rankwright.objectives import StochasticRank, objective
from rankwright.support.files import replacing
from rankwright_lab.experiments import EXPERIMENTS
from rankwright_lab.experiments.base import ExperimentSettings, Job
from rankwright_lab.experiments.comparison_study import ComparisonStudy
from rankwright_lab.experiments.tuned import tune_on_fold
from rankwright_lab.folds import Fold
from rankwright_lab.harness import OutcomeStore, RankwrightSystem

FRESH, TARGET, SEEDS, EVERY = 3000, "ndcg@5", 3, 20
MUS = (0.01, 0.1, 1.0)
MORE_TREES = 1000
STARTS = {  # the systems whose parameters are kept
    "stochasticrank-table3": ("CCS + SFA + SGLB",),
    "stochasticrank-table2": ("LambdaMART", "E-LambdaLoss", "SR-R1 soft", "SR-R1"),
}
Values = dict[
    tuple[str, str, str], list[Evaluation]
]  # by features, system and change; one for each world


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    results = Path(__file__).parent / "results" / "stochasticrank_parts.md"
    parser.add_argument("file", nargs="?", type=Path, default=results)
    arguments = parser.parse_args()
    run, out = arguments.run, arguments.file
    stored = json.loads((run / "settings.json").read_text())
    study = EXPERIMENTS[stored["experiment"]]
    assert isinstance(study, ComparisonStudy)
    budget = {
        name: stored[name] for name in ("seeds", "trees", "queries", "length", "folds", "trials")
    }
    settings = study.settings(kind=stored["kind"], **budget)
    by_parts = study.name == "stochasticrank-table3"
    values: Values = {}
    for number, fold in enumerate(settings.folds()):
        more = with_fresh_queries(fold, settings, number)
        for condition in study.conditions if by_parts else study.conditions[:1]:
            changed = condition.change(more, 0)
            for start, params in found(study, run, settings, changed, condition.name):
                cases = (
                    parts(params)
                    if by_parts
                    else [("as found", params), (f"{MORE_TREES} trees", params)]
                )
                for change, varied in cases:
                    trees = MORE_TREES if change == f"{MORE_TREES} trees" else settings.budget.trees
                    evaluation = trained(varied, changed, trees)
                    values.setdefault((condition.name, start, change), []).append(evaluation)
                    print(
                        number + 1,
                        condition.name,
                        start,
                        change,
                        f"{evaluation.mean[TARGET]:.4f}",
                        flush=True,
                    )
    old = (
        out.read_text()
        if out.exists()
        else "# StochasticRank's experiments, all else being equal\n"
    )
    with replacing(out) as file:
        file.write((old + "\n" + section(values, study.name, settings)).encode())


def with_fresh_queries(fold: Fold, settings: ExperimentSettings, world: int) -> Fold:
    """Replace the test queries by others of the same world that come after those of all worlds."""
    first = 2 * int(settings.budget.queries or 0) * int(settings.budget.folds or 0)
    kinds: dict[str, Any] = {"kind": settings.kind, "mean_length": settings.budget.length}
    fresh = make_web_search(FRESH, first_query=first, random_state=world, **kinds)
    return replace(fold, test=fresh)


def found(
    study: ComparisonStudy, run: Path, settings: ExperimentSettings, fold: Fold, condition: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters that the searches of the run found, by the name of the system."""
    job = Job(settings, OutcomeStore(run / "outcomes.jsonl"))
    for system in study.systems:
        if system.name not in STARTS[study.name]:
            continue
        name = f"{system.name}, {condition}" if condition else system.name
        tuned = tune_on_fold(job, fold, system, name, TARGET, study.spaces[system.name]).system
        assert isinstance(tuned, RankwrightSystem)
        yield system.name, dict(tuned.params)


def parts(params: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters as found, and with one part changed at a time."""
    own = objective(params["objective"])
    assert isinstance(own, StochasticRank)
    yield "as found", params
    yield "REINFORCE for CCS", {**params, "objective": replace(own, estimator="reinforce")}
    yield "without SFA", {**params, "objective": replace(own, sfa=False)}
    yield "without Langevin boosting", {**params, "langevin": False}
    for mu in (0.0, *MUS) if own.mu else MUS:
        yield f"mu = {mu:g}", {**params, "objective": replace(own, mu=mu)}


def trained(params: dict[str, Any], fold: Fold, trees: int) -> Evaluation:
    """Train with the seeds, choose the number of trees on the validation queries, and return the mean per query."""
    rows = []
    for seed in range(SEEDS):
        options: dict[str, Any] = {
            "n_estimators": trees,
            "random_state": seed,
            "n_jobs": 1,
            "verbose": 0,
        }
        ranker = Ranker(metric=TARGET, **params, **options).fit(fold.train)
        stages = ranker.staged_predict(fold.valid, every=EVERY)
        curve = [
            evaluate(z, fold.valid.y, group=fold.valid.group, metrics=TARGET).mean[TARGET]
            for z in stages
        ]
        chosen = next(
            islice(ranker.staged_predict(fold.test, every=EVERY), int(np.argmax(curve)), None)
        )
        best = evaluate(chosen, fold.test.y, qid=fold.test.qid, metrics=TARGET)
        rows.append(best.per_query[TARGET])
    per_query = np.mean(rows, axis=0)
    return replace(best, per_query={TARGET: per_query}, mean={TARGET: float(np.nanmean(per_query))})


def pooled(evaluations: list[Evaluation]) -> Evaluation:
    per_query = np.concatenate([one.per_query[TARGET] for one in evaluations])
    ids = np.array(
        [f"{world} {query}" for world, one in enumerate(evaluations) for query in one.query_ids]
    )
    mean = {TARGET: float(np.nanmean(per_query))}
    return replace(evaluations[0], per_query={TARGET: per_query}, mean=mean, query_ids=ids)


def section(values: Values, experiment: str, settings: ExperimentSettings) -> str:
    """Return a table; without parts, differences between systems too, from the last one at the same trees."""
    lines = [
        f"## {experiment}",
        "",
        f"{TARGET} in per cent on {FRESH} further queries of each of {settings.budget.folds} worlds, {SEEDS} seeds "
        "averaged, of the models that the searches found, and the difference in points, with a 95 % interval over "
        "queries, when the change is made. Uncorrected. Written by `lab/benchmarks/stochasticrank_parts.py`.",
        "",
        "| features | parameters found for | change | NDCG@5 | difference | 95 % interval |",
        "|---|---|---|--:|--:|--:|",
    ]
    for (condition, start, change), own in values.items():
        mean, cells = f"{100 * pooled(own).mean[TARGET]:.2f}", ["–", "–"]
        if change != "as found":
            cells = difference(values[condition, start, "as found"], own)
        lines.append("| " + " | ".join([condition or "all", start, change, mean, *cells]) + " |")
    if experiment == "stochasticrank-table2":
        lines += ["", "| systems | trees | difference | 95 % interval |", "|---|---|--:|--:|"]
        *others, last = STARTS[experiment]
        for change in ("as found", f"{MORE_TREES} trees"):
            for other in others:
                cells = difference(values["", other, change], values["", last, change])
                lines.append("| " + " | ".join([f"{last} less {other}", change, *cells]) + " |")
    return "\n".join(lines) + "\n"


def difference(first: list[Evaluation], second: list[Evaluation]) -> list[str]:
    return difference_cells(pooled(first), pooled(second), TARGET)


def difference_cells(first: Evaluation, second: Evaluation, target: str) -> list[str]:
    """Return the difference of the second and the first in points, and its interval."""
    row = compare(first, second, names=["first", "second"], metrics=[target]).rows[0]
    return [f"{100 * row.difference:+.2f}", f"[{100 * row.low:+.2f}, {100 * row.high:+.2f}]"]


if __name__ == "__main__":
    main()
