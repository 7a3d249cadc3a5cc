"""Files of search engines as examples, and how they are used: no hit and no rating may be lost in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.data.columns import Columns
from rankwright.serve.refusals import Refusal
from rankwright.serve.requests import ColumnTable, parse_query

_ENTRIES = [{"name": "title", "value": 2.5}, {"name": "body"}]
_PLUGIN = {"_id": "17", "_score": 1.5, "fields": {"_ltrlog": [{"main": _ENTRIES}]}}
_SOLR = {"id": "17", "[features]": "title=2.5,body=-1.0E-4"}
_VESPA = {"documentid": "id:s:p::17", "matchfeatures": {"title": 2.5, "body": None}}
_SUMMARY = {"title": 2.5, "rankingExpression(body)": 1, "vespa.summaryFeatures.cached": 0.0}


def _plugin(*ids: str) -> dict[str, Any]:
    return {"timed_out": False, "hits": {"hits": [{**_PLUGIN, "_id": name} for name in ids]}}


def _vespa(*ids: str) -> dict[str, Any]:
    fields = [{**_VESPA, "documentid": name} for name in ids]
    fields.append({"documentid": "z", "summaryfeatures": _SUMMARY})
    return {"root": {"children": [{"relevance": 0.5, "fields": values} for values in fields]}}


_LOGS: dict[str, Any] = {
    "plugin": _plugin("17", "a,b", "ü"),
    "solr": {"response": {"docs": [_SOLR, {**_SOLR, "id": "a", "[features]": "title=1.0"}]}},
    "solr csv": 'id,[features]\n17,"title=2.5,body=1.0"\na,title=0.5\n',
    "vespa": _vespa("x", "y"),
}
_RATINGS: dict[str, str] = {
    "quepid.csv": 'query,docid,rating\nred shoes,17,3\n -x,"a,b",0.5\nnone,,\n',
    "workbench.json": json.dumps(
        {"judgmentRatings": [{"query": "q", "ratings": [{"docId": "a", "rating": "3.000"}]}]}
    ),
    "rank_eval.json": json.dumps(
        {"requests": [{"id": "q", "ratings": [{"_index": "i", "_id": "a", "rating": 2}]}]}
    ),
}
_UBI_QUERIES = "\n".join(
    json.dumps({"query_id": name, "user_query": "hat", "query_response_hit_ids": ["a", "b"]})
    for name in "12"
)
_UBI_EVENTS = "\n".join(
    json.dumps(
        {
            "action_name": "click",
            "query_id": "1",
            "event_attributes": {"object": {"object_id": name}},
        }
    )
    for name in "ab"
)


Example = tuple[bytes, Callable[[bytes], object], bool]  # as in `readers.Reader`


def engine_files() -> dict[str, Callable[[Path], Example]]:
    """An example of each file, and its use, by the name of its reader."""
    return {
        **{f"log/{name}": lambda folder, name=name: _log(folder, name) for name in _LOGS},
        **{
            f"ratings/{name}": lambda folder, name=name: _ratings(folder, name) for name in _RATINGS
        },
        "ubi/queries": lambda folder: _insights(folder, "queries"),
        "ubi/events": lambda folder: _insights(folder, "events"),
        "hits": _hits,
    }


def _log(folder: Path, name: str) -> Example:
    path = folder / "log.ndjson"
    lines = [{"query": query, "response": _LOGS[name]} for query in ("red shoes", "hat")]

    def use(content: bytes) -> None:
        path.write_bytes(content)
        data = rw.read_feature_log(path)
        # Every id in the text of the file, which the changes leave readable as JSON, has its row.
        found = [_hits_in(item["response"]) for item in _values(content)]
        if data.n_rows != sum(found):
            raise AssertionError(f"{data.n_rows} rows of {sum(found)} hits")
        if np.isinf(data.X).any():
            raise AssertionError("features that are infinite")

    return "\n".join(map(json.dumps, lines)).encode(), use, True


def _values(content: bytes) -> list[Any]:
    text = content.decode("utf-8-sig")
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return whole if isinstance(whole, list) else [whole]


def _hits_in(response: Any) -> int:
    """Count the hits of a response in the simplest way."""
    if isinstance(response, str):
        return len([line for line in re.split(r"\r\n|\r|\n", response) if line]) - 1
    if "responses" in response:
        return sum(_hits_in(part) for part in response["responses"])
    if "hits" in response:
        return len(response["hits"]["hits"])
    if "response" in response:
        return len(response["response"]["docs"])
    return len(response["root"].get("children", []))


def _ratings(folder: Path, name: str) -> Example:
    path = folder / name

    def use(content: bytes) -> None:
        path.write_bytes(content)
        judgments = rw.read_judgments(path)
        if not (np.isfinite(judgments.rating).all() and (judgments.rating >= 0).all()):
            raise AssertionError("ratings that are no ratings")
        if name == "workbench.json" and "judgmentRatings" in _values(content)[0]:
            n = sum(len(query["ratings"]) for query in _values(content)[0]["judgmentRatings"])
            if n != len(judgments):
                raise AssertionError(f"{len(judgments)} of {n} ratings")

    return _RATINGS[name].encode(), use, name.endswith(".json")


def _insights(folder: Path, part: str) -> Example:
    paths = {"queries": folder / "queries.json", "events": folder / "events.json"}
    examples = {"queries": _UBI_QUERIES.encode(), "events": _UBI_EVENTS.encode()}

    def use(content: bytes) -> None:
        for name, path in paths.items():
            path.write_bytes(content if name == part else examples[name])
        log = rw.read_ubi(paths["queries"], paths["events"])
        if part == "events" and log.n_rows != 4:
            raise AssertionError(f"{log.n_rows} of 4 hits")

    return examples[part], use, True


def _hits(folder: Path) -> Example:
    """A request to the service with the hits of an engine."""
    table = ColumnTable(Columns(["title", "body"], {}))
    hits = [_PLUGIN, _SOLR, {"id": "z", "fields": _VESPA}]
    for number, hit in enumerate(hits):
        hits[number] = json.loads(json.dumps(hit).replace('"17"', f'"{number}"'))

    def use(content: bytes) -> None:
        try:
            query = parse_query(content, table, 10)
        except Refusal as refusal:
            raise ValueError(refusal.reason) from None
        if len(query.ids) != len(query.matrix) or np.isinf(query.matrix).any():
            raise AssertionError("a request that is none")

    return json.dumps({"hits": hits, "top": 2, "scores": True}).encode(), use, True
