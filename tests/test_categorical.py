"""``categorical=`` of Ranker and fit, for every kind of data, and columns that hold no numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from commands import Outcome

RNG = np.random.default_rng(5)
N = 600
QID = np.repeat(np.arange(60), 10)
BRAND = RNG.integers(0, 6, N)
PRICE = RNG.random(N)
GRADE = np.where(np.isin(BRAND, [1, 4]), 3, 0) + (PRICE > 0.8)
CODES = np.column_stack([PRICE, BRAND]).astype(float)
NAMES = np.array(["ash", "birch", "cedar", "elm", "fir", "oak"])
FRAME = pd.DataFrame({"price": PRICE, "brand": NAMES[BRAND], "grade": GRADE, "qid": QID})


def quick(**parameters: Any) -> rw.Ranker:
    return rw.Ranker(**{"n_estimators": 5, "verbose": 0, "n_jobs": 1, "num_leaves": 4} | parameters)


@pytest.fixture(scope="module")
def expected() -> np.ndarray[Any, Any]:
    data = rw.RankingData(CODES, GRADE, qid=QID, categorical=[1])
    scores = quick().fit(data).predict(CODES)
    plain = quick().fit(CODES, GRADE, qid=QID).predict(CODES)
    assert not np.array_equal(scores, plain)
    return scores


@pytest.mark.parametrize("columns", [[1], ["f1"], (1,)])
def test_arrays_name_columns_by_number_or_generated_name(
    expected: np.ndarray[Any, Any], columns: Any
) -> None:
    by_fit = quick().fit(CODES, GRADE, qid=QID, categorical=columns)
    by_parameter = quick(categorical=columns).fit(CODES, GRADE, qid=QID)
    data = rw.RankingData(CODES, GRADE, qid=QID)
    of_data = quick(categorical=columns).fit(data)
    for ranker in (by_fit, by_parameter, of_data):
        assert np.array_equal(ranker.predict(CODES), expected)
    assert data.categories == {}


def test_fit_wins_over_the_parameter() -> None:
    ranker = quick(categorical=[0]).fit(CODES, GRADE, qid=QID, categorical=[1])
    assert list(ranker.columns_.categories) == ["f1"]
    assert (
        list(quick(categorical=[1]).fit(CODES, GRADE, qid=QID, categorical=[]).columns_.categories)
        == []
    )


def test_frames_name_columns_of_text(expected: np.ndarray[Any, Any], tmp_path: Path) -> None:
    ranker = quick(categorical=["brand"])
    ranker.fit(FRAME, "grade", qid="qid", eval_set=FRAME.iloc[:100], base_score=None)
    assert np.array_equal(ranker.predict(FRAME[["brand", "price"]]), expected)
    ranker.save(tmp_path / "m")
    loaded = rw.Ranker.load(tmp_path / "m")
    assert loaded.categorical == ["brand"]
    further = quick(categorical=["brand"]).fit(FRAME, "grade", qid="qid", init_model=loaded)
    assert further.n_estimators_ == 10


def test_streamed_files_name_columns_of_text(
    expected: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    FRAME.to_parquet(tmp_path / "train.parquet")
    arguments = {"y": "grade", "qid": "qid", "categorical": ["brand"]}
    ranker = quick().fit(str(tmp_path / "train.parquet"), **arguments)
    assert np.array_equal(ranker.predict(FRAME[["price", "brand"]]), expected)


def test_base_scores_and_categories_together() -> None:
    frame = FRAME.assign(bm25=PRICE)
    ranker = quick().fit(frame, "grade", qid="qid", base_score="bm25", categorical=["brand"])
    assert ranker.columns_.categories == {"brand": tuple(NAMES)}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["colour"], "categorical column 'colour' is not a column of the data"),
        ([7], "categorical column 7 is not a column"),
        ([0], "'f0' must hold whole numbers from 0"),
        ("f1", r"must be a list of columns; write categorical=\['f1'\]"),
    ],
)
def test_columns_that_cannot_be_categories(columns: Any, message: str) -> None:
    for data in ((CODES, GRADE, QID), (rw.RankingData(CODES, GRADE, qid=QID), None, None)):
        X, y, qid = data
        with pytest.raises(ValueError, match=message):
            quick().fit(X, y, qid=qid, categorical=columns)


def test_the_parameter_is_checked() -> None:
    with pytest.raises(ValueError, match="categorical must be a list of names or numbers"):
        quick(categorical="brand").check_params()


def test_columns_without_numbers_are_told_apart() -> None:
    frame = FRAME.assign(
        seen=pd.Timestamp("2026-01-02"),
        sku=[f"sku-{row}" for row in range(N)],
        body="a text of so many words that it cannot be the name of a category at all",
    )
    with pytest.raises(ValueError, match="4 columns do not hold numbers") as refused:
        quick().fit(frame, "grade", qid="qid")
    text = str(refused.value)
    for column, kind in (
        ("brand", "categories"),
        ("seen", "dates; give a number"),
        ("sku", "ids; drop it"),
        ("body", "long text; drop it"),
    ):
        assert f"'{column}' has the type " in text
        assert f"({kind}" in text


def test_the_command_line_takes_names_with_commas(
    tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    frame = FRAME.assign(site=NAMES[BRAND], sku="a", day="b")
    frame.to_parquet(tmp_path / "train.parquet")
    names = ["--label", "grade", "--categorical", "brand,site", "--drop", "sku, day"]
    arguments = [*names, "--trees", "3", "--out", tmp_path / "run"]
    result = call("train", tmp_path / "train.parquet", *arguments)
    assert result.code == 0, result.err
    assert list(rw.load(tmp_path / "run").columns.categories) == ["brand", "site"]
