"""The command ``interleave``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankwright.cli import click_logs, options, scoring
from rankwright.cli.terminal import echo


@options.with_data_options()
def interleave(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN RUN DATA]",
            help="Two systems (run folders, saved models or TREC run files) and the data, to make lists.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Parquet or CSV to write the lists to.", show_default=False
        ),
    ] = None,
    clicks: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG", help="Clicks in such lists, to test: Parquet or CSV.", show_default=False
        ),
    ] = None,
    method: Annotated[
        Literal["team-draft", "balanced"] | None,
        typer.Option(help="How lists are made [team-draft].", show_default=False),
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Length of the lists [10].", min=1, show_default=False)
    ] = None,
    lists: Annotated[
        int | None,
        typer.Option(help="Number of lists for each query [1].", min=1, show_default=False),
    ] = None,
    document: Annotated[
        str | None,
        typer.Option(
            help="Column of the data with ids of documents [QID-1, ...].", show_default=False
        ),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option(
            help="Preference to find, as a share of impressions: print the impressions that a test needs.",
            show_default=False,
        ),
    ] = None,
    tie_share: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="With --effect: share of impressions without a winner [that of the log].",
            show_default=False,
        ),
    ] = None,
    log_column: click_logs.Columns = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the coins and of the test [0].", min=0, show_default=False),
    ] = None,
    json: options.AsJson = False,
    *,
    reading: options.Reading,
) -> None:
    """Compare two rankers by interleaved lists.

    Makes the lists, tests their clicks, or says how many impressions a test needs.

    With two systems, data and --out it writes the columns query, session, position, document, team, rank_a and rank_b.
    Show these lists, add a column click, and give the log as --clicks: the test says which ranker users prefer.

    Example: rankwright interleave old-run new-run test.parquet --document url --out lists.parquet
    """
    if paths:
        if len(paths) != 3 or out is None or clicks is not None or effect is not None:
            raise typer.BadParameter(
                "to make lists give two systems, the data and --out, without --clicks or --effect."
            )
        _require_none("--clicks", {"--tie-share": tie_share, "--log-column": log_column})
        summary = _make_lists(
            paths,
            out,
            reading,
            method or "team-draft",
            length or 10,
            lists or 1,
            document,
            seed or 0,
        )
        echo(options.to_json(summary) if json else f"{summary['lists']} lists written to {out}")
        return
    if clicks is None and effect is None:
        raise typer.BadParameter(
            "give two systems, the data and --out to make lists, --clicks to test, or --effect."
        )
    of_lists = {"--out": out, "--document": document, "--length": length, "--lists": lists}
    flags = {f"--{name.replace('_', '-')}": value for name, value in reading.items()}
    _require_none("two systems and the data", {**of_lists, **flags})
    if clicks is None:
        _require_none("--clicks", {"--method": method, "--log-column": log_column, "--seed": seed})
    if effect is None:
        _require_none("--effect", {"--tie-share": tie_share})
    summary, text = _test(clicks, log_column, method or "team-draft", effect, tie_share, seed or 0)
    echo(options.to_json(summary) if json else text)


def _require_none(needs: str, flags: dict[str, Any]) -> None:
    """Refuse flags that would have no effect."""
    for flag, value in flags.items():
        if value not in (None, []):
            raise typer.BadParameter(f"{flag} needs {needs}.")


def _test(
    clicks: Path | None,
    columns: list[str] | None,
    method: Literal["team-draft", "balanced"],
    effect: float | None,
    tie_share: float | None,
    seed: int,
) -> tuple[dict[str, Any], str]:
    import rankwright as rw

    summary: dict[str, Any] = {}
    lines = []
    design = 1.0
    if clicks is not None:
        result = rw.compare_interleaved(
            click_logs.read_log(clicks, columns), method=method, seed=seed
        )
        summary, design = result.to_dict(), result.design_effect
        lines.append(str(result))
        tie_share = result.ties / result.n_impressions if tie_share is None else tie_share
    if effect is not None:
        if tie_share is None:
            raise typer.BadParameter(
                "without --clicks give --tie-share, the share of impressions without a winner."
            )
        if math.isnan(design):
            raise typer.BadParameter(
                "--effect needs a log of several queries: one does not tell if its impressions agree."
            )
        if not (0 <= tie_share < 1 and 0 < abs(effect) <= 1 - tie_share):
            raise typer.BadParameter(
                f"--effect must not be 0 and at most the share of impressions with a winner, here {1 - tie_share:g}."
            )
        size = rw.interleaving_sample_size(effect, ties=tie_share, design_effect=max(design, 1.0))
        summary["sample_size"] = size
        lines.append(f"a preference of {effect:g} needs {size} impressions (power 80 %, level 5 %)")
    return summary, "\n".join(lines)


def _make_lists(
    paths: list[Path],
    out: Path,
    reading: options.Reading,
    method: Literal["team-draft", "balanced"],
    length: int,
    n_lists: int,
    document: str | None,
    seed: int,
) -> dict[str, Any]:
    import numpy as np

    import rankwright as rw
    from rankwright.data.documents import document_names
    from rankwright.data.queries import plain_ids
    from rankwright.data.reading import write_table

    data = scoring.DataFile(paths[2], reading)
    (scores_a, rows), (scores_b, _) = (
        scoring.score_system(path, data, document=document, labelled=False) for path in paths[:2]
    )
    names = document_names(rows) if document is None else plain_ids(rows.fields[document])
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("query", "session", "position", "document", "team", "rank_a", "rank_b")
    }
    bounds = rows.boundaries.tolist()
    for q, query in enumerate(plain_ids(rows.query_ids)):
        start, end = bounds[q], bounds[q + 1]
        a, b = (
            [names[start + i] for i in np.argsort(-s[start:end], kind="stable")]
            for s in (scores_a, scores_b)
        )
        for session in range(n_lists):
            shown = rw.interleave(
                a,
                b,
                method=method,
                length=min(length, end - start),
                key=(query, session),
                seed=seed,
            )
            n = len(shown.documents)
            table = vars(shown) | {
                "query": [query] * n,
                "session": [session] * n,
                "position": range(1, n + 1),
            }
            table["document"] = table.pop("documents")
            for name, values in columns.items():
                values += table[name]
    write_table(columns, out)
    return {
        "lists": rows.n_queries * n_lists,
        "queries": rows.n_queries,
        "method": method,
        "seed": seed,
    }
