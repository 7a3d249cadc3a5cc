"""The command ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rankwright.cli import extras, options
from rankwright.cli.compare import system_names
from rankwright.cli.reading import DataFile, load_trained
from rankwright.cli.terminal import echo


@options.with_groups
def diagnose(
    run: Annotated[Path, Argument(metavar="RUN", help="Run folder or saved model.")],
    data: Annotated[Path, Option(metavar="TEST", help="Data to diagnose on.")],
    train: Annotated[
        Path | None, Option(metavar="TRAIN", help="Training data, for the generalisation gap.")
    ] = None,
    against: Annotated[
        Path | None,
        Option(metavar="RUN", help="Another run or model, to list the queries that change."),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Page to write, .html or .md [diagnose.html; none with --json].")
    ] = None,
    every: Annotated[
        int | None, Option(help="Trees between the points of a curve [about 50 points].", min=1)
    ] = None,
    queries: Annotated[
        int, Option(help="Queries for directness and gradient noise, which are slow.", min=1)
    ] = 200,
    seed: Annotated[int, Option(help="Seed.", min=0)] = 0,
    json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    reading: options.Reading,
) -> None:
    """Explain what a model learned.

    Incoherent gradients, directness, gradient noise, generalisation gap and changed queries. Writes a page and
    prints a short summary, or all numbers with --json. Data is read like the run's training data, unless you give
    other options.

    Example: rankwright-lab diagnose run --data test.txt --train train.txt --against old-run --out diagnose.html
    """
    from rankwright_lab import diagnostics

    target = out if out is not None or json else Path("diagnose.html")
    if target is not None and target.suffix not in (".html", ".md"):
        raise typer.BadParameter(f"--out must end in .html or .md; got {target}.")
    if target is not None:
        extras.require_report()
    model = load_trained(run)
    diagnosis = diagnostics.diagnose(
        model.ranker,
        model.rows(DataFile(data, reading)),
        train=None if train is None else model.rows(DataFile(train, reading)),
        against=None if against is None else load_trained(against).ranker,
        names=_names(run, against),
        every=every,
        max_queries=queries,
        seed=seed,
        tell=None if quiet else lambda text: echo(f"{text} ...", err=True),
    )
    if target is not None:
        from rankwright.report.page import save_page

        save_page(diagnosis.page(data.name), target, "md" if target.suffix == ".md" else "html")
    if json:
        echo(options.to_json(diagnosis.to_dict()))
    elif not quiet:
        echo(str(diagnosis))
        echo(f"wrote {target}")


def _names(run: Path, against: Path | None) -> tuple[str, str]:
    """Return short names of the run and of the run it is compared with."""
    if against is None:
        return run.resolve().name, ""
    if run.resolve() == against.resolve():
        raise typer.BadParameter("--against must be another run.")
    before, after = system_names([run, against])
    return before, after
