"""Lambda-eX against truncated gradients where few documents are relevant: three generated worlds of sparse data.

    python benchmarks/extension.py OUTCOMES.jsonl [OUT] [--loss lambdaloss] [--worlds 3] [--cutoffs 5 10] [--trees 300]
                                   [--reuse FOLDER]

Each world has other weights of the features: 1500 training queries of 120 documents and 3000 test queries. LambdaMART,
or NDCG-Loss2++ with --loss lambdaloss, trains with the trees of the paper's Istella experiments, truncated at k, at k+3
and not at all, and extended in the paper's reading; LambdaMART also in the literal one. All models have the same number
of trees, so nothing is chosen, and the test queries are read once. Test NDCG after every 50 trees stands for the
paper's figure 4. OUTCOMES gets every training as it ends, and the same command resumes; FOLDER has outcomes of other
runs or kept ones, which are not computed again. The folder OUT gets the findings, which `benchmarks/papers.py` adds to
the results page. Each loss has a file of outcomes and a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from rankwright import compare, evaluate, make_web_search
from rankwright.report.page import Table
from rankwright.support.files import replacing
from rankwright_lab.experiments import Record
from rankwright_lab.experiments.claims import Claim, judge, p_text
from rankwright_lab.experiments.lambdaex import LAMBDALOSS_OPTIONS, NORMALISER, TREES
from rankwright_lab.experiments.records import package_versions
from rankwright_lab.folds import Fold
from rankwright_lab.harness import (
    Outcome,
    OutcomeStore,
    RankwrightSystem,
    hashes_of,
    nameless_recipe,
    outcome_key,
    recipe,
)
from rankwright_lab.kept_outcomes import read_reusable

TRAIN, TEST, LENGTH, STAGE = 1500, 3000, 120, 50
FOLD = f"sparse, {TRAIN} training queries of {LENGTH}"
BASELINES = {"tau=k": "truncation=k", "tau=k+3": "truncation=k+3", "tau=inf": ""}
EXTENSIONS = {
    f"eX {strategy}": f"truncation=k, extend={strategy}"
    for strategy in ("static", "all", "random", "all-static", "all-random")
}
LITERAL = {"eX static, literal": "truncation=k, extend=static, selection=literal"}
OPTIONS = BASELINES | EXTENSIONS | LITERAL
# The question that decides comes first: the default extension and what it has to beat.
ROUNDS = (
    ("eX static", "tau=k", "tau=k+3"),
    ("tau=inf", "eX all", "eX static, literal"),
    ("eX random", "eX all-static", "eX all-random"),
)


@dataclass(frozen=True)
class Loss:
    """A loss that is truncated and extended: its name in the paper, its options, and the systems it goes without."""

    title: str
    options: str = ""
    without: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The systems, the baselines first."""
        return [name for name in OPTIONS if name not in self.without]


