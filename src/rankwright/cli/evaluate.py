"""The command ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwright.cli import options, scoring
from rankwright.cli.terminal import echo


@options.with_data_options()
def evaluate(
    system: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run folder, saved model or TREC run file.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="LETOR, Parquet or CSV; for a run file also TREC qrels.",
            show_default=False,
        ),
    ],
    metrics: options.Metrics = "ndcg@10 map mrr",
    ties: options.Ties = "worst",
    empty: options.Empty = "skip",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also print the value of each query.")] = False,
    json: options.AsJson = False,
    *,
    reading: options.Reading,
) -> None:
    """Evaluate a run, a saved model or a TREC run file.

    Data is read like the run's training data, unless you give other options. In a TREC run file the documents of a
    data set are QID-1, QID-2, ... in the order of its rows; missing documents are ranked last. With qrels, only the
    queries in both files count, as in trec_eval.

    Example: rankwright evaluate run test.txt --metrics "ndcg@10 err(gain=linear)@5" --ties expected
    """
    names = options.split_metrics(metrics)
    result = scoring.evaluate_system(system, scoring.DataFile(data, reading), metrics=names, ties=ties, empty=empty)
    ids = [str(qid) for qid in result.query_ids.tolist()]
    values = {name: result.per_query[name].tolist() for name in names}
    if json:
        summary = {"mean": result.mean, "queries": len(ids), "ties": ties, "empty": empty}
        if per_query:
            summary["per_query"] = {qid: {name: values[name][row] for name in names} for row, qid in enumerate(ids)}
        echo(options.to_json(summary))
        return
    echo(str(result))
    if per_query:
        echo("\n" + "\t".join(["query", *names]))
        for row, qid in enumerate(ids):
            echo("\t".join([qid, *(f"{values[name][row]:.4f}" for name in names)]))
