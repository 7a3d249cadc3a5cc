"""RankingData: every container gives the same data, nothing wrong gets in, nothing is lost on the way out."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankwright import RankingData, read_data, write_data
from rankwright.data.columns import Columns, encode_features

FEATURES = np.array([[0.5, 0.0], [np.nan, 2.0], [-1.5, 0.0], [4.0, 8.0], [3.0, 0.0]])
LABELS = [1.0, 0.0, 2.5, 3.0, 0.0]
QID = ["b", "a", "b", "c", "a"]
ORDER = [1, 4, 0, 2, 3]  # the rows of a, b, c


def columns() -> dict[str, list[float | None]]:
    return {"x": [None if np.isnan(v) else v for v in FEATURES[:, 0]], "z": FEATURES[:, 1].tolist()}


def same(a: RankingData, b: RankingData) -> None:
    """Assert that two data sets agree bit by bit, NaN included."""
    dense_a, dense_b = (d.X.toarray() if sp.issparse(d.X) else d.X for d in (a, b))
    assert dense_a.astype(np.float64).tobytes() == dense_b.astype(np.float64).tobytes()
    assert a.y.tobytes() == b.y.tobytes()
    assert a.qid.tolist() == b.qid.tolist()
    assert a.query_keys.tolist() == b.query_keys.tolist()
    assert (a.weights is None) == (b.weights is None)
    if a.weights is not None and b.weights is not None:
        assert a.weights.tobytes() == b.weights.tobytes()
    assert a.feature_names == b.feature_names
    assert a.categories == b.categories


def sample(n_queries: int = 12, seed: int = 0, **options: Any) -> RankingData:
    """Data of every sort: NaN, weights, a coded category, queries of 1 to 5 rows in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_queries)
    qid = rng.permutation(np.repeat(np.arange(n_queries) * 3 + 100, sizes))
    X = rng.normal(size=(len(qid), 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = rng.integers(0, 4, len(qid))
    options = {
        "sample_weight": rng.random(len(qid)),
        "feature_names": ["bm25", "age", "kind"],
        "categorical": [2],
    } | options
    return RankingData(X, rng.integers(0, 5, len(qid)), qid=qid, **options)


# Containers


CONTAINERS: dict[str, Callable[[], Any]] = {
    "list": lambda: FEATURES.tolist(),
    "numpy": lambda: FEATURES,
    "numpy float32": lambda: FEATURES.astype(np.float32),
    "numpy in Fortran order": lambda: np.asfortranarray(FEATURES),
    "numpy objects": lambda: np.array(list(zip(*columns().values(), strict=True)), dtype=object),
    "masked": lambda: np.ma.masked_invalid(np.nan_to_num(FEATURES, nan=np.inf)),
    "csr": lambda: sp.csr_matrix(FEATURES),
    "csc": lambda: sp.csc_matrix(FEATURES),
    "coo": lambda: sp.coo_matrix(FEATURES),
    "coo float32": lambda: sp.coo_matrix(FEATURES.astype(np.float32)),
    "csr array": lambda: sp.csr_array(FEATURES),
    "pandas": lambda: pd.DataFrame(columns(), index=[9, 7, 5, 3, 1]),
    "pandas numbered": lambda: pd.DataFrame(FEATURES),
    "pandas nullable": lambda: pd.DataFrame(columns()).astype("Float64"),
    "pandas on Arrow": lambda: pd.DataFrame(columns()).astype("double[pyarrow]"),
    "polars": lambda: pl.DataFrame(columns()),
    "Arrow": lambda: pa.table(columns()),
    "Arrow chunks": lambda: pa.concat_tables(
        [pa.table(columns()).slice(0, 2), pa.table(columns()).slice(2)]
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_data(name: str) -> None:
    X = CONTAINERS[name]()
    data = RankingData(X, LABELS, qid=QID, feature_names=["u", "v"])
    same(data, RankingData(FEATURES, LABELS, qid=QID, feature_names=["u", "v"]))
    assert data.X.dtype == (np.float32 if "float32" in name else np.float64)
    assert sp.issparse(data.X) == sp.issparse(X)
    assert not sp.issparse(X) or data.X.format == "csr"


def test_attributes_are_in_grouped_order() -> None:
    data = RankingData(FEATURES, LABELS, qid=QID, sample_weight=[1, 2, 3, 4, 5])
    assert data.X.tobytes() == FEATURES[ORDER].tobytes()
    assert data.y.tolist() == [0, 0, 1, 2.5, 3]
    assert data.y.dtype == np.float64
    assert data.qid.tolist() == ["a", "a", "b", "b", "c"]
    assert data.query_ids.tolist() == ["a", "b", "c"]
    assert data.group.tolist() == [2, 2, 1]
    assert data.boundaries.tolist() == [0, 2, 4, 5]
    assert data.weights is not None
    assert data.weights.tolist() == [2, 5, 1, 3, 4]
    assert (data.n_rows, data.n_queries, len(data)) == (5, 3, 5)
    assert data.feature_names == ["f0", "f1"]
    assert data.categories == {}
    assert data.ungroup(data.y).tolist() == LABELS
    assert repr(data) == "RankingData(5 rows, 3 queries, 2 features)"


def test_integer_and_bool_arrays_become_float64() -> None:
    for X in (
        np.array([[1], [2]]),
        np.array([[True], [False]]),
        np.array([[1], [2]], dtype=np.uint8),
    ):
        data = RankingData(X, [0, 1], group=[2])
        assert data.X.dtype == np.float64
        assert data.X.tolist() == X.astype(float).tolist()
        assert RankingData(sp.csr_matrix(X), [0, 1], group=[2]).X.dtype == np.float64


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_label_and_id_columns_are_taken_by_name_from_anywhere(
    frame: Callable[[dict[str, Any]], Any],
) -> None:
    x, z = columns().values()
    expected = RankingData(FEATURES, LABELS, qid=QID, feature_names=["x", "z"])
    same(
        RankingData(frame({"q": QID, "x": x, "z": z, "grade": LABELS}), "grade", qid="q"), expected
    )
    same(
        RankingData(frame({"x": x, "grade": LABELS, "z": z, "q": QID}), "grade", qid="q"), expected
    )
    same(RankingData(frame({"x": x, "q": QID, "z": z}), LABELS, qid="q"), expected)
    same(RankingData(frame({"x": x, "z": z, "grade": LABELS}), "grade", qid=QID), expected)


BOOLS = [True, None, False]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(
            {"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array(BOOLS, dtype="boolean")}
        ),
        pd.DataFrame({"a": [1, None, 3], "b": pd.array(BOOLS, dtype="bool[pyarrow]")}),
        pl.DataFrame({"a": [1, None, 3], "b": BOOLS}),
        pa.table({"a": [1, None, 3], "b": BOOLS}),
    ],
    ids=lambda frame: type(frame).__module__,
)
def test_missing_ints_and_bools_in_frames_become_nan(frame: Any) -> None:
    data = RankingData(frame, [0, 1, 2], group=[3])
    assert np.array_equal(data.X, [[1, 1], [np.nan, np.nan], [3, 0]], equal_nan=True)


@pytest.mark.parametrize(
    ("qid", "ids"),
    [
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([3, 1, 3], dtype="Int64"), [1, 3]),
        (pd.Series([3, 1, 3], dtype="uint64[pyarrow]"), [1, 3]),
        (
            pd.Series(["2024-03-01", "2024-02-29", "2024-03-01"], dtype="M8[s]"),
            ["2024-02-29", "2024-03-01"],
        ),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_id_columns_of_pandas_types(qid: Any, ids: list[Any]) -> None:
    data = RankingData(pd.DataFrame({"q": qid, "x": [1.0, 2.0, 3.0]}), [0, 1, 2], qid="q")
    assert [str(value)[:10] for value in data.query_ids] == [str(value) for value in ids]
    assert data.X.tolist() == [[2], [1], [3]]


def test_position_counts_and_not_the_index_of_pandas() -> None:
    shuffled = [2, 0, 1]
    data = RankingData(
        pd.DataFrame({"x": [1.0, 2.0, 3.0]}),
        pd.Series([0, 1, 2], index=shuffled),
        qid=pd.Series([7, 7, 5], index=shuffled),
        sample_weight=pd.Series([0.1, 0.2, 0.3], index=shuffled),
    )
    assert data.ungroup(data.y).tolist() == [0, 1, 2]
    assert data.qid.tolist() == [5, 7, 7]
    assert data.weights is not None
    assert data.weights.tolist() == [0.3, 0.1, 0.2]


@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(1, 20), st.integers(1, 3)), elements=st.floats(-1e9, 1e9)
    ),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_ungroup_restores_the_order_of_the_rows(X: np.ndarray, draw: st.DataObject) -> None:
    qid = draw.draw(
        st.lists(st.sampled_from([1, 2, "a", (1, 2)]), min_size=len(X), max_size=len(X))
    )
    data = RankingData(X, X[:, 0] ** 2, qid=qid)
    assert data.ungroup(data.X).tobytes() == X.tobytes()
    assert data.ungroup(data.y).tolist() == (X[:, 0] ** 2).tolist()
    assert data.ungroup(data.qid).tolist() == qid
    assert all(np.array_equal(data.X[a:b], X[[q == i for q in qid]]) for i, a, b in spans(data))


def spans(data: RankingData) -> list[tuple[Any, int, int]]:
    return list(zip(data.query_ids, data.boundaries[:-1], data.boundaries[1:], strict=True))


def test_grouped_rows_are_not_copied() -> None:
    X = np.zeros((6, 3))
    for groups in ({"qid": [1, 1, 2, 2, 9, 9]}, {"qid": list("aabbcc")}, {"group": [1, 5]}):
        assert np.shares_memory(RankingData(X, np.zeros(6), **groups).X, X)
    assert not np.shares_memory(RankingData(X, np.zeros(6), qid=[2, 1, 1, 1, 1, 1]).X, X)


def test_group_numbers_the_queries_and_may_agree_with_qid() -> None:
    data = RankingData(FEATURES, LABELS, group=[2, 3], sample_weight=[10, 20])
    assert data.qid.tolist() == [0, 0, 1, 1, 1]
    assert data.weights is not None
    assert data.weights.tolist() == [10, 10, 20, 20, 20]
    assert (
        data.query_keys.tolist()
        == RankingData(FEATURES, LABELS, qid=[0, 0, 1, 1, 1]).query_keys.tolist()
    )
    both = RankingData(FEATURES, LABELS, qid=["z", "z", "a", "a", "a"], group=[2, 3])
    assert both.query_ids.tolist() == ["a", "z"]


# Categories


CATEGORIES: dict[str, Any] = {
    "pandas": pd.DataFrame({"c": pd.Categorical(["t", None, "r"], categories=["t", "s", "r"])}),
    "polars": pl.DataFrame({"c": pl.Series(["t", None, "r"], dtype=pl.Categorical)}),
    "polars enum": pl.DataFrame({"c": pl.Series(["t", None, "r"], dtype=pl.Enum(["t", "s", "r"]))}),
    "Arrow": pa.table({"c": pa.array(["t", None, "r"]).dictionary_encode()}),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categorical_types_become_sorted_codes(name: str) -> None:
    data = RankingData(CATEGORIES[name], [0, 1, 2], group=[3])
    assert np.array_equal(data.X, [[1], [np.nan], [0]], equal_nan=True)
    assert data.categories == {"c": ("r", "t")}


@pytest.mark.parametrize("categorical", [["c"], [1], [np.int64(1)]], ids=str)
@pytest.mark.parametrize(
    "text",
    [
        ["t", "r", None],
        pd.array(["t", "r", None], dtype="string"),
        pd.Series(["t", "r", pd.NA], dtype=object),
    ],
    ids=["str", "string", "object"],
)
def test_named_text_columns_become_codes(text: Any, categorical: list[Any]) -> None:
    data = RankingData(
        pd.DataFrame({"x": [1, 2, 3], "c": text}), [0, 1, 2], group=[3], categorical=categorical
    )
    assert np.array_equal(data.X, [[1, 1], [2, 0], [3, np.nan]], equal_nan=True)
    assert data.categories == {"c": ("r", "t")}


def test_named_bools_and_ints_of_frames() -> None:
    frame = pl.DataFrame({"flag": [True, False], "code": [4, 2]})
    data = RankingData(frame, [0, 1], group=[2], categorical=["flag", "code"])
    assert data.X.tolist() == [[1, 4], [0, 2]]
    assert data.categories == {"flag": (False, True), "code": None}


def test_numeric_categories_keep_their_values_as_levels() -> None:
    frame = pd.DataFrame({"c": pd.Categorical([30, 10, 30])})
    data = RankingData(frame, [0, 1, 2], group=[3])
    assert data.X.tolist() == [[1], [0], [1]]
    assert data.categories == {"c": (10, 30)}


@pytest.mark.parametrize("wrap", [np.array, sp.csr_matrix], ids=["dense", "sparse"])
def test_codes_in_arrays(wrap: Callable[[Any], Any]) -> None:
    X = wrap([[0.5, 0], [0.5, 3]])
    for categorical in ([1], ["f1"]):
        data = RankingData(X, [0, 1], group=[2], categorical=categorical)
        assert data.categories == {"f1": None}


def test_new_names_hold_for_categories_too() -> None:
    frame = pd.DataFrame({"c": ["t", "r"], "x": [1, 2]})
    data = RankingData(
        frame, [0, 1], group=[2], feature_names=["site", "age"], categorical=["site"]
    )
    assert data.feature_names == ["site", "age"]
    assert data.categories == {"site": ("r", "t")}
    other = RankingData(
        frame[::-1], [0, 1], group=[2], feature_names=["site", "age"], reference=data
    )
    assert other.X.tolist() == [[0, 2], [1, 1]]


def test_reference_takes_over_codes_and_the_order_of_columns() -> None:
    train = RankingData(
        pd.DataFrame({"c": ["t", "r"], "x": [1, 2]}), [0, 1], group=[2], categorical=["c"]
    )
    frame = pl.DataFrame({"x": [5, 6, 7], "c": ["t", "new", None]})
    data = RankingData(frame, [0, 1, 2], group=[3], reference=train)
    assert data.feature_names == ["c", "x"]
    assert np.array_equal(data.X, [[1, 5], [np.nan, 6], [np.nan, 7]], equal_nan=True)
    assert data.categories == train.categories
    codes = RankingData([[1, 5]], [0], group=[1], reference=train)
    assert codes.categories == train.categories
    assert codes.feature_names == ["c", "x"]


def test_reference_takes_over_numeric_levels() -> None:
    train = RankingData(pd.DataFrame({"c": pd.Categorical([30, 10])}), [0, 1], group=[2])
    data = RankingData(pd.DataFrame({"c": [10, 30, 20]}), [0, 1, 2], group=[3], reference=train)
    assert np.array_equal(data.X, [[0], [1], [np.nan]], equal_nan=True)


def test_reference_without_a_level_knows_none_later() -> None:
    train = RankingData(pd.DataFrame({"c": pd.Categorical([None, None])}), [0, 1], group=[2])
    assert train.categories == {"c": ()}
    data = RankingData(
        pd.DataFrame({"c": pd.Categorical(["r", "t"])}), [0, 1], group=[2], reference=train
    )
    assert np.isnan(data.X).all()
    assert data.categories == {"c": ()}


# Refusals

X3 = [[1.0], [2.0], [3.0]]
TRAIN = RankingData(
    pd.DataFrame({"x": [1.0, 2.0], "c": ["r", "t"]}), [0, 1], group=[2], categorical=["c"]
)
CODES = RankingData([[1.0, 0]], [0], group=[1], feature_names=["x", "c"], categorical=["c"])
FRAME = pd.DataFrame({"x": [1.0, 2.0, 3.0], "z": [4.0, 5.0, 6.0], "q": [1, 1, 2]})
REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "no qid": (lambda: RankingData(X3, [0, 1, 2]), r"no query ids.*Pass qid="),
    "short qid": (lambda: RankingData(X3, [0, 1, 2], qid=[1]), "qid has 1 entries for 3 rows"),
    "long y": (
        lambda: RankingData(X3, [0, 1, 2, 3], group=[3]),
        r"labels have shape \(4,\) for 3 rows",
    ),
    "y a matrix": (
        lambda: RankingData(X3, np.array([[0], [1], [2]]), group=[3]),
        r"shape \(3, 1\)",
    ),
    "short group": (
        lambda: RankingData(X3, [0, 1, 2], group=[2]),
        "group adds up to 2 rows but there are 3",
    ),
    "ids as group": (
        lambda: RankingData(X3, [0, 1, 2], group=[8, 8, 9]),
        "pass it as qid= instead",
    ),
    "ids from 0 as group": (
        lambda: RankingData(X3, [0, 1, 2], group=[0, 0, 1]),
        "pass it as qid= instead",
    ),
    "cut": (
        lambda: RankingData(X3, [0, 1, 2], qid=[5, 5, 6], group=[1, 2]),
        "group splits query 5 between rows 0 and 1",
    ),
    "disagree": (
        lambda: RankingData(X3, [0, 1, 2], qid=[5, 5, 6], group=[3]),
        "group and qid disagree near row 2",
    ),
    "short weights": (
        lambda: RankingData(X3, [0, 1, 2], qid=[1, 1, 2], sample_weight=[1]),
        r"weights have shape \(1,\)",
    ),
    "bad weights": (
        lambda: RankingData(X3, [0, 1, 2], group=[3], sample_weight=[1, -1, 1]),
        r"weights\[1\] is -1.0",
    ),
    "weights by name": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", sample_weight="z"),
        "weights must be numbers",
    ),
    "infinite label": (
        lambda: RankingData(X3, [0, 1, np.inf], qid=[9, 9, 3]),
        "got inf at row 2, query 3",
    ),
    "negative label": (
        lambda: RankingData(X3, [0, -1, 0], qid=[9, 3, 3]),
        "got -1.0 at row 1, query 3",
    ),
    "text label": (
        lambda: RankingData(X3, ["good", "bad", "bad"], group=[3]),
        "labels must be numbers",
    ),
    "infinite feature": (
        lambda: RankingData(
            [[1, 2], [1, -np.inf], [1, 2]], [0, 1, 2], qid=[7, 5, 5], feature_names=["u", "v"]
        ),
        r"feature 'v' is infinite at row 1, query 5\. Use NaN for a missing value",
    ),
    "infinite sparse feature": (
        lambda: RankingData(sp.csr_matrix([[0, 2], [0, 0], [np.inf, 2]]), [0, 1, 2], qid=[7, 5, 5]),
        "feature 'f0' is infinite at row 2, query 5",
    ),
    "infinite float32": (
        lambda: RankingData(np.array([[1], [np.inf]], np.float32), [0, 1], qid=[2, 1]),
        "feature 'f0' is infinite at row 1, query 1",
    ),
    "no rows": (
        lambda: RankingData(np.empty((0, 2)), [], qid=[]),
        r"the data is empty: it has 0 row\(s\) and 2 feature\(s\)",
    ),
    "no columns": (
        lambda: RankingData(np.empty((3, 0)), [0, 1, 2], group=[3]),
        r"3 row\(s\) and 0 feature\(s\)",
    ),
    "empty frame": (
        lambda: RankingData(pd.DataFrame(), [], group=[]),
        r"the data is empty: it has 0 row\(s\) and 0 feature\(s\)",
    ),
    "only ids in the frame": (
        lambda: RankingData(FRAME[["q"]], [0, 1, 2], qid="q"),
        r"3 row\(s\) and 0 feature\(s\)",
    ),
    "None as id": (
        lambda: RankingData(X3, [0, 1, 2], qid=["a", None, "b"]),
        "the query id at row 1 is missing",
    ),
    "null id": (
        lambda: RankingData(
            pa.table({"q": pa.array(["a", "b", None]).dictionary_encode(), "x": [1, 2, 3]}),
            [0] * 3,
            qid="q",
        ),
        "the query id at row 2 is missing",
    ),
    "NA id": (
        lambda: RankingData(
            FRAME.assign(q=pd.array([1, None, 2], dtype="Int64")), [0, 1, 2], qid="q"
        ),
        "the query id at row 1 is missing",
    ),
    "unhashable id": (
        lambda: RankingData(X3, [0, 1, 2], qid=[[1], [2], [3]]),
        "is a list, which is not hashable",
    ),
    "X of one dimension": (
        lambda: RankingData([1.0, 2.0], [0, 1], group=[2]),
        r"X must be a table.*X.reshape\(-1, 1\)",
    ),
    "X of three dimensions": (
        lambda: RankingData(np.zeros((2, 2, 2)), [0, 1], group=[2]),
        "X must be a table",
    ),
    "series as X": (
        lambda: RankingData(pd.Series([1.0, 2.0]), [0, 1], group=[2]),
        "X must be a table",
    ),
    "ragged X": (
        lambda: RankingData([[1], [2, 3]], [0, 1], group=[2]),
        "rows of X have different lengths",
    ),
    "text in an array": (
        lambda: RankingData([["r"], ["t"]], [0, 1], group=[2]),
        "X holds values that are not numbers",
    ),
    "digits as text": (
        lambda: RankingData([["1"], ["2"]], [0, 1], group=[2]),
        "X holds values that are not numbers",
    ),
    "objects in an array": (
        lambda: RankingData([[{}], [1]], [0, 1], group=[2]),
        "X holds values that are not numbers",
    ),
    "complex": (lambda: RankingData([[1j], [1]], [0, 1], group=[2]), "Complex data not supported"),
    "text column": (
        lambda: RankingData(FRAME.assign(t="r"), [0, 1, 2], qid="q"),
        r"column 't' has the type String \(categories\), not numbers\. Drop a column .* categorical must name it",
    ),
    "lazy frame": (
        lambda: RankingData(pl.LazyFrame({"a": [1.0]}), [0], group=[1]),
        r"a LazyFrame has no rows yet, only a recipe for them; give what it yields: \.collect\(\) of polars",
    ),
    "too large a whole number": (
        lambda: RankingData([[10**400]], [0], group=[1]),
        "X holds a whole number that is too large for a float",
    ),
    "lists as categories": (
        lambda: RankingData(pd.DataFrame({"a": [[1], [2]]}), [0, 1], group=[2], categorical=["a"]),
        "column 'a' has the type Object, whose values cannot be categories; turn them into text",
    ),
    "dates as categories": (
        lambda: RankingData(
            pd.DataFrame({"a": pd.Categorical([dt.date(2024, 1, 1)])}), [0], group=[1]
        ),
        "column 'a' has categories of the type date, such as 2024-01-01, which a saved model cannot hold; turn them",
    ),
    "numbers for categories of text": (
        lambda: RankingData(
            pd.DataFrame({"a": [7.0]}), [0], group=[1], reference=Columns(["a"], {"a": ("r", "s")})
        ),
        "column 'a' has the type Float64, but its categories are text in the training data, such as 'r'; give the text",
    ),
    "a code that no category has": (
        lambda: RankingData([[2.0]], [0], group=[1], reference=Columns(["a"], {"a": ("r", "s")})),
        "categorical column 'a' has the code 2, but the training data has 2 categories, whose codes count from 0",
    ),
    "text for numbers": (
        lambda: RankingData(
            pd.DataFrame({"a": ["r"]}), [0], group=[1], reference=Columns(["a"], {})
        ),
        "column 'a' has the type String, but numbers in the training data; convert it",
    ),
    "date column": (
        lambda: RankingData(pl.DataFrame({"d": [dt.date(2024, 1, 1)]}), [0], group=[1]),
        r"column 'd' has the type Date \(dates; give a number, such as the age in days\), not numbers",
    ),
    "no such y": (
        lambda: RankingData(FRAME, "grade", qid="q"),
        "y='grade' is not a column of the data; it has x, z, q",
    ),
    "no such qid": (
        lambda: RankingData(FRAME, "x", qid="query"),
        "qid='query' is not a column of the data; it has z, q",
    ),
    "y named for an array": (
        lambda: RankingData(X3, "y", group=[3]),
        "y='y' names a column, but X is a list",
    ),
    "qid named for an array": (
        lambda: RankingData(np.eye(3), [0, 1, 2], qid="q"),
        r"qid='q' names a column, but X is a ndarray.*Pass qid as an array, or X as a data frame",
    ),
    "names too few": (
        lambda: RankingData(X3, [0, 1, 2], group=[3], feature_names=["a", "b"]),
        "feature_names has 2 names for 1 columns",
    ),
    "names too few for a frame": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", feature_names=["a"]),
        "feature_names has 1 names for 2 columns",
    ),
    "names twice": (
        lambda: RankingData(np.eye(2), [0, 1], group=[2], feature_names=["a", "a"]),
        "feature name 'a' occurs twice; give each column its own name",
    ),
    "columns twice": (
        lambda: RankingData(pd.DataFrame([[1, 2]], columns=["a", "a"]), [0], group=[1]),
        "column 'a' occurs twice; give each column its own name",
    ),
    "1 and '1' as names": (
        lambda: RankingData(pd.DataFrame([[1, 2]], columns=[1, "1"]), [0], group=[1]),
        "feature name '1' occurs twice",
    ),
    "no such category": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", categorical=["site"]),
        "categorical column 'site' is not a column of the data; it has x, z",
    ),
    "no such category number": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", categorical=[2]),
        "categorical column 2 is",
    ),
    "negative category number": (
        lambda: RankingData(X3, [0, 1, 2], group=[3], categorical=[-1]),
        "categorical column -1",
    ),
    "category not in a list": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", categorical="xz"),
        r"categorical must be a list of columns; write categorical=\['xz'\]",
    ),
    "negative code": (
        lambda: RankingData([[0], [-1]], [0, 1], group=[2], categorical=[0]),
        "categorical column 'f0' must hold whole numbers from 0",
    ),
    "negative code by reference": (
        lambda: RankingData([[1.0, -1]], [0], group=[1], reference=CODES),
        "categorical column 'c' must hold whole numbers from 0",
    ),
    "fraction as a code": (
        lambda: RankingData(FRAME.assign(c=[0.5, 1, 2]), [0, 1, 2], qid="q", categorical=["c"]),
        "categorical column 'c' must hold whole numbers from 0",
    ),
    "column missing": (
        lambda: RankingData(FRAME[["x"]], [0, 1, 2], group=[3], reference=TRAIN),
        r"columns of the data \(1\) are not those of the training data \(2\)\. Missing: c\. Give the same columns",
    ),
    "column too many": (
        lambda: RankingData(FRAME.assign(c="r"), [0, 1, 2], qid="q", reference=TRAIN),
        "Not expected: z",
    ),
    "other column": (
        lambda: RankingData(FRAME, [0, 1, 2], qid="q", reference=TRAIN),
        r"are not those of the training data \(2\)\. Missing: c\. Not expected: z\.",
    ),
    "other width": (
        lambda: RankingData(np.eye(3), [0, 1, 2], group=[3], reference=TRAIN),
        "X has 3 features, but Ranker is expecting 2 features",
    ),
    "other order": (
        lambda: RankingData([[0, 1]], [0], group=[1], feature_names=["c", "x"], reference=TRAIN),
        "column 0 is 'c', but 'x' in the training data; give the columns in the same order",
    ),
    "category where numbers were": (
        lambda: RankingData(
            pd.DataFrame({"x": pd.Categorical(["r"]), "c": ["r"]}), [0], group=[1], reference=TRAIN
        ),
        "column 'x' holds categories here but numbers in the training data",
    ),
    "text where codes were": (
        lambda: RankingData(pd.DataFrame({"x": [1], "c": ["r"]}), [0], group=[1], reference=CODES),
        "column 'c' holds text here but codes in the training data",
    ),
    "other columns checked later": (
        lambda: RankingData(X3, [0, 1, 2], group=[3], feature_names=["y"]).check_columns(TRAIN),
        r"Missing: x, c\. Not expected: y",
    ),
    "empty subset": (lambda: TRAIN.subset([]), "no query was selected"),
    "empty mask": (lambda: TRAIN.subset([False]), "no query was selected"),
    "mask too long": (
        lambda: TRAIN.subset([True, True]),
        r"the mask has shape \(2,\) for 1 queries",
    ),
    "no such query": (
        lambda: TRAIN.subset([1]),
        r"queries must be distinct numbers from 0 to 0; got \[1\]",
    ),
    "negative query": (lambda: TRAIN.subset([-1]), "queries must be distinct numbers"),
    "query twice": (lambda: TRAIN.subset([0, 0]), "queries must be distinct numbers"),
    "half a query": (lambda: TRAIN.subset([0.5]), "queries must be a list of query numbers"),
    "queries in a square": (lambda: TRAIN.subset([[0]]), "queries must be a list of query numbers"),
    "split leaves nothing": (
        lambda: sample().split(0.01),
        "a share of 0.01 of 12 queries leaves one side empty",
    ),
    "split takes all": (lambda: sample().split(1.0), "leaves one side empty"),
    "one fold": (lambda: list(sample().kfold(1)), "k=1 folds of 12 queries"),
    "more folds than queries": (lambda: list(sample().kfold(13)), "k=13 folds of 12 queries"),
    "nothing to concatenate": (lambda: RankingData.concatenate([]), "nothing to concatenate"),
    "query in two parts": (
        lambda: RankingData.concatenate([sample(), sample()]),
        "query 100 is in two of the parts",
    ),
    "parts with other columns": (
        lambda: RankingData.concatenate([sample(), TRAIN]),
        "Missing: bm25, age, kind",
    ),
    "parts with other categories": (
        lambda: RankingData.concatenate([sample(), sample(categorical=None)]),
        "categories differ between the parts; create the later ones with reference= the first",
    ),
}


