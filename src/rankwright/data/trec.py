"""TREC files: qrels (judgements) ``qid 0 docno label`` and runs ``qid Q0 docno rank score tag``.

They hold no features, so they are not a format of ranking data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import text_array
from rankwright.support import checks
from rankwright.support.files import PathLike, read_text, replacing

_QRELS_LINE = "qid 0 docno label"
_RUN_LINE = "qid Q0 docno rank score tag"


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance judgements of documents for queries.

    Parameters
    ----------
    qid, docno
        Query and document, as text without whitespace [judgements].
    label
        Whole numbers, below 1 if the document is not relevant [judgements].

    Examples
    --------
    >>> Qrels(["q1", "q1"], ["d1", "d2"], [2, 0]).label.tolist()
    [2, 0]
    """

    qid: Any
    docno: Any
    label: Any

    def __post_init__(self) -> None:
        _set_pairs(self, "label")
        labels = np.asarray(self.label)
        if labels.dtype.kind not in "iub":
            raise ValueError(f"labels of judgements must be whole numbers; got {labels.dtype}.")
        object.__setattr__(self, "label", labels.astype(np.int64))


@dataclass(frozen=True, eq=False)
class TrecRun:
    """Documents that a system retrieved for each query, with the scores that rank them.

    Parameters
    ----------
    qid, docno
        Query and document, as text without whitespace [retrieved].
    score
        Finite, higher is better [retrieved].
    tag
        Name of the run, without whitespace.

    Examples
    --------
    >>> TrecRun(["q1", "q1"], ["d1", "d2"], [0.5, 0.7], "bm25").score.tolist()
    [0.5, 0.7]
    """

    qid: Any
    docno: Any
    score: Any
    tag: str

    def __post_init__(self) -> None:
        _set_pairs(self, "score")
        scores = np.asarray(self.score, dtype=np.float64)
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise ValueError(
                f"scores must be finite; got {scores[row]} at row {row}, query {self.qid[row]}, "
                f"document {self.docno[row]}."
            )
        object.__setattr__(self, "score", scores)
        _check_word("tag", self.tag)


def read_qrels(path: PathLike) -> Qrels:
    """Read judgements, plain or gzip, in the order of the lines.

    Raise ValueError with the file and line if a line is not ``qid 0 docno label``, or if a document is
    judged twice for a query. The second column is ignored.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "qrels.txt")
    ...     _ = path.write_text("301 0 FT911-3 1")
    ...     qrels = read_qrels(path)
    >>> qrels.qid.tolist(), qrels.docno.tolist(), qrels.label.tolist()
    (['301'], ['FT911-3'], [1])
    """
    qids, docnos, labels = [], [], []
    for line, (qid, _, docno, label) in _read_lines(path, _QRELS_LINE):
        try:
            labels.append(np.int64(int(label)))
        except (ValueError, OverflowError):
            reason = f"expected a whole number as the label, got {_excerpt(label)!r}"
            raise _bad_line(path, line, reason) from None
        qids.append(qid)
        docnos.append(docno)
    return Qrels(qids, docnos, np.array(labels, dtype=np.int64))


def read_trec_run(path: PathLike) -> TrecRun:
    """Read a run, plain or gzip, in the order of the lines.

    A line that is not ``qid Q0 docno rank score tag``, a document that is retrieved twice for a query,
    or a second tag raises ValueError with the file and line. As in trec_eval the rank is ignored: the
    scores give the order.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bm25.run")
    ...     _ = path.write_text("301 Q0 FT911-3 1 12.5 bm25")
    ...     run = read_trec_run(path)
    >>> run.docno.tolist(), run.score.tolist(), run.tag
    (['FT911-3'], [12.5], 'bm25')
    """
    qids, docnos, scores = [], [], []
    run_tag = None  # all lines must have the same tag
    for line, (qid, _, docno, _, score, tag) in _read_lines(path, _RUN_LINE):
        try:
            scores.append(float(score))
        except ValueError:
            scores.append(np.nan)
        if not np.isfinite(scores[-1]):
            raise _bad_line(
                path, line, f"expected a finite number as the score, got {_excerpt(score)!r}"
            )
        if run_tag not in (None, tag):
            raise _bad_line(
                path, line, f"expected the tag {run_tag!r} of the lines before, got {tag!r}"
            )
        run_tag = tag
        qids.append(qid)
        docnos.append(docno)
    return TrecRun(qids, docnos, scores, str(run_tag))


def write_qrels(qrels: Qrels, path: PathLike) -> None:
    """Write judgements in their order, as gzip if the name ends in ``.gz``; the file is complete or absent.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_qrels(Qrels(["q1"], ["d7"], [3]), pathlib.Path(folder, "qrels"))
    ...     print(pathlib.Path(folder, "qrels").read_text())
    q1 0 d7 3
    """
    with replacing(path) as file:
        for qid, docno, label in zip(qrels.qid, qrels.docno, qrels.label.tolist(), strict=True):
            file.write(f"{qid} 0 {docno} {label}\n".encode())


