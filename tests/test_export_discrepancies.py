"""Exported files by the engines' own rules: a test for each discrepancy that running their code has shown."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from engine_oracles import documents, plugin_score
from export_models import QID, X, Y, model_of, stump, trained
from rankwright.exporting import export_options, load_target
from rankwright.exporting.verify import Verification, verify_content


def written(model: rw.Model, target: str, version: str | None = None) -> bytes:
    options = export_options(model, version)
    return (
        load_target(target).write(list(model.forest.trees()), model.feature_names, options).content
    )


def verified(
    content: bytes, model: rw.Model, target: str, rows: Any, version: str | None = None
) -> Verification:
    return verify_content(
        content, model, load_target(target), export_options(model, version), rows, None
    )


def plugin_scores(content: bytes, model: rw.Model, rows: Any, missing: str) -> list[float]:
    return [
        plugin_score(content, document, missing)
        for document in documents(rows, model.feature_names)
    ]


def single_scores(model: rw.Model, rows: Any) -> Any:
    """The model's scores of rows in 32 bits."""
    return model.forest.predict(np.asarray(rows).astype(np.float32).astype(np.float64))


# D1: OpenSearch 3.2 already sends a missing feature to `no`.


@pytest.mark.parametrize("version", ["3.2", "3.2.0", "3.3", "3.7.1"])
def test_opensearch_sends_missing_to_no_from_3_2_on(version: str) -> None:
    model = trained("missing values")
    content, rows = written(model, "opensearch", version), X[:100]
    scores = plugin_scores(content, model, rows, "no")
    np.testing.assert_allclose(scores, single_scores(model, rows), atol=1e-6)
    assert verified(content, model, "opensearch", rows, version).exact
    # A file for the newest version sends missing values elsewhere there, and the check says so.
    check = verified(written(model, "opensearch"), model, "opensearch", rows, version)
    assert not check.exact
    assert check.different == check.different_with_missing > 0


def test_opensearch_3_1_reads_missing_as_zero() -> None:
    model = trained("missing values")
    content, rows = written(model, "opensearch", "3.1"), X[:100]
    scores = plugin_scores(content, model, rows, "zero")
    np.testing.assert_allclose(scores, single_scores(model, np.nan_to_num(rows)), atol=1e-6)
    assert not verified(content, model, "opensearch", rows, "3.1").exact


# D2: the Elasticsearch plug-in honours `missing` from 1.5.9 on, for Elasticsearch 8.11.4.


@pytest.mark.parametrize("version", [None, "8.11.4", "8.12", "9.0.8", "1.5.9", "v1.5.9-es8.11.4"])
def test_elasticsearch_honours_missing(version: str | None) -> None:
    model = trained("missing values")
    content, rows = written(model, "elasticsearch-ltr", version), X[:100]
    scores = plugin_scores(content, model, rows, "honoured")
    np.testing.assert_allclose(scores, single_scores(model, rows), atol=1e-6)
    assert verified(content, model, "elasticsearch-ltr", rows, version).exact


@pytest.mark.parametrize("version", ["7.17.9", "8.11.3", "8.11", "1.5.8"])
def test_elasticsearch_read_missing_as_zero_before(version: str) -> None:
    model = model_of([stump(1.0, default_left=False)], 1)
    target, options = load_target("elasticsearch-ltr"), export_options(model, version)
    exported = target.write(list(model.forest.trees()), ["f0"], options)
    assert "as 0: 1 of 1 splits" in exported.notes[0]
    assert plugin_scores(exported.content, model, [[np.nan]], "zero") == [-1.5]
    rows = np.array([[np.nan]])
    assert target.score(exported.content, rows, ["f0"], options).tolist() == [-1.5]


# D3: a column without missing values in training has `missing` where 0 goes, whatever the engine.


@cache
def on_zeros(engine: str) -> rw.Model:
    """A model on data whose absent features are logged as 0."""
    ranker = rw.Ranker(
        engine=engine, n_estimators=20, learning_rate=0.1, n_jobs=1, verbose=0, num_leaves=15
    )
    model: rw.Model = ranker.fit(np.nan_to_num(X), Y, qid=QID).model_
    return model


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
@pytest.mark.parametrize(
    ("target", "version", "missing"),
    [
        ("opensearch", "3.1", "zero"),
        ("opensearch", "3.5", "no"),
        ("opensearch", None, "honoured"),
        ("elasticsearch-ltr", "8.11.3", "zero"),
        ("elasticsearch-ltr", None, "honoured"),
    ],
)
def test_a_model_on_zeros_reads_an_absent_feature_as_zero(
    engine: str, target: str, version: str | None, missing: str
) -> None:
    model = on_zeros(engine)
    options = export_options(model, version)
    exported = load_target(target).write(list(model.forest.trees()), model.feature_names, options)
    served = plugin_scores(exported.content, model, X[:200], missing)
    trained_on = single_scores(model, np.nan_to_num(X[:200]))
    np.testing.assert_allclose(served, trained_on, atol=1e-6)
    assert not any("missing value as 0" in note for note in exported.notes)
    assert verified(exported.content, model, target, X[:200], version).exact
    assert np.array_equal(model.predict(X[:200]), model.predict(np.nan_to_num(X[:200])))


def test_columns_with_missing_values_keep_the_side_that_was_learned() -> None:
    ranker = rw.Ranker(engine="xgboost", n_estimators=20, n_jobs=1, verbose=0)
    model = ranker.fit(X, Y, qid=QID).model_
    nodes = [
        (int(tree.feature[node]), bool(tree.default_left[node]) != (tree.threshold[node] >= 0))
        for tree in model.forest.trees()
        for node in range(len(tree.feature))
    ]
    assert {feature for feature, elsewhere in nodes if elsewhere} == {0}
