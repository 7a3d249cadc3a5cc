"""Features within the query that are computed block by block: the bits of a matrix that has them as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import extended_rows
from rankwright.data.bins import Bins, RowSample
from rankwright.data.dataset import RankingData
from rankwright.data.extended_rows import ExtendedRows
from rankwright.data.row_order import row_hashes
from rankwright.data.row_stream import batches_of, in_memory
from rankwright.data.within_query import KINDS, read_recipe
from rankwright.engines.lightgbm import bins, grower
from rankwright.engines.lightgbm.bins import rows_to_sample
from rankwright.training.checkpoint import fingerprint

ENGINES = ("lightgbm", "xgboost")
ALL = list(KINDS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few queries, some of one."""
    monkeypatch.setattr(extended_rows, "_VALUES_AT_ONCE", 400)
    monkeypatch.setattr(grower, "in_blocks", lambda X, params: True)


def rows(n_queries: int, seed: int, dtype: Any = np.float64, first: int = 0) -> RankingData:
    """Rows in no order, with missing values, zeros, a constant, categories, equal rows and queries of one row."""
    draw = np.random.default_rng(seed)
    qid = first + np.repeat(np.arange(n_queries), draw.integers(1, 40, n_queries))
    n = len(qid)
    X = draw.normal(size=(n, 6))
    X[:, 1] = np.where(draw.random(n) < 0.7, 0.0, X[:, 1])
    X[draw.random(n) < 0.2, 2] = np.nan
    X[:, 3] = 7.0
    X[1::9] = X[::9][: len(X[1::9])]
    X[:, 5] = draw.integers(0, 5, n)
    y = np.clip(np.round(X[:, 0] + X[:, 1] + draw.normal(size=n) / 2), 0, 4) + 0.0
    order = draw.permutation(n)
    return RankingData(X[order].astype(dtype), y[order], qid=qid[order], categorical=[5])


def by_hand(data: RankingData, recipe: Any, *, canonical: bool = False, **_: Any) -> RankingData:
    """Add the columns with the transformer, as `RankingData.with_features` adds them."""
    import copy

    made = copy.copy(data.canonical() if canonical else data)
    given = [name for name in data.feature_names if name not in data.categories]
    kinds = {name: list(kinds) for name, kinds in recipe.sources}
    assert set(kinds) == set(given)
    wide = rw.WithinQuery(kinds).fit(made.X).transform(made.X, group=made.group)
    made.X, made.feature_names, made.n_derived = (
        wide,
        [*data.feature_names, *recipe.names],
        len(recipe.names),
    )
    return made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", ["rank", ALL])
