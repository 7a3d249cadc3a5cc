"""Names of documents, for TREC runs and for predictions."""

from __future__ import annotations

from typing import Any

from rankwright.data.dataset import RankingData


def document_names(data: RankingData) -> list[str]:
    """Name the documents, in the order of the data's rows, by the field ``"docid"``.

    A row without a document id is named by query and row, for example ``q7-1``. The name does not
    depend on the order of the queries in the file.

    Examples
    --------
    >>> document_names(RankingData([[1], [2], [3]], [0, 1, 0], qid=["b", "a", "b"]))
    ['a-1', 'b-1', 'b-2']
    >>> document_names(RankingData([[1], [2]], [0, 1], qid=["b", "b"], fields={"docid": ["x", ""]}))
    ['x', 'b-2']
    """
    names = numbered_names(data)
    if "docid" not in data.fields:
        return names
    # The same id may occur in several queries, but only once in each.
    seen: set[tuple[Any, str]] = set()
    for row, (qid, docid) in enumerate(
        zip(data.qid.tolist(), data.fields["docid"].tolist(), strict=True)
    ):
        # An empty id, for example of a LETOR line without comment, leaves the number.
        names[row] = str(docid) or names[row]
        if (qid, names[row]) in seen:
            raise ValueError(
                f"query {qid!r} has two documents with the id {names[row]!r}; give each its own id."
            )
        seen.add((qid, names[row]))
    return names


def numbered_names(data: RankingData) -> list[str]:
    """Name the documents by query and row, whatever ids they have."""
    names = []
    for qid, size in zip(data.query_ids.tolist(), data.group.tolist(), strict=True):
        names += [f"{qid}-{number}" for number in range(1, size + 1)]
    return names