@pytest.mark.parametrize(
    "create",
    [
        lambda: RankingData(X3, [1, 2, np.nan], qid=["b", "a", "a"]),
        lambda: RankingData(pl.DataFrame({"x": [1, 2], "y": [1, None]}), "y", qid=[1, 2]),
        lambda: RankingData(
            pa.table({"x": [1, 2], "y": pa.array([1, None]).dictionary_encode()}), "y", qid=[1, 2]
        ),
        lambda: RankingData(X3, pd.Series([0, 1, None], dtype="Int64"), qid=[1, 1, 2]),
    ],
    ids=["NaN", "null", "null among categories", "NA"],
)
def test_missing_labels_are_missing_whatever_holds_them(create: Callable[[], RankingData]) -> None:
    data = create()
    assert np.flatnonzero(np.isnan(data.ungroup(data.y))).tolist() == [data.n_rows - 1]


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    call, message = REFUSALS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_an_infinity_far_down_is_found() -> None:
    X = np.zeros((150_000, 1))
    X[140_000] = np.inf
    with pytest.raises(ValueError, match="row 140000, query 14000"):
        RankingData(X, np.zeros(len(X)), qid=np.arange(len(X)) // 10)


# Parts


def rows_of(data: RankingData) -> list[tuple[Any, ...]]:
    """Every row with all that belongs to it, comparable also where it holds NaN."""
    weights = np.zeros(len(data)) if data.weights is None else data.weights
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    return [
        tuple(map(repr, row)) for row in zip(data.qid, data.y, weights, X.tolist(), strict=True)
    ]


def test_subset_by_number_and_mask() -> None:
    data = sample()
    part = data.subset([7, 2])
    assert part.query_ids.tolist() == [106, 121]
    assert rows_of(part) == [
        row for row in rows_of(data) if row[0] in (repr(np.int64(106)), repr(np.int64(121)))
    ]
    assert part.query_keys.tolist() == data.query_keys[[2, 7]].tolist()
    assert part.feature_names == data.feature_names
    assert part.categories == data.categories == {"kind": None}
    mask = np.isin(np.arange(12), [2, 7])
    same(data.subset(mask), part)
    assert data.subset(3).query_ids.tolist() == [109]


def test_split_is_disjoint_complete_and_the_same_for_a_seed() -> None:
    data = sample()
    rest, part = data.split(0.25, random_state=3)
    assert (rest.n_queries, part.n_queries) == (9, 3)
    assert sorted(rows_of(rest) + rows_of(part)) == sorted(rows_of(data))
    assert not set(rest.query_ids) & set(part.query_ids)
    same(part, data.split(0.25, random_state=3)[1])
    assert part.query_ids.tolist() != data.split(0.25, random_state=4)[1].query_ids.tolist()


def test_split_does_not_depend_on_the_order_of_the_rows() -> None:
    data = sample(sample_weight=None)
    backwards = RankingData(
        data.X[::-1],
        data.y[::-1],
        qid=data.qid[::-1],
        feature_names=data.feature_names,
        categorical=[2],
    )
    assert backwards.split(0.5)[1].query_ids.tolist() == data.split(0.5)[1].query_ids.tolist()


def test_kfold_tests_each_query_once() -> None:
    data = sample()
    folds = list(data.kfold(5, random_state=1))
    assert [test.n_queries for _, test in folds] == [3, 3, 2, 2, 2]
    assert sorted(q for _, test in folds for q in test.query_ids) == data.query_ids.tolist()
    for train, test in folds:
        assert sorted(rows_of(train) + rows_of(test)) == sorted(rows_of(data))
        assert not set(train.query_ids) & set(test.query_ids)
    again = [test.query_ids.tolist() for _, test in data.kfold(5, random_state=1)]
    assert again == [test.query_ids.tolist() for _, test in folds]
    assert again != [test.query_ids.tolist() for _, test in data.kfold(5, random_state=2)]


def test_concatenate_puts_the_parts_together_again() -> None:
    data = sample()
    a, b, c = data.subset([1, 4]), data.subset([0, 2, 3]), data.subset(range(5, 12))
    same(RankingData.concatenate([c, a, b]), data)


def test_concatenate_weights_sparse_and_dense() -> None:
    a = RankingData(sp.csr_matrix([[1.0]]), [1], qid=["b"], sample_weight=[5])
    b = RankingData([[2.0]], [0], qid=["a"])
    joined = RankingData.concatenate([a, b])
    assert sp.issparse(joined.X)
    assert joined.X.toarray().tolist() == [[2], [1]]
    assert joined.weights is not None
    assert joined.weights.tolist() == [1, 5]
    assert RankingData.concatenate([b]).weights is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a"], ["long"]),
        ([1], ["1"]),
        ([1], [2**64 - 1]),
        ([(1, 2)], [(0, 1)]),
        (np.array(["2024-01-01"], "M8[ns]"), np.array(["2023-01-01"], "M8[ns]")),
        (np.array(["2024-01-01"], "M8[ns]"), np.array(["2023-01-01"], "M8[us]")),
        (np.array(["2024-01-01"], "M8[ns]"), ["x"]),
    ],
    ids=str,
)
def test_concatenate_keeps_ids_and_keys(first: Any, second: Any) -> None:
    a, b = (RankingData([[1.0]], [1], qid=qid) for qid in (first, second))
    joined = RankingData.concatenate([a, b])
    assert sorted(joined.query_keys.tolist()) == sorted(
        a.query_keys.tolist() + b.query_keys.tolist()
    )
    assert joined.group.tolist() == [1, 1]


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_parts_of_float32_stay_float32(wrap: Callable[[Any], Any]) -> None:
    data = RankingData(wrap(np.eye(4, dtype=np.float32)), [0, 1, 2, 3], qid=[1, 2, 3, 4])
    a, b = data.split(0.5)
    assert RankingData.concatenate([a, b]).X.dtype == np.float32


