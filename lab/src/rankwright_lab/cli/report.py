"""The command ``report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rankwright.cli import extras, options
from rankwright.cli.report import page_format
from rankwright.cli.terminal import echo, typed_command


def report(
    result: Annotated[Path, Argument(metavar="JSON", help="A result of bench.")],
    out: Annotated[
        Path, Option(help="File to write, .html or .md; Markdown has its figures beside it.")
    ] = Path("report.html"),
    png: Annotated[
        bool, Option("--png", help="Also write the figures as PNG to OUT-figures, for papers.")
    ] = False,
    title: Annotated[str | None, Option(help="Title of the page.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write a page about a benchmark.

    Example: rankwright-lab report bench.json --out bench.html
    """
    from rankwright.report import save_page
    from rankwright_lab.bench import read_result
    from rankwright_lab.bench.page import benchmark_report

    if out.suffix not in (".html", ".htm", ".md"):
        raise typer.BadParameter(f"--out must end in .html or .md; got {out}.")
    form = page_format(None, out)
    extras.require_report()
    page = benchmark_report(read_result(result), title=title)
    save_page(replace(page, command=typed_command("rankwright-lab")), out, form, png)
    if not quiet:
        echo(f"wrote {out}")
