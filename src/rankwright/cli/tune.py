"""The command ``tune``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwright.cli import completion, extras, options
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright.tuning.result import Tuning

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@options.with_data_options()
def tune(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="LETOR, Parquet or CSV.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="TOML", help="File for the best parameters, to use as train --config."
        ),
    ] = Path("best.toml"),
    valid: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Validation data; without it, DATA is split into folds by query.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Metric to optimise.", autocompletion=completion.metrics)
    ] = "ndcg@10",
    objective: Annotated[
        str,
        typer.Option(
            help="Training objective; its options are tuned too.",
            autocompletion=completion.objectives,
        ),
    ] = "auto",
    such_that: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONSTRAINT",
            help='What the result has to meet, such as "ndcg@10[margin] >= 0.4"; repeatable.',
            show_default=False,
        ),
    ] = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    preset: Annotated[
        Literal["default", "paper"],
        typer.Option(help="paper: 20 random trials, then 80 guided ones, 1000 trees each."),
    ] = "default",
    trials: Annotated[
        int | None,
        typer.Option(help="Total number of trials [50 or 100].", min=1, show_default=False),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time limit: 90s, 10m, 2h.", show_default=False),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Number of folds [3].", min=2, show_default=False)
    ] = None,
    trees: Annotated[
        int | None,
        typer.Option(help="Maximum number of trees [500 or 1000].", min=1, show_default=False),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that stores the trials [OUT with .study.log].",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Fix a parameter; repeatable.", show_default=False
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML", help="Page to write, with plots and all trials.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Threads [all cores].", min=1, show_default=False)
    ] = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Search hyper-parameters on validation queries.

    The best are written to a file for train --config. Each trial is stored in the study file: the same command
    resumes a search that was interrupted or killed, and with larger --trials extends a finished one. Ctrl-C writes
    the best parameters so far.

    Example: rankwright tune train.txt --valid vali.txt --metric map --time 10m --set subsample=1 --out best.toml
    """
    from rankwright.data.reading import read_parts
    from rankwright.tuning.result import is_config
    from rankwright.tuning.search import tune
    from rankwright.tuning.space import PRESETS
    from rankwright.tuning.study import load_optuna

    seconds = None if time is None else _seconds(time)
    names = options.split_metrics(metric)
    if len(names) > 1:
        raise typer.BadParameter(
            f"only one metric can be optimised; got {len(names)}.", param_hint="--metric"
        )
    if valid is not None and folds is not None:
        raise typer.BadParameter("--folds splits DATA in place of --valid; keep one of the two.")
    options.check_document(pairs, document)
    constraints = _constraints(such_that or [])
    space = dict(map(options.split_setting, set_ or []))
    _check_usage(objective, names[0], space)
    if out.exists() and not is_config(out):
        raise ValueError(
            f"{out} exists and was not written by tune; choose another file with --out."
        )
    load_optuna()
    if report is not None:
        extras.require_report()
    paths = [data] if valid is None else [data, valid]
    parts = read_parts(paths, pairs=pairs, document=document, **reading)
    budget = PRESETS[preset].trials if trials is None else trials
    tuning = tune(
        parts[0],
        metric=names[0],
        objective=objective,
        constraint=constraints,
        valid=None if valid is None else parts[1],
        folds=folds,
        preset=preset,
        space=space,
        trials=budget,
        seconds=seconds,
        trees=trees,
        study=out.with_suffix(".study.log") if study is None else study,
        seed=seed,
        threads=threads,
        progress=None if quiet else lambda so_far: echo(_line(so_far, budget), err=True),
    )
    tuning.save_config(out)
    if report is not None:
        from rankwright.report.page import save_page
        from rankwright.report.tuning_page import tuning_report

        save_page(tuning_report(tuning, title=f"Tuning on {data.name}"), report)
    if tuning.interrupted:
        raise ValueError(
            f"the search was interrupted after {len(tuning.trials)} trials. {out} has the best so far; the same "
            "command resumes it."
        )
    if shortfall := tuning.shortfall():
        echo(f"rankwright: warning: {shortfall}.", err=True)
    if not quiet:
        echo(f"{tuning}\n{_summary(tuning, out)}")


def _line(so_far: Tuning, budget: int) -> str:
    last = so_far.trials[-1]
    value = (
        "stopped early"
        if last.value is None
        else f"{so_far.metric} {last.value:.4f} with {last.trees} trees"
    )
    best = so_far.best_trial
    return f"trial {last.number}/{budget}: {value}, {last.seconds:.1f} s; best {best.value:.4f} (trial {best.number})"


def _summary(tuning: Tuning, out: Path) -> str:
    shares = list(tuning.importance().items())[:5]
    importance = ", ".join(f"{name} {share:.0%}" for name, share in shares)
    return (
        (f"What mattered: {importance}.\n" if importance else "")
        + f"{out}: {tuning.metric} {tuning.best_trial.value:.4f} on validation queries.\n"
        + f"Next: rankwright train DATA --config {out} --out RUN"
    )


def _constraints(texts: list[str]) -> tuple[Any, ...]:
    from rankwright.tuning.constraint import read_constraints

    try:
        return read_constraints(texts)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--such-that") from None


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 90s, 10m or 2h.", param_hint="--time"
        )
    return float(match[1]) * _UNITS[match[2]]


def _check_usage(objective: str, metric: str, space: dict[str, Any]) -> None:
    """Refuse an unknown objective or parameter as a usage error, before any data is read."""
    from rankwright import Ranker
    from rankwright import metric as parse_metric
    from rankwright.training.defaults import resolve_objective
    from rankwright.tuning.space import check_names, ranker_parameters

    try:
        resolved = resolve_objective(objective, parse_metric(metric))
        check_names(space, resolved)
        Ranker(**ranker_parameters(resolved, space)).check_params()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
