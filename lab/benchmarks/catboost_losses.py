"""Does a verdict on "Which Tricks" come from the loss, or from the trees? CatBoost's own losses, same data.

    python benchmarks/catboost_losses.py OUTCOMES.jsonl [FILE] [--worlds 3] [--trees 300]

The paper compares YetiRank, YetiLoss, LambdaMART and QueryRMSE as CatBoost has them, on its oblivious trees;
`rankwright-lab reproduce tricks-table2` compares rankwright's, on LightGBM's. Here both are trained on the training
queries of that table's worlds, and CatBoost's losses for NDCG@10 also on trees that CatBoost grows leaf by leaf, as
LightGBM does. The learning rate, which table 2 keeps fixed, and the number of trees are chosen on the validation
queries for each system, world and metric. Every model is evaluated on 3000 further queries of its world, which no
other choice or test has read.
CatBoost's losses are not the paper's to the letter. Its NDCG has the gain r unless ``type=Exp``. With ``top`` its
LambdaMart takes only pairs with a document of the top, and it normalises the changes by the distance of the scores. The
second derivative of its LambdaMart has the wrong sign in version 1.2.10, so that L2, 3 by default, is subtracted from
the curvature. `benchmarks/settling.py` has these losses with ``type=Exp`` and without L2.
OUTCOMES gets every training as it ends, and the same command resumes. FILE, benchmarks/results/catboost_losses.md if
left out, gets the tables.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from stochasticrank_parts import difference_cells, with_fresh_queries

from rankwright.support.files import replacing
from rankwright_lab.experiments import EXPERIMENTS
from rankwright_lab.experiments.comparison_study import NamedSystem
from rankwright_lab.harness import Outcome, OutcomeStore, RankwrightSystem, System, run_systems
from rankwright_lab.peers import CatBoost

RATES = (0.03, 0.1, 0.3)
LEAVES = 31  # what table 2 chose for most systems
TARGETS = ("ndcg@10", "map")
WORLDS = 3  # of table 2, as published here; further queries come after those of all of them
MODES = {"ndcg@10": "NDCG;top=10", "map": "MAP"}
LEAF_WISE = "CatBoost, leaf-wise"
LIBRARIES = {"ndcg@10": ("CatBoost", LEAF_WISE, "rankwright"), "map": ("CatBoost", "rankwright")}
METHODS = ("LambdaMART", "YetiLoss", "YetiRank", "QueryRMSE")
Rates = defaultdict[
    tuple[str, str, str], list[float]
]  # chosen for a library, method and target, one for each world
QUESTIONS = (  # claims of table 2 that rankwright's methods contradict
    ("YetiRank", "LambdaMART", "ndcg@10"),
    ("QueryRMSE", "LambdaMART", "ndcg@10"),
    ("YetiLoss", "LambdaMART", "map"),
    ("YetiLoss", "YetiRank", "map"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("outcomes", type=Path)
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path(__file__).parent / "results" / "catboost_losses.md",
    )
    parser.add_argument("--worlds", type=int, default=WORLDS, choices=range(1, WORLDS + 1))
    parser.add_argument("--trees", type=int, default=300)
    args = parser.parse_args()
    settings = EXPERIMENTS["tricks-table2"].settings(kind="web", folds=WORLDS)
    store, chosen, rates = OutcomeStore(args.outcomes), OutcomeStore(), Rates(list)
    for world, fold in enumerate(islice(settings.folds(), args.worlds)):
        more = with_fresh_queries(fold, settings, world)
        for target in TARGETS:
            for library in LIBRARIES[target]:
                for method in METHODS:
                    systems = {rate: system(library, method, target, rate) for rate in RATES}
                    run_systems(
                        list(systems.values()),
                        [more],
                        data=settings.data_name,
                        targets=[target] if systems[RATES[0]].by_metric else TARGETS,
                        seeds=1,
                        trees=args.trees,
                        store=store,
                        progress=say,
                    )
                    found = {
                        rate: store.find(settings.data_name, fold.name, own.name, target, 0)
                        for rate, own in systems.items()
                    }
                    outcomes = {
                        rate: outcome for rate, outcome in found.items() if outcome is not None
                    }
                    best = max(outcomes, key=lambda rate: outcomes[rate].valid)
                    rates[library, method, target].append(best)
                    own = f"{library}: {method}"
                    chosen.add(
                        replace(outcomes[best], data=f"world {world + 1}", system=own, recipe="")
                    )
    with replacing(args.file) as file:
        file.write(page(chosen, rates, args.worlds, args.trees).encode())


def system(library: str, method: str, target: str, rate: float) -> System:
    """Return a method as a library has it, at a learning rate."""
    by_metric = method in ("LambdaMART", "YetiLoss")
    name = f"{library}: {method}{f' for {target}' if by_metric else ''}, rate {rate}"
    if library == "rankwright":
        params = {"objective": method.lower(), "num_leaves": LEAVES, "learning_rate": rate}
        return RankwrightSystem(name, params, by_metric=by_metric)
    objectives = {
        "LambdaMART": f"LambdaMart:metric={MODES[target]}",
        "YetiLoss": f"YetiRank:mode={MODES[target]}",
    }
    leaf_wise = {"grow_policy": "Lossguide", "max_leaves": LEAVES, "depth": 16}
    trees = leaf_wise if library == LEAF_WISE else {}
    return CatBoostLoss(
        name, CatBoost(objectives.get(method, method), {"learning_rate": rate, **trees}), by_metric
    )


@dataclass(frozen=True)
class CatBoostLoss(NamedSystem):
    """A loss of CatBoost, which its text makes one of a metric."""

    by_metric: bool = False


def say(outcome: Outcome) -> None:
    print(
        outcome.fold,
        outcome.system,
        f"{outcome.valid:.4f}",
        outcome.trees,
        f"{outcome.fit_seconds:.0f} s",
        flush=True,
    )


def page(chosen: OutcomeStore, rates: Rates, worlds: int, trees: int) -> str:
    columns = [(library, target) for target in TARGETS for library in LIBRARIES[target]]
    head = [
        "| method | " + " | ".join(f"{library}: {target}" for library, target in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    lines = [
        "# CatBoost's losses and rankwright's on the same data",
        "",
        f"Means in per cent on 3000 further queries of each of {worlds} worlds (web, 3000 queries of 40), up to "
        f"{trees} trees; the learning rate ({', '.join(map(str, RATES))}) and the number of trees are chosen on "
        "validation queries. CatBoost grows its oblivious trees of depth 6 or, leaf-wise, trees of "
        f"{LEAVES} leaves (grow_policy=Lossguide), rankwright LightGBM's of {LEAVES} leaves. Differences in points "
        "with 95 % intervals over queries, uncorrected. Written by `lab/benchmarks/catboost_losses.py`.",
        "",
        *head,
    ]

    def mean(library: str, method: str, target: str) -> str:
        return f"{100 * chosen.evaluation(f'{library}: {method}', target).mean[target]:.2f}"

    def difference(first: str, second: str, target: str) -> str:
        return " | ".join(
            difference_cells(*(chosen.evaluation(name, target) for name in (first, second)), target)
        )

    for method in METHODS:
        lines.append(
            f"| {method} | "
            + " | ".join(mean(library, method, target) for library, target in columns)
            + " |"
        )
    lines += [
        "",
        "| claim of the paper | library | difference | 95 % interval |",
        "|---|---|--:|--:|",
    ]
    for better, worse, target in QUESTIONS:
        for library in LIBRARIES[target]:
            cells = difference(f"{library}: {worse}", f"{library}: {better}", target)
            lines.append(f"| {better} above {worse} by {target} | {library} | {cells} |")
    lines += ["", f"Each loss by {TARGETS[0]}, from {LEAF_WISE}, to", ""]
    lines += ["| method | library and trees | difference | 95 % interval |", "|---|---|--:|--:|"]
    for method in METHODS:
        for library, place in (
            ("CatBoost", "CatBoost, oblivious"),
            ("rankwright", "rankwright, leaf-wise"),
        ):
            cells = difference(f"{LEAF_WISE}: {method}", f"{library}: {method}", TARGETS[0])
            lines.append(f"| {method} | {place} | {cells} |")
    lines += ["", "Learning rates that were chosen, one for each world:", "", *head]
    for method in METHODS:
        own_rates = (
            ", ".join(map(str, rates[library, method, target])) for library, target in columns
        )
        lines.append(f"| {method} | " + " | ".join(own_rates) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
