"""The command ``train``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwright.cli import calibrate, completion, options
from rankwright.cli.terminal import echo

_INTERRUPTED = 130  # exit code of a command that Ctrl-C ended: 128 and the number of the signal
_FOLDS = 5  # of a calibration without validation data

_TABLES = ("engine_params", "checkpoint", "within_query")  # parameters of Ranker that may be tables


@options.with_data_options()
def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="LETOR, Parquet or CSV; or a folder or pattern.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="RUN", help="Run folder to create or to resume.", show_default=False),
    ],
    valid: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Validation data.", show_default=False)
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Training objective [auto].",
            show_default=False,
            autocompletion=completion.objectives,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRICS",
            help="Metric to optimise, then metrics to monitor; repeatable [ndcg@10].",
            show_default=False,
            autocompletion=completion.metrics,
        ),
    ] = None,
    within_query: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="Features within the query to add: rank, z, gap, share, mean, max.",
            show_default=False,
        ),
    ] = None,
    pairs: options.Pairs = None,
    document: options.Document = None,
    trees: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of trees [300].", show_default=False),
    ] = None,
    early_stopping: Annotated[
        int | None,
        typer.Option(
            metavar="TREES",
            min=1,
            help="Stop after this many trees without improvement on --valid.",
            show_default=False,
        ),
    ] = None,
    position: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV with the position, or device, where a click was made; repeatable.",
            show_default=False,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Train once more on --valid too, with the number of trees that was chosen on it.",
        ),
    ] = False,
    propensity: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of Parquet and CSV with the probability that a clicked document was seen.",
            show_default=False,
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(help="Least propensity; smaller ones count as it.", show_default=False),
    ] = None,
    self_normalised: Annotated[
        bool,
        typer.Option(
            "--self-normalised",
            help="Divide inverse propensities of clicked documents by their mean.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed [0].", show_default=False)
    ] = None,
    threads: options.Threads = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any parameter of Ranker; repeatable.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML", help="File of parameters; flags override it.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Train on this many workers of this machine, from Parquet files.",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Train on the workers of this Dask scheduler.",
            show_default=False,
        ),
    ] = None,
    calibrate_by: Annotated[
        calibrate.Method | None,
        typer.Option(
            "--calibrate",
            help="Also learn what scores mean, on --valid, or cross-fitted on DATA in five folds.",
            show_default=False,
        ),
    ] = None,
    calibrate_to: Annotated[
        calibrate.CalibrationTarget | None,
        typer.Option(
            "--calibrate-target",
            help="With --calibrate: expected label, or probability of relevance [label].",
            show_default=False,
        ),
    ] = None,
    stream: options.Stream = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing run.")] = False,
    *,
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
    from rankwright.data.reading import read_parts
    from rankwright.runs import Run, check_same, run_config, train_run

    flags = {
        "objective": objective,
        "metric": None if metric is None else options.split_metrics(metric),
        "within_query": within_query,
        "n_estimators": trees,
        "early_stopping_rounds": early_stopping,
        "refit": refit or None,
        "random_state": seed,
        "n_jobs": threads,
    }
    cluster = _cluster(workers, scheduler)
    local: dict[str, Any] = {
        "--pairs": pairs,
        "--document": document,
        "--position": position,
        "--calibrate": calibrate_by,
    }
    local |= {
        "--propensity": propensity,
        "--clip": clip,
        "--self-normalised": self_normalised,
        "--refit": refit,
    }
    if cluster is not None and (
        flag := next((name for name, value in local.items() if value), None)
    ):
        raise typer.BadParameter(
            f"{flag} cannot be used on several workers; train without --workers and --scheduler."
        )
    parameters = _parameters(config, {k: v for k, v in flags.items() if v is not None}, set_ or [])
    if cluster is not None:
        parameters.setdefault("engine", "xgboost")
    given = {"position": position or None, "propensity": propensity, "clip": clip}
    given |= {"self_normalised": self_normalised or None}
    click_options = parameters.pop("clicks", {}) | {
        name: value for name, value in given.items() if value is not None
    }
    names = options.named_columns(click_options)
    reading |= {"fields": names} if names else {}
    verbose = parameters.pop("verbose", 1)
    options.check_document(pairs, document)
    watches_valid = parameters.get("early_stopping", "valid") != "cv"
    if parameters.get("early_stopping_rounds") is not None and valid is None and watches_valid:
        raise typer.BadParameter("early stopping needs validation data; give it with --valid.")
    if (
        parameters.get("refit")
        and watches_valid
        and parameters.get("early_stopping_rounds") is None
    ):
        raise typer.BadParameter(
            "--refit needs a number of trees chosen on --valid; give --early-stopping, such as 50."
        )
    if calibrate_to is not None and calibrate_by is None:
        raise typer.BadParameter(
            "--calibrate-target says what --calibrate learns; give --calibrate too."
        )
    try:
        settings = run_config(parameters, click_options)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    earlier = None if force else Run.find(out)
    if earlier is not None:
        check_same(earlier, settings)
    paths = {"train": data} | ({} if valid is None else {"valid": valid})
    start = time.perf_counter()
    if cluster is not None:
        parts: Any = _files(paths, reading)
    elif options.streams(stream, list(paths.values())):
        parts = _streamed(
            paths,
            reading,
            pairs,
            document,
            names if parameters.get("refit") else [],
            quiet,
            verbose,
        )
    else:
        parts = read_parts(list(paths.values()), pairs=pairs, document=document, **reading)
    if cluster is None and parameters.get("refit") and valid is not None:
        for name in names:
            if name not in parts[1].fields:
                raise typer.BadParameter(
                    f"--refit trains on --valid too, and {valid} has no column {name!r}."
                )
    if document is not None:
        reading = {**reading, "fields": [document]}
    run = train_run(
        out,
        *parts,
        parameters=parameters,
        clicks=click_options,
        sources={"paths": paths, "reading": reading, "seconds": time.perf_counter() - start},
        overwrite=force,
        verbose=0 if quiet else verbose,
        cluster=cluster,
    )
    if not run.finished:
        echo(
            f"rankwright: training was interrupted after {run.manifest['iterations']} trees. {out} has the model so "
            "far; the same command resumes it.",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED)
    if calibrate_by is not None:
        _calibrate(run, parts, calibrate_by, calibrate_to or "label", quiet)
    if quiet:
        return
    if earlier is not None and earlier.finished:
        echo(
            f"{out} is already finished: nothing to do. Overwrite it with --force, or choose another folder."
        )
        return
    echo(_summary(run, out))


def _calibrate(
    run: Any, parts: Any, method: calibrate.Method, target: calibrate.CalibrationTarget, quiet: bool
) -> None:
    """Calibrate a finished run, unless it is calibrated in this way already."""
    held_out = len(parts) > 1 and not run.config.get(
        "refit"
    )  # a second training has seen the validation queries
    folds = None if held_out else _FOLDS
    before = run.ranker.calibration_
    if before is None or (before.method, before.target, before.folds) != (method, target, folds):
        run.ranker.calibrate(
            parts[1] if held_out else parts[0], method=method, target=target, folds=folds
        )
        calibrate.save_calibrated(run.ranker, run.path)
    if not quiet:
        echo(f"{run.path}: {calibrate.describe(run.ranker)}.")


def _cluster(workers: int | None, scheduler: str | None) -> Any:
    """Where to train, checked before any work; None for this process."""
    if workers is not None and scheduler is not None:
        raise typer.BadParameter("give --workers or --scheduler, not both.")
    if workers is None and scheduler is None:
        return None
    from rankwright.cluster.dask import require
    from rankwright.cluster.options import Cluster

    require()
    try:
        return Cluster(scheduler if workers is None else workers)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _streamed(
    paths: dict[str, Path],
    reading: dict[str, Any],
    pairs: Any,
    document: Any,
    of_both: Sequence[str],
    quiet: bool,
    verbose: int,
) -> list[Any]:
    """Data whose features stay in the files; those fields that are of both are read from validation data too."""
    from rankwright import stream_data
    from rankwright.data.files import DataFiles
    from rankwright.training.progress import ReadingBar

    chosen = {name: value for name, value in reading.items() if name not in ("docid", "query_text")}
    drop = [
        *chosen.pop("drop", ()),
        *(reading[name] for name in ("docid", "query_text") if name in reading),
    ]
    fields = [*chosen.pop("fields", ()), *([] if document is None else [document])]
    show = ReadingBar(0 if quiet else verbose)
    for path in paths.values():  # before the first is read, which may take long
        DataFiles.of(path).files  # noqa: B018 (found, and thereby checked)
    first = stream_data(paths["train"], **chosen, drop=drop, fields=fields, show=show)
    others = [path for name, path in paths.items() if name != "train"]
    drop += [name for name in fields if name not in of_both]
    parts = [
        stream_data(path, **chosen, drop=drop, fields=of_both, reference=first, show=show)
        for path in others
    ]
    return [first if pairs is None else first.with_pairs(pairs, document, as_given=True), *parts]


def _files(paths: dict[str, Path], reading: dict[str, Any]) -> list[Any]:
    """Parquet files that only the workers read."""
    from rankwright.data.files import DataFiles

    if "zero_based" in reading:
        raise typer.BadParameter(
            "--zero-based and --one-based are for LETOR text, and workers read Parquet files."
        )
    chosen: dict[str, Any] = dict(reading)
    chosen |= {name: tuple(value) for name, value in chosen.items() if isinstance(value, list)}
    return [DataFiles(str(path), **chosen) for path in paths.values()]


def _summary(run: Any, out: Path) -> str:
    trees = run.manifest["best_iteration"]
    row = run.history[run.ranker._evaluated_iteration - 1]
    values = [
        f"{part} {name} {value:.4f}"
        for part in ("train", "valid")
        for name, value in row.get(part, {}).items()
    ]
    seconds = sum(run.times.values())
    if values and (members := run.ranker.manifest_.get("members")):
        values[-1] += f" of the first of {len(members)} members"
    elif values and run.ranker.manifest_.get("refit"):
        values[-1] += " before the refit"
    compiling = run.times.get("compilation", 0.0)
    first = (
        f", {compiling:.1f} s of them to compile kernels, in the first run only"
        if compiling >= 1
        else ""
    )
    return (
        f"{out}: {trees} trees in {seconds:.1f} s{first}{'; ' if values else ''}{', '.join(values)}.\n"
        f"{_best_tree(run)}"
        f"Next: rankwright evaluate {out} DATA, or rankwright predict {out} DATA --out scores.txt"
    )


def _best_tree(run: Any) -> str:
    """Say where validation was best, if later trees made it worse and nothing stopped them, or what did stop them."""
    from rankwright import metric
    from rankwright.training.stopping import stopping_sentence

    if run.ranker.stopping_ is not None:
        return f"{stopping_sentence(run.ranker.stopping_, refit='refit' in run.ranker.manifest_)}\n"
    if run.config.get("early_stopping_rounds") is not None or "valid" not in run.history[0]:
        return ""
    name = next(iter(run.history[0]["valid"]))
    curve = [row["valid"][name] for row in run.history]
    known = [number for number, value in enumerate(curve, start=1) if value == value]
    sign = 1 if metric(name).higher_is_better else -1
    best = max(known, key=lambda number: sign * curve[number - 1], default=len(curve))
    if sign * curve[best - 1] <= sign * curve[-1]:
        return ""
    return (
        f"valid {name} was best after {best} of {len(curve)} trees, {curve[best - 1]:.4f}. That may be luck: "
        f"--early-stopping 50 ends with the last tree that is about as good, --trees {best} with the best.\n"
    )


def _parameters(config: Path | None, flags: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Merge the parameters of a file, of flags and of --set; an unknown name is a usage error."""
    from rankwright.runs import read_config

    parameters = {} if config is None else read_config(config)
    for name in parameters:
        if name != "clicks":
            _check_name(name, f"{config} has")
    parameters |= flags
    for text in settings:
        name, value = options.split_setting(text)
        first, dot, inner = name.partition(".")
        _check_name(first, "--set has")
        options.check_given_once(first, flags)
        if dot:
            table = parameters.setdefault(first, {})
            if first not in _TABLES or not isinstance(table, dict) or not inner:
                raise typer.BadParameter(
                    f"{name!r}: only {', '.join(_TABLES)} have keys of their own."
                )
            parameters[first] = {**table, inner: value}
        else:
            parameters[first] = value
    if isinstance(parameters.get("metric"), str):
        parameters["metric"] = options.split_metrics(parameters["metric"])
    if isinstance(parameters.get("metric"), list) and len(parameters["metric"]) == 1:
        parameters["metric"] = parameters["metric"][0]
    return parameters


def _check_name(name: str, where: str) -> None:
    import difflib

    from rankwright import Ranker

    names = list(Ranker().get_params())
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}."
        raise typer.BadParameter(f"{where} {name!r}, which is not a parameter of Ranker; {hint}")
