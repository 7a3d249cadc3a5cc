"""The command ``bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwright.cli import systems as shared

if TYPE_CHECKING:
    from rankwright.report.page import Table
    from rankwright.research.harness import RankwrightSystem as Ours
    from rankwright.research.harness import System

_KINDS = ("web", "sparse", "short")


def bench(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option(metavar="JSON", help="Result file; what is measured is kept beside it.", show_default=False),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA", help="LETOR folder of a known layout, or a data file; repeatable.", show_default=False
        ),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of generated data, by commas: web, sparse, short [all, without --data].", show_default=False
        ),
    ] = None,
    queries: Annotated[int, typer.Option(help="Queries of generated data.", min=10)] = 1000,
    targets: Annotated[str, typer.Option(help="Metrics to train and choose for, separated by blanks.")] = "ndcg@10 map",
    seeds: Annotated[int, typer.Option(help="Trainings per fold.", min=1)] = 5,
    trees: Annotated[int, typer.Option(help="Trees per training.", min=1)] = 300,
    every: Annotated[int, typer.Option(help="Choose among multiples of so many trees.", min=1)] = 5,
    systems: Annotated[
        str | None,
        typer.Option(
            help="Systems by commas: names, or a library for all of its; the first is the baseline [all].",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        Literal["defaults", "common"],
        typer.Option(help="Each library's own defaults, or learning rate 0.05 and 31 leaves or depth 6 for all."),
    ] = "defaults",
    ours: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: KEY=VALUE ...'",
            help="A further system: parameters of Ranker; repeatable.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of every system.", min=1)] = 2,
    reach: Annotated[
        float, typer.Option(help="Time the way to this share of the best value.", min=0.01, max=1.0)
    ] = 0.98,
    scaling: Annotated[bool, typer.Option("--scaling", help="Measure how time grows instead.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --scaling: tiny sizes, to see that it works.")] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Earlier result to give ratios to.", show_default=False)
    ] = None,
    quiet: shared.Quiet = False,
) -> None:
    """Compare us with LightGBM, CatBoost and XGBoost: quality, times and memory on the same folds.

    Every system is warmed up, then all take turns. The same command goes on with a benchmark that was interrupted. A
    page is made of the result by `rankwright report JSON`. Nothing else should run on the machine.

    Example: rankwright bench --kinds web,short --queries 500 --seeds 2 --trees 100 --out bench.json
    """
    from rankwright.research.bench import read_result, regressions, write_result

    _check_use(context, scaling, bool(data) and not kinds)
    earlier = None if against is None else read_result(against)
    tell = (lambda line: None) if quiet else typer.echo
    chosen = _systems(preset, ours or [], systems)
    if scaling:
        from rankwright.research.bench import QUICK, run_scaling

        result = run_scaling(QUICK if quick else None, systems=chosen if systems else None, progress=tell)
    else:
        from rankwright.research.bench import run_bench

        result = run_bench(
            chosen,
            _data(data or [], kinds, queries),
            targets=shared.split_metrics(targets),
            seeds=seeds,
            trees=trees,
            every=every,
            threads=threads,
            reach=reach,
            work=out.with_suffix(""),
            progress=tell,
        )
    if earlier is not None:
        result["against"] = regressions(result, earlier)
    write_result(result, out)
    if not quiet:
        for table in _tables(result):
            _show(table)
        typer.echo(f"\nwrote {out}; a page: rankwright report {out}")


def _check_use(context: typer.Context, scaling: bool, only_files: bool) -> None:
    """Refuse options that would be ignored."""
    named = {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]
    if scaling and (idle := named - {"out", "scaling", "quick", "systems", "against", "quiet"}):
        raise typer.BadParameter(f"--scaling has data and settings of its own; leave out --{sorted(idle)[0]}.")
    if not scaling and "quick" in named:
        raise typer.BadParameter("--quick belongs to --scaling; choose --queries, --trees and --seeds instead.")
    if only_files and "queries" in named:
        raise typer.BadParameter("--queries is for generated data; add --kinds, or leave it out.")


def _systems(preset: str, ours: list[str], names: str | None) -> list[System]:
    from rankwright.research.bench import choose_systems, preset_systems

    try:
        known = preset_systems(preset, [_our_system(text) for text in ours])
        if names is None:
            return known
        return choose_systems(known, [name.strip() for name in names.split(",") if name.strip()])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _our_system(text: str) -> Ours:
    """Read ``NAME: KEY=VALUE ...``; values with blanks are quoted."""
    import shlex

    from rankwright import Ranker
    from rankwright.research.harness import RankwrightSystem as Ours

    name, colon, rest = text.partition(":")
    pairs = [word.partition("=") for word in shlex.split(rest)]
    if not colon or not name.strip() or not all(key and equals for key, equals, _ in pairs):
        raise ValueError(f"{text!r} is not of the form 'NAME: KEY=VALUE ...'.")
    params = {key: shared.literal(value) for key, _, value in pairs}
    fixed = {"metric", "n_estimators", "random_state", "n_jobs", "verbose", "checkpoint"} & params.keys()
    if fixed:
        raise ValueError(f"{name.strip()}: {sorted(fixed)[0]} is the same for all systems, so --ours cannot set it.")
    if unknown := params.keys() - Ranker().get_params().keys():
        raise ValueError(f"{name.strip()}: Ranker has no parameter {sorted(unknown)[0]!r}.")
    Ranker(**params).check_params()
    return Ours(name.strip(), params)


def _data(paths: list[Path], kinds: str | None, queries: int) -> dict[str, Any]:
    from functools import partial

    from rankwright.data.folds import read_folds
    from rankwright.research.bench import generated_folds

    named = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    for kind in named:
        if kind not in _KINDS:
            raise typer.BadParameter(f"no kind of data is called {kind!r}; there are {', '.join(_KINDS)}.")
    generated = named or ([] if paths else list(_KINDS))
    data: dict[str, Any] = {}
    for path in paths:
        name = path.resolve().name
        if name in data:
            raise typer.BadParameter(f"two data sets are called {name}; rename one.")
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder at {path}.")
        data[name] = partial(read_folds, path)
    return data | dict(generated_folds(kind, queries) for kind in generated)


def _tables(result: dict[str, Any]) -> list[Table]:
    from rankwright.report import benchmark_page as benchmark

    found: list[Table | None] = []
    if "curves" in result:
        found.append(benchmark.exponents_table(result))
    else:
        for target in result["settings"]["targets"]:
            found.append(benchmark.quality_table(result, target))
            if len(result["systems"]) > 1:
                found.append(benchmark.paired_table(result, target))
            found += [benchmark.speed_table(result, target, one["name"]) for one in result["data"]]
            found.append(benchmark.equal_table(result, target))
    return [table for table in (*found, benchmark.changes_table(result)) if table is not None]


def _show(table: Table) -> None:
    """Print a table: words flush left, numbers flush right."""
    body = [["-" if cell is None else str(cell) for cell in row] for row in table.rows]
    columns = list(zip(table.columns, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [any(cell[:1].isalpha() for cell in column[1:]) for column in columns]
    typer.echo(f"\n{table.title}")
    for row in (table.columns, *body):
        cells = zip(row, widths, words, strict=True)
        typer.echo("  ".join(cell.ljust(n) if word else cell.rjust(n) for cell, n, word in cells).rstrip())
    typer.echo(table.note)
