"""Names of documents, for runs in TREC form and for predictions."""

from __future__ import annotations

from typing import Any

from rankwright.data.dataset import RankingData


def document_names(data: RankingData) -> list[str]:
    """Name the documents, in the order of the data's rows, by the field ``"docid"``.

    A row without one is named by query and row, ``qid-1``, ``qid-2``, ..., which does not depend on the order of the
    queries in the file.

    Examples
    --------
    >>> document_names(RankingData([[1], [2], [3]], [0, 1, 0], qid=["b", "a", "b"]))
    ['a-1', 'b-1', 'b-2']
    >>> document_names(RankingData([[1], [2]], [0, 1], qid=["b", "b"], fields={"docid": ["x", ""]}))
    ['x', 'b-2']
    """
    numbered = numbered_names(data)
    if "docid" not in data.fields:
        return numbered
    names = [
        str(docid) or number
        for docid, number in zip(data.fields["docid"].tolist(), numbered, strict=True)
    ]
    seen: set[tuple[Any, str]] = set()
    for pair in zip(data.qid.tolist(), names, strict=True):
        if pair in seen:
            raise ValueError(
                f"query {pair[0]!r} has two documents with the id {pair[1]!r}; give each its own id."
            )
        seen.add(pair)
    return names


def numbered_names(data: RankingData) -> list[str]:
    """Name the documents by query and row, whatever ids they have."""
    return [
        f"{qid}-{number}"
        for qid, size in zip(data.query_ids.tolist(), data.group.tolist(), strict=True)
        for number in range(1, size + 1)
    ]
