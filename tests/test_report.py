"""Pages and the report on runs: contents, files, limits of size. The browser has a file of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rankwright import RankingData, compare, evaluate, write_data
from rankwright.charts.theme import COLOURS, merged, on_paper
from rankwright.cli import app
from rankwright.model import Prepared
from rankwright.report import Figure, Page, Section, Table, Text, run_report, save_page
from rankwright.report.explorer import QueryExplorer
from rankwright.report.reasons import ReasonExplorer
from rankwright.report.scored_runs import (
    ScoredRuns,
    count_ties,
    distinct_names,
    groups_of,
    mean_interval,
)
from rankwright.runs import Run, train_run
from rankwright.training.ending import ending_line
from small import QUICK, TRAIN, VALID

METRICS = ["ndcg@5", "map"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        train_run(
            folder / name,
            TRAIN,
            VALID,
            parameters={**QUICK, "metric": METRICS, "objective": name},
            verbose=0,
        )
        for name in ("lambdamart", "queryrmse")
    ]


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> Page:
    return run_report(runs, VALID, data_name="held-out queries")


def chart() -> Any:
    return alt.Chart(alt.Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q", y="y:Q")


class Elements(HTMLParser):
    """Elements of a page, as (tag, attributes, text)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1][2].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [
            "".join(text)
            for name, attrs, text in self.found
            if name == tag and all(attrs.get(key) == value for key, value in attributes.items())
        ]


def tables(page: Page, section: str) -> dict[str, Table]:
    chosen = next(one for one in page.sections if one.title == section)
    return {block.title: block for block in chosen.blocks if isinstance(block, Table)}


def rows_of(figure: Figure) -> list[dict[str, Any]]:
    """The inline data of a chart, of whichever layer has most."""

    def found(spec: Any) -> Iterator[list[dict[str, Any]]]:
        if isinstance(spec, dict):
            if isinstance(spec.get("values"), list):
                yield spec["values"]
            for value in spec.values():
                yield from found(value)
        elif isinstance(spec, list):
            for value in spec:
                yield from found(value)

    return max(found(figure.specification()), key=len)


# Pages


def test_a_page_loads_nothing_and_runs_only_its_own_scripts(page: Page) -> None:
    elements = Elements(page.html())
    for tag, attributes, _ in elements.found:
        assert tag not in ("link", "img", "iframe", "object", "embed")
        assert "src" not in attributes
        assert tag != "a" or (attributes["href"] or "").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    policy = next(
        a["content"]
        for _, a, _ in elements.found
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in elements.texts("script")
        if not script.lstrip().startswith("{")
    ]
    assert len(digests) == 4
    assert (
        policy
        == "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src "
        + " ".join(f"'sha256-{digest}'" for digest in digests)
    )


def test_texts_are_escaped_everywhere() -> None:
    bad = "</script><img src=x onerror=alert(1)>&\"'"
    data = alt.Data(values=[{"x": bad}])
    figure = Figure(bad, alt.Chart(data).mark_point().encode(x="x:N"), bad)
    html = Page(
        bad, [Section(bad, [Text(bad), Table(bad, [bad], [[bad]], bad), figure])], bad
    ).html()
    elements = Elements(html)
    assert not [tag for tag, _, _ in elements.found if tag == "img"]
    (spec,) = elements.texts("script", type="application/json")
    assert json.loads(spec)["data"]["values"] == [{"x": bad}]


def test_contents_link_to_the_sections_even_where_titles_are_the_same() -> None:
    elements = Elements(Page("p", [Section("One & two", []), Section("One & two", [])]).html())
    links = [a["href"] for tag, a, _ in elements.found if tag == "a" and a.get("class") != "skip"]
    ids = [f"#{a['id']}" for tag, a, _ in elements.found if tag == "h2"]
    assert links == ids
    assert len(set(ids)) == 2


def test_figures_in_a_row_share_it_and_other_blocks_stand_alone() -> None:
    figure = Figure("f", chart(), "a")
    html = Page("p", [Section("s", [figure, figure, Text("t"), figure])]).html()
    assert [row.count("<figure>") for row in html.split('<div class="row">')[1:]] == [2, 0, 1]


def test_vega_is_in_the_page_once_and_only_if_there_is_a_chart() -> None:
    figure = Figure("f", chart(), "a")
    assert Page("p", [Section("s", [figure, figure])]).html().count("window.vegaEmbed=") == 1
    assert "window.vegaEmbed=" not in Page("p", [Section("s", [Text("t")])]).html()


