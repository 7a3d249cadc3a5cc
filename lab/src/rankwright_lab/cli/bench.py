"""The command ``bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from rankwright.cli import options
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright.report.page import Table
    from rankwright_lab.harness import RankwrightSystem, System

_KINDS = ("web", "sparse", "short")


def bench(
    context: typer.Context,
    out: Annotated[
        Path, Option(metavar="JSON", help="Result file; the measurements are stored beside it.")
    ],
    data: Annotated[
        list[Path] | None,
        Option(metavar="DATA", help="LETOR folder of a known layout, or a data file; repeatable."),
    ] = None,
    kinds: Annotated[
        str | None,
        Option(
            help="Comma-separated kinds of generated data: web, sparse, short [all, without --data]."
        ),
    ] = None,
    queries: Annotated[int, Option(help="Queries of generated data.", min=10)] = 1000,
    targets: Annotated[
        str, Option(help="Space-separated metrics to train and select models for.")
    ] = "ndcg@10 map",
    seeds: Annotated[int, Option(help="Trainings per fold.", min=1)] = 5,
    trees: Annotated[int, Option(help="Trees per training.", min=1)] = 300,
    every: Annotated[
        int, Option(help="Choose the number of trees among multiples of this.", min=1)
    ] = 5,
    systems: Annotated[
        str | None,
        Option(
            help="Comma-separated systems, or libraries for all of their systems; the first is the baseline [all]."
        ),
    ] = None,
    preset: Annotated[
        Literal["defaults", "common"],
        Option(
            help="defaults: those of each library; common: learning rate 0.05 and 31 leaves or depth 6 for all."
        ),
    ] = "defaults",
    ours: Annotated[
        list[str] | None,
        Option(
            metavar="'NAME: KEY=VALUE ...'",
            help="Another rankwright system, by parameters of Ranker; repeatable.",
        ),
    ] = None,
    threads: Annotated[int, Option(help="Threads of every system.", min=1)] = 2,
    reach: Annotated[
        float, Option(help="Time to reach this share of the best value.", min=0.01, max=1.0)
    ] = 0.98,
    scaling: Annotated[
        bool, Option("--scaling", help="Measure instead how time grows with the size of the data.")
    ] = False,
    quick: Annotated[
        bool, Option("--quick", help="With --scaling: tiny sizes, to check that it works.")
    ] = False,
    against: Annotated[
        Path | None, Option(metavar="JSON", help="Earlier result to compare times with.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare with LightGBM, CatBoost and XGBoost.

    Quality, times and memory on the same folds. Every system is warmed up, then all take turns. The same command
    resumes an interrupted benchmark. `rankwright-lab report JSON` turns the result into a page. Nothing else should run
    on the machine.

    Example: rankwright-lab bench --kinds web,short --queries 500 --seeds 2 --trees 100 --out bench.json
    """
    from rankwright_lab.bench import read_result, regressions, write_result

    _check_usage(context, scaling, bool(data) and not kinds)
    earlier = None if against is None else read_result(against)
    progress = (lambda line: None) if quiet else echo
    chosen_systems = _systems(preset, ours or [], systems)
    if scaling:
        from rankwright_lab.bench import QUICK, run_scaling

        result = run_scaling(
            QUICK if quick else None, systems=chosen_systems if systems else None, progress=progress
        )
    else:
        from rankwright_lab.bench import run_bench

        result = run_bench(
            chosen_systems,
            _data(data or [], kinds, queries),
            targets=options.split_metrics(targets),
            seeds=seeds,
            trees=trees,
            every=every,
            threads=threads,
            reach=reach,
            work=out.with_suffix(""),
            progress=progress,
        )
    if earlier is not None:
        result["against"] = regressions(result, earlier)
    write_result(result, out)
    if not quiet:
        for table in _tables(result):
            _show(table)
        echo(f"\nwrote {out}; for a page: rankwright-lab report {out}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _check_usage(context: typer.Context, scaling: bool, only_files: bool) -> None:
    """Refuse options that would be ignored."""
    flags = {name for name in context.params if _is_given(context, name)}
    if scaling and (ignored := flags - {"out", "scaling", "quick", "systems", "against", "quiet"}):
        raise typer.BadParameter(
            f"--scaling has its own data and settings; leave out --{sorted(ignored)[0]}."
        )
    if not scaling and "quick" in flags:
        raise typer.BadParameter(
            "--quick belongs to --scaling; otherwise lower --queries, --trees and --seeds."
        )
    if only_files and "queries" in flags:
        raise typer.BadParameter("--queries is for generated data; add --kinds, or leave it out.")


def _systems(preset: str, ours: list[str], names: str | None) -> list[System]:
    from rankwright_lab.bench import choose_systems, preset_systems

    try:
        all_systems = preset_systems(preset, [_our_system(text) for text in ours])
        if names is None:
            return all_systems
        return choose_systems(
            all_systems, [name.strip() for name in names.split(",") if name.strip()]
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _our_system(text: str) -> RankwrightSystem:
    """Parse ``NAME: KEY=VALUE ...``; values with spaces are quoted."""
    import shlex

    from rankwright import Ranker
    from rankwright_lab.harness import RankwrightSystem

    name, colon, rest = text.partition(":")
    pairs = [word.partition("=") for word in shlex.split(rest)]
    if not colon or not name.strip() or not all(key and equals for key, equals, _ in pairs):
        raise ValueError(f"{text!r} is not of the form 'NAME: KEY=VALUE ...'.")
    params = {key: options.literal(value) for key, _, value in pairs}
    fixed = {
        "metric",
        "n_estimators",
        "random_state",
        "n_jobs",
        "verbose",
        "checkpoint",
    } & params.keys()
    if fixed:
        raise ValueError(
            f"{name.strip()}: {sorted(fixed)[0]} is the same for all systems; leave it out of --ours."
        )
    if unknown := params.keys() - Ranker().get_params().keys():
        raise ValueError(f"{name.strip()}: Ranker has no parameter {sorted(unknown)[0]!r}.")
    Ranker(**params).check_params()
    return RankwrightSystem(name.strip(), params)


def _data(paths: list[Path], kinds: str | None, queries: int) -> dict[str, Any]:
    from functools import partial

    from rankwright_lab.bench import generated_folds
    from rankwright_lab.folds import read_folds

    chosen_kinds = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    for kind in chosen_kinds:
        if kind not in _KINDS:
            raise typer.BadParameter(
                f"unknown kind {kind!r} of data; choose from {', '.join(_KINDS)}."
            )
    generated = chosen_kinds or ([] if paths else list(_KINDS))
    data: dict[str, Any] = {}
    for path in paths:
        name = path.resolve().name
        if name in data:
            raise typer.BadParameter(f"two data sets are called {name}; rename one of them.")
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
        data[name] = partial(read_folds, path)
    return data | dict(generated_folds(kind, queries) for kind in generated)


def _tables(result: dict[str, Any]) -> list[Table]:
    from rankwright_lab.bench import page as benchmark_page

    tables: list[Table | None] = []
    if "curves" in result:
        tables.append(benchmark_page.exponents_table(result))
    else:
        for target in result["settings"]["targets"]:
            tables.append(benchmark_page.quality_table(result, target))
            if len(result["systems"]) > 1:
                tables.append(benchmark_page.paired_table(result, target))
            tables += [
                benchmark_page.speed_table(result, target, data["name"]) for data in result["data"]
            ]
            tables.append(benchmark_page.equal_table(result, target))
    return [table for table in (*tables, benchmark_page.changes_table(result)) if table is not None]


def _show(table: Table) -> None:
    """Print a table: text aligned left, numbers right."""
    body = [["-" if cell is None else str(cell) for cell in row] for row in table.rows]
    columns = list(zip(table.columns, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_text = [any(cell[:1].isalpha() for cell in column[1:]) for column in columns]
    echo(f"\n{table.title}")
    for row in (table.columns, *body):
        cells = zip(row, widths, is_text, strict=True)
        echo(
            "  ".join(cell.ljust(n) if text else cell.rjust(n) for cell, n, text in cells).rstrip()
        )
    echo(table.note)
