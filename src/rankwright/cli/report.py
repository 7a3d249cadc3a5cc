"""The command ``report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwright.cli import extras, options, scoring
from rankwright.cli.terminal import echo, typed_command

if TYPE_CHECKING:
    from rankwright.report import Page


@options.with_data_options()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Run folders, the baseline first.", show_default=False
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="TEST", help="Test data of runs: LETOR, Parquet or CSV.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write [report.html or report.md].", show_default=False),
    ] = None,
    format: Annotated[
        Literal["html", "md"] | None,
        typer.Option(
            help="One HTML file, or Markdown with the figures beside it [by the name of --out].",
            show_default=False,
        ),
    ] = None,
    png: Annotated[
        bool,
        typer.Option("--png", help="Also write the figures as PNG to OUT-figures, for papers."),
    ] = False,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            help="Metrics, space-separated or repeated [those of the runs]; queries are compared by the first.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", show_default=False)
    ] = None,
    quiet: options.Quiet = False,
    *,
    reading: options.Reading,
) -> None:
    """Write a page about runs.

    The page works offline, to read and to share. It shows learning curves, means with significance, each query with
    both rankings side by side, metrics by kind of query, scores and ties, features, times and the provenance of the
    runs. Data is read like the first run's training data, unless you give other options.

    Example: rankwright report old-run new-run --data test.txt --out report.html
    """
    from rankwright.report import save_page

    named = {".html": "html", ".htm": "html", ".md": "md"}.get("" if out is None else out.suffix)
    if None not in (format, named) and format != named:
        raise typer.BadParameter(
            f"--format {format} does not fit the name {out}; leave it out, or change the name."
        )
    form = format or named or "html"
    target = out or Path(f"report.{form}")
    extras.require_report()
    metric_names = None if metrics is None else options.split_metrics(metrics)
    if data is None:
        raise typer.BadParameter("runs are reported on test data; give it with --data.")
    page = _runs_page(runs, data, metric_names, title, reading)
    save_page(replace(page, command=typed_command()), target, form, png)
    if not quiet:
        echo(f"wrote {target}")


def _runs_page(
    runs: list[Path],
    data: Path,
    metrics: list[str] | None,
    title: str | None,
    reading: dict[str, Any],
) -> Page:
    from rankwright.report import run_report
    from rankwright.runs import Run

    opened = [Run.open(path) for path in runs]
    training_options = opened[0].reading
    test = scoring.DataFile(data, reading).read(
        **training_options, reference=opened[0].ranker.columns_
    )
    return run_report(opened, test, metrics=metrics, title=title, data_name=data.name)
