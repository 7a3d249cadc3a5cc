"""Experiments that settle why a claim of a paper does not hold here: everything else is held equal.

    python benchmarks/settling.py OUTCOMES.jsonl [FILE] [--only QUESTION ...] [--data MQ2008 ...]

A question names data, systems and pairs of them. Each system is trained at every learning rate of the question. The
rate and the number of trees are chosen on the validation queries, for each system, data set and metric. The values are
of test queries that no other choice has read: further queries of a generated world, or the test part of a fold of
the folders and files given by --data.
OUTCOMES gets every training as it ends, and the same command resumes. FILE, benchmarks/results/settling.md if left
out, gets the tables of all questions that have outcomes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stochasticrank_parts import difference_cells

from rankwright import RankingData, make_web_search
from rankwright.support.files import replacing
from rankwright_lab.corruption import with_label_noise
from rankwright_lab.experiments.comparison_study import NamedSystem
from rankwright_lab.experiments.stochasticrank import tied
from rankwright_lab.folds import Fold, read_folds
from rankwright_lab.harness import Outcome, OutcomeStore, RankwrightSystem, System, run_systems
from rankwright_lab.peers import CatBoost, LightGBM
from rankwright_lab.symmetric import ENGINE

RESULTS = Path(__file__).parent / "results" / "settling.md"
Maker = Callable[[float], System]  # a system at a learning rate


@dataclass(frozen=True)
class Question:
    """One question, and the trainings that answer it.

    Parameters
    ----------
    title
        The question in words.
    data
        Functions that yield the data sets, by name; data of one name are pooled.
    systems
        Functions from a learning rate to a system, by name.
    targets
        Metrics.
    pairs
        Pairs of systems, the one that the paper has ahead first.
    rates
        Learning rates, one of which is chosen on the validation queries.
    trees
        Largest number of trees.
    on_real_data
        Whether the data given by ``--data`` are added.
    """

    title: str
    data: Mapping[str, Callable[[], Iterator[Fold]]]
    systems: Mapping[str, Maker]
    targets: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    rates: tuple[float, ...]
    trees: int
    on_real_data: bool = False


def worlds(
    count: int,
    queries: int,
    length: float,
    *,
    kind: str = "web",
    fresh: int = 3000,
    change: Callable[[RankingData, int], RankingData] = lambda train, world: train,
    features: Callable[[Fold], Fold] = lambda fold: fold,
) -> Callable[[], Iterator[Fold]]:
    """Return a function that yields worlds: three quarters of the queries for training, one for validation."""

    def folds() -> Iterator[Fold]:
        for world in range(count):
            common: dict[str, Any] = {"kind": kind, "mean_length": length, "random_state": world}
            n_valid = max(queries // 4, 250)
            train = make_web_search(queries - queries // 4, **common)
            # The experiments of the papers draw from the first 100 000 queries of a world.
            valid = make_web_search(n_valid, first_query=100_000 + 10_000 * world, **common)
            test = make_web_search(fresh, first_query=200_000 + 10_000 * world, **common)
            yield features(Fold(f"world {world + 1}", change(train, world), valid, test))

    return folds


def ours(by_metric: bool = True, **params: Any) -> Maker:
    """Return a maker of rankwright's systems; some objectives do not depend on the metric."""
    return lambda rate: RankwrightSystem("", {"learning_rate": rate, **params}, by_metric)


def of_lightgbm(objective: str, **params: Any) -> Maker:
    """Return a maker of LightGBM's own objectives."""
    return lambda rate: LightGBM(objective, {"learning_rate": rate, **params})


def of_catboost(objective: str, **params: Any) -> Maker:
    """Return a maker of CatBoost's own objectives."""
    return lambda rate: CatBoost(objective, {"learning_rate": rate, **params})


def _random_labels(queries: int, count: int, share: float) -> Callable[[], Iterator[Fold]]:
    return worlds(
        count, queries, 20, change=lambda train, world: with_label_noise(train, share, seed=world)
    )


