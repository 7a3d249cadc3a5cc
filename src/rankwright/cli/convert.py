"""The command ``convert``, also for files of search engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rankwright.cli import options

_JSON = (".json", ".jsonl", ".ndjson")


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
    from rankwright.data.reading import read_data, write_data
    from rankwright.data.search_engines.feature_log import read_feature_log

    if events is not None:
        _write_click_log(source, events, target)
    elif target.suffix == ".qrels":
        _write_ratings(source, target)
    else:
        is_json = source.name.removesuffix(".gz").endswith(_JSON)
        if is_json or judgments is not None or queries is not None:
            data = read_feature_log(source, judgments=judgments, queries=queries)
        else:
            data = read_data(source, **reading)
        write_data(data, target)


def _write_click_log(queries: Path, events: Path, target: Path) -> None:
    """Write queries and events of User Behavior Insights as a click log."""
    from rankwright.clicks.ubi import read_ubi
    from rankwright.data.reading import write_table

    log = read_ubi(queries, events)
    columns = {
        "query": log.query.tolist(),
        "document": log.document.tolist(),
        "position": log.position.tolist(),
        "click": log.click.astype(int).tolist(),
        "session": log.session.tolist(),
    }
    write_table(columns, target)


def _write_ratings(source: Path, target: Path) -> None:
    """Write a judgment list as TREC qrels."""
    from rankwright.data.search_engines.judgments import read_judgments
    from rankwright.data.trec import Qrels, write_qrels

    judgments = read_judgments(source)
    if (judgments.rating % 1).any():
        raise ValueError(
            f"{source} has ratings that are not whole numbers, which qrels cannot hold; give it to "
            "--judgments as it is."
        )
    labels = judgments.rating.astype(int)
    write_qrels(Qrels(judgments.qid.tolist(), judgments.docid.tolist(), labels), target)
