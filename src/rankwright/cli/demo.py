"""The command ``demo``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwright.cli import extras, options
from rankwright.cli.terminal import typed_command

if TYPE_CHECKING:
    from rankwright import Comparison, Evaluation, Run

_METRICS = ["ndcg@10", "map", "mrr", "err"]
_SYSTEMS: dict[str, dict[str, Any]] = {
    "lambdamart": {"objective": "lambdamart(truncation=13, normalize=True)"},
    "yetirank": {"objective": "yetirank"},
    "yetiloss": {
        "objective": "yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse",
        "leaf_values": "full",
    },
    "stochasticrank": {"objective": "stochasticrank"},
}


@options.with_data_options(weight=False)
def demo(
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="LETOR, Parquet or CSV instead of synthetic data."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the runs and the report.")
    ] = Path("demo-run"),
    queries: Annotated[
        int | None,
        typer.Option(help="Number of synthetic queries [400].", min=20, show_default=False),
    ] = None,
    trees: Annotated[int, typer.Option(help="Trees per model.", min=1)] = 150,
    seed: Annotated[
        int, typer.Option(help="Seed of the data, the split and the models.", min=0)
    ] = 0,
    threads: options.Threads = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Train four rankers and compare them on held-out queries.

    LambdaMART as in LightGBM, YetiRank, YetiLoss and StochasticRank are trained on 56 % of the queries, monitored on
    14 % and compared on the rest. Each gets a run folder in FOLDER, next to report.html; existing runs are overwritten.

    Example: rankwright demo --data train.txt --out my-demo
    """
    from rich.console import Console

    import rankwright as rw
    from rankwright.data.reading import read_data

    console = Console(quiet=quiet, highlight=False, soft_wrap=True, markup=False)
    if data is None and reading:
        raise typer.BadParameter("options about columns need a data file; give it with --data.")
    if data is not None and queries is not None:
        raise typer.BadParameter("--queries is for synthetic data; leave it out, or --data.")
    missing = _missing_library()
    if missing is not None:
        console.print(f"There will be no report.html: {missing}")
    if data is None:
        count = queries or 400
        console.print(
            f"Generating {count} synthetic web-search queries (136 features, labels 0-4) ..."
        )
        everything = rw.make_web_search(count, seed=seed)
    else:
        everything = read_data(data, **reading)
    rest, test = everything.split(0.3, seed=seed)
    train, valid = rest.split(0.2, seed=seed)
    console.print(
        f"Training on {train.n_queries} queries, monitoring {valid.n_queries}, comparing on {test.n_queries}."
    )
    runs, results = [], []
    for name, system in _SYSTEMS.items():
        console.print(f"{name} ...")
        parameters = {
            "metric": "ndcg@10",
            "n_estimators": trees,
            "random_state": seed,
            "n_jobs": threads,
            **system,
        }
        run = rw.train_run(
            out / name,
            train,
            valid,
            parameters=parameters,
            overwrite=True,
            verbose=0 if quiet else 1,
        )
        if not run.finished:
            raise ValueError(f"the demo was interrupted while training {name}; run it again.")
        runs.append(run)
        results.append(
            rw.evaluate(run.ranker.predict(test), test.y, qid=test.qid, metrics=_METRICS)
        )
    comparison = rw.compare(*results, names=list(_SYSTEMS), metrics=_METRICS, seed=seed)
    console.print(_table(results, comparison, runs))
    console.print(
        "Means over queries, ± 95% intervals. * differs from lambdamart (p <= 0.05, Fisher's test, Holm).\n"
    )
    if missing is None:
        console.print(_report(runs, test, out / "report.html"))
    first, second = (out / name for name in ("lambdamart", "yetirank"))
    console.print(
        f"Next: rankwright compare {first} {second} TEST\n"
        "      rankwright train TRAIN --valid VALID --metric map --out run\n"
        "where TRAIN, VALID and TEST are your files: LETOR, Parquet or CSV."
    )


def _table(results: list[Evaluation], comparison: Comparison, runs: list[Run]) -> Any:
    """Tabulate means with intervals, and mark those that differ from the first system."""
    from numpy import isnan
    from rich.table import Table

    from rankwright.report.scored_runs import mean_interval

    significant = {(row.system, row.metric) for row in comparison.rows if row.significant}
    table = Table(box=None, pad_edge=False)
    for column in ("system", *_METRICS, "seconds"):
        table.add_column(column, no_wrap=True)
    for run, result in zip(runs, results, strict=True):
        cells = []
        for metric in _METRICS:
            values = result.per_query[metric]
            mean, _, high = mean_interval(values[~isnan(values)])
            mark = "*" if (run.name, metric) in significant else " "
            cells.append(f"{mean:.3f}±{high - mean:.3f}{mark}")
        table.add_row(run.name, *cells, f"{sum(run.times.values()):.1f}")
    return table


def _missing_library() -> str | None:
    """Say which library of the report is missing, and how to install it; None if all are there."""
    try:
        extras.require_report()
    except ImportError as error:
        return str(error)
    return None


def _report(runs: list[Run], test: Any, path: Path) -> str:
    from rankwright.report import run_report, save_page

    page = run_report(runs, test, metrics=_METRICS, title="Demo", data_name="held-out queries")
    save_page(replace(page, command=typed_command()), path)
    return f"Wrote {path}: open it in a browser."