# Parquet


IDS: dict[str, Any] = {
    "ints": [3, 1, 3],
    "unsigned": np.array([2**64 - 1, 1, 2**64 - 1], np.uint64),
    "text": ["ü", "a", "ü"],
    "objects": np.array([2**40, 1, 2**40], dtype=object),
    "floats": [0.5, 0.1, 0.5],
    "days": np.array(["2024-03-01", "2024-02-29", "2024-03-01"], "M8[D]"),
    "nanoseconds": np.array(["2024-03-01", "2024-02-29", "2024-03-01"], "M8[ns]"),
}


@pytest.mark.parametrize("name", IDS)
def test_parquet_round_trip_of_ids(name: str, tmp_path: Path) -> None:
    data = RankingData([[1.0], [2.0], [3.0]], [0, 1, 2], qid=IDS[name])
    write_data(data, tmp_path / "data.parquet")
    same(read_data(tmp_path / "data.parquet"), data)


@pytest.mark.parametrize("options", [{}, {"sample_weight": None}, {"categorical": None}], ids=str)
def test_parquet_round_trip_bit_by_bit(options: dict[str, Any], tmp_path: Path) -> None:
    data = sample(**options)
    data.X[0, 0], data.X[1, 0] = 5e-324, -0.0
    write_data(data, str(tmp_path / "data.parquet"))
    same(read_data(str(tmp_path / "data.parquet")), data)
    assert os.listdir(tmp_path) == ["data.parquet"]


