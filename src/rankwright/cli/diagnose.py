"""The command ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwright.cli import systems


def diagnose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder or saved model.", show_default=False)],
    data: Annotated[Path, typer.Option(metavar="TEST", help="Data to look at it on.", show_default=False)],
    train: Annotated[
        Path | None,
        typer.Option(metavar="TRAIN", help="Training data, for the generalisation gap.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Another run or model, for the queries that change.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write, .html or .md [diagnose.html; none with --json].", show_default=False),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(help="Trees between two points of a curve [about 50 points].", min=1, show_default=False),
    ] = None,
    queries: Annotated[
        int, typer.Option(help="Queries for directness and gradient estimates, which are costly.", min=1)
    ] = 200,
    seed: Annotated[int, typer.Option(help="Seed of all draws.", min=0)] = 0,
    json: systems.AsJson = False,
    quiet: systems.Quiet = False,
    label: systems.Label = None,
    qid: systems.Qid = None,
    weight: systems.Weight = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Show why a model learned what it did: incoherent gradients, directness, noise of gradients, gaps and changes.

    Writes a page and prints a short summary, or all numbers with --json. Data is read as the run's training data was,
    unless options say otherwise.

    Example: rankwright diagnose run --data test.txt --train train.txt --against old-run --out diagnose.html
    """
    from rankwright import diagnostics
    from rankwright.data.tables import read_data

    target = out if out is not None or json else Path("diagnose.html")
    if target is not None and target.suffix not in (".html", ".md"):
        raise typer.BadParameter(f"--out must end in .html or .md; got {target}.")
    ranker, read_as = systems.load_system(run)
    other = None if against is None else systems.load_system(against)[0]
    reading = read_as | systems.given(
        label=label, qid=qid, weight=weight, drop=drop, categorical=categorical, zero_based=zero_based
    )
    found = diagnostics.diagnose(
        ranker,
        read_data(data, **reading, reference=ranker.columns_),
        train=None if train is None else read_data(train, **reading, reference=ranker.columns_),
        against=other,
        names=_names(run, against),
        every=every,
        max_queries=queries,
        seed=seed,
        tell=None if quiet else lambda text: typer.echo(f"{text} ...", err=True),
    )
    if target is not None:
        from rankwright.report.page import save_page

        save_page(found.page(data.name), target, "md" if target.suffix == ".md" else "html")
    if json:
        typer.echo(systems.to_json(found.to_dict()))
    elif not quiet:
        typer.echo(str(found))
        typer.echo(f"wrote {target}")


def _names(run: Path, against: Path | None) -> tuple[str, str]:
    """Names of the two: the last part of the path, or all of it where that is not enough."""
    if against is None:
        return run.resolve().name, ""
    if run.resolve() == against.resolve():
        raise typer.BadParameter("--against must be another run.")
    short = run.resolve().name, against.resolve().name
    return short if short[0] != short[1] else (str(run), str(against))
