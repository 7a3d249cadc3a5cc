"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rankwright.cli import options, scoring
from rankwright.cli.reading import DataFile, training_queries
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright import Evaluation

_ROUNDING = 1e-12  # smaller changes of a metric are not listed


@options.with_groups
def compare(
    paths: Annotated[
        list[str],
        Argument(
            metavar="SYSTEM SYSTEM... DATA",
            help=f"The baseline, one or more systems ({scoring.SYSTEMS}), and the data.",
        ),
    ],
    train: options.TrainingQueries = None,
    metrics: options.Metrics = "ndcg@10 map",
    test: Annotated[
        Literal["fisher", "t", "wilcoxon"], Option(help="Paired test that decides on significance.")
    ] = "fisher",
    ties: options.Ties = "worst",
    empty: options.Empty = "skip",
    unjudged: options.Unjudged = "not-relevant",
    queries: Annotated[
        int, Option(help="Number of improved and of worsened queries to list.", min=0)
    ] = 5,
    base_score: options.BaseScore = None,
    random_state: Annotated[
        int,
        Option("--random-state", "--seed", help="Seed of the permutations and resamples.", min=0),
    ] = 0,
    json: options.AsJson = False,
    *,
    reading: options.Reading,
) -> None:
    """Compare systems with the first one, the baseline.

    Shows paired tests over queries, corrected for the number of systems (Holm), wins and losses, and the queries that
    changed most by the first metric. With --base-score these scores are the baseline. The names of columns are those
    of any run among the systems.

    Example: rankwright compare old-run new-run test.txt --metrics "ndcg@10 map" --test fisher
    """
    import rankwright as rw

    # The data is the last path, like the target of the command cp.
    *systems, data_path = paths
    if base_score is not None:
        systems = [f"column:{base_score}", *systems]
    if len(systems) < 2:
        raise typer.BadParameter("give at least two systems, then the data.")
    metric_names = options.split_metrics(metrics)
    main_metric = metric_names[0]
    # The systems share the file, which is then read once for all models with the same columns.
    data = DataFile(Path(data_path), reading, base_score)
    names = system_names(list(map(Path, systems)))
    opened = scoring.Systems(
        systems, data, train=training_queries(train, reading), metric=main_metric
    )
    results = [
        opened.evaluate(system, metrics=metric_names, ties=ties, empty=empty, unjudged=unjudged)
        for system in systems
    ]
    comparison = rw.compare(
        *results, names=names, metrics=metric_names, test=test, random_state=random_state
    )
    # Means hide which queries win or lose, so the largest changes are listed too.
    changes = {
        name: _changes(results[0], result, main_metric, queries)
        for name, result in zip(names[1:], results[1:], strict=True)
    }
    if json:
        values = comparison.to_dict() | {"ties": ties, "empty": empty, "unjudged": unjudged}
        values["means"] = {name: result.mean for name, result in zip(names, results, strict=True)}
        values["changes"] = {"metric": main_metric, "systems": changes}
        echo(options.to_json(values))
        return
    echo(str(comparison))
    if queries == 0:
        return
    for name, rows in changes.items():
        echo(f"\n{name} against {names[0]} by {main_metric}, the queries that changed most:")
        for row in [*rows["gains"], *rows["losses"]]:
            change = f"{row['baseline']:.4f} -> {row['system']:.4f}  {row['difference']:+.4f}"
            echo(f"  {row['query']!s:<12}  {change}")
        if not any(rows.values()):
            echo("  none changed")


def system_names(paths: list[Path]) -> list[str]:
    """Name systems by the last part of their paths, or by the whole paths if the last parts are not unique."""
    names = [path.resolve().name for path in paths]
    # For example a/model and b/model would both be called model.
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise typer.BadParameter("a system is given twice; give different ones.")
    return names


def _changes(
    baseline: Evaluation, system: Evaluation, metric: str, count: int
) -> dict[str, list[dict[str, Any]]]:
    """List the queries with the largest gains and losses, the largest first."""
    values = zip(
        baseline.query_ids.tolist(),
        baseline.per_query[metric].tolist(),
        system.per_query[metric].tolist(),
        strict=True,
    )
    rows = [
        {"query": query, "baseline": before, "system": after, "difference": after - before}
        for query, before, after in values
    ]
    # A query that changes by rounding only is neither better nor worse.
    gains = [row for row in rows if row["difference"] > _ROUNDING]
    losses = [row for row in rows if row["difference"] < -_ROUNDING]
    gains.sort(key=lambda row: -row["difference"])
    losses.sort(key=lambda row: row["difference"])
    return {"gains": gains[:count], "losses": losses[:count]}
