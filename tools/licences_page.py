"""Write docs/licences.md: the licences of the dependencies, from the metadata of what is installed.

Run: python tools/licences_page.py
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEAD = """# Licences of dependencies

rankwright and rankwright-scorer are Apache-2.0. These are the packages that they ask for, with the licence that each
states. Packages that these bring along have licences of their own.

| package | needed by | licence |
|---|---|---|
"""
# Extras for users; the others are for work on the project.
NOT_FOR_USERS = ("all", "dev", "docs")
SHORT = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License v2.0": "Apache-2.0",
}


def needed() -> dict[str, str]:
    """Return what needs each package: the library itself, or an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = {"rankwright": project["dependencies"]}
    for extra, entries in project["optional-dependencies"].items():
        if extra not in NOT_FOR_USERS:
            parts[f"rankwright[{extra}]"] = entries
    packages: dict[str, str] = {}
    for part, entries in parts.items():
        for entry in entries:
            name = re.split(r"[\[>=<]", entry)[0]
            if name != "rankwright":
                packages.setdefault(name, f"`{part}`")
    return packages


def licence(package: str) -> str:
    """Return the licence that a package states, in short if it is a common one."""
    stated = metadata(package)
    whole = stated.get("License") or ""
    classifiers = [text for text in stated.get_all("Classifier") or [] if "License ::" in text]
    texts = [
        stated.get("License-Expression"),
        *(text.rpartition(" :: ")[2] for text in classifiers),
    ]
    # Some packages state the text of the licence in place of its name.
    texts += [
        whole if "\n" not in whole else "",
        "BSD" if "Redistribution and use" in whole else "",
    ]
    text = next((text for text in texts if text), "not stated")
    return SHORT.get(text, text)


def page() -> str:
    """Return the page."""
    rows = [f"| {name} | {part} | {licence(name)} |\n" for name, part in sorted(needed().items())]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
