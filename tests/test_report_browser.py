"""The report in a browser: charts are drawn, queries can be picked, nothing leaves the page.

Needs Chromium (Debian: ``apt-get install chromium``) and leaves a picture of the page in ``build/report.png``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright.report import run_report, save_page
from rankwright.report.page import Figure, Page, Section
from rankwright.runs import train_run
from small import QUICK, TRAIN, VALID

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="there is no browser: install Chromium to test the report in it"
)

PICTURE = Path(__file__).parents[1] / "build" / "report.png"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on three runs."""
    folder = tmp_path_factory.mktemp("report")
    runs = [
        train_run(
            folder / name,
            TRAIN,
            VALID,
            parameters={**QUICK, "metric": ["ndcg@5", "map"], **options},
            verbose=0,
        )
        for name, options in {
            "lambdamart": {"objective": "lambdamart"},
            "queryrmse": {"objective": "queryrmse"},
            "stumps": {"objective": "queryrmse", "num_leaves": 2},
        }.items()
    ]
    save_page(run_report(runs, VALID), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # Chromium's sandbox does not start for root, as which containers run; the page is our own.
        chromium = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()


class Opened:
    """The report in a window, with what the browser had to say about it."""

    def __init__(self, browser: Any, report: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(120_000)  # on a busy machine a chart takes its time
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(f"{message.type}: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(report.as_uri())
        self.page.wait_for_function(
            "document.querySelectorAll('.chart:not([data-drawn])').length === 0"
        )
        self.said_at_first = list(self.complaints)

    def ranking(self, which: str) -> list[list[str]]:
        rows: list[list[str]] = self.page.eval_on_selector_all(
            f".ranking.{which} tbody tr",
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))",
        )
        return rows

    def captions(self) -> list[str]:
        return [str(text) for text in self.page.locator(".ranking caption b").all_text_contents()]


@pytest.fixture(scope="module")
def desktop(browser: Any, report: Path) -> Iterator[Opened]:
    window = Opened(browser, report, viewport={"width": 1200, "height": 900}, color_scheme="light")
    yield window
    window.context.close()


@pytest.fixture
def opened(desktop: Opened) -> Opened:
    """The report as it is when it has been opened."""
    page = desktop.page
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("delete document.documentElement.dataset.theme")
    page.evaluate("document.activeElement.blur()")
    page.fill(".find", "")
    page.select_option(".order", "change")
    for which, number in (("first", 0), ("second", 1), ("metric", 0)):
        if page.input_value(f".{which}") != str(number):
            page.select_option(f".{which}", str(number))
    page.wait_for_selector(".histogram text:has-text('ndcg@5, queryrmse minus lambdamart')")
    page.select_option(".queries", page.locator(".queries option").first.get_attribute("value"))
    desktop.complaints.clear()
    return desktop


def test_every_chart_has_marks(opened: Opened) -> None:
    marks = opened.page.eval_on_selector_all(
        ".chart",
        """boxes => boxes.map(box => [...box.querySelectorAll('.role-mark path, .role-mark line, .role-mark rect')]
             .filter(mark => { const b = mark.getBoundingClientRect(); return b.width + b.height > 1; }).length)""",
    )
    assert len(marks) == len(opened.page.locator("figure").all()) == 14
    assert min(marks) >= 1
    assert opened.page.locator(".scatter .mark-symbol path").count() == VALID.n_queries


def test_nothing_is_said_on_the_console_and_nothing_leaves_the_page(
    opened: Opened, report: Path
) -> None:
    opened.page.select_option(".second", "2")
    opened.page.locator(".histogram .mark-rect path").first.hover()
    opened.page.locator(".scatter .mark-symbol path").first.click(force=True)
    opened.page.wait_for_timeout(300)
    assert opened.said_at_first + opened.complaints == []
    assert set(opened.requests) == {report.as_uri()}


def test_the_page_forbids_connections(opened: Opened) -> None:
    answer = opened.page.evaluate(
        "fetch('https://example.org/').then(() => 'loaded', error => error.message)"
    )
    assert answer == "Failed to fetch"
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


def test_picking_a_query_changes_both_rankings(opened: Opened) -> None:
    before = opened.ranking("first"), opened.ranking("second")
    chosen = opened.page.locator(".queries option").nth(3)
    query = chosen.text_content().split()[0]
    opened.page.select_option(".queries", chosen.get_attribute("value"))
    after = opened.ranking("first"), opened.ranking("second")
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert opened.page.locator(".rankings .title").text_content().startswith(f"Query {query}: ")
    place = [str(one) for one in VALID.query_ids].index(query)
    labels = VALID.y[VALID.boundaries[place] : VALID.boundaries[place + 1]]
    for rows in after:
        assert [row[0] for row in rows] == [
            str(rank) for rank in range(1, min(20, len(labels)) + 1)
        ]
        assert [float(row[2]) for row in rows] == [labels[int(row[1]) - 1] for row in rows]
        assert sorted([-float(row[3]) for row in rows]) == [-float(row[3]) for row in rows]
    # The last column is the document's rank in the other list.
    there = {row[1]: row[0] for row in after[1]}
    assert [row[4] for row in after[0]] == [there.get(row[1], "–") for row in after[0]]


def test_reasons_add_up_for_any_pair(opened: Opened) -> None:
    page = opened.page
    seen = set()
    for system, query, above, below in (
        ("0", "0", "0", "3"),
        ("2", "1", "4", "1"),
        ("1", "2", "2", "0"),
    ):
        for name, value in (
            ("system", system),
            ("query", query),
            ("above", above),
            ("below", below),
        ):
            page.select_option(f".reasons .{name}", value)
        cells = page.locator(".reasons .bars tbody td:nth-child(4)").all_text_contents()
        total = sum(float(cell.replace("\u2212", "-")) for cell in cells)
        summary = page.locator(".reasons .explained").text_content()
        claimed = float(summary.split("a difference of ")[1].split(",")[0].replace("\u2212", "-"))
        assert total == pytest.approx(claimed, abs=1e-4 * len(cells))
        assert page.locator(".reasons .bars tbody tr").count() == 11
        seen.add(summary)
    assert len(seen) == 3
    widths = page.eval_on_selector_all(
        ".reasons .bar span", "bars => bars.map(bar => bar.getBoundingClientRect().width)"
    )
    assert widths[:-1] == sorted(widths[:-1], reverse=True)
    page.select_option(".reasons .below", "2")
    assert page.locator(".reasons .explained").text_content() == "Choose two different documents."
    assert not opened.complaints


def test_a_click_on_a_point_picks_its_query(opened: Opened) -> None:
    page = opened.page
    title = page.locator(".rankings .title")
    seen = {title.text_content()}
    for number in range(4):
        page.locator(".scatter .mark-symbol path").nth(number).click(force=True)
        seen.add(title.text_content())
        picked = page.eval_on_selector(
            ".queries", "list => list.selectedOptions[0].textContent.split(' ')[0]"
        )
        assert title.text_content().startswith(f"Query {picked}: ")
    assert len(seen) >= 4


def test_two_of_three_systems_are_chosen(opened: Opened) -> None:
    page = opened.page
    assert opened.captions() == ["lambdamart", "queryrmse"]
    old = page.locator(".summary").text_content()
    page.select_option(".second", "2")
    page.wait_for_selector(".scatter text:has-text('ndcg@5, stumps')")
    page.wait_for_selector(".histogram text:has-text('stumps minus lambdamart')")
    assert opened.captions() == ["lambdamart", "stumps"]
    assert page.locator(".summary").text_content() != old
    page.select_option(".first", "2")  # the same on both sides: the other one moves on
    assert opened.captions() == ["stumps", "lambdamart"]


def test_the_metric_of_the_query_view_is_chosen(opened: Opened) -> None:
    page = opened.page
    assert page.locator(".metric option").all_text_contents() == ["ndcg@5", "map"]
    old = page.locator(".summary").text_content()
    page.select_option(".metric", "1")
    page.wait_for_selector(".scatter text:has-text('map, queryrmse')")
    page.wait_for_selector(".histogram text:has-text('map, queryrmse minus lambdamart')")
    assert str(page.locator(".summary").text_content()).startswith("map of queryrmse")
    assert page.locator(".summary").text_content() != old
    assert all(
        "map 0." in str(text) or "map 1." in str(text)
        for text in page.locator(".ranking caption").all_text_contents()
    )
    assert (
        page.locator(".scatter .mark-symbol path").count()
        == page.locator(".queries option").count()
    )
    assert opened.complaints == []


def test_the_histogram_turns_with_the_order_of_the_systems(opened: Opened) -> None:
    def bars() -> dict[float, float]:
        boxes = opened.page.eval_on_selector_all(
            ".histogram .mark-rect path",
            "bars => bars.map(bar => { const b = bar.getBBox(); return [b.x + b.width / 2, b.height]; })",
        )
        return {round(x): round(height, 1) for x, height in boxes}

    before = bars()
    opened.page.select_option(".first", "2")
    opened.page.select_option(".second", "0")
    opened.page.select_option(".first", "1")
    opened.page.wait_for_selector(".histogram text:has-text('lambdamart minus queryrmse')")
    after = bars()
    width = sum(min(one) + max(one) for one in (before, after)) / 2  # the mirror's place
    assert sorted(before.values()) == sorted(after.values())
    np.testing.assert_allclose(sorted(width - x for x in before), sorted(after), atol=1.5)


def test_queries_are_found_and_ordered(opened: Opened) -> None:
    page = opened.page
    listed = [
        str(text).replace("\u2212", "-").split()
        for text in page.locator(".queries option").all_text_contents()
    ]
    sizes = [abs(float(difference)) for _, difference in listed]
    assert sizes == sorted(sizes, reverse=True)
    page.select_option(".order", "loss")
    listed = [
        str(text).replace("\u2212", "-").split()
        for text in page.locator(".queries option").all_text_contents()
    ]
    values = [float(difference) for _, difference in listed]
    assert values == sorted(values)
    page.fill(".find", listed[2][0])
    found = page.locator(".queries option").all_text_contents()
    assert 0 < len(found) < len(listed)
    assert all(listed[2][0] in str(text).split()[0] for text in found)


def test_the_keyboard_reaches_the_picker(opened: Opened) -> None:
    page = opened.page
    reached = []
    page.focus(".skip")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.className || document.activeElement.id")
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"focus on {reached[-1]} cannot be seen"
        if reached[-1] == "queries":
            break
    assert [
        name
        for name in reached
        if name in ("theme", "first", "second", "metric", "find", "order", "queries")
    ] == ["theme", "first", "second", "metric", "find", "order", "queries"]
    before = opened.ranking("second")
    page.keyboard.press("ArrowDown")
    assert opened.ranking("second") != before


def test_values_appear_under_the_pointer(opened: Opened) -> None:
    box = opened.page.locator("figure:has(figcaption:text-is('ndcg@5')) .chart")
    box.scroll_into_view_if_needed()
    box.hover()
    opened.page.wait_for_selector("#vg-tooltip-element.visible")
    shown = opened.page.locator("#vg-tooltip-element").inner_text()
    assert all(word in shown for word in ("model", "data", "trees", "ndcg@5"))


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def axis_colour(page: Any) -> str:
    return str(
        page.evaluate(
            "getComputedStyle(document.querySelector('.chart .role-axis-label text')).fill"
        )
    )


def test_dark_follows_the_system_and_the_button(opened: Opened) -> None:
    page = opened.page

    def looks() -> tuple[str, str, str]:
        return background(page), axis_colour(page), str(page.locator("#theme").text_content())

    light = looks()
    page.click("#theme")
    dark = looks()
    assert light[0] == "rgb(255, 255, 255)"
    assert all(one != other for one, other in zip(light, dark, strict=True)), (
        "something does not follow"
    )
    page.click("#theme")
    assert looks() == light
    page.evaluate("delete document.documentElement.dataset.theme")
    page.emulate_media(color_scheme="dark")
    assert looks() == dark
    page.click("#theme")
    assert looks() == light


def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, report: Path) -> None:
    window = Opened(browser, report, viewport={"width": 400, "height": 800})
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 400
    widest = window.page.eval_on_selector_all(
        ".chart svg",
        "charts => Math.max(...charts.map(chart => chart.getBoundingClientRect().right))",
    )
    assert widest <= 400
    assert window.complaints == []
    window.context.close()


