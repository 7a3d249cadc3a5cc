"""The command ``report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from rankwright.cli import extras, options, scoring
from rankwright.cli.reading import DataFile, Trained, base_fields, training_queries
from rankwright.cli.terminal import echo, typed_command


@options.with_groups
def report(
    runs: Annotated[
        list[str],
        Argument(metavar="SYSTEM...", help=f"The baseline, and more systems: {scoring.REPORTED}."),
    ],
    data: Annotated[
        Path | None, Option(metavar="TEST", help="Test data of runs: LETOR, Parquet or CSV.")
    ] = None,
    out: Annotated[Path | None, Option(help="File to write [report.html or report.md].")] = None,
    format: Annotated[
        Literal["html", "md"] | None,
        Option(
            help="One HTML file, or Markdown with the figures beside it [by the name of --out]."
        ),
    ] = None,
    png: Annotated[
        bool, Option("--png", help="Also write the figures as PNG to OUT-figures, for papers.")
    ] = False,
    metrics: Annotated[
        list[str] | None,
        Option(
            "--metrics",
            "--metric",
            help="Metrics, space-separated or repeated [the metrics of the runs]; queries are compared by the first.",
        ),
    ] = None,
    title: Annotated[str | None, Option(help="Title of the page.")] = None,
    train: options.TrainingQueries = None,
    quiet: options.Quiet = False,
    *,
    reading: options.Reading,
) -> None:
    """Write a page about runs and other systems.

    The page works offline, to read and to share. It shows learning curves, means with significance, each query with
    both rankings side by side, metrics by kind of query, scores and ties, features, times and the provenance of the
    runs. Data is read like the first run's training data, unless you give other options.

    Example: rankwright report old-run new-run --data test.txt --out report.html
    """
    from rankwright.report import run_report, save_page
    from rankwright.runs import Run

    form = page_format(format, out)
    target = out or Path(f"report.{form}")
    # Errors in the options are found before the models and the data are read.
    extras.require_report()
    metric_names = None if metrics is None else options.split_metrics(metrics)
    if data is None:
        raise typer.BadParameter("systems are reported on test data; give it with --data.")
    opened = {text: Run.open(text) for text in runs if scoring.is_model(text)}
    file = DataFile(data, reading)
    main_metric = (metric_names or ["ndcg@10"])[0]
    systems = scoring.Systems(
        runs, file, train=training_queries(train, reading), metric=main_metric
    )
    # All systems are reported on the same rows, read by the options of the first run.
    if opened:
        baseline = next(iter(opened.values()))
        features = baseline.ranker.columns_.feature_names
        more = [name for name in systems.columns(runs) if name not in features]
        for run in opened.values():
            more += base_fields(data, run.ranker.model_.base_score, features)
        test = Trained(baseline.ranker, baseline.reading).rows(file, fields=more)
    else:
        test = systems.rows(file, runs)
    reported = [opened[text] if text in opened else systems.fitted(text) for text in runs]
    page = run_report(reported, test, metrics=metric_names, title=title, data_name=data.name)
    save_page(replace(page, command=typed_command()), target, form, png)
    if not quiet:
        echo(f"wrote {target}")


def page_format(given: Literal["html", "md"] | None, out: Path | None) -> Literal["html", "md"]:
    """Return the format of a page: the given format, or the format of the file's name."""
    suffix = "" if out is None else out.suffix
    # Other names, for example without a suffix, do not decide.
    named: Literal["html", "md"] | None = None
    if suffix == ".md":
        named = "md"
    elif suffix in (".html", ".htm"):
        named = "html"
    if given and named and given != named:
        raise typer.BadParameter(
            f"--format {given} does not fit the name {out}; leave it out, or change the name."
        )
    return given or named or "html"
