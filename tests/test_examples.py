"""The examples run without a warning, and print what their page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import examples_page  # noqa: E402


def test_every_example_is_on_the_page() -> None:
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert files == {*examples_page.NAMES, *examples_page.NOT_SHOWN}


@pytest.mark.parametrize("name", examples_page.NAMES)
def test_an_example_prints_what_its_page_shows(name: str, tmp_path: Path) -> None:
    printed = examples_page.run(name, tmp_path)
    picture = examples_page.picture_of(name, tmp_path)
    assert examples_page.section(name, printed, picture) in examples_page.PAGE.read_text()
