"""Feature sets: the features that a search engine computes, and whether a model has the same features."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankwright.exporting.contract import FeatureSet
from rankwright.support.files import PathLike


def read_feature_set(path: PathLike) -> FeatureSet:
    """Read a feature set: a list of names, the JSON of OpenSearch's or Elasticsearch's plugin, or Solr's feature store.

    Parameters
    ----------
    path
        A JSON file: the body of the request that creates a feature set, or the answer of
        ``GET _ltr/_featureset/NAME`` (plug-ins) or ``GET .../schema/feature-store/NAME`` (Solr).
    """
    try:
        content: Any = json.loads(Path(path).read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: the feature set is not JSON ({error}).") from None
    # The answer of a search engine wraps the list in these objects; the body of a request in fewer.
    for key in ("_source", "featureset", "features"):
        if isinstance(content, dict) and key in content:
            content = content[key]
    if not isinstance(content, list) or not content:
        raise ValueError(
            f"{path}: there are no features; expected a list of names, or an object with the key 'features'."
        )
    names, stores = [], []
    for position, feature in enumerate(content):
        name, store = feature, None
        if isinstance(feature, dict):
            name, store = feature.get("name"), feature.get("store")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{path}: feature {position} has no name.")
        names.append(name)

        if not (store is None or isinstance(store, str)):
            raise ValueError(
                f"{path}: the store of feature {position} must be text; got {store!r:.60}."
            )
        stores.append(store)
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"{path}: these features occur twice: {', '.join(repeated)}.")
    # A model in Solr names a single store for all of its features.
    if len(set(stores)) > 1:
        raise ValueError(
            f"{path}: the features are of several stores; give the features of a single store."
        )
    return FeatureSet(tuple(names), stores[0])


def check_feature_set(names: Sequence[str], features: FeatureSet, source: str) -> None:
    """Raise ValueError, listing them, if a model and a feature set have different features."""
    missing = [name for name in names if name not in features.names]
    unknown = [name for name in features.names if name not in set(names)]
    if missing or unknown:
        detail = ""
        if missing:
            detail += f" Missing from the set: {', '.join(missing)}."
        if unknown:
            detail += f" Unknown to the model: {', '.join(unknown)}."
        raise ValueError(
            f"{source}: the feature set and the model have different features.{detail} "
            "Train on the features of the set."
        )
