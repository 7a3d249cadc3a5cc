"""Combined results of retrievers: values by hand and by loops, every form of the input, and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankwright as rw
from commands import Outcome
from rankwright.data.reading import read_data, write_data
from rankwright.data.trec import Qrels, TrecRun, write_qrels, write_trec_run

BM25 = {"q1": {"a": 7.5, "b": 3.0, "c": 3.0}, "q2": {"x": 1.0}, "q3": {"a": 2.0}}
DENSE = {"q1": {"b": 0.9, "d": -0.4}, "q3": {"y": 0.2, "a": 0.1}}
JUDGMENTS = {"q1": {"b": 2, "d": -1, "missed": 1}, "q3": {"y": 1}, "q9": {"a": 1}}


def combined(**options: Any) -> rw.RankingData:
    return rw.combine({"bm25": BM25, "dense": DENSE}, **options)


def rows_of(data: rw.RankingData) -> dict[tuple[str, str], dict[str, float]]:
    """Features by query and document."""
    pairs = zip(data.qid.tolist(), data.fields["docid"].tolist(), strict=True)
    values = [dict(zip(data.feature_names, row, strict=True)) for row in data.X.tolist()]
    return dict(zip(pairs, values, strict=True))


def test_values_worked_by_hand() -> None:
    data = combined()
    assert data.labels == {}
    rows = rows_of(data)
    assert list(rows) == [*(("q1", name) for name in "abcd"), ("q2", "x"), ("q3", "a"), ("q3", "y")]
    # Documents b and c have the ranks 2 and 3, and share their mean.
    assert rows["q1", "b"] == {
        "bm25": 3.0,
        "bm25_rank": 2.5,
        "bm25_reciprocal_rank": 1 / 62.5,
        "bm25_found": 1.0,
        "dense": 0.9,
        "dense_rank": 1.0,
        "dense_reciprocal_rank": 1 / 61,
        "dense_found": 1.0,
    }
    # BM25 returned three documents and not this one, so its rank is 4.
    missing = rows["q1", "d"]
    assert math.isnan(missing["bm25"])
    assert (missing["bm25_rank"], missing["bm25_reciprocal_rank"], missing["bm25_found"]) == (
        4,
        1 / 64,
        0,
    )
    # The dense retriever returned nothing for q2, so the rank is that after the one document of the query.
    assert (rows["q2", "x"]["dense_rank"], rows["q2", "x"]["dense_found"]) == (2, 0)


def test_values_are_those_of_the_definition() -> None:
    draw = np.random.default_rng(3)
    runs: dict[str, Any] = {}
    for name in ("one", "two", "three"):
        runs[name] = {}
        for query in range(12):
            documents = draw.permutation(30)[: draw.integers(0, 20)]
            scores = draw.integers(0, 8, len(documents)) / 4  # with ties
            runs[name][f"q{query}"] = {f"d{d}": s for d, s in zip(documents, scores, strict=True)}
    for (qid, docid), row in rows_of(rw.combine(runs)).items():
        union = {document for run in runs.values() for document in run[qid]}
        for name, run in runs.items():
            scores = run[qid]
            if docid in scores:
                above = sum(score > scores[docid] for score in scores.values())
                equal = sum(score == scores[docid] for score in scores.values())
                expected = scores[docid], above + (equal + 1) / 2, 1.0
            else:
                expected = math.nan, (len(scores) or len(union)) + 1, 0.0
            found = row[name], row[f"{name}_rank"], row[f"{name}_found"]
            np.testing.assert_array_equal(found, expected)
            assert row[f"{name}_reciprocal_rank"] == 1 / (60 + expected[1])


def test_judgments_choose_the_queries_and_give_the_labels() -> None:
    data = combined(judgments=JUDGMENTS)
    assert data.query_ids.tolist() == ["q1", "q3"]  # q2 is not judged, and nothing was found for q9
    assert data.y.tolist() == [0, 2, 0, 0, 0, 1]  # a negative label counts as 0
    assert combined(judgments=JUDGMENTS, unjudged=0.5).y.tolist() == [0.5, 2, 0.5, 0, 0.5, 1]


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    def triples(values: Any) -> list[tuple[str, str, float]]:
        return [(q, d, value) for q, documents in values.items() for d, value in documents.items()]

    def frames(values: Any, name: str) -> list[Any]:
        columns = dict(zip(("qid", "docid", name), zip(*triples(values), strict=True), strict=True))
        columns = {key: list(column) for key, column in columns.items()}
        return [pd.DataFrame(columns), pl.DataFrame(columns), pl.DataFrame(columns).to_arrow()]

    qids, docids, scores = zip(*triples(BM25), strict=True)
    run = TrecRun(qids, docids, scores, "bm25")
    write_trec_run(run, tmp_path / "bm25.run")
    qrels = Qrels(*zip(*triples(JUDGMENTS), strict=True))
    write_qrels(qrels, tmp_path / "qrels")
    expected = combined(judgments=JUDGMENTS)
    for bm25 in [run, tmp_path / "bm25.run", str(tmp_path / "bm25.run"), *frames(BM25, "score")]:
        for judgments in [qrels, tmp_path / "qrels", *frames(JUDGMENTS, "label")]:
            data = rw.combine({"bm25": bm25, "dense": DENSE}, judgments)
            np.testing.assert_array_equal(data.X, expected.X)
            assert rows_of(data).keys() == rows_of(expected).keys()
            assert data.y.tolist() == expected.y.tolist()


def test_ids_are_text_and_whole_numbers_are_the_same_as_text_or_float() -> None:
    numbers = pd.DataFrame({"qid": [7.0, 7.0], "docid": [1, 2], "score": [1.0, 2.0]})
    data = rw.combine({"a": numbers, "b": {"7": {"2": 5}}}, judgments={7: {"1": 1}})
    assert data.query_ids.tolist() == ["7"]
    assert data.y.tolist() == [1, 0]
    assert data.fields["docid"].tolist() == ["1", "2"]


def test_the_order_of_documents_and_retrievers_does_not_matter() -> None:
    turned = {q: dict(reversed(documents.items())) for q, documents in reversed(BM25.items())}
    data, other = combined(), rw.combine({"dense": DENSE, "bm25": turned})
    columns = [other.feature_names.index(name) for name in data.feature_names]
    np.testing.assert_array_equal(other.X[:, columns], data.X)


def test_features_of_documents_and_queries_are_joined(tmp_path: Path) -> None:
    prices = pd.DataFrame({"docid": ["a", "y"], "price": [3.0, None], "brand": ["u", "v"]})
    prices["brand"] = prices["brand"].astype("category")
    lengths = pl.DataFrame({"qid": ["q1", "q3"], "words": [4, 2]})
    pairs = pd.DataFrame({"qid": ["q1"], "docid": ["b"], "clicks": [9]})
    data = combined(features=[prices, lengths, pairs])
    assert data.feature_names[8:] == ["price", "brand", "words", "clicks"]
    rows = rows_of(data)
    assert rows["q1", "a"]["price"] == rows["q3", "a"]["price"] == 3
    assert rows["q1", "b"]["clicks"] == 9
    assert math.isnan(rows["q1", "b"]["price"])
    assert math.isnan(rows["q3", "a"]["clicks"])
    assert rows["q3", "y"]["words"] == 2
    assert data.categories == {"brand": ("u", "v")}
    # Ids of a CSV file stay text.
    path = tmp_path / "docs.csv"
    path.write_text("docid,size\n007,5\n")
    assert rw.combine({"a": {"q": {"007": 1}}}, features=path).X[0, -1] == 5


def test_new_queries_have_the_columns_and_codes_of_the_training_data() -> None:
    def table(*brands: str) -> Any:
        return pd.DataFrame({"docid": ["a", "b"], "brand": pd.Categorical(brands)})

    train = combined(judgments=JUDGMENTS, features=table("u", "v"))
    new = rw.combine(
        {"bm25": {"n": {"b": 1.0}}, "dense": {}}, features=table("w", "v"), reference=train
    )
    new.check_columns(train)
    assert new.X[0, -1] == 1
    ranker = rw.Ranker(n_estimators=2, min_child_samples=1, verbose=0).fit(train)
    assert ranker.predict(new).shape == (1,)


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ({}, {}, "runs must be a dict of at least one retriever"),
        ([BM25], {}, "runs must be a dict of at least one retriever"),
        ({"a": BM25, "a_rank": DENSE}, {}, "two columns 'a_rank'"),
        ({"a": {}}, {}, "no retriever returned any"),
        ({"a": {"q": {}}}, {}, "no retriever returned any"),
        ({"a": {"q": ["d1", "d2"]}}, {}, "run 'a': query 'q' has a list"),
        ({"a": 3}, {}, "run 'a' must be a TREC file"),
        ({"a": pd.DataFrame({"query": [1]})}, {}, "got one with query"),
        ({"a": {"q": {"d": math.nan}}}, {}, "the score of 'd' for 'q' must be a finite number"),
        ({"a": {"q": {"d": "high"}}}, {}, "the score of 'd' for 'q' must be a finite number"),
        ({"a": {"q": {None: 1}}}, {}, "run 'a': a document id is missing"),
        ({"a": {7: {"d": 1}, "7": {"d": 2}}}, {}, "document 'd' occurs twice for query '7'"),
        ({"a": BM25}, {"judgments": {"1": {"a": 1}}}, "no query of the runs is judged"),
        ({"a": BM25}, {"judgments": {}}, "judgments must have a judged document"),
        ({"a": BM25}, {"judgments": JUDGMENTS, "unjudged": -1}, "unjudged must be"),
        ({"a": BM25}, {"features": {"docid": ["a"]}}, "features must be a data frame"),
        ({"a": BM25}, {"features": pd.DataFrame({"x": [1]})}, "got one with x"),
        ({"a": BM25}, {"features": pd.DataFrame({"docid": ["a"]})}, "columns beside the ids"),
        ({"a": BM25}, {"features": pd.DataFrame({"docid": ["a"], "a": [1]})}, "second column 'a'"),
        (
            {"a": BM25},
            {"features": pd.DataFrame({"docid": ["a", "a"], "p": [1, 2]})},
            "two rows for 'a'",
        ),
        (
            {"a": BM25},
            {"features": pd.DataFrame({"docid": ["D-a"], "p": [1]})},
            "none of D-a, ... is in them",
        ),
        (
            {"a": BM25},
            {"features": pd.DataFrame({"docid": ["a"], "p": ["text"]})},
            "'p' has the type String",
        ),
    ],
)
def test_refusals(runs: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rw.combine(runs, **options)


def test_the_command_writes_what_the_function_returns(
    tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    for name, values in (("bm25", BM25), ("dense", DENSE)):
        lines = [f"{q} Q0 {d} 1 {s} x" for q, ds in values.items() for d, s in ds.items()]
        (tmp_path / f"{name}.run").write_text("\n".join(lines))
    lines = [f"{q} 0 {d} {s}" for q, ds in JUDGMENTS.items() for d, s in ds.items()]
    (tmp_path / "qrels").write_text("\n".join(lines))
    (tmp_path / "docs.csv").write_text("docid,price\na,3\n")
    runs = [f"bm25={tmp_path}/bm25.run", f"dense={tmp_path}/dense.run"]
    options = ["--judgments", tmp_path / "qrels", "--features", tmp_path / "docs.csv"]
    out = tmp_path / "train.parquet"
    result = call("combine", *runs, *options, "--out", out)
    assert result.code == 0, result.err
    assert "2 queries" in result.out
    expected = combined(judgments=JUDGMENTS, features=tmp_path / "docs.csv")
    data = read_data(out)
    np.testing.assert_array_equal(data.X, expected.X)
    assert data.fields["docid"].tolist() == expected.fields["docid"].tolist()
    assert data.y.tolist() == expected.y.tolist()
    # A table without types is read back by the name of the column.
    write_data(expected, tmp_path / "train.csv")
    assert read_data(tmp_path / "train.csv", docid="docid").feature_names == expected.feature_names


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["bm25.run", "--out", "a.parquet"], 2, "not of the form NAME=RUN"),
        (["a=x.run", "a=y.run", "--out", "a.parquet"], 2, "given twice"),
        (["a=x.run", "--out", "a.txt"], 1, "no named columns"),
        (["a=absent.run", "--out", "a.parquet"], 1, "absent.run: No such file"),
        (["a=x.run", "--unjudged", "-1", "--out", "a.parquet"], 1, "--unjudged must be a number"),
    ],
)
def test_the_command_called_wrongly(
    call: Callable[..., Outcome], arguments: list[str], code: int, message: str
) -> None:
    result = call("combine", *arguments)
    assert result.code == code
    assert message in result.err
