"""The command ``train``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from rankwright.cli import calibrate, options
from rankwright.cli.errors import usage_errors
from rankwright.cli.reading import is_streamed
from rankwright.cli.terminal import echo
from rankwright.cli.training_data import TrainingFiles
from rankwright.cli.training_summary import training_summary

if TYPE_CHECKING:
    from rankwright import Run

_INTERRUPTED = 130  # exit code of a command that Ctrl-C ended: 128 and the number of the signal
_CALIBRATION_FOLDS = 5  # if there are no validation queries that the training has not used
_TABLES = (
    "engine_params",
    "checkpoint",
    "within_query",
    "start",
    "langevin",
    "position_bias",
    "monotone",
)  # parameters of Ranker that may be tables


@options.with_groups
def train(
    data: Annotated[
        Path, Argument(metavar="DATA", help="LETOR, Parquet or CSV; or a folder or pattern.")
    ],
    out: Annotated[Path, Option(metavar="RUN", help="Run folder to create or to resume.")],
    valid: Annotated[Path | None, Option(metavar="DATA", help="Validation data.")] = None,
    *,
    given: options.RankerParameters,
    settings: options.Settings = None,
    config: Annotated[
        Path | None, Option(metavar="TOML", help="File of parameters; flags override it.")
    ] = None,
    clicks: options.ClickColumns,
    base_score: options.BaseScore = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    workers: Annotated[
        int | None,
        Option(min=1, help="Train on this many workers of this machine, from Parquet files."),
    ] = None,
    scheduler: Annotated[
        str | None, Option(metavar="ADDRESS", help="Train on the workers of this Dask scheduler.")
    ] = None,
    calibrate_by: Annotated[
        calibrate.Method | None,
        Option(
            "--calibrate",
            help="Also learn what scores mean, on --valid, or cross-fitted on DATA in five folds.",
        ),
    ] = None,
    calibrate_to: Annotated[
        calibrate.CalibrationTarget | None,
        Option(
            "--calibrate-target",
            help="With --calibrate: expected label, or probability of relevance [label].",
        ),
    ] = None,
    stream: options.Stream = None,
    force: Annotated[bool, Option("--force", help="Overwrite an existing run.")] = False,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Train a ranker in a run folder.

    The folder gets the model, a manifest, the config, metrics per tree, a log and the environment. The same command
    resumes a run that was interrupted or killed, and leaves a finished one as it is. The config.toml of a run can be
    used as --config of another.

    Several goals: --label relevance --label margin, with an objective such as "yetiloss + 0.3 yetiloss(label=margin)"
    and metrics such as "ndcg@10 ndcg@10[margin]". Preferences: --pairs FILE, and an objective such as "ranknet(pairs)".

    Example: rankwright train train.txt --valid vali.txt --metric "map ndcg@10" --set num_leaves=31 --out run
    """
    from rankwright.runs import Run, check_same, run_config, train_run

    # Errors in the options are found before the data is read, because reading may take long.
    cluster = _cluster(workers, scheduler)
    if cluster is not None:
        _check_local_options(
            {"pairs": pairs, "document": document, "calibrate": calibrate_by}
            | {"refit": given.get("refit"), "time-column": reading.get("time")}
            | clicks
        )
    parameters = _parameters(config, given, settings or [])
    # XGBoost is the engine that trains on several machines.
    if cluster is not None:
        parameters.setdefault("engine", "xgboost")
    verbose = parameters.pop("verbose", 1)
    if quiet:
        verbose = 0
    # The config file of a run has the options about clicks in a table.
    clicks = _click_options(parameters.pop("clicks", {})) | clicks
    click_columns = _click_columns(clicks)
    base_score = base_score or parameters.pop("base_score", None)
    options.check_document(pairs, document)
    _check_stopping(parameters, valid)
    if calibrate_to is not None and calibrate_by is None:
        raise typer.BadParameter(
            "--calibrate-target says what --calibrate learns; give --calibrate too."
        )
    with usage_errors():
        full_config = run_config(parameters, clicks, base_score)
    # A run resumes only with its own parameters: a mixture of two configs could not be repeated.
    earlier = None if force else Run.find(out)
    if earlier is not None:
        check_same(earlier, full_config)

    start = time.perf_counter()
    files = TrainingFiles(data, valid, reading, pairs, document, click_columns, base_score)
    refit = bool(parameters.get("refit"))
    # The parts are the training data, and the validation data if there is any.
    parts: list[Any]
    if cluster is not None:
        parts = files.for_workers()
    elif is_streamed(stream, list(files.paths.values())):
        parts = list(files.stream(with_clicks_of_valid=refit, verbose=verbose))
    else:
        parts = list(files.read())
    if cluster is None and refit and valid is not None:
        _check_clicks_of_valid(click_columns, parts[1], valid)
    run = train_run(
        out,
        *parts,
        parameters=parameters,
        clicks=clicks,
        base_score=base_score,
        sources={
            "paths": files.paths,
            "reading": files.recorded_reading,
            "seconds": time.perf_counter() - start,
        },
        overwrite=force,
        verbose=verbose,
        cluster=cluster,
    )
    # After Ctrl-C the model is usable, so scripts learn of the interruption by the exit code.
    if not run.finished:
        echo(
            f"rankwright: training was interrupted after {run.manifest['iterations']} trees. {out} has the model so "
            "far; the same command resumes it.",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED)
    if calibrate_by is not None:
        # A finished run is opened as it was trained, perhaps not silently.
        run.ranker.set_params(verbose=0 if quiet else 1)
        _calibrate(run, parts, calibrate_by, calibrate_to or "label")
        if not quiet:
            echo(f"{run.path}: {calibrate.describe(run.ranker)}.")
    if quiet:
        return
    if earlier is not None and earlier.finished:
        echo(
            f"{out} is already finished: nothing to do. Overwrite it with --force, or choose another folder."
        )
    else:
        echo(training_summary(run, out))


