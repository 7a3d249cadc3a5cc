"""Learning from simulated clicks: naive, position bias learned, known propensities, full labels; beside the peers.

    python benchmarks/clicks.py run [--kinds web,short] [--exponents 1,2] [--impressions 10,50] [--seeds 0,1,2,3,4]
    python benchmarks/clicks.py table
    python benchmarks/clicks.py time [--rounds 5]

Each query shows ten documents, in the order of one feature of middling quality with some exploration
(Plackett-Luce), and position-based users with noise 0.1 click. Every impression is a query of the training data.
NDCG@10 is measured on the true labels of other queries. ``run`` appends one line per training to results/clicks.jsonl
and skips those that are there; ``table`` summarises them, with paired tests over seeds; ``time`` compares the times of
training with and without ``position``, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from rankwright import Ranker, RankingData, evaluate, make_web_search, simulate_clicks
from rankwright.evaluation.per_query import ranks_within_queries

RESULTS = Path(__file__).parent / "results" / "clicks.jsonl"
OBJECTIVES = ("lambdamart", "yetiloss", "xendcg", "queryrmse")
VARIANTS = ("naive", "corrected", "propensities", "labels")
TREES, RATE, LEAVES = 60, 0.05, 8
COMMON = {"n_estimators": TREES, "learning_rate": RATE, "num_leaves": LEAVES, "verbose": 0, "n_jobs": 1}
FEATURES, QUERIES, TEST_QUERIES = 40, 600, 300
TEMPERATURE, NOISE, CLIP = 1.0, 0.1, 0.02
Row = dict[str, Any]


class Setting:
    """The data of one kind of log and one seed."""

    def __init__(self, kind: str, exponent: float, impressions: int, seed: int, queries: int = QUERIES) -> None:
        def world(first: int, n: int) -> RankingData:
            return make_web_search(n, kind=kind, n_features=FEATURES, first_query=first, seed=seed)  # type: ignore[arg-type]

        self.exponent = exponent
        self.train, self.test = world(0, queries), world(100_000, TEST_QUERIES)
        feature = self.weak_feature()
        self.teacher = self.ndcg(np.nan_to_num(self.test.X[:, feature]))
        log = simulate_clicks(
            self.train,
            -ranks_within_queries(np.nan_to_num(self.train.X[:, feature]).astype(float), self.train.queries),
            exponent=exponent,
            noise=NOISE,
            impressions=impressions,
            temperature=TEMPERATURE,
            seed=seed,
        )
        self.log = log.to_data(by="session", examined_only=False)

    def weak_feature(self) -> int:
        """Return the feature whose order has the median NDCG of those that say something."""
        values = [self.ndcg(np.nan_to_num(self.test.X[:, number])) for number in range(FEATURES)]
        chance = self.ndcg(np.random.default_rng(0).random(self.test.n_rows))
        telling = [number for number in np.argsort(values) if values[number] > chance]
        return int(telling[len(telling) // 2])

    def ndcg(self, scores: Any) -> float:
        return float(evaluate(scores, self.test.y, group=self.test.group, metrics=["ndcg@10"]).mean["ndcg@10"])

    def ours(self, objective: str, variant: str) -> Row:
        """Train one variant."""
        ranker = Ranker(objective, "ndcg@10", **COMMON)
        position = self.log.fields["position"]
        if variant == "labels":
            ranker.fit(self.train)
        elif variant == "corrected":
            ranker.fit(self.log, position="position")
        elif variant == "propensities":
            ranker.fit(self.log, propensity=position**-self.exponent, clip=CLIP)
        else:
            ranker.fit(self.log)
        curve = [float(np.exp(b)) for b in ranker.position_bias_.get("position", {}).values()]
        return {"ndcg": self.ndcg(ranker.predict(self.test)), "curve": curve[:10]}

    def lightgbm(self, variant: str) -> Row:
        import lightgbm as lgb

        params = {"objective": "lambdarank", "learning_rate": RATE, "num_leaves": LEAVES, "min_data_in_leaf": 50}
        params |= {"lambdarank_truncation_level": 10, "num_threads": 1, "verbosity": -1, "seed": 0}
        positions = self.log.fields["position"] if variant == "corrected" else None
        data = lgb.Dataset(self.log.X, self.log.y, group=self.log.group, position=positions)
        return {"ndcg": self.ndcg(lgb.train(params, data, TREES).predict(self.test.X)), "curve": []}

    def xgboost(self, variant: str) -> Row:
        import xgboost as xgb

        params = {"objective": "rank:ndcg", "eta": RATE, "max_leaves": LEAVES, "grow_policy": "lossguide", "nthread": 1}
        params |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 10, "seed": 0}
        params |= {"lambdarank_unbiased": variant == "corrected"}
        # Positions are the order of the rows of a query, which to_data gives by position.
        order = np.lexsort((self.log.fields["position"], self.log.queries.query_of_row))
        data = xgb.DMatrix(self.log.X[order], self.log.y[order])
        data.set_group(self.log.group)
        return {"ndcg": self.ndcg(xgb.train(params, data, TREES).predict(xgb.DMatrix(self.test.X))), "curve": []}


def systems() -> Iterator[tuple[str, str, Callable[[Setting], Row]]]:
    for objective, variant in itertools.product(OBJECTIVES, VARIANTS):
        yield objective, variant, lambda setting, o=objective, v=variant: setting.ours(o, v)
    for variant in ("naive", "corrected"):
        yield "lightgbm lambdarank", variant, lambda setting, v=variant: setting.lightgbm(v)
        yield "xgboost rank:ndcg", variant, lambda setting, v=variant: setting.xgboost(v)


def read() -> list[Row]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("kind", "exponent", "impressions", "seed", "system", "variant"))


def run(args: argparse.Namespace) -> None:
    done = {key_of(row) for row in read()}
    began = time.perf_counter()
    for seed, impressions, kind, exponent in itertools.product(
        args.seeds, args.impressions, args.kinds, args.exponents
    ):
        cell = {"kind": kind, "exponent": exponent, "impressions": impressions, "seed": seed}
        wanted = [
            (name, variant, train)
            for name, variant, train in systems()
            if key_of({**cell, "system": name, "variant": variant}) not in done and args.only in name
        ]
        if not wanted:
            continue
        setting = Setting(kind, exponent, impressions, seed)
        for name, variant, train in wanted:
            if time.perf_counter() - began > args.seconds:
                return
            row = {**cell, "system": name, "variant": variant, "teacher": setting.teacher, **train(setting)}
            with open(RESULTS, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(name, variant, kind, exponent, impressions, seed, f"{row['ndcg']:.4f}", flush=True)


def table(_: argparse.Namespace) -> None:
    rows = read()
    cells = sorted({(row["kind"], row["exponent"], row["impressions"]) for row in rows})
    for cell in cells:
        of = {key_of(row)[3:]: row for row in rows if key_of(row)[:3] == cell}
        names = list(dict.fromkeys(name for _, name, _ in of))
        print(f"\n{cell[0]}, exponent {cell[1]:g}, {cell[2]} impressions")
        print(f"{'system':22s} seeds  naive  corrected  propensities  labels   closed  p      worst error of the curve")
        truth = np.arange(1.0, 11.0) ** -cell[1]
        for name in names:
            seeds = sorted({seed for seed, system, _ in of if system == name})
            found = {
                variant: np.array([of[seed, name, variant]["ndcg"] for seed in seeds if (seed, name, variant) in of])
                for variant in VARIANTS
            }
            naive, corrected, labels = found["naive"], found["corrected"], found["labels"]
            closed = p = float("nan")
            if len(labels) == len(naive) == len(corrected) > 0:
                closed = float((corrected.mean() - naive.mean()) / (labels.mean() - naive.mean()))
            if len(naive) == len(corrected) > 1:
                p = float(stats.ttest_rel(corrected, naive).pvalue)
            curves = [of[seed, name, "corrected"]["curve"] for seed in seeds if (seed, name, "corrected") in of]
            errors = [np.max(np.abs(np.array(curve) / truth[: len(curve)] - 1)) for curve in curves if curve]
            means = [f"{100 * values.mean():6.2f}" if len(values) else "     -" for values in found.values()]
            worst = f"{np.mean(errors):.0%}" if errors else "-"
            print(
                f"{name:22s} {len(seeds):5d} {means[0]} {means[1]:>10s} {means[2]:>13s} {means[3]:>7s} {closed:8.2f}"
                f"  {p:.3f}  {worst}"
            )


def compare_times(args: argparse.Namespace) -> None:
    setting = Setting("short", 1.0, 10, 0, queries=args.queries)
    for objective in ("auto", *OBJECTIVES):
        ranker = Ranker(objective, n_estimators=40, n_jobs=1, verbose=0)
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(args.rounds + 1):
            for corrected in (False, True):
                start = time.perf_counter()
                ranker.fit(setting.log, position="position" if corrected else None)
                if number:  # the first compiles
                    times[corrected].append(time.perf_counter() - start)
        without, with_ = (statistics.median(times[corrected]) for corrected in (False, True))
        print(
            f"{objective:12s} {without:.2f} s without, {with_:.2f} s with position: {with_ / without:.3f}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--kinds", type=lambda text: text.split(","), default=["web", "short"])
    runs.add_argument("--exponents", type=lambda text: [float(one) for one in text.split(",")], default=[1.0, 2.0])
    runs.add_argument("--impressions", type=lambda text: [int(one) for one in text.split(",")], default=[10, 50])
    runs.add_argument("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[0, 1, 2, 3, 4])
    runs.add_argument("--only", default="", help="systems whose name contains this text")
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
