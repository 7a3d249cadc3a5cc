"""The command ``combine``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rankwright.cli import options
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright import RankingData
    from rankwright.support.tables import Table


def combine(
    runs: Annotated[
        list[str],
        Argument(metavar="NAME=RUN...", help="TREC run files of retrievers, with their names."),
    ],
    out: Annotated[
        Path,
        Option(metavar="FILE", help="Parquet or CSV to write; an existing one is overwritten."),
    ],
    judgments: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Ratings: TREC qrels, CSV of Quepid, JSON of OpenSearch or Elasticsearch.",
        ),
    ] = None,
    features: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Parquet or CSV of more features, with the column docid, qid or both; repeatable.",
        ),
    ] = None,
    unjudged: Annotated[
        float, Option(help="Label of the documents without a judgment; nan leaves it missing.")
    ] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Combine results of retrievers into data.

    Each document that a retriever returned becomes a row with, for every retriever, its score, rank, reciprocal rank
    and whether it was found. With judgments, only judged queries are kept, as in trec_eval. Document ids become the
    column docid.

    Example: rankwright combine bm25=bm25.run dense=dense.run --judgments qrels --out train.parquet
    """
    import rankwright as rw
    from rankwright.data.formats import table_format_of

    table_format_of(out)  # a wrong name is found before the files are read
    paths: dict[str, str] = {}
    for text in runs:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise typer.BadParameter(f"{text!r} is not of the form NAME=RUN, such as bm25={text}.")
        if name in paths:
            raise typer.BadParameter(f"the name {name!r} is given twice; give each run its own.")
        paths[name] = path
    data = rw.combine(paths, judgments, list(features or []), unjudged=unjudged)
    rw.write_data(data, out)
    if not quiet:
        echo(str(_summary(data, list(paths), out)))


def _summary(data: RankingData, retrievers: list[str], out: Path) -> Table:
    """Return how many documents, and relevant documents, each retriever found."""
    from rankwright.support.tables import Table

    rows: list[list[str | int | float | None]] = [["all", data.n_rows, int((data.y > 0).sum())]]
    for name in retrievers:
        found = data.X[:, data.feature_names.index(f"{name}_found")] > 0
        rows.append([name, int(found.sum()), int((data.y[found] > 0).sum())])
    note = f"wrote {out}: {data.n_queries:,} queries"
    return Table("", ["retriever", "documents", "relevant"], rows, note)
