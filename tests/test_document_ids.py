"""Document ids and query texts travel from files into predictions, TREC files and the report."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.data.documents import document_names
from test_first_hour import Command

X = np.random.default_rng(3).normal(size=(40, 3)).round(3)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
QID = np.repeat([7, 3, 9, 5], 10)
IDS = [f"GX{number:03}" for number in range(40)]
TEXTS = np.repeat(["red shoes", "<b>tea</b>", "a, b", "cafe"], 10)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y, qid=QID, url=IDS, words=TEXTS)


def letor(path: Path) -> Path:
    rows = [
        f"{y} qid:{qid} 1:{a} 2:{b} 3:{c} #docid = {docid} inc = 1 prob = 0.2"
        for y, qid, (a, b, c), docid in zip(Y, QID, X.tolist(), IDS, strict=True)
    ]
    path.write_text("# docid = of no row\n" + "\n".join(rows) + "\n\n")
    return path


def together(data: rw.RankingData) -> set[tuple[float, str]]:
    return set(zip(data.X[:, 0].tolist(), data.fields["docid"].tolist(), strict=True))


EXPECTED = set(zip(X[:, 0].tolist(), IDS, strict=True))


def test_letor_comments_become_a_field_that_is_written_again(tmp_path: Path) -> None:
    data = rw.read_letor(letor(tmp_path / "a.txt"))
    assert together(data) == together(rw.read_data(tmp_path / "a.txt")) == EXPECTED
    rw.write_letor(data, tmp_path / "b.txt")
    assert together(rw.read_letor(tmp_path / "b.txt")) == EXPECTED
    assert together(rw.read_data(tmp_path / "a.txt", reference=data)) == EXPECTED
    rw.write_data(data, tmp_path / "c.parquet")
    assert together(rw.read_data(tmp_path / "c.parquet")) == EXPECTED


def test_letor_text_without_ids_has_no_field(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 # the docid is unknown\n0 qid:1 1:3\n")
    assert rw.read_letor(tmp_path / "a.txt").fields == {}


def test_an_id_with_whitespace_cannot_be_written_as_letor(tmp_path: Path) -> None:
    data = rw.RankingData([[1.0]], [1], qid=[1], fields={"docid": ["a b"]})
    with pytest.raises(ValueError, match="document id 'a b' cannot be written"):
        rw.write_letor(data, tmp_path / "a.txt")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_become_fields(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    FRAME.to_csv(path, index=False) if ending == "csv" else FRAME.to_parquet(path)
    data = rw.read_data(path, docid="url", query_text="words")
    assert data.feature_names == ["a", "b", "c"]
    assert together(data) == EXPECTED
    assert data.fields["query_text"][data.qid == 7].tolist() == ["red shoes"] * 10
    with pytest.raises(ValueError, match=r"has no column 'uri'.* docid must name one of them"):
        rw.read_data(path, docid="uri")
    FRAME.assign(docid=1).to_parquet(tmp_path / "two.parquet")
    with pytest.raises(
        ValueError, match="docid names the column 'url', and there is a column 'docid' too"
    ):
        rw.read_data(tmp_path / "two.parquet", docid="url", query_text="words")


def test_two_documents_of_a_query_need_two_ids() -> None:
    data = rw.RankingData(np.ones((2, 1)), [0, 1], qid=[4, 4], fields={"docid": ["x", "x"]})
    with pytest.raises(ValueError, match="query 4 has two documents with the id 'x'"):
        document_names(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ids")
    data = rw.RankingData(FRAME.drop(columns=["url", "words"]), "label", qid="qid")
    for name, objective in (("one", "lambdamart"), ("two", "queryrmse")):
        parameters: dict[str, Any] = {
            "n_estimators": 3,
            "objective": objective,
            "min_child_samples": 1,
            "n_jobs": 1,
        }
        rw.train_run(folder / name, data, parameters=parameters, verbose=0)
    FRAME.to_parquet(folder / "test.parquet")
    return folder


OPTIONS = ("--docid", "url", "--query-text", "words")


def test_predict_keeps_them(runs: Path, tmp_path: Path, call: Command) -> None:
    test = runs / "test.parquet"
    for name in ("scores.csv", "run.trec"):
        code, _, error = call("predict", runs / "one", test, *OPTIONS, "--out", tmp_path / name)
        assert (code, error) == (0, "")
    with open(tmp_path / "scores.csv", newline="") as file:
        table = list(csv.DictReader(file))
    scores = rw.Run.open(runs / "one").ranker.predict(FRAME[["a", "b", "c"]])
    assert [(row["qid"], row["docid"], row["query_text"]) for row in table] == [
        (str(qid), docid, text) for qid, docid, text in zip(QID, IDS, TEXTS, strict=True)
    ]
    assert [float(row["score"]) for row in table] == scores.tolist()
    run = rw.read_trec_run(tmp_path / "run.trec")
    assert dict(zip(run.docno.tolist(), run.score.tolist(), strict=True)) == dict(
        zip(IDS, scores, strict=True)
    )


def test_evaluate_knows_documents_by_id_and_by_number(
    runs: Path, tmp_path: Path, call: Command
) -> None:
    test = runs / "test.parquet"
    expected = call("evaluate", runs / "one", test, "--drop", "url", "--drop", "words")[1]
    call("predict", runs / "one", test, *OPTIONS, "--out", tmp_path / "ids.trec")
    call(
        "predict",
        runs / "one",
        test,
        "--drop",
        "url",
        "--drop",
        "words",
        "--out",
        tmp_path / "numbers.trec",
    )
    assert "7-1" in (tmp_path / "numbers.trec").read_text()
    for name in ("ids", "numbers"):
        code, out, error = call("evaluate", tmp_path / f"{name}.trec", test, *OPTIONS)
        assert (code, out) == (0, expected), error
    code, out, error = call(
        "evaluate", tmp_path / "numbers.trec", test
    )  # text columns are nothing to a run file
    assert (code, out) == (0, expected), error


def test_a_run_file_needs_labels_and_queries_alone(
    runs: Path, tmp_path: Path, call: Command
) -> None:
    call("predict", runs / "one", runs / "test.parquet", *OPTIONS, "--out", tmp_path / "ids.trec")
    expected = call("evaluate", tmp_path / "ids.trec", runs / "test.parquet", *OPTIONS)[1]
    FRAME.drop(columns=["a", "b", "c", "words"]).to_csv(tmp_path / "judged.csv", index=False)
    code, out, error = call(
        "evaluate", tmp_path / "ids.trec", tmp_path / "judged.csv", "--docid", "url"
    )
    assert (code, out) == (0, expected), error
    code, _, error = call("evaluate", tmp_path / "missing.trec", tmp_path / "judged.csv")
    assert (code, "missing.trec" in error) == (1, True)
    colours = pd.Series(TEXTS, dtype="category")
    weighted = rw.RankingData(
        FRAME[["a"]].assign(colour=colours),
        Y,
        qid=QID,
        sample_weight=1.0 + QID,
        fields={"docid": IDS},
    )
    rw.write_data(weighted, tmp_path / "weighted.parquet")
    read = [
        rw.read_data(tmp_path / "weighted.parquet", features=features) for features in (True, False)
    ]
    assert [data.weights.tolist() for data in read] == 2 * [weighted.weights.tolist()]
    assert [data.fields["docid"].tolist() for data in read] == 2 * [
        weighted.fields["docid"].tolist()
    ]
    assert read[1].X.tolist() == [[0.0]] * weighted.n_rows


def test_the_query_view_of_the_report_shows_them(runs: Path, tmp_path: Path, call: Command) -> None:
    test, page = runs / "test.parquet", tmp_path / "report.html"
    code, _, error = call(
        "report", runs / "one", runs / "two", "--data", test, *OPTIONS, "--out", page
    )
    assert code == 0, error
    text = page.read_text()
    data = json.loads(re.findall(r'class="explorer-data">(.*?)</script>', text, re.DOTALL)[0])
    shown = {name for names in data["names"] for name in names.values()}
    assert shown == set(IDS)
    first = [data["names"][0][str(number)] for number in data["rankings"][0][0][0]]
    assert len(first) == 10
    assert "red shoes" in text
    assert "<b>tea</b>" not in text


def test_ids_of_the_training_data_are_not_needed_in_other_data(
    runs: Path, tmp_path: Path, call: Command
) -> None:
    test, run = runs / "test.parquet", tmp_path / "run"
    call("train", test, *OPTIONS, "--trees", 2, "--set", "n_jobs=1", "--out", run)
    FRAME.drop(columns=["url", "words"]).to_parquet(tmp_path / "plain.parquet")
    for path in (test, tmp_path / "plain.parquet"):
        code, _, error = call("predict", run, path, "--out", tmp_path / "scores.csv")
        assert code == 0, error
    code, _, error = call(
        "predict", run, tmp_path / "plain.parquet", "--docid", "uri", "--out", tmp_path / "s.csv"
    )
    assert (code, "has no column 'uri'" in error) == (1, True)


def test_comments_stay_with_their_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(
            f"1 qid:1 1:1 # docid = {name}1\n0 qid:1 1:2 # docid = {name}2\n"
        )
    first, second = rw.read_letor([tmp_path / "a", tmp_path / "b"])
    assert first.fields["docid"].tolist() == ["a1", "a2"]
    assert second.fields["docid"].tolist() == ["b1", "b2"]
