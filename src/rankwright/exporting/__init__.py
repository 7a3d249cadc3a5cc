"""Write a model in the form of a search engine or another runtime: ``rankwright.export(model, target, path)``.

Examples
--------
>>> import tempfile
>>> import rankwright as rw
>>> data = rw.make_web_search(20, random_state=1)
>>> ranker = rw.Ranker(n_estimators=3, verbose=0).fit(data)
>>> with tempfile.TemporaryDirectory() as folder:
...     rw.export(ranker, "opensearch", folder + "/model.json").name
'model.json'
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from rankwright.engines import load_engine
from rankwright.exporting.contract import ExportOptions, Target
from rankwright.model import Model, load
from rankwright.support.files import PathLike, write_together

# The module and the instance of each target. A module is loaded when its target is used, because
# some need an optional library.
TARGETS = {
    "opensearch": "rankwright.exporting.opensearch:OPENSEARCH",
    "elasticsearch-ltr": "rankwright.exporting.opensearch:ELASTICSEARCH_LTR",
    "ranklib": "rankwright.exporting.ranklib:TARGET",
    "solr": "rankwright.exporting.solr:TARGET",
    "vespa": "rankwright.exporting.vespa:TARGET",
    "elastic": "rankwright.exporting.elastic:TARGET",
    "json": "rankwright.exporting.json_form:TARGET",
    "lightgbm": "rankwright.exporting.lightgbm_text:TARGET",
    "xgboost": "rankwright.exporting.xgboost_json:TARGET",
    "onnx": "rankwright.exporting.onnx_graph:TARGET",
    "treelite": "rankwright.exporting.treelite_model:TARGET",
    "c": "rankwright.exporting.c_source:TARGET",
}


_CALIBRATED = (
    "the model is calibrated, and the file gives raw scores. The order is the same; to serve calibrated values, apply "
    "the model's calibration to the scores."
)
_STARTED = (
    "scores of the model start from base scores ({}), and the file gives the sum of the trees; add the base score of "
    "each document to it."
)


def export(
    model: Any,
    target: str,
    path: PathLike,
    *,
    target_version: str | None = None,
    evaluator: str | None = None,
    feature_set: PathLike | None = None,
    name: str = "rankwright",
) -> Path:
    """Write a model in the form of a search engine or another runtime.

    A warning counts the splits that mean something else in the target, for example for missing values.
    ``rankwright verify-export`` compares a file with its model.

    Parameters
    ----------
    model
        A `Model`, a fitted `Ranker`, or the path of a run folder or saved model.
    target
        ``"opensearch"``, ``"elasticsearch-ltr"``, ``"ranklib"``, ``"solr"``, ``"vespa"``, ``"elastic"``, ``"json"``,
        ``"lightgbm"``, ``"xgboost"``, ``"onnx"``, ``"treelite"`` or ``"c"``.
    path
        File to write; in a folder that exists, the file gets the target's usual name.
    target_version
        Version of the search engine, for example ``"3.2"``, because versions of OpenSearch, Elasticsearch and Solr
        treat missing values differently; the newest by default. For ``"elasticsearch-ltr"`` the version of
        Elasticsearch, for example ``"8.11.4"``, or of the plug-in, for example ``"1.5.9"``.
    evaluator
        How Vespa computes the forest: ``"llvm"`` (64 bits), ``"vmforest"`` or ``"fastforest"`` (32 bits). By default
        Vespa's own choice by the size of the forest.
    feature_set
        JSON file with the features that the search engine computes: a list of names, a feature set of OpenSearch or
        Elasticsearch, or a feature store of Solr. The export is refused if the model has other features.
    name
        Name of the model inside the target, if models have names there.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import rankwright as rw
    >>> data = rw.make_web_search(20, random_state=1)
    >>> ranker = rw.Ranker(n_estimators=3, verbose=0).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(ranker, "solr", folder).name
    'solr-model.json'
    """
    # Targets read only the trees and the columns, so an engine's library is not needed.
    light = light_model(model)
    options = export_options(light, target_version, feature_set, name, evaluator)
    file, notes = write_export(light, load_target(target), path, options)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return file


def load_target(name: str) -> Target:
    """Return a target by its name."""
    if name not in TARGETS:
        raise ValueError(f"{name!r} is not a target; choose one of {', '.join(TARGETS)}.")
    module, _, attribute = TARGETS[name].partition(":")
    target: Target = getattr(import_module(module), attribute)
    return target


def to_booster(model: Model) -> Any:
    """Return the trees as a ``Booster`` of the library that grew them."""
    engine = load_engine(model.manifest["engine"]["name"])
    # The engine's own form is one of the targets, with the names of the columns.
    written = load_target(engine.name).write(model.scoring_trees(), export_options(model))
    return engine.booster(written.content)


def light_model(model: Any) -> Model:
    """Return the `Model` of a `Model`, a fitted `Ranker`, or a path."""
    if isinstance(model, Model):
        return model
    if isinstance(model, str | os.PathLike):
        return load(model)
    if isinstance(getattr(model, "model_", None), Model):
        fitted: Model = model.model_
        return fitted
    raise ValueError(
        f"model is a {type(model).__name__}; give a Model, a fitted Ranker, or the path of a run folder or saved model."
    )


def export_options(
    model: Model,
    target_version: str | None = None,
    feature_set: PathLike | None = None,
    name: str = "rankwright",
    evaluator: str | None = None,
) -> ExportOptions:
    """Gather the options of a target; the feature set is read, and compared with the model."""
    features = None
    # Features that the engine does not compute would be missing values in every query.
    if feature_set is not None:
        from rankwright.exporting.feature_sets import check_feature_set, read_feature_set

        features = read_feature_set(feature_set)
        check_feature_set(model.columns.feature_names, features, str(feature_set))
    return ExportOptions(
        *(model.feature_names, name, target_version, evaluator, features),
        model.columns.categories,
        model.recipe,
        model.base_score,
        model.linear if model.needs_queries else None,
    )


def write_export(
    model: Model, target: Target, path: PathLike, options: ExportOptions
) -> tuple[Path, tuple[str, ...]]:
    """Write a model's file, complete or not at all; return its path and the warnings."""
    target.check(options)
    # Such features depend on the other documents, so the file would give wrong scores.
    if model.needs_queries and not target.whole_queries:
        way_out = "without within_query" if model.recipe else "with start='linear-global'"
        raise ValueError(
            f"{target.name} scores documents one by one, but the model has {model.comparison}, so it needs all "
            f"documents of a query at once. Export to c, use rankwright serve, or train {way_out}."
        )
    file = Path(path)
    if file.is_dir():
        file /= target.file_name
    exported = target.write(model.scoring_trees(), options)
    write_together({file: exported.content})
    notes = list(exported.notes)
    if model.base_score is not None and not target.adds_base_score:
        notes.append(_STARTED.format(model.base_score))
    if model.calibration is not None:
        notes.append(_CALIBRATED)
    return file, tuple(notes)