LOSSES = {
    "lambdamart": Loss("LambdaMART"),
    "lambdaloss": Loss("LambdaLoss", LAMBDALOSS_OPTIONS, without=tuple(LITERAL)),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("outcomes", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--loss", choices=list(LOSSES), default="lambdamart")
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--cutoffs", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reuse", type=Path, nargs="+", default=[])
    args = parser.parse_args()
    store, reusable = OutcomeStore(args.outcomes), read_reusable(args.reuse)
    metrics = [f"ndcg@{k}" for k in args.cutoffs]
    work = {"trees": args.trees, "every": STAGE, "threads": args.threads}
    parts: tuple[int, Fold, list[str]] | None = None
    for target, world, system in plan(args.loss, metrics, args.worlds):
        own = recipe(system, **work)
        reported = list(dict.fromkeys([target, metrics[0]]))
        old = store.find(f"world {world}", FOLD, system.name, target, 0)
        if old is not None and old.recipe == own and old.values.keys() >= set(reported):
            continue
        if parts is None or parts[0] != world:
            data = make_web_search(
                TRAIN + TEST, kind="sparse", mean_length=LENGTH, random_state=world
            )
            train, test = data.split(TEST / (TRAIN + TEST))
            fold = Fold(FOLD, train, test, test)
            parts = world, fold, hashes_of(fold)
        _, fold, hashes = parts
        key = outcome_key(nameless_recipe(system, **work), hashes, target, 0)
        known = reusable.get(key)
        if known is not None and known.values.keys() >= set(reported):
            ids = [str(query) for query in fold.test.query_ids]
            store.add(replace(known, system=system.name, query_ids=ids, recipe=own))
            continue
        outcome = trained(system, fold, world, target, reported, args.trees, args.threads)
        store.add(replace(outcome, recipe=own, key=key))
        print(
            f"world {world}, {target}: {system.name} {outcome.curve[-1]:.4f}, {outcome.fit_seconds:.0f} s",
            flush=True,
        )
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        with replacing(args.out / "table.json") as file:
            file.write(
                (
                    json.dumps(
                        asdict(record(store, args.loss, metrics, args.trees)), ensure_ascii=False
                    )
                    + "\n"
                ).encode()
            )


def plan(loss: str, metrics: list[str], worlds: int) -> Iterator[tuple[str, int, RankwrightSystem]]:
    """Yield what to train: cutoff, world, system."""
    for names in ROUNDS:
        for target in metrics:
            for world in range(1, worlds + 1):
                for name in names:
                    if name in LOSSES[loss].names:
                        yield (
                            target,
                            world,
                            RankwrightSystem(name, {"objective": objective(loss, name), **TREES}),
                        )


def objective(loss: str, name: str) -> str:
    """Return the objective of a system of a loss, as text."""
    return f"{loss}({', '.join(filter(None, (OPTIONS[name], LOSSES[loss].options)))})"


def trained(
    system: RankwrightSystem,
    fold: Fold,
    world: int,
    target: str,
    metrics: list[str],
    trees: int,
    threads: int,
) -> Outcome:
    test = fold.test
    start = time.perf_counter()
    model = system.fit(fold.train, target, trees=trees, seed=0, threads=threads)
    fitted = time.perf_counter()
    stages = [
        evaluate(scores, test.y, group=test.group, metrics=metrics, n_jobs=threads)
        for scores in model.staged_predict(test, STAGE)
    ]
    return Outcome(
        data=f"world {world}",
        fold=fold.name,
        system=system.name,
        target=target,
        seed=0,
        trees=trees,
        valid=float("nan"),
        fit_seconds=fitted - start,
        predict_seconds=time.perf_counter() - fitted,
        query_ids=[str(query) for query in test.query_ids],
        values={name: values.tolist() for name, values in stages[-1].per_query.items()},
        curve=[stage.mean[target] for stage in stages],
    )


def record(store: OutcomeStore, loss: str, metrics: list[str], trees: int) -> Record:
    """Return the findings as a run of the paper's table 5, for `benchmarks/papers.py`."""
    worlds = sorted({outcome.data for outcome in store.outcomes})
    tables, verdicts = [], []
    for target in metrics:
        parts = {world: _part(store, target, {world}) for world in worlds} | {
            "all worlds": _part(store, target, set(worlds))
        }
        names = [
            name
            for name in LOSSES[loss].names
            if all(name in part.systems(target) for part in parts.values())
        ]
        if not names:
            continue
        for metric in dict.fromkeys([target, metrics[0]]):
            rows: list[list[str | None]] = [
                [
                    name,
                    place,
                    f"{100 * part.evaluation(name, target).mean[metric]:.2f}",
                    *(
                        _difference(part, name, base, target, metric)
                        for base in list(BASELINES)[:2]
                    ),
                ]
                for name in names
                for place, part in parts.items()
            ]
            columns = ["system", "world", metric, "over tau=k", "over tau=k+3"]
            tables.append(
                Table(f"{metric} of models trained for {target}, per cent", columns, rows)
            )
        curves = {
            name: np.mean(
                [
                    outcome.curve
                    for outcome in parts["all worlds"].outcomes
                    if outcome.system == name
                ],
                axis=0,
            )
            for name in names
        }
        stages = [str(STAGE * number) for number in range(1, len(next(iter(curves.values()))) + 1)]
        rows = [
            [name, *(f"{100 * value:.2f}" for value in curve)] for name, curve in curves.items()
        ]
        tables.append(
            Table(
                f"Figure 4: test {target} by number of trees, mean of the worlds",
                ["system", *stages],
                rows,
            )
        )
        tested = [
            Claim(name, base, target)
            for name in names
            for base in ("tau=k+3", "tau=k")
            if base in names and name not in ("tau=k", base) and "literal" not in name
        ]
        extended = [name for name in names if name in EXTENSIONS]
        tested += [
            Claim(name, "tau=inf", target, alike=True) for name in extended if "tau=inf" in names
        ]
        verdicts += judge(tested, parts["all worlds"])
    cutoffs = [metric.partition("@")[2] for metric in metrics]
    data = (
        f"generated, sparse, {TRAIN} training queries of {LENGTH} documents, {len(worlds)} worlds"
    )
    if loss != "lambdamart":
        data += f", {LOSSES[loss].title}"
    options = f"--loss {loss} --trees {trees} --cutoffs {' '.join(cutoffs)}"
    return Record(
        settings={
            "experiment": "lambdaex-table5",
            "data": f"{data}, k = {' and '.join(cutoffs)}",
            "quick": False,
        },
        command=f"python lab/benchmarks/extension.py OUTCOMES.jsonl OUT {options}",
        about={
            "title": "Lambda-eX against truncated gradients",
            "paper": "Lambda-eX",
            "source": "table 5, figure 4",
            "departs": f"Every model has {trees} trees ({TREES}); nothing is chosen, and {TEST} test queries a world "
            f"are read once. {NORMALISER} Figure 4 is on test queries here, on validation queries in the paper. "
            "Differences are in points, with p of a paired randomisation test without correction. "
            '"eX static, literal" is selection=literal, the reading that earlier figures of this page had.',
            "note": "",
        },
        tables=[asdict(table) for table in tables],
        verdicts=[asdict(verdict) for verdict in verdicts],
        versions=package_versions(),
    )


def _part(store: OutcomeStore, target: str, worlds: set[str]) -> OutcomeStore:
    """Return the outcomes of a target in these worlds, of the systems that were trained in all of them."""
    own = [
        outcome for outcome in store.outcomes if outcome.target == target and outcome.data in worlds
    ]
    part = OutcomeStore()
    for outcome in own:
        if {other.data for other in own if other.system == outcome.system} == worlds:
            part.add(outcome)
    return part


def _difference(part: OutcomeStore, name: str, base: str, target: str, metric: str) -> str | None:
    if name == base or base not in part.systems(target):
        return None
    sides = [part.evaluation(side, target) for side in (base, name)]
    line = compare(*sides, names=["than", "this"], metrics=[metric]).rows[0]
    return f"{100 * line.difference:+.2f} [{100 * line.low:+.2f}, {100 * line.high:+.2f}], p {p_text(line.p)}"


if __name__ == "__main__":
    main()
