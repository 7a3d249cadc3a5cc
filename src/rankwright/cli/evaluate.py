"""The command ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from rankwright.cli import click_logs, completion, options, scoring
from rankwright.cli.reading import DataFile, training_queries
from rankwright.cli.terminal import echo


@options.with_groups
def evaluate(
    system: Annotated[str, Argument(metavar="SYSTEM", help=f"One of {scoring.SYSTEMS}.")],
    data: Annotated[
        Path,
        Argument(metavar="DATA", help="LETOR, Parquet or CSV; for a run file also TREC qrels."),
    ],
    metrics: Annotated[
        list[str] | None,
        Option(
            "--metrics",
            "--metric",
            metavar="METRICS",
            help="Metrics, space-separated or repeated [ndcg@10 map mrr; dcg@10 with --clicks].",
            autocompletion=completion.metrics,
        ),
    ] = None,
    ties: options.Ties = "worst",
    empty: options.Empty = "skip",
    unjudged: options.Unjudged = "not-relevant",
    per_query: Annotated[
        bool, Option("--per-query", help="Also print the value of each query.")
    ] = False,
    clicks: Annotated[
        Path | None,
        Option(
            metavar="LOG", help="Click log, Parquet or CSV: estimate from clicks, without labels."
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        Option(
            help="With --clicks: estimate propensities by swaps, harvest or em, or take 1,0.5,... [harvest]."
        ),
    ] = None,
    document: Annotated[
        str | None,
        Option(help="With --clicks: column of the data with ids of documents [QID-1, ...]."),
    ] = None,
    clip: Annotated[
        float | None, Option(help="With --clicks: smallest propensity to divide by [0].")
    ] = None,
    log_column: click_logs.Columns = None,
    base_score: options.BaseScore = None,
    train: options.TrainingQueries = None,
    json: options.AsJson = False,
    *,
    reading: options.Reading,
) -> None:
    """Evaluate a ranking, by several metrics.

    A ranking is a run, a saved model, a TREC run file, a column, or a fusion of columns.

    Data is read like the run's training data, unless you give other options. In a TREC run file the documents of a
    data set are QID-1, QID-2, ... in the order of its rows; missing documents are ranked last. With qrels, only the
    queries in both files count, as in trec_eval. If a model starts from base scores, or --base-score names scores,
    they are evaluated too, as a baseline.

    With --clicks the value of the ranking is estimated from clicks in lists of another ranking: inverse propensity
    (ips), self-normalised (snips) and doubly robust (dr), with intervals over queries. The log has the columns query,
    document, position, click and, unless lists follow each other, session.

    Example: rankwright evaluate run test.txt --metrics "ndcg@10 err(gain=linear)@5" --ties expected
    """
    file = DataFile(data, reading, base_score)
    # With a click log the labels are not read, and the options about them would have no effect.
    if clicks is not None:
        if per_query or (ties, empty, unjudged) != ("worst", "skip", "not-relevant"):
            raise typer.BadParameter(
                "--per-query, --ties, --empty and --unjudged are about labels and have no meaning with --clicks."
            )
        log = click_logs.read_log(clicks, log_column)
        estimates, curve = click_logs.evaluate_from_clicks(
            system,
            file,
            log,
            document=document,
            propensity=propensity or "harvest",
            metrics=options.split_metrics(metrics or ["dcg@10"]),
            clip=clip or 0.0,
        )
        if json:
            echo(options.to_json(estimates.to_dict() | {"propensities": curve.to_dict()}))
        else:
            echo(f"{estimates}\n\n{curve}")
        return
    if propensity or document or clip is not None or log_column:
        raise typer.BadParameter("--propensity, --document, --clip and --log-column need --clicks.")
    # From here on, the ranking is evaluated by labels.
    names = options.split_metrics(metrics or ["ndcg@10 map mrr"])
    opened = scoring.Systems(
        [system], file, train=training_queries(train, reading), metric=names[0]
    )
    choices: dict[str, Any] = {"ties": ties, "empty": empty, "unjudged": unjudged}
    result = opened.evaluate(system, metrics=names, **choices)
    base = opened.evaluate_base_score(system, metrics=names, **choices)
    # JSON has only text as keys.
    ids = [str(qid) for qid in result.query_ids.tolist()]
    values = {name: result.per_query[name].tolist() for name in names}
    if json:
        summary: dict[str, Any] = {"mean": result.mean, "queries": len(ids), **choices}
        if base is not None:
            summary["base_score"] = base.mean
        if per_query:
            summary["per_query"] = {
                qid: {name: values[name][row] for name in names} for row, qid in enumerate(ids)
            }
        echo(options.to_json(summary))
        return
    echo(str(result))
    if base is not None:
        echo(f"\nThe base scores alone:\n{base}")
    if per_query:
        echo("\n" + "\t".join(["query", *names]))
        for row, qid in enumerate(ids):
            echo("\t".join([qid, *(f"{values[name][row]:.4f}" for name in names)]))
