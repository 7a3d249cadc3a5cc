"""Training with features within the query: the model of a matrix that has them as columns, bit by bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import within_query
from rankwright.data.dataset import RankingData
from rankwright.data.on_disk import is_on_disk, to_disk
from rankwright.data.within_query import KINDS, read_recipe
from rankwright.engines.lightgbm import grower
from rankwright.engines.lightgbm.grower import rows_to_sample
from rankwright.training.checkpoint import fingerprint

ENGINES = ("lightgbm", "xgboost")
ALL = list(KINDS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few queries, some of one."""
    monkeypatch.setattr(within_query, "BLOCK_BYTES", 400)
    monkeypatch.setattr(within_query, "_ROWS_AT_ONCE", 50)


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


def on_disk(data: RankingData) -> RankingData:
    """The same data with its features in a file."""
    made = copy.copy(data)
    made.X = to_disk(data.X)
    return made


def by_hand(data: RankingData, recipe: Any, *, canonical: bool = False, **_: Any) -> RankingData:
    """Add the columns with the transformer, as `RankingData.with_features` adds them."""
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

    def fitted(train: RankingData, valid: RankingData) -> rw.Ranker:
        options: dict[str, Any] = {
            "n_estimators": 150,
            "learning_rate": 0.3,
            "early_stopping_rounds": 2,
            "verbose": 0,
        }
        ranker = rw.Ranker(
            engine=engine, within_query=kinds, n_jobs=1, min_child_samples=5, **options
        )
        return ranker.fit(train, eval_set=[valid])

    models = [fitted(train, valid), fitted(on_disk(train), on_disk(valid))]
    assert len(models[0].evals_result_["valid_0"]["ndcg@10"]) < 150
    monkeypatch.setattr(RankingData, "with_features", by_hand)
    expected = fitted(train, valid)
    for model in models:
        assert model.forest_.dump() == expected.forest_.dump()
        assert model.evals_result_ == expected.evals_result_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_of_drawn_rows_is_that_of_columns_added_by_hand(
    monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    train = rows(120, 0, dtype)
    params: dict[str, Any] = {"n_estimators": 6, "n_jobs": 1, "min_child_samples": 5, "verbose": 0}

    def fitted(train: RankingData, drawn: int) -> bytes:
        ranker = rw.Ranker(
            within_query="rank z", engine_params={"subsample_for_bin": drawn}, **params
        )
        return bytes(ranker.fit(train).forest_.dump())

    few, every = fitted(train, 300), fitted(train, train.n_rows)
    assert few != every
    assert fitted(on_disk(train), 300) == few
    monkeypatch.setattr(RankingData, "with_features", by_hand)
    assert few == fitted(train, 300)
    assert every == fitted(train, train.n_rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("canonical", [False, True])
def test_blocks_of_rows_in_a_file_are_parts_of_the_matrix(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, canonical: bool
) -> None:
    data = rows(50, 2, dtype)
    recipe = read_recipe(ALL, data)
    whole = data.with_features(recipe, canonical=canonical).X
    sizes: list[int] = []
    write_rows = within_query.write_rows

    def watched(blocks: Any, *arguments: Any) -> Any:
        return write_rows((sizes.append(len(block)) or block for block in blocks), *arguments)

    monkeypatch.setattr(within_query, "write_rows", watched)
    X = on_disk(data).with_features(recipe, canonical=canonical).X
    assert is_on_disk(X)
    assert X.dtype == whole.dtype
    np.testing.assert_array_equal(X, whole)
    assert len(sizes) > 20
    assert set(np.cumsum(sizes)) <= set(data.boundaries)


def test_the_fingerprint_depends_on_rows_and_recipe() -> None:
    data, other = rows(20, 0), rows(20, 3)
    prints = [
        fingerprint(one.with_features(read_recipe(kinds, one), canonical=True))
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
    assert fingerprint(shuffled.with_features(recipe, canonical=True)) == prints[0]


def test_lightgbm_sorts_as_many_values_as_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(20, 0)
    extended = data.with_features(read_recipe("rank z", data))
    assert extended.n_derived == 10
    assert rows_to_sample(extended) == {}  # all rows are drawn
    monkeypatch.setattr(grower, "ROWS_TO_SAMPLE", 320)
    assert data.n_rows > 320
    assert rows_to_sample(data) == {}
    assert rows_to_sample(extended) == {"bin_construct_sample_cnt": 320 * 6 // 16}
