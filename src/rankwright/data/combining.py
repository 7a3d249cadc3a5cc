"""Combine the results of several retrievers, such as BM25 and vector search, into rows to learn from.

A row is a document that at least one retriever returned for a query. For a retriever ``bm25`` it has

    bm25                    the score; missing if the retriever did not return the document
    bm25_rank               1 for the best document; equal scores share the mean of their ranks
    bm25_reciprocal_rank    1 / (60 + rank)
    bm25_found              1 if the retriever returned the document, 0 if not

The rank of a document that was not returned is the length of the retriever's list for the query plus 1. If the
retriever returned nothing for the query, it is the number of the query's documents plus 1, so that no document seems
to be its best. All values depend on the query's own lists alone, so they are the same in training and in serving.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import Columns, HasColumns, Levels, encode
from rankwright.data.dataset import RankingData
from rankwright.data.queries import is_missing, text_array
from rankwright.data.search_engines.judgments import Judgments, read_judgments
from rankwright.data.trec import Qrels, TrecRun, read_trec_run
from rankwright.data.within_query import RRF_OFFSET, ranks_of_columns
from rankwright.support import checks
from rankwright.support.frames import as_frame

Floats = NDArray[np.float64]
# Values of the documents of each query, by ids as text.
ByQuery = dict[str, dict[str, float]]

_KEYS = ("qid", "docid")
_PARTS = ("", "_rank", "_reciprocal_rank", "_found")  # endings of the columns of a retriever


def combine(
    runs: Mapping[str, Any],
    judgments: Any = None,
    features: Any = None,
    *,
    unjudged: float = 0,
    reference: HasColumns | None = None,
) -> RankingData:
    """Combine the results of several retrievers into `RankingData`, to learn a ranking from all of them.

    A row is a document that at least one retriever returned for a query. For a retriever named ``bm25`` it has the
    columns ``bm25`` (the score, missing if the retriever did not return the document), ``bm25_rank``,
    ``bm25_reciprocal_rank`` (1 / (60 + rank)) and ``bm25_found`` (1 or 0). Documents with equal scores share the mean
    of their ranks. A document that was not returned has the rank after the end of the retriever's list for the query;
    if that list is empty, the rank after all documents of the query.

    Ids are compared as text. Document ids become the field ``"docid"``. The rows of a query are sorted by them.

    Parameters
    ----------
    runs
        Results by the name of the retriever: the path of a TREC run file, a `rankwright.data.trec.TrecRun`, a dict
        ``{query: {document: score}}``, or a data frame with the columns ``qid``, ``docid`` and ``score``.
    judgments
        Labels: the path of a judgment list (see `read_judgments`), a `rankwright.data.trec.Qrels`, a dict
        ``{query: {document: label}}``, or a data frame with the columns ``qid``, ``docid`` and ``label``. As in
        trec_eval, only queries with judgments are kept, and a negative label counts as 0. Without judgments all queries
        are kept, and there are no labels.
    features
        More columns: a data frame, or the path of a Parquet or CSV file, with the column ``docid`` (features of
        documents), ``qid`` (features of queries) or both; or a list of such tables. Documents and queries that it does
        not have get missing values.
    unjudged
        Label of the documents without a judgment; NaN leaves it missing.
    reference
        Training data, or a model's ``columns_``, if ``features`` has categories: this data gets the same codes.

    Returns
    -------
    RankingData
        To train on, to split by query, or to score. Relevant documents that no retriever returned are not rows.

    Examples
    --------
    >>> bm25 = {"q1": {"a": 7.5, "b": 3.0}}
    >>> dense = {"q1": {"b": 0.9, "c": 0.4}}
    >>> data = combine({"bm25": bm25, "dense": dense}, judgments={"q1": {"b": 2, "d": 1}})
    >>> data.fields["docid"].tolist(), data.y.tolist()
    (['a', 'b', 'c'], [0.0, 2.0, 0.0])
    >>> data.feature_names[:4]
    ['bm25', 'bm25_rank', 'bm25_reciprocal_rank', 'bm25_found']
    >>> data.X[:, :2].tolist()
    [[7.5, 1.0], [3.0, 2.0], [nan, 3.0]]
    """
    # NaN equals nothing, itself included.
    if unjudged == unjudged:
        checks.number("unjudged", unjudged, least=0)
    if not isinstance(runs, Mapping) or not runs:
        raise checks.ArgumentError(
            "runs", "must be a dict of at least one retriever's results by its name."
        )
    names = _column_names([str(name) for name in runs])
    scores = {
        str(name): _by_query(run, f"run {str(name)!r}", "score") for name, run in runs.items()
    }
    labels = None
    if judgments is not None:
        labels = _labels(judgments)
    documents = _documents(scores, labels)
    qids = [qid for qid, docids in documents.items() for _ in docids]
    docids = [docid for docids in documents.values() for docid in docids]
    boundaries = np.cumsum([0, *map(len, documents.values())])
    matrix = _retriever_columns(scores, qids, docids, boundaries)
    levels: Levels = {}
    for table in _tables(features):
        more, new_names, new_levels = _joined(table, qids, docids, names, reference)
        matrix = np.column_stack([matrix, more])
        names += new_names
        levels |= new_levels
    y = np.zeros(len(qids))
    if labels is not None:
        pairs = zip(qids, docids, strict=True)
        y = np.array([labels[qid].get(docid, unjudged) for qid, docid in pairs])
    fields = {"docid": np.array(docids, dtype=object)}
    data = RankingData(matrix, y, qid=text_array(qids), feature_names=names, fields=fields)
    data.categories = levels
    if labels is None:
        data.label_names = ()
    return data


def _column_names(retrievers: Sequence[str]) -> list[str]:
    """Return the names of all columns of the retrievers; raise ArgumentError if two are equal."""
    names = [f"{retriever}{part}" for retriever in retrievers for part in _PARTS]
    for name in names:
        if names.count(name) > 1:
            raise checks.ArgumentError(
                "runs", f"would have two columns {name!r}; rename one of the retrievers."
            )
    return names


def _documents(scores: Mapping[str, ByQuery], labels: ByQuery | None) -> dict[str, list[str]]:
    """Return the documents that any retriever returned, sorted, by query; with labels only of judged queries."""
    found: dict[str, set[str]] = {}
    for run in scores.values():
        for qid, documents in run.items():
            if documents and (labels is None or qid in labels):
                found.setdefault(qid, set()).update(documents)
    if found:
        return {qid: sorted(found[qid]) for qid in sorted(found)}
    # Ids of different systems often differ in form, for example 7 and q7.
    retrieved = list(dict.fromkeys(qid for run in scores.values() for qid in run))
    if labels is None or not retrieved:
        raise checks.ArgumentError("runs", "must have documents; no retriever returned any.")
    raise checks.ArgumentError(
        "judgments",
        f"must use the query ids of the runs: no query of the runs is judged. The runs have {_some(retrieved)} "
        f"and the judgments have {_some(list(labels))}.",
    )


def _retriever_columns(
    scores: Mapping[str, ByQuery],
    qids: Sequence[str],
    docids: Sequence[str],
    boundaries: NDArray[np.int64],
) -> Floats:
    """Return score, rank, reciprocal rank and presence for each retriever [rows, 4 retrievers]."""
    pairs = list(zip(qids, docids, strict=True))
    lists = [
        [run.get(qid, {}).get(docid, np.nan) for qid, docid in pairs] for run in scores.values()
    ]
    matrix = np.array(lists, dtype=np.float64).T
    is_found = ~np.isnan(matrix)
    sizes = np.diff(boundaries)
    n_found = np.add.reduceat(is_found, boundaries[:-1], axis=0, dtype=np.int64)
    # After the end of the list, or of all documents if the list is empty.
    last = np.where(n_found > 0, n_found, sizes[:, None]) + 1
    ranks = ranks_of_columns(matrix, boundaries)
    ranks = np.where(is_found, ranks, np.repeat(last, sizes, axis=0))
    parts = [matrix, ranks, 1 / (RRF_OFFSET + ranks), is_found]
    return np.stack(parts, axis=2).reshape(len(qids), -1)


def _labels(judgments: Any) -> ByQuery:
    """Return the labels of judged documents by query; raise ArgumentError if there are none."""
    found = _by_query(judgments, "judgments", "label")
    # As in trec_eval, a negative label is not relevant.
    labels = {
        qid: {docid: max(label, 0.0) for docid, label in documents.items()}
        for qid, documents in found.items()
        if documents
    }
    if not labels:
        raise checks.ArgumentError("judgments", "must have a judged document; there is none.")
    return labels


def _by_query(source: Any, called: str, value: str) -> ByQuery:
    """Return scores or labels in any of their forms by query and document; ``value`` names the column of a frame."""
    found: ByQuery = {}
    for qid, docid, number in _triples(source, called, value):
        query, document = _id_text(qid, "query", called), _id_text(docid, "document", called)
        documents = found.setdefault(query, {})
        # One of two different scores of a document would silently win.
        if document in documents:
            raise ValueError(
                f"{called}: document {document!r} occurs twice for query {query!r}; keep one of them."
            )
        documents[document] = _number(
            number, f"{called}: the {value} of {document!r} for {query!r}"
        )
    return found


def _triples(source: Any, called: str, value: str) -> list[tuple[Any, Any, Any]]:
    """Return query, document and number of each entry."""
    if isinstance(source, str | os.PathLike):
        source = read_trec_run(source) if value == "score" else read_judgments(source)
    if isinstance(source, Judgments):
        return [(*key, rating) for key, rating in source.by_document().items()]
    if isinstance(source, TrecRun | Qrels):
        numbers = getattr(source, value).tolist()
        return list(zip(source.qid.tolist(), source.docno.tolist(), numbers, strict=True))
    if isinstance(source, Mapping):
        for qid, documents in source.items():
            if not isinstance(documents, Mapping):
                raise ValueError(
                    f"{called}: query {qid!r} has a {type(documents).__name__}; give a dict "
                    f"{{query: {{document: {value}}}}}."
                )
        return [
            (qid, docid, number)
            for qid, documents in source.items()
            for docid, number in documents.items()
        ]
    frame = as_frame(source)
    columns = (*_KEYS, value)
    if frame is None or not set(columns) <= set(frame.columns):
        raise ValueError(
            f"{called} must be a TREC file, a dict {{query: {{document: {value}}}}} or a data frame "
            f"with the columns {', '.join(columns)}; got {_described(source)}."
        )
    return list(zip(*(frame[name].to_list() for name in columns), strict=True))


def _described(source: Any) -> str:
    frame = as_frame(source)
    if frame is None:
        return f"a {type(source).__name__}"
    return f"one with {', '.join(map(str, frame.columns))}"


def _id_text(value: Any, what: str, called: str) -> str:
    """Return an id as text: 7 and 7.0 are the same id, because missing values turn whole numbers into floats."""
    if is_missing(value) or value == "":
        raise ValueError(f"{called}: a {what} id is missing; give every row an id.")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _number(value: Any, called: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{called} must be a finite number; got {value!r}.")
    return number


def _tables(features: Any) -> list[Any]:
    """Return the tables of features as Narwhals frames."""
    if features is None:
        return []
    given = features if isinstance(features, list | tuple) else [features]
    frames = []
    for table in given:
        if isinstance(table, str | os.PathLike):
            from rankwright.data.reading import read_table

            # Ids of a CSV file stay text, so that 007 is not 7.
            table = read_table(table, texts=_KEYS)
        frame = as_frame(table)
        if frame is None or not set(_KEYS) & set(frame.columns):
            raise checks.ArgumentError(
                "features",
                "must be a data frame, or a Parquet or CSV file, with a column docid or qid; got "
                f"{_described(table)}.",
            )
        frames.append(frame)
    return frames


def _joined(
    frame: Any,
    qids: Sequence[str],
    docids: Sequence[str],
    names: Sequence[str],
    reference: HasColumns | None,
) -> tuple[Floats, list[str], Levels]:
    """Return the features of each row, missing if the table does not have its document or query."""
    keys = [key for key in _KEYS if key in frame.columns]
    columns = [name for name in frame.columns if name not in keys]
    taken = sorted(set(columns) & set(names))
    if taken or not columns:
        reason = "must have columns beside the ids."
        if taken:
            reason = f"would add a second column {taken[0]!r}; rename it."
        raise checks.ArgumentError("features", reason)
    row_of: dict[tuple[str, ...], int] = {}
    for row, ids in enumerate(zip(*(frame[key].to_list() for key in keys), strict=True)):
        key = tuple(_id_text(value, "document or query", "features") for value in ids)
        if key in row_of:
            raise checks.ArgumentError(
                "features", f"has two rows for {' of '.join(key)!r}; keep one of them."
            )
        row_of[key] = row
    wanted = {"qid": qids, "docid": docids}
    rows = [row_of.get(key, -1) for key in zip(*(wanted[key] for key in keys), strict=True)]
    # Ids of another form would silently give missing values only.
    if max(rows) < 0:
        raise checks.ArgumentError(
            "features",
            f"must use the ids of the runs: none of {_some([' '.join(key) for key in row_of])} is in them.",
        )
    expected = None
    if reference is not None:
        levels = {
            name: reference.categories[name] for name in columns if name in reference.categories
        }
        expected = Columns(columns, levels)
    values, columns, levels = encode(frame.select(columns).to_native(), reference=expected)
    # The last row stands for ids that the table does not have.
    padded = np.vstack([values, np.full(len(columns), np.nan)])
    return padded[rows], columns, levels


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + ", ..."