def test_a_model_is_that_of_columns_added_by_hand(
    monkeypatch: pytest.MonkeyPatch, engine: str, dtype: Any, kinds: Any
) -> None:
    train, valid = rows(70, 0, dtype), rows(30, 1, dtype, first=1000)

    def fitted() -> rw.Ranker:
        options: dict[str, Any] = {
            "n_estimators": 60,
            "learning_rate": 0.3,
            "early_stopping_rounds": 2,
            "verbose": 0,
        }
        ranker = rw.Ranker(
            engine=engine, within_query=kinds, n_jobs=1, min_child_samples=5, **options
        )
        return ranker.fit(train, eval_set=[valid])

    seen: list[Any] = []
    block = ExtendedRows.block
    monkeypatch.setattr(
        ExtendedRows, "block", lambda self, number: seen.append(number) or block(self, number)
    )
    in_blocks = fitted()
    assert max(seen) > 10
    assert len(in_blocks.evals_result_["valid_0"]["ndcg@10"]) < 60
    monkeypatch.setattr(RankingData, "with_features", by_hand)
    expected = fitted()
    assert in_blocks.forest_.dump() == expected.forest_.dump()
    assert in_blocks.evals_result_ == expected.evals_result_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_of_drawn_rows_is_that_of_columns_added_by_hand(
    monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    train = rows(120, 0, dtype)
    params: dict[str, Any] = {"n_estimators": 6, "n_jobs": 1, "min_child_samples": 5, "verbose": 0}

    def fitted(drawn: int) -> bytes:
        ranker = rw.Ranker(
            within_query="rank z", engine_params={"subsample_for_bin": drawn}, **params
        )
        return bytes(ranker.fit(train).forest_.dump())

    in_blocks, of_all = fitted(300), fitted(train.n_rows)
    assert in_blocks != of_all
    monkeypatch.setattr(RankingData, "with_features", by_hand)
    assert in_blocks == fitted(300)
    assert of_all == fitted(train.n_rows)


def test_a_small_matrix_is_given_to_lightgbm_as_a_whole_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train = rows(70, 0)
    models = []
    for in_blocks in (True, False):
        monkeypatch.setattr(grower, "in_blocks", lambda X, params, answer=in_blocks: answer)
        models.append(
            rw.Ranker(within_query=ALL, n_estimators=6, n_jobs=1, verbose=0)
            .fit(train)
            .forest_.dump()
        )
    assert models[0] == models[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_are_parts_of_the_matrix(dtype: Any) -> None:
    data = rows(50, 2, dtype)
    recipe = read_recipe(ALL, data)
    whole = data.with_features(recipe, canonical=True).X
    X = data.with_features(recipe, canonical=True, deferred=True).X
    assert isinstance(X, ExtendedRows)
    assert (X.shape, X.dtype) == (whole.shape, whole.dtype)
    places = np.concatenate([places for places, _ in batches_of(X, "test")])
    assert np.array_equal(places, np.arange(len(X)))
    assert len(X.starts) > 20
    assert set(X.starts) <= set(data.boundaries)
    for seen in (X.toarray(), in_memory(X)):
        np.testing.assert_array_equal(seen, whole)
    assert np.array_equal(row_hashes(X, n_given=6), row_hashes(whole, n_given=6))


def test_samples_and_bins_of_blocks_are_those_of_the_matrix() -> None:
    data = rows(50, 2, np.float32)
    recipe = read_recipe("rank", data)
    both = [data.with_features(recipe, deferred=deferred).X for deferred in (True, False)]
    keys = np.repeat(data.query_keys, data.group)
    for size in (100, data.n_rows):
        ours, expected = (RowSample.of(X, keys, size=size) for X in both)
        assert ours.rows.dtype == np.float32
        np.testing.assert_array_equal(ours.rows, expected.rows)
        np.testing.assert_array_equal(ours.largest, expected.largest)
        np.testing.assert_array_equal(ours.has_missing, expected.has_missing)
    chosen = Bins.of(ours, 9, [5])
    codes = [chosen.encode_to_keep(X) for X in both]
    assert [type(one) for one in codes] == [np.ndarray, np.ndarray]
    np.testing.assert_array_equal(*codes)


def test_the_fingerprint_depends_on_rows_and_recipe() -> None:
    data, other = rows(20, 0), rows(20, 3)
    prints = [
        fingerprint(one.with_features(read_recipe(kinds, one), canonical=True, deferred=True))
        for one, kinds in (
            (data, "rank"),
            (data, "z"),
            (data, {"f0": "rank"}),
            (data, {"f1": "rank"}),
            (other, "rank"),
        )
    ]
    assert len({*prints, fingerprint(data.canonical())}) == 6
    order = np.random.default_rng(0).permutation(data.n_rows)
    shuffled = RankingData(data.X[order], data.y[order], qid=data.qid[order], categorical=[5])
    recipe = read_recipe("rank", data)
    assert fingerprint(shuffled.with_features(recipe, canonical=True, deferred=True)) == prints[0]


def test_lightgbm_sorts_as_many_values_as_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(20, 0)
    extended = data.with_features(read_recipe("rank z", data), deferred=True)
    assert extended.n_derived == 10
    assert rows_to_sample(extended) == {}  # all rows are drawn
    monkeypatch.setattr(bins, "_ROWS_TO_SAMPLE", 320)
    assert data.n_rows > 320
    assert rows_to_sample(data) == {}
    assert rows_to_sample(extended) == {"bin_construct_sample_cnt": 320 * 6 // 16}
