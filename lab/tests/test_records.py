"""Figures of the records, and of the pages of the site that repeat them, are the measured figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import DOCS, ROOT, tables

RESULTS = ROOT / "lab" / "benchmarks" / "results"
RAW = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(RESULTS.glob("*.md"))}
RECORDS = {path.name: path.read_text() for path in sorted((ROOT / "lab" / "records").glob("*.md"))}
SUMMARIES = {name: (DOCS / name).read_text() for name in ("comparison.md", "papers.md")}


def test_figures_of_cost_are_those_of_the_benchmarks() -> None:
    page = RECORDS["costs.md"]
    gradients = json.loads((RESULTS / "gradients.json").read_text())["results"]
    (table,) = tables(
        page.partition("<!-- gradients.json -->")[2].partition("<!--")[0].partition("\nA whole")[0]
    )
    written = {row[0]: (row[1], row[3], row[4]) for row in table}
    assert written == {
        case: (f"{one['ours_ms']:.1f}", f"{one['peer_ms']:.1f}", f"{one['ratio']:.2f}")
        for case, one in gradients.items()
    }
    seconds = json.loads((RESULTS / "training.json").read_text())["seconds"]
    (table,) = tables(page.partition("<!-- training.json -->")[2])
    assert [row[1] for row in table] == [f"{value:.1f}" for value in sorted(seconds.values())]


# What the summaries say was measured.


def table_after(mark: str, page: str) -> list[list[str]]:
    """The table that follows a comment on a page of the site."""
    assert RECORDS[page].count(f"<!-- {mark} -->") == 1
    return tables(RECORDS[page].partition(f"<!-- {mark} -->")[2])[0]


def quality(name: str, target: str) -> dict[str, str]:
    """Per cent of each system by a target, with a star where it differs significantly from rankwright."""
    rows = json.loads((RESULTS / name).read_text())["quality"]
    return {
        row["system"]: f"{100 * row['mean']:.2f}{'*' * bool(row['significant'])}"
        for row in rows
        if row["target"] == target
    }


def test_comparison_has_the_figures_of_the_results() -> None:
    names = ["mq2008", "mslr", "big-web", "big-short", "big-sparse"]
    measured = [quality(f"peers-{name}.json", "ndcg@10") for name in names]
    for system, *cells in table_after("peers", "comparison.md"):
        assert cells == [values[system] for values in measured]
    tuned = [
        quality(f"tuned-{name}.json", target)
        for name in ("mq2008", "mslr")
        for target in ("ndcg@10", "map")
    ]
    for system, *cells in table_after("tuned", "comparison.md"):
        assert cells == [values[system] for values in tuned]
    speed = {
        row["system"]: row
        for row in json.loads((RESULTS / "speed-mq2008.json").read_text())["speed"]
    }
    for system, *cells in table_after("speed", "comparison.md"):
        row = speed[system]
        assert cells == [
            f"{row['fit_seconds']:.2f}",
            f"{row['reach_seconds']:.3f}",
            f"{row['reached']:.0%}",
        ]


def test_pages_of_the_site_repeat_tables_of_the_records() -> None:
    marks = {"comparison.md": ["peers", "tuned", "speed"], "papers.md": ["papers.md"]}
    for page, names in marks.items():
        for mark in names:
            (shown, *_) = tables(SUMMARIES[page].partition(f"<!-- {mark} -->")[2])
            assert shown == table_after(mark, page)


def test_the_front_page_has_the_figures_of_the_comparison() -> None:
    (shown, *_) = tables((ROOT / "README.md").read_text().partition("<!-- peers -->")[2])
    seconds = {row[0]: row[1] for row in table_after("speed", "comparison.md")}
    expected = []
    for system, mq2008, mslr, web, _, sparse in table_after("peers", "comparison.md"):
        time = f"{float(seconds[system]):.1f}" if system in seconds else ""
        expected.append([system, mq2008, mslr, web, sparse, time])
    assert shown == expected


def test_goals_have_the_figures_of_the_results() -> None:
    stored = json.loads((RESULTS / "goals.json").read_text())
    *sweep, summed = table_after("goals.json", "goals.md")
    measured = [
        [f"{share:g}", *(f"{value:.4f}" for value in values)]
        for share, values in zip(stored["shares"], stored["sweep"], strict=True)
    ]
    assert sweep == measured
    assert summed[1:] == [f"{value:.4f}" for value in stored["sum as one label"]]
    assert f"means over {stored['seeds']} seeds" in RECORDS["goals.md"]


@pytest.mark.parametrize("name", sorted(RESULTS.glob("peers-*.json")), ids=lambda path: path.stem)
def test_tables_of_the_comparison_are_those_of_the_results(name: Path) -> None:
    text = RAW["lab/benchmarks/results/comparison.md"]
    for row in json.loads(name.read_text())["quality"]:
        value = f"{100 * row['mean']:.2f}"
        if row["difference"] is not None:
            low, high = 100 * row["low"], 100 * row["high"]
            value += f" ({100 * row['difference']:+.2f} [{low:+.2f}, {high:+.2f}]{'*' * row['significant']})"
        assert any(
            line.startswith(f"| {row['system']} |") and f"| {value} |" in line
            for line in text.splitlines()
        )


def test_scores_page_has_the_figures_of_the_results() -> None:
    measured = json.loads((RESULTS / "calibration.json").read_text())
    maps = ("raw", "logistic", "isotonic")
    errors = [
        [row["data"], row["objective"], row["target"], *(f"{row[name]:.4f}" for name in maps)]
        for row in measured["errors"]
    ]
    assert table_after("calibration.json", "scores.md") == errors
    assert all(
        row["isotonic"] <= row["raw"] / 3 and row["orders_changed"] == 0
        for row in measured["errors"]
    )
    assert measured["largest_gap_of_explanations"] == 0
    assert table_after("anchors", "scores.md") == [
        [f"`{row['objective']}`", f"{row['ndcg@10']:.4f}", f"{row['across_queries']:.4f}"]
        for row in measured["anchors"]
    ]


def test_results_count_the_claims_of_the_papers() -> None:
    full, contradicted, others = tables(RAW["lab/benchmarks/results/papers.md"])[:3]
    names = ["stochasticrank", "tricks", "xendcg", "lambdaex", "softrank"]
    counts = {name: [0, 0, 0, 0] for name in names}
    for experiment, _, *cells in full:
        name = experiment.partition("-")[0]
        counts[name] = [total + int(cell) for total, cell in zip(counts[name], cells, strict=True)]
    written = [[int(cell) for cell in row[1:]] for row in table_after("papers.md", "papers.md")]
    assert written == list(counts.values())
    agree, undecided, against, mixed = map(sum, zip(*written, strict=True))
    point = " ".join(RECORDS["papers.md"].split())
    assert f"Of {agree + undecided + against + mixed} tests" in point
    assert (
        f"{agree} agree with the paper, {undecided} are not significant, {against} contradict it and {mixed} "
        in point
    )
    assert [[row[0], *row[2:]] for row in table_after("contradicted", "papers.md")] == [
        [experiment, claim, evidence.partition(", p ")[0].replace(" points", ""), why]
        for experiment, _, claim, evidence, why in contradicted
    ]
    assert len(others) == undecided + mixed
    assert all(why for *_, why in [*contradicted, *others])


def test_defaults_have_the_figures_of_the_tables() -> None:
    measured = [
        row[1:] for table in tables(RAW["lab/benchmarks/results/defaults.md"]) for row in table
    ]
    steps = table_after("defaults.md", "defaults.md")
    assert len(steps) == 3
    assert all(row[1:] in measured for row in steps)


def test_clicks_have_the_measured_figures() -> None:
    measured = json.loads((RESULTS / "offline-evaluation.json").read_text())
    expected = [
        [
            name,
            f"{row['mean'] / row['truth']:.3f}",
            f"{row['z']:+.1f}",
            f"{100 * row['coverage']:.1f} %",
        ]
        for name, row in measured["estimators"]["estimators"].items()
    ]
    assert table_after("estimators", "clicks.md") == expected
    expected = [
        [str(row["impressions"]), *(f"{100 * share:.0f} %" for share in row["power"].values())]
        for row in measured["power"]["rows"]
    ]
    assert table_after("power", "clicks.md") == expected
    errors = {
        (row["method"], kind, row["exponent"]): f"{100 * row['worst_error']:.0f} %"
        for kind in ("short", "web")
        for row in measured[f"propensities {kind}"]["rows"]
    }
    for method, _, *cells in table_after("propensities", "clicks.md"):
        name = method.replace("`", "")
        assert cells == [
            f"{errors[name, kind, 1.0]}, {errors[name, kind, 2.0]}" for kind in ("short", "web")
        ]
    alarms = [f"{100 * share:.1f} %" for share in measured["alarms"]["alarms"].values()]
    assert f"{alarms[0]}, {alarms[1]} and {alarms[2]}" in RECORDS["clicks.md"]


def test_figures_are_drawn_from_the_results(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "lab" / "benchmarks" / "figures.py"), str(tmp_path)]
    subprocess.run(script, check=True, capture_output=True)
    drawn = {path.name: labels(path) for path in tmp_path.iterdir()}
    kept = {
        path.name: labels(path)
        for path in (DOCS / "images").glob("*.svg")
        if not path.name.startswith("example-")  # drawn by tools/examples_page.py
    }
    assert drawn == kept
    assert all(len(values) >= 20 for values in drawn.values())


def labels(picture: Path) -> list[str]:
    """Values that a figure shows; where it puts them depends on the fonts of the machine."""
    return re.findall(r'aria-label="([^"]*)"', picture.read_text())