def _cluster(workers: int | None, scheduler: str | None) -> Any:
    """Return the workers to train on, checked before any work; None for this process."""
    if workers is not None and scheduler is not None:
        raise typer.BadParameter("give --workers or --scheduler, not both.")
    if workers is None and scheduler is None:
        return None
    # Dask is imported only for trainings on workers, because it takes long.
    from rankwright.cluster.dask import require
    from rankwright.cluster.options import Cluster

    require()
    with usage_errors():
        return Cluster(scheduler if workers is None else workers)


def _check_local_options(given: dict[str, Any]) -> None:
    """Raise BadParameter if an option is given that a training on several workers does not have."""
    for name, value in given.items():
        if value:
            raise typer.BadParameter(
                f"--{name.replace('_', '-')} cannot be used on several workers; train without --workers and "
                "--scheduler."
            )


def _parameters(config: Path | None, given: options.Given, settings: list[str]) -> dict[str, Any]:
    """Merge the parameters of a file, of options and of --set; an unknown name is a usage error."""
    from rankwright.runs import read_config

    # Options override the file, and --set cannot repeat an option.
    parameters = {} if config is None else read_config(config)
    for name in parameters:
        if name not in ("clicks", "base_score"):
            _check_name(name, f"{config} has")
    if "metric" in given:
        given = given | {"metric": options.split_metrics(given["metric"])}
    parameters |= given
    names_set: set[str] = set()
    for text in settings:
        name, value = options.split_setting(text)
        if name in names_set:
            raise typer.BadParameter(f"{name} is given twice by --set; keep one.")
        names_set.add(name)
        parameter, dot, key = name.partition(".")
        _check_name(parameter, "--set has")
        options.check_given_once(parameter, given)
        # A key with a dot, for example engine_params.max_bin, changes a single key of a table.
        if not dot:
            parameters[parameter] = value
            continue
        table = parameters.get(parameter, {})
        # An entry of langevin=true changes one of its defaults.
        if table is True:
            table = {}
        if parameter not in _TABLES or not isinstance(table, dict) or not key:
            raise typer.BadParameter(f"{name!r}: only {', '.join(_TABLES)} have keys of their own.")
        parameters[parameter] = {**table, key: value}
    # All forms, such as "map ndcg@10" and a list, become the same parameter, so that runs agree.
    metric = parameters.get("metric")
    if isinstance(metric, str):
        metric = options.split_metrics(metric)
    if isinstance(metric, list):
        parameters["metric"] = metric
        if len(metric) == 1:
            parameters["metric"] = metric[0]
    return parameters


def _check_name(name: str, where: str) -> None:
    from rankwright import Ranker
    from rankwright.training.other_names import remedy

    if name not in Ranker().get_params():
        raise typer.BadParameter(
            f"{where} {name!r}, which is not a parameter of Ranker{remedy(name)}"
        )


def _click_options(table: Any) -> options.Given:
    """Return the table ``clicks`` of a config; unknown keys are a usage error."""
    names = list(options.CLICK_OPTIONS)
    if not isinstance(table, dict) or table.keys() - set(names):
        raise typer.BadParameter(f"clicks has the keys {', '.join(names)}; got {table!r}.")
    return table


def _click_columns(clicks: options.Given) -> list[str]:
    """Return the columns of the data that the options about clicks name."""
    columns: list[str] = []
    for option in ("position", "propensity"):
        named = clicks.get(option, [])
        if isinstance(named, str):
            named = [named]
        columns += named
    return columns


def _check_stopping(parameters: dict[str, Any], valid: Path | None) -> None:
    """Raise BadParameter for early stopping without the data or the number of trees it needs."""
    # Cross-validation chooses the number of trees on the training data alone.
    if parameters.get("early_stopping", "valid") == "cv":
        return
    rounds = parameters.get("early_stopping_rounds")
    if rounds is not None and valid is None:
        raise typer.BadParameter("early stopping needs validation data; give it with --valid.")
    if parameters.get("refit") and rounds is None:
        raise typer.BadParameter(
            "--refit needs a number of trees chosen on --valid; give --early-stopping, such as 50."
        )


def _check_clicks_of_valid(columns: list[str], data: Any, valid: Path) -> None:
    """Raise BadParameter if the validation data, on which a refit trains too, lacks a column about clicks."""
    for name in columns:
        if name not in data.fields:
            raise typer.BadParameter(
                f"--refit trains on --valid too, and {valid} has no column {name!r}."
            )


def _calibrate(
    run: Run, parts: list[Any], method: calibrate.Method, target: calibrate.CalibrationTarget
) -> None:
    """Calibrate a finished run, unless it is calibrated in this way already."""
    ranker = run.ranker
    # After a refit, the validation queries are training queries too.
    held_out = len(parts) > 1 and not run.config.get("refit")
    folds = None if held_out else _CALIBRATION_FOLDS
    before = ranker.calibration_
    wanted = (method, target, folds)
    if before is not None and (before.method, before.target, before.folds) == wanted:
        return
    # Scores of training queries are too good, so they are calibrated by models of other folds.
    data = parts[1] if held_out else parts[0]
    ranker.calibrate(data, method=method, target=target, folds=folds)
    calibrate.save_calibrated(ranker, run.path)
