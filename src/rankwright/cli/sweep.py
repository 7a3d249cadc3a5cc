"""The command ``sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwright.cli import extras, options
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright.tuning.goals import GoalSweep


@options.with_data_options()
def sweep(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="LETOR, Parquet or CSV.", show_default=False)
    ],
    goal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OBJECTIVE",
            help="Objective of a goal; one for each goal [yetiloss for each --label].",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Space-separated metrics, one for each goal [ndcg@10 of each --label].",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Validation data; without it, DATA is split into folds by query.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Number of folds [3].", min=2, show_default=False)
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Steps from one goal alone to another [10 for two goals, 4 for more].",
            min=1,
            show_default=False,
        ),
    ] = None,
    trees: Annotated[
        int | None, typer.Option(help="Number of trees [300].", min=1, show_default=False)
    ] = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any parameter of Ranker; repeatable.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML", help="Page to write, with the Pareto front.", show_default=False
        ),
    ] = None,
    json: options.AsJson = False,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Threads [all cores].", min=1, show_default=False)
    ] = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Show what more of one goal costs of another.

    Trains for several goals with different weights, and finds the Pareto front. Every training has the same number of
    trees. Choose a point of the front, and train with its objective.

    Example: rankwright sweep data.parquet --label relevance --label margin --trees 100 --report goals.html
    """
    from rankwright.data.reading import read_parts
    from rankwright.tuning.goals import sweep_goals

    names = None if metrics is None else options.split_metrics(metrics)
    options.check_document(pairs, document)
    if valid is not None and folds is not None:
        raise typer.BadParameter("--folds splits DATA in place of --valid; keep one of the two.")
    parameters = dict(map(options.split_setting, set_ or []))
    if trees is not None:
        options.check_given_once("n_estimators", parameters)
        parameters["n_estimators"] = trees
    if report is not None:
        extras.require_report()
    paths = [data] if valid is None else [data, valid]
    parts = read_parts(paths, pairs=pairs, document=document, **reading)
    result = sweep_goals(
        parts[0],
        goal or None,
        names,
        valid=None if valid is None else parts[1],
        folds=folds,
        steps=steps,
        parameters=parameters,
        seed=seed,
        threads=threads,
        progress=None if quiet else lambda so_far: echo(_line(so_far), err=True),
    )
    if report is not None:
        from rankwright.report.goals_page import goals_report
        from rankwright.report.page import save_page

        save_page(goals_report(result, title=f"Goals on {data.name}"), report)
    if json:
        echo(
            options.to_json(
                {"goals": result.goals, "metrics": result.metrics, "trainings": result.table()}
            )
        )
    elif not quiet:
        echo(str(result))


def _line(so_far: GoalSweep) -> str:
    last = so_far.points[-1]
    values = ", ".join(
        f"{name} {value:.4f}" for name, value in zip(so_far.metrics, last.values, strict=True)
    )
    return f"{len(so_far.points)}: {last.objective}: {values}"
