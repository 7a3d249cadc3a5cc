"""The command ``reproduce``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from rankwright.cli import completion
from rankwright.cli.errors import usage_errors
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright_lab.experiments import Experiment
    from rankwright_lab.harness import Outcome


def _experiments(incomplete: str) -> list[str]:
    """Return the experiments that begin so."""
    from rankwright_lab.experiments import EXPERIMENTS

    return completion.completed(incomplete, ["all", *EXPERIMENTS])


def reproduce(
    name: Annotated[
        str,
        Argument(
            help="An experiment, or 'all'; left out, the experiments are listed.",
            autocompletion=_experiments,
        ),
    ] = "",
    data: Annotated[
        Path | None,
        Option(
            help="LETOR folder (MQ2008, MSLR, Yahoo, Istella layouts) or file, instead of generated data."
        ),
    ] = None,
    quick: Annotated[
        bool,
        Option("--quick", help="A small version that takes at most five minutes on two cores."),
    ] = False,
    out: Annotated[
        Path | None, Option(help="Folder for outcomes and tables [a folder in reproduce/].")
    ] = None,
    kind: Annotated[
        str | None, Option(help="Kind of generated data: web, sparse or short.")
    ] = None,
    queries: Annotated[int | None, Option(help="Number of generated queries.", min=10)] = None,
    length: Annotated[
        float | None, Option(help="Mean length of generated queries.", min=10)
    ] = None,
    folds: Annotated[int | None, Option(help="Number of folds to use.", min=1)] = None,
    seeds: Annotated[int | None, Option(help="Number of seeds.", min=1)] = None,
    trees: Annotated[int | None, Option(help="Maximum number of trees.", min=1)] = None,
    trials: Annotated[int | None, Option(help="Number of tuning trials.", min=1)] = None,
    targets: Annotated[str, Option(help="Space-separated metrics [all of the experiment].")] = "",
    threads: Annotated[int, Option(help="Number of threads.", min=1)] = 1,
    note: Annotated[
        str, Option(help="A remark to store with the results, such as how settings were chosen.")
    ] = "",
    reuse: Annotated[
        list[Path] | None,
        Option(help="Folder or file of outcomes that need not be computed again; repeatable."),
    ] = None,
    summary: Annotated[
        Path | None,
        Option(help="Run nothing; print the page of all finished experiments in this folder."),
    ] = None,
    quiet: Annotated[bool, Option("--quiet", help="Do not show progress.")] = False,
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
    sizes = {
        "queries": queries,
        "length": length,
        "folds": folds,
        "seeds": seeds,
        "trees": trees,
        "trials": trials,
    }
    common = {"quick": quick, "threads": threads}
    if name == "all":
        if out or kind or targets.split() or note or any(sizes.values()):
            raise typer.BadParameter(
                "'all' takes only --data, --quick, --threads, --reuse and --quiet."
            )
        for entry in EXPERIMENTS.values():
            # Experiments without a kind of data generate their own.
            of_entry = data if entry.kind else None
            _run(entry, common | {"data": of_entry}, quiet=quiet, reuse=reuse or [])
        return
    with usage_errors():
        entry = experiment(name)
    given = {"data": data, "kind": kind, "targets": tuple(targets.split())}
    _run(entry, common | given | sizes, out=out, quiet=quiet, note=note, reuse=reuse or [])


def _run(
    entry: Experiment,
    given: dict[str, Any],
    *,
    quiet: bool,
    reuse: list[Path],
    out: Path | None = None,
    note: str = "",
) -> None:
    """Run an experiment with the settings that the user gave, and print the verdicts."""
    from rankwright_lab.experiments import reproduce as run

    with usage_errors():
        settings = entry.settings(**given)
    parts = [entry.name]
    if given["data"] is not None:
        parts.append(given["data"].resolve().name)
    if given["quick"]:
        parts.append("quick")
    folder = out or Path("reproduce", "-".join(parts))
    if not quiet:
        echo(f"{entry.title} ({entry.paper}, {entry.source}): {settings.command()}", err=True)
    progress = None if quiet else _print_outcome
    record = run(entry, settings, folder, progress=progress, note=note, reuse=reuse)
    for verdict in record.verdicts:
        echo(f"{verdict['outcome']:>15}: {verdict['claim']} ({verdict['evidence']})")
    echo(f"Tables: {folder / 'table.md'}")


def _print_outcome(outcome: Outcome) -> None:
    value = ""
    if not math.isnan(outcome.valid):
        value = f": {outcome.valid:.4f} on validation, {outcome.trees} trees"
    line = f"{outcome.system}, {outcome.target}, fold {outcome.fold}, seed {outcome.seed}{value}"
    echo(f"  {line} ({outcome.fit_seconds:.1f} s)", err=True)
