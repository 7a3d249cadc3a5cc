"""The commands about clicks: `evaluate --clicks` and `interleave`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.data.documents import document_names


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with and without names of documents, two models and a click log."""
    path = tmp_path_factory.mktemp("clicks")
    data = rw.make_web_search(40, kind="short", n_features=20, random_state=6)
    urls = np.array([f"url{i}" for i in range(data.n_rows)], dtype=object)
    named = rw.RankingData(
        data.X, data.y, qid=data.qid, feature_names=data.feature_names, fields={"url": urls}
    )
    rw.write_data(named, path / "named.parquet")
    rw.write_data(data, path / "plain.parquet")
    for name, trees in (("old", 2), ("new", 20)):
        ranker = rw.Ranker(n_estimators=trees, min_child_samples=5, n_jobs=1, verbose=0).fit(data)
        ranker.save(path / name)
    scores = data.y + np.random.default_rng(0).normal(size=data.n_rows)
    log = rw.simulate_clicks(data, scores, impressions=30, shown=5, temperature=1.0)
    columns = {
        "query": log.query,
        "session": log.session,
        "position": log.position,
        "click": log.click.astype(int),
    }
    names = np.array(document_names(data), dtype=object)
    pd.DataFrame({**columns, "document": urls[log.document]}).to_parquet(path / "named-log.parquet")
    pd.DataFrame({**columns, "document": names[log.document]}).to_csv(path / "log.csv", index=False)
    return path


CURVE = "1,0.5,0.3333,0.25,0.2"


def test_evaluate_from_clicks_is_what_the_library_says(folder, call):
    log = "--clicks", folder / "named-log.parquet", "--document", "url", "--propensity", CURVE
    metrics = "--metrics", "dcg@5 rbp"
    code, out, err = call(
        "evaluate", folder / "new", folder / "named.parquet", *log, *metrics, "--json"
    )
    assert code == 0, err
    data = rw.read_data(folder / "named.parquet")
    log = rw.read_clicks(folder / "named-log.parquet").attach(data, document="url")
    scores = rw.load(folder / "new").predict(data)
    expected = rw.evaluate_clicks(
        log, scores, [float(x) for x in CURVE.split(",")], metrics="dcg@5 rbp"
    )
    assert json.loads(out)["rows"] == [vars(row) for row in expected.rows]
    assert json.loads(out)["propensities"]["values"] == [float(x) for x in CURVE.split(",")]


def test_ids_of_documents_may_be_in_a_column_that_is_not_a_feature(folder, call, tmp_path):
    rw.write_data(rw.read_data(folder / "named.parquet"), tmp_path / "named.csv")
    run, data = tmp_path / "run", tmp_path / "named.csv"
    settings = [
        word
        for pair in ("n_estimators=3", "min_child_samples=5", "n_jobs=1")
        for word in ("--set", pair)
    ]
    assert call("train", data, "--drop", "url", "--out", run, *settings)[0] == 0
    log = "--clicks", folder / "named-log.parquet", "--propensity", CURVE, "--document"
    code, out, err = call("evaluate", run, data, *log, "url")
    assert code == 0, err
    assert call("evaluate", run, data, *log, "url", "--drop", "url") == (0, out, "")
    code, _, err = call("evaluate", run, data, *log, "nope")
    assert (code, err.strip()) == (
        1,
        f"rankwright: {data} has no column 'nope'; --document must name one of its columns.",
    )
    lists = "--out", tmp_path / "lists.parquet", "--document"
    assert call("interleave", run, run, data, *lists, "url")[0] == 0
    assert set(pd.read_parquet(tmp_path / "lists.parquet")["document"].str[:3]) == {"url"}
    code, _, err = call("interleave", run, run, data, *lists, "nope")
    assert (code, err.strip()) == (
        1,
        f"rankwright: {data} has no column 'nope'; --document must name one of its columns.",
    )


