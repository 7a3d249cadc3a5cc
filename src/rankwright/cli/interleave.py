"""The command ``interleave``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from rankwright.cli import click_logs, options, scoring
from rankwright.cli.reading import DataFile
from rankwright.cli.terminal import echo

Method = Literal["team-draft", "balanced"]


@options.with_groups
def interleave(
    paths: Annotated[
        list[Path] | None,
        Argument(
            metavar="[RUN RUN DATA]",
            help="Two systems (run folders, saved models or TREC run files) and the data, to make lists.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Parquet or CSV to write the lists to.")
    ] = None,
    clicks: Annotated[
        Path | None, Option(metavar="LOG", help="Clicks in such lists, to test: Parquet or CSV.")
    ] = None,
    method: Annotated[Method | None, Option(help="How lists are made [team-draft].")] = None,
    length: Annotated[int | None, Option(help="Length of the lists [10].", min=1)] = None,
    lists: Annotated[int | None, Option(help="Number of lists for each query [1].", min=1)] = None,
    document: Annotated[
        str | None, Option(help="Column of the data with ids of documents [QID-1, ...].")
    ] = None,
    effect: Annotated[
        float | None,
        Option(
            help="Preference to find, as a share of impressions: print the impressions that a test needs."
        ),
    ] = None,
    tie_share: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="With --effect: share of impressions without a winner [the share in the log].",
        ),
    ] = None,
    log_column: click_logs.Columns = None,
    random_state: Annotated[
        int | None,
        Option("--random-state", "--seed", help="Seed of the coins and of the test [0].", min=0),
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
    # The command makes lists if there are paths, and evaluates clicks otherwise.
    if paths:
        if len(paths) != 3 or out is None or clicks is not None or effect is not None:
            raise typer.BadParameter(
                "to make lists give two systems, the data and --out, without --clicks or --effect."
            )
        _refuse({"--tie-share": tie_share, "--log-column": log_column}, needed="--clicks")
        summary = _make_lists(
            paths,
            out,
            reading,
            method=method or "team-draft",
            length=length or 10,
            lists=lists or 1,
            document=document,
            seed=random_state or 0,
        )
        text = f"{summary['lists']} lists written to {out}"
    else:
        if clicks is None and effect is None:
            raise typer.BadParameter(
                "give two systems, the data and --out to make lists, --clicks to test, or --effect."
            )
        # Each option has an effect in some of the modes only, and is an error in the others.
        of_lists = {"--out": out, "--document": document, "--length": length, "--lists": lists}
        of_data = {f"--{name.replace('_', '-')}": value for name, value in reading.items()}
        _refuse(of_lists | of_data, needed="two systems and the data")
        if clicks is None:
            of_test = {
                "--method": method,
                "--log-column": log_column,
                "--random-state": random_state,
            }
            _refuse(of_test, needed="--clicks")
        if effect is None:
            _refuse({"--tie-share": tie_share}, needed="--effect")
        summary, text = _test(
            clicks, log_column, method or "team-draft", effect, tie_share, random_state or 0
        )
    echo(options.to_json(summary) if json else text)


def _refuse(flags: dict[str, Any], *, needed: str) -> None:
    """Raise BadParameter if any of the flags is given, because it would have no effect."""
    for flag, value in flags.items():
        if value not in (None, []):
            raise typer.BadParameter(f"{flag} needs {needed}.")


def _test(
    clicks: Path | None,
    columns: list[str] | None,
    method: Method,
    effect: float | None,
    tie_share: float | None,
    seed: int,
) -> tuple[dict[str, Any], str]:
    """Test which ranker users prefer, or compute how many impressions a test needs, or both."""
    import rankwright as rw

    summary: dict[str, Any] = {}
    lines = []
    # Without a log, impressions are taken as independent.
    design = 1.0
    if clicks is not None:
        log = click_logs.read_log(clicks, columns)
        result = rw.compare_interleaved(log, method=method, random_state=seed)
        summary, design = result.to_dict(), result.design_effect
        lines.append(str(result))
        # A test with the same lists will have about as many ties as the log.
        if tie_share is None:
            tie_share = result.ties / result.n_impressions
    if effect is not None:
        if tie_share is None:
            raise typer.BadParameter(
                "without --clicks give --tie-share, the share of impressions without a winner."
            )
        # The design effect compares the variation between queries with the variation within them.
        if math.isnan(design):
            raise typer.BadParameter(
                "--effect needs a log of several queries: one query does not show if its impressions agree."
            )
        # The preference is a difference of two shares of the impressions that have a winner.
        winners = 1 - tie_share
        if winners == 0 or not 0 < abs(effect) <= winners:
            raise typer.BadParameter(
                f"--effect must not be 0 and at most the share of impressions with a winner, here {winners:g}."
            )
        size = rw.interleaving_sample_size(effect, ties=tie_share, design_effect=max(design, 1.0))
        summary["sample_size"] = size
        lines.append(f"a preference of {effect:g} needs {size} impressions (power 80 %, level 5 %)")
    return summary, "\n".join(lines)


def _make_lists(
    paths: list[Path],
    out: Path,
    reading: options.Given,
    *,
    method: Method,
    length: int,
    lists: int,
    document: str | None,
    seed: int,
) -> dict[str, Any]:
    """Write interleaved lists of two systems, and return the numbers of lists and queries."""
    import numpy as np

    import rankwright as rw
    from rankwright.data.documents import document_names
    from rankwright.data.queries import plain_ids
    from rankwright.data.reading import write_table

    system_a, system_b, data = map(str, paths)
    systems = scoring.Systems([system_a, system_b], DataFile(Path(data), reading))
    scores_a, rows = systems.score(system_a, document=document, labelled=False)
    scores_b, _ = systems.score(system_b, document=document, labelled=False)
    names = document_names(rows) if document is None else plain_ids(rows.fields[document])

    def ranking(scores: Any, start: int, end: int) -> list[Any]:
        # A stable sort keeps the order of the rows for ties, so that the lists can be made again.
        order = np.argsort(-scores[start:end], kind="stable")
        return [names[start + i] for i in order]

    names_of_columns = ("query", "session", "position", "document", "team", "rank_a", "rank_b")
    table: list[tuple[Any, ...]] = []
    bounds = rows.boundaries.tolist()
    for q, query in enumerate(plain_ids(rows.query_ids)):
        start, end = bounds[q], bounds[q + 1]
        a, b = ranking(scores_a, start, end), ranking(scores_b, start, end)
        # The key gives each list its own coins, whatever other queries the data has.
        for session in range(lists):
            shown = rw.interleave(
                a,
                b,
                method=method,
                length=min(length, end - start),
                key=(query, session),
                random_state=seed,
            )
            # The table has a row for each document of a list, as a click log has.
            places = zip(shown.documents, shown.team, shown.rank_a, shown.rank_b, strict=True)
            table += [(query, session, number, *place) for number, place in enumerate(places, 1)]
    columns = zip(*table, strict=True)
    write_table(dict(zip(names_of_columns, columns, strict=True)), out)
    return {
        "lists": rows.n_queries * lists,
        "queries": rows.n_queries,
        "method": method,
        "seed": seed,
    }
