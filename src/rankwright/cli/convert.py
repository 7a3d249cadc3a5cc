"""The command ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rankwright.cli import options


@options.with_groups
def convert(
    source: Annotated[
        Path, Argument(metavar="IN", help="LETOR, Parquet, CSV, or a file of a search engine.")
    ],
    target: Annotated[
        Path, Argument(metavar="OUT", help="File to write; an existing one is overwritten.")
    ],
    judgments: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="For a feature log: ratings as CSV of Quepid, JSON of OpenSearch or Elasticsearch, or qrels.",
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        Option(metavar="FILE", help="For a feature log: the query of each response, one per line."),
    ] = None,
    events: Annotated[
        Path | None,
        Option(metavar="FILE", help="UBI events, if IN has UBI queries: OUT is a click log."),
    ] = None,
    *,
    reading: options.Reading,
) -> None:
    """Convert files of data and of search engines.

    The file extensions give the formats: .txt, .letor, .svm, .svmlight, .dat; .parquet, .pq; .csv, .tsv. Text may be
    compressed (.gz). Numbers and missing values keep all their bits; queries are sorted by id, and rows keep their
    order within a query. LETOR text cannot hold feature names or weights: the names are left out, and data with
    weights is an error. Of the comments of LETOR text, document ids are kept.

    With --judgments or --queries, and if it ends in .json, .jsonl or .ndjson, IN has search responses with logged
    features, of OpenSearch, Elasticsearch, Solr or Vespa. Documents without a rating get no label. With --events, IN
    has queries of User Behavior Insights. If OUT ends in .qrels, IN is a judgment list.

    Example: rankwright convert log.ndjson train.parquet --judgments ratings.csv --queries queries.txt
    """
    from rankwright.cli.engine_files import read_engine_file, write_click_log, write_ratings
    from rankwright.data.reading import read_data, write_data

    if events is not None:
        write_click_log(source, events, target)
    elif target.suffix == ".qrels":
        write_ratings(source, target)
    else:
        data = read_engine_file(source, judgments, queries)
        if data is None:
            data = read_data(source, **reading)
        write_data(data, target)
