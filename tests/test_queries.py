"""Queries: the grouping laws, ids of every type, and keys that depend on the id alone."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.data.queries import Queries, check_labels, is_missing, plain_ids, query_keys

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)


class Site(NamedTuple):
    country: str
    number: int


class Colour(IntEnum):
    RED = 5


Tongue = Enum("Tongue", {"LATIN": "la"}, type=str)


class Plain:
    """Hashable, but printed as a memory address."""


def key(value: Any) -> int:
    return int(Queries.from_qid([value]).keys[0])


def key_of(queries: Queries, value: Any) -> int:
    return int(queries.keys[queries.ids.tolist().index(value)])


# The grouping laws

ID_LISTS = st.one_of(
    st.lists(st.integers(-3, 3), min_size=1),
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1),
    st.lists(st.sampled_from([0.5, 1.0, -2.0, 1e300, float("inf")]), min_size=1),
    st.lists(st.sampled_from(["a", "b", "", "ä", "10", "9"]), min_size=1),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), min_size=1),
    st.lists(st.sampled_from([1, "1", 2.5, (1,), DAY, b"x", frozenset("ab")]), min_size=1),
    st.lists(st.dates(DAY, DAY + dt.timedelta(3)), min_size=1),
)


def test_negative_and_very_large_ids_have_keys_of_their_own() -> None:
    """-1 and 2^64 - 1 have the same 64 bits; as an array, a list or beside others an id has the same key."""
    assert len(set(Queries.from_qid([0, 2**64 - 1, -1]).keys.tolist())) == 3
    for value in (2**64 - 1, 2**63):
        assert key(value) == int(Queries.from_qid(np.array([value], dtype=np.uint64)).keys[0])
    for value in (-1, -(2**63), 5):
        assert key(value) == int(Queries.from_qid(np.array([value], dtype=np.int64)).keys[0])
    assert key_of(Queries.from_qid([0, 2**64 - 1, -1]), 2**64 - 1) == key(2**64 - 1)


@given(ID_LISTS)
@settings(max_examples=300, deadline=None)
def test_grouping_laws(ids: list[Any]) -> None:
    queries = Queries.from_qid(ids)
    rows = np.arange(len(ids))
    grouped = queries.group(rows)
    assert queries.n_rows == len(ids)
    assert queries.n_queries == len(set(ids)) == len(set(queries.keys.tolist()))
    assert np.array_equal(queries.ungroup(grouped), rows)
    assert (queries.order is None) == np.array_equal(grouped, rows)
    for q, (start, stop) in enumerate(
        zip(queries.boundaries[:-1], queries.boundaries[1:], strict=True)
    ):
        mine = [row for row, value in enumerate(ids) if value == queries.ids[q]]
        assert grouped[start:stop].tolist() == mine  # whole, contiguous and in the caller's order
        assert queries.first_row[q] == mine[0]
        assert queries.sizes[q] == len(mine)
        assert (queries.query_of_row[start:stop] == q).all()
        assert queries.where(int(start)) == f"row {mine[0]}, query {queries.ids[q]}"


@given(ID_LISTS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_the_order_of_the_rows_changes_neither_queries_nor_keys(
    ids: list[Any], random: Any
) -> None:
    shuffled = random.sample(ids, len(ids))
    a, b = Queries.from_qid(ids), Queries.from_qid(shuffled)
    assert a.ids.tolist() == b.ids.tolist()
    assert a.sizes.tolist() == b.sizes.tolist()
    assert a.keys.tolist() == b.keys.tolist()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([10, 9, 10], [9, 10]),
        (["10", "9", "10"], ["10", "9"]),
        ([2.5, -1, True], [-1, True, 2.5]),
        ([(1, "b"), (1, "a")], [(1, "a"), (1, "b")]),
        ([NOON, NOON - dt.timedelta(1)], [NOON - dt.timedelta(1), NOON]),
        ([2**63 + 2, -1, 2**63 + 1], [-1, 2**63 + 1, 2**63 + 2]),
        ([2**63 + 2, 1, 2**63 + 1], [1, 2**63 + 1, 2**63 + 2]),
        ([2**70, 2**70 + 1], [2**70, 2**70 + 1]),
        (range(3, 0, -1), [1, 2, 3]),
        ((value for value in "ba"), ["a", "b"]),
        (np.array([(2, 1), (1, 9)], dtype="i4,i4"), [(1, 9), (2, 1)]),
    ],
)
def test_ids_ascend_and_are_never_merged(ids: Any, expected: list[Any]) -> None:
    assert Queries.from_qid(ids).ids.tolist() == expected


def test_ids_without_an_order_of_their_own_are_ordered_the_same_way_for_any_row_order() -> None:
    for ids in ([1, "1", (1,)], [frozenset({1}), frozenset({2}), frozenset({1, 3})]):
        orders = {tuple(Queries.from_qid(list(rows)).ids.tolist()) for rows in permutations(ids)}
        assert len(orders) == 1


TEXT = ["b", "a", "b"]
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "list": (TEXT, ["a", "b"]),
    "tuple": (tuple(TEXT), ["a", "b"]),
    "numpy text": (np.array(TEXT), ["a", "b"]),
    "numpy objects": (np.array(TEXT, dtype=object), ["a", "b"]),
    "numpy bytes": (np.array([b"b", b"a", b"b"]), [b"a", b"b"]),
    "numpy unsigned": (np.array([2**64 - 1, 1, 2**64 - 1], dtype=np.uint64), [1, 2**64 - 1]),
    "numpy bool": (np.array([True, False, True]), [False, True]),
    "numpy days": (
        np.array(["2024-03-01", "2024-02-29", "2024-03-01"], "M8[D]"),
        [DAY, dt.date(2024, 3, 1)],
    ),
    "numpy scalars": ([np.int64(3), np.int64(1), np.int64(3)], [1, 3]),
    "pandas": (pd.Series(TEXT, index=[2, 0, 1]), ["a", "b"]),
    "pandas index": (pd.Index(TEXT), ["a", "b"]),
    "pandas string": (pd.Series(TEXT, dtype="string"), ["a", "b"]),
    "pandas category": (pd.Series(TEXT, dtype="category"), ["a", "b"]),
    "pandas Int64": (pd.Series([3, 1, 3], dtype="Int64"), [1, 3]),
    "pandas boolean": (pd.Series([True, False, True], dtype="boolean"), [False, True]),
    "pandas on Arrow": (pd.Series([3, 1, 3], dtype="int64[pyarrow]"), [1, 3]),
    "pandas text on Arrow": (pd.Series(TEXT, dtype="string[pyarrow]"), ["a", "b"]),
    "polars": (pl.Series(TEXT), ["a", "b"]),
    "polars ints": (pl.Series([3, 1, 3]), [1, 3]),
    "polars categorical": (pl.Series(TEXT, dtype=pl.Categorical), ["a", "b"]),
    "polars enum": (pl.Series(TEXT, dtype=pl.Enum(["b", "a"])), ["a", "b"]),
    "polars unsigned": (pl.Series([2**63 + 3, 1, 2**63 + 3], dtype=pl.UInt64), [1, 2**63 + 3]),
    "polars dates": (
        pl.Series([dt.date(2024, 3, 1), DAY, dt.date(2024, 3, 1)]),
        [DAY, dt.date(2024, 3, 1)],
    ),
    "Arrow": (pa.array(TEXT), ["a", "b"]),
    "Arrow ints": (pa.array([3, 1, 3]), [1, 3]),
    "Arrow bools": (pa.array([True, False, True]), [False, True]),
    "Arrow chunks": (pa.chunked_array([["b"], ["a", "b"]]), ["a", "b"]),
    "Arrow int chunks": (pa.chunked_array([[3], [1, 3]]), [1, 3]),
    "Arrow unsigned chunks": (
        pa.chunked_array(
            [pa.array([2**63 + 3, 1], pa.uint64()), pa.array([2**63 + 3], pa.uint64())]
        ),
        [1, 2**63 + 3],
    ),
    "Arrow dictionary": (pa.array(TEXT).dictionary_encode(), ["a", "b"]),
    "Arrow dates": (
        pa.array([dt.date(2024, 3, 1), DAY, dt.date(2024, 3, 1)]),
        [DAY, dt.date(2024, 3, 1)],
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_library(name: str) -> None:
    column, ids = COLUMNS[name]
    queries = Queries.from_qid(column)
    assert queries.ids.tolist() == ids
    assert queries.sizes.tolist() == [1, 2]
    assert queries.order is not None
    assert queries.order.tolist() == [1, 0, 2]
    assert queries.keys.tolist() == [key(value) for value in ids]


# Keys


@pytest.mark.parametrize(
    "equal",
    [
        [5, np.int64(5), np.uint8(5), 5.0, np.float32(5), Decimal(5), Fraction(5), Colour.RED],
        [0, 0.0, -0.0, False, np.bool_(False)],
        [-5, np.int8(-5), -5.0, Decimal("-5.0")],
        [0.5, np.float32(0.5), np.float64(0.5), Decimal("0.50"), Fraction(1, 2)],
        [2**63 + 2**11, np.uint64(2**63 + 2**11), float(2**63 + 2**11)],
        ["la", np.str_("la"), Tongue.LATIN],
        [("x", 5), Site("x", 5), ("x", np.int64(5)), (np.str_("x"), 5.0)],
        [frozenset("abcdef"), frozenset("fedcba")],
        [DAY, np.datetime64(DAY)],
        [
            NOON,
            np.datetime64(NOON),
            np.datetime64(NOON, "ns"),
            np.datetime64(NOON, "h"),
            pd.Timestamp(NOON),
        ],
        [
            NOON.replace(tzinfo=dt.UTC),
            pd.Timestamp(NOON, tz="UTC"),
            (NOON + dt.timedelta(hours=2)).replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ],
        [dt.timedelta(1), np.timedelta64(1, "D"), np.timedelta64(24 * 3600 * 10**9, "ns")],
    ],
    ids=lambda equal: str(equal[0]) if not isinstance(equal[0], frozenset) else "frozenset",
)
def test_equal_ids_have_equal_keys_whatever_their_type_and_company(equal: list[Any]) -> None:
    keys = {key(value) for value in equal}
    keys |= {int(query_keys(np.array([value, "other"], dtype=object))[0]) for value in equal}
    assert len(keys) == 1


def test_different_ids_have_different_keys() -> None:
    ids = [
        5,
        "5",
        b"5",
        5.5,
        "5.5",
        -5,
        (5,),
        ("5",),
        (5, 5),
        ((5, 5),),
        frozenset({5}),
        DAY,
        NOON,
        "",
        (),
        ("", ""),
    ]
    ids += [
        ("a", "b"),
        ("ab",),
        ("astr:b",),
        ("a", ("b",)),
        "\ud800",
        frozenset("ab"),
        float("inf"),
        2**64,
        str(DAY),
    ]
    ids += [NOON.replace(tzinfo=dt.UTC), np.datetime64(NOON, "ns") + np.timedelta64(1, "ns")]
    assert len({key(value) for value in ids}) == len(ids)


def test_the_key_of_an_id_does_not_depend_on_the_others() -> None:
    assert key_of(Queries.from_qid([5.0, 5.5]), 5.0) == key(5)
    assert key_of(Queries.from_qid([5.0, 1e300]), 5.0) == key(5)
    assert key_of(Queries.from_qid([5, "x", (1, 2)]), 5) == key(5)
    assert key_of(Queries.from_qid(["a", "longer"]), "a") == key("a")
    exact = np.array(
        [np.datetime64(NOON, "ns"), np.datetime64(NOON, "ns") + np.timedelta64(1, "ns")]
    )
    assert Queries.from_qid(exact).keys[0] == key(NOON)


def test_keys_are_the_same_in_another_process() -> None:
    code = (
        "import datetime as dt; from rankwright.data.queries import Queries;"
        "print([int(Queries.from_qid([v]).keys[0]) for v in"
        " [7, 'seven', 7.5, (7, 'x'), frozenset('abcdef'), dt.date(2024, 2, 29), b'7']])"
    )
    here = [key(v) for v in [7, "seven", 7.5, (7, "x"), frozenset("abcdef"), DAY, b"7"]]
    for seed in ("1", "2"):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.strip() == str(here)


def test_integer_keys_are_those_of_splitmix64() -> None:
    for state in (0, 1, 1234567, 2**64 - 1):
        z = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        assert key(state) == z ^ (z >> 31)
    assert key(0) == 0xE220A8397B1DCDAF  # published first output for seed 0


def test_keys_of_a_million_ints_are_distinct_and_spread() -> None:
    keys = query_keys(np.arange(1_000_000))
    assert len(np.unique(keys)) == 1_000_000
    for shift in (0, 28, 56):
        counts = np.bincount(
            ((keys >> np.uint64(shift)) & np.uint64(255)).astype(np.int64), minlength=256
        )
        # binomial: mean 3906, standard deviation 62
        assert abs(counts - 1_000_000 / 256).max() < 6 * 62


def test_the_key_under_group_is_that_of_the_number() -> None:
    queries = Queries.from_group([2, 1, 3], 6)
    assert queries.ids.tolist() == [0, 1, 2]
    assert queries.keys.tolist() == [key(0), key(1), key(2)]
    assert queries.boundaries.tolist() == [0, 2, 3, 6]
    assert queries.first_row.tolist() == [0, 2, 3]
    assert queries.order is None


def test_plain_ids_keep_dates() -> None:
    nano = np.array([NOON, NOON], "M8[ns]") + np.array([0, 1], "m8[ns]")
    assert plain_ids(nano) == [NOON, nano[1]]
    assert plain_ids(np.array([DAY], "M8[D]")) == [DAY]
    assert plain_ids(np.array([1, 2])) == [1, 2]


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NaT, pd.NA]
)
def test_missing(value: Any) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", (), False, "nan", float("inf")])
def test_not_missing(value: Any) -> None:
    assert not is_missing(value)


# Values per row and per query


def test_weights_per_row_follow_their_rows() -> None:
    queries = Queries.from_qid(["b", "a", "b"])
    assert queries.per_row([1, 0, 3]).tolist() == [0, 1, 3]


def test_weights_per_query_come_in_order_of_first_appearance() -> None:
    queries = Queries.from_qid(["c", "a", "c", "b", "a"])
    assert queries.per_row([30, 10, 20]).tolist() == [10, 10, 20, 30, 30]
    assert queries.per_query(np.array([30.0, 10.0, 20.0])).tolist() == [10, 20, 30]
    assert Queries.from_group([2, 1], 3).per_row([5, 7]).tolist() == [5, 5, 7]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights have shape \(1,\); expected one per row \(4\) or one per query \(2\)"),
        ([[1.0, 2.0]], r"weights have shape \(1, 2\)"),
        ([1.0, -1.0], r"weights\[1\] is -1.0; weights must be finite and non-negative"),
        ([1.0, 1.0, np.nan, 1.0], r"weights\[2\] is nan"),
        ([np.inf, 1.0], r"weights\[0\] is inf"),
        (["x", "y"], "weights must be numbers"),
        ("w", "weights must be numbers"),
        ([None, 1.0], r"weights\[0\] is nan"),
    ],
)
def test_bad_weights(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Queries.from_qid([1, 1, 2, 2]).per_row(weights)


def test_labels_are_floats_in_grouped_order() -> None:
    queries = Queries.from_qid([2, 1, 2])
    for labels in (
        [0.5, 2, 1],
        pd.Series([0.5, 2, 1], index=[2, 1, 0]),
        pl.Series([0.5, 2.0, 1.0]),
    ):
        values = check_labels(labels, queries)
        assert values.dtype == np.float64
        assert values.tolist() == [2, 0.5, 1]
    assert check_labels([True, False, True], queries).tolist() == [0, 1, 1]


# qid and group together, and the refusals


def test_qid_and_group_may_agree_in_any_order_of_ids() -> None:
    queries = Queries.of(5, ["b", "b", "a", "a", "a"], [2, 3])
    assert queries.ids.tolist() == ["a", "b"]
    assert queries.keys.tolist() == [key("a"), key("b")]
    assert queries.sizes.tolist() == [3, 2]


MISSING_IDS = {
    "None": [1, None],
    "NaN": [1.0, np.nan],
    "NaN array": np.array([1.0, np.nan]),
    "NaT array": np.array(["2024-01-01", "NaT"], "M8[ns]"),
    "NaN among text": ["a", np.nan],
    "pandas NA": [1, pd.NA],
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas string": pd.Series(["a", None], dtype="string"),
    "pandas str": pd.Series(["a", None], dtype="str"),
    "pandas boolean": pd.Series([True, None], dtype="boolean"),
    "pandas on Arrow": pd.Series([1, None], dtype="int64[pyarrow]"),
    "pandas category": pd.Series(["a", None], dtype="category"),
    "pandas time": pd.to_datetime(pd.Series(["2024-01-01", None])),
    "polars": pl.Series(["a", None]),
    "polars ints": pl.Series([1, None]),
    "polars categorical": pl.Series(["a", None], dtype=pl.Categorical),
    "Arrow": pa.array([1, None]),
    "Arrow text": pa.array(["a", None]),
    "Arrow bools": pa.array([True, None]),
    "Arrow chunks": pa.chunked_array([["a"], [None]]),
    "Arrow dictionary": pa.array(["a", None]).dictionary_encode(),
    "Arrow int dictionary": pa.array([7, None]).dictionary_encode(),
    "Arrow int dictionary chunks": pa.chunked_array([pa.array([7, None]).dictionary_encode()]),
}


@pytest.mark.parametrize("name", MISSING_IDS)
def test_a_missing_id_is_refused_with_its_row(name: str) -> None:
    with pytest.raises(
        ValueError, match="the query id at row 1 is missing; give every row an id or drop the row"
    ):
        Queries.from_qid(MISSING_IDS[name])


@pytest.mark.parametrize(
    ("n_rows", "qid", "group", "message"),
    [
        (3, None, None, r"no query ids.*Pass qid= .* or group="),
        (3, [1, 2], None, "qid has 2 entries for 3 rows; give one query id per row"),
        (0, [], None, "qid is empty"),
        (2, [[1, 2], [3, 4]], None, "the query id at row 0 is a list, which is not hashable"),
        (2, np.eye(2), None, r"qid must be one-dimensional.*got shape \(2, 2\)"),
        (2, [1, {}], None, "the query id at row 1 is a dict, which is not hashable"),
        (2, pa.array([[1], [2]]), None, "the query id at row 0 is a list, which is not hashable"),
        (
            2,
            [Plain(), "a"],
            None,
            r"is printed as a memory address.*Use numbers, strings, dates or tuples",
        ),
        (2, [(1, Plain()), "a"], None, "is printed as a memory address"),
        (2, "ab", None, "qid must hold one id per row; got 'ab'"),
        (2, b"ab", None, "qid must hold one id per row; got b'ab'"),
        (2, 7, None, "qid must hold one id per row; got 7"),
        (
            3,
            None,
            [1, 1],
            "group adds up to 2 rows but there are 3. Give the number of rows of each query",
        ),
        (
            3,
            None,
            [7, 7, 8],
            r"group adds up to 22 rows but there are 3\. It looks like one id per row: pass it as qid=",
        ),
        (3, None, [0, 0, 1], r"group\[0\] is 0; .*at least 1\. It looks like one id per row"),
        (
            3,
            None,
            [4, -1],
            r"group\[1\] is -1; every query needs a whole number of rows, at least 1",
        ),
        (3, None, [1.5, 1.5], r"group\[0\] is 1.5"),
        (3, None, [np.nan, 3], r"group\[0\] is nan"),
        (3, None, [3, np.inf], r"group\[1\] is inf"),
        (3, None, [], "group must be a non-empty list of whole numbers"),
        (3, None, 3, "group must be a non-empty list of whole numbers"),
        (3, None, ["a", "a", "b"], "group must be .* pass one id per row as qid="),
        (3, None, [True, True, True], "group must be a non-empty list of whole numbers"),
        (4, [1, 1, 1, 2], [2, 2], "group splits query 1 between rows 1 and 2"),
        (4, ["b", "b", "a", "a"], [2, 1, 1], "group splits query a between rows 2 and 3"),
        (4, [1, 1, 2, 2], [4], "group and qid disagree near row 2: group has 1 queries, qid has 2"),
        (
            3,
            [1, 2, 1],
            [1, 1, 1],
            "group and qid disagree near row 0: group has 3 queries, qid has 2",
        ),
        (3, [1, 1, 1], [1, 1], "group adds up to 2 rows but there are 3"),
    ],
)
def test_refusals(n_rows: int, qid: Any, group: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Queries.of(n_rows, qid, group)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, np.nan, -2], r"got -2.0 at row 3, query b\. Drop the row, or shift"),
        ([0, 1, 1, -1], "got -1.0 at row 3, query b"),
        ([np.inf, 1, 1, 1], "got inf at row 0, query b"),
        ([0, 1, 1], r"labels have shape \(3,\) for 4 rows; give one label per row"),
        ([[0], [1], [1], [0]], r"labels have shape \(4, 1\) for 4 rows"),
        (["good", "bad", "bad", "bad"], "labels must be numbers"),
        ([{}, 1, 1, 1], "labels must be numbers"),
    ],
)
def test_bad_labels_are_named_by_query_and_the_callers_row(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_labels(labels, Queries.from_qid(["b", "a", "a", "b"]))


@pytest.mark.parametrize(
    "labels",
    [
        [1, 2, np.nan, 1],
        [1, 2, None, 1],
        pa.chunked_array([pa.array([1, 2, None, 1])]),
        pa.chunked_array([pa.array([1, 2, None, 1]).dictionary_encode()]),
    ],
)
def test_missing_labels_become_nan(labels: Any) -> None:
    found = check_labels(labels, Queries.from_qid(["b", "a", "a", "b"]))
    np.testing.assert_array_equal(found, [2, np.nan, 1, 1])


# Cost


def best_time(call: Callable[[], object]) -> float:
    """Processor time of the fastest of three calls: other processes may want the cores."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def test_a_million_shuffled_int_ids_group_within_a_second() -> None:
    qid = np.random.default_rng(0).integers(0, 20_000, 1_000_000)
    queries = Queries.from_qid(qid)
    assert best_time(lambda: Queries.from_qid(qid)) < 1.0
    assert queries.n_queries == len(set(qid.tolist()))


def test_a_hundred_thousand_text_ids_group_within_a_second() -> None:
    qid = [f"query-{i * 7919 % 100_003}" for i in range(100_000)]
    assert Queries.from_qid(qid).n_queries == 100_000
    assert best_time(lambda: Queries.from_qid(qid)) < 1.0


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([b"a", b"\xff"], pa.binary()).view(pa.string()),
        pa.array([1, 2], pa.time64("ns")),
        pa.array([2**62, None], pa.timestamp("s")),
        pa.array([2**31 - 1, None], pa.date32()),
    ],
    ids=lambda ids: str(ids.type),
)
def test_ids_that_arrow_cannot_show_are_one_error(ids: Any) -> None:
    for column in (ids, pa.chunked_array([ids])):
        with pytest.raises(
            ValueError, match=r"^the ids cannot be read: .*; give numbers, or text in UTF-8\.$"
        ):
            Queries.from_qid(column)
    for lists in (pa.array([[1], [2]]), pa.array([{"x": 1}])):
        with pytest.raises(
            ValueError, match=r"the query id at row 0 is a (list|dict), which is not hashable"
        ):
            Queries.from_qid(lists)
