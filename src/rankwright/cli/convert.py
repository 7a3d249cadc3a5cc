"""The command ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from rankwright.cli import options


@options.with_groups
def convert(
    source: Annotated[Path, Argument(metavar="IN", help="LETOR, Parquet or CSV.")],
    target: Annotated[
        Path, Argument(metavar="OUT", help="File to write; an existing one is overwritten.")
    ],
    *,
    reading: options.Reading,
) -> None:
    """Convert between LETOR, Parquet and CSV.

    The file extensions give the formats: .txt, .letor, .svm, .svmlight, .dat; .parquet, .pq; .csv, .tsv. Text may be
    compressed (.gz). Numbers and missing values keep all their bits; queries are sorted by id, and rows keep their
    order within a query. LETOR text cannot hold feature names or weights: the names are left out, and data with
    weights is an error. Of the comments of LETOR text, document ids are kept.

    Example: rankwright convert train.txt.gz train.parquet
    """
    from rankwright.data.reading import read_data, write_data

    write_data(read_data(source, **reading), target)