def write_trec_run(run: TrecRun, path: PathLike) -> None:
    """Write a run, best document first, as gzip if the name ends in ``.gz``; the file is complete or absent.

    Queries keep the order in which they first appear, documents with equal scores their row order.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> run = TrecRun(["q1", "q1"], ["d1", "d2"], [0.5, 0.7], "bm25")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trec_run(run, pathlib.Path(folder, "bm25.run"))
    ...     print(pathlib.Path(folder, "bm25.run").read_text())
    q1 Q0 d2 1 0.7 bm25
    q1 Q0 d1 2 0.5 bm25
    """
    # Dictionaries keep the order in which queries first appear.
    rows_of: dict[str, list[int]] = {}
    for row, qid in enumerate(run.qid):
        rows_of.setdefault(qid, []).append(row)
    with replacing(path) as file:
        for qid, rows in rows_of.items():
            # Sorting is stable, so equal scores keep their row order.
            best_first = sorted(rows, key=lambda row: -run.score[row])
            for rank, row in enumerate(best_first, start=1):
                score = float(run.score[row])
                file.write(f"{qid} Q0 {run.docno[row]} {rank} {score!r} {run.tag}\n".encode())


def align(
    run: TrecRun, qrels: Qrels, *, unjudged: float = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
    """Join a run with judgements into the scores, labels and qid that `rankwright.evaluate` takes.

    As in trec_eval, the queries are those in both files, and a negative label counts as 0. Relevant
    documents that the run did not retrieve belong to the ideal ranking, so they are appended to
    their query, all with the same score below the others. If the run retrieved at least as many documents
    per query as a metric's cutoff, the metric has trec_eval's value up to ties in the scores; otherwise
    the appended documents count as the last of the ranking.

    Parameters
    ----------
    run
        Retrieved documents.
    qrels
        Relevance judgements.
    unjudged
        Label of retrieved documents that have no judgement; NaN leaves it missing.

    Examples
    --------
    >>> run = TrecRun(["q1", "q1"], ["d1", "d2"], [5.0, 4.0], "bm25")
    >>> scores, labels, qid = align(run, Qrels(["q1", "q1"], ["d2", "d3"], [1, 2]))
    >>> labels.tolist(), bool(scores[2] < 4), qid.tolist()
    ([0.0, 1.0, 2.0], True, ['q1', 'q1', 'q1'])
    """
    # NaN equals nothing, itself included.
    if unjudged == unjudged:
        checks.number("unjudged", unjudged, least=0)
    # As in trec_eval, a negative label is not relevant.
    judged: dict[str, dict[str, int]] = {}
    for qid, docno, label in zip(qrels.qid, qrels.docno, qrels.label.tolist(), strict=True):
        judged.setdefault(qid, {})[docno] = max(label, 0)
    lowest: dict[str, float] = {}
    scores, labels, qids = [], [], []
    for qid, docno, score in zip(run.qid, run.docno, run.score.tolist(), strict=True):
        if qid in judged:
            # Documents that were not retrieved come below all that were.
            lowest[qid] = min(score, lowest.get(qid, score))
            scores.append(score)
            labels.append(judged[qid].pop(docno, unjudged))
            qids.append(qid)
    if not qids:
        raise ValueError(
            f"no query of the run {run.tag!r} is judged: it has {_some(run.qid)} and the "
            f"judgements have {_some(qrels.qid)}. Check that both use the same query ids."
        )
    for qid, lowest_score in lowest.items():
        # The documents that are left in `judged` were not retrieved.
        for label in judged[qid].values():
            if label > 0:
                scores.append(np.nextafter(lowest_score, -np.inf))
                labels.append(label)
                qids.append(qid)
    return np.array(scores), np.array(labels, dtype=np.float64), text_array(qids)


def _read_lines(path: PathLike, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and words of each non-empty line; raise ValueError for a second line about a document."""
    # Ids may hold any letters, but the file must be UTF-8.
    try:
        text = read_text(path).decode()
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise _bad_line(path, number, "expected text in UTF-8") from None
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != len(form.split()):
            raise _bad_line(path, number, f"expected {form!r}, got {_excerpt(line)!r}")
        # A second judgement or score of a document would silently replace the first.
        first = seen.setdefault((words[0], words[2]), number)
        if first != number:
            document, query = _excerpt(words[2]), _excerpt(words[0])
            raise _bad_line(
                path,
                number,
                f"document {document!r} of query {query!r} is already on line {first}; keep one "
                "of them",
            )
        yield number, words
    if not seen:
        raise ValueError(f"{path} is empty; expected lines of the form {form!r}.")


def _excerpt(text: str) -> str:
    if len(text) <= 60:
        return text
    return text[:60] + "..."


def _bad_line(path: PathLike, number: int, reason: str) -> ValueError:
    return ValueError(f"{path}, line {number}: {reason}.")


def _set_pairs(record: Qrels | TrecRun, values: str) -> None:
    """Check the ids of a record and store them as arrays."""
    # Ids with blanks could be written, but not read back.
    qids = [_check_word("query id", qid) for qid in record.qid]
    docnos = [_check_word("document id", docno) for docno in record.docno]
    n_values = len(getattr(record, values))
    if not len(qids) == len(docnos) == n_values:
        raise ValueError(
            f"qid, docno and {values} must have the same length; got {len(qids)}, {len(docnos)} "
            f"and {n_values}."
        )
    if len(set(zip(qids, docnos, strict=True))) < len(qids):
        raise ValueError("a document occurs twice for a query; keep one of them.")
    object.__setattr__(record, "qid", text_array(qids))
    # In an array of fixed width, each document id would take the memory of the longest id.
    object.__setattr__(record, "docno", np.array(docnos, dtype=object))


def _check_word(what: str, word: Any) -> str:
    text = str(word)
    if len(text.split()) != 1 or text != text.strip():
        raise ValueError(
            f"{what} {text!r} is empty or contains whitespace, which TREC files cannot hold; "
            "rename it."
        )
    return text


def _some(qids: Sequence[str] | NDArray[Any]) -> str:
    return ", ".join(list(dict.fromkeys(qids))[:3]) + ", ..."
