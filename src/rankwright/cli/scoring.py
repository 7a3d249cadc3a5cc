"""Score and evaluate a run folder, a saved model or a TREC run file on a data file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwright.cli.reading import DataFile, load_trained, no_column

if TYPE_CHECKING:
    from rankwright import Evaluation, RankingData
    from rankwright.data.trec import TrecRun


def evaluate_system(system: Path, data: DataFile, **options: Any) -> Evaluation:
    """Evaluate a system on a data set or on TREC qrels; ``options`` are the options of `evaluate`."""
    import rankwright as rw

    # Qrels have no features, so only a run file can be evaluated with them.
    if not _is_model(system) and _is_qrels(data.path):
        scores, labels, qid = rw.align(rw.read_trec_run(system), rw.read_qrels(data.path))
        return rw.evaluate(scores, labels, qid=qid, **options)
    scores, rows = score_system(system, data)
    return rw.evaluate(scores, rows.labels, qid=rows.qid, weights=rows.weights, **options)


def score_system(
    system: Path, data: DataFile, *, document: str | None = None, **reading: Any
) -> tuple[Any, RankingData]:
    """Return the scores of a system and the rows of the data, with the column ``document`` as a field."""
    import rankwright as rw

    fields = [] if document is None else [document]
    if _is_model(system):
        model = load_trained(system)
        rows = model.rows(data, fields=fields, **reading)
        scores = model.ranker.predict(rows)
    else:
        run = rw.read_trec_run(system)
        # The scores are in the run, so the features need not be read.
        rows = data.read(**reading, fields=fields, features=False)
        scores = _scores_in_run(run, rows, data.path)
    if document is not None and document not in rows.fields:
        raise no_column(data.path, document, "document")
    return scores, rows


def _is_model(system: Path) -> bool:
    return system.is_dir() or system.suffix == ".zip"


def _is_qrels(path: Path) -> bool:
    """Return whether the first line of a text file is a line of TREC qrels, and not of LETOR text."""
    from rankwright.data.formats import FORMATS
    from rankwright.support.files import read_text

    # Qrels are plain text, and the first line of a table cannot always be read as text.
    tables = [
        suffix
        for file_format in FORMATS
        if file_format.has_columns
        for suffix in file_format.suffixes
    ]
    if set(tables) & set(path.suffixes):
        return False
    words = read_text(path).split(b"\n", 1)[0].split()
    return len(words) == 4 and not words[1].startswith(b"qid:")


def _scores_in_run(run: TrecRun, data: RankingData, source: Path) -> Any:
    """Look up the scores of the data's rows in a run; documents that it did not retrieve come last."""
    import numpy as np

    from rankwright.data.documents import document_names, numbered_names

    row_of = _row_numbers(data, document_names(data))
    if (run.qid[0], run.docno[0]) not in row_of:
        # The run may name the documents by their rows although the data has ids.
        row_of = _row_numbers(data, numbered_names(data))
    scores = np.full(data.n_rows, np.nan)
    retrieved = zip(run.qid.tolist(), run.docno.tolist(), run.score.tolist(), strict=True)
    for qid, docno, score in retrieved:
        if (qid, docno) not in row_of:
            raise ValueError(
                f"{source} has no document {docno!r} of query {qid!r}, and the run {run.tag!r} retrieved it. "
                "The run must name the documents as `predict` does: by their ids (--docid), or QID-1, QID-2, ... in "
                "the order of the rows."
            )
        scores[row_of[qid, docno]] = score
    # Any score below the others does; this is the largest such score.
    last = np.nextafter(np.nanmin(scores), -np.inf)
    return np.where(np.isnan(scores), last, scores)


def _row_numbers(data: RankingData, names: list[str]) -> dict[tuple[str, str], int]:
    queries = map(str, data.qid.tolist())
    return {pair: row for row, pair in enumerate(zip(queries, names, strict=True))}
