"""The command ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwright.cli import systems


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="LETOR, Parquet or CSV.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="File to write; one that is there is replaced.", show_default=False)
    ],
    label: systems.Label = None,
    qid: systems.Qid = None,
    weight: systems.Weight = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Convert between LETOR, Parquet and CSV.

    The endings say the formats: .txt, .letor, .svm, .dat; .parquet; .csv, .tsv. Text may be packed (.gz). Numbers and
    missing values keep all their bits; queries are sorted by id, and rows keep their order within a query. LETOR text
    has no place for names of features, and data with weights is refused rather than written without them. Comments of
    LETOR text are left out.

    Example: rankwright convert train.txt.gz train.parquet
    """
    from rankwright.data.tables import read_data, write_data

    reading = systems.given(
        label=label, qid=qid, weight=weight, drop=drop, categorical=categorical, zero_based=zero_based
    )
    write_data(read_data(source, **reading), target)
