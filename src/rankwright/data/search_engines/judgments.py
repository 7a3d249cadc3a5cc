"""Judgment lists: a rating for each judged document of a query.

Formats:

- Quepid, CSV (its source, ``export/ratings_controller.rb``): the columns query, docid and rating. A query without
  ratings has a row of its own, and text that starts with a sign of a formula gets a blank before it.
- OpenSearch Search Relevance Workbench, JSON (its documentation, "Judgments"): ``judgmentRatings``, a list of queries
  with their ratings; the body that imports a list, or the answer that shows it.
- ``_rank_eval`` of OpenSearch and Elasticsearch, JSON (their documentation, "Ranking evaluation"): ``requests`` with an
  id and ratings.
- TREC qrels, text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.search_engines.json_text import (
    identifier,
    member,
    number,
    place,
    read_json,
    shown,
    text_of_file,
)
from rankwright.data.trec import read_qrels
from rankwright.support.checks import ArgumentError
from rankwright.support.files import PathLike

_COLUMNS = ["query", "docid", "rating"]
_FORMULA = "-=+@"  # signs before which Quepid writes a blank
_Row = tuple[str, str, float]


@dataclass(frozen=True, eq=False)
class Judgments:
    """Ratings of documents for queries.

    Parameters
    ----------
    qid, docid
        Query and document, as text [ratings].
    rating
        Numbers from 0 [ratings].

    Examples
    --------
    >>> judged = Judgments(np.array(["a", "a"]), np.array(["x", "y"]), np.array([2.0, 0.5]))
    >>> judged.by_document()[("a", "y")]
    0.5
    """

    qid: NDArray[Any]
    docid: NDArray[Any]
    rating: NDArray[np.float64]

    def by_document(self) -> dict[tuple[str, str], float]:
        """Return the ratings by query and document."""
        keys = zip(self.qid.tolist(), self.docid.tolist(), strict=True)
        return dict(zip(keys, self.rating.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.rating)


def read_judgments(path: PathLike) -> Judgments:
    r"""Read a judgment list: CSV of Quepid, JSON of OpenSearch or Elasticsearch, or TREC qrels.

    A name that ends in ``.csv`` or ``.json`` (or these with ``.gz``) gives the format; other files are qrels, whose
    negative labels count as 0. Rows without a rating are left out, because they are no judgments.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ratings.csv")
    ...     _ = path.write_text("query,docid,rating\nred shoes,17,3\nred shoes,23,\n")
    ...     read_judgments(path).by_document()
    {('red shoes', '17'): 3.0}
    """
    name = str(path).removesuffix(".gz")
    if name.endswith(".csv"):
        rows = _quepid(path)
    elif name.endswith(".json"):
        rows = _json(path)
    else:
        qrels = read_qrels(path)
        labels = np.maximum(qrels.label, 0).tolist()
        rows = zip(qrels.qid.tolist(), qrels.docno.tolist(), labels, strict=True)
    ratings: dict[tuple[str, str], float] = {}
    for query, document, rating in rows:
        # Two ratings of different people cannot both be the label.
        if (query, document) in ratings:
            raise ValueError(
                f"{path}: document {document!r} of query {query!r} is rated twice; keep one rating."
            )
        if not rating >= 0:
            raise ValueError(
                f"{path}: document {document!r} of query {query!r} has the rating {rating:g}; "
                "ratings must be numbers from 0."
            )
        ratings[query, document] = rating
    if not ratings:
        raise ValueError(f"{path} has no ratings.")
    qid, docid = zip(*ratings, strict=True)
    return Judgments(
        np.array(qid, dtype=object),
        np.array(docid, dtype=object),
        np.array(list(ratings.values()), dtype=np.float64),
    )


def _quepid(path: PathLike) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text_of_file(path), newline=""), strict=True)
    try:
        header = next(reader, [])
        if header != _COLUMNS:
            raise ArgumentError(
                "judgments",
                "must be a CSV of Quepid with the columns query, docid and rating.",
                problem=f"{path} has the columns {', '.join(map(repr, header[:6]))};",
            )
        for row in reader:
            if len(row) != len(_COLUMNS):
                raise ValueError(
                    f"{path}, line {reader.line_num} must have 3 values, not {len(row)}."
                )
            query, document, rating = row
            if query[:1] == " " and query[1:2] in _FORMULA:
                query = query[1:]
            with place(f"{path}, line {reader.line_num}"):
                if rating:
                    yield identifier(query, "query"), identifier(document, "docid"), _rating(rating)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num} is not CSV: {error}.") from None


def _json(path: PathLike) -> Iterator[_Row]:
    values = read_json(path)
    if len(values) != 1:
        raise ValueError(f"{path} must hold one judgment list; it has {len(values)} values.")
    where, value = values[0]
    with place(where):
        if isinstance(value, dict) and "hits" in value:
            found = member(value, "hits", dict, "an object with the key 'hits'")
            hits = member(found, "hits", list, "a list of hits")
            if len(hits) != 1:
                raise ValueError(f"expected one judgment list; the answer has {len(hits)}.")
            value = member(hits[0], "_source", dict, "a judgment list")
        if isinstance(value, dict) and "requests" in value:
            yield from _requests(value)
        else:
            yield from _workbench(value)


def _workbench(value: Any) -> Iterator[_Row]:
    lists = member(value, "judgmentRatings", list, "a list of queries with ratings")
    for item in lists:
        query = identifier(member(item, "query", (str, int), "a query"), "query")
        for rating in member(item, "ratings", list, "a list of ratings"):
            document = member(rating, "docId", (str, int), "a document's id")
            value = member(rating, "rating", (str, int, float), "a number")
            yield query, identifier(document, "docId"), _rating(value)


def _requests(value: Any) -> Iterator[_Row]:
    for item in member(value, "requests", list, "a list of requests with ratings"):
        query = identifier(member(item, "id", (str, int), "the request's id"), "id")
        for rating in member(item, "ratings", list, "a list of ratings"):
            document = member(rating, "_id", (str, int), "a document's id")
            value = member(rating, "rating", (int, float), "a number")
            yield query, identifier(document, "_id"), _rating(value)


def _rating(value: Any) -> float:
    """Read a rating; the workbench writes numbers as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"a rating must be a number; got {shown(value)}.") from None
    return number(value, "rating")
