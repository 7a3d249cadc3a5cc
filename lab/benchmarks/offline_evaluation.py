"""What estimates from clicks are worth, on simulated logs: estimators, propensities and interleaving.

    python benchmarks/offline_evaluation.py [estimators] ["propensities short"] ["propensities web"] [alarms] [power]

Writes benchmarks/results/offline-evaluation.json; parts that are not named keep their figures. One core is enough; each
part takes a few minutes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.clicks.offline import place_weights
from rankwright.evaluation.significance import fisher

RESULTS = Path(__file__).parent / "results" / "offline-evaluation.json"
NOISE = 0.1
LOGS, QUERIES_PER_LOG = 200, 100
TESTS = 1000


def attraction(data: rw.RankingData) -> Any:
    """Probability of a click if examined."""
    return NOISE + (1 - NOISE) * (2**data.y - 1) / 15


def noisy(data: rw.RankingData, spread: float, number: int) -> Any:
    """Scores of a ranker that knows the labels up to noise."""
    return data.y + np.random.default_rng(number).normal(scale=spread, size=data.n_rows)


def estimators() -> dict[str, Any]:
    """Mean and coverage of the estimators over logs of queries of their own."""
    outcomes: dict[str, dict[str, list[float]]] = {}
    population: dict[str, list[float]] = {"dcg@10": [], "relevance": []}
    for number in range(LOGS):
        data = rw.make_web_search(
            QUERIES_PER_LOG,
            kind="short",
            n_features=20,
            first_query=number * QUERIES_PER_LOG,
            random_state=0,
        )
        gamma = attraction(data)
        old, new = noisy(data, 2.0, number), noisy(data, 1.0, LOGS + number)
        weight = place_weights(rw.metric("dcg@10"), new, data)
        truth = float(weight @ gamma) / QUERIES_PER_LOG
        relevance = float(gamma.sum()) / QUERIES_PER_LOG
        population["dcg@10"].append(truth)
        population["relevance"].append(relevance)
        log = rw.simulate_clicks(
            data,
            old,
            impressions=20,
            shown=None,
            temperature=0.5,
            noise=NOISE,
            max_label=4,
            random_state=number,
        )
        curve = 1 / np.arange(1.0, log.position.max() + 1)
        for clip in (0.0, 0.05):
            result = rw.evaluate_clicks(log, new, curve, clip=clip, random_state=number)
            for row in result.rows:
                entry = outcomes.setdefault(
                    f"{row.estimator}, clip {clip:g}",
                    {"value": [], "low": [], "high": [], "own": []},
                )
                own = truth / relevance if row.estimator == "snips" else truth
                for name, value in (
                    ("value", row.value),
                    ("low", row.low),
                    ("high", row.high),
                    ("own", own),
                ):
                    entry[name].append(value)
    dcg = float(np.mean(population["dcg@10"]))
    summary = {}
    for name, entry in outcomes.items():
        truth = dcg / float(np.mean(population["relevance"])) if name.startswith("snips") else dcg
        value, low, high, own = (np.array(entry[key]) for key in ("value", "low", "high", "own"))
        error = value - own
        summary[name] = {
            "truth": truth,
            "mean": float(value.mean()),
            "standard_error": float(value.std(ddof=1) / np.sqrt(len(value))),
            "z": float((value.mean() - truth) / (value.std(ddof=1) / np.sqrt(len(value)))),
            "z_same_queries": float(error.mean() / (error.std(ddof=1) / np.sqrt(len(error)))),
            "coverage": float(np.mean((low <= truth) & (truth <= high))),
            "rmse_same_queries": float(np.sqrt(np.mean(error**2))),
        }
    return {"logs": LOGS, "queries": QUERIES_PER_LOG, "impressions": 20, "estimators": summary}


def propensities(kind: str, n_queries: int) -> dict[str, Any]:
    """Relative error of estimated curves for the first ten positions, at 50 impressions a query."""
    rows = []
    data = rw.make_web_search(n_queries, kind=kind, n_features=20, random_state=1)  # type: ignore[arg-type]
    small = [
        rw.make_web_search(60, kind=kind, n_features=20, first_query=first, random_state=1)
        for first in (10**6, 10**7)
    ]  # type: ignore[arg-type]
    settings = {"n_estimators": 30, "learning_rate": 0.1, "verbose": 0, "n_jobs": 1}
    rankers = [rw.Ranker(**settings).fit(part).predict(data) for part in small]
    for exponent in (1.0, 2.0):
        true = np.arange(1, 11.0) ** -exponent
        common: dict[str, Any] = {
            "exponent": exponent,
            "noise": NOISE,
            "impressions": 50,
            "max_label": 4,
        }
        shuffled = rw.simulate_clicks(data, rankers[0], randomise="shuffle", **common)
        swapped = rw.simulate_clicks(data, rankers[0], randomise="swap", **common)
        both = rw.simulate_clicks(data, rankers, **common)
        single = rw.simulate_clicks(data, rankers[0], **common)
        for name, method, log, resamples in (
            ("swaps, whole list shuffled", "swaps", shuffled, 100),
            ("swaps of two", "swaps", swapped, 100),
            ("harvest, swaps of two", "harvest", swapped, 100),
            ("harvest, two rankers", "harvest", both, 100),
            ("em, two rankers", "em", both, 0),
            ("em, one ranker", "em", single, 0),
        ):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one ranker has no overlap, which em says
                curve = rw.estimate_propensities(log, method, resamples=resamples)  # type: ignore[arg-type]
            row = {
                "kind": kind,
                "queries": n_queries,
                "exponent": exponent,
                "method": name,
                "values": curve.values.round(5).tolist(),
                "low": curve.low.round(5).tolist() if resamples else None,
                "high": curve.high.round(5).tolist() if resamples else None,
                "worst_error": float(np.abs(curve.values / true - 1).max()),
                "seconds": round(time.perf_counter() - start, 1),
            }
            rows.append(row)
            show(
                f"{kind} {exponent:g} {name}: worst error {row['worst_error']:.3f}, {row['seconds']} s"
            )
    return {"impressions": 50, "noise": NOISE, "rows": rows}


def alarms() -> dict[str, Any]:
    """Share of tests at 5 % that find a difference where there is none."""
    pool = rw.make_web_search(5000, kind="short", n_features=20, random_state=2)
    cases: dict[str, tuple[str, Callable[[rw.RankingData, int], tuple[Any, Any]]]] = {
        "same ranker, team draft": ("team-draft", lambda data, i: (noisy(data, 1, i),) * 2),
        "equal rankers, team draft": (
            "team-draft",
            lambda data, i: (noisy(data, 1, i), noisy(data, 1, TESTS + i)),
        ),
        "equal rankers, balanced": (
            "balanced",
            lambda data, i: (noisy(data, 1, i), noisy(data, 1, TESTS + i)),
        ),
    }
    shares = {}
    for name, (method, rankers) in cases.items():
        found = 0
        for i in range(TESTS):
            data = sample(pool, 100, i)
            a, b = rankers(data, i)
            log = rw.simulate_interleaving(
                data, a, b, method=method, impressions=10, noise=NOISE, max_label=4, random_state=i
            )  # type: ignore[arg-type]
            found += (
                rw.compare_interleaved(log, method=method, permutations=2000, resamples=1).p <= 0.05
            )  # type: ignore[arg-type]
        shares[name] = found / TESTS
        show(f"{name}: {shares[name]:.3f}")
    return {"tests": TESTS, "queries": 100, "impressions": 10, "alarms": shares}


def power() -> dict[str, Any]:
    """Share of tests that find a known difference, for interleaving and for an A/B test with as many impressions."""
    pool = rw.make_web_search(5000, kind="short", n_features=20, random_state=3)
    a, b = noisy(pool, 1.3, 0), noisy(pool, 1.0, 1)
    gamma = attraction(pool)
    means = [
        float(place_weights(rw.metric("dcg@10"), scores, pool) @ gamma) / pool.n_queries
        for scores in (a, b)
    ]
    tests, rows = 200, []
    for n_queries in (50, 100, 200):
        found = {"team draft": 0, "balanced": 0, "A/B, clicks": 0}
        needed = []
        for i in range(tests):
            chosen = np.random.default_rng(i).choice(pool.n_queries, n_queries, replace=False)
            rows_of = np.repeat(np.isin(np.arange(pool.n_queries), chosen), pool.group)
            data = pool.subset(chosen)
            common: dict[str, Any] = {
                "impressions": 10,
                "noise": NOISE,
                "max_label": 4,
                "random_state": i,
            }
            pair = a[rows_of], b[rows_of]
            for method in ("team-draft", "balanced"):
                log = rw.simulate_interleaving(data, *pair, method=method, **common)  # type: ignore[arg-type]
                result = rw.compare_interleaved(log, method=method, permutations=2000, resamples=1)  # type: ignore[arg-type]
                found[method.replace("-", " ")] += result.p <= 0.05 and result.preference > 0
                if method == "team-draft":
                    needed.append(
                        (
                            result.preference,
                            result.ties / result.n_impressions,
                            result.design_effect,
                        )
                    )
            log = rw.simulate_clicks(data, list(pair), **common)
            difference = ab_difference(log)
            found["A/B, clicks"] += (
                fisher(difference, None, 2000, (0, 0)) <= 0.05 and difference.mean() > 0
            )
        effect, ties, design = np.mean(needed, axis=0).tolist()
        row = {
            "queries": n_queries,
            "impressions": 10 * n_queries,
            "preference": effect,
            "ties": ties,
            "design": design,
        }
        rows.append(row | {"power": {name: count / tests for name, count in found.items()}})
        show(str(rows[-1]))
    effect, ties, design = rows[-1]["preference"], rows[-1]["ties"], rows[-1]["design"]
    size = rw.interleaving_sample_size(effect, ties=ties, design_effect=design)
    return {"dcg@10": means, "tests": tests, "rows": rows, "sample_size_for_power_0.8": size}


def ab_difference(log: rw.ClickLog) -> Any:
    """Clicks per impression of ranker 1 less those of ranker 0, in each query that saw both."""
    first = np.flatnonzero(np.diff(log.impression, prepend=-1))
    clicks = np.bincount(log.impression, weights=log.click)
    query, ranker = log.queries.query_of_row[first], log.fields["ranker"][first]
    means = []
    for side in (0, 1):
        number = np.bincount(query[ranker == side], minlength=log.queries.n_queries)
        total = np.bincount(
            query[ranker == side], weights=clicks[ranker == side], minlength=log.queries.n_queries
        )
        means.append(np.where(number > 0, total / np.maximum(number, 1), np.nan))
    difference = means[1] - means[0]
    return difference[~np.isnan(difference)]


def sample(pool: rw.RankingData, n_queries: int, number: int) -> rw.RankingData:
    return pool.subset(
        np.random.default_rng(number).choice(pool.n_queries, n_queries, replace=False)
    )


def show(text: str) -> None:
    print(text, flush=True)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "estimators": estimators,
    "propensities short": partial(propensities, "short", 5000),
    "propensities web": partial(propensities, "web", 4000),
    "alarms": alarms,
    "power": power,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    for name in parser.parse_args().parts or PARTS:
        start = time.perf_counter()
        part = PARTS[name]()
        show(json.dumps(part, indent=1) if "propensities" not in name else "")
        show(f"{name}: {time.perf_counter() - start:.0f} s")
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[name] = part
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
