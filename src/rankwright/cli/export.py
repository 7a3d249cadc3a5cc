"""The command ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from rankwright.cli import completion, options
from rankwright.cli.terminal import echo


def export(
    run: options.Model,
    to: Annotated[
        str,
        Option(
            "--to",
            metavar="TARGET",
            help="opensearch, elasticsearch-ltr, ranklib, solr, vespa, elastic, json, lightgbm, xgboost, onnx, "
            "treelite or c.",
            autocompletion=completion.targets,
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File to write; an existing one is overwritten [the target's usual name].",
        ),
    ] = None,
    target_version: options.TargetVersion = None,
    evaluator: options.Evaluator = None,
    feature_set: options.FeatureSetFile = None,
    name: Annotated[str, Option(help="Name of the model in the target.")] = "rankwright",
) -> None:
    """Write a model for a search engine or a runtime.

    A warning counts the splits that mean something else there, for example for missing values. Check the file with
    `verify-export`.

    Example: rankwright export run --to opensearch --target-version 3.5 --feature-set features.json --out model.json
    """
    from rankwright.exporting import export_options, light_model, load_target, write_export

    target = load_target(to)
    model = light_model(run)
    choices = export_options(model, target_version, feature_set, name, evaluator)
    file, notes = write_export(model, target, out or Path(target.file_name), choices)
    # The notes are messages here, and Python warnings in `rankwright.export`.
    for note in notes:
        echo(f"rankwright: warning: {note}", err=True)
    echo(f"wrote {file} ({model.n_trees} trees, {file.stat().st_size:,} bytes)")