def test_parquet_keeps_levels_that_no_row_has(tmp_path: Path) -> None:
    train = RankingData(
        pd.DataFrame({"c": ["t", "r", "s"], "n": pd.Categorical([7, 8, 9])}),
        [0, 1, 2],
        qid=[1, 2, 3],
        categorical=["c"],
    )
    write_data(train.subset([0, 2]), tmp_path / "part.parquet")
    part = read_data(tmp_path / "part.parquet")
    same(part, train.subset([0, 2]))
    assert part.categories == {"c": ("r", "s", "t"), "n": (7, 8, 9)}


def test_parquet_is_recoded_for_a_reference(tmp_path: Path) -> None:
    train = RankingData(
        pd.DataFrame({"c": ["t", "r"], "x": [1, 2]}), [0, 1], group=[2], categorical=["c"]
    )
    other = RankingData(
        pd.DataFrame({"x": [5, 6, 7], "c": ["t", "z", None]}),
        [0, 1, 2],
        group=[3],
        categorical=["c"],
    )
    write_data(other, tmp_path / "other.parquet")
    data = read_data(tmp_path / "other.parquet", reference=train)
    assert np.array_equal(data.X, [[1, 5], [np.nan, 6], [np.nan, 7]], equal_nan=True)
    assert data.categories == train.categories
    write_data(CODES, tmp_path / "codes.parquet")
    same(read_data(tmp_path / "codes.parquet", reference=CODES), CODES)


