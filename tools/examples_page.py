"""Run every example and write docs/examples.md: its code, what it prints, and its picture.

python tools/examples_page.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "examples.md"
# In the order in which a reader would open them.
NAMES = (
    "first_ranker",
    "compare_rankers",
    "clicks",
    "several_goals",
    "own_metric",
    "export_and_serve",
)
# They need data and packages, so they are not run for the page; a test runs them with stand-ins.
NOT_SHOWN = ("hybrid_search", "sentence_vectors")
HEAD = """# Examples

Scripts to start from, in the folder `examples` of the repository. Each runs as it is on generated data. Beside these,
`examples/hybrid_search.py` learns [hybrid search](hybrid.md) on a collection that you give it.
"""


def run(name: str, folder: Path) -> str:
    """Run an example in a folder, and return what it prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    return done.stdout


def section(name: str, printed: str, picture: Path | None) -> str:
    """Return the part of the page about one example."""
    code = (EXAMPLES / f"{name}.py").read_text()
    title = name.replace("_", " ").capitalize()
    text = f"\n## {title}\n\n```py\n{code}```\n\nIt prints:\n\n```text\n{printed}```\n"
    if picture is not None:
        text += f"\n![{title}: the picture](images/{picture.name})\n"
    return text


def picture_of(name: str, folder: Path) -> Path | None:
    """Return the picture that an example has drawn in a folder, if any."""
    pictures = sorted(folder.glob("*.svg"))
    return (
        pictures[0].rename(folder / f"example-{name.replace('_', '-')}.svg") if pictures else None
    )


def main() -> None:
    page = HEAD
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            printed = run(name, Path(folder))
            picture = picture_of(name, Path(folder))
            if picture is not None:
                shutil.copy(picture, ROOT / "docs" / "images")
            page += section(name, printed, picture)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
