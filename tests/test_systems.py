"""Columns, fusions and weighted sums: values by loops, weights that are found, and the same in every command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from commands import Outcome
from rankwright.evaluation.systems import RunFile, read_system, scaled_within_queries
from rankwright.report import run_report
from rankwright.runs import Run

NAN = math.nan


def hybrid(n_queries: int = 30, seed: int = 0) -> rw.RankingData:
    """Two scores of which each is missing for some documents, and labels that follow their sum."""
    draw = np.random.default_rng(seed)
    n_rows = 12 * n_queries
    X = draw.normal(size=(n_rows, 2))
    truth = 2 * X[:, 0] + X[:, 1] + draw.normal(scale=0.5, size=n_rows)
    labels = np.clip(np.floor(truth), 0, 3)
    X[:, 0] = 10 + 5 * X[:, 0]
    X[draw.random(X.shape) < 0.2] = NAN
    fields = {"docid": [f"d{row % 12}" for row in range(n_rows)]}
    names = ["bm25", "dense"]
    qid = np.repeat([f"q{number:02d}" for number in range(n_queries)], 12)
    return rw.RankingData(X, labels, qid=qid, feature_names=names, fields=fields)


DATA = hybrid()
TRAIN, TEST = DATA.split(0.4)


def small(X: Any, qid: Any) -> rw.RankingData:
    return rw.RankingData(np.array(X), np.zeros(len(X)), qid=qid, feature_names=["a", "b"])


def test_a_column_ranks_missing_values_last() -> None:
    data = small([[3.0, 1.0], [NAN, 2.0], [-5.0, 3.0]], [1, 1, 1])
    scores = rw.column("a").predict(data)
    assert scores[0] == 3
    assert scores[2] == -5
    assert scores[1] < -5
    # A field ranks too, and a column without values ties all documents.
    fields = data.with_fields({"production": [1.0, None, 2.0]})
    assert rw.column("production").predict(fields).argmax() == 2
    empty = small([[NAN, 0.0], [NAN, 1.0]], [1, 1])
    assert rw.column("a").predict(empty).tolist() == [0, 0]


def test_reciprocal_rank_fusion_by_loops() -> None:
    for k in (60, 5.5):
        scores = rw.rrf("bm25", "dense", k=k).predict(TEST)
        for row in range(0, TEST.n_rows, 7):
            query = TEST.queries.query_of_row == TEST.queries.query_of_row[row]
            expected = 0.0
            for column in (0, 1):
                x, others = TEST.X[row, column], TEST.X[query, column]
                if not math.isnan(x):
                    rank = np.sum(others > x) + (np.sum(others == x) + 1) / 2
                    expected += 1 / (k + rank)
            assert scores[row] == pytest.approx(expected, rel=1e-12)


def test_scales_worked_by_hand() -> None:
    data = small([[2.0, NAN], [6.0, NAN], [NAN, NAN], [4.0, 7.0], [4.0, NAN]], [1, 1, 1, 2, 2])
    found = scaled_within_queries(data.X, data, "minmax")
    assert found.tolist() == [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]
    # Mean 4 and standard deviation 2; a missing value counts as the lowest.
    found = scaled_within_queries(data.X, data, "z")
    assert found.tolist() == [[-1, 0], [1, 0], [-1, 0], [0, 0], [0, 0]]


def test_weights_follow_the_labels() -> None:
    fused = rw.linear("bm25", "dense").fit(TRAIN)
    assert fused.weights_ is not None
    assert fused.weights_["bm25"] > fused.weights_["dense"] > 0
    assert sum(fused.weights_.values()) == pytest.approx(1)

    # No other share is better on the training queries, with the scale that was chosen.
    def value(weight: float, scale: str) -> float:
        system = rw.linear({"bm25": weight, "dense": 1 - weight}, scale=scale)
        return rw.evaluate(system.predict(TRAIN), TRAIN.y, qid=TRAIN.qid).mean["ndcg@10"]

    best = max(
        value(weight, scale) for weight in np.linspace(0, 1, 51) for scale in ("minmax", "z")
    )
    assert value(fused.weights_["bm25"], fused.scale_) == pytest.approx(best, abs=1e-12)


def test_weights_of_three_columns_leave_out_noise() -> None:
    noise = np.random.default_rng(1).normal(size=TRAIN.n_rows)
    data = TRAIN.with_fields({"noise": noise})
    fused = rw.linear("noise", "bm25", "dense", metric="map").fit(data)
    assert fused.weights_ is not None
    assert fused.weights_["noise"] < 0.2 < fused.weights_["bm25"]


def test_lower_is_better_metrics_choose_weights_too() -> None:
    fused = rw.linear("bm25", "dense", metric="arp").fit(TRAIN)
    worst = rw.linear({"bm25": 0, "dense": 1})
    values = [
        rw.evaluate(system.predict(TRAIN), TRAIN.y, qid=TRAIN.qid, metrics="arp").mean["arp"]
        for system in (fused, worst)
    ]
    assert values[0] < values[1]


def test_given_weights_are_kept() -> None:
    given = rw.linear({"bm25": 3, "dense": 1})
    before = given.predict(TEST)
    np.testing.assert_array_equal(given.fit(TRAIN).predict(TEST), before)
    scaled = scaled_within_queries(TEST.X, TEST, "minmax")
    np.testing.assert_allclose(before, 3 * scaled[:, 0] + scaled[:, 1])


def test_the_order_of_rows_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(TEST.n_rows)
    turned = rw.RankingData(
        TEST.X[order], TEST.y[order], qid=TEST.qid[order], feature_names=TEST.feature_names
    )
    place = np.argsort(turned.queries.group(order))
    for system in (
        rw.column("bm25"),
        rw.rrf("bm25", "dense"),
        rw.linear("bm25", "dense").fit(TRAIN),
    ):
        np.testing.assert_allclose(system.predict(turned)[place], system.predict(TEST), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rw.column("x").predict(TEST),
            "'x' is not a column of the data to rank by; it has bm25",
        ),
        (lambda: rw.column("docid").predict(TEST), "'docid' must hold numbers"),
        (lambda: rw.column(3), "must be names of columns; got 3"),  # type: ignore[arg-type]
        (lambda: rw.rrf("bm25"), "at least two"),
        (lambda: rw.rrf("bm25", "bm25"), "must differ"),
        (lambda: rw.rrf("bm25", "dense", k=-1), "k must be a number from 0"),
        (lambda: rw.linear("bm25", "dense", scale="max"), "scale must be one of 'minmax', 'z'"),
        (lambda: rw.linear("bm25", "dense").predict(TEST), "has no weights yet; call fit"),
        (lambda: rw.linear({"bm25": NAN, "dense": 1}), "weight of 'bm25' must be"),
        (lambda: rw.linear("bm25", "dense", metric="ndgc"), "unknown metric"),
        (lambda: read_system("linear:bm25=1,dense"), "'dense' is not of the form COLUMN=WEIGHT"),
        (lambda: read_system("column:"), "must be names of columns"),
        (lambda: rw.compare(rw.column("bm25"), rw.column("dense")), "also need data="),
        (
            lambda: rw.compare(rw.column("a"), rw.column("b"), data=np.eye(2)),  # type: ignore[arg-type]
            "data must be RankingData.*got a ndarray",
        ),
        (
            lambda: rw.linear("a", "b").fit(small(np.eye(2), [1, 1])),
            "no training query has a relevant document",
        ),
        (lambda: rw.compare([1.0], [2.0]), "compare takes evaluations.*got a list"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*no query has a relevant document")
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_categories_have_no_order_to_rank_by() -> None:
    frame = pd.DataFrame({"brand": pd.Categorical(["u", "v"]), "y": [0, 1], "q": [1, 1]})
    with pytest.raises(ValueError, match="'brand' holds categories"):
        rw.column("brand").predict(rw.RankingData(frame, "y", qid="q"))


def test_compare_evaluates_systems_and_rankers_on_data() -> None:
    ranker = rw.Ranker(n_estimators=5, min_child_samples=5, verbose=0).fit(TRAIN)
    systems = [rw.column("bm25"), rw.rrf("bm25", "dense"), rw.linear("bm25", "dense").fit(TRAIN)]
    found = rw.compare(*systems, ranker, data=TEST, metrics="ndcg@10 map")
    evaluations = [
        rw.evaluate(system.predict(TEST), TEST.y, qid=TEST.qid, metrics="ndcg@10 map")
        for system in (*systems, ranker)
    ]
    names = ["column:bm25", "rrf:bm25,dense", "linear:bm25,dense", "Ranker"]
    assert found == rw.compare(*evaluations, names=names)
    # Evaluations and systems can be mixed.
    mixed = rw.compare(evaluations[0], systems[1], data=TEST, names=["a", "b"])
    assert mixed.rows[0] == rw.compare(*evaluations[:2], names=["a", "b"]).rows[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with columns of unusual names, a run that knows them, and a TREC run file."""
    folder = tmp_path_factory.mktemp("systems")
    for name, data in (("train", TRAIN), ("test", TEST)):
        frame = pd.DataFrame(data.X, columns=data.feature_names)
        frame["grade"], frame["query"] = data.y, data.qid
        frame["url"] = data.fields["docid"]
        frame.to_parquet(folder / f"{name}.parquet")
    options = {"label": "grade", "qid": "query", "docid": "url"}
    rows = rw.read_data(folder / "train.parquet", **options)
    parameters = {"n_estimators": 5, "n_jobs": 1, "min_child_samples": 5}
    rw.train_run(
        folder / "run", rows, parameters=parameters, sources={"reading": options}, verbose=0
    )
    test = rw.read_data(folder / "test.parquet", **options)
    fused = rw.rrf("bm25", "dense").predict(test)
    from rankwright.data.trec import TrecRun

    run = TrecRun(test.qid, test.fields["docid"], fused, "fused")
    rw.write_trec_run(run, folder / "fused.run")
    return folder


