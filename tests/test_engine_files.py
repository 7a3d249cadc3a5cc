"""Feature logs and judgment lists of search engines: what is read, what is refused, and the way to an export."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from engine_files import (
    ENGINES,
    logged,
    plugin_hit,
    plugin_response,
    responses,
    solr_csv,
    solr_hit,
    vespa_response,
    write_log,
    write_ratings,
)
from rankwright.data.search_engines.hits import hits_of

DATA = logged()


def by_document(data: rw.RankingData) -> dict[str, list[float]]:
    return dict(zip(data.fields["docid"].tolist(), data.X.tolist(), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_comes_back(engine: str, tmp_path: Path) -> None:
    data = logged(missing=engine != "solr, sparse")
    log, queries = write_log(data, engine, tmp_path)
    found = rw.read_feature_log(log, queries=queries)
    assert sorted(found.feature_names) == sorted(data.feature_names)
    columns = [found.feature_names.index(name) for name in data.feature_names]
    np.testing.assert_array_equal(found.X[:, columns], data.X)
    assert found.qid.tolist() == data.qid.tolist()
    assert found.fields["docid"].tolist() == data.fields["docid"].tolist()
    assert np.isnan(found.y).all()


def test_responses_may_name_their_query_or_be_a_list_or_a_multi_search(tmp_path: Path) -> None:
    parts, names = responses(DATA, "plugin"), DATA.query_ids.tolist()
    named = [{"query": name, "response": part} for name, part in zip(names, parts, strict=True)]
    path = tmp_path / "log.json"
    for content, queries in (
        ("\n".join(map(json.dumps, named)), None),
        (json.dumps(named, indent=1), None),
        (json.dumps(parts), names),
        (json.dumps({"took": 1, "responses": parts}, indent=2), names),
    ):
        path.write_text(content)
        assert by_document(rw.read_feature_log(path, queries=queries)).keys() == set(
            DATA.fields["docid"]
        )
    packed = tmp_path / "log.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rw.read_feature_log(packed, queries=names).n_rows == DATA.n_rows
    table = tmp_path / "one.csv"
    table.write_text(solr_csv([solr_hit("a", [1.0, 2.0, 0.5])]))
    assert by_document(rw.read_feature_log(table, queries=["q"])) == {"a": [1.0, 2.0, 0.5]}


def test_later_pages_of_a_query_are_added(tmp_path: Path) -> None:
    pages = [plugin_response([plugin_hit(name, [1.0, 2.0, 3.0])]) for name in ("a", "b")]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(pages))
    data = rw.read_feature_log(path, queries=["shoes", "shoes"])
    assert data.group.tolist() == [2]


def test_several_logs_of_a_hit_and_old_names_of_vespa() -> None:
    hit = {"_id": 7, "fields": {"_ltrlog": [{"a": [{"name": "x", "value": 1}], "b": []}]}}
    assert hits_of(plugin_response([hit]))[0] == ("7", {"x": 1.0}, False)
    fields = {"matchfeatures": {"rankingExpression(f0)": 2, "bm25(title)": "NaN"}}
    (found,) = hits_of(vespa_response([{"id": "id:s:p::1", "fields": fields}]))
    assert found.document == "id:s:p::1"
    assert found.features["f0"] == 2
    assert np.isnan(found.features["bm25(title)"])
    assert hits_of(vespa_response([])) == []


LOG = {"_ltrlog": [{"main": [{"name": "x", "value": 1.0}]}]}
HIT = {"_id": "a", "fields": LOG}


def plugin_log(entries: Any) -> dict[str, Any]:
    return plugin_response([{"_id": "a", "fields": {"_ltrlog": [{"main": entries}]}}])


def solr(text: str) -> dict[str, Any]:
    return {"response": {"docs": [{"id": "a", "[features]": text}]}}


def vespa(features: Any, **fields: Any) -> dict[str, Any]:
    given = {"documentid": "a", "matchfeatures": features, **fields}
    return vespa_response([{"id": "index:s/0/1", "fields": given}])


REFUSED: list[tuple[Any, str]] = [
    ({}, "this is no search response: expected the key 'hits'.*got an empty object"),
    (7, "'response' must be a search response; got 7"),
    ({"hits": []}, "'hits' must be an object with the key 'hits'; got a list"),
    ({"hits": {}}, "the key 'hits' is missing; expected a list of hits"),
    (plugin_response([3]), "hit 1: a hit must be an object; got 3"),
    (plugin_response([{"_id": "a"}]), "hit 1: the hit has no logged features; log features with"),
    (plugin_response([{"fields": LOG}]), "hit 1: the key '_id' is missing"),
    (plugin_response([{"_id": "", "fields": LOG}]), "'_id' must be text or a whole number"),
    (plugin_response([HIT, HIT]), "document 'a' of query 'q' is logged twice; keep one"),
    ({**plugin_response([HIT]), "timed_out": True}, "the response is incomplete"),
    ({**plugin_response([HIT]), "_shards": {"failed": 1}}, "the response is incomplete"),
    (plugin_log({}), "'main' must be a list of features; got an object"),
    (plugin_log([{"value": 1}]), "the key 'name' is missing"),
    (plugin_log([{"name": "x", "value": "1"}]), "'x' must be a number; got '1'"),
    (plugin_log([{"name": "x", "value": True}]), "'x' must be a number; got True"),
    (plugin_log([{"name": "x", "value": 1e400}]), "'x' must be a finite number"),
    (plugin_log([{"name": "x", "value": 10**500}]), "'x' must be a finite number"),
    (plugin_log([{"name": "x", "weight": 1}]), "the feature 'x' has the key 'weight'"),
    (plugin_log([{"name": "x"}, {"name": "x"}]), "the feature 'x' is logged twice"),
    (plugin_log([{"name": ""}]), "a feature has no name"),
    (plugin_log([{"name": "\ud800"}]), "has a character that cannot be printed"),
    (plugin_response([{"_id": "\ud800", "fields": LOG}]), "'_id' is not valid text"),
    (plugin_log([]), "has no features: every log is empty"),
    (plugin_response([]), "has no hits; log queries that find documents"),
    (
        plugin_response([plugin_hit("a", [1, 2, 3]), {"_id": "b", "fields": LOG}]),
        "document 'a' of query 'q' lacks the feature 'x', which others have",
    ),
    (solr("x"), r"'\[features\]' must be name=value, separated by commas; got 'x'"),
    (solr("x=1,=2"), "must be name=value"),
    (solr("x=1_0"), "must be name=value"),
    (solr("x=\n1"), "must be name=value"),
    ({"response": {"docs": [{"id": "a\nb", "[features]": "x=1"}]}}, "'id' has a line break"),
    (solr("x=Infinity"), "'x' must be a finite number"),
    (solr("x=1,x=2"), "the feature 'x' is logged twice"),
    ({"response": {"docs": [{"[features]": "x=1"}]}}, "the key 'id' is missing.*add it to fl"),
    ("id\na", r"the CSV must have the columns 'id' and '\[features\]', each once"),
    ('id,[features]\na,"x=1', "this is not CSV with a header and rows"),
    ("id,[features]\na,x=1,y=2", "line 2 has 3 values for 2 columns"),
    (vespa([]), "'matchfeatures' must be an object of features; got a list"),
    (vespa({"x": {"type": "tensor"}}), "'x' must be a number; got an object"),
    (vespa({"x": 1}, documentid="index:s/0/1"), "the hit has no document id; add documentid"),
    (vespa({"x": 1}, summaryfeatures={"x": 1}), "the feature 'x' is logged twice"),
    ({"root": {"errors": [{}]}}, "the response reports errors"),
    ({"root": {"children": {}}}, "'children' must be a list of hits; got an object"),
    (vespa_response([{"id": "group:root:0", "children": []}]), "the hits are grouped"),
]


@pytest.mark.parametrize(("response", "message"), REFUSED)
def test_refused_responses(response: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_text(json.dumps({"query": "q", "response": response}))
    with pytest.raises(ValueError, match=message) as refused:
        rw.read_feature_log(path)
    assert "\n" not in str(refused.value)


def test_refused_files(tmp_path: Path) -> None:
    path, response = tmp_path / "log.json", json.dumps(plugin_response([HIT]))
    cases: list[tuple[bytes, Any, str]] = [
        (b"", None, "log.json is empty"),
        (b"\xff\n", None, "is not text in UTF-8: byte 0"),
        (b"{", None, "this is not JSON: "),
        (b'{"a": 1, "a": 2}', None, "the key 'a' occurs twice"),
        (b"[" * 100_000, None, "nested too deeply"),
        (response.encode() + b"\n{", ["q", "r"], "line 2: this is not JSON"),
        (response.encode(), None, "the response does not say what was searched; queries must"),
        (response.encode(), ["q", "r"], "log.json has 1, and there are 2 queries"),
        (b'{"query": "q", "response": {}, "x": 1}', None, "the key 'x' is unknown beside"),
        (b'{"query": "q"}', None, "the key 'response' is missing"),
        (f'{{"query": "q", "response": {response}}}'.encode(), ["q"], "must be left out: "),
    ]
    for content, queries, message in cases:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            rw.read_feature_log(path, queries=queries)
    names = tmp_path / "queries.txt"
    names.write_text("q\n\nr\n")
    path.write_text(response)
    with pytest.raises(ValueError, match=r"queries.txt, line 2 is empty"):
        rw.read_feature_log(path, queries=names)


JUDGMENTS = {
    "quepid.csv": "query,docid,rating\nred dress,a,3\nred dress,b,0\n -x,c,1.5\nnone,,\n-y,d,\n",
    "workbench.json": {
        "name": "list",
        "judgmentRatings": [
            {"query": "red dress", "ratings": [{"docId": "a", "rating": "3.000"}]},
            {"query": "red dress", "ratings": [{"rating": "0.000", "docId": "b"}]},
            {"query": "-x", "ratings": [{"docId": "c", "rating": 1.5}]},
        ],
    },
    "rank_eval.json": {
        "requests": [
            {
                "id": "red dress",
                "request": {"query": {"match_all": {}}},
                "ratings": [
                    {"_index": "i", "_id": "a", "rating": 3},
                    {"_index": "i", "_id": "b", "rating": 0},
                ],
            },
            {"id": "-x", "ratings": [{"_index": "i", "_id": "c", "rating": 1.5}]},
        ],
        "metric": {"dcg": {}},
    },
}
EXPECTED = {("red dress", "a"): 3.0, ("red dress", "b"): 0.0, ("-x", "c"): 1.5}


@pytest.mark.parametrize("name", JUDGMENTS)
def test_judgment_lists(name: str, tmp_path: Path) -> None:
    content, path = JUDGMENTS[name], tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    assert rw.read_judgments(path).by_document() == EXPECTED
    if name == "workbench.json":
        path.write_text(json.dumps({"hits": {"hits": [{"_source": content}]}}))
        assert rw.read_judgments(path).by_document() == EXPECTED


def test_judgments_of_trec(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_text("q 0 a 2\nq 0 b -1\n")
    assert rw.read_judgments(path).by_document() == {("q", "a"): 2.0, ("q", "b"): 0.0}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "q,d,r\n", "has the columns 'q', 'd', 'r'; judgments must be a CSV of Quepid"),
        ("a.csv", "query,docid,rating\nq,d\n", "line 2 must have 3 values, not 2"),
        (
            "a.csv",
            "query,docid,rating\nq,d,good\n",
            "line 2: a rating must be a number; got 'good'",
        ),
        ("a.csv", "query,docid,rating\nq,,2\n", "line 2: 'docid' must be text"),
        ("a.csv", "query,docid,rating\nq,d,-1\n", "has the rating -1; ratings must be numbers"),
        ("a.csv", "query,docid,rating\nq,d,nan\n", "has the rating nan; ratings must be numbers"),
        ("a.csv", "query,docid,rating\nq,d,1\nq,d,2\n", "'d' of query 'q' is rated twice"),
        ("a.csv", "query,docid,rating\n", "has no ratings"),
        ("a.csv", 'query,docid,rating\n"q', "is not CSV"),
        ("a.json", "{}", "the key 'judgmentRatings' is missing"),
        ("a.json", "1\n2", "must hold one judgment list; it has 2 values"),
        ("a.json", '{"hits": {"hits": []}}', "expected one judgment list; the answer has 0"),
        ("a.json", '{"judgmentRatings": [{"ratings": []}]}', "the key 'query' is missing"),
        ("a.json", '{"requests": [{"id": "q"}]}', "the key 'ratings' is missing"),
        (
            "a.json",
            '{"requests": [{"id": "q", "ratings": [{"_id": "a", "rating": "2"}]}]}',
            "'rating' must be a number; got '2'",
        ),
    ],
)
def test_refused_judgments(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message) as refused:
        rw.read_judgments(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_a_log_with_judgments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, queries = write_log(DATA, "plugin", tmp_path)
    ratings = write_ratings(DATA, tmp_path / "ratings.csv")
    with ratings.open("a") as file:
        file.write("\nquery 1,not found,2\n")
    with caplog.at_level(logging.WARNING, logger="rankwright"):
        data = rw.read_feature_log(log, judgments=ratings, queries=queries)
    judged = np.arange(DATA.n_rows) % 3 != 2
    np.testing.assert_array_equal(data.judged, judged)
    np.testing.assert_array_equal(data.y[judged], DATA.y[judged])
    assert caplog.messages == [f"1 of {judged.sum() + 1} judged documents are not in {log}."]
    ratings.write_text("query,docid,rating\nother,doc1,2\n")
    with pytest.raises(ValueError, match=r"no document of .* is judged; judgments must be of its"):
        rw.read_feature_log(log, judgments=ratings, queries=queries)


@pytest.mark.parametrize(
    ("engine", "target"),
    [
        ("plugin", "opensearch"),
        ("plugin", "elasticsearch-ltr"),
        ("solr", "solr"),
        ("solr, sparse", "solr"),
        ("solr, csv", "solr"),
        ("vespa", "vespa"),
        ("vespa, summary", "vespa"),
    ],
)
def test_from_a_log_to_an_exported_model_by_commands(
    engine: str, target: str, tmp_path: Path, call: Any
) -> None:
    data = logged(missing=engine != "solr, sparse")
    log, queries = write_log(data, engine, tmp_path)
    ratings = write_ratings(data, tmp_path / "ratings.csv")
    train, run, model = tmp_path / "train.parquet", tmp_path / "run", tmp_path / "model.json"
    small = ["--trees", "3", "--threads", "1", "--set", "min_child_samples=3", "--quiet"]
    for command in (
        ["convert", log, train, "--judgments", ratings, "--queries", queries],
        ["train", train, *small, "--out", run],
        ["export", run, "--to", target, "--out", model],
        ["verify-export", model, "--to", target, "--model", run, "--data", train],
    ):
        outcome = call(*command)
        assert outcome.code == 0, outcome
    scores = rw.load(run).predict(data)
    assert np.ptp(scores) > 0


def test_judgments_and_clicks_on_the_command_line(tmp_path: Path, call: Any) -> None:
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("query,docid,rating\nq,a,3\nq,b,0\n")
    assert call("convert", ratings, tmp_path / "list.qrels").code == 0
    assert (tmp_path / "list.qrels").read_text() == "q 0 a 3\nq 0 b 0\n"
    ratings.write_text("query,docid,rating\nq,a,0.5\n")
    outcome = call("convert", ratings, tmp_path / "list.qrels")
    assert outcome.code == 1
    assert "ratings that are not whole numbers" in outcome.err
    queries, events = write_ubi(tmp_path)
    assert call("convert", queries, tmp_path / "log.csv", "--events", events).code == 0
    log = rw.read_clicks(tmp_path / "log.csv")
    assert log.click.tolist() == [False, True, True, False, False]


def write_ubi(folder: Path) -> tuple[Path, Path]:
    queries, events = folder / "ubi_queries.ndjson", folder / "ubi_events.json"
    records: list[dict[str, Any]] = [
        {"query_id": "1", "user_query": "hat", "query_response_hit_ids": ["a", "b", "c"]},
        {"query_id": "2", "user_query": "hat", "query_response_hit_ids": ["b", "a"]},
        {"query_id": "3", "user_query": "zzz", "query_response_hit_ids": []},
    ]
    queries.write_text("\n".join(map(json.dumps, records)))
    clicked: list[dict[str, Any]] = [
        {"action_name": action, "query_id": query, "event_attributes": {"object": {"object_id": d}}}
        for action, query, d in (
            ("impression", "1", "a"),
            ("click", "1", "b"),
            ("click", "1", "b"),
            ("click_through", "1", "c"),
            ("purchase", "2", "a"),
        )
    ]
    clicked.append({"action_name": "search", "timestamp": "2026-05-01T10:00:00Z"})
    hits = [{"_source": record} for record in clicked]
    events.write_text(json.dumps({"hits": {"hits": hits}}, indent=1))
    return queries, events


def test_user_behavior_insights(tmp_path: Path) -> None:
    queries, events = write_ubi(tmp_path)
    log = rw.read_ubi(queries, events)
    assert log.query.tolist() == ["hat"] * 5
    assert log.session.tolist() == ["1", "1", "1", "2", "2"]
    assert log.document.tolist() == ["a", "b", "c", "b", "a"]
    assert log.position.tolist() == [1, 2, 3, 1, 2]
    assert log.click.tolist() == [False, True, True, False, False]
    bought = rw.read_ubi(queries, events, actions=["purchase"])
    assert bought.click.tolist() == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("queries", "events", "message"),
    [
        ('{"user_query": "x"}', "{}", "the key 'query_id' is missing"),
        ('{"query_id": "1"}', "{}", "has no query with hits"),
        ('{"query_id": "1", "query_response_hit_ids": ["a"]}', "{}", "'user_query' is missing"),
        (None, "{}", "the key 'action_name' is missing"),
        (None, '{"action_name": "click"}', "the key 'query_id' is missing"),
        (
            None,
            '{"action_name": "click", "query_id": "1", "event_attributes": {"object": {}}}',
            "'object_id' must be text",
        ),
        (
            '{"query_id": "1", "user_query": "x", "query_response_hit_ids": ["a", "a"]}',
            "{}",
            "document 'a' is among the hits twice",
        ),
    ],
)
def test_refused_insights(queries: str | None, events: str, message: str, tmp_path: Path) -> None:
    files = tmp_path / "queries.json", tmp_path / "events.json"
    usual = '{"query_id": "1", "user_query": "x", "query_response_hit_ids": ["a"]}'
    files[0].write_text(queries or usual)
    files[1].write_text(events)
    with pytest.raises(ValueError, match=message):
        rw.read_ubi(*files)


def test_clicks_on_no_hit_are_counted(tmp_path: Path) -> None:
    queries, events = tmp_path / "queries.json", tmp_path / "events.json"
    queries.write_text('{"query_id": "1", "user_query": "x", "query_response_hit_ids": ["a"]}')
    click = {"action_name": "click", "query_id": "1"}
    events.write_text(json.dumps({**click, "event_attributes": {"object": {"object_id": "z"}}}))
    with pytest.warns(UserWarning, match="1 clicks in .* are of no hit"):
        assert not rw.read_ubi(queries, events).click.any()


def test_retrievers_are_combined_with_a_judgment_list(tmp_path: Path, call: Any) -> None:
    ratings, run = tmp_path / "ratings.csv", tmp_path / "bm25.run"
    ratings.write_text("query,docid,rating\nq,a,3\nq,b,0.5\n")
    run.write_text("q Q0 a 1 3 x\nq Q0 b 2 2 x\nq Q0 c 3 1 x\n")
    data = rw.combine({"bm25": run}, ratings, unjudged=float("nan"))
    np.testing.assert_array_equal(data.y, [3.0, 0.5, np.nan])
    out = tmp_path / "all.parquet"
    options = ["--judgments", ratings, "--unjudged", "nan", "--quiet"]
    assert call("combine", f"bm25={run}", *options, "--out", out).code == 0
    np.testing.assert_array_equal(rw.read_data(out).y, data.y)
