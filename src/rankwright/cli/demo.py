"""The command ``demo``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from rankwright.cli import extras, options
from rankwright.cli.terminal import typed_command

if TYPE_CHECKING:
    from rankwright import Comparison, Evaluation, RankingData, Run

_METRICS = ["ndcg@10", "map", "mrr", "err"]
# The first system is the baseline of the comparison.
_SYSTEMS: dict[str, dict[str, Any]] = {
    "lambdamart": {"objective": "lambdamart(truncation=13, normalize=True)"},
    "yetirank": {"objective": "yetirank"},
    "yetiloss": {
        "objective": "yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse",
        "leaf_values": "full",
    },
    "stochasticrank": {"objective": "stochasticrank"},
}


@options.with_groups
def demo(
    data: Annotated[
        Path | None, Option(metavar="DATA", help="LETOR, Parquet or CSV instead of synthetic data.")
    ] = None,
    out: Annotated[
        Path, Option(metavar="FOLDER", help="Folder for the runs and the report.")
    ] = Path("demo-run"),
    queries: Annotated[
        int | None, Option(help="Number of synthetic queries [400].", min=20)
    ] = None,
    n_estimators: Annotated[
        int, Option("--n-estimators", "--trees", help="Trees per model.", min=1)
    ] = 150,
    random_state: Annotated[
        int,
        Option(
            "--random-state", "--seed", help="Seed of the data, the split and the models.", min=0
        ),
    ] = 0,
    n_jobs: options.Threads = None,
    *,
    reading: options.UnweightedReading,
    quiet: options.Quiet = False,
) -> None:
    """Train four rankers and compare them on held-out queries.

    LambdaMART as in LightGBM, YetiRank, YetiLoss and StochasticRank are trained on 56 % of the queries, monitored on
    14 % and compared on the rest. Each gets a run folder in FOLDER, next to report.html; existing runs are overwritten.
    The held-out synthetic queries are written to test.txt.

    Example: rankwright demo --data train.txt --out my-demo
    """
    from rich.console import Console

    import rankwright as rw
    from rankwright.data.reading import read_data

    console = Console(quiet=quiet, highlight=False, soft_wrap=True, markup=False)
    # Options that would have no effect are errors, before minutes of training.
    if data is None and reading:
        raise typer.BadParameter("options about columns need a data file; give it with --data.")
    if data is not None and queries is not None:
        raise typer.BadParameter("--queries is for synthetic data; leave it out, or --data.")
    # The demo is worth running without the report, so a missing library is no error.
    missing = _missing_library()
    if missing is not None:
        console.print(f"There will be no report.html: {missing}")
    if data is None:
        count = queries or 400
        console.print(
            f"Generating {count} synthetic web-search queries (136 features, labels 0-4) ..."
        )
        everything = rw.make_web_search(count, random_state=random_state)
    else:
        everything = read_data(data, **reading)
    # The test queries are put aside first, and training is monitored on other queries.
    rest, test = everything.split(0.3, random_state=random_state)
    train, valid = rest.split(0.2, random_state=random_state)
    console.print(
        f"Training on {train.n_queries} queries, monitoring {valid.n_queries}, comparing on {test.n_queries}."
    )
    # The systems differ only in their objectives, so that the comparison is fair.
    common = {
        "metric": "ndcg@10",
        "n_estimators": n_estimators,
        "random_state": random_state,
        "n_jobs": n_jobs,
    }
    verbose = 0 if quiet else 1
    runs, results = [], []
    for name, system in _SYSTEMS.items():
        console.print(f"{name} ...")
        run = rw.train_run(
            out / name, train, valid, parameters=common | system, overwrite=True, verbose=verbose
        )
        if not run.finished:
            raise ValueError(f"the demo was interrupted while training {name}; run it again.")
        runs.append(run)
        scores = run.ranker.predict(test)
        results.append(rw.evaluate(scores, test.y, qid=test.qid, metrics=_METRICS))
    comparison = rw.compare(
        *results, names=list(_SYSTEMS), metrics=_METRICS, random_state=random_state
    )
    console.print(_table(results, comparison, runs))
    console.print(
        "Means over queries, ± 95% intervals. * differs from lambdamart (p <= 0.05, Fisher's test, Holm).\n"
    )
    if missing is None:
        console.print(_report(runs, test, out / "report.html"))
    test_file: str | Path = "TEST"
    if data is None:
        # The command that is printed next needs data with the columns of the models.
        test_file = out / "test.txt"
        rw.write_letor(test, test_file)
    console.print(
        f"Next: rankwright compare {out / 'lambdamart'} {out / 'yetirank'} {test_file}\n"
        "      rankwright train TRAIN --valid VALID --metric map --out run\n"
        "TRAIN, VALID and TEST are your files: LETOR, Parquet or CSV."
    )


def _table(results: list[Evaluation], comparison: Comparison, runs: list[Run]) -> Any:
    """Tabulate means with intervals, and mark the means that differ from the first system."""
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
            # Queries without a relevant document have no value.
            values = result.per_query[metric]
            mean, _, high = mean_interval(values[~isnan(values)])
            mark = "*" if (run.name, metric) in significant else " "
            cells.append(f"{mean:.3f}±{high - mean:.3f}{mark}")
        table.add_row(run.name, *cells, f"{sum(run.times.values()):.1f}")
    return table


def _missing_library() -> str | None:
    """Return an error about a library of the report that is missing; None if all are there."""
    try:
        extras.require_report()
    except ImportError as error:
        return str(error)
    return None


def _report(runs: list[Run], test: RankingData, path: Path) -> str:
    from rankwright.report import run_report, save_page

    page = run_report(runs, test, metrics=_METRICS, title="Demo", data_name="held-out queries")
    save_page(replace(page, command=typed_command()), path)
    return f"Wrote {path}: open it in a browser."
