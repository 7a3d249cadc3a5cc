"""The command ``sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rankwright.cli import extras, options
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright.tuning.goals import GoalSweep


@options.with_groups
def sweep(
    data: options.Data,
    goal: Annotated[
        list[str] | None,
        Option(
            metavar="OBJECTIVE",
            help="Objective of a goal; one for each goal [yetiloss for each --label].",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        Option(
            "--metrics",
            "--metric",
            help="Space-separated metrics, one for each goal [ndcg@10 of each --label].",
        ),
    ] = None,
    valid: options.Valid = None,
    folds: options.Folds = None,
    steps: Annotated[
        int | None,
        Option(help="Steps from one goal alone to another [10 for two goals, 4 for more].", min=1),
    ] = None,
    n_estimators: options.Trees = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    settings: options.Settings = None,
    report: Annotated[
        Path | None, Option(metavar="HTML", help="Page to write, with the Pareto front.")
    ] = None,
    json: options.AsJson = False,
    random_state: options.Seed = None,
    n_jobs: options.Threads = None,
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

    # Many trainings follow, so every error in the options is found before the data is read.
    names = None if metrics is None else options.split_metrics(metrics)
    options.check_document(pairs, document)
    options.check_folds(valid, folds)
    parameters = dict(map(options.split_setting, settings or []))
    if n_estimators is not None:
        options.check_given_once("n_estimators", parameters)
        parameters["n_estimators"] = n_estimators
    if report is not None:
        extras.require_report()
    paths = [data] if valid is None else [data, valid]
    train, *held_out = read_parts(paths, pairs=pairs, document=document, **reading)
    # None stands for the library's default, for example for the steps by the number of goals.
    result = sweep_goals(
        train,
        goal or None,
        names,
        valid=held_out[0] if held_out else None,
        folds=folds,
        steps=steps,
        parameters=parameters,
        random_state=random_state or 0,
        n_jobs=n_jobs,
        progress=None if quiet else _show,
    )
    if report is not None:
        from rankwright.report.goals_page import goals_report
        from rankwright.report.page import save_page

        save_page(goals_report(result, title=f"Goals on {data.name}"), report)
    if json:
        summary = {"goals": result.goals, "metrics": result.metrics, "trainings": result.table()}
        echo(options.to_json(summary))
    elif not quiet:
        echo(str(result))


def _show(so_far: GoalSweep) -> None:
    # Progress goes to standard error, so that --json can be piped.
    last = so_far.points[-1]
    values = ", ".join(
        f"{name} {value:.4f}" for name, value in zip(so_far.metrics, last.values, strict=True)
    )
    echo(f"{len(so_far.points)}: {last.objective}: {values}", err=True)