SYSTEMS = ["column:bm25", "rrf:bm25,dense", "linear:bm25,dense", "linear:bm25=2,dense=1"]


def test_commands_take_any_mix_and_the_names_of_columns_from_a_run(
    folder: Path, call: Callable[..., Outcome]
) -> None:
    paths = [folder / "fused.run", folder / "run"]
    train = ["--train", folder / "train.parquet"]
    result = call(
        "compare", *SYSTEMS, *paths, folder / "test.parquet", *train, "--json", "--queries", 0
    )
    assert result.code == 0, result.err
    means = json.loads(result.out)["means"]
    assert list(means) == [*SYSTEMS, "fused.run", "run"]
    systems = [read_system(text) for text in SYSTEMS]
    for text, system in zip(SYSTEMS, systems, strict=True):
        assert system is not None
        scores = system.fit(TRAIN).predict(TEST)
        expected = rw.evaluate(scores, TEST.y, qid=TEST.qid, metrics="ndcg@10 map").mean
        assert means[text] == pytest.approx(expected)
    assert means["fused.run"] == pytest.approx(means["rrf:bm25,dense"])
    # Without a run the columns are named by options.
    options = ["--label", "grade", "--qid", "query", "--metrics", "map", "--json"]
    result = call("evaluate", "column:bm25", folder / "test.parquet", *options)
    assert json.loads(result.out)["mean"]["map"] == pytest.approx(means["column:bm25"]["map"])