_SAME_TREES: dict[str, Any] = {
    "num_leaves": 16,
    "min_child_samples": 50,
    "reg_lambda": 0.0,
    "subsample": 1.0,
    "colsample": 1.0,
}
_SAME_IN_LIGHTGBM = {"num_leaves": 16, "min_data_in_leaf": 50, "lambda_l2": 0.0}
_LABEL_SYSTEMS: dict[str, Maker] = {
    "LambdaMART": ours(objective="lambdamart", metric="ndcg", **_SAME_TREES),
    "XE-NDCG": ours(objective="xendcg", **_SAME_TREES),
    "LightGBM lambdarank": of_lightgbm("lambdarank", **_SAME_IN_LIGHTGBM),
    "LightGBM lambdarank, all pairs, not normalised": of_lightgbm(
        "lambdarank", lambdarank_norm=False, lambdarank_truncation_level=10_000, **_SAME_IN_LIGHTGBM
    ),
    "LightGBM rank_xendcg": of_lightgbm("rank_xendcg", **_SAME_IN_LIGHTGBM),
}

_NO_RIDGE = {"reg_lambda": 0.0}
_SYMMETRIC = {"engine": ENGINE.name, "num_leaves": 64, "min_child_samples": 1}
_LINEAR = "ndcg(gain=linear)@5"
_NORMALISED = "lambdamart(truncation=k, normalize=True)"
_NDCG_SYSTEMS: dict[str, Maker] = {
    "CatBoost SR, linear": of_catboost("StochasticRank:metric=NDCG;top=5", l2_leaf_reg=0),
    "CatBoost SR": of_catboost("StochasticRank:metric=NDCG;top=5;type=Exp", l2_leaf_reg=0),
    "CatBoost SR, Langevin": of_catboost(
        "StochasticRank:metric=NDCG;top=5;type=Exp", l2_leaf_reg=0, langevin=True
    ),
    "CatBoost LambdaMart, linear": of_catboost("LambdaMart:metric=NDCG", l2_leaf_reg=0),
    "CatBoost LambdaMart": of_catboost("LambdaMart:metric=NDCG;type=Exp", l2_leaf_reg=0),
    "CatBoost LambdaMart, top=5": of_catboost(
        "LambdaMart:metric=NDCG;top=5;type=Exp", l2_leaf_reg=0
    ),
    "SR, linear": ours(objective="stochasticrank(mu=0.1)", metric=_LINEAR, **_NO_RIDGE),
    "SR": ours(objective="stochasticrank(mu=0.1)", **_NO_RIDGE),
    "LambdaMART, linear": ours(objective="lambdamart", metric=_LINEAR, **_NO_RIDGE),
    "LambdaMART": ours(objective="lambdamart", **_NO_RIDGE),
    "LambdaMART, top and normalised": ours(objective=_NORMALISED, **_NO_RIDGE),
    "SR, symmetric": ours(objective="stochasticrank(mu=0.1)", **_NO_RIDGE, **_SYMMETRIC),
    "LambdaMART, symmetric": ours(objective="lambdamart", **_NO_RIDGE, **_SYMMETRIC),
    "LambdaMART, top and normalised, symmetric": ours(
        objective=_NORMALISED, **_NO_RIDGE, **_SYMMETRIC
    ),
}

_PAIR_LOSSES = {
    "LambdaMART": "lambdamart",
    "LambdaLoss": "lambdaloss(mu=5)",
    "E-LambdaMART": "lambdamart(noise=gumbel)",
    "E-LambdaLoss": "lambdaloss(mu=5, noise=gumbel)",
}
_OUR_PAIR_SYSTEMS: dict[str, Maker] = {
    "SR": ours(objective="stochasticrank(mu=0.1)", **_NO_RIDGE),
    **{name: ours(objective=loss, **_NO_RIDGE) for name, loss in _PAIR_LOSSES.items()},
}
_SR_ABOVE_PAIRS = tuple(("SR", name) for name in _PAIR_LOSSES)

