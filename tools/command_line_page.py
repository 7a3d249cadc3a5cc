"""Write docs/cli.md, the page of the command line, from the commands themselves.

Run: python tools/command_line_page.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from rankwright.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# Command line

`rankwright COMMAND -h` shows the same. `--debug` anywhere on the line shows the traceback of an error, `--version` the
version. `rankwright --install-completion` teaches the shell commands, options, and the names of objectives, metrics,
experiments and targets. A command ends with 0 if it is done, 1 if it failed, with one sentence on standard error, 2 if
it was called wrongly.

This page is written by `tools/command_line_page.py`.
"""


def page() -> str:
    """Return the page."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    rows = [
        f"| [`{name}`](#{name}) | {_cell(_paragraphs(command)[0])} |"
        for name, command in commands.items()
    ]
    parts = [HEAD, "\n".join(["| command | what it does |", "|---|---|", *rows])]
    for name, command in commands.items():
        parts += [f"## {name}", *_described(command)]
        records = {kind: _records(name, command, kind) for kind in ("argument", "option")}
        parts += [_table(kind, found) for kind, found in records.items() if found]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(command.help).split("\n\n")]


def _described(command: Any) -> list[str]:
    """The help, with its example as a block."""
    return [
        f"Example:\n\n```text\n{text.removeprefix('Example: ')}\n```"
        if text.startswith("Example: ")
        else _plain(text)
        for text in _paragraphs(command)
    ]


def _records(name: str, command: Any, kind: str) -> list[tuple[str, str]]:
    """What the help shows of the arguments or the options: how they are written, and what they mean."""
    context = command.make_context(name, [], resilient_parsing=True)
    found = [one.get_help_record(context) for one in command.params if one.param_type_name == kind]
    return [
        (_written(record[0], kind), " ".join(record[1].split()))
        for record in found
        if record is not None
    ]


def _written(text: str, kind: str) -> str:
    """Write values in capitals, as the help of most programs does; an argument needs no type."""
    for name, short in (("int", "N"), ("float", "X"), ("path", "PATH"), ("str", "TEXT")):
        text = re.sub(rf" <[^>]*\b{name}\b[^>]*>", "" if kind == "argument" else f" {short}", text)
    return " ".join(text.split())


def _table(kind: str, records: list[tuple[str, str]]) -> str:
    rows = [
        f"| `{written.replace('|', chr(92) + '|')}` | {_cell(meaning)} |"
        for written, meaning in records
    ]
    return "\n".join([f"| {kind} | meaning |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Keep Markdown from reading brackets and stars of a text as its own."""
    return re.sub(r"([\[\]*<>_])", r"\\\1", text)


if __name__ == "__main__":
    PAGE.write_text(page())
