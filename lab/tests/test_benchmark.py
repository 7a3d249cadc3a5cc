"""Benchmarks: figures from outcomes by hand, memory, exponents, ratios to an earlier result, pages, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_system import Fake
from typer.testing import CliRunner

from rankwright.support.environment import environment
from rankwright_lab.bench import (
    QUICK,
    choose_systems,
    generated_folds,
    preset_systems,
    read_result,
    regressions,
    run_bench,
    run_scaling,
    write_result,
)
from rankwright_lab.bench.memory import peak_memory
from rankwright_lab.bench.page import benchmark_report
from rankwright_lab.bench.scaling import TIMED_OBJECTIVES, fit_exponent
from rankwright_lab.bench.summary import equal_quality, quality, seconds_until, speed
from rankwright_lab.cli import app
from rankwright_lab.harness import Outcome, OutcomeStore, RankwrightSystem
from rankwright_lab.peers import LightGBM

MEGABYTES = 150
COMMAND = [sys.executable, "-m", "rankwright_lab", "bench"]


def outcome(
    system: str, fold: str = "1", seed: int = 0, data: str = "web", **changes: Any
) -> Outcome:
    default: dict[str, Any] = {
        "target": "map",
        "trees": 5,
        "valid": 0.5,
        "fit_seconds": 1.0,
        "predict_seconds": 0.25,
    }
    default |= {
        "query_ids": [f"{fold}a", f"{fold}b"],
        "values": {"map": [0.5, 0.75]},
        "curve": [0.25, 0.5],
    }
    return Outcome(data=data, fold=fold, system=system, seed=seed, **(default | changes))


def store_of(*outcomes: Outcome) -> OutcomeStore:
    results = OutcomeStore()
    for one in outcomes:
        results.add(one)
    return results


# Figures from outcomes


def test_time_to_a_level_is_the_share_of_the_stages() -> None:
    one = outcome("a", fit_seconds=8.0, curve=[0.1, 0.3, 0.2, 0.4])
    assert [seconds_until(one, level) for level in (0.05, 0.3, 0.31, 0.4)] == [2.0, 4.0, 8.0, 8.0]
    assert seconds_until(one, 0.41) == float("inf")
    assert seconds_until(outcome("a", target="arp", curve=[3.0, 2.0]), 2.5) == 1.0


def test_the_level_is_a_share_of_the_best_system_on_the_fold() -> None:
    results = store_of(
        outcome("a", seed=0, valid=0.4, curve=[0.4], gradient_seconds=0.5),
        outcome("a", seed=1, valid=0.6, curve=[0.3, 0.6], fit_seconds=3.0, gradient_seconds=0.7),
        outcome("b", seed=0, valid=0.8, curve=[0.5, 0.8]),
        outcome("b", seed=1, valid=0.4, curve=[0.4], fit_seconds=2.0),
    )
    costs = {("web", "b", "map"): {"gradient_ms": 7.0, "peak_mb": 100.0, "added_mb": 20.0}}
    a, b = speed(results, ["web"], ["a", "b"], "map", trees=10, reach=0.75, costs=costs)
    assert a["level"] == b["level"] == pytest.approx(0.75 * (0.8 + 0.4) / 2)
    assert (a["reach_seconds"], a["reached"]) == (
        None,
        0.5,
    )  # never with one seed, after 3 s with the other
    assert (b["reach_seconds"], b["reached"]) == (None, 0.5)
    assert (a["fit_seconds"], a["gradient_ms"]) == (2.0, pytest.approx(1000 * (0.5 + 0.7) / 2 / 10))
    assert (b["gradient_ms"], b["peak_mb"], a["peak_mb"]) == (7.0, 100.0, None)


def test_a_median_counts_those_that_never_arrive() -> None:
    arrive = [
        outcome("a", seed=seed, curve=[0.1, 0.9], valid=0.9, fit_seconds=seed + 1.0)
        for seed in range(2)
    ]
    never = [outcome("a", seed=2, curve=[0.1, 0.2], valid=0.2)]
    best = [outcome("b", seed=seed, curve=[0.8], valid=0.8) for seed in range(3)]
    a, _ = speed(
        store_of(*arrive, *never, *best), ["web"], ["a", "b"], "map", trees=1, reach=1.0, costs={}
    )
    assert (a["reach_seconds"], a["reached"]) == (
        2.0,
        pytest.approx(2 / 3),
    )  # the median of 1, 2 and never


def test_time_at_equal_quality_is_per_fold_and_seed() -> None:
    results = store_of(
        outcome("own", fold="1", curve=[0.3, 0.6], fit_seconds=2.0),
        outcome("own", fold="2", curve=[0.9, 0.9], fit_seconds=2.0),
        outcome("peer", fold="1", valid=0.5, curve=[0.2, 0.5], fit_seconds=4.0),
        outcome("peer", fold="2", valid=0.8, curve=[0.8, 0.2], fit_seconds=4.0),
    )
    (row,) = equal_quality(results, ["web"], ["own", "peer"], "map")
    assert row["own_seconds"] == (4.0 + 2.0) / 2
    assert row["first_seconds"] == (2.0 + 1.0) / 2
    assert (row["ratio"], row["reached"]) == ((2.0 / 4.0 + 1.0 / 2.0) / 2, 1.0)


def test_quality_is_per_data_set_and_pooled() -> None:
    results = store_of(
        outcome("own", data="web", values={"map": [0.5, 0.75]}),
        outcome("peer", data="web", values={"map": [0.25, 0.75]}),
        outcome(
            "own", data="short", query_ids=["a", "b", "c"], values={"map": [1.0, float("nan"), 0.5]}
        ),
        outcome(
            "peer",
            data="short",
            query_ids=["a", "b", "c"],
            values={"map": [0.5, float("nan"), 0.5]},
        ),
    )
    rows = quality(results, ["web", "short"], ["own", "peer"], "map")
    assert [(row["data"], row["system"], row["mean"], row["queries"]) for row in rows] == [
        ("web", "own", (0.5 + 0.75) / 2, 2),
        ("web", "peer", (0.25 + 0.75) / 2, 2),
        ("short", "own", (1.0 + 0.5) / 2, 2),
        ("short", "peer", 0.5, 2),
        ("all data", "own", (0.5 + 0.75 + 1.0 + 0.5) / 4, 4),
        ("all data", "peer", (0.25 + 0.75 + 0.5 + 0.5) / 4, 4),
    ]
    assert rows[-1]["difference"] == pytest.approx(-(0.25 + 0.5) / 4)
    assert (rows[-1]["wins"], rows[-1]["ties"], rows[-1]["losses"], rows[-2]["difference"]) == (
        0,
        2,
        2,
        None,
    )


# What is measured


def test_memory_is_that_of_the_training() -> None:
    data = next(iter(generated_folds("short", 30)[1]())).train
    light, heavy = (
        peak_memory(Fake("a", megabytes=n), data, "map", trees=1, threads=1) for n in (0, MEGABYTES)
    )
    assert heavy["peak_mb"] is not None
    assert light["peak_mb"] is not None
    assert MEGABYTES - 5 < heavy["peak_mb"] - light["peak_mb"] < MEGABYTES + 60
    if sys.platform == "linux":
        assert heavy["added_mb"] is not None
        assert MEGABYTES - 5 < heavy["added_mb"] < MEGABYTES + 20


def test_a_training_that_fails_in_its_process_is_reported() -> None:
    data = next(iter(generated_folds("short", 30)[1]())).train
    with pytest.raises(
        ValueError, match=r"training a in a separate process, .* failed: ValueError: out of order"
    ):
        peak_memory(Fake("a", megabytes=-1), data, "map", trees=1, threads=1)


def test_environment_names_neither_host_nor_paths() -> None:
    import platform

    described = environment(["numpy", "absent-package"])
    assert described["packages"] == {"numpy": np.__version__, "absent-package": None}
    assert described["processors"] >= 1
    assert "/" not in json.dumps(described)
    assert platform.node() not in json.dumps(described)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.5])
def test_exponents(exponent: float) -> None:
    sizes = [10, 100, 1000, 10_000]
    slope, error = fit_exponent(sizes, [3.0 * size**exponent for size in sizes])
    assert slope == pytest.approx(exponent, abs=1e-9)
    assert error == pytest.approx(0.0, abs=1e-6)
    assert fit_exponent([10], [1.0]) == (None, None)
    assert fit_exponent([10, 20], [1.0, 2.0])[1] is None


@pytest.fixture(scope="module")
def scaling() -> dict[str, Any]:
    return run_scaling(
        QUICK,
        systems=[RankwrightSystem("small", {"objective": "queryrmse"}), LightGBM("lambdarank")],
    )


def test_sizes_need_not_be_whole_numbers_of_queries() -> None:
    sizes = replace(QUICK, documents=(1_010, 2_030), lengths=(30,), features=(4,))
    curves = run_scaling(sizes, systems=[RankwrightSystem("small", {"objective": "queryrmse"})])[
        "curves"
    ]
    assert all(curve["seconds"][0] > 0 for curve in curves)


def test_scaling_has_a_curve_for_each_thing_that_grows(scaling: dict[str, Any]) -> None:
    found = {(curve["what"], curve["case"], curve["over"]) for curve in scaling["curves"]}
    cases = [f"{objective} for {metric}" for objective, metric in TIMED_OBJECTIVES]
    expected = {
        ("gradient", case, over) for case in cases for over in ("documents", "query length")
    }
    expected |= {
        ("training", name, over)
        for name in ("small", "lightgbm lambdarank")
        for over in ("documents", "query length", "features")
    }
    assert found == expected
    for curve in scaling["curves"]:
        assert len(curve["sizes"]) == len(curve["seconds"]) == 2
        assert min(curve["seconds"]) > 0
        assert curve["exponent"] == pytest.approx(fit_exponent(curve["sizes"], curve["seconds"])[0])


# Systems


def test_presets() -> None:
    assert preset_systems()[0] == RankwrightSystem("rankwright")
    assert preset_systems("defaults")[1] == LightGBM("lambdarank")
    common = {system.name: system for system in preset_systems("common")}
    assert common["lightgbm lambdarank"].params == {"learning_rate": 0.05, "num_leaves": 31}  # type: ignore[attr-defined]
    assert common["catboost YetiRank"].params == {"learning_rate": 0.05, "depth": 6}  # type: ignore[attr-defined]
    assert common["xgboost rank:map"].params == {"learning_rate": 0.05, "max_depth": 6}  # type: ignore[attr-defined]
    assert common["rankwright"] == RankwrightSystem("rankwright")
    with pytest.raises(ValueError, match="unknown preset 'best'; choose one of defaults, common"):
        preset_systems("best")
    with pytest.raises(ValueError, match="two systems have the name 'rankwright'"):
        preset_systems(extra=[RankwrightSystem("rankwright", {"num_leaves": 3})])


def test_systems_are_chosen_by_name_or_library() -> None:
    known = preset_systems("common")
    names = [
        system.name
        for system in choose_systems(known, ["xgboost rank:map", "rankwright", "xgboost"])
    ]
    # A complete name selects one system, even if it is the first word of another name.
    assert names == ["xgboost rank:map", "rankwright", "xgboost rank:ndcg", "xgboost rank:pairwise"]
    with pytest.raises(ValueError, match="unknown system 'lightbgm'; known systems: rankwright;"):
        choose_systems(known, ["lightbgm"])


# The whole


def small_bench(work: Path, **changes: Any) -> dict[str, Any]:
    data = dict(generated_folds(kind, 15) for kind in ("short", "web"))
    options: dict[str, Any] = {
        "targets": ["map"],
        "seeds": 1,
        "trees": 1,
        "every": 1,
        "threads": 1,
        "work": work,
    }
    return run_bench([Fake("good"), Fake("bad", -1.0)], data, **(options | changes))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "b"


@pytest.fixture(scope="module")
def result(work: Path) -> dict[str, Any]:
    return small_bench(work)


def test_a_result_has_all_figures(result: dict[str, Any]) -> None:
    assert [(row["name"], row["queries"], row["features"]) for row in result["data"]] == [
        ("short, 15 queries", 15, 136),
        ("web, 15 queries", 15, 136),
    ]
    pooled = {row["system"]: row for row in result["quality"] if row["data"] == "all data"}
    assert pooled["good"]["mean"] == 1.0
    assert pooled["bad"]["significant"]
    assert set(pooled["bad"]["means"]) == {"map", "ndcg@10", "mrr", "err"}
    assert len(result["speed"]) == 4
    assert all(row["peak_mb"] > 1 and row["fit_seconds"] >= 0 for row in result["speed"])
    assert [row["reached"] for row in result["equal_quality"]] == [1.0, 1.0]


def test_an_interrupted_benchmark_resumes(work: Path, result: dict[str, Any]) -> None:
    before = Fake.fits
    again = small_bench(work)
    warm_up = 2
    assert Fake.fits - before == warm_up
    assert again["speed"] == result["speed"]
    small_bench(work, seeds=2)
    folds, data, systems = 5, 2, 2
    assert Fake.fits - before == 2 * warm_up + folds * data * systems
    assert small_bench(work)["quality"] == result["quality"]


def test_results_are_written_and_read(tmp_path: Path, result: dict[str, Any]) -> None:
    write_result(result, tmp_path / "below" / "r.json")
    assert read_result(tmp_path / "below" / "r.json") == json.loads(json.dumps(result))
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["r.json"]
    for content, reason in [
        ("{", "is not valid JSON"),
        ("[]", "is not a benchmark result"),
        (
            '{"format": "rankwright bench", "format_version": 2}',
            "has format 2; this version reads 1",
        ),
    ]:
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(ValueError, match=reason):
            read_result(tmp_path / "x.json")


def test_ratios_to_an_earlier_result(result: dict[str, Any]) -> None:
    later = json.loads(json.dumps(result))
    row = later["speed"][0]
    row["fit_seconds"] = 1.5 * result["speed"][0]["fit_seconds"]
    row["peak_mb"] = 1.05 * result["speed"][0]["peak_mb"]
    later["quality"][0]["mean"] = 0.99 * result["quality"][0]["mean"]
    later["environment"]["packages"]["numpy"] = "9.9"
    changes = regressions(later, result)
    moved = {
        (one["measure"], round(one["ratio"], 6), one["worse"])
        for one in changes["rows"]
        if one["ratio"] != 1.0
    }
    assert moved == {("fit_seconds", 1.5, True), ("peak_mb", 1.05, False), ("mean", 0.99, True)}
    assert changes["notes"] == [f"numpy was {np.__version__} and is 9.9"]
    assert not any(one["worse"] for one in regressions(result, result)["rows"])


def test_results_that_cannot_be_compared(result: dict[str, Any], scaling: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"of 'rankwright scaling', this one of 'rankwright bench'"
    ):
        regressions(result, scaling)
    with pytest.raises(
        ValueError,
        match="the earlier result has trees 1 and this one 2, so they cannot be compared",
    ):
        regressions({**result, "settings": {**result["settings"], "trees": 2}}, result)


def test_ratios_of_scaling(scaling: dict[str, Any]) -> None:
    later = json.loads(json.dumps(scaling))
    later["curves"][0]["seconds"][1] *= 2
    later["settings"] = scaling["settings"]
    assert [row["ratio"] for row in regressions(later, scaling)["rows"] if row["worse"]] == [2.0]


def test_a_page_of_a_benchmark(result: dict[str, Any]) -> None:
    page = benchmark_report({**result, "against": regressions(result, result)})
    titles = [section.title for section in page.sections]
    assert titles == [
        "Quality by map",
        "Speed for map",
        "Since an earlier result",
        "What was measured",
        "Environment",
    ]
    text = page.markdown()
    assert "| good | 1.0000 | 1.0000 | 1.0000 |" in text
    assert "0 of " in text
    assert len(page.figures()) == 2
    assert "Against good by map" in page.html()


def test_a_page_of_one_system_has_no_comparison(result: dict[str, Any]) -> None:
    alone = {**result, "systems": result["systems"][:1], "equal_quality": []}
    for part in ("quality", "speed"):
        alone[part] = [row for row in result[part] if row["system"] == "good"]
    assert benchmark_report(alone).figures() == []


def test_a_page_of_scaling(scaling: dict[str, Any]) -> None:
    page = benchmark_report(scaling, title="Growth")
    assert page.title == "Growth"
    assert [figure.title for figure in page.figures()] == [
        "Gradient over documents",
        "Gradient over query length",
        "Training over documents",
        "Training over query length",
        "Training over features",
    ]


# The command


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_measures_resumes_compares_and_reports(tmp_path: Path) -> None:
    out, later = tmp_path / "old.json", tmp_path / "new.json"
    words = [
        "--kinds",
        "short",
        "--queries",
        "15",
        "--seeds",
        "1",
        "--trees",
        "2",
        "--every",
        "1",
        "--threads",
        "1",
    ]
    words += ["--targets", "map", "--systems", "stumps, lightgbm lambdarank"]
    words += ["--ours", "stumps: num_leaves=2 objective='yetirank + 0.5 queryrmse'"]
    done = bench(*words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "stumps" in done.stdout
    result = read_result(out)
    assert [row["system"] for row in result["quality"]] == ["stumps", "lightgbm lambdarank"]
    assert result["systems"][0]["parameters"]["num_leaves"] == 2
    assert all(row["gradient_ms"] is not None for row in result["speed"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "old.costs.json",
        "old.json",
        "old.outcomes.jsonl",
    ]
    for name in ("costs.json", "outcomes.jsonl"):
        (tmp_path / f"old.{name}").rename(tmp_path / f"new.{name}")
    done = bench(*words, "--out", str(later), "--against", str(out), "--quiet")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {row["ratio"] for row in read_result(later)["against"]["rows"]} == {1.0}
    page = tmp_path / "page.md"
    report = CliRunner().invoke(app, ["report", str(later), "--out", str(page)])
    assert report.exit_code == 0, report.output
    assert "## Since an earlier result" in page.read_text()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--systems", "lightbgm"], "unknown system 'lightbgm'"),
        (["--kinds", "wide"], "unknown kind 'wide' of data"),
        (["--targets", "ngcd"], "ngcd"),
        (["--preset", "best"], "best"),
        (["--ours", "a num_leaves=2"], "is not of the form"),
        (["--ours", "a: leaves=2"], "Ranker has no parameter 'leaves'"),
        (["--ours", "a: num_leaves=1"], "num_leaves"),
        (["--ours", "a: n_jobs=1"], "n_jobs is the same for all systems"),
        (["--quick"], "--quick belongs to --scaling"),
        (["--scaling", "--trees", "3"], "leave out --trees"),
        (["--data", "x.txt", "--queries", "30"], "--queries is for generated data"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, ["bench", *words, "--out", str(tmp_path / "r.json")])
    assert done.exit_code == 2
    assert reason in " ".join(done.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    out = str(tmp_path / "r.json")
    done = CliRunner().invoke(app, ["bench", "--data", str(tmp_path / "absent"), "--out", out])
    assert isinstance(done.exception, FileNotFoundError)
    done = CliRunner().invoke(
        app, ["bench", "--against", str(tmp_path / "other.json"), "--out", out]
    )
    assert isinstance(done.exception, ValueError)
    assert "is not a benchmark result" in str(done.exception)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "other.json"), "--data", "x.txt"])
    assert done.exit_code == 2
