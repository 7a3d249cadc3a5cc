"""Clicks as in XGBoost's demonstration of unbiased LambdaRank: its correction, ours, and plain LambdaRank.

    python benchmarks/unbiased.py run [--seeds 0,1,2,3,4] [--kinds web,short] [--logs ranked,explored]
    python benchmarks/unbiased.py table

A ranker that was trained on the labels of one query in a hundred orders the documents of each query, once. In the log
``ranked`` these are the lists, as in the demonstration. In the log ``explored`` Gumbel noise is added to its scores,
as large as their standard deviation, so that documents that look alike are seen at different positions. Users look at
position k with the probability EXAMINATION[k] (positions after the tenth as the tenth), and click on a document that
they look at with the probability CLICK[label]. Position and click are all that is known of a list. NDCG@10 is
measured on the true labels of 500 other queries.

The XGBoost systems have the options of the demonstration, with 128 trees at a rate of 0.04 in place of 512 at 0.01:
reg_lambda 1.5, subsample 0.8, the 12 top documents of each list. ``rankwright, same call`` is the call of
docs/migrating.md with the same options; ``rankwright`` is the default objective with default options and 200 trees.
``plain`` does not correct, and ``unbiased`` does.

``run`` appends one line per training to results/unbiased.jsonl and skips lines that are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import rankwright as rw
from rankwright.evaluation.per_query import ranks_within_queries

RESULTS = Path(__file__).parent / "results" / "unbiased.jsonl"
EXAMINATION = np.array([0.68, 0.61, 0.48, 0.34, 0.28, 0.20, 0.11, 0.10, 0.08, 0.06])
CLICK = np.array([0.1, 0.16, 0.28, 0.52, 1.0])
QUERIES, LENGTHS = {"short": 2000, "web": 120}, {"short": 12, "web": 120}
TEST_QUERIES, FEATURES = 500, 30
TREES, RATE = 128, 0.04
LOGS = {"ranked": 0.0, "explored": 1.0}
VARIANTS = ("plain", "unbiased")
KEY = ("kind", "log", "seed", "system", "variant")
SAME_CALL: dict[str, Any] = {
    "metric": "ndcg@12",
    "engine": "xgboost",
    "n_estimators": TREES,
    "learning_rate": RATE,
    "max_depth": 6,
    "num_leaves": 64,
    "reg_lambda": 1.5,
    "subsample": 0.8,
    "colsample": 1.0,
}
QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": 0}
Row = dict[str, Any]


class Log(NamedTuple):
    """Lists that were shown once, and other queries to test on."""

    train: rw.RankingData
    test: rw.RankingData
    position: Any
    clicks: Any

    @classmethod
    def of(cls, kind: str, exploration: float, seed: int) -> Log:
        """Show the documents of each query once."""

        def world(first: int, n: int) -> rw.RankingData:
            options = {"kind": kind, "mean_length": LENGTHS[kind], "n_features": FEATURES}
            return rw.make_web_search(n, first_query=first, random_state=seed, **options)

        queries = QUERIES[kind]
        train, test = world(0, queries), world(1_000_000, TEST_QUERIES)
        some = world(2_000_000, max(5, queries // 100))
        first = rw.Ranker("lambdamart", n_estimators=30, **QUIET).fit(some)
        draw = np.random.default_rng(seed)
        scores = first.predict(train)
        noise = exploration * scores.std() * draw.gumbel(size=train.n_rows)
        position = ranks_within_queries(scores + noise, train.queries)
        place = np.minimum(position, len(EXAMINATION)) - 1
        probability = EXAMINATION[place] * CLICK[train.y.astype(int)]
        clicks = (draw.random(train.n_rows) < probability).astype(float)
        return cls(train, test, position, clicks)

    def rankwright(self, variant: str, *objective: str, **options: Any) -> Row:
        """Train one variant of ours."""
        position = self.position if variant == "unbiased" else None
        ranker = rw.Ranker(*objective, **options, **QUIET)
        ranker.fit(self.train.X, self.clicks, qid=self.train.qid, position=position)
        row = {"ndcg": self.ndcg(ranker.predict(self.test))}
        if position is not None:
            curve = ranker.examination_["position"]
            row["curve"] = [round(curve[place], 4) for place in range(1, 11) if place in curve]
        return row

    def xgboost(self, variant: str) -> Row:
        """Train XGBoost, which takes positions from the order of the rows."""
        import xgboost as xgb

        order = np.lexsort((self.position, self.train.queries.query_of_row))
        peer = xgb.XGBRanker(
            objective="rank:ndcg",
            n_estimators=TREES,
            tree_method="hist",
            learning_rate=RATE,
            reg_lambda=1.5,
            subsample=0.8,
            lambdarank_unbiased=variant == "unbiased",
            lambdarank_bias_norm=1,
            lambdarank_num_pair_per_sample=12,
            lambdarank_pair_method="topk",
            n_jobs=1,
        )
        peer.fit(self.train.X[order], self.clicks[order], qid=self.train.qid[order])
        row = {"ndcg": self.ndcg(peer.predict(self.test.X))}
        if variant == "unbiased":
            config = json.loads(peer.get_booster().save_config())["learner"]["objective"]
            row["curve"] = np.round(np.array(config["ti+"], dtype=float)[:10], 4).tolist()
        return row

    def ndcg(self, scores: Any) -> float:
        result = rw.evaluate(scores, self.test.y, group=self.test.group, metrics="ndcg@10")
        return float(result.mean["ndcg@10"])


SYSTEMS: dict[str, Callable[[Log, str], Row]] = {
    "xgboost": Log.xgboost,
    "rankwright, same call": lambda log, variant: log.rankwright(
        variant, "lambdamart(truncation=12, normalize=True)", **SAME_CALL
    ),
    "rankwright": lambda log, variant: log.rankwright(variant, n_estimators=200),
}


def read() -> list[Row]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def run(args: argparse.Namespace) -> None:
    done = {key_of(row) for row in read()}
    for seed, kind, name in itertools.product(args.seeds, args.kinds, args.logs):
        log = None
        for system, variant in itertools.product(SYSTEMS, VARIANTS):
            row = {"kind": kind, "log": name, "seed": seed, "system": system, "variant": variant}
            if key_of(row) in done:
                continue
            log = log or Log.of(kind, LOGS[name], seed)
            row |= SYSTEMS[system](log, variant)
            with open(RESULTS, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(*key_of(row), f"{row['ndcg']:.4f}", flush=True)


def values_of(kind: str, log: str, system: str, variant: str) -> dict[int, float]:
    """NDCG@10 in points by seed."""
    wanted = (kind, log, system, variant)
    return {
        row["seed"]: 100 * row["ndcg"]
        for row in read()
        if (row["kind"], row["log"], row["system"], row["variant"]) == wanted
    }


def table(_: argparse.Namespace) -> None:
    print("| lists | log | system | seeds | plain | unbiased | unbiased less plain (p) |")
    print("|---|---|---|---|---|---|---|")
    for kind, log, system in itertools.product(QUERIES, LOGS, SYSTEMS):
        own = {variant: values_of(kind, log, system, variant) for variant in VARIANTS}
        seeds = sorted(set.intersection(*map(set, own.values())))
        if len(seeds) < 2:
            continue
        means = [
            f"{statistics.fmean(own[variant][seed] for seed in seeds):.2f}" for variant in VARIANTS
        ]
        gains = [own["unbiased"][seed] - own["plain"][seed] for seed in seeds]
        gain = f"{statistics.fmean(gains):+.2f} ({stats.ttest_1samp(gains, 0.0).pvalue:.3f})"
        print(f"| {kind} | {log} | {system} | {len(seeds)} | {' | '.join(means)} | {gain} |")
    truth = EXAMINATION / EXAMINATION[0]
    print(f"\nExamination relative to the first position; the truth is {np.round(truth, 2)}.\n")
    for kind, log, system in itertools.product(QUERIES, LOGS, SYSTEMS):
        curves = [
            row["curve"]
            for row in read()
            if (row["kind"], row["log"], row["system"]) == (kind, log, system)
            and len(row.get("curve", ())) == len(truth)
        ]
        if curves:
            mean = np.mean(curves, axis=0)
            worst = np.abs(mean - truth).max()
            print(f"{kind}, {log}, {system}: {np.round(mean, 2)}, at most {worst:.2f} off")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument(
        "--seeds",
        type=lambda text: [int(seed) for seed in text.split(",")],
        default=[0, 1, 2, 3, 4],
    )
    runs.add_argument("--kinds", type=lambda text: text.split(","), default=list(QUERIES))
    runs.add_argument("--logs", type=lambda text: text.split(","), default=list(LOGS))
    runs.set_defaults(call=run)
    commands.add_parser("table").set_defaults(call=table)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
