"""Write the table of search engines and runtimes in docs/deploy.md from the registry of exports.

Run: python tools/export_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from rankwright.exporting import TARGETS, load_target

PAGE = Path(__file__).parents[1] / "docs" / "deploy.md"
HEAD = "| target | engine | a missing value is | scores | refused |\n|---|---|---|---|---|\n"
PLACE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    """Return the table, with a row for each engine and its versions."""
    rows = [
        f"| `{name}` | {' | '.join(support)} |\n"
        for name in TARGETS
        for support in load_target(name).support
    ]
    return HEAD + "".join(rows)


def page() -> str:
    """Return the page with the table as it has to be."""
    text, n_tables = PLACE.subn(table().replace("\\", r"\\"), PAGE.read_text())
    if n_tables != 1:
        raise ValueError(f"{PAGE} has {n_tables} tables with the head of the table of exports.")
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
