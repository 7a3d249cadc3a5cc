"""The command ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rankwright.cli import systems


def predict(
    system: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder or saved model.", show_default=False)],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="LETOR, Parquet or CSV, with labels or without.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="File to write; also .gz. One that is there is replaced.", show_default=False
        ),
    ],
    form: Annotated[
        Literal["scores", "trec"] | None,
        typer.Option(
            "--format",
            help="One score per line, or a run file in TREC form [trec if the name ends in .trec or .run].",
            show_default=False,
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Name of the run in TREC form [the name of RUN].", show_default=False)
    ] = None,
    qid: systems.Qid = None,
    label: systems.Label = None,
    drop: systems.Drop = None,
    categorical: systems.Categorical = None,
    zero_based: systems.ZeroBased = None,
) -> None:
    """Score the rows of a file with a model.

    Scores come one per line in the order of the file's rows, with all digits. In TREC form the documents are
    named QID-1, QID-2, ... in the order of the rows, and `evaluate` knows them by these names.

    Example: rankwright predict run test.txt --out test.trec
    """
    import rankwright as rw
    from rankwright._io import replacing
    from rankwright.data.tables import document_names
    from rankwright.data.trec import TrecRun

    trec = form == "trec" or (form is None and out.name.removesuffix(".gz").endswith((".trec", ".run")))
    if tag is not None and not trec:
        raise typer.BadParameter("only a run file in TREC form has a name; add --format trec.", param_hint="--tag")
    ranker, read_as = systems.load_system(system)
    read_as.pop("weight", None)
    given = systems.given(qid=qid, label=label, drop=drop, categorical=categorical, zero_based=zero_based)
    rows = systems.DataFile(data, given).read(**read_as, labelled=False, reference=ranker.columns_)
    scores = ranker.predict(rows)
    if trec:
        name = tag or "_".join(system.resolve().stem.split())
        rw.write_trec_run(TrecRun([str(one) for one in rows.qid.tolist()], document_names(rows), scores, name), out)
        return
    with replacing(out) as file:
        for score in rows.ungroup(scores).tolist():
            file.write(f"{score!r}\n".encode())