def test_a_feature_named_weight_stays_a_feature(tmp_path: Path) -> None:
    data = RankingData([[1.0], [2.0]], [0, 1], group=[2], feature_names=["weight"])
    write_data(data, tmp_path / "data.parquet")
    same(read_data(tmp_path / "data.parquet"), data)


def test_foreign_parquet_with_other_names(tmp_path: Path) -> None:
    table = {
        "x": [1.0, None, 3.0],
        "topic": ["b", "a", "b"],
        "grade": [0, 1, 2],
        "w": [0.1, 0.2, 0.3],
        "weight": [7, 8, 9],
    }
    pq.write_table(pa.table(table), tmp_path / "foreign.parquet")
    data = read_data(tmp_path / "foreign.parquet", label="grade", qid="topic", weight="w")
    same(
        data,
        RankingData(
            [[1, 7], [np.nan, 8], [3, 9]],
            [0, 1, 2],
            qid=["b", "a", "b"],
            sample_weight=[0.1, 0.2, 0.3],
            feature_names=["x", "weight"],
        ),
    )


def test_the_index_that_pandas_stores_is_not_a_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "label": [0, 1], "qid": [5, 5]}, index=[40, 30])
    frame.to_parquet(tmp_path / "numbered.parquet")
    assert read_data(tmp_path / "numbered.parquet").feature_names == ["x"]
    frame.set_index("qid").to_parquet(tmp_path / "named.parquet")
    assert read_data(tmp_path / "named.parquet").qid.tolist() == [5, 5]