def test_print_is_light_and_fits(opened: Opened) -> None:
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 900})
    assert background(page) == "rgb(255, 255, 255)"
    assert not page.locator("#theme, nav, .picker").filter(visible=True).count()
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.set_viewport_size({"width": 1200, "height": 900})


def test_charts_have_descriptions_and_headings_have_no_gaps(opened: Opened) -> None:
    labels = opened.page.eval_on_selector_all(
        ".chart", "boxes => boxes.map(box => box.getAttribute('aria-label'))"
    )
    assert all(len(label) > 30 for label in labels)
    assert opened.page.locator(".chart[role=img]").count() == len(labels)
    levels = opened.page.eval_on_selector_all(
        "h1, h2, h3", "all => all.map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    unnamed = opened.page.eval_on_selector_all(
        "select, input",
        "all => all.filter(one => !one.labels.length && !one.getAttribute('aria-label')).length",
    )
    assert unnamed == 0


def test_a_picture_is_kept(opened: Opened) -> None:
    PICTURE.parent.mkdir(exist_ok=True)
    opened.page.screenshot(path=PICTURE, full_page=True)
    assert PICTURE.read_bytes().startswith(b"\x89PNG\r\n")


def test_legends_wrap_where_a_row_would_be_cut_off(browser: Any, tmp_path: Path) -> None:
    import altair as alt

    values = [
        {"x": i, "y": i, "r": f"a run with a long name {i}", "s": "ab"[i % 2]} for i in range(9)
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line()
        .encode(x="x:Q", y="y:Q", color="r:N", strokeDash="s:N")
    )
    save_page(
        Page("Legends", [Section("One", [Figure("Chart", chart, "A chart.")])]),
        tmp_path / "page.html",
    )
    opened = Opened(browser, tmp_path / "page.html", viewport={"width": 1200, "height": 900})
    box, *legends = (
        opened.page.eval_on_selector_all(
            selector, "all => all.map(one => one.getBoundingClientRect().right)"
        )
        for selector in (".chart", ".chart .role-legend")
    )
    opened.context.close()
    assert legends[0]
    assert max(legends[0]) <= box[0] + 1
