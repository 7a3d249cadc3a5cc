"""Rules of early stopping, simulated on trainings of 2000 trees: quality lost against trees saved.

    python benchmarks/stopping.py train CURVES [--data FOLDER_OR_FILE ...]
    python benchmarks/stopping.py choose CURVES
    python benchmarks/stopping.py report CURVES

``train`` trains once for each fold and learning rate, and keeps the value of each validation and test query after each
tree in the folder CURVES; the same command resumes. The other commands follow each rule through these values, as a
training with early stopping would. ``choose`` reads no test query of the data given: one half of the validation queries
is watched and the other half judges, and then the other way round. Test queries of generated worlds judge there too.
``report`` watches all validation queries, and judges by the test queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright import Ranker, RankingData, make_web_search
from rankwright.evaluation.per_query import Evaluator
from rankwright.training.stopping import Watch, errors_allowed
from rankwright_lab.folds import read_folds

Floats = NDArray[np.float64]

METRIC, TREES, PATIENCES, SEEDS = "ndcg@10", 2000, (20, 50, 100), range(5)
# Kind, mean length, queries of training, validation and test.
WORLDS = (("web", 60, 100, 40, 400), ("short", 24, 200, 80, 800), ("sparse", 100, 100, 40, 400))
RATES: dict[str, float | None] = {"steered": None, "0.1": 0.1, "0.3": 0.3}


class Fold(NamedTuple):
    """Training, validation and test queries."""

    data: str
    number: str
    train: RankingData
    valid: RankingData
    test: RankingData


def folds(paths: Sequence[Path]) -> Iterator[Fold]:
    for path in paths:
        for fold in read_folds(path):
            yield Fold(path.name.split(".")[0], fold.name, fold.train, fold.valid, fold.test)
    for kind, length, *sizes in WORLDS:
        for seed in SEEDS:
            starts = np.cumsum([0, *sizes])
            parts = [
                make_web_search(
                    size, kind=kind, mean_length=length, first_query=int(start), random_state=seed
                )
                for size, start in zip(sizes, starts[:-1], strict=True)
            ]
            yield Fold(kind, str(seed), *parts)


def values_by_tree(ranker: Ranker, data: RankingData) -> Floats:
    """Return the value of each query after each tree [trees, queries]."""
    evaluator = Evaluator(data.labels, group=data.group, metrics=[METRIC], threads=1)
    return np.array(
        [evaluator(scores).per_query[METRIC] for scores in ranker.staged_predict(data.X)]
    )


def train_all(folder: Path, paths: Sequence[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for rate, learning_rate in RATES.items():
        for fold in folds(paths):
            file = folder / f"{fold.data} {fold.number} {rate}.npz"
            if file.exists():
                continue
            ranker = Ranker(
                n_estimators=TREES, learning_rate=learning_rate, n_jobs=1, verbose=0
            ).fit(fold.train)
            parts = {
                name: values_by_tree(ranker, getattr(fold, name)) for name in ("valid", "test")
            }
            np.savez_compressed(file, **parts)
            print(file.name, flush=True)


class Outcome(NamedTuple):
    """The tree that a model would end with, and the trees that were grown."""

    tree: int
    grown: int


# A rule follows the values of the watched queries [trees, queries].
Rule = Callable[[Floats, int, float], Outcome]


def best(values: Floats, patience: int, errors: float) -> Outcome:
    """End with the best tree, and stop so many trees after it."""
    return patient(values, patience, errors, rule="best")


def old(values: Floats, patience: int, errors: float) -> Outcome:
    """End with the last tree within so many errors of the best, and stop so many trees after it."""
    return patient(values, patience, errors, rule="within_error")


def patient(values: Floats, patience: int, errors: float, *, rule: str) -> Outcome:
    watch = Watch(rule, errors=errors)
    chosen = 0
    for number, (each, mean) in enumerate(zip(values, np.nanmean(values, axis=1), strict=True), 1):
        chosen = watch.see(number, each, mean).iteration
        if number - chosen >= patience:
            return Outcome(chosen, number)
    return Outcome(chosen, len(values))


def after_smoothed(window: Callable[[int], int], *, keep: str = "within_error") -> Rule:
    """Stop so many trees after the last improvement of the mean over some trees."""

    def rule(values: Floats, patience: int, errors: float) -> Outcome:
        means = np.nanmean(values, axis=1)
        sums = np.cumsum(np.concatenate([[0.0], means]))
        trees = np.arange(1, len(means) + 1)
        width = np.minimum(trees, window(patience))
        smoothed = (sums[trees] - sums[trees - width]) / width
        improved, highest, number = 0, -np.inf, 0
        for number, value in enumerate(smoothed, 1):
            if value > highest:
                improved, highest = number, value
            if number - improved >= patience:
                break
        return Outcome(patient(values[:number], len(values), errors, rule=keep).tree, number)

    return rule


def at_most(factor: float) -> Rule:
    """Follow the old rule, but end at most ``factor`` times as many trees as the best tree."""

    def rule(values: Floats, patience: int, errors: float) -> Outcome:
        watch = Watch("within_error", errors=errors)
        highest, best_tree, chosen, level = -np.inf, 0, 0, 0
        means = np.nanmean(values, axis=1)
        for number, (each, mean) in enumerate(zip(values, means, strict=True), 1):
            level = watch.see(number, each, mean).iteration
            if mean > highest:
                highest, best_tree = mean, number
            if level <= max(best_tree, factor * best_tree):
                chosen = level
            if number - chosen >= patience:
                return Outcome(chosen, number)
        return Outcome(chosen, len(values))

    return rule


RULES: dict[str, Rule] = {
    "old": old,
    "new: mean of 50": after_smoothed(lambda patience: 50),
    "best": best,
    "mean of 1": after_smoothed(lambda patience: 1),
    "mean of 10": after_smoothed(lambda patience: 10),
    "mean of 20": after_smoothed(lambda patience: 20),
    "mean of the patience": after_smoothed(lambda patience: patience),
    "mean of 50, best kept": after_smoothed(lambda patience: 50, keep="best"),
    "at most 1.5 x best": at_most(1.5),
    "at most 2 x best": at_most(2.0),
    "at most 3 x best": at_most(3.0),
}


def judged(file: Path, *, choose: bool) -> Iterator[tuple[Floats, Floats]]:
    """Yield values of watched and of judging queries [trees, queries] of a training."""
    with np.load(file) as curves:
        valid, test = (counted(curves[name]) for name in ("valid", "test"))
    generated = file.name.split()[0] in [kind for kind, *_ in WORLDS]
    if generated or not choose:
        yield valid, test
        return
    order = np.random.default_rng(0).permutation(valid.shape[1])
    first, second = (valid[:, half] for half in np.array_split(order, 2))
    yield first, second
    yield second, first


def counted(values: Floats) -> Floats:
    """Leave out queries without a relevant document."""
    return values[:, ~np.isnan(values).any(axis=0)]


def outcomes(files: Sequence[Path], rate: str, *, choose: bool) -> dict[Any, list[Any]]:
    """Return (kept, grown, values of the judging queries) of each training, by (patience, rule)."""
    found: dict[Any, list[Any]] = {}
    errors = errors_allowed(steered=rate == "steered")
    for file in files:
        for watched, judges in judged(file, choose=choose):
            for patience in PATIENCES:
                for name, rule in RULES.items():
                    end = rule(watched, patience, errors)
                    row = (end.tree, end.grown, 100 * judges[end.tree - 1])
                    found.setdefault((patience, name), []).append(row)
            for trees in (300, TREES):
                row = (trees, trees, 100 * judges[trees - 1])
                found.setdefault(("", f"all {trees}"), []).append(row)
    return found


def table(folder: Path, rate: str, *, choose: bool) -> Iterator[str]:
    """Yield a table: the old rule's quality, differences from it, and trees kept / grown."""
    by_data: dict[str, dict[Any, list[Any]]] = {}
    for data in ("mq2008", "mslr_pool", *(kind for kind, *_ in WORLDS)):
        files = sorted(folder.glob(f"{data} * {rate}.npz"))
        if files and (choose or data not in [kind for kind, *_ in WORLDS]):
            by_data[data] = outcomes(files, rate, choose=choose)
    yield f"| {rate}: patience, rule | " + " | ".join(by_data) + " | all: difference, trees |"
    yield "|---|" + "---|" * (len(by_data) + 1)
    for key in next(iter(by_data.values())):
        patience = key[0] or PATIENCES[1]
        cells, differences, trees = [], [], []
        for found in by_data.values():
            kept, grown, values = zip(*found[key], strict=True)
            *_, old_values = zip(*found[patience, "old"], strict=True)
            quality, reference = np.concatenate(values), np.concatenate(old_values)
            apart = quality - reference
            differences.append(apart.mean())
            trees.append((np.mean(kept), np.mean(grown)))
            text = f"{apart.mean():+.2f} ± {apart.std() / len(apart) ** 0.5:.2f}"
            if key[1] == "old":
                text = f"{quality.mean():.2f}"
            cells.append(f"{text}, {np.mean(kept):.0f} / {np.mean(grown):.0f}")
        kept, grown = np.mean(trees, axis=0)
        cells.append(f"{np.mean(differences):+.2f}, {kept:.0f} / {grown:.0f}")
        yield f"| {key[0]} {key[1]} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["train", "choose", "report"])
    parser.add_argument("curves", type=Path)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    if args.command == "train":
        train_all(args.curves, args.data)
        return
    for rate in RATES:
        if list(args.curves.glob(f"*{rate}.npz")):
            print("\n".join([*table(args.curves, rate, choose=args.command == "choose"), ""]))


if __name__ == "__main__":
    main()
