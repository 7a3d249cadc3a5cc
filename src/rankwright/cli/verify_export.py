"""The command ``verify-export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from rankwright.cli import completion, options
from rankwright.cli.reading import DataFile, load_trained
from rankwright.cli.terminal import echo
from rankwright.support.checks import located


@options.with_groups
def verify_export(
    file: Annotated[Path, Argument(metavar="FILE", help="A file that `export` wrote.")],
    model: Annotated[
        Path, Option(metavar="RUN", help="Run folder or saved model it was exported from.")
    ],
    data: Annotated[
        Path, Option(metavar="DATA", help="LETOR, Parquet or CSV, with or without labels.")
    ],
    to: Annotated[
        str | None,
        Option(
            metavar="TARGET",
            help="Target of the file [by its usual name].",
            autocompletion=completion.targets,
        ),
    ] = None,
    target_version: options.TargetVersion = None,
    evaluator: options.Evaluator = None,
    feature_set: options.FeatureSetFile = None,
    json: options.AsJson = False,
    *,
    reading: options.UnweightedReading,
) -> None:
    """Compare an exported file with its model.

    Scores the file by the rules of its target's code, on the data and on probes at, just below and just above every
    threshold, with zeros, the largest numbers and missing values. For targets that compute with 32-bit numbers the
    features are rounded first, and sums may differ by the rounding. The exit code is 1 if the file is not exact.

    Example: rankwright verify-export opensearch-ltr.json --model run --data test.txt
    """
    from rankwright.exporting import export_options, load_target
    from rankwright.exporting.verify import target_of_file, verify_content

    target = load_target(target_of_file(file) if to is None else to)
    content = file.read_bytes()
    trained = load_trained(model)
    light = trained.ranker.model_
    rows = trained.rows(DataFile(data, reading), labelled=False)
    choices = export_options(light, target_version, feature_set, evaluator=evaluator)
    # The evaluator raises errors about the content, and the user has to know which file is meant.
    try:
        result = verify_content(content, light, target, choices, light.encode(rows), rows.qid)
    except ValueError as error:
        raise located(file, error) from None
    echo(options.to_json(result.to_dict()) if json else str(result))
    # Scripts that deploy the file can stop here.
    if not result.exact:
        raise typer.Exit(1)
