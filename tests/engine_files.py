"""Search responses with logged features, as the engines write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw

NAMES = ["title", "body", "age"]


def logged(n_queries: int = 12, missing: bool = True) -> rw.RankingData:
    """Rows with three features as a search engine logs them, and grades."""
    draw = np.random.default_rng(2)
    qid = np.repeat([f"query {number}" for number in range(n_queries)], 10)
    X = draw.integers(0, 40, (len(qid), 3)) / 4
    if missing:
        X[draw.random(X.shape) < 0.2] = np.nan
    y = np.clip(np.round(np.nan_to_num(X[:, 0]) / 4), 0, 3)
    documents = np.array([f"doc{row}" for row in range(len(qid))], dtype=object)
    return rw.RankingData(X, y, qid=qid, feature_names=NAMES, fields={"docid": documents})


def plugin_hit(document: str, row: Any) -> dict[str, Any]:
    """A hit of the LTR plug-in for OpenSearch and Elasticsearch."""
    entries: list[dict[str, Any]] = []
    for name, value in zip(NAMES, row, strict=True):
        entry = {"name": name}
        entries.append(entry if np.isnan(value) else {**entry, "value": float(value)})
    log = {"_ltrlog": [{"main": entries}]}
    return {"_index": "shop", "_id": document, "_score": 1.0, "fields": log}


def solr_hit(document: str, row: Any, *, dense: bool = True) -> dict[str, Any]:
    """A document of Solr; the sparse form leaves out zeros."""
    parts = [
        f"{name}={'NaN' if np.isnan(value) else float(value)}"
        for name, value in zip(NAMES, row, strict=True)
        if dense or value != 0
    ]
    return {"id": document, "[features]": ",".join(parts)}


def vespa_hit(document: str, row: Any, kind: str = "matchfeatures") -> dict[str, Any]:
    """A hit of Vespa."""
    features: dict[str, Any] = {
        name: None if np.isnan(value) else float(value)
        for name, value in zip(NAMES, row, strict=True)
    }
    if kind == "summaryfeatures":
        features["vespa.summaryFeatures.cached"] = 0.0
    fields = {"documentid": document, kind: features}
    return {"id": "index:shop/0/1", "relevance": 0.5, "source": "shop", "fields": fields}


def plugin_response(hits: list[Any]) -> dict[str, Any]:
    return {
        "took": 3,
        "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "failed": 0},
        "hits": {"total": {"value": len(hits)}, "max_score": 1.0, "hits": hits},
    }


def solr_response(hits: list[Any]) -> dict[str, Any]:
    return {
        "responseHeader": {"status": 0},
        "response": {"numFound": len(hits), "start": 0, "docs": hits},
    }


def solr_csv(hits: list[Any]) -> str:
    rows = [f'{hit["id"]},"{hit["[features]"]}"' for hit in hits]
    return "\n".join(["id,[features]", *rows]) + "\n"


def vespa_response(hits: list[Any]) -> dict[str, Any]:
    return {"root": {"id": "toplevel", "fields": {"totalCount": len(hits)}, "children": hits}}


ENGINES: dict[str, tuple[Any, Any]] = {
    "plugin": (plugin_hit, plugin_response),
    "solr": (solr_hit, solr_response),
    "solr, sparse": (lambda *hit: solr_hit(*hit, dense=False), solr_response),
    "solr, csv": (solr_hit, solr_csv),
    "vespa": (vespa_hit, vespa_response),
    "vespa, summary": (lambda *hit: vespa_hit(*hit, kind="summaryfeatures"), vespa_response),
}


def responses(data: rw.RankingData, engine: str) -> list[Any]:
    """A response for each query."""
    write_hit, write_response = ENGINES[engine]
    found = []
    for start, stop in zip(data.boundaries[:-1], data.boundaries[1:], strict=True):
        rows = range(start, stop)
        found.append(
            write_response([write_hit(data.fields["docid"][row], data.X[row]) for row in rows])
        )
    return found


def write_log(data: rw.RankingData, engine: str, folder: Path) -> tuple[Path, Path]:
    """Write a response per line, and the queries."""
    log, queries = folder / "log.ndjson", folder / "queries.txt"
    log.write_text("".join(json.dumps(item) + "\n" for item in responses(data, engine)))
    queries.write_text("".join(f"{query}\n" for query in data.query_ids))
    return log, queries


def write_ratings(data: rw.RankingData, path: Path) -> Path:
    """Write grades as Quepid does, two of three documents rated."""
    lines = ["query,docid,rating", "never asked,,"]
    for row in range(data.n_rows):
        rating = "" if row % 3 == 2 else f"{data.y[row]:g}"
        lines.append(f"{data.qid[row]},{data.fields['docid'][row]},{rating}")
    path.write_text("\n".join(lines))
    return path
