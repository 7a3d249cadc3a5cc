"""Logged features of a search engine as ranking data, with labels from a judgment list."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.search_engines.hits import Hit, hits_of
from rankwright.data.search_engines.json_text import (
    identifier,
    member,
    place,
    read_json,
    shown,
    text_of_file,
)
from rankwright.data.search_engines.judgments import Judgments, read_judgments
from rankwright.support.checks import ArgumentError
from rankwright.support.files import PathLike

_LOG = logging.getLogger("rankwright")


def read_feature_log(
    path: PathLike,
    *,
    judgments: PathLike | Judgments | None = None,
    queries: PathLike | Sequence[str] | None = None,
) -> RankingData:
    r"""Read search responses with logged features, of OpenSearch, Elasticsearch, Solr or Vespa.

    A file has one response, or a response per line, or a list of them; or it is the answer to a multi-search. A
    response does not say what was searched. So each response stands in an object with its query,
    ``{"query": "red shoes", "response": {...}}``, or ``queries`` names the queries of the responses.

    A feature that an engine logs as not matching is missing. Solr's sparse format leaves out features that are 0, so
    they are 0 here; use its dense format if a feature has another default value.

    Parameters
    ----------
    path
        JSON or JSON lines, or the CSV form of one response of Solr; plain or gzip.
    judgments
        A judgment list, as `read_judgments` reads it. Documents that it does not have are unjudged: their label is
        missing. Without it, all labels are missing.
    queries
        The query of each response, in their order: a text file with a query per line, or a list.

    Returns
    -------
    RankingData
        A row per hit, with the field ``"docid"``. Queries are texts.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> hit = {"_id": "17", "fields": {"_ltrlog": [{"main": [{"name": "title", "value": 2.5}]}]}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.json")
    ...     _ = path.write_text(json.dumps({"hits": {"hits": [hit]}}))
    ...     ratings = pathlib.Path(folder, "ratings.csv")
    ...     _ = ratings.write_text("query,docid,rating\nred shoes,17,3\n")
    ...     data = read_feature_log(path, judgments=ratings, queries=["red shoes"])
    >>> data.feature_names, data.X.tolist(), data.y.tolist(), data.fields["docid"].tolist()
    (['title'], [[2.5]], [3.0], ['17'])
    """
    lists = _lists(path, _query_names(queries))
    columns = _columns(lists, path)
    numbers = {name: column for column, name in enumerate(columns)}
    rows, qid, docid = [], [], []
    for query, hits in lists.items():
        for hit in hits:
            row = np.full(len(columns), 0.0 if hit.sparse else np.nan)
            row[[numbers[name] for name in hit.features]] = list(hit.features.values())
            rows.append(row)
            qid.append(query)
            docid.append(hit.document)
    labels = np.full(len(rows), np.nan)
    if judgments is not None:
        if not isinstance(judgments, Judgments):
            judgments = read_judgments(judgments)
        labels = _labels(qid, docid, judgments, path)
    documents = np.array(docid, dtype=object)
    return RankingData(
        np.array(rows), labels, qid=qid, feature_names=columns, fields={"docid": documents}
    )


def _query_names(queries: PathLike | Sequence[str] | None) -> list[str] | None:
    """Return the names of the queries; None if the responses name them."""
    if queries is None:
        return None
    if isinstance(queries, list | tuple):
        return [identifier(query, "queries") for query in queries]
    # The last line may end without a line break, and an empty line would shift all queries.
    lines = text_of_file(queries).removesuffix("\n").split("\n")  # type: ignore[arg-type]
    names = [line.strip() for line in lines]
    if not all(names):
        raise ValueError(f"{queries}, line {names.index('') + 1} is empty; give a query per line.")
    return names


def _lists(path: PathLike, names: list[str] | None) -> dict[str, list[Hit]]:
    """Return the hits of each query."""
    responses = _responses(path)
    # A query of its own and a query by its place would contradict each other.
    unnamed = [where for where, query, _ in responses if query is None]
    if names is None and unnamed:
        raise ArgumentError(
            "queries",
            "must name the query of each response, one per line.",
            problem=f"{unnamed[0]}: the response does not say what was searched;",
        )
    if names is not None and len(unnamed) != len(responses):
        raise ArgumentError("queries", f"must be left out: {path} names its queries itself.")
    if names is not None and len(names) != len(responses):
        raise ArgumentError(
            "queries",
            f"must name each response: {path} has {len(responses)}, and there are {len(names)} "
            "queries.",
        )
    lists: dict[str, list[Hit]] = {}
    for number, (where, query, response) in enumerate(responses):
        name = query if names is None else names[number]
        assert name is not None
        with place(where):
            # Later pages of a query are further responses, but a document has one row.
            found = lists.setdefault(name, [])
            known = {hit.document for hit in found}
            for hit in hits_of(response):
                if hit.document in known:
                    raise ValueError(
                        f"document {hit.document!r} of query {name!r} is logged twice; keep one."
                    )
                known.add(hit.document)
                found.append(hit)
    return lists


def _responses(path: PathLike) -> list[tuple[str, str | None, Any]]:
    """Return the responses of a file with their places and queries."""
    if str(path).removesuffix(".gz").endswith(".csv"):
        return [(str(path), None, text_of_file(path))]
    responses: list[tuple[str, str | None, Any]] = []
    for where, value in read_json(path):
        query = None
        # Solr's responses have the key "response" too, but no key "query".
        if isinstance(value, dict) and "query" in value:
            unknown = sorted(value.keys() - {"query", "response"})
            with place(where):
                if unknown:
                    raise ValueError(
                        f"the key {shown(unknown[0])} is unknown beside 'query' and 'response'."
                    )
                query = identifier(value["query"], "query")
                value = member(value, "response", (dict, str), "a search response")
        if isinstance(value, dict) and "responses" in value:
            with place(where):
                parts = member(value, "responses", list, "a list of search responses")
            for number, part in enumerate(parts, start=1):
                responses.append((f"{where}, response {number}", query, part))
        else:
            responses.append((where, query, value))
    return responses


def _columns(lists: dict[str, list[Hit]], path: PathLike) -> list[str]:
    """Return the names of the features, in the order of their first hit."""
    names: dict[str, None] = {}
    hits = [(query, hit) for query, of_query in lists.items() for hit in of_query]
    if not hits:
        raise ValueError(f"{path} has no hits; log queries that find documents.")
    for _, hit in hits:
        names.update(dict.fromkeys(hit.features))
    if not names:
        raise ValueError(f"{path} has no features: every log is empty; log a feature set.")
    # Only a sparse log leaves features out, so another set of features is a mistake.
    for query, hit in hits:
        lacking = [name for name in names if name not in hit.features]
        if lacking and not hit.sparse:
            raise ValueError(
                f"{path}: document {hit.document!r} of query {query!r} lacks the feature "
                f"{lacking[0]!r}, which others have; log all documents with the same features."
            )
    return list(names)


def _labels(qid: list[str], docid: list[str], judgments: Judgments, path: PathLike) -> Any:
    """Return the label of each row; NaN if it is not judged."""
    ratings = judgments.by_document()
    rows = list(zip(qid, docid, strict=True))
    labels = np.array([ratings.get(row, np.nan) for row in rows])
    if np.isnan(labels).all():
        query, document = next(iter(ratings))
        raise ArgumentError(
            "judgments",
            f"must be of its documents: it has {docid[0]!r} of query {qid[0]!r}, and the judgments "
            f"have {document!r} of query {query!r}.",
            problem=f"no document of {path} is judged;",
        )
    # A judged document that was not logged is lost for the training, so it is said.
    absent = len(ratings.keys() - set(rows))
    if absent:
        _LOG.warning("%d of %d judged documents are not in %s.", absent, len(ratings), path)
    return labels