def test_documents_are_named_by_query_and_row_and_propensities_are_harvested(folder, call):
    paths = folder / "new", folder / "plain.parquet", "--clicks", folder / "log.csv"
    code, out, err = call("evaluate", *paths)
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [
        ["dcg@10", name] for name in ("ips", "snips", "dr")
    ]
    assert "propensity" in out
    frame = pd.read_csv(folder / "log.csv").rename(columns={"query": "q", "click": "c"})
    frame.to_csv(folder / "renamed.csv", index=False)
    renamed = (
        "--clicks",
        folder / "renamed.csv",
        "--log-column",
        "query=q",
        "--log-column",
        "click=c",
    )
    assert call("evaluate", *paths[:2], *renamed) == (0, out, "")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["--clicks", "log.csv", "--propensity", "magic"],
            2,
            "'magic' is not swaps, harvest or em",
        ),
        (["--clicks", "log.csv", "--propensity", "1,0"], 1, "the propensity of position 2 is 0"),
        (["--clicks", "log.csv", "--metrics", "ndcg@5"], 1, "clicks cannot estimate it"),
        (["--clicks", "log.csv", "--ties", "best"], 2, "have no meaning"),
        (["--clicks", "log.csv", "--log-column", "qid"], 2, "is not of the form NAME=COLUMN"),
        (["--clicks", "named-log.parquet"], 1, "shown documents are not in the data, such as url"),
        (["--clicks", "named-log.parquet"], 1, "--document names the column of the data"),
        (
            ["--clicks", "log.csv", "--log-column", "click=c"],
            1,
            "--log-column click=COLUMN must name one of them.",
        ),
        (
            ["--clicks", "log.csv", "--log-column", "session=s"],
            1,
            "--log-column session=COLUMN must name one of them.",
        ),
        (["--clicks", "log.csv", "--propensity", "swaps"], 1, "use the method harvest or em"),
        (["--propensity", "em"], 2, "need --clicks"),
        (["--clip", "0.1"], 2, "need --clicks"),
    ],
)
def test_bad_evaluations_are_refused(folder, call, monkeypatch, options, code, message):
    monkeypatch.chdir(folder)
    ended, _, err = call("evaluate", "new", "plain.parquet", *options)
    assert ended == code
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("method", ["team-draft", "balanced"])
def test_lists_are_made_shown_and_tested(folder, call, tmp_path, method):
    systems = folder / "old", folder / "new", folder / "named.parquet"
    lists = tmp_path / "lists.parquet"
    made = call(
        "interleave",
        *systems,
        "--document",
        "url",
        "--out",
        lists,
        "--lists",
        3,
        "--length",
        4,
        "--method",
        method,
    )
    assert made == (0, f"120 lists written to {lists}\n", "")
    frame = pd.read_parquet(lists)
    assert frame.groupby(["query", "session"]).size().eq(4).all()
    data = rw.read_data(folder / "named.parquet")
    label = dict(zip(data.fields["url"], data.y, strict=True))
    frame["click"] = [int(label[url] >= 3) for url in frame["document"]]
    frame.to_csv(tmp_path / "log.csv", index=False)
    test = "interleave", "--clicks", tmp_path / "log.csv", "--method", method
    code, out, err = call(*test, "--effect", 0.1, "--json")
    assert code == 0, err
    result = rw.compare_interleaved(rw.read_clicks(frame), method=method)
    summary = json.loads(out)
    assert summary.pop("sample_size") == result.sample_size(0.1)
    assert summary == pytest.approx(result.to_dict())
    assert result.wins_b > result.wins_a
    assert call(*test)[1] == f"{result}\n"


def test_sample_size_without_a_log(call):
    n = rw.interleaving_sample_size(0.05, ties=0.6)
    code, out, _ = call("interleave", "--effect", "0.05", "--tie-share", "0.6")
    assert (code, out) == (
        0,
        f"a preference of 0.05 needs {n} impressions (power 80 %, level 5 %)\n",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give two systems, the data and --out"),
        (["old", "new", "named.parquet"], "to make lists give two systems, the data and --out"),
        (["old", "new", "--out", "x.parquet"], "to make lists give two systems"),
        (["--clicks", "log.csv", "--out", "x.parquet"], "--out needs two systems and the data"),
        (["--clicks", "log.csv", "--length", "3"], "--length needs two systems and the data"),
        (["--clicks", "log.csv", "--qid", "q"], "--qid needs two systems and the data"),
        (["--clicks", "log.csv", "--tie-share", "0.5"], "--tie-share needs --effect"),
        (
            ["old", "new", "named.parquet", "--out", "x.csv", "--tie-share", "0.5"],
            "--tie-share needs --clicks",
        ),
        (
            ["--effect", "0.1", "--tie-share", "0.5", "--method", "balanced"],
            "--method needs --clicks",
        ),
        (["--effect", "0.1"], "without --clicks give --tie-share"),
        (
            ["--effect", "0.6", "--tie-share", "0.5"],
            "at most the share of impressions with a winner, here 0.5",
        ),
    ],
)
def test_bad_interleavings_are_refused(folder, call, monkeypatch, options, message):
    monkeypatch.chdir(folder)
    code, _, err = call("interleave", *options)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_lists_go_to_tables_only(folder, call, tmp_path):
    systems = folder / "old", folder / "new", folder / "plain.parquet"
    code, _, err = call("interleave", *systems, "--out", tmp_path / "lists.txt")
    assert code == 1
    assert "the name must end in .parquet, .pq, .arrow" in err
    assert call("interleave", *systems, "--out", tmp_path / "lists.tsv")[0] == 0
    assert pd.read_csv(tmp_path / "lists.tsv", sep="\t")["document"][0].startswith("1-")
