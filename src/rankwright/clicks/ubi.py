"""User Behavior Insights (UBI) 1.3: queries and events as a click log.

The schema (github.com/o19s/ubi, ``schema/1.3.0``): a query has ``query_id``, ``user_query`` and
``query_response_hit_ids``, the ids of its hits in order. An event has ``action_name``, ``query_id`` and
``event_attributes.object.object_id``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from rankwright.clicks.log import ClickLog
from rankwright.data.search_engines.json_text import identifier, member, place, read_json
from rankwright.support.files import PathLike

_CLICKS = ("click", "click_through")


def read_ubi(queries: PathLike, events: PathLike, *, actions: Sequence[str] = _CLICKS) -> ClickLog:
    """Read queries and events of User Behavior Insights 1.3 as a click log.

    Every hit of a query counts as shown, at its place among the hits. Queries without hits, and events of other
    actions, are left out. Clicks on other documents are left out too, with a warning that counts them.

    Parameters
    ----------
    queries, events
        JSON lines or a JSON list of the records, as they are in the indices ``ubi_queries`` and ``ubi_events``, or the
        hits of a search of them.
    actions
        Names of the actions that are clicks.

    Returns
    -------
    ClickLog
        The query is the user's text, and the session is the query's id.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queries, events = (pathlib.Path(folder, name) for name in ("queries.json", "events.json"))
    ...     _ = queries.write_text('{"query_id": "1", "user_query": "shoes", "query_response_hit_ids": ["a", "b"]}')
    ...     _ = events.write_text('{"action_name": "click", "query_id": "1", "timestamp": "2026-05-01T10:00:00Z",'
    ...                           ' "event_attributes": {"object": {"object_id": "b"}}}')
    ...     log = read_ubi(queries, events)
    >>> log.query.tolist(), log.document.tolist(), log.click.tolist()
    (['shoes', 'shoes'], ['a', 'b'], [False, True])
    """
    rows: list[tuple[str, str, int, str]] = []
    row_of: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for where, record in _records(queries):
        with place(where):
            query_id = identifier(member(record, "query_id", str, "text"), "query_id")
            if query_id in seen:
                raise ValueError(f"query {query_id!r} is there twice; keep one.")
            seen.add(query_id)
            hits = record.get("query_response_hit_ids") or []
            # A query that found nothing needs no text.
            text = member(record, "user_query", str, "the user's text") if hits else ""
            if not isinstance(hits, list):
                raise ValueError("'query_response_hit_ids' must be a list of ids.")
            for position, hit in enumerate(hits, start=1):
                document = identifier(hit, "query_response_hit_ids")
                if (query_id, document) in row_of:
                    raise ValueError(f"document {document!r} is among the hits twice.")
                row_of[query_id, document] = len(row_of)
                rows.append((text, document, position, query_id))
    if not row_of:
        raise ValueError(f"{queries} has no query with hits; log query_response_hit_ids.")
    clicks = [0] * len(row_of)
    n_unknown = 0
    for key in _clicked(events, set(actions)):
        if key in row_of:
            clicks[row_of[key]] = 1
        else:
            n_unknown += 1
    if n_unknown:
        warnings.warn(
            f"{n_unknown} clicks in {events} are of no hit of the queries in {queries}; they are "
            "left out.",
            stacklevel=2,
        )
    texts, documents, positions, sessions = map(list, zip(*rows, strict=True))
    return ClickLog.of(texts, documents, positions, clicks, sessions)


def _clicked(events: PathLike, actions: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the query and the document of each click."""
    for where, record in _records(events):
        with place(where):
            if member(record, "action_name", str, "text") not in actions:
                continue
            query = identifier(member(record, "query_id", str, "text"), "query_id")
            attributes = member(record, "event_attributes", dict, "an object")
            clicked = member(attributes, "object", dict, "an object with the key 'object_id'")
            yield query, identifier(clicked.get("object_id"), "object_id")


def _records(path: PathLike) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file; hits of a search hold them in ``_source``."""
    for where, value in read_json(path):
        if isinstance(value, dict) and "hits" in value:
            with place(where):
                found = member(value, "hits", dict, "an object with the key 'hits'")
                hits = member(found, "hits", list, "a list of hits")
                records = [member(hit, "_source", dict, "a record") for hit in hits]
            for number, record in enumerate(records, start=1):
                yield f"{where}, hit {number}", record
        elif isinstance(value, dict) and "_source" in value:
            yield where, value["_source"]
        else:
            yield where, value