def test_cells() -> None:
    table = Table(
        "t",
        ["a", "b", "c", "d"],
        [["x", 1234, 0.5, None], ["y|z", -7, 12.34567, "[0.1, 0.2]*"]],
        "* note",
    )
    assert table.markdown({}).splitlines() == [
        "**t**",
        "",
        "| a | b | c | d |",
        "|---|--:|--:|--:|",
        "| x | 1,234 | 0.5000 | – |",
        r"| y\|z | -7 | 12.3457 | [0.1, 0.2]\* |",
        "",
        r"\* note",
    ]
    assert [
        cls == "number" for cls in re.findall(r'<th scope="col"(?: class="(\w+)")?>', table.html())
    ] == [False, True, True, True]


@pytest.mark.parametrize(
    ("cell", "rule"), [("-2.35e-05", "--:"), ("3 of 4", "--:"), ("1e", "---"), ("e-05", "---")]
)
def test_columns_of_numbers_are_right_aligned(cell: str, rule: str) -> None:
    assert Table("", ["a"], [[cell], ["0.5"]]).markdown({}).splitlines()[1] == f"|{rule}|"


def test_a_row_of_another_length_is_rejected() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells for 2 columns"):
        Table("t", ["a", "b"], [[1, 2], [3]])


def test_charts_take_the_page_width_unless_they_have_one_or_are_composed() -> None:
    assert Figure("f", chart(), "a").specification()["width"] == "container"
    assert Figure("f", chart().properties(width=120), "a").specification()["width"] == 120
    assert "width" not in Figure("f", chart() | chart(), "a").specification()


def test_a_charts_own_configuration_stays() -> None:
    config = Figure("f", chart().configure_axis(gridColor="red"), "a").specification()["config"]
    assert config["axis"]["gridColor"] == "red"
    assert config["axis"]["labelColor"] == "var(--faint)"
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}


def test_pictures_have_the_light_colours() -> None:
    spec = on_paper({"a": ["var(--ink)", 1, None], "b": "solid var(--line)"})
    assert spec == {"a": [COLOURS["ink"][0], 1, None], "b": f"solid {COLOURS['line'][0]}"}
    assert "var(" not in json.dumps(on_paper(Figure("f", chart(), "a").specification()))


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(scheme: int) -> None:
    paper = COLOURS["paper"][scheme]
    for name in ("ink", "faint", "accent"):
        assert contrast(COLOURS[name][scheme], paper) >= 4.5
    for name in COLOURS:
        if name.startswith("series-"):
            assert contrast(COLOURS[name][scheme], paper) >= 3


# Files


def test_html_is_one_file(tmp_path: Path) -> None:
    save_page(
        Page("p", [Section("s", [Figure("f", chart(), "a")])]), tmp_path / "new" / "report.html"
    )
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["report.html"]


