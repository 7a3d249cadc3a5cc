"""A linear start on quantiles of the columns, which scores documents one by one and is exported as trees."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import rankwright as rw
from rankwright import RankingData
from rankwright.data.on_disk import to_disk
from rankwright.engines import ENGINES
from rankwright.engines.scoring import score
from rankwright.exporting import TARGETS, export_options, load_target
from rankwright.exporting.verify import verify_content
from rankwright.kernels.tree_arrays import pack
from rankwright.linear_start import LinearStart, QuantileFeatures
from small import TRAIN, VALID, quick


def with_gaps(data: RankingData) -> RankingData:
    """Values of 32 bits; one column lacks many values, one lacks few, and the others are complete."""
    draw = np.random.default_rng(data.n_rows)
    X = np.round(np.array(data.X, dtype=np.float32), 3)
    X[draw.random(len(X)) < 0.4, 1] = np.nan
    X[draw.random(len(X)) < 0.02, 2] = np.nan
    return RankingData(X, data.y, qid=data.qid)


GAPS, OTHER = with_gaps(TRAIN), with_gaps(VALID)


def started(data: RankingData = GAPS, **changes: Any) -> Any:
    return quick(start="linear-global", **changes).fit(data)


STARTED = started()


def test_documents_are_scored_one_by_one() -> None:
    scores = STARTED.predict(OTHER.X)
    single = np.concatenate([STARTED.predict(OTHER.X[[row]]) for row in range(30)])
    assert np.array_equal(single, scores[:30])
    assert np.array_equal(STARTED.predict(OTHER), scores)
    assert np.array_equal(
        STARTED.predict(sp.csr_matrix(np.nan_to_num(OTHER.X))),
        STARTED.predict(np.nan_to_num(OTHER.X)),
    )
    assert np.array_equal(list(STARTED.model_.staged_predict(OTHER.X))[-1], scores)


def test_features_are_shares_of_smaller_values() -> None:
    features = STARTED.linear_.features
    found = features.fill(GAPS.X[:, features.places], TRAIN.boundaries)
    for number, place in enumerate(features.places):
        values = GAPS.X[:, place]
        known = values[~np.isnan(values)]
        steps = np.searchsorted(features.edges[number], values)
        for row in (0, 7, 50):
            if np.isnan(values[row]):
                assert found[row, number] == 0
                continue
            same = np.searchsorted(features.edges[number], known) == steps[row]
            smaller = np.sum(known[~same] < values[row])
            expected = (smaller + same.sum() / 2) / len(known) - 0.5
            assert abs(found[row, number] - expected) <= 2.0**-17
    assert f"{GAPS.feature_names[1]} [missing]" in features.names
    assert f"{GAPS.feature_names[2]} [missing]" not in features.names
    assert max(map(len, features.edges)) == 31


def test_the_start_is_the_sum_of_its_trees() -> None:
    draw = np.random.default_rng(0)
    edges = [np.append(steps, 0.0) for steps in STARTED.linear_.features.edges]
    X = np.array([[draw.choice(column) for column in edges] for _ in range(300)])
    # At the edges, just above them, just below them, tiny and missing.
    X = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf), X + 1e-36])
    X[draw.random(X.shape) < 0.2] = np.nan
    trees = pack(STARTED.linear_.trees(), X.shape[1])
    sums = score(trees, X, 0, len(trees.root), 1)
    assert np.array_equal(STARTED.linear_.scores(X, None), sums)


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("target", list(TARGETS))
def test_exports_are_exact(engine: str, target: str, tmp_path: Path) -> None:
    # Not every target knows missing values, so the data has none.
    data = RankingData(np.nan_to_num(TRAIN.X), TRAIN.y, qid=TRAIN.qid)
    model = started(data, engine=engine, members=2, n_estimators=4).model_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = rw.export(model, target, tmp_path / "model")
    options = export_options(model)
    rows = np.nan_to_num(VALID.X).astype(np.float32).astype(np.float64)
    result = verify_content(file.read_bytes(), model, load_target(target), options, rows)
    assert result.different == result.different_with_missing
    scores = load_target(target).score(file.read_bytes(), rows, options)
    np.testing.assert_allclose(scores, model.predict(rows), atol=1e-5)


def test_trees_start_where_the_linear_ranker_ends() -> None:
    scores = STARTED.linear_.scores(GAPS.X, None)
    fitted = quick().fit(GAPS, base_score=scores)
    np.testing.assert_allclose(
        fitted.predict(OTHER.X, base_score=STARTED.linear_.scores(OTHER.X, None)),
        STARTED.predict(OTHER.X),
        atol=1e-9,
    )


def test_contributions_go_to_the_columns_and_add_up() -> None:
    parts = STARTED.predict(OTHER.X, contributions=True)
    np.testing.assert_allclose(parts.sum(axis=1), STARTED.predict(OTHER.X), atol=1e-12)


def test_the_mean_of_members_is_a_start() -> None:
    model = started(members=3).model_
    mean = model.linear.scores(OTHER.X, None)
    each = [start.scores(OTHER.X, None) for start in model.starts[:-1]]
    np.testing.assert_allclose(mean, np.mean(each, axis=0), atol=1e-5)


def test_bits_do_not_depend_on_threads_order_or_streaming(tmp_path: Path) -> None:
    shuffled = np.random.default_rng(0).permutation(GAPS.n_rows)
    other = RankingData(GAPS.X[shuffled], GAPS.y[shuffled], qid=GAPS.qid[shuffled])
    rw.write_data(GAPS, tmp_path / "train.parquet")
    streamed = rw.stream_data(tmp_path / "train.parquet")
    scores = STARTED.predict(OTHER.X)
    for data, options in ((other, {}), (GAPS, {"n_jobs": 2}), (streamed, {})):
        assert np.array_equal(started(data, **options).predict(OTHER.X), scores)
    assert np.array_equal(STARTED.predict(to_disk(OTHER.X)), scores)
    rw.write_data(OTHER, tmp_path / "valid.parquet")
    assert np.array_equal(STARTED.predict(tmp_path / "valid.parquet"), scores)


def test_a_saved_model_has_the_start(tmp_path: Path) -> None:
    STARTED.save(tmp_path / "model")
    model = rw.load(tmp_path / "model")
    assert np.array_equal(model.predict(OTHER.X), STARTED.predict(OTHER.X))
    assert str(model.linear) == str(STARTED.linear_)
    assert model.used_columns().all()
    more = quick(n_estimators=3).fit(OTHER, init_model=tmp_path / "model")
    assert isinstance(more.linear_.features, QuantileFeatures)


@pytest.mark.parametrize(
    "change", [{"edges": []}, {"edges": [[2.0, 1.0]]}, {"levels": "no"}, {"complete": 3}]
)
def test_a_damaged_start_is_refused(change: dict[str, Any]) -> None:
    entry = STARTED.linear_.to_manifest() | change
    with pytest.raises(ValueError, match="garbles the linear start"):
        LinearStart.of_manifest(entry, GAPS.feature_names)


def test_a_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="quantiles from a single machine; use start='linear'"):
        quick(start="linear-global", engine="xgboost").fit(GAPS, cluster=1)