def test_a_failing_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    write_data(sample(seed=1), path)
    old = path.read_bytes()

    def half(table: Any, where: Any) -> None:
        where.write(b"half")
        raise OSError("disk full")

    with mock.patch("pyarrow.parquet.write_table", half), pytest.raises(OSError, match="disk full"):
        write_data(sample(seed=2), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["data.parquet"]
    write_data(sample(seed=2), path)
    same(read_data(path), sample(seed=2))


def test_written_files_are_readable_by_whom_the_folder_lets(tmp_path: Path) -> None:
    write_data(sample(), tmp_path / "data.parquet")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "data.parquet").stat().st_mode == (tmp_path / "plain").stat().st_mode


PARQUET_REFUSALS: dict[str, tuple[Callable[[], RankingData], str]] = {
    "sparse": (
        lambda: RankingData(sp.csr_matrix([[1.0]]), [0], group=[1]),
        "this data is sparse; use write_letor",
    ),
    "tuples": (lambda: RankingData([[1.0]], [0], qid=[(1, 2)]), "query ids of one plain type"),
    "mixed": (
        lambda: RankingData([[1.0], [2.0]], [0, 1], qid=[1, "a"]),
        "query ids of one plain type",
    ),
    "label": (
        lambda: RankingData([[1.0]], [0], group=[1], feature_names=["label"]),
        "a feature is named 'label'",
    ),
    "qid": (
        lambda: RankingData([[1.0]], [0], group=[1], feature_names=["qid"]),
        "a feature is named 'qid'",
    ),
    "weight": (
        lambda: RankingData([[1.0]], [0], group=[1], feature_names=["weight"], sample_weight=[1]),
        "a feature is named 'weight', which the file needs itself; rename the feature",
    ),
}