def test_markdown_links_to_its_pictures(tmp_path: Path) -> None:
    page = Page(
        "p", [Section("s", [Figure("A figure!", chart(), "what it shows"), Text("t")])], "sub"
    )
    save_page(page, tmp_path / "report.md", "md")
    assert (tmp_path / "report.md").read_text() == (
        "# p\n\nsub\n\n## s\n\n**A figure!**\n\n![what it shows](report-figures/01-a-figure.png)\n\nt\n"
    )
    assert (tmp_path / "report-figures" / "01-a-figure.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_png_beside_html(tmp_path: Path) -> None:
    save_page(
        Page("p", [Section("s", [Figure("f", chart(), "a")] * 2)]), tmp_path / "r.html", png=True
    )
    assert sorted(path.name for path in (tmp_path / "r-figures").iterdir()) == [
        "01-f.png",
        "02-f.png",
    ]


def test_nothing_is_left_of_a_page_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page("p", [Section("s", [Figure("f", chart(), "a")])])
    (tmp_path / "report.md").write_text("the old one")

    def full(descriptor: int) -> None:
        if (tmp_path / "new-figures").exists() or (tmp_path / "report-figures").exists():
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("report.md", "new.md"):
        with pytest.raises(OSError, match="No space left"):
            save_page(page, tmp_path / name, "md")
    assert [path.name for path in tmp_path.rglob("*")] == ["report.md"]
    assert (tmp_path / "report.md").read_text() == "the old one"


def test_wrong_targets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format must be one of 'html', 'md'; got 'pdf'"):
        save_page(Page("p", []), tmp_path / "r.pdf", "pdf")
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        save_page(Page("p", []), tmp_path)


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, runs: list[Run]
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(
        ImportError, match=r'a report needs altair, .* pip install "rankwright\[report\]"'
    ):
        run_report(runs, VALID)


# Numbers


def ties_by_pairs(data: RankingData, scores: Any) -> tuple[int, int, int, int]:
    pairs = tied = across = at_top = 0
    for q in range(data.n_queries):
        rows = range(data.boundaries[q], data.boundaries[q + 1])
        touched = False
        ranked = sorted(rows, key=lambda row: -scores[row])
        for a, b in combinations(rows, 2):
            pairs += 1
            if scores[a] == scores[b]:
                tied += 1
                across += data.y[a] != data.y[b]
                touched |= scores[a] in [scores[row] for row in ranked[:10]]
        at_top += touched
    return pairs, tied, across, at_top


@pytest.mark.parametrize("levels", [1, 3, 8, 40])
def test_ties_by_counting_pairs(levels: int) -> None:
    draw = np.random.default_rng(levels)
    data = RankingData(
        np.zeros((90, 1)), draw.integers(0, 3, 90), qid=np.repeat([3, 1, 2, 9], [40, 1, 14, 35])
    )
    scores = draw.integers(0, levels, 90).astype(float)
    counts = count_ties(data, scores)
    assert (
        counts.pairs,
        counts.tied,
        counts.tied_across_labels,
        counts.queries_at_top,
    ) == ties_by_pairs(data, scores)


def test_a_tie_at_the_tenth_place_is_one_of_the_top() -> None:
    data = RankingData(np.zeros((13, 1)), np.arange(13) % 2, group=[13])
    scores = -np.arange(13.0)
    assert (
        count_ties(data, np.where(scores == -10, -9, scores)).queries_at_top == 1
    )  # places 10 and 11
    assert (
        count_ties(data, np.where(scores == -11, -10, scores)).queries_at_top == 0
    )  # places 11 and 12


def test_groups_divide_the_queries() -> None:
    values = np.random.default_rng(0).geometric(0.1, 500)
    groups = groups_of(values, 6)
    assert sorted(np.concatenate([members for _, members in groups])) == list(range(500))
    for (_, one), (_, other) in pairwise(groups):
        assert values[one].max() < values[other].min()
    assert [text for text, _ in groups] == [
        f"{values[m].min()}–{values[m].max()}" for _, m in groups
    ]
    assert max(len(members) for _, members in groups) < 2 * 500 / 6
    assert [(text, members.tolist()) for text, members in groups_of(np.array([5, 5, 5]))] == [
        ("5", [0, 1, 2])
    ]


def test_interval_of_a_mean() -> None:
    # Student's quantile for 2 degrees of freedom is 4.302653; the standard error of (1, 2, 3) is 1 / sqrt(3).
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert (mean, low, high) == pytest.approx(
        (2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6
    )
    assert mean_interval(np.array([4.0])) == (4, 4, 4)


def test_names_are_made_distinct() -> None:
    def named(*paths: str) -> list[str]:
        return distinct_names([SimpleNamespace(name=Path(p).name, path=Path(p)) for p in paths])  # type: ignore[misc]

    assert named("/x/one", "/x/two") == ["one", "two"]
    assert named("/x/run", "/y/run") == ["x/run", "y/run"]
    assert named("/x/run", "/x/run") == ["x/run", "x/run (2)"]


# The report on runs


def test_sections(page: Page) -> None:
    assert page.title == "lambdamart and queryrmse"
    assert page.subtitle == "on held-out queries"
    assert [section.title for section in page.sections] == [
        "Overview",
        "Learning curves",
        "Query by query",
        "Reasons",
        "Kinds of queries",
        "Scores and ties",
        "Features",
        "Time",
        "Manifest",
    ]
    assert all(figure.alt.endswith(".") and len(figure.alt) > 30 for figure in page.figures())


def test_means_and_tests_are_those_of_evaluate_and_compare(page: Page, runs: list[Run]) -> None:
    evaluations = [
        evaluate(run.ranker.predict(VALID), VALID.y, qid=VALID.qid, metrics=METRICS, ties="worst")
        for run in runs
    ]
    overview = tables(page, "Overview")
    for row, evaluation in zip(overview["Means"].rows, evaluations, strict=True):
        assert [str(cell).split()[0] for cell in row[1:]] == [
            f"{evaluation.mean[m]:.4f}" for m in METRICS
        ]
    expected = compare(*evaluations, names=["lambdamart", "queryrmse"]).rows
    for row, paired in zip(overview["Against lambdamart"].rows, expected, strict=True):
        assert row[:3] == [paired.metric, "queryrmse", f"{paired.difference:+.4f}"]
        assert row[5] == f"{paired.wins}/{paired.ties}/{paired.losses}"
        assert str(row[6]).startswith(f"{paired.p_adjusted:.4f}")
        assert str(row[6]).endswith("*") == paired.significant


def test_significance_is_marked() -> None:
    better = run_report(fakes([perfect, np.zeros_like]), large(60), metrics=["ndcg"])
    assert str(tables(better, "Overview")["Means"].rows[1][1]).endswith("]*")
    same = run_report(fakes([perfect, perfect]), large(60), metrics=["ndcg"])
    assert str(tables(same, "Overview")["Means"].rows[1][1]).endswith("]")


def test_learning_curves_are_the_history(page: Page, runs: list[Run]) -> None:
    section = page.sections[1]
    ends, figures = section.blocks[: len(runs)], section.blocks[len(runs) :]
    for run, end in zip(runs, ends, strict=True):
        assert isinstance(end, Text)
        assert end.text == f"{run.name}: {ending_line(run.ranker.manifest_)}"
    assert [figure.title for figure in figures if isinstance(figure, Figure)] == METRICS
    for figure in figures:
        assert isinstance(figure, Figure)
        # The best trees are in the rows a second time.
        rows = [row for row in rows_of(figure) if "best" not in row]
        assert len(rows) == len(runs) * 2 * QUICK["n_estimators"]
        for row in rows:
            run = next(run for run in runs if run.name == row["model"])
            part = {"training": "train", "validation": "valid"}[row["data"]]
            expected = run.history[row["trees"] - 1][part][figure.title]
            assert row["value"] == pytest.approx(expected, abs=1e-6)


def test_features_are_the_twenty_largest(page: Page, runs: list[Run]) -> None:
    (features,) = (section for section in page.sections if section.title == "Features")
    for figure, run in zip(features.blocks, runs, strict=True):
        assert isinstance(figure, Figure)
        shares = sorted(run.ranker.feature_importances_, reverse=True)[:20]
        assert [row["share"] for row in rows_of(figure)] == pytest.approx(shares, abs=1e-5)


def test_times_and_manifest(page: Page, runs: list[Run]) -> None:
    (times,) = tables(page, "Time").values()
    assert [row[-1] for row in times.rows] == [f"{sum(run.times.values()):.2f}" for run in runs]
    manifest = tables(page, "Manifest")
    assert list(manifest) == [
        "Parameters",
        "Settings that the data chose",
        "Runs and data",
        "Environment",
    ]
    parameters = {row[0]: row[1:] for row in manifest["Parameters"].rows}
    assert parameters["objective"] == ["lambdamart", "queryrmse"]
    assert parameters["n_estimators"] == ["12", "12"]
    assert manifest["Parameters"].rows[0][0] == "objective"  # the only one that differs comes first
    about = {row[0]: row[1:] for row in manifest["Runs and data"].rows}
    fingerprints = [run.manifest["data"]["train"]["fingerprint"] for run in runs]
    assert about["data.train.fingerprint"] == fingerprints
    assert len(set(about["test data.fingerprint"])) == 1
    environment = {row[0]: row[1] for row in manifest["Environment"].rows}
    assert environment["packages.numpy"] == np.__version__


def test_one_run_is_reported_without_a_comparison(runs: list[Run]) -> None:
    page = run_report(runs[:1], VALID, metrics="arp", title="Mine")
    assert page.title == "Mine"
    assert list(tables(page, "Overview")) == ["Means"]
    worst = tables(page, "Query by query")["Worst queries"]
    values = evaluate(
        runs[0].ranker.predict(VALID), VALID.y, qid=VALID.qid, metrics="arp"
    ).per_query["arp"]
    assert [row[1] for row in worst.rows] == sorted(values[~np.isnan(values)], reverse=True)[
        :20
    ]  # lower is better


def test_weights_of_queries_are_used(runs: list[Run]) -> None:
    weights = np.linspace(0.1, 3, VALID.n_queries)
    weighted = RankingData(
        VALID.X,
        VALID.y,
        group=VALID.group,
        sample_weight=weights,
        feature_names=VALID.feature_names,
    )
    values = evaluate(
        runs[0].ranker.predict(VALID), VALID.y, group=VALID.group, metrics="ndcg@5"
    ).per_query["ndcg@5"]
    counted = ~np.isnan(values)
    expected = sum(weights[counted] * values[counted]) / sum(weights[counted])
    table = tables(run_report(runs, weighted, metrics="ndcg@5"), "Overview")["Means"]
    assert table.rows[0][1] == f"{expected:.4f}"
    assert "weighted" in table.note


@pytest.mark.filterwarnings("ignore:ndcg.*no query has a relevant document")
def test_no_relevant_document() -> None:
    data = RankingData(np.zeros((4, 1)), [0, 0, 0, 0], group=[2, 2])
    with pytest.raises(
        ValueError, match=r"no query of test data has a relevant document, so ndcg has no value"
    ):
        run_report(fakes([perfect]), data, metrics="ndcg")


def test_no_run() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        run_report([], VALID)


# Picking queries


def scored_runs(data: RankingData, *scores: Any, metric: str = "ndcg@5") -> ScoredRuns:
    evaluations = [evaluate(one, data.y, group=data.group, metrics=metric) for one in scores]
    return ScoredRuns(
        [f"s{number}" for number in range(len(scores))], data, list(scores), evaluations
    )


def explorer_data(explorer: QueryExplorer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        Elements(explorer.html()).texts("script", **{"class": "explorer-data"})[0]
    )
    return found


def explorer_figures(explorer: QueryExplorer) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    scatter, histogram = (figure.specification() for figure in explorer.figures())
    return scatter["datasets"]["points"], histogram["datasets"]["pairs"]


def test_rankings_are_those_that_the_metric_counts() -> None:
    draw = np.random.default_rng(5)
    data = RankingData(
        np.zeros((200, 1)), draw.integers(0, 3, 200), qid=np.repeat(np.arange(8), 25)
    )
    scores = [draw.integers(0, 6, 200) / 3, draw.normal(size=200)]  # the first has many ties
    explorer = QueryExplorer(scored_runs(data, *scores))
    points, _ = explorer_figures(explorer)
    rankings = explorer_data(explorer)["rankings"]
    assert len(points) == len(rankings) == 8
    for point in points:
        rows = range(25 * int(point["query"]), 25 * int(point["query"]) + 25)
        assert point["documents"] == 25
        assert point["relevant"] == sum(data.y[row] > 0 for row in rows)
        for system, (documents, labels, shown) in enumerate(rankings[point["ranking"]]):
            order = sorted(rows, key=lambda row, s=scores[system]: (-s[row], data.y[row]))[:20]  # type: ignore[misc]
            assert documents == [row - rows[0] + 1 for row in order]
            assert labels == [data.y[row] for row in order]
            assert shown == pytest.approx([scores[system][row] for row in order], rel=1e-4)
            gains = [2**label - 1 for label in labels[:5]]
            ideal = sorted((2 ** data.y[row] - 1 for row in rows), reverse=True)[:5]
            discounts = 1 / np.log2(np.arange(2, 7))
            assert point["values"][0][system] == pytest.approx(
                np.dot(gains, discounts) / np.dot(ideal, discounts), abs=1e-5
            )


def test_the_histogram_counts_all_queries_of_each_pair() -> None:
    draw = np.random.default_rng(6)
    data = RankingData(
        np.zeros((900, 1)), draw.integers(0, 2, 900), qid=np.repeat(np.arange(90), 10)
    )
    scored = scored_runs(data, *(draw.normal(size=900) for _ in range(3)), metric="mrr")
    _, pairs = explorer_figures(QueryExplorer(scored))
    assert [(pair["first"], pair["second"]) for pair in pairs] == [(0, 1), (0, 2), (1, 2)]
    width = 2 * max(np.ptp(scored.values, axis=0)) / 40
    for pair in pairs:
        difference = scored.values[pair["second"]] - scored.values[pair["first"]]
        assert sum(pair["queries"]) == len(scored.counted)
        assert (pair["larger"], pair["smaller"]) == (sum(difference > 0), sum(difference < 0))
        for place, count in enumerate(pair["queries"]):
            middle = (place - 20) * width
            inside = sum(abs(difference - middle) < width / 2 * (1 - 1e-9))
            touching = sum(abs(difference - middle) <= width / 2 * (1 + 1e-9))
            assert inside <= count <= touching


def test_the_query_view_has_every_metric() -> None:
    draw = np.random.default_rng(7)
    data = RankingData(np.zeros((60, 1)), draw.integers(0, 2, 60), qid=np.repeat(np.arange(6), 10))
    scores = [draw.normal(size=60) for _ in range(2)]
    metrics = ["ndcg@5", "arp", "mrr"]
    scored = ScoredRuns(
        ["s0", "s1"],
        data,
        scores,
        [evaluate(one, data.y, group=data.group, metrics=metrics) for one in scores],
    )
    explorer = QueryExplorer(scored)
    described = explorer_data(explorer)["metrics"]
    assert [(metric["name"], metric["better"]) for metric in described] == [
        ("ndcg@5", 1),
        ("arp", -1),
        ("mrr", 1),
    ]
    points, pairs = explorer_figures(explorer)
    for number, metric in enumerate(described):
        values = np.array(
            [evaluation.per_query[metric["name"]] for evaluation in scored.evaluations]
        )
        shown = {int(point["query"]): point["values"][number] for point in points}
        assert all(shown[query] == pytest.approx(values[:, query], abs=1e-5) for query in range(6))
        assert metric["ends"][0] < values.min() <= values.max() < metric["ends"][1]
        (pair,) = (pair for pair in pairs if pair["metric"] == number)
        assert (pair["larger"], pair["smaller"]) == (
            sum(values[1] > values[0]),
            sum(values[1] < values[0]),
        )
        assert metric["widest"] == pytest.approx(max(np.ptp(values, axis=0).max(), 1e-6))
    assert [
        option for option in Elements(explorer.html()).texts("option") if option in metrics
    ] == metrics


def test_queries_without_a_value_are_not_offered() -> None:
    data = RankingData(np.zeros((6, 1)), [0, 1, 0, 0, 1, 0], qid=list("aabbcc"))
    scores = np.arange(6.0)
    points, _ = explorer_figures(QueryExplorer(scored_runs(data, scores, -scores)))
    assert sorted(point["query"] for point in points) == ["a", "c"]


def perfect(labels: Any) -> Any:
    return labels.astype(float)


def noisy(seed: int) -> Any:
    return lambda labels: labels + np.random.default_rng(seed).normal(scale=1.5, size=len(labels))


def large(n_queries: int, documents: int = 30) -> RankingData:
    draw = np.random.default_rng(n_queries)
    ids = np.array(
        [f"a long query id, as they are made from urls and dates {q:06d}" for q in range(n_queries)]
    )
    y = draw.integers(0, 5, n_queries * documents)
    return RankingData(np.zeros((len(y), 1)), y, qid=np.repeat(ids, documents))


def fakes(scorers: Sequence[Any]) -> list[Any]:
    """Runs that score by the labels, with long curves and many features."""

    def fake(number: int, scorer: Any) -> Any:
        names = [f"a feature with a long name, number {column}" for column in range(700)]
        history = [
            {
                "iteration": i,
                "seconds": 0.1 * i,
                "train": dict.fromkeys("abc", i / 5000),
                "valid": {"a": 0.5},
            }
            for i in range(1, 5001)
        ]
        shares = np.random.default_rng(number).dirichlet(np.ones(700))
        ranker = SimpleNamespace(
            predict=lambda data: scorer(data.y),
            calibration_=None,
            stopping_=None,
            metrics_=["ndcg@10"],
            learning_rates_=[0.1, 0.1],
            manifest_={
                "objective": "lambdamart",
                "chosen": {},
                "parameters": {"refit": False},
                "initial_trees": 0,
                "stopping": None,
                "ending": {
                    "trees": 5000,
                    "reason": "all",
                    "patience": None,
                    "best_iteration": None,
                },
            },
            model_=SimpleNamespace(
                feature_names=names,
                columns=SimpleNamespace(categories={}),
                score_parts=names,
                prepare=lambda data, by_column: Prepared(np.zeros((data.n_rows, 700)), None),
                contributions=lambda rows: np.tile(np.append(shares, 0), (len(rows.matrix), 1)),
                values_of_parts=lambda rows: rows.matrix,
            ),
            feature_importances_=shares,
        )
        return SimpleNamespace(
            name=f"run-{number}",
            path=Path(f"run-{number}"),
            ranker=ranker,
            manifest={"feature_names": names, "data": {"train": {"rows": 10**6}}},
            config={f"parameter_{n}": n for n in range(30)},
            environment={"python": "3.11"},
            history=history,
            times={"trees": 3.0, "gradients": 1.0},
        )

    return [fake(number, scorer) for number, scorer in enumerate(scorers)]


@pytest.mark.slow
@pytest.mark.parametrize("n_runs", [2, 12])
def test_large_data_stays_below_two_megabytes(n_runs: int) -> None:
    data = large(3000)
    page = run_report(fakes([noisy(seed) for seed in range(n_runs)]), data, metrics=["ndcg@10"])
    assert len(page.html().encode()) < 2_000_000
    (explorer,) = (block for block in page.sections[2].blocks if isinstance(block, QueryExplorer))
    points, pairs = explorer_figures(explorer)
    assert all(sum(pair["queries"]) == 3000 for pair in pairs)
    assert len(points) == min(2000, 12000 // n_runs)
    rankings = explorer_data(explorer)["rankings"]
    assert len(rankings) >= 100
    assert [point["ranking"] for point in points if point["ranking"] >= 0] == list(
        range(len(rankings))
    )
    assert f"{len(points):,} of 3,000 queries" in explorer.html()
    assert f"for {len(rankings):,} of" in explorer.html()
    # The query that changed most of all is there.
    spread = np.ptp(explorer.scored.values, axis=0)
    assert max(np.ptp(point["values"][0]) for point in points[: len(rankings)]) == pytest.approx(
        spread.max(), abs=1e-5
    )


def test_markdown_lists_the_queries_that_changed_most(page: Page, runs: list[Run]) -> None:
    values = [
        evaluate(run.ranker.predict(VALID), VALID.y, qid=VALID.qid, metrics="ndcg@5").per_query[
            "ndcg@5"
        ]
        for run in runs
    ]
    place = int(np.nanargmax(np.abs(values[1] - values[0])))
    first = page.markdown().split("**Queries that changed most**")[1].splitlines()[4]
    assert first == (
        f"| {VALID.query_ids[place]} | {values[0][place]:.4f} | {values[1][place]:.4f} "
        f"| {values[1][place] - values[0][place]:+.4f} |"
    )


# Reasons for an order


def reasons_of(page: Page) -> ReasonExplorer:
    (block,) = next(section for section in page.sections if section.title == "Reasons").blocks
    assert isinstance(block, ReasonExplorer)
    return block


def test_reasons_are_the_contributions_of_the_first_documents(page: Page, runs: list[Run]) -> None:
    block = reasons_of(page)
    assert len(block.queries) == block.n_queries
    for item in block.queries:
        query = [str(one) for one in VALID.query_ids].index(item["query"])
        start, stop = VALID.boundaries[query : query + 2]
        for run, ranking in zip(runs, item["runs"], strict=True):
            scores = run.ranker.predict(VALID.X[start:stop])
            shap = run.ranker.predict(VALID.X[start:stop], contributions=True)
            order = np.lexsort((VALID.y[start:stop], -scores))[:12]
            assert ranking["documents"] == [f"document {place + 1}" for place in order]
            assert ranking["labels"] == VALID.y[start:stop][order].tolist()
            np.testing.assert_allclose(ranking["scores"], scores[order], rtol=1e-5)
            columns = [VALID.feature_names.index(name) for name in ranking["features"]]
            np.testing.assert_allclose(ranking["contributions"], shap[order][:, columns], rtol=1e-3)
            spread = np.ptp(shap[order][:, :-1], axis=0)
            assert spread[columns].min() >= np.sort(spread)[-10]
    found = json.loads(Elements(block.html()).texts("script", **{"class": "reasons-data"})[0])
    first = found["queries"][0]["runs"][1]
    names = [found["names"][number] for number in first["features"]]
    assert names == block.queries[0]["runs"][1]["features"]


def test_reasons_start_with_the_worst_query_and_a_wrong_pair(page: Page, runs: list[Run]) -> None:
    block = reasons_of(page)
    values = np.mean(
        [
            evaluate(run.ranker.predict(VALID), VALID.y, qid=VALID.qid, metrics="ndcg@5").per_query[
                "ndcg@5"
            ]
            for run in runs
        ],
        axis=0,
    )
    assert block.queries[0]["query"] == str(VALID.query_ids[int(np.nanargmin(values))])
    ranking, (a, b) = block.queries[0]["runs"][0], block.queries[0]["pairs"][0]
    assert b == a + 1
    assert ranking["labels"][b] > ranking["labels"][a]
    text = page.markdown().split("## Reasons")[1].split("## Kinds")[0]
    cells = [line.split("|")[-2].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert sum(map(float, cells)) == pytest.approx(
        ranking["scores"][a] - ranking["scores"][b], abs=1e-3
    )


def test_no_reasons_without_pairs_or_with_trees_that_are_too_deep(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = RankingData(VALID.X[:3], [1, 1, 1], qid=[1, 2, 3], reference=VALID)
    titles = [section.title for section in run_report(runs[:1], alone, metrics="mrr").sections]
    assert "Reasons" not in titles

    def refuse(self: Any, X: Any, *, threads: int = 1) -> Any:
        raise ValueError("SHAP values need trees of at most 1024 levels.")

    monkeypatch.setattr(type(runs[0].ranker.forest_), "contributions", refuse)
    page = run_report(runs[:1], VALID)
    (block,) = next(one for one in page.sections if one.title == "Reasons").blocks
    assert isinstance(block, Text)
    assert block.text.startswith("There are no reasons to show: SHAP values need trees")


def test_texts_ids_and_categories_are_shown_where_the_data_has_them(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    n, brands = 240, np.array(["acme", "<b>"])
    brand = draw.integers(0, 2, n)
    frame = pd.DataFrame({"brand": pd.Categorical(brands[brand]), "x": draw.random(n)})
    query = np.arange(n) // 8
    fields = {
        "docid": [f"item-{row}" for row in range(n)],
        "query_text": [f"text {number}" for number in query],
    }
    data = RankingData(frame, brand + draw.integers(0, 2, n), qid=query, fields=fields)
    run = train_run(tmp_path / "run", data, parameters=QUICK, verbose=0)
    page = run_report([run], data)
    worst = tables(page, "Query by query")["Worst queries"]
    assert list(worst.columns)[:2] == ["query", "text"]
    assert worst.rows[0][1] == f"text {worst.rows[0][0]}"
    (ranking,) = reasons_of(page).queries[0]["runs"]
    assert all(name.startswith("item-") for name in ranking["documents"])
    values = dict(zip(ranking["features"], zip(*ranking["values"], strict=True), strict=True))
    assert set(values["brand"]) <= set(brands)
    assert "why item-" in page.markdown()


def test_the_number_of_rows_that_differ_is_said_in_words(page: Page) -> None:
    assert tables(page, "Manifest")["Parameters"].note == "The first row differs between the runs."


# Calibration


def test_calibrated_runs_have_a_section(runs: list[Run], tmp_path: Path) -> None:
    calibrated = train_run(
        tmp_path / "calibrated", TRAIN, parameters={**QUICK, "metric": METRICS}, verbose=0
    )
    calibrated.ranker.calibrate(TRAIN, target="relevance", folds=2)
    page = run_report([runs[0], calibrated], VALID)
    table = tables(page, "Calibration")["Calibration errors"]
    curve = calibrated.ranker.reliability(VALID)
    assert table.rows == [
        ["calibrated", calibrated.ranker.calibration_.describe(), curve.error, curve.largest]
    ]
    (figure,) = next(one for one in page.sections if one.title == "Calibration").blocks[1:2]
    assert isinstance(figure, Figure)
    points = rows_of(figure)
    assert [point["observed"] for point in points] == curve.observed.tolist()
    assert str(curve) in figure.alt
    assert "Calibration" not in [section.title for section in run_report(runs, VALID).sections]


# The command


def test_the_command(tmp_path: Path, runs: list[Run]) -> None:
    write_data(VALID, tmp_path / "test.parquet")
    arguments = [
        "report",
        *(str(run.path) for run in runs),
        "--data",
        str(tmp_path / "test.parquet"),
    ]
    result = CliRunner().invoke(
        app, [*arguments, "--out", str(tmp_path / "r.md"), "--format", "md", "--metrics", "map"]
    )
    assert (result.exit_code, result.output) == (0, f"wrote {tmp_path / 'r.md'}\n")
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("# lambdamart and queryrmse\n\non test.parquet\n")
    for link in re.findall(r"\]\(([^)]+\.png)\)", text):
        assert (tmp_path / link).is_file()
    assert text.count("![") == len(list((tmp_path / "r-figures").iterdir()))


def test_the_command_called_wrongly(tmp_path: Path, runs: list[Run]) -> None:
    run = str(runs[0].path)
    for wrong in (["--format", "pdf"], ["--metrics", "ngcd@10"]):
        assert CliRunner().invoke(app, ["report", run, "--data", "test.txt", *wrong]).exit_code == 2
    assert CliRunner().invoke(app, ["report", run]).exit_code == 2
    missing = CliRunner().invoke(app, ["report", str(tmp_path / "none"), "--data", "test.txt"])
    assert isinstance(missing.exception, FileNotFoundError)


def test_the_headline_says_who_is_best(page: Page, runs: list[Run]) -> None:
    text = page.sections[0].blocks[0]
    assert isinstance(text, Text)
    means = next(
        block
        for block in page.sections[0].blocks
        if isinstance(block, Table) and block.title == "Means"
    )
    values = [float(str(row[1]).split()[0].rstrip("*")) for row in means.rows]
    best = int(np.argmax(values))
    assert text.text.startswith(
        f"{means.rows[best][0]} is best: {means.columns[1]} {values[best]:.4f}, "
    )
    assert re.search(r"\(p (= 0|= 1|< 0)\.[0-9]+(, which may be chance)?\)\.$", text.text)
    assert (best, 1) in means.strong
    assert f"<b>{means.rows[best][1]}</b>" in means.html()
    assert f"| **{values[best]:.4f} [" in means.markdown({})


def test_curves_mark_the_best_tree(page: Page, runs: list[Run]) -> None:
    section = next(section for section in page.sections if section.title == "Learning curves")
    figure = next(block for block in section.blocks if isinstance(block, Figure))
    marks = [row for row in rows_of(figure) if "best" in row]
    assert [mark["model"] for mark in marks] == [run.name for run in runs]
    for mark in marks:
        run = next(run for run in runs if run.name == mark["model"])
        curve = [row["valid"][figure.title] for row in run.history]
        assert (mark["trees"], mark["value"]) == (curve.index(max(curve)) + 1, round(max(curve), 6))


def test_what_is_the_same_for_all_runs_is_shown_once(page: Page) -> None:
    section = next(section for section in page.sections if section.title == "Manifest")
    tables = {block.title: block for block in section.blocks if isinstance(block, Table)}
    assert list(tables["Environment"].columns) == ["", "all runs"]
    assert "Settings that the data chose" in tables


def test_the_page_says_which_command_wrote_it() -> None:
    page = Page("Results", [], command="rankwright report a '<b>'")
    assert "<code>rankwright report a &#39;&lt;b&gt;&#39;</code>" in page.html()
    assert page.markdown().endswith("Written by `rankwright report a '<b>'`.\n")
