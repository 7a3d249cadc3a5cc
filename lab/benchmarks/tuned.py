"""rankwright and its peers after equal tuning: the same number of trials for all, evaluated on validation queries.

    python benchmarks/tuned.py DATA OUT.json [--trials 10] [--seeds 5] [--targets ndcg@10 map] [--systems NAME ...]

DATA is a folder or file that `rankwright bench` reads, or generated data such as ``web:100``: a kind and a number of
queries. For each fold, system and target, the first trial has the library's defaults and the others are drawn at
random from the same kinds of tree parameters for all (`SEARCH_SPACES` of `rankwright_lab.peers`, and
`RANKWRIGHT_SPACE` here). The trial with the best validation value is trained with all seeds, and only then are the test
queries scored. OUT.trials.jsonl and OUT.outcomes.jsonl store the measurements, and the same command resumes from them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import optuna

from rankwright.support.environment import environment
from rankwright.support.files import replacing
from rankwright.tuning.space import Choice, Range, sample
from rankwright_lab.bench.head_to_head import METRICS, PACKAGES, generated_folds
from rankwright_lab.bench.summary import quality
from rankwright_lab.experiments.tuned import TunedSystem
from rankwright_lab.folds import Fold, read_folds
from rankwright_lab.harness import OutcomeStore, RankwrightSystem, System, libraries_of, run_systems
from rankwright_lab.peers import SEARCH_SPACES, peers

TREES = 300
RANKWRIGHT_SPACE: dict[str, Any] = {
    "learning_rate": Choice((None, 0.02, 0.05, 0.1)),
    "num_leaves": Range(4, 64, log=True),
    "min_child_samples": Range(5, 200, log=True),
    "reg_lambda": Range(0.01, 100.0, log=True),
    "subsample": Range(0.4, 1.0),
    "colsample": Range(0.2, 1.0),
    "bagging_temperature": Range(0.0, 1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--targets", nargs="+", default=["ndcg@10", "map"])
    parser.add_argument("--systems", nargs="+", help="names; all by default")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    systems: list[Any] = [RankwrightSystem("rankwright"), *peers()]
    if args.systems:
        systems = [one for one in systems if one.name in args.systems]
    trials = OutcomeStore(args.out.with_suffix(".trials.jsonl"))
    outcomes = OutcomeStore(args.out.with_suffix(".outcomes.jsonl"))
    chosen: list[dict[str, Any]] = []
    data, folds = folds_of(args.data)
    for fold in folds:
        for system in systems:
            candidates = variants(system, args.trials)
            search(candidates, fold, args.targets, trials, args.threads)
            for target in args.targets:
                best = max(
                    candidates,
                    key=lambda one: trials.find("", fold.name, one.name, target, 0).valid,
                )  # type: ignore[union-attr]
                chosen.append(
                    {
                        "fold": fold.name,
                        "system": system.name,
                        "target": target,
                        "params": dict(best.params),
                    }
                )
                run_systems(
                    [
                        TunedSystem(
                            system.name, best, [best.name, best.params], partial(as_chosen, best)
                        )
                    ],
                    [fold],
                    data=data,
                    targets=[target],
                    metrics=METRICS,
                    seeds=args.seeds,
                    trees=TREES,
                    threads=args.threads,
                    store=outcomes,
                )
                print(
                    f"fold {fold.name}: {system.name} for {target}: {dict(best.params)}", flush=True
                )
    names = [system.name for system in systems]
    result = {
        "data": data,
        "settings": {"trials": args.trials, "seeds": args.seeds, "trees": TREES},
        "environment": environment(PACKAGES),
        "quality": [
            row for target in args.targets for row in quality(outcomes, [data], names, target)
        ],
        "chosen": chosen,
    }
    with replacing(args.out) as file:
        file.write((json.dumps(result, indent=1) + "\n").encode())
    for target in args.targets:
        print(outcomes.comparison(target, baseline=names[0]), flush=True)


def as_chosen(system: System) -> tuple[System, str]:
    """Return a system that is known already as the result of a search."""
    return system, ""


def variants(system: Any, count: int) -> list[Any]:
    """Return the system with its defaults and with random parameters, the same draws for every fold and target."""
    space = (
        RANKWRIGHT_SPACE
        if isinstance(system, RankwrightSystem)
        else SEARCH_SPACES[system.name.split()[0]]
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    params_of = [{}, *(sample(space, study.ask()) for _ in range(count - 1))]
    return [NumberedSystem(system, number, params) for number, params in enumerate(params_of)]


class NumberedSystem:
    """A system with the parameters of a trial, named by the number of the trial."""

    def __init__(self, system: Any, number: int, params: dict[str, Any]) -> None:
        self.params = params
        self.name = f"{system.name} #{number}"
        self.by_metric: bool = system.by_metric
        self.libraries = libraries_of(system)
        self._system = replace(system, params={**system.params, **params})

    def fit(self, train: Any, metric: str, *, trees: int, seed: int, threads: int) -> Any:
        return self._system.fit(train, metric, trees=trees, seed=seed, threads=threads)


def folds_of(text: str) -> tuple[str, Iterable[Fold]]:
    """Return the name of the data, and its folds."""
    kind, _, queries = text.partition(":")
    if queries.isdigit():
        name, folds = generated_folds(kind, int(queries))
        return name, folds()
    return Path(text).name, read_folds(text)


def search(
    candidates: Sequence[System],
    fold: Fold,
    targets: Sequence[str],
    trials: OutcomeStore,
    threads: int,
) -> None:
    """Train each system once; the validation queries replace the test queries, which are not read."""
    hidden = Fold(fold.name, fold.train, fold.valid, fold.valid)
    run_systems(
        candidates,
        [hidden],
        data="",
        targets=targets,
        seeds=1,
        trees=TREES,
        threads=threads,
        store=trials,
    )


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    main()
