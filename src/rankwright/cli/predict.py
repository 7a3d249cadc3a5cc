"""The command ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankwright.cli import options, scoring


@options.with_data_options(weight=False)
def predict(
    system: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder or saved model.", show_default=False)
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="LETOR, Parquet or CSV, with or without labels.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="File to write, also .gz; an existing one is overwritten.",
            show_default=False,
        ),
    ],
    form: Annotated[
        Literal["scores", "trec", "csv"] | None,
        typer.Option(
            "--format",
            help="One score per line, a TREC run file, or a table [by the name: .trec, .run; .csv].",
            show_default=False,
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Tag of the TREC run [the name of RUN].", show_default=False)
    ] = None,
    stream: options.Stream = None,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated",
            help="Expected labels or probabilities in place of scores; see calibrate.",
        ),
    ] = False,
    *,
    reading: options.Reading,
) -> None:
    """Score the rows of a file with a model.

    Scores are written one per line in the order of the rows, with all digits. A TREC run file names documents by their
    ids (--docid, or comments of LETOR text), or QID-1, QID-2, ... in the order of the rows; `evaluate` knows them by
    these names. A table has the columns qid, docid, score, and those of the fields.

    Example: rankwright predict run test.txt --out test.trec
    """
    import rankwright as rw
    from rankwright.data.documents import document_names
    from rankwright.data.trec import TrecRun
    from rankwright.support.files import replacing

    if form is None:
        plain = out.name.removesuffix(".gz")
        if plain.endswith((".parquet", ".pq", ".tsv")):
            raise typer.BadParameter(
                f"{out.name} is not a name for scores, a TREC run file or CSV; use .csv, or say --format.",
                param_hint="--out",
            )
        form = (
            "trec"
            if plain.endswith((".trec", ".run"))
            else "csv"
            if plain.endswith(".csv")
            else "scores"
        )
    trec = form == "trec"
    if tag is not None and not trec:
        raise typer.BadParameter(
            "only a TREC run file has a tag; add --format trec.", param_hint="--tag"
        )
    ranker, training_options = scoring.load_system(system)
    if calibrated and ranker.calibration_ is None:
        raise ValueError(
            f"{system} is not calibrated; run rankwright calibrate {system} HELD_OUT_DATA first."
        )
    training_options.pop("weight", None)
    if options.streams(stream, [data]):
        if form != "scores":
            raise typer.BadParameter(
                f"only scores can be written while rows are read; {form} needs --in-memory."
            )
        _write_scores(ranker, data, training_options | reading, calibrated, out)
        return
    rows = scoring.DataFile(data, reading).read(
        **training_options, labelled=False, reference=ranker.columns_
    )
    scores = ranker.predict(rows, calibrated=calibrated)
    if trec:
        name = tag or "_".join(system.resolve().stem.split())
        rw.write_trec_run(
            TrecRun([str(qid) for qid in rows.qid.tolist()], document_names(rows), scores, name),
            out,
        )
        return
    if form == "csv":
        _write_table(rows, document_names(rows), scores, out)
        return
    with replacing(out) as file:
        for score in rows.ungroup(scores).tolist():
            file.write(f"{score!r}\n".encode())


def _write_scores(
    ranker: Any, data: Path, reading: dict[str, Any], calibrated: bool, out: Path
) -> None:
    """Write one score per line while rows are read."""
    from rankwright.support.files import replacing
    from rankwright.training.progress import ReadingBar

    drop = [
        name
        for option in ("drop", "fields", "docid", "query_text")
        for name in _listed(reading.pop(option, ()))
    ]
    reading.pop("categorical", None)
    with replacing(out) as file:
        for scores in ranker.model_.predict_batches(data, **reading, drop=drop, show=ReadingBar(1)):
            values = ranker.model_.require_calibration()(scores) if calibrated else scores
            file.write("".join(f"{value!r}\n" for value in values.tolist()).encode())


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _write_table(data: Any, names: list[str], scores: Any, out: Path) -> None:
    """Write a row per document, in the order of the file that was read."""
    import csv
    import io

    import numpy as np

    from rankwright.support.files import replacing

    others = {name: values for name, values in data.fields.items() if name != "docid"}
    columns = [data.qid, np.array(names, dtype=object), scores, *others.values()]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["qid", "docid", "score", *others])
    table.writerows(zip(*(data.ungroup(column).tolist() for column in columns), strict=True))
    with replacing(out) as file:
        file.write(text.getvalue().encode())
