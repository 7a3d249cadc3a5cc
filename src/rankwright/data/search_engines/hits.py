"""The hits of a search response, with the features that the engine logged for them.

OpenSearch and Elasticsearch with the LTR plug-in (documentation of the plug-in, "Logging feature scores"): a hit has
``fields._ltrlog``, a list of objects by log name, each a list of ``{"name": ..., "value": ...}``. A feature that does
not match has no value.

Solr (Reference Guide, "Learning To Rank", and `CSVFeatureLogger`): a document has ``[features]``, a text
``name=value,name=value``. The sparse format leaves out features with their default value.

Vespa (documentation, "Default JSON result format"): a hit has ``matchfeatures`` or ``summaryfeatures`` among its
fields, an object of numbers by name. Before Vespa 8 names of functions are wrapped: ``rankingExpression(name)``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from rankwright.data.search_engines.json_text import identifier, member, number, place, shown

SOLR_FEATURES = "[features]"
_VESPA_FEATURES = ("matchfeatures", "summaryfeatures")
_VESPA_STATUS = "vespa.summaryFeatures.cached"  # an entry beside the features that is none
_REMEDY = (
    "log features with ltr_log (OpenSearch, Elasticsearch), [features] (Solr), or match-features "
    "(Vespa)"
)


class Hit(NamedTuple):
    """A document of a search response.

    Parameters
    ----------
    document
        Its id.
    features
        Values by name; NaN is missing.
    sparse
        Whether features with the value 0 may be left out.
    """

    document: str
    features: Mapping[str, float]
    sparse: bool = False


def read_hit(hit: Any) -> Hit:
    """Read a hit of any of the engines.

    Examples
    --------
    >>> log = {"main": [{"name": "title", "value": 2.5}, {"name": "body"}]}
    >>> read_hit({"_id": "17", "fields": {"_ltrlog": [log]}})
    Hit(document='17', features={'title': 2.5, 'body': nan}, sparse=False)
    >>> read_hit({"id": "17", "[features]": "title=2.5"}).features
    {'title': 2.5}
    """
    if not isinstance(hit, dict):
        raise ValueError(f"a hit must be an object; got {shown(hit)}.")
    if SOLR_FEATURES in hit:
        return _solr_document(hit)
    fields = hit.get("fields")
    if isinstance(fields, dict):
        if "_ltrlog" in fields:
            document = identifier(member(hit, "_id", (str, int), "the document's id"), "_id")
            return Hit(document, _plugin_features(fields["_ltrlog"]))
        if any(name in fields for name in _VESPA_FEATURES):
            return Hit(_vespa_id(hit, fields), _vespa_features(fields))
    raise ValueError(f"the hit has no logged features; {_REMEDY}.")


def hits_of(response: Any) -> list[Hit]:
    """Read all hits of a search response of any of the engines, complete or an error.

    Examples
    --------
    >>> hits_of({"response": {"docs": [{"id": "a", "[features]": "x=1"}]}})[0].document
    'a'
    """
    if isinstance(response, str):
        items: list[Any] = _solr_rows(response)
    elif not isinstance(response, dict):
        raise ValueError(f"a search response must be an object; got {shown(response)}.")
    elif "hits" in response:
        _check_complete(response)
        hits = member(response, "hits", dict, "an object with the key 'hits'")
        items = member(hits, "hits", list, "a list of hits")
    elif "response" in response:
        docs = member(response, "response", dict, "an object with the key 'docs'")
        items = member(docs, "docs", list, "a list of documents")
    elif "root" in response:
        items = _vespa_children(member(response, "root", dict, "an object"))
    else:
        keys = ", ".join(map(repr, list(response)[:6]))
        raise ValueError(
            "this is no search response: expected the key 'hits' (OpenSearch, Elasticsearch), "
            f"'response' (Solr) or 'root' (Vespa); got {keys or 'an empty object'}."
        )
    read = []
    for place_in_list, item in enumerate(items, start=1):
        with place(f"hit {place_in_list}"):
            read.append(read_hit(item))
    return read


def _check_complete(response: Mapping[str, Any]) -> None:
    """Raise ValueError if shards failed or did not answer in time, because hits may then be missing."""
    shards = response.get("_shards")
    failed = isinstance(shards, dict) and shards.get("failed")
    if failed or response.get("timed_out"):
        raise ValueError(
            "the response is incomplete: shards failed or the search timed out; search again."
        )


def _plugin_features(logs: Any) -> dict[str, float]:
    """Read ``_ltrlog``; a feature without a value did not match."""
    features: dict[str, float] = {}
    if not isinstance(logs, list):
        raise ValueError(f"'_ltrlog' must be a list of logs; got {shown(logs)}.")
    for log in logs:
        if not isinstance(log, dict):
            raise ValueError(f"'_ltrlog' must hold logs by name; got {shown(log)}.")
        for name in log:
            for entry in member(log, name, list, "a list of features"):
                feature = member(entry, "name", str, "the name of a feature")
                unknown = entry.keys() - {"name", "value"}
                if unknown:
                    raise ValueError(f"the feature {feature!r} has the key {min(unknown)!r}.")
                _add(features, feature, number(entry.get("value"), feature))
    return features


def _solr_document(document: Mapping[str, Any]) -> Hit:
    text = member(document, SOLR_FEATURES, str, "text such as 'name=1.0,other=0.5'")
    features: dict[str, float] = {}
    for part in text.split(",") if text else []:
        # A name may have an equals sign, and a value has none.
        name, separator, value = part.rpartition("=")
        try:
            result = float(value)
        except ValueError:
            separator = ""
        # Python also reads 1_000 and numbers between blanks.
        if "_" in value or value.strip() != value:
            separator = ""
        if not (name and separator):
            raise ValueError(
                f"{SOLR_FEATURES!r} must be name=value, separated by commas; got {shown(part)}."
            )
        _add(features, name, number(result, name))
    document_id = member(document, "id", (str, int), "the document's id; add it to fl")
    return Hit(identifier(document_id, "id"), features, sparse=True)


def _solr_rows(text: str) -> list[dict[str, str]]:
    """Read the CSV form of a response, with the columns ``id`` and ``[features]``."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header, *rows = [row for row in reader if row]
    except (csv.Error, ValueError):
        raise ValueError("this is not CSV with a header and rows.") from None
    if "id" not in header or SOLR_FEATURES not in header or len(set(header)) < len(header):
        raise ValueError(
            f"the CSV must have the columns 'id' and {SOLR_FEATURES!r}, each once; it has "
            f"{', '.join(map(repr, header[:6]))}."
        )
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {line} has {len(row)} values for {len(header)} columns.")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _vespa_children(root: Mapping[str, Any]) -> list[Any]:
    if "errors" in root:
        raise ValueError("the response reports errors, so hits may be missing; search again.")
    # A query that matches nothing has no children.
    children = root.get("children", [])
    if not isinstance(children, list):
        raise ValueError(f"'children' must be a list of hits; got {shown(children)}.")
    for child in children:
        if isinstance(child, dict) and "children" in child:
            raise ValueError("the hits are grouped; log features by a query without grouping.")
    return children


def _vespa_id(hit: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    document = identifier(fields.get("documentid", hit.get("id")), "documentid")
    # Such an id changes when the document moves to another node.
    if document.startswith("index:"):
        raise ValueError("the hit has no document id; add documentid to the document summary.")
    return document


def _vespa_features(fields: Mapping[str, Any]) -> dict[str, float]:
    features: dict[str, float] = {}
    for kind in _VESPA_FEATURES:
        values = fields.get(kind, {})
        if not isinstance(values, dict):
            raise ValueError(f"{kind!r} must be an object of features; got {shown(values)}.")
        for name, value in values.items():
            if name != _VESPA_STATUS:
                plain = name.removeprefix("rankingExpression(")
                if plain != name:
                    plain = plain.removesuffix(")")
                _add(features, plain, number(value, name))
    return features


def _add(features: dict[str, float], name: str, value: float) -> None:
    if name in features:
        raise ValueError(f"the feature {name!r} is logged twice for a hit; log it once.")
    if not name:
        raise ValueError("a feature has no name.")
    # A line break in a name is a sign of a damaged file.
    if not name.isprintable():
        raise ValueError(f"the feature {shown(name)} has a character that cannot be printed.")
    features[name] = value
