"""The command ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwright.cli import systems


def evaluate(
    system: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run folder, saved model or TREC run file.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="LETOR, Parquet or CSV; for a run file also judgements in TREC form.",
            show_default=False,
        ),
    ],
    metrics: systems.Metrics = "ndcg@10 map mrr",
    ties: systems.Ties = "worst",
    empty: systems.Empty = "skip",
    per_query: Annotated[bool, typer.Option("--per-query", help="Also print the value of each query.")] = False,
    json: systems.AsJson = False,
    label: systems.Label = None,
    qid: systems.Qid = None,
    weight: systems.Weight = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Evaluate a run, a model or a run file.

    Data is read as the run's training data was, unless options say otherwise. A run file in TREC form names the
    documents of a data set QID-1, QID-2, ... in the order of its rows; documents that it lacks come last. With
    judgements, queries count that are in both files, as in trec_eval.

    Example: rankwright evaluate run test.txt --metrics "ndcg@10 err(gain=linear)@5" --ties expected
    """
    names = systems.split_metrics(metrics)
    reading = systems.given(
        label=label, qid=qid, weight=weight, drop=drop, categorical=categorical, zero_based=zero_based
    )
    result = systems.evaluate_system(system, systems.DataFile(data, reading), metrics=names, ties=ties, empty=empty)
    ids = [str(one) for one in result.query_ids.tolist()]
    values = {name: result.per_query[name].tolist() for name in names}
    if json:
        printed = {"mean": result.mean, "queries": len(ids), "ties": ties, "empty": empty}
        if per_query:
            printed["per_query"] = {one: {name: values[name][row] for name in names} for row, one in enumerate(ids)}
        typer.echo(systems.to_json(printed))
        return
    typer.echo(str(result))
    if per_query:
        typer.echo("\n" + "\t".join(["query", *names]))
        for row, one in enumerate(ids):
            typer.echo("\t".join([one, *(f"{values[name][row]:.4f}" for name in names)]))