_LOSSES = ("YetiRank", "QueryRMSE", "YetiLoss", "LambdaMART")
_TREE_SYSTEMS: dict[str, Maker] = {
    f"{loss}, {trees}": ours(objective=loss.lower(), **params)
    for trees, params in (("leaf-wise", {"num_leaves": 31}), ("symmetric", _SYMMETRIC))
    for loss in _LOSSES
}


def _binary(train: RankingData, _world: int) -> RankingData:
    """Turn labels into 0 and 1, as section 4.1 of Which Tricks does for MAP and MRR."""
    y = (train.y > 0).astype(float)
    return train.with_rows(train.X, y, train.qid, train.weights, train.fields)


QUESTIONS: dict[str, Question] = {
    "ndcg": Question(
        title="Is StochasticRank above LambdaMART by NDCG@5: the method, or the baseline, the gain and the trees?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems=_NDCG_SYSTEMS,
        targets=("ndcg@5",),
        pairs=(
            ("CatBoost SR, linear", "CatBoost LambdaMart, linear"),
            ("CatBoost SR", "CatBoost LambdaMart"),
            ("CatBoost SR", "CatBoost LambdaMart, top=5"),
            ("CatBoost SR, Langevin", "CatBoost SR"),
            ("SR, linear", "LambdaMART, linear"),
            ("SR", "LambdaMART"),
            ("SR", "LambdaMART, top and normalised"),
            ("SR, symmetric", "LambdaMART, symmetric"),
            ("SR, symmetric", "LambdaMART, top and normalised, symmetric"),
        ),
        rates=(0.1,),
        trees=200,
    ),
    "linear": Question(
        title="Is StochasticRank above pair losses by NDCG@5 with the gain r, for which all are trained?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems={
            **_OUR_PAIR_SYSTEMS,
            "LambdaMART, top and normalised": ours(objective=_NORMALISED, **_NO_RIDGE),
            "CatBoost SR": of_catboost("StochasticRank:metric=NDCG;top=5", l2_leaf_reg=0),
            "CatBoost LambdaMart": of_catboost("LambdaMart:metric=NDCG", l2_leaf_reg=0),
            "CatBoost LambdaMart, top=5": of_catboost(
                "LambdaMart:metric=NDCG;top=5", l2_leaf_reg=0
            ),
        },
        targets=(_LINEAR,),
        pairs=(
            *_SR_ABOVE_PAIRS,
            ("SR", "LambdaMART, top and normalised"),
            ("CatBoost SR", "CatBoost LambdaMart"),
            ("CatBoost SR", "CatBoost LambdaMart, top=5"),
        ),
        rates=(0.1,),
        trees=200,
    ),
    "pairs": Question(
        title="Is StochasticRank above pair losses by NDCG@5, with all features and with six tied ones?",
        data={
            "generated, 1000 queries of 20, tied features": worlds(3, 1000, 20, features=tied),
            "generated, 1000 queries of 20": worlds(3, 1000, 20),
        },
        systems=_OUR_PAIR_SYSTEMS,
        targets=("ndcg@5",),
        pairs=_SR_ABOVE_PAIRS,
        rates=(0.1, 0.3),
        trees=200,
    ),
    "trees": Question(
        title="Are YetiRank and QueryRMSE above LambdaMART on symmetric trees, and on leaf-wise ones?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems=_TREE_SYSTEMS,
        targets=("ndcg@10",),
        pairs=(
            *(
                (f"{loss}, {trees}", f"LambdaMART, {trees}")
                for trees in ("leaf-wise", "symmetric")
                for loss in ("YetiRank", "QueryRMSE", "YetiLoss")
            ),
            *((f"{loss}, symmetric", f"{loss}, leaf-wise") for loss in _LOSSES),
        ),
        rates=(0.1,),
        trees=150,
        on_real_data=True,
    ),
    "yetiloss": Question(
        title="Is YetiLoss above QueryRMSE, StochasticRank and YetiRank by MAP and MRR?",
        data={
            "generated, sparse, 600 queries of 120": worlds(2, 600, 120, kind="sparse", fresh=1000),
            "generated, 1000 queries of 20, labels 0 and 1": worlds(3, 1000, 20, change=_binary),
        },
        systems={
            "YetiLoss": ours(objective="yetiloss"),
            "YetiRank": ours(by_metric=False, objective="yetirank"),
            "QueryRMSE": ours(by_metric=False, objective="queryrmse"),
            "StochasticRank": ours(objective="stochasticrank(mu=0.1)"),
            "LambdaMART": ours(objective="lambdamart"),
        },
        targets=("map", "mrr"),
        pairs=tuple(
            ("YetiLoss", other)
            for other in ("QueryRMSE", "StochasticRank", "YetiRank", "LambdaMART")
        ),
        rates=(0.1,),
        trees=150,
    ),
    "graded": Question(
        title="Is YetiLoss above the others by MRR and ERR with graded labels?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems={
            "YetiLoss": ours(objective="yetiloss"),
            "YetiRank": ours(by_metric=False, objective="yetirank"),
            "QueryRMSE": ours(by_metric=False, objective="queryrmse"),
            "LambdaMART": ours(objective="lambdamart"),
        },
        targets=("mrr", "err(gain=linear)"),
        pairs=tuple(("YetiLoss", other) for other in ("YetiRank", "QueryRMSE", "LambdaMART")),
        rates=(0.1,),
        trees=150,
    ),
    "noise": Question(
        title="Is logistic smoothing above Gaussian by MRR if both noises are equally wide?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems={
            "logistic": ours(objective="yetiloss(noise=logistic)"),
            "Gaussian": ours(objective="yetiloss(noise=gaussian)"),
            # Logistic noise has the standard deviation pi / sqrt(3).
            "Gaussian, as wide": ours(objective="yetiloss(noise=gaussian, strength=1.814)"),
        },
        targets=("mrr",),
        pairs=(("logistic", "Gaussian"), ("logistic", "Gaussian, as wide")),
        rates=(0.1,),
        trees=150,
    ),
    "neighbours": Question(
        title="Are two neighbours above one by ERR, as on MQ2008?",
        data={"generated, 1000 queries of 20": worlds(3, 1000, 20)},
        systems={
            f"neighbours={count}": ours(objective=f"yetiloss(neighbours={count})")
            for count in (1, 2, 3)
        },
        targets=("err(gain=linear)",),
        pairs=(("neighbours=2", "neighbours=1"), ("neighbours=3", "neighbours=1")),
        rates=(0.1,),
        trees=150,
    ),
    "random-labels": Question(
        title="Does XE-NDCG lose more than LambdaMART under random labels, in LightGBM too, and at every size?",
        data={
            f"{queries * 3 // 4} training queries, {share:.0%} random labels": _random_labels(
                queries, count, share
            )
            for queries, count in ((1000, 3), (4000, 2), (12_000, 1))
            for share in (0.0, 0.4, 0.8)
        },
        systems=_LABEL_SYSTEMS,
        targets=("ndcg@5",),
        pairs=(
            ("XE-NDCG", "LambdaMART"),
            ("LightGBM rank_xendcg", "LightGBM lambdarank"),
            ("LightGBM rank_xendcg", "LightGBM lambdarank, all pairs, not normalised"),
        ),
        rates=(0.1,),
        trees=100,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("outcomes", type=Path)
    parser.add_argument("file", type=Path, nargs="?", default=RESULTS)
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--data", nargs="+", type=Path, default=[], help="Folders or files.")
    parser.add_argument("--tables-only", action="store_true", help="Train nothing.")
    arguments = parser.parse_args()
    store = OutcomeStore(arguments.outcomes)
    if not arguments.tables_only:
        for name in arguments.only:
            train(name, QUESTIONS[name], arguments.data, store)
    with replacing(arguments.file) as file:
        file.write(page(store).encode())


def train(name: str, question: Question, real: list[Path], store: OutcomeStore) -> None:
    """Train every system of a question at every rate on every data set, systems interleaved."""
    data = dict(question.data)
    if question.on_real_data:
        data |= {path.name.partition(".")[0]: partial(read_folds, path) for path in real}
    for data_name, folds in data.items():
        for fold in folds():
            systems = [
                NamedSystem(f"{system}, rate {rate:g}", make(rate))
                for system, make in question.systems.items()
                for rate in question.rates
            ]
            run_systems(
                systems,
                [fold],
                data=f"{name}: {data_name}",
                targets=question.targets,
                seeds=1,
                trees=question.trees,
                store=store,
                progress=say,
            )


def page(store: OutcomeStore) -> str:
    """Return the tables of all questions that have outcomes."""
    lines = [
        "# Experiments that settle",
        "",
        "Means over test queries in per cent, and differences in points with 95 % intervals over queries, uncorrected. "
        "The learning rate, if there are several, and the number of trees are chosen on validation queries. SR is "
        "StochasticRank. Written by `lab/benchmarks/settling.py`.",
        "",
    ]
    for name, question in QUESTIONS.items():
        prefix = f"{name}: "
        data = dict.fromkeys(o.data for o in store.outcomes if o.data.startswith(prefix))
        if data:
            rates = " and ".join(f"{rate:g}" for rate in question.rates)
            lines += [f"## {name}", "", question.title, ""]
            lines += [f"At most {question.trees} trees; learning rate {rates}.", ""]
        for data_name in data:
            for target in question.targets:
                lines += tables(store, question, data_name, target)
    return "\n".join(lines)


def tables(store: OutcomeStore, question: Question, data: str, target: str) -> list[str]:
    """Return the means of all systems on a data set, and the differences of the pairs."""
    best = at_best_rates(store, question, data, target)
    folds = {system: [outcome.fold for outcome in own] for system, own in best.items()}
    # A run that was stopped leaves a last fold that some systems lack.
    common = set.intersection(*(set(own) for own in folds.values())) if folds else set()
    if not common:
        return []
    chosen = OutcomeStore()
    rows = []
    for system, outcomes in best.items():
        own = [outcome for outcome in outcomes if outcome.fold in common]
        for outcome in own:
            chosen.add(replace(outcome, system=system, recipe=""))
        value = 100 * chosen.evaluation(system, target).mean[target]
        trees = ", ".join(str(outcome.trees) for outcome in own)
        rates = ", ".join(outcome.system.rpartition("rate ")[2] for outcome in own)
        rows.append(f"| {system} | {value:.2f} | {trees} | {rates} |")
    lines = [f"**{data.partition(': ')[2]}, {target}, {len(common)} data sets**", ""]
    lines += ["| system | mean | trees | rates |", "|---|--:|---|---|", *rows, ""]
    lines += ["| pair | difference | 95 % interval |", "|---|--:|--:|"]
    for better, worse in question.pairs:
        if {better, worse} <= best.keys():
            evaluations = [chosen.evaluation(system, target) for system in (worse, better)]
            cells = " | ".join(difference_cells(*evaluations, target))
            lines.append(f"| {better} above {worse} | {cells} |")
    return [*lines, ""]


def at_best_rates(
    store: OutcomeStore, question: Question, data: str, target: str
) -> dict[str, list[Outcome]]:
    """Return the outcomes of each system at the rate that is best on the validation queries, one for each fold."""
    best: dict[str, dict[str, Outcome]] = {}
    for outcome in store.outcomes:
        system = outcome.system.rpartition(", rate ")[0]
        if (outcome.data, outcome.target) == (data, target) and system in question.systems:
            old = best.setdefault(system, {}).get(outcome.fold)
            if old is None or outcome.valid > old.valid:
                best[system][outcome.fold] = outcome
    return {system: list(best[system].values()) for system in question.systems if system in best}


def say(outcome: Outcome) -> None:
    """Print an outcome."""
    words = [outcome.data, outcome.fold, outcome.system, outcome.target, f"{outcome.valid:.4f}"]
    print(*words, outcome.trees, f"{outcome.fit_seconds:.0f} s", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
