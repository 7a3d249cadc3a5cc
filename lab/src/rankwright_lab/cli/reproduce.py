"""The command ``reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwright.cli import completion
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright_lab.experiments import Record
    from rankwright_lab.harness import Outcome


def _experiments(incomplete: str) -> list[str]:
    """Return the experiments that begin so."""
    from rankwright_lab.experiments import EXPERIMENTS

    return completion.completed(incomplete, ["all", *EXPERIMENTS])


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment, or 'all'; left out, the experiments are listed.",
            autocompletion=_experiments,
        ),
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            help="LETOR folder (MQ2008, MSLR, Yahoo, Istella layouts) or file, instead of generated data."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A small version that takes at most five minutes on two cores."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for outcomes and tables [a folder in reproduce/].")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Kind of generated data: web, sparse or short.")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(help="Number of generated queries.", min=10)
    ] = None,
    length: Annotated[
        float | None, typer.Option(help="Mean length of generated queries.", min=10)
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Number of folds to use.", min=1)] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", min=1)] = None,
    trees: Annotated[int | None, typer.Option(help="Maximum number of trees.", min=1)] = None,
    trials: Annotated[int | None, typer.Option(help="Number of tuning trials.", min=1)] = None,
    targets: Annotated[
        str, typer.Option(help="Space-separated metrics [all of the experiment].")
    ] = "",
    threads: Annotated[int, typer.Option(help="Number of threads.", min=1)] = 1,
    note: Annotated[
        str,
        typer.Option(help="A remark to store with the results, such as how settings were chosen."),
    ] = "",
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder or file of outcomes that need not be computed again; repeatable."
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            help="Run nothing; print the page of all finished experiments in this folder."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show progress.")] = False,
) -> None:
    """Run an experiment of a paper.

    Shows the results next to the published ones. Finished parts are stored: the same command resumes after an
    interruption. The folder gets table.md, table.json and the outcomes of every fold and seed.

    Example: rankwright-lab reproduce xendcg-robustness --data MQ2008 --quick
    """
    from rankwright_lab.experiments import EXPERIMENTS, experiment, read_records, results_page

    if summary is not None:
        if name:
            raise typer.BadParameter("--summary is about all experiments; leave out the name.")
        echo(results_page(read_records(summary), list(EXPERIMENTS)).markdown(), nl=False)
        return
    if not name:
        width = max(map(len, EXPERIMENTS))
        for entry in EXPERIMENTS.values():
            echo(f"{entry.name:<{width}}  {entry.title} ({entry.paper}, {entry.source})")
        return
    changes = {
        "queries": queries,
        "length": length,
        "folds": folds,
        "seeds": seeds,
        "trees": trees,
        "trials": trials,
    }
    chosen_targets = tuple(targets.split())
    if name == "all":
        if (
            out is not None
            or any(value is not None for value in (kind, *changes.values()))
            or chosen_targets
            or note
        ):
            raise typer.BadParameter(
                "'all' takes only --data, --quick, --threads, --reuse and --quiet."
            )
        for entry in EXPERIMENTS.values():
            _run(
                entry.name,
                data if entry.kind else None,
                quick,
                None,
                None,
                (),
                threads,
                quiet,
                "",
                {},
                reuse or [],
            )
        return
    try:
        experiment(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    _run(name, data, quick, out, kind, chosen_targets, threads, quiet, note, changes, reuse or [])


def _run(
    name: str,
    data: Path | None,
    quick: bool,
    out: Path | None,
    kind: str | None,
    targets: tuple[str, ...],
    threads: int,
    quiet: bool,
    note: str,
    changes: dict[str, float | None],
    reuse: list[Path],
) -> None:
    from rankwright_lab.experiments import experiment
    from rankwright_lab.experiments import reproduce as run

    entry = experiment(name)
    try:
        settings = entry.settings(
            quick=quick, data=data, kind=kind, targets=targets, threads=threads, **changes
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    parts = [name, *([] if data is None else [data.resolve().name]), *(["quick"] if quick else [])]
    folder = out or Path("reproduce", "-".join(parts))
    if not quiet:
        echo(f"{entry.title} ({entry.paper}, {entry.source}): {settings.command()}", err=True)
    progress = None if quiet else _print_outcome
    _print_verdicts(run(entry, settings, folder, progress=progress, note=note, reuse=reuse), folder)


def _print_outcome(outcome: Outcome) -> None:
    value = (
        ""
        if outcome.valid != outcome.valid
        else f": {outcome.valid:.4f} on validation, {outcome.trees} trees"
    )
    line = f"{outcome.system}, {outcome.target}, fold {outcome.fold}, seed {outcome.seed}{value}"
    echo(f"  {line} ({outcome.fit_seconds:.1f} s)", err=True)


def _print_verdicts(record: Record, folder: Path) -> None:
    for verdict in record.verdicts:
        echo(f"{verdict['outcome']:>15}: {verdict['claim']} ({verdict['evidence']})")
    echo(f"Tables: {folder / 'table.md'}")
