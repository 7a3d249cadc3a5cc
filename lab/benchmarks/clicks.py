"""Learning from simulated clicks: naive, position bias learned, known propensities, full labels; beside the peers.

    python benchmarks/clicks.py run [--parts main,...] [--seeds 0,1,2,3,4] [--exponents 1,2] [--impressions 10,50]
    python benchmarks/clicks.py table
    python benchmarks/clicks.py time [--rounds 5]

Each query shows ten documents, in the order of one feature of middling quality with some exploration
(Plackett-Luce), and position-based users with noise 0.1 click. Every impression is a query of the training data.
NDCG@10 is measured on the true labels of other queries. The parts: ``main`` is the study, ``unbiased`` has users who
examine every position, ``long log`` has four times as many lists, ``default ridge`` and ``unbiased default ridge`` have
the default reg_lambda, ``strong logger`` logs with a ranker that was trained on labels, ``small log`` has few clicks,
and ``curves`` are large logs for the estimated examination alone. ``causes`` asks what few clicks cost: ``by query``
has click rates of each document and position of a query in place of lists, and ``examined`` is a log without bias that
has about as many clicks.

What learns from clicks has reg_lambda 100, naive and peers too: clicks are noisy, and this is better for most of them
than the default, 0.3 (0 and 1 for the peers). What learns from labels has 0.3, which is better for it. This was chosen
among 0.3, 30, 100 and 300 on seed 101, and seen again on seed 102.

``run`` appends one line per training to results/clicks.jsonl and skips those that are there; ``table`` summarises them
in Markdown, with paired tests over seeds; ``time`` compares processor times of training with and without
``position``, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from rankwright import ClickLog, Ranker, RankingData, evaluate, make_web_search, simulate_clicks
from rankwright.evaluation.per_query import ranks_within_queries

RESULTS = Path(__file__).parent / "results" / "clicks.jsonl"
OBJECTIVES = ("lambdamart", "yetiloss", "xendcg", "queryrmse")
PEERS = ("lightgbm lambdarank", "xgboost rank:ndcg")
VARIANTS = ("naive", "corrected", "propensities", "labels")
CAUSES = ("naive", "corrected", "by query", "examined", "labels")
TREES, RATE, LEAVES = 60, 0.05, 8
COMMON = {
    "n_estimators": TREES,
    "learning_rate": RATE,
    "num_leaves": LEAVES,
    "verbose": 0,
    "n_jobs": 1,
}
FEATURES, TEST_QUERIES = 40, 300
QUERIES = {10: 800, 50: 250}  # by impressions: 8000 and 12500 lists
TEMPERATURE, NOISE, CLIP = 1.0, 0.1, 0.02
RIDGE, DEFAULT_RIDGE = 100.0, 0.3  # reg_lambda of what learns from clicks
KEY = ("part", "kind", "exponent", "impressions", "seed", "system", "variant")
Row = dict[str, Any]


class Part(NamedTuple):
    """A part of the study."""

    exponents: tuple[float, ...] = (1.0, 2.0)
    impressions: tuple[int, ...] = (10, 50)
    systems: tuple[str, ...] = (*OBJECTIVES, *PEERS)
    variants: tuple[str, ...] = VARIANTS
    logger: str = "feature"
    queries: int | None = None
    ridge: float = DEFAULT_RIDGE
    kinds: tuple[str, ...] = ("web", "short")


PARTS = {
    "main": Part(ridge=RIDGE),
    "unbiased": Part((0.0,), (10,), OBJECTIVES, ("naive", "corrected"), queries=400, ridge=RIDGE),
    "long log": Part((2.0,), (10,), queries=3200, ridge=RIDGE, kinds=("web",)),
    "default ridge": Part(),
    "unbiased default ridge": Part((0.0,), (10,), OBJECTIVES, ("naive", "corrected"), queries=400),
    "strong logger": Part((1.0,), (50,), ("lambdamart",), logger="model", ridge=RIDGE),
    "small log": Part((1.0,), (10,), ("lambdamart",), queries=60, ridge=RIDGE),
    "curves": Part((1.0, 2.0), (50,), ("curve",), ("corrected",), queries=12_000),
    "causes": Part((2.0,), (10,), ("lambdamart", "yetiloss"), CAUSES, ridge=RIDGE),
}


class Setting:
    """The data of one kind of log and one seed."""

    def __init__(
        self, kind: str, exponent: float, impressions: int, seed: int, part: Part = PARTS["main"]
    ) -> None:
        queries = QUERIES[impressions] if part.queries is None else part.queries

        def world(first: int, n: int) -> RankingData:
            return make_web_search(
                n, kind=kind, n_features=FEATURES, first_query=first, random_state=seed
            )  # type: ignore[arg-type]

        self.exponent, self.ridge = exponent, part.ridge
        self.train, self.test = world(0, queries), world(1_000_000, TEST_QUERIES)
        if part.logger == "feature":
            feature = self.weak_feature()
            logged, tested = (np.nan_to_num(data.X[:, feature]) for data in (self.train, self.test))
        else:
            ranker = Ranker("lambdamart", "ndcg@10", **COMMON).fit(world(2_000_000, 100))
            logged, tested = ranker.predict(self.train), ranker.predict(self.test)
        self.teacher = self.ndcg(tested)
        self.order = -ranks_within_queries(logged.astype(float), self.train.queries)
        self.seed = seed
        self.clicks = self.simulated(exponent, impressions)

    def simulated(self, exponent: float, impressions: int) -> ClickLog:
        """Users who click in lists of the logger."""
        return simulate_clicks(
            self.train,
            self.order,
            exponent=exponent,
            noise=NOISE,
            impressions=impressions,
            temperature=TEMPERATURE,
            max_label=4,
            random_state=self.seed,
        )

    @cached_property
    def log(self) -> RankingData:
        """Every impression as a query."""
        return self.clicks.to_data(by="session", examined_only=False)

    def weak_feature(self) -> int:
        """Return the feature whose order has the median NDCG of those that say something."""
        values = [self.ndcg(np.nan_to_num(self.test.X[:, number])) for number in range(FEATURES)]
        chance = self.ndcg(np.random.default_rng(0).random(self.test.n_rows))
        telling = [number for number in np.argsort(values) if values[number] > chance]
        return int(telling[len(telling) // 2])

    def ndcg(self, scores: Any) -> float:
        return float(
            evaluate(scores, self.test.y, group=self.test.group, metrics=["ndcg@10"]).mean[
                "ndcg@10"
            ]
        )

    def ours(self, objective: str, variant: str) -> Row:
        """Train one variant."""
        ridge = DEFAULT_RIDGE if variant == "labels" else self.ridge
        ranker = Ranker(objective, "ndcg@10", reg_lambda=ridge, **COMMON)
        if variant == "labels":
            ranker.fit(self.train)
        elif variant == "corrected":
            ranker.fit(self.log, position="position")
        elif variant == "by query":
            ranker.fit(self.clicks.to_data(examined_only=False), position="position")
        elif variant == "examined":
            ranker.fit(self.simulated(0.0, 2).to_data(by="session", examined_only=False))
        elif variant == "propensities":
            ranker.fit(
                self.log, propensity=self.log.fields["position"] ** -self.exponent, clip=CLIP
            )
        else:
            ranker.fit(self.log)
        return {"ndcg": self.ndcg(ranker.predict(self.test)), **found_bias(ranker)}

    def curve(self) -> Row:
        """Estimate the examination from a log in which each document and position of a query is one row."""
        counts = self.clicks.to_data(examined_only=False, weights="rows")
        ranker = Ranker("lambdamart", "ndcg@10", **{**COMMON, "n_estimators": 5}).fit(
            counts, position="position"
        )
        return {"ndcg": self.ndcg(ranker.predict(self.test)), **found_bias(ranker)}

    def lightgbm(self, variant: str) -> Row:
        import lightgbm as lgb

        params = {
            "objective": "lambdarank",
            "learning_rate": RATE,
            "num_leaves": LEAVES,
            "min_data_in_leaf": 50,
        }
        params |= {"lambdarank_truncation_level": 10, "num_threads": 1, "verbosity": -1, "seed": 0}
        params |= {"lambda_l2": self.ridge} if self.ridge != DEFAULT_RIDGE else {}
        positions = self.log.fields["position"] if variant == "corrected" else None
        data = lgb.Dataset(self.log.X, self.log.y, group=self.log.group, position=positions)
        return {"ndcg": self.ndcg(lgb.train(params, data, TREES).predict(self.test.X))}

    def xgboost(self, variant: str) -> Row:
        import xgboost as xgb

        params = {
            "objective": "rank:ndcg",
            "eta": RATE,
            "max_leaves": LEAVES,
            "grow_policy": "lossguide",
            "nthread": 1,
        }
        params |= {
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": 10,
            "seed": 0,
        }
        params |= {"lambdarank_unbiased": variant == "corrected"}
        params |= {"lambda": self.ridge} if self.ridge != DEFAULT_RIDGE else {}
        # Positions are the order of the rows of a query, which to_data gives by position.
        order = np.lexsort((self.log.fields["position"], self.log.queries.query_of_row))
        data = xgb.DMatrix(self.log.X[order], self.log.y[order])
        data.set_group(self.log.group)
        return {"ndcg": self.ndcg(xgb.train(params, data, TREES).predict(xgb.DMatrix(self.test.X)))}

    def outcome(self, system: str, variant: str) -> Row:
        """Train a system."""
        if system == "curve":
            return self.curve()
        if system in OBJECTIVES:
            return self.ours(system, variant)
        return self.lightgbm(variant) if system.startswith("lightgbm") else self.xgboost(variant)


def found_bias(ranker: Ranker) -> Row:
    """The bias and the examination of the first ten positions, with the standard errors of its logarithm."""
    if not ranker.position_bias_:
        return {}
    found = ranker.manifest_["position_bias"]["position"]
    names = {"values": "bias", "examination": "curve", "examination_error": "error"}
    return {
        new: np.round(found[old][:10], 5).tolist() for old, new in names.items() if old in found
    }


def read() -> list[Row]:
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def systems_of(part: Part) -> Iterator[tuple[str, str]]:
    for system, variant in itertools.product(part.systems, part.variants):
        if system not in PEERS or variant in ("naive", "corrected"):
            yield system, variant


def run(args: argparse.Namespace) -> None:
    began = time.perf_counter()
    for name, seed in itertools.product(args.parts, args.seeds):
        part = PARTS[name]
        cells = itertools.product(part.impressions, part.kinds, part.exponents)
        for impressions, kind, exponent in cells:
            if impressions not in args.impressions or exponent not in args.exponents:
                continue
            rows = read()
            done = {key_of(row) for row in rows}
            cell = {
                "part": name,
                "kind": kind,
                "exponent": exponent,
                "impressions": impressions,
                "seed": seed,
            }
            wanted = [
                {**cell, "system": system, "variant": variant}
                for system, variant in systems_of(part)
                if key_of({**cell, "system": system, "variant": variant}) not in done
            ]
            if not wanted:
                continue
            setting = Setting(kind, exponent, impressions, seed, part)
            for row in wanted:
                if time.perf_counter() - began > args.seconds:
                    return
                row |= {
                    "teacher": setting.teacher,
                    **(same_labels(row, rows) or setting.outcome(row["system"], row["variant"])),
                }
                with open(RESULTS, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(*key_of(row), f"{row['ndcg']:.4f}", flush=True)


def same_labels(row: Row, rows: list[Row]) -> Row | None:
    """Return the outcome of the same training on labels, which do not depend on what users examine."""
    same = [name for name in KEY if name not in ("part", "exponent")]
    part = PARTS[row["part"]]
    for other in rows:
        alike = PARTS[other["part"]].queries == part.queries and all(
            other[name] == row[name] for name in same
        )
        if row["variant"] == "labels" and alike:
            return {"ndcg": other["ndcg"]}
    return None


def table(_: argparse.Namespace) -> None:
    rows = read()
    print_summary([row for row in rows if row["part"] == "main"])
    for name, part in PARTS.items():
        own = [row for row in rows if row["part"] == name]
        if own:
            {"curves": print_curves, "causes": print_causes}.get(name, print_part)(name, part, own)


def print_summary(rows: list[Row]) -> None:
    """Print, by log, the share of the gap that each objective closes, and how the corrected ones compare with peers."""
    print(
        "### Gap between naive and labels that the correction closes; corrected less the better corrected peer\n"
    )
    print("| log | seeds | " + " | ".join(OBJECTIVES) + " |")
    print("|---" * (2 + len(OBJECTIVES)) + "|")
    for kind, exponent, impressions in cells_of(rows):
        values = values_of(rows, kind, exponent, impressions)
        complete = [values.get((s, v), {}) for s in OBJECTIVES for v in VARIANTS]
        complete += [values.get((s, v), {}) for s in PEERS for v in ("naive", "corrected")]
        seeds = sorted(set.intersection(*map(set, complete)))
        if not seeds:
            continue
        mean_of = {
            key: statistics.fmean(found[seed] for seed in seeds) for key, found in values.items()
        }
        best_peer = max(mean_of[peer, "corrected"] for peer in PEERS)
        shares = []
        for system in OBJECTIVES:
            naive, corrected, labels = (
                mean_of[system, variant] for variant in ("naive", "corrected", "labels")
            )
            shares.append(
                f"{(corrected - naive) / (labels - naive):.0%}, {corrected - best_peer:+.1f}"
            )
        print(
            f"| {kind}, 1 / k^{exponent:g}, {impressions} impressions | {len(seeds)} | "
            + " | ".join(shares)
            + " |"
        )


def cells_of(rows: list[Row]) -> list[tuple[str, float, int]]:
    return sorted({(row["kind"], row["exponent"], row["impressions"]) for row in rows})


def values_of(
    rows: list[Row], kind: str, exponent: float, impressions: int
) -> dict[tuple[str, str], dict[int, float]]:
    """NDCG@10 in points by system and variant, and then by seed."""
    values: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if (row["kind"], row["exponent"], row["impressions"]) == (kind, exponent, impressions):
            values.setdefault((row["system"], row["variant"]), {})[row["seed"]] = 100 * row["ndcg"]
    return values


def print_part(name: str, part: Part, rows: list[Row]) -> None:
    """Print NDCG@10 in points, the share of the gap that the correction closes, and p-values of paired t-tests."""
    peers = [peer for peer in PEERS if peer in part.systems]
    print(f"\n### {name}\n")
    versus = "".join(f" vs {peer.split()[0]} (p) |" for peer in peers)
    print(
        f"| log | system | seeds | naive | corrected | propensities | labels | gap closed | vs naive (p) |{versus}"
    )
    print("|---" * (9 + len(peers)) + "|")
    for kind, exponent, impressions in cells_of(rows):
        values = values_of(rows, kind, exponent, impressions)
        for system in part.systems:
            trained = {variant: values.get((system, variant), {}) for variant in VARIANTS}
            seeds = set.intersection(
                *([set(found) for found in trained.values() if found] or [set()])
            )
            of = {
                variant: {seed: found[seed] for seed in seeds if found}
                for variant, found in trained.items()
            }
            if not seeds:
                continue
            naive, corrected, labels = (
                mean(of[variant]) for variant in ("naive", "corrected", "labels")
            )
            closed = f"{(corrected - naive) / (labels - naive):.0%}" if of["labels"] else ""
            cells = [
                f"{kind}, exponent {exponent:g}, {impressions} impressions",
                system,
                str(len(seeds)),
            ]
            cells += [f"{mean(of[variant]):.2f}" if of[variant] else "" for variant in VARIANTS]
            cells += [closed, paired(of["corrected"], of["naive"])]
            cells += [
                ""
                if system in PEERS
                else paired(of["corrected"], values.get((peer, "corrected"), {}))
                for peer in peers
            ]
            print("| " + " | ".join(cells) + " |")


def print_causes(name: str, part: Part, rows: list[Row]) -> None:
    """Print NDCG@10 in points, one line for each seed."""
    print(f"\n### {name}\n")
    print("| log | system | seed | " + " | ".join(part.variants) + " |")
    print("|---" * (3 + len(part.variants)) + "|")
    for kind, exponent, impressions in cells_of(rows):
        values = values_of(rows, kind, exponent, impressions)
        for system in part.systems:
            for seed in sorted(
                set.intersection(*(set(values.get((system, v), {})) for v in part.variants))
            ):
                cells = [
                    f"{kind}, exponent {exponent:g}, {impressions} impressions",
                    system,
                    str(seed),
                ]
                cells += [f"{values[system, variant][seed]:.2f}" for variant in part.variants]
                print("| " + " | ".join(cells) + " |")


def print_curves(name: str, part: Part, rows: list[Row]) -> None:
    """Print the errors of the estimated examination of the first ten positions."""
    print(f"\n### {name}: {part.queries} queries, 50 impressions\n")
    print("| log | worst error by seed | worst of the mean curve | within the 95 % interval |")
    print("|---|---|---|---|")
    for kind, exponent in sorted({(row["kind"], row["exponent"]) for row in rows}):
        own = [row for row in rows if (row["kind"], row["exponent"]) == (kind, exponent)]
        truth = np.arange(1, 11) ** -exponent
        curves, errors = (np.array([row[key] for row in own]) for key in ("curve", "error"))
        by_seed = np.abs(curves / truth - 1).max(axis=1)
        inside = np.abs(np.log(curves / truth))[:, 1:] < 1.96 * errors[:, 1:]
        print(
            f"| {kind}, exponent {exponent:g} | {', '.join(f'{error:.1%}' for error in by_seed)} "
            f"| {np.abs(curves.mean(axis=0) / truth - 1).max():.1%} | {inside.sum()} of {inside.size} |"
        )


def mean(values: dict[int, float]) -> float:
    return statistics.fmean(values.values()) if values else float("nan")


def paired(ours: dict[int, float], theirs: dict[int, float]) -> str:
    """The mean difference in points over the seeds that both have, and the p-value of a paired t-test."""
    seeds = sorted(ours.keys() & theirs.keys())
    differences = np.array([ours[seed] - theirs[seed] for seed in seeds])
    if len(seeds) < 2:
        return ""
    return f"{differences.mean():+.2f} ({stats.ttest_1samp(differences, 0.0).pvalue:.3f})"


def compare_times(args: argparse.Namespace) -> None:
    setting = Setting("short", 1.0, 10, 0, PARTS["main"]._replace(queries=args.queries))
    for objective in ("auto", *OBJECTIVES):
        ranker = Ranker(objective, n_estimators=40, n_jobs=1, verbose=0)
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(args.rounds + 1):
            for corrected in (False, True):
                start = time.process_time()
                ranker.fit(setting.log, position="position" if corrected else None)
                if number:  # the first compiles
                    times[corrected].append(time.process_time() - start)
        without, with_ = (statistics.median(times[corrected]) for corrected in (False, True))
        print(
            f"{objective:12s} {without:.2f} s without, {with_:.2f} s with position: {with_ / without:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    runs.add_argument(
        "--seeds",
        type=lambda text: [int(seed) for seed in text.split(",")],
        default=[0, 1, 2, 3, 4],
    )
    runs.add_argument(
        "--exponents",
        type=lambda text: [float(value) for value in text.split(",")],
        default=[0, 1, 2],
    )
    runs.add_argument(
        "--impressions", type=lambda text: [int(n) for n in text.split(",")], default=[10, 50]
    )
    runs.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    runs.set_defaults(call=run)
    commands.add_parser("table").set_defaults(call=table)
    times = commands.add_parser("time")
    times.add_argument("--rounds", type=int, default=5)
    times.add_argument("--queries", type=int, default=600)
    times.set_defaults(call=compare_times)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
