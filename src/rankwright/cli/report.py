"""The command ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwright.cli import systems

if TYPE_CHECKING:
    from rankwright.report import Page


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, the first is the baseline; or a result of bench, JSON.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="TEST", help="Test data of runs: LETOR, Parquet or CSV.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write [report.html or report.md].", show_default=False)
    ] = None,
    format: Annotated[
        Literal["html", "md"], typer.Option(help="One HTML file, or Markdown with its figures beside it.")
    ] = "html",
    png: Annotated[
        bool, typer.Option("--png", help="Write the figures as PNG too, into OUT-figures, for papers.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metrics, separated by blanks [those of the runs]; the first compares queries.", show_default=False
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    quiet: systems.Quiet = False,
    label: systems.Label = None,
    qid: systems.Qid = None,
    weight: systems.Weight = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Write a page about runs on test data, or about a benchmark, to look at and to send to colleagues.

    The page needs no network: learning curves, means with significance, each query with both rankings side by side,
    metrics by kind of query, scores and ties, features, times, and what the runs were made with. Data is read as the
    first run's training data was, unless options say otherwise.

    Example: rankwright report old-run new-run --data test.txt --out report.html
    """
    from rankwright.report import save_page

    wanted = None if metrics is None else systems.split_metrics(metrics)
    reading = systems.given(
        label=label, qid=qid, weight=weight, drop=drop, categorical=categorical, zero_based=zero_based
    )
    if runs[0].suffix == ".json":
        if len(runs) > 1 or data is not None or wanted or reading:
            raise typer.BadParameter("a result of bench is reported by itself: no other file, --data or metrics.")
        page = _benchmark_page(runs[0], title)
    elif data is None:
        raise typer.BadParameter("runs are reported on test data; name it with --data.")
    else:
        page = _runs_page(runs, data, wanted, title, reading)
    target = out or Path(f"report.{format}")
    save_page(page, target, format, png)
    if not quiet:
        typer.echo(f"wrote {target}")


def _benchmark_page(path: Path, title: str | None) -> Page:
    from rankwright.report.benchmark_page import benchmark_report
    from rankwright.research.bench import read_result

    return benchmark_report(read_result(path), title=title)


def _runs_page(
    runs: list[Path], data: Path, metrics: list[str] | None, title: str | None, reading: dict[str, Any]
) -> Page:
    from rankwright.data.tables import read_data
    from rankwright.report import run_report
    from rankwright.runs import Run

    opened = [Run.open(path) for path in runs]
    read_as = {**opened[0].manifest.get("reading", {}), **reading}
    test = read_data(data, **read_as, reference=opened[0].ranker.columns_)
    return run_report(opened, test, metrics=metrics, title=title, data_name=data.name)
