"""The order in which rows are stored changes nothing: the model, the curves and the prediction of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import Ranker, RankingData, make_web_search
from rankwright.data.row_order import row_hashes
from rankwright.objectives import OBJECTIVES
from small import quick

X, Y, QID = (lambda data: (np.round(data.X, 1), data.y, data.qid))(
    make_web_search(30, kind="short", n_features=20, mean_length=12, random_state=8)
)
X[X[:, 1] > 1, 1] = np.nan
COPIES = np.r_[: len(X), : len(X) // 2]  # half of the rows twice, some of these with another label
X, Y, QID = X[COPIES], np.r_[Y, np.roll(Y[: len(Y) // 2], 1)], QID[COPIES]
WEIGHTS = 1.0 + (QID % 3)


# Curves of the training data show that they do not depend on the order either.
pytestmark = pytest.mark.filterwarnings("ignore:.*were trained on")


def content(ranker: Ranker) -> tuple[bytes, Any, int]:
    return ranker.forest_.dump(), ranker.evals_result_, ranker.n_estimators_


def fit(order: Any, **options: Any) -> Ranker:
    rows = (X[order], Y[order], QID[order])
    ranker = quick(n_estimators=6, early_stopping_rounds=3, **options)
    return ranker.fit(*rows[:2], qid=rows[2], sample_weight=WEIGHTS[order], eval_set=[rows])


@pytest.mark.parametrize("objective", ["auto", *OBJECTIVES])
def test_any_order_gives_the_same_model_and_curves(objective: str) -> None:
    orders = [
        np.arange(len(X)),
        np.arange(len(X))[::-1],
        np.random.default_rng(1).permutation(len(X)),
    ]
    first, *others = (content(fit(order, objective=objective, subsample=0.7)) for order in orders)
    assert others == [first, first]


@pytest.mark.parametrize(
    "options",
    [
        {"langevin": True, "objective": "stochasticrank"},
        {"metric": "map", "subsample_queries": 0.5},
        {"metric": "err", "leaf_values": "full", "objective": "yetirank"},
        {"learning_rate": None, "objective": "softrank"},
        {"engine_params": {"extra_trees": True}},
    ],
    ids=str,
)
def test_whatever_is_drawn_or_solved(options: dict[str, Any]) -> None:
    first, second = (
        content(fit(order, **options)) for order in (np.arange(len(X)), np.arange(len(X))[::-1])
    )
    assert first == second


CONTAINERS = [
    "numpy",
    "fortran",
    "strided",
    "float32",
    "sparse",
    "csc",
    "pandas",
    "polars",
    "arrow",
]


@settings(max_examples=24, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(CONTAINERS))
def test_order_and_container_make_no_difference(seed: int, container: str) -> None:
    draw = np.random.default_rng(seed)
    matrix = X.astype(np.float32).astype(np.float64)  # which every container can hold
    order = draw.permutation(len(matrix))
    names = [f"c{number}" for number in range(matrix.shape[1])]
    build: dict[str, Any] = {
        "numpy": np.ascontiguousarray,
        "fortran": np.asfortranarray,
        "strided": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
        "float32": lambda rows: rows.astype(np.float32),
        "sparse": sp.csr_matrix,
        "csc": sp.csc_matrix,
        "pandas": lambda rows: pd.DataFrame(rows, columns=names),
        "polars": lambda rows: pl.DataFrame(rows, schema=names),
        "arrow": lambda rows: pa.table(dict(zip(names, rows.T, strict=True))),
    }

    def train(kind: str, rows: Any) -> tuple[np.ndarray, Any]:
        ranker = quick(n_estimators=3).fit(build[kind](matrix[rows]), Y[rows], qid=QID[rows])
        return ranker.predict(build[kind](matrix)), [
            tree.value.tolist() for tree in ranker.forest_.trees()
        ]

    scores, trees = train("numpy", np.arange(len(matrix)))
    other_scores, other_trees = train(container, order)
    assert trees == other_trees
    assert np.array_equal(scores, other_scores)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32, object])
def test_the_type_of_whole_numbers_makes_no_difference(dtype: Any) -> None:
    matrix = np.trunc(10 * np.abs(np.nan_to_num(X))) % 100
    scores = quick(n_estimators=3).fit(matrix, Y, qid=QID).predict(matrix)
    other = quick(n_estimators=3).fit(
        matrix.astype(dtype), Y.astype(np.int8), qid=QID.astype(np.int32)
    )
    assert np.ptp(scores) > 0
    assert np.array_equal(other.predict(matrix.astype(dtype)), scores)


def test_categories_in_any_order() -> None:
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
        kind=np.array(["x", "y", "z"])[QID % 3], qid=QID, y=Y
    )
    frame["kind"] = frame["kind"].astype("category")
    shuffled = frame.sample(frac=1, random_state=2)
    models = [quick(min_child_samples=2).fit(one, "y", qid="qid") for one in (frame, shuffled)]
    assert content(models[0]) == content(models[1])


def test_neither_weights_of_one_nor_other_units_of_the_labels_change_the_order() -> None:
    data = RankingData(X, Y, qid=QID)
    rows = data.canonical().X
    assert np.array_equal(
        RankingData(X, Y, qid=QID, sample_weight=np.ones(len(X))).canonical().X,
        rows,
        equal_nan=True,
    )
    assert np.array_equal(RankingData(X, 3 * Y, qid=QID).canonical().y, 3 * data.canonical().y)


def test_results_return_to_the_order_of_the_caller() -> None:
    order = np.random.default_rng(0).permutation(len(X))
    data = RankingData(X[order], Y[order], qid=QID[order])
    assert data.canonical().ungroup(data.canonical().y).tolist() == Y[order].tolist()
    assert data.canonical().canonical() is not data.canonical()
    again = data.canonical()
    assert again.canonical() is again


def test_chance_decides_who_comes_first_among_rows_that_differ_in_the_label_alone() -> None:
    """An order by label would put the relevant one last, or first, in each of 400 queries."""
    labels = np.tile([0.0, 1.0], 400)
    features = np.repeat(np.random.default_rng(0).normal(size=400), 2)[:, None]
    first = RankingData(features, labels, qid=np.repeat(np.arange(400), 2)).canonical().y[::2]
    assert 150 < first.sum() < 250


def test_the_hash_sees_every_value_its_column_and_nothing_else() -> None:
    plain = np.array(
        [[0.0, 1.0, np.nan], [1.0, 0.0, np.nan], [0.0, 1.0, 0.0], [5e-324, 1.0, np.nan]]
    )
    hashes = row_hashes(plain)
    assert len(set(hashes.tolist())) == 4
    assert np.array_equal(hashes, row_hashes(np.where(plain == 0, -0.0, plain)))
    assert np.array_equal(hashes, row_hashes(sp.csr_matrix(plain)))
    assert np.array_equal(hashes, row_hashes(np.asfortranarray(plain), threads=2))
    twice = sp.csr_matrix((np.array([0.5, 0.5]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    assert row_hashes(twice) == row_hashes(np.array([[0.0, 1.0, 0.0]]))
