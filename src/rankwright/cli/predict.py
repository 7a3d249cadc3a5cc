"""The command ``predict``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from rankwright.cli import options
from rankwright.cli.reading import DataFile, Trained, is_streamed, load_trained

if TYPE_CHECKING:
    from rankwright import RankingData

Form = Literal["scores", "trec", "csv"]


@options.with_groups
def predict(
    system: options.Model,
    data: Annotated[
        Path, Argument(metavar="DATA", help="LETOR, Parquet or CSV, with or without labels.")
    ],
    out: Annotated[
        Path,
        Option(metavar="FILE", help="File to write, also .gz; an existing one is overwritten."),
    ],
    form: Annotated[
        Form | None,
        Option(
            "--format",
            help="One score per line, a TREC run file, or a table [by the name: .trec, .run; .csv].",
        ),
    ] = None,
    tag: Annotated[str | None, Option(help="Tag of the TREC run [the name of RUN].")] = None,
    base_score: options.BaseScore = None,
    stream: options.Stream = None,
    calibrated: Annotated[
        bool,
        Option(
            "--calibrated",
            help="Expected labels or probabilities in place of scores; see calibrate.",
        ),
    ] = False,
    *,
    reading: options.UnweightedReading,
) -> None:
    """Score the rows of a file with a model.

    Scores are written one per line in the order of the rows, with all digits. A TREC run file names documents by their
    ids (--docid, or comments of LETOR text), or QID-1, QID-2, ... in the order of the rows; `evaluate` knows them by
    these names. A table has the columns qid, docid, score, and the fields of the data.

    Example: rankwright predict run test.txt --out test.trec
    """
    import rankwright as rw
    from rankwright.data.documents import document_names
    from rankwright.data.trec import TrecRun

    form = form or _form_of(out)
    if tag is not None and form != "trec":
        raise typer.BadParameter(
            "only a TREC run file has a tag; add --format trec.", param_hint="--tag"
        )
    model = load_trained(system)
    if calibrated and model.ranker.calibration_ is None:
        raise ValueError(
            f"{system} is not calibrated; run rankwright calibrate {system} HELD_OUT_DATA first."
        )
    # A column that no score starts from is a mistake.
    model.ranker.model_.base_source(base_score)
    # Each block of rows is scored and written before the next is read, so memory stays small.
    if is_streamed(stream, [data]):
        if form != "scores":
            raise typer.BadParameter(
                f"only scores can be written while rows are read; {form} needs --in-memory."
            )
        _write_scores(_scores_of_blocks(model, data, reading, base_score, calibrated), out)
        return
    rows = model.rows(DataFile(data, reading, base_score), labelled=False)
    scores = model.ranker.predict(rows, calibrated=calibrated)
    # The rows are grouped by query in memory. Scores without ids have to be in the file's order.
    if form == "scores":
        _write_scores([rows.ungroup(scores)], out)
    elif form == "csv":
        _write_table(rows, document_names(rows), scores, out)
    else:
        # A TREC run separates its columns by spaces, so the tag must not have any.
        name = tag or "_".join(system.resolve().stem.split())
        queries = [str(qid) for qid in rows.qid.tolist()]
        rw.write_trec_run(TrecRun(queries, document_names(rows), scores, name), out)


def _form_of(out: Path) -> Form:
    name = out.name.removesuffix(".gz")
    if name.endswith((".parquet", ".pq", ".tsv")):
        raise typer.BadParameter(
            f"{out.name} is not a name for scores, a TREC run file or CSV; use .csv, or say --format.",
            param_hint="--out",
        )
    if name.endswith((".trec", ".run")):
        return "trec"
    if name.endswith(".csv"):
        return "csv"
    return "scores"


def _scores_of_blocks(
    model: Trained, data: Path, given: options.Given, base_score: str | None, calibrated: bool
) -> Iterable[Any]:
    """Yield scores while rows are read."""
    from rankwright.data.formats.contract import NAMED_FIELDS
    from rankwright.training.progress import ReadingBar

    reading = model.reading | given
    # Only features and query ids are read: all other columns are dropped.
    dropped = list(reading.pop("drop", ())) + list(reading.pop("fields", ()))
    for option in NAMED_FIELDS:
        if option in reading:
            dropped.append(reading.pop(option))
    for option in ("categorical", "weight"):
        reading.pop(option, None)
    light = model.ranker.model_
    reading |= {"drop": dropped, "base_score": base_score}
    for scores in light.predict_batches(data, **reading, show=ReadingBar(1)):
        if calibrated:
            scores = light.require_calibration()(scores)
        yield scores


def _write_scores(blocks: Iterable[Any], out: Path) -> None:
    """Write a score per line."""
    from rankwright.support.files import replacing

    # An interrupted command leaves an older file as it was.
    with replacing(out) as file:
        for scores in blocks:
            file.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())


def _write_table(data: RankingData, names: list[str], scores: Any, out: Path) -> None:
    """Write a row per document, in the order of the file that was read."""
    import csv
    import io

    import numpy as np

    from rankwright.support.files import replacing

    columns = {"qid": data.qid, "docid": np.array(names, dtype=object), "score": scores}
    # Ids of documents have a column already.
    columns |= {name: values for name, values in data.fields.items() if name != "docid"}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(
        zip(*(data.ungroup(column).tolist() for column in columns.values()), strict=True)
    )
    with replacing(out) as file:
        file.write(text.getvalue().encode())
