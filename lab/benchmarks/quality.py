"""Features within the query, rules of stopping, validation queries given back: rankwright and peers on test queries.

    python benchmarks/quality.py train FOLDER [--data PATH ...] [--generated KIND:QUERIES ...] [--seeds 3] [--minutes 4]
    python benchmarks/quality.py members FOLDER [--data PATH ...] [--generated KIND:QUERIES ...] [--seeds 3]
    python benchmarks/quality.py tables FOLDER [--pool mq2008 mslr_pool]

`train` trains each system on the training queries of every fold, and once more on the training and validation queries
together, with the given columns and with the ranks within the query added. It stores the value of every query after
every few trees in FOLDER, one file for each training, and the same command resumes from there. `tables` applies the
rules of stopping to the stored curves, so that a rule costs no training: trees are chosen on the validation queries by
NDCG@10, and test queries are evaluated. `members` trains `Ranker(within_query="rank", refit=True, members=8)`, with 300
trees at most and the rule of stopping as it is, for a row of its own. Seeds are averaged per query, and the test
queries of all folds are pooled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, WithinQuery, evaluate
from rankwright.evaluation.significance import fisher
from rankwright.training.stopping import Watch, errors_allowed
from rankwright_lab.bench.head_to_head import generated_folds
from rankwright_lab.folds import read_folds
from rankwright_lab.harness import RankwrightSystem
from rankwright_lab.peers import CatBoost, LightGBM, XGBoost

METRICS = ["ndcg@10", "map"]
TREES = 300
SYSTEMS: dict[str, Any] = {
    "rankwright": RankwrightSystem("rankwright"),
    "catboost QueryRMSE": CatBoost("QueryRMSE"),
    "catboost YetiRank": CatBoost("YetiRank"),
    "lightgbm lambdarank": LightGBM("lambdarank"),
    "xgboost rank:ndcg": XGBoost("rank:ndcg"),
    "rankwright, colsample 0.7": RankwrightSystem("rankwright, colsample 0.7", {"colsample": 0.7}),
    "rankwright, colsample 0.5": RankwrightSystem("rankwright, colsample 0.5", {"colsample": 0.5}),
    "rankwright, rate 0.1": RankwrightSystem("rankwright, rate 0.1", {"learning_rate": 0.1}),
    "rankwright, rate 0.3": RankwrightSystem("rankwright, rate 0.3", {"learning_rate": 0.3}),
}
# The share of the columns that Ranker(within_query="rank") looks at for a tree.
WITH_RANKS = {"rankwright": RankwrightSystem("rankwright", {"colsample": 0.7 * 0.5**0.6})}
STEERED = (
    "rankwright",
    "rankwright, colsample 0.7",
    "rankwright, colsample 0.5",
)  # whose rate follows the data
COLUMNS = ("plain", "rank")
PARTS = ("train", "all")  # what is trained on: the training queries, or the validation queries too
# Name of a way of training: columns, rule, and whether the validation queries are given back.
WAYS = {
    "best tree": ("plain", "best", False),
    "within error": ("plain", "within_error", False),
    "all trees": ("plain", "all", False),
    "ranks, best tree": ("rank", "best", False),
    "ranks, within error": ("rank", "within_error", False),
    "within error, refit": ("plain", "within_error", True),
    "ranks, within error, refit": ("rank", "within_error", True),
}
MEMBERS = "ranks, within error, refit, 8 members"


def train(args: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * args.minutes
    for name, folds in sources(args):
        for fold in folds():
            wanted = [
                (system, columns, part, seed)
                for seed in range(args.seeds)
                for system in args.systems
                for part in args.parts
                for columns in args.columns
                if getattr(SYSTEMS[system], "by_seed", True) or seed == 0
            ]
            versions: dict[str, tuple[RankingData, ...]] = {}
            for system, columns, part, seed in wanted:
                path = args.folder / name / file_name(fold.name, system, columns, part, seed)
                if path.exists():
                    continue
                if time.monotonic() > end:
                    print("out of time; the same command resumes", flush=True)
                    return
                if columns not in versions:
                    versions[columns] = tuple(
                        with_columns(one, columns) for one in (fold.train, fold.valid, fold.test)
                    )
                own, valid, test = versions[columns]
                own = RankingData.concatenate([own, valid]) if part == "all" else own
                every = 1 if system.startswith("rankwright") else 5
                start = time.perf_counter()
                trained = (
                    WITH_RANKS.get(system, SYSTEMS[system])
                    if columns == "rank"
                    else SYSTEMS[system]
                )
                model = trained.fit(own, "ndcg@10", trees=TREES, seed=seed, threads=1)
                seconds = time.perf_counter() - start
                curves = {"test": curve(model, test, every)}
                if part == "train":
                    curves["valid"] = curve(model, valid, every)
                arrays = {
                    f"{side} {m}": values
                    for side, each in curves.items()
                    for m, values in each.items()
                }
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez_compressed(path, every=every, seconds=seconds, rows=own.n_rows, **arrays)
                print(
                    f"{name}, fold {fold.name}, seed {seed}: {system}, {columns}, {part}: {seconds:.1f} s",
                    flush=True,
                )
    print("complete", flush=True)


def train_members(args: argparse.Namespace) -> None:
    for name, folds in sources(args):
        for fold in folds():
            for seed in range(args.seeds):
                path = args.folder / name / "members" / f"{fold.name}_{seed}.npz"
                if path.exists():
                    continue
                options = {
                    "within_query": "rank",
                    "early_stopping_rounds": TREES,
                    "refit": True,
                    "members": 8,
                }
                ranker = Ranker(
                    metric="ndcg@10",
                    n_estimators=TREES,
                    **options,
                    random_state=seed,
                    n_jobs=1,
                    verbose=0,
                )
                scores = ranker.fit(fold.train, eval_set=[fold.valid]).predict(fold.test)
                test = fold.test
                values = evaluate(
                    scores, test.y, group=test.group, metrics=METRICS, n_jobs=1
                ).per_query
                path.parent.mkdir(parents=True, exist_ok=True)
                trees = sum(ranker.manifest_["members"]) / len(ranker.manifest_["members"])
                np.savez_compressed(path, trees=trees, **values)
                print(f"{name}, fold {fold.name}, seed {seed}", flush=True)


def tested_members(folder: Path) -> tuple[dict[str, Any], float, int] | None:
    """Return what `tested` returns, of the average of eight members."""
    by_fold: dict[str, list[Any]] = {}
    for path in sorted((folder / "members").glob("*.npz")):
        by_fold.setdefault(path.name.split("_")[0], []).append(np.load(path))
    if len(by_fold) < 5:
        return None
    every = [one for fold in by_fold.values() for one in fold]
    return pooled(by_fold), float(np.mean([one["trees"] for one in every])), len(every)


def with_columns(data: RankingData, columns: str) -> RankingData:
    """Add the ranks as columns, so that all systems see the same ones."""
    if columns == "plain":
        return data
    return RankingData(
        WithinQuery("rank").fit_transform(data.X, group=data.group), data.y, qid=data.qid
    )


def file_name(fold: str, system: str, columns: str, part: str, seed: int | str) -> str:
    return f"{fold}_{system.replace(':', '-').replace(' ', '-')}_{columns}_{part}_{seed}.npz"


def curve(model: Any, data: RankingData, every: int) -> dict[str, Any]:
    stages = [
        evaluate(scores, data.y, group=data.group, metrics=METRICS, n_jobs=1).per_query
        for scores in model.staged_predict(data, every)
    ]
    return {name: np.array([stage[name] for stage in stages], dtype=np.float32) for name in METRICS}


def sources(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    for path in args.data:
        yield path.stem.split(".")[0], lambda path=path: read_folds(path)
    for text in args.generated:
        kind, _, queries = text.partition(":")
        yield f"{kind}-{queries}", generated_folds(kind, int(queries))[1]


def chosen_stage(values: Any, rule: str, system: str) -> int:
    """Return the stage that a rule chooses; ``values`` is [stage, validation query]."""
    if rule == "all":
        return len(values) - 1
    watch = Watch(rule, errors=errors_allowed(steered=system in STEERED))
    curve = np.nanmean(values, axis=1)
    return [
        watch.see(n, one, curve[n]).iteration for n, one in enumerate(values.astype(np.float64))
    ][-1]


def tested(folder: Path, system: str, way: str) -> tuple[dict[str, Any], float, int] | None:
    """Return values per test query by metric, the mean number of trees, and the number of trainings."""
    columns, rule, refit = WAYS[way]
    by_fold: dict[str, list[dict[str, Any]]] = {}
    trees = []
    for path in sorted(folder.glob(file_name("*", system, columns, "train", "*"))):
        first = np.load(path)
        stage = chosen_stage(first["valid ndcg@10"], rule, system)
        source = first
        if refit:
            other = path.with_name(path.name.replace("_train_", "_all_"))
            if not other.exists():
                continue
            source = np.load(other)
            scaled = (stage + 1) * float(source["rows"]) / float(first["rows"])
            stage = min(len(source["test map"]), round(scaled)) - 1
        trees.append((stage + 1) * int(source["every"]))
        values = {metric: source[f"test {metric}"][stage].astype(np.float64) for metric in METRICS}
        by_fold.setdefault(path.name.split("_")[0], []).append(values)
    if len(by_fold) < 5:
        return None
    return pooled(by_fold), float(np.mean(trees)), len(trees)


def pooled(by_fold: dict[str, list[Any]]) -> dict[str, Any]:
    """Average the values of each query over seeds, and take the queries of all folds together."""
    return {
        metric: np.concatenate(
            [np.mean([one[metric] for one in fold], axis=0) for _, fold in sorted(by_fold.items())]
        )
        for metric in METRICS
    }


def compared(values: Any, others: Any) -> tuple[str, str]:
    """Return the mean difference in points with its standard error, and the p-value of the randomisation test."""
    d = values - others
    d = d[~np.isnan(d)]
    p = fisher(d, None, 20_000, (0, 0)) if np.any(d) else 1.0
    return f"{100 * d.mean():+.2f} ± {100 * d.std(ddof=1) / len(d) ** 0.5:.2f}", f"{p:.4f}"


def tables(args: argparse.Namespace) -> None:
    for folder in sorted(path for path in args.folder.iterdir() if path.is_dir()):
        found = {(system, way): tested(folder, system, way) for system in SYSTEMS for way in WAYS}
        found["rankwright", MEMBERS] = tested_members(folder)
        known = {key: value for key, value in found.items() if value is not None}
        base = known.get(("rankwright", "best tree"))
        if base is None:
            continue
        print(
            f"\n## {folder.name}\n\nDifferences in points from rankwright with the best tree, ± standard error.\n"
        )
        print(
            "| system | way | trainings | trees | NDCG@10 | difference | p | MAP | difference | p |"
        )
        print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for (system, way), (values, trees, count) in known.items():
            cells = []
            for metric in METRICS:
                cells += [
                    f"{100 * np.nanmean(values[metric]):.2f}",
                    *compared(values[metric], base[0][metric]),
                ]
            print(f"| {system} | {way} | {count} | {trees:.0f} | {' | '.join(cells)} |")
        for versus in args.versus:
            ours, theirs = (
                known.get(tuple(name.strip() for name in text.split("/", 1)))
                for text in versus.split(" vs ")
            )
            if ours is None or theirs is None:
                continue
            for metric in METRICS:
                difference, p = compared(ours[0][metric], theirs[0][metric])
                print(f"\n{versus}: {metric} {difference}, p {p}")


def pooled_tables(args: argparse.Namespace) -> None:
    """Compare the ways of training of the first system over the test queries of several data sets together."""
    system = args.systems[0]
    by_way = {way: [tested(args.folder / name, system, way) for name in args.pool] for way in WAYS}
    known = {way: found for way, found in by_way.items() if all(one is not None for one in found)}
    values = {
        way: {
            metric: np.concatenate([one[0][metric] for one in found if one is not None])
            for metric in METRICS
        }
        for way, found in known.items()
    }
    print(f"\n## {' and '.join(args.pool)}, {system}, all test queries together\n")
    print("| way | NDCG@10, difference | p | MAP, difference | p |\n|---|--:|--:|--:|--:|")
    for way in values:
        cells = [
            cell
            for metric in METRICS
            for cell in compared(values[way][metric], values["best tree"][metric])
        ]
        print(f"| {way} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "members", "tables"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--generated", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS)[:5], choices=list(SYSTEMS))
    parser.add_argument("--columns", nargs="*", default=list(COLUMNS), choices=COLUMNS)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--versus", nargs="*", default=[], help="'SYSTEM / WAY vs SYSTEM / WAY'")
    parser.add_argument(
        "--pool", nargs="*", default=[], help="data sets whose test queries are taken together too"
    )
    args = parser.parse_args()
    {"train": train, "members": train_members, "tables": tables}[args.what](args)
    if args.what == "tables" and args.pool:
        pooled_tables(args)


if __name__ == "__main__":
    main()
