"""What the commands share: options about data, and scores of a run, a model or a run file on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rankwright import Evaluation, Ranker, RankingData

Label = Annotated[str | None, typer.Option(help="Label column of Parquet and CSV [label].", show_default=False)]
Qid = Annotated[str | None, typer.Option(help="Query column of Parquet and CSV [qid].", show_default=False)]
Weight = Annotated[str | None, typer.Option(help="Weight column of Parquet and CSV.", show_default=False)]
Drop = Annotated[
    list[str] | None, typer.Option(help="Column of Parquet and CSV that is no feature; repeatable.", show_default=False)
]
Categorical = Annotated[
    list[str] | None, typer.Option(help="Column that holds categories; repeatable.", show_default=False)
]
ZeroBased = Annotated[
    bool | None, typer.Option("--zero-based/--one-based", help="Index of the first LETOR feature.", show_default=False)
]
Metrics = Annotated[str, typer.Option(help="Metrics, separated by blanks.")]
Ties = Annotated[Literal["worst", "best", "expected", "input"], typer.Option(help="Order of equal scores.")]
Empty = Annotated[Literal["skip", "zero", "one"], typer.Option(help="Value of queries without a relevant document.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads [all cores].", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")]


def given(**options: Any) -> dict[str, Any]:
    """Options of reading data that were given."""
    return {name: value for name, value in options.items() if value not in (None, [])}


def split_metrics(text: str) -> list[str]:
    """Split a list of metrics at the blanks outside of brackets; a name that does not exist is wrong usage."""
    from rankwright import metric

    names: list[str] = []
    depth = 0
    for word in text.split():
        if depth:
            names[-1] += f" {word}"
        else:
            names.append(word)
        depth += word.count("(") - word.count(")")
    if not names:
        raise typer.BadParameter("name at least one metric, such as ndcg@10.")
    for name in names:
        try:
            metric(name)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return names


def literal(text: str) -> Any:
    """Read a value as TOML; what is not TOML is text, so that full and "full" are the same."""
    import tomllib

    try:
        read = tomllib.loads(f"value = {text.strip()}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    return read["value"] if len(read) == 1 else text.strip()


def to_json(value: Any) -> str:
    """JSON text; a value that is not a number is null."""
    import json
    import math

    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: plain(inner) for key, inner in one.items()}
        if isinstance(one, list | tuple):
            return [plain(inner) for inner in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    return json.dumps(plain(value), indent=1, allow_nan=False)


def load_system(path: Path) -> tuple[Ranker, dict[str, Any]]:
    """Read a model, and how its training data was read where a run folder says so."""
    from rankwright.runs import Run, is_run, load_ranker

    if is_run(path):
        run = Run.open(path)
        return run.ranker, dict(run.manifest.get("reading", {}))
    ranker = load_ranker(path)
    named = {"label": ranker.label_column_, "qid": ranker.qid_column_}
    return ranker, {name: column for name, column in named.items() if column is not None}


class DataFile:
    """A data file that is read once for each way in which it is to be read.

    Parameters
    ----------
    path
        The file.
    reading
        Options of `read_data` that were given, which win over those of a run.
    """

    def __init__(self, path: Path, reading: dict[str, Any]) -> None:
        self.path = path
        self._reading = reading
        self._known: dict[str, RankingData] = {}

    def read(self, **options: Any) -> RankingData:
        """Read the file, with options that those given win over."""
        from rankwright.data.tables import read_data

        chosen = {**options, **self._reading}
        key = repr(sorted(chosen.items()))
        if key not in self._known:
            self._known[key] = read_data(self.path, **chosen)
        return self._known[key]


def evaluate_system(system: Path, data: DataFile, **options: Any) -> Evaluation:
    """Evaluate a run folder, a saved model, or a run file in TREC form, on a data set or judgements."""
    import rankwright as rw

    if system.is_dir() or system.suffix == ".zip":
        ranker, read_as = load_system(system)
        known = data.read(**read_as, reference=ranker.columns_)
        return _evaluate(ranker.predict(known), known, options)
    run = rw.read_trec_run(system)
    if holds_judgements(data.path):
        scores, labels, qid = rw.align(run, rw.read_qrels(data.path))
        return rw.evaluate(scores, labels, qid=qid, **options)
    known = data.read()
    return _evaluate(_scores_in_run(run, known, data.path), known, options)


def holds_judgements(path: Path) -> bool:
    """Tell judgements in TREC form from LETOR text by the first line; both are text files."""
    if any(ending in path.suffixes for ending in (".csv", ".tsv", ".parquet", ".pq")):
        return False
    from rankwright.data.letor import read_text

    words = read_text(path).split(b"\n", 1)[0].split()
    return len(words) == 4 and not words[1].startswith(b"qid:")


def _evaluate(scores: Any, data: RankingData, options: dict[str, Any]) -> Evaluation:
    import rankwright as rw

    return rw.evaluate(scores, data.y, qid=data.qid, weights=data.weights, **options)


def _scores_in_run(run: Any, data: RankingData, source: Path) -> Any:
    """Scores of the data's rows in a run; documents that it did not retrieve come last."""
    import numpy as np

    from rankwright.data.tables import document_names

    row_of = {
        (str(qid), name): row
        for row, (qid, name) in enumerate(zip(data.qid.tolist(), document_names(data), strict=True))
    }
    scores = np.full(data.n_rows, np.nan)
    for qid, docno, score in zip(run.qid.tolist(), run.docno.tolist(), run.score.tolist(), strict=True):
        if (qid, docno) not in row_of:
            raise ValueError(
                f"{source} has no document {docno!r} of query {qid!r}, which the run {run.tag!r} retrieved; the "
                "documents of a data set are named QID-1, QID-2, ... in the order of its rows, as predict does."
            )
        scores[row_of[qid, docno]] = score
    last = np.nextafter(np.nanmin(scores), -np.inf)
    return np.where(np.isnan(scores), last, scores)
