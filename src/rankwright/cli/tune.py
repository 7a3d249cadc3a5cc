"""The command ``tune``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from rankwright.cli import completion, extras, options
from rankwright.cli.errors import usage_errors
from rankwright.cli.reading import base_fields
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright.tuning.result import Tuning

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@options.with_groups
def tune(
    data: options.Data,
    out: Annotated[
        Path, Option(metavar="TOML", help="File for the best parameters, to use as train --config.")
    ] = Path("best.toml"),
    valid: options.Valid = None,
    metric: Annotated[
        str,
        Option(
            "--metric", "--metrics", help="Metric to optimise.", autocompletion=completion.metrics
        ),
    ] = "ndcg@10",
    objective: Annotated[
        str,
        Option(
            help="Training objective; its options are tuned too.",
            autocompletion=completion.objectives,
        ),
    ] = "auto",
    constraint: Annotated[
        list[str] | None,
        Option(
            "--such-that",
            metavar="CONSTRAINT",
            help='Condition that the result has to meet, such as "ndcg@10[margin] >= 0.4"; repeatable.',
        ),
    ] = None,
    base_score: options.BaseScore = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    preset: Annotated[
        Literal["default", "paper"],
        Option(help="paper: 20 random trials, then 80 guided ones, 1000 trees each."),
    ] = "default",
    trials: Annotated[int | None, Option(help="Total number of trials [50 or 100].", min=1)] = None,
    limit: Annotated[
        str | None, Option("--time", metavar="TIME", help="Time limit: 90s, 10m, 2h.")
    ] = None,
    folds: options.Folds = None,
    n_estimators: Annotated[
        int | None,
        Option(
            "--n-estimators",
            "--trees",
            metavar="N",
            help="Maximum number of trees [500 or 1000].",
            min=1,
        ),
    ] = None,
    study: Annotated[
        Path | None,
        Option(metavar="FILE", help="File that stores the trials [OUT with .study.log]."),
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Fix a parameter; repeatable.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="HTML", help="Page to write, with plots and all trials.")
    ] = None,
    random_state: options.Seed = None,
    n_jobs: options.Threads = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Search hyperparameters on validation queries.

    The best are written to a file for train --config. Each trial is stored in the study file: the same command
    resumes a search that was interrupted or killed, and with larger --trials extends a finished one. Ctrl-C writes
    the best parameters so far.

    Example: rankwright tune train.txt --valid vali.txt --metric map --time 10m --set subsample=1 --out best.toml
    """
    from rankwright.data.reading import read_parts
    from rankwright.tuning.constraint import read_constraints
    from rankwright.tuning.result import is_config
    from rankwright.tuning.search import tune
    from rankwright.tuning.space import PRESETS
    from rankwright.tuning.study import load_optuna

    # A search may take hours, so every error in the options is found before it begins.
    seconds = None if limit is None else _seconds(limit)
    names = options.split_metrics(metric)
    if len(names) > 1:
        raise typer.BadParameter(
            f"only one metric can be optimised; got {len(names)}.", param_hint="--metric"
        )
    options.check_folds(valid, folds)
    options.check_document(pairs, document)
    space = dict(map(options.split_setting, settings or []))
    with usage_errors():
        constraints = read_constraints(constraint)
        _check_parameters(objective, names[0], space)
    # The default name may be the name of a file that the user wrote by hand.
    if out.exists() and not is_config(out):
        raise ValueError(
            f"{out} exists and was not written by tune; choose another file with --out."
        )
    load_optuna()
    if report is not None:
        extras.require_report()
    paths = [data] if valid is None else [data, valid]
    fields = base_fields(data, base_score)
    train, *held_out = read_parts(paths, pairs=pairs, document=document, fields=fields, **reading)
    budget = trials or PRESETS[preset].trials

    def show(so_far: Tuning) -> None:
        echo(_line(so_far, budget), err=True)

    tuning = tune(
        train,
        metric=names[0],
        objective=objective,
        constraint=constraints,
        valid=held_out[0] if held_out else None,
        base_score=base_score,
        folds=folds,
        preset=preset,
        space=space,
        trials=budget,
        seconds=seconds,
        n_estimators=n_estimators,
        study=study or out.with_suffix(".study.log"),
        random_state=random_state or 0,
        n_jobs=n_jobs,
        progress=None if quiet else show,
    )
    # After Ctrl-C too, the best parameters are written before the error.
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
        _show_result(tuning, out)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 90s, 10m or 2h.", param_hint="--time"
        )
    return float(match[1]) * _SECONDS[match[2]]


def _check_parameters(objective: str, metric: str, space: dict[str, Any]) -> None:
    """Raise ValueError for an unknown objective or parameter, before any data is read."""
    from rankwright import Ranker
    from rankwright import metric as parse_metric
    from rankwright.training.defaults import resolve_objective
    from rankwright.tuning.space import check_names, ranker_parameters

    # The objective `auto` depends on the metric, and objectives have parameters of their own.
    resolved = resolve_objective(objective, parse_metric(metric))
    check_names(space, resolved)
    Ranker(**ranker_parameters(resolved, space)).check_params()


def _line(so_far: Tuning, budget: int) -> str:
    last, best = so_far.trials[-1], so_far.best_trial
    # A trial without a value was pruned, because it was behind the others.
    value = "stopped early"
    if last.value is not None:
        value = f"{so_far.metric} {last.value:.4f} with {last.trees} trees"
    return f"trial {last.number}/{budget}: {value}, {last.seconds:.1f} s; best {best.value:.4f} (trial {best.number})"


def _show_result(tuning: Tuning, out: Path) -> None:
    echo(str(tuning))
    # Only the parameters that explain most of the differences between trials are worth a line.
    shares = list(tuning.importance().items())[:5]
    if shares:
        echo(f"What mattered: {', '.join(f'{name} {share:.0%}' for name, share in shares)}.")
    echo(f"{out}: {tuning.metric} {tuning.best_trial.value:.4f} on validation queries.")
    echo(f"Next: rankwright train DATA --config {out} --out RUN")
