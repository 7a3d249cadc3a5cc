"""Click logs: reading, what is refused, and training data against counting by loops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwright as rw

ROWS = {
    "query": ["b", "a", "a", "b", "a", "a"],
    "document": ["z", "x", "y", "x", "y", "x"],
    "position": [1, 1, 2, 2, 1, 2],
    "click": [0, 0, 1, 0, 1, 0],
    "session": [3, 1, 1, 3, 2, 2],
    "device": ["tv", "tv", "tv", "tv", "pc", "pc"],
}


def without(*names, **changes):
    return {name: changes.get(name, values) for name, values in ROWS.items() if name not in names}


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow", "parquet", "csv"])
def test_logs_are_read_from_anything_in_one_order(kind, tmp_path):
    frame = pd.DataFrame(ROWS)
    source = {
        "dict": ROWS,
        "pandas": frame,
        "polars": pl.DataFrame(ROWS),
        "arrow": pa.table(ROWS),
    }.get(kind)
    if source is None:
        source = tmp_path / f"log.{kind}"
        frame.to_parquet(source) if kind == "parquet" else frame.to_csv(source, index=False)
    log = rw.read_clicks(source)
    assert log.query.tolist() == list("aaaabb")
    assert log.document.tolist() == ["x", "y", "y", "x", "z", "x"]
    assert log.position.tolist() == [1, 2] * 3
    assert log.click.tolist() == [False, True, True, False, False, False]
    assert log.session.tolist() == [1, 1, 2, 2, 3, 3]
    assert log.impression.tolist() == [0, 0, 1, 1, 2, 2]
    assert log.impressions_by_query.tolist() == [2, 1]
    assert log.fields["device"].tolist() == ["tv", "tv", "pc", "pc", "tv", "tv"]
    assert repr(log) == "ClickLog(6 rows, 3 impressions of 2 queries, 2 clicks)"


def test_one_session_may_ask_several_queries():
    log = rw.read_clicks(without(session=[7] * 6, query=["b", "a", "a", "b", "c", "c"]))
    assert log.n_impressions == 3


def test_without_sessions_a_list_ends_where_positions_do_not_grow():
    log = rw.read_clicks(
        {
            "query": list("aaaab"),
            "document": list("xyxyx"),
            "position": [1, 3, 1, 2, 3],
            "click": [0, 0, 1, 0, 1],
        }
    )
    assert log.impression.tolist() == [0, 0, 1, 1, 2]


def test_positions_from_zero_are_counted_from_one_on_request():
    zero = without(position=[0, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(
        rw.read_clicks(zero, first_position=0).position, rw.read_clicks(ROWS).position
    )


NAN = float("nan")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            without("click"),
            "no column 'click'; it has query, document.*click must name one of them",
        ),
        (
            without(click=[0, 0, 2, 0, 1, 0]),
            "click is 2 at row 2; it must be 1 for a click and 0 for none",
        ),
        (without(click=[0, 0, None, 0, 1, 0]), "click is nan at row 2"),
        (
            without(position=[1, 1, NAN, 2, 1, 2]),
            "1 clicks are on documents that were never shown: row 2, query a",
        ),
        (
            without(position=[1, 1, 2, NAN, 1, 2]),
            "the position is missing at row 3, query b; drop documents",
        ),
        (
            without(position=[0, 0, 1, 1, 0, 1]),
            "start at 0 in every list, and first_position is 1; add 1",
        ),
        (
            without(position=[0, 1, 2, 1, 1, 2]),
            "start at 0 in 1 of 3 lists .one is of query b.*mixed",
        ),
        (
            {
                "query": ["a"] * 4,
                "document": list("xyxy"),
                "position": [0, 1, 1, 2],
                "click": [1, 0, 0, 0],
            },
            "start at 0 in 1 of 2 lists .one is of query a.*mixed",
        ),
        (without(position=[1, 1, 2, -1, 1, 2]), "at row 3, query b, is -1; positions start at 1"),
        (
            without(position=[1, 1, 2, 1.5, 1, 2]),
            "position at row 3, query b, is 1.5; positions are whole numbers",
        ),
        (
            without(position=[1, 1, 1, 2, 1, 2]),
            "session 1 has two documents of query a at position 1",
        ),
        (
            without(document=["z", "x", "x", "x", "y", "x"]),
            "session 1 has document x of query a twice",
        ),
        (without(document=["z", None, "x", "x", "y", "x"]), "the document id at row 1 is missing"),
        (without(session=[3, None, 1, 3, 2, 2]), "the session id at row 1 is missing"),
        (without(position=["top"] * 6), "position must hold numbers"),
        (7, "a click log is a file, a data frame or a dictionary of columns; got int"),
    ],
)
def test_impossible_logs_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        rw.read_clicks(source)


def test_mixed_positions_are_found_with_either_start():
    mixed = without(position=[0, 1, 2, 1, 1, 2])
    with pytest.raises(ValueError, match=r"1 lists start at position 0 and 2 at position 1.*mixed"):
        rw.read_clicks(mixed, first_position=0)
    with pytest.raises(
        ValueError, match="first_position is the number of the top position, 0 or 1; got 2"
    ):
        rw.read_clicks(ROWS, first_position=2)


def test_a_column_of_sessions_that_is_named_must_be_there():
    with pytest.raises(
        ValueError, match=r"no column 'visit'; it has query.*session must name one of them"
    ):
        rw.read_clicks(ROWS, session="visit")


DOCUMENTS = rw.RankingData(
    [[1.0], [2.0], [3.0], [4.0], [5.0]],
    [0] * 5,
    qid=list("aabba"),
    fields={"document": ["x", "y", "x", "z", "w"]},
)


def test_documents_become_rows_of_the_data():
    log = rw.read_clicks(ROWS, DOCUMENTS)
    assert DOCUMENTS.fields["document"][log.document].tolist() == ["x", "y", "y", "x", "z", "x"]
    assert DOCUMENTS.qid[log.document].tolist() == log.query.tolist()


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (
            ["x", "y", "x", "q", "w"],
            "1 of 4 shown documents are not in the data, such as z of query b",
        ),
        (["x", "x", "x", "z", "w"], "the data has document x of query a twice"),
        ([1, 2, 3, 4, 5], "such as x of query a; add their features"),
    ],
)
def test_documents_that_do_not_match_the_data_are_refused(documents, message):
    data = rw.RankingData(np.eye(5), [0] * 5, qid=list("aabba"), fields={"document": documents})
    with pytest.raises(ValueError, match=message):
        rw.read_clicks(ROWS, data)


def test_ids_that_are_numbers_in_one_and_text_in_the_other_are_named():
    data = rw.RankingData(np.eye(2), [0, 0], qid=["a", "a"], fields={"document": ["1", "2"]})
    log = rw.read_clicks(
        {"query": ["a", "a"], "document": [1, 2], "position": [1, 2], "click": [1, 0]}
    )
    with pytest.raises(ValueError, match="such as 1 of query a; its ids are the same as text"):
        log.attach(data)


def test_what_needs_features_asks_for_them():
    log = rw.read_clicks(ROWS)
    with pytest.raises(
        ValueError,
        match=r"to_data needs the features of the documents; call log.attach\(data\) first",
    ):
        log.to_data()
    with pytest.raises(
        ValueError, match="no field 'url' with the ids of documents; its fields are document"
    ):
        log.attach(DOCUMENTS, document="url")


@pytest.fixture(scope="module")
def simulated():
    data = rw.make_web_search(15, kind="short", n_features=20, random_state=1)
    data.fields["age"] = np.arange(data.n_rows)
    scores = data.X[:, 0], data.X[:, 1]
    return rw.simulate_clicks(data, list(scores), impressions=8, shown=6, exponent=0.5, noise=0.3)


def lists_of(log):
    """(query, session) -> [(document, position, click)] by a loop."""
    lists = {}
    for row in zip(log.query, log.session, log.document, log.position, log.click, strict=True):
        lists.setdefault(row[:2], []).append(row[2:])
    return lists


def seen(rows, examined_only):
    last = max((position for _, position, click in rows if click), default=0)
    return [row for row in rows if row[1] <= last or not examined_only]


@pytest.mark.parametrize("examined_only", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_click_rates_by_query_are_those_of_a_loop(simulated, examined_only, smoothing):
    shows, clicks, impressions = Counter(), Counter(), Counter()
    for (query, _), rows in lists_of(simulated).items():
        impressions[query] += 1
        for document, position, click in seen(rows, examined_only):
            shows[query, document, position] += 1
            clicks[query, document, position] += click
    at = Counter()
    for (_, _, position), n in shows.items():
        at["shows", position] += n
    for (_, _, position), n in clicks.items():
        at["clicks", position] += n
    data = simulated.to_data(examined_only=examined_only, smoothing=smoothing)
    assert data.n_rows == len(shows)
    for row in range(data.n_rows):
        key = data.qid[row], data.fields["row"][row], data.fields["position"][row]
        mean = at["clicks", key[2]] / at["shows", key[2]]
        assert data.y[row] == pytest.approx(
            (clicks[key] + smoothing * mean) / (shows[key] + smoothing)
        )
        assert data.fields["impressions"][row] == shows[key]
        assert data.fields["clicks"][row] == clicks[key]
        assert data.weights[row] == impressions[key[0]]
        assert data.fields["age"][row] == key[1]
        np.testing.assert_array_equal(data.X[row], simulated.data.X[key[1]])
    by_row = simulated.to_data(examined_only=examined_only, weights="rows")
    np.testing.assert_array_equal(by_row.weights, by_row.fields["impressions"])
    assert simulated.to_data(weights=None).weights is None


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_corrected_rates_are_those_of_a_loop(simulated, smoothing):
    curve = rw.Propensities.known([1.0, 0.7, 0.5, 0.4, 0.3])
    shows, clicks, examinations = Counter(), Counter(), Counter()
    for (query, _), rows in lists_of(simulated).items():
        for document, position, click in rows:
            shows[query, document] += 1
            clicks[query, document] += click
            examinations[query, document] += curve.values[min(position, 5) - 1]
    mean = sum(clicks.values()) / sum(examinations.values())
    data = simulated.to_data(propensities=curve, smoothing=smoothing)
    assert data.n_rows == len(shows)
    for row in range(data.n_rows):
        key = data.qid[row], data.fields["row"][row]
        rate = (clicks[key] + smoothing * mean) / (examinations[key] + smoothing)
        assert data.y[row] == pytest.approx(min(rate, 1.0))
        assert data.fields["examinations"][row] == pytest.approx(examinations[key])
        assert (data.fields["impressions"][row], data.fields["clicks"][row]) == (
            shows[key],
            clicks[key],
        )
        np.testing.assert_array_equal(data.X[row], simulated.data.X[key[1]])
    assert set(data.weights) == {8.0}


@pytest.mark.parametrize("examined_only", [True, False])
def test_sessions_become_queries(simulated, examined_only):
    lists = {f"{q}/{s}": seen(rows, examined_only) for (q, s), rows in lists_of(simulated).items()}
    lists = {name: rows for name, rows in lists.items() if rows}
    data = simulated.to_data(by="session", examined_only=examined_only)
    assert data.query_ids.tolist() == sorted(lists)
    for q, name in enumerate(data.query_ids):
        own = slice(data.boundaries[q], data.boundaries[q + 1])
        columns = data.fields["row"][own], data.fields["position"][own], data.y[own] == 1
        assert list(zip(*columns, strict=True)) == lists[name]
    assert set(data.fields) == {"row", "age", "position", "ranker"}
    assert data.weights is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "user"}, "by must be one of 'query', 'session'; got 'user'"),
        ({"weights": "all"}, "weights must be one of 'queries', 'rows', None; got 'all'"),
        ({"smoothing": -1}, "smoothing must be a number from 0; got -1"),
        ({"by": "session", "smoothing": 1.0}, "smoothing is about click rates"),
        ({"by": "session", "propensities": np.ones_like}, "leave out examined_only and by"),
        ({"examined_only": True, "propensities": np.ones_like}, "leave out examined_only and by"),
        ({"by": "session", "weights": "rows"}, "by='session' has a row for each impression"),
        ({"propensities": [1.0, 0.0]}, "the propensity of position 2 is 0"),
    ],
)
def test_bad_options_are_refused(simulated, options, message):
    with pytest.raises(ValueError, match=message):
        simulated.to_data(**options)


def test_a_log_without_clicks_has_nothing_to_learn():
    with pytest.raises(ValueError, match="the log has no click"):
        rw.read_clicks(without(click=[0] * 6), DOCUMENTS).to_data()


@pytest.mark.parametrize("position", [2**31, 1e300, float("inf")])
def test_positions_beyond_all_lists_are_refused(position: float) -> None:
    with pytest.raises(
        ValueError, match=r"the position at row 1, query a, is .*; positions are at most 2147483647"
    ):
        rw.ClickLog.of(["a", "a"], ["x", "y"], [1, position], [0, 1])


def test_ids_of_a_file_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    texts = pa.array([b"\xff", b"a"]).view(pa.string())
    pq.write_table(
        pa.table({"query": texts, "document": ["x", "y"], "position": [1, 2], "click": [0, 1]}),
        path,
    )
    with pytest.raises(
        ValueError, match=r"the ids cannot be read: .*; give numbers, or text in UTF-8"
    ):
        rw.read_clicks(path)
