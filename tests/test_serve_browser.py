"""The page /docs in a browser: it shows the description, and its form ranks the example."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from running_service import Service
from small import TRAIN, quick

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="there is no browser: install Chromium to test the page in it"
)
TOKEN = "a-token-of-sufficient-length"


def test_the_page_ranks_its_example(tmp_path: Path) -> None:
    quick().fit(TRAIN).save(tmp_path / "model")
    complaints: list[str] = []
    with (
        Service(tmp_path / "model", tmp_path / "log", token=TOKEN) as service,
        playwright.sync_playwright() as started,
    ):
        browser = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"]
        )
        page: Any = browser.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://127.0.0.1:{service.address[1]}/docs")
        # The page forbids to evaluate text, which wait_for_function would need.
        playwright.expect(page.locator("#body")).not_to_have_value("", timeout=120_000)
        assert page.inner_text("h1").startswith("rankwright 0.")
        assert "POST/rank" in [heading.inner_text() for heading in page.query_selector_all("h2")]
        assert "422" in page.inner_text("#operations")
        assert "uniqueItems" in page.inner_text("#schemas")
        example = json.loads(page.input_value("#body"))
        assert [len(row) for row in example["rows"]] == [TRAIN.X.shape[1]] * 2

        assert complaints == []
        page.fill("#token", TOKEN)
        page.click("text=Send")
        playwright.expect(page.locator("#answer")).not_to_be_empty(timeout=120_000)
        status, _, answer = page.inner_text("#answer").partition("\n")
        assert status == "200"
        assert {result["id"] for result in json.loads(answer)["results"]} == {"doc-a", "doc-b"}
        assert complaints == []
        browser.close()
