"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwright.cli import systems

if TYPE_CHECKING:
    from rankwright import Evaluation


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN... DATA",
            help="The baseline, one or more systems (run folders, saved models or TREC run files), and the data.",
            show_default=False,
        ),
    ],
    metrics: systems.Metrics = "ndcg@10 map",
    test: Annotated[Literal["fisher", "t", "wilcoxon"], typer.Option(help="Paired test that decides.")] = "fisher",
    ties: systems.Ties = "worst",
    empty: systems.Empty = "skip",
    queries: Annotated[int, typer.Option(help="Number of most changed queries to list, each way.", min=0)] = 5,
    seed: Annotated[int, typer.Option(help="Seed of permutations and resamples.", min=0)] = 0,
    json: systems.AsJson = False,
    label: systems.Label = None,
    qid: systems.Qid = None,
    weight: systems.Weight = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Compare systems with the first one.

    Paired tests over queries, corrected for the number of systems (Holm), wins and losses, and the queries that changed
    most by the first metric.

    Example: rankwright compare old-run new-run test.txt --metrics "ndcg@10 map" --test fisher
    """
    import rankwright as rw

    *contestants, path = paths
    if len(contestants) < 2:
        raise typer.BadParameter("give at least two systems and then the data.")
    measured = systems.split_metrics(metrics)
    reading = systems.given(
        label=label, qid=qid, weight=weight, drop=drop, categorical=categorical, zero_based=zero_based
    )
    data = systems.DataFile(path, reading)
    names = _names(contestants)
    results = [systems.evaluate_system(one, data, metrics=measured, ties=ties, empty=empty) for one in contestants]
    comparison = rw.compare(*results, names=names, metrics=measured, test=test, seed=seed)
    changes = {
        name: _changes(results[0], result, measured[0], queries)
        for name, result in zip(names[1:], results[1:], strict=True)
    }
    if json:
        printed = comparison.to_dict() | {
            "ties": ties,
            "empty": empty,
            "means": {name: result.mean for name, result in zip(names, results, strict=True)},
            "changes": {"metric": measured[0], "systems": changes},
        }
        typer.echo(systems.to_json(printed))
        return
    typer.echo(str(comparison))
    for name, ways in changes.items() if queries else ():
        typer.echo(f"\n{name} against {names[0]} by {measured[0]}, the queries that changed most:")
        for row in [*ways["gains"], *ways["losses"]]:
            values = f"{row['baseline']:.4f} -> {row['system']:.4f}  {row['difference']:+.4f}"
            typer.echo(f"  {row['query']!s:<12}  {values}")
        if not any(ways.values()):
            typer.echo("  none changed")


def _names(paths: list[Path]) -> list[str]:
    """Names of the systems: the last part of the path, or all of it where that is not enough."""
    short = [path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise typer.BadParameter("a system is given twice; compare different ones.")
    return names


def _changes(baseline: Evaluation, system: Evaluation, metric: str, count: int) -> dict[str, list[dict[str, Any]]]:
    """List the queries with the largest gains and losses, the largest first; what is below 1e-12 is rounding."""
    rows = [
        {"query": query, "baseline": before, "system": after, "difference": after - before}
        for query, before, after in zip(
            baseline.query_ids.tolist(),
            baseline.per_query[metric].tolist(),
            system.per_query[metric].tolist(),
            strict=True,
        )
    ]
    gains = sorted((row for row in rows if row["difference"] > 1e-12), key=lambda row: -row["difference"])
    losses = sorted((row for row in rows if row["difference"] < -1e-12), key=lambda row: row["difference"])
    return {"gains": gains[:count], "losses": losses[:count]}
