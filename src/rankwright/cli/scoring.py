"""Evaluation of a run folder, a saved model or a TREC run file on a data file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwright import Evaluation, Ranker, RankingData
    from rankwright.data.trec import TrecRun


def load_system(path: Path) -> tuple[Ranker, dict[str, Any]]:
    """Load a model, and the options that its training data was read with, as far as they are known."""
    from rankwright.runs import Run, is_run, load_ranker

    if is_run(path):
        run = Run.open(path)
        return run.ranker, run.reading
    ranker = load_ranker(path)
    options: dict[str, Any] = {"label": ranker.label_column_, "qid": ranker.qid_column_}
    if ranker.columns_.first_index == 0:
        options["zero_based"] = True
    options["fields"] = ranker.manifest_.get("other_columns") or None
    return ranker, {name: value for name, value in options.items() if value is not None}


class DataFile:
    """A data file that is read only once for each set of options.

    Parameters
    ----------
    path
        The file.
    reading
        Options of `read_data` that the user gave; they override those of a run.
    """

    def __init__(self, path: Path, reading: dict[str, Any]) -> None:
        if (path / "manifest.json").exists():
            raise ValueError(
                f"{path} is a run or a saved model, not data; give the run first, then the data."
            )
        self.path = path
        self._reading = reading
        self._cache: dict[str, RankingData] = {}

    def read(self, **options: Any) -> RankingData:
        """Read the file with these options, unless the user gave others."""
        from rankwright.data.formats import check_column_options
        from rankwright.data.reading import read_data

        check_column_options(self.path, self._reading)
        options |= self._reading
        if options.get("drop"):  # a column that is asked for is not a feature either
            options["drop"] = [
                name for name in options["drop"] if name not in options.get("fields", ())
            ]
        key = repr(sorted(options.items()))
        if key not in self._cache:
            with warnings.catch_warnings():
                warnings.simplefilter("always")  # how columns were matched is shown for every file
                self._cache[key] = read_data(self.path, **options)
        data = self._cache[key]
        for option in ("docid", "query_text"):
            name, letor = self._reading.get(option), data.first_index is not None or not data.named
            if name is not None and option not in data.fields and not letor:
                raise ValueError(
                    f"{self.path} has no column {name!r}; name one of its own in {option}=."
                )
        return data


def evaluate_system(system: Path, data: DataFile, **options: Any) -> Evaluation:
    """Evaluate a run folder, a saved model or a TREC run file, on a data set or qrels."""
    import rankwright as rw

    if not _is_model(system) and _is_qrels(data.path):
        scores, labels, qid = rw.align(rw.read_trec_run(system), rw.read_qrels(data.path))
        return rw.evaluate(scores, labels, qid=qid, **options)
    scores, rows = score_system(system, data)
    return rw.evaluate(scores, rows.labels, qid=rows.qid, weights=rows.weights, **options)


def score_system(
    system: Path, data: DataFile, *, document: str | None = None, **reading: Any
) -> tuple[Any, RankingData]:
    """Return the scores of a run folder, a saved model or a TREC run file, and the rows of the data.

    The rows have the column ``document`` as a field.
    """
    if document is not None:
        scores, rows = score_system(system, data, **reading, fields=[document])
        if document not in rows.fields:
            raise ValueError(
                f"{data.path} has no column {document!r}; name one of its own in --document."
            )
        return scores, rows
    import rankwright as rw

    if not _is_model(system):
        run = rw.read_trec_run(system)
        rows = data.read(**reading, features=False)
        return _scores_in_run(run, rows, data.path), rows
    ranker, training_options = load_system(system)
    fields = [*training_options.pop("fields", ()), *reading.pop("fields", ())]
    if fields:
        reading["fields"] = fields
    rows = data.read(**training_options, **reading, reference=ranker.columns_)
    return ranker.predict(rows), rows


def _is_model(system: Path) -> bool:
    return system.is_dir() or system.suffix == ".zip"


def _is_qrels(path: Path) -> bool:
    """Tell TREC qrels from LETOR text by the first line; both are text files."""
    from rankwright.data.formats import FORMATS
    from rankwright.support.files import read_text

    tables = [suffix for one in FORMATS if one.has_columns for suffix in one.suffixes]
    if set(tables) & set(path.suffixes):
        return False

    words = read_text(path).split(b"\n", 1)[0].split()
    return len(words) == 4 and not words[1].startswith(b"qid:")


def _scores_in_run(run: TrecRun, data: RankingData, source: Path) -> Any:
    """Look up the scores of the data's rows in a run; documents that it did not retrieve come last."""
    import numpy as np

    from rankwright.data.documents import document_names, numbered_names

    def rows_by(names: list[str]) -> dict[tuple[str, str], int]:
        return {
            pair: row
            for row, pair in enumerate(zip(map(str, data.qid.tolist()), names, strict=True))
        }

    row_of = rows_by(document_names(data))
    if (
        run.qid[0],
        run.docno[0],
    ) not in row_of:  # a run may name documents by their rows though they have ids
        row_of = rows_by(numbered_names(data))
    scores = np.full(data.n_rows, np.nan)
    for qid, docno, score in zip(
        run.qid.tolist(), run.docno.tolist(), run.score.tolist(), strict=True
    ):
        if (qid, docno) not in row_of:
            raise ValueError(
                f"{source} has no document {docno!r} of query {qid!r}, which the run {run.tag!r} retrieved. "
                "The run must name the documents as `predict` does: by their ids (--docid), or QID-1, QID-2, ... in "
                "the order of the rows."
            )
        scores[row_of[qid, docno]] = score
    last = np.nextafter(np.nanmin(scores), -np.inf)
    return np.where(np.isnan(scores), last, scores)
