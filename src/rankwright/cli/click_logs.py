"""Click logs on the command line: how they are read, and evaluation from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from rankwright.cli import scoring
from rankwright.cli.reading import DataFile
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright import ClickEvaluation, ClickLog, Propensities, RankingData

Columns = Annotated[
    list[str] | None,
    Option(
        "--log-column",
        metavar="NAME=COLUMN",
        help="Column of the log for query, document, position, click or session, if it has another name; repeatable.",
    ),
]
_NAMES = ("query", "document", "position", "click", "session")


def read_log(path: Path, columns: list[str] | None) -> ClickLog:
    """Read a click log; ``columns`` are the columns with other names, as the user wrote them."""
    from rankwright.clicks.reading import read_clicks

    # The names of the log's columns that differ from our names, by our names.
    names: dict[str, Any] = {}
    for text in columns or ():
        name, _, column = text.partition("=")
        if name not in _NAMES or not column:
            raise typer.BadParameter(
                f"{text!r} is not of the form NAME=COLUMN with NAME of {', '.join(_NAMES)}.",
                param_hint="--log-column",
            )
        names[name] = column
    try:
        return read_clicks(path, **names)
    except ArgumentError as error:
        raise ValueError(error.sentence(f"--log-column {error.argument}=COLUMN")) from None


def evaluate_from_clicks(
    system: str,
    data: DataFile,
    log: ClickLog,
    *,
    document: str | None,
    propensity: str,
    metrics: list[str],
    clip: float,
) -> tuple[ClickEvaluation, Propensities]:
    """Estimate metrics of a system from a click log."""
    import rankwright as rw

    systems = scoring.Systems([system], data)
    scores, rows = systems.score(system, document=document, labelled=False)
    # The estimators need the score of each shown document, so the log is joined with the data.
    log = _attached(log, rows, document)
    curve = _propensities(log, propensity)
    estimators: list[Any] = ["ips", "snips"]
    if log.queries.n_queries > 1:
        # The doubly robust estimator learns each query's relevance from the other queries.
        estimators.append("dr")
    result = rw.evaluate_clicks(
        log, scores, curve, metrics=metrics, estimators=estimators, clip=clip
    )
    return result, curve


def _attached(log: ClickLog, rows: RankingData, document: str | None) -> ClickLog:
    """Return the log with the rows, matched by a column or else by the names QID-1, QID-2, ..."""
    from rankwright.data.documents import document_names

    if document is not None:
        return log.attach(rows, document=document)
    # Lists made by `interleave` without --document have these names too.
    try:
        return log.attach(rows.with_fields({"document": document_names(rows)}))
    except ValueError as error:
        raise ValueError(
            f"{error} --document names the column of the data with their ids [QID-1, ...]."
        ) from None


def _propensities(log: ClickLog, text: str) -> Propensities:
    """Estimate propensities by a method, or read them from comma-separated numbers."""
    import rankwright as rw

    if text in ("swaps", "harvest", "em"):
        return rw.estimate_propensities(log, text)  # type: ignore[arg-type]
    # Anything else has to be the propensity of each position, from the first.
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not swaps, harvest or em, nor a list of propensities such as 1,0.5,0.33.",
            param_hint="--propensity",
        ) from None
    return rw.Propensities.known(values)