def test_columns_of_letor_text_are_named_by_their_numbers(
    tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    rw.write_letor(rw.RankingData(np.nan_to_num(TEST.X), TEST.y, qid=TEST.qid), tmp_path / "a.txt")
    result = call("compare", "column:f1", "rrf:f1,f2", tmp_path / "a.txt", "--queries", 0)
    assert result.code == 0, result.err
    assert "rrf:f1,f2" in result.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate", "column:bm52", "test.parquet"], 1, "no column 'bm52'"),
        (["evaluate", "colum:bm25", "test.parquet"], 2, "there is no file of this name"),
        (["evaluate", "linear:bm25,dense", "test.parquet"], 2, "linear:bm25=1,dense=1"),
        (["evaluate", "rrf:bm25", "test.parquet"], 1, "at least two"),
        (["evaluate", "column:url", "test.parquet"], 1, "must hold numbers"),
        (["evaluate", "column:bm25", "qrels"], 1, "judgments and no columns"),
        (["report", "absent", "--data", "test.parquet"], 1, "absent"),
    ],
)
def test_commands_called_wrongly(
    folder: Path,
    call: Callable[..., Outcome],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    Path("qrels").write_text("q00 0 d1 1\n")
    result = call(*arguments, "--label", "grade", "--qid", "query")
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_a_report_shows_systems_beside_runs(folder: Path, call: Callable[..., Outcome]) -> None:
    names = ["column:bm25", "linear:bm25,dense", "run", "fused.run"]
    systems = [folder / name if ":" not in name else name for name in names]
    data = ["--data", folder / "test.parquet", "--train", folder / "train.parquet"]
    out = folder / "report.html"
    result = call("report", *systems, *data, "--out", out)
    assert result.code == 0, result.err
    page = out.read_text()
    assert all(name in page for name in names)
    assert "Learning curves" in page
    # Without a run there is no training to show.
    options = ["--label", "grade", "--qid", "query"]
    result = call("report", "column:bm25", "rrf:bm25,dense", *data, *options, "--out", out)
    assert result.code == 0, result.err
    assert "Learning curves" not in out.read_text()


def test_the_sections_of_a_report_belong_to_their_systems(folder: Path) -> None:
    options = {"label": "grade", "qid": "query", "docid": "url"}
    run = Run.open(folder / "run")
    test = rw.read_data(folder / "test.parquet", **options, reference=run.ranker.columns_)
    page = run_report([rw.column("bm25"), run], test, metrics="ndcg@10")
    sections = {section.title: section.blocks for section in page.sections}
    (reasons,) = sections["Reasons"]
    assert reasons.systems == ["run"]  # type: ignore[attr-defined]
    ranking = reasons.queries[0]["runs"][0]  # type: ignore[attr-defined]
    scores = run.ranker.predict(test)
    assert ranking["scores"][0] in [float(f"{score:.6g}") for score in scores]
    assert page.title == "column:bm25 and run"
    alone = run_report([rw.column("bm25")], test)
    assert alone.sections[0].title == "Overview"
    assert not {"Reasons", "Features", "Time"} & {section.title for section in alone.sections}


def test_a_run_file_ranks_documents_that_it_lacks_last() -> None:
    from rankwright.data.trec import TrecRun

    first = TEST.qid[0]
    run = TrecRun([first], ["d3"], [-2.0], "x")
    scores = RunFile(run, "x").predict(TEST)
    assert scores[TEST.boundaries[0] + 3] == -2
    assert (np.delete(scores, TEST.boundaries[0] + 3) < -2).all()


def test_documents_without_a_label_count_as_not_relevant() -> None:
    unjudged = np.random.default_rng(5).random(TRAIN.n_rows) < 0.3
    labels = [np.where(unjudged, missing, TRAIN.y) for missing in (NAN, 0.0)]
    data = [
        rw.RankingData(TRAIN.X, y, qid=TRAIN.qid, feature_names=TRAIN.feature_names) for y in labels
    ]
    missing, zero = (rw.linear("bm25", "dense").fit(part).weights_ for part in data)
    assert missing == zero
    curves = [rw.learning_curve(rw.column("bm25"), part, [5], repeats=2) for part in data]
    assert curves[0] == curves[1]
    tables = [rw.compare(rw.column("bm25"), rw.column("dense"), data=part) for part in data]
    assert tables[0] == tables[1]
