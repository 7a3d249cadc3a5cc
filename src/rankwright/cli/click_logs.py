"""Click logs on the command line: how they are read, and evaluation from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwright.cli import options, scoring

if TYPE_CHECKING:
    from rankwright import ClickEvaluation, ClickLog, Propensities, RankingData

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--log-column",
        metavar="NAME=COLUMN",
        help="Column of the log for query, document, position, click or session, if it has another name; repeatable.",
        show_default=False,
    ),
]
_NAMES = ("query", "document", "position", "click", "session")


def read_log(path: Path, columns: list[str] | None) -> ClickLog:
    """Read a click log, with other names of columns where the user gave them."""
    from rankwright.clicks.reading import read_clicks

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
    except ValueError as error:
        raise ValueError(_in_flags(str(error))) from None


def _in_flags(message: str) -> str:
    """Name --log-column where the library names an argument of `read_clicks`."""
    for remedy in (
        ", or None where lists follow each other",
        ", or give read_clicks first_position=0",
    ):
        message = message.replace(remedy, "")
    return re.sub(rf"in ({'|'.join(_NAMES)})=", r"in --log-column \1=COLUMN", message)


def evaluate_from_clicks(
    system: Path,
    data: scoring.DataFile,
    log: ClickLog,
    document: str | None,
    propensity: str,
    metrics: list[str],
    clip: float,
) -> tuple[ClickEvaluation, Propensities]:
    """Estimate metrics of a system from a click log."""
    import rankwright as rw

    scores, rows = scoring.score_system(system, data, document=document, labelled=False)
    try:
        log = log.attach(
            _named(rows) if document is None else rows, document=document or "document"
        )
    except ValueError as error:
        if document is not None:
            raise
        raise ValueError(
            f"{error} --document names the column of the data with their ids [QID-1, ...]."
        ) from None
    curve = _propensities(log, propensity)
    estimators = (
        ["ips", "snips", "dr"] if log.queries.n_queries > 1 else ["ips", "snips"]
    )  # "dr" learns from others
    return rw.evaluate_clicks(
        log, scores, curve, metrics=metrics, estimators=estimators, clip=clip
    ), curve


def evaluation_json(result: ClickEvaluation, curve: Propensities) -> str:
    """Return the estimates and the propensities as JSON."""
    return options.to_json(result.to_dict() | {"propensities": curve.to_dict()})


def _named(rows: RankingData) -> RankingData:
    """Name documents as in TREC run files: QID-1, QID-2, ... in the order of the rows."""
    from rankwright.data.documents import document_names

    return rows.with_rows(
        rows.X,
        rows.y,
        rows.qid,
        rows.weights,
        rows.fields | {"document": _objects(document_names(rows))},
    )


def _objects(names: list[str]) -> Any:
    import numpy as np

    return np.array(names, dtype=object)


def _propensities(log: ClickLog, text: str) -> Propensities:
    """Estimate propensities by a method, or read them from comma-separated numbers."""
    import rankwright as rw

    if text in ("swaps", "harvest", "em"):
        return rw.estimate_propensities(log, text)  # type: ignore[arg-type]
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not swaps, harvest or em, nor a list of propensities such as 1,0.5,0.33.",
            param_hint="--propensity",
        ) from None
    return rw.Propensities.known(values)