@pytest.mark.parametrize("name", PARQUET_REFUSALS)
def test_what_parquet_cannot_hold(name: str, tmp_path: Path) -> None:
    make, message = PARQUET_REFUSALS[name]
    with pytest.raises(ValueError, match=message):
        write_data(make(), tmp_path / "data.parquet")
    assert os.listdir(tmp_path) == []


def test_parquet_columns_that_do_not_exist(tmp_path: Path) -> None:
    write_data(sample(), tmp_path / "data.parquet")
    for option in ("label", "qid", "weight"):
        with pytest.raises(ValueError, match="has no column 'nothing'; it has"):
            read_data(tmp_path / "data.parquet", **{option: "nothing"})


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_without_a_value_is_missing_whatever_its_type(library: Any) -> None:
    frame = library.DataFrame({"a": [1.0, 2.0], "b": [None, None]})
    assert np.isnan(RankingData(frame, [0, 1], group=[2]).X[:, 1]).all()


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, pd.DataFrame])
def test_rows_to_predict_with_an_infinite_value_are_refused_by_name(convert: Any) -> None:
    columns = Columns(["bm25", "length"], {}, named=False)
    with pytest.raises(ValueError, match="infinite value at row 1, feature 'length'; use NaN"):
        encode_features(convert(np.array([[1.0, 2.0], [3.0, np.inf]])), columns)
