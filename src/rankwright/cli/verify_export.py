"""The command ``verify-export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwright.cli import options, scoring
from rankwright.cli.terminal import echo


@options.with_data_options(weight=False)
def verify_export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `export` wrote.", show_default=False)
    ],
    model: Annotated[
        Path,
        typer.Option(
            metavar="RUN",
            help="Run folder or saved model it was exported from.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="LETOR, Parquet or CSV, with or without labels.",
            show_default=False,
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="Target of the file [by its usual name].",
            show_default=False,
        ),
    ] = None,
    target_version: options.TargetVersion = None,
    evaluator: options.Evaluator = None,
    feature_set: options.FeatureSetFile = None,
    json: options.AsJson = False,
    *,
    reading: options.Reading,
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
    ranker, training_options = scoring.load_system(model)
    training_options.pop("weight", None)
    rows = scoring.DataFile(data, reading).read(
        **training_options, labelled=False, reference=ranker.columns_
    )
    choices = export_options(ranker.model_, target_version, feature_set, evaluator=evaluator)
    try:
        result = verify_content(
            content, ranker.model_, target, choices, ranker.model_.encode(rows), rows.qid
        )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    echo(options.to_json(result.to_dict()) if json else str(result))
    if not result.exact:
        raise typer.Exit(1)
