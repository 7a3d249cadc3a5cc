"""The diagnosis of a model as numbers, text and page, and the command that makes it."""

import json
import re
import sys

import numpy as np
import pytest

import rankwright as rw
from rankwright.evaluation.changes import generalisation_gap
from rankwright_lab.cli import main
from rankwright_lab.diagnostics import diagnose, directness, incoherency_curve
from small import TRAIN, VALID, quick

TRUNCATED = "lambdamart(truncation=k)"


@pytest.fixture(scope="module")
def models():
    return quick(objective=TRUNCATED, metric="ndcg@3").fit(TRAIN), quick(metric="ndcg@3").fit(TRAIN)


@pytest.fixture(scope="module")
def diagnosis(models):
    ranker, other = models
    lines = []
    result = diagnose(
        ranker,
        VALID,
        train=TRAIN,
        against=other,
        names=("new", "old"),
        every=4,
        repeats=10,
        samples=20,
        tell=lines.append,
    )
    assert lines == [
        "gradient incoherency",
        "directness",
        "gradient estimates",
        "generalisation gap",
        "changed queries",
    ]
    return result


def test_parts_are_those_of_the_single_diagnostics(diagnosis, models):
    ranker, _ = models
    assert [curve.objective for curve in diagnosis.incoherency] == [
        TRUNCATED,
        "lambdamart(truncation=k, extend=all)",
    ]
    expected = incoherency_curve(ranker, VALID, every=4)
    assert diagnosis.incoherency[0].to_dict() == expected.to_dict()
    assert diagnosis.gap.to_dict() == generalisation_gap(ranker, TRAIN, VALID, every=4).to_dict()
    smooth = directness(
        ranker.predict(VALID),
        VALID.y,
        qid=VALID.qid,
        metric="ndcg@3",
        objective="stochasticrank",
        samples=20,
    )
    assert diagnosis.pair.eps_1 == smooth.max_gap
    points = {(point.sigma, point.mu): point for point in diagnosis.directness[1].points}
    assert points[1.0, 0.0].max_gap == smooth.max_gap
    assert diagnosis.changes.names == ("old", "new")
    means = [
        rw.evaluate(one.predict(VALID), VALID.y, qid=VALID.qid, metrics=["ndcg@3"]).mean["ndcg@3"]
        for one in models
    ]
    assert diagnosis.changes.overall.difference == pytest.approx(means[0] - means[1])


def test_numbers_are_ready_for_json(diagnosis):
    again = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert again["names"] == ["new", "old"]
    assert len(again["incoherency"][0]["stages"]) == 3
    assert again["changes"]["metric"] == "ndcg@3"


def test_summary(diagnosis):
    lines = str(diagnosis).splitlines()
    assert lines[0].startswith(f"gradient of {TRUNCATED}: ")
    assert any(line.startswith("generalisation gap of ndcg@3: +") for line in lines)
    assert lines[-1].startswith("ndcg@3 against old: ")


def test_page(diagnosis):
    page = diagnosis.page("some data")
    titles = [section.title for section in page.sections]
    assert titles == [
        "Gradient incoherency",
        "Directness",
        "Gradient estimates",
        "Generalisation gap",
        "Changed queries",
    ]
    assert (page.title, page.subtitle) == ("Diagnostics of new", "on some data")
    assert len(page.figures()) == 6
    for figure in page.figures():
        specification = json.dumps(figure.specification(), allow_nan=False)
        values = [layer for layer in re.findall(r'"values": \[(.*?)\]', specification) if layer]
        assert values, f"{figure.title} draws nothing"
    text = page.html()
    assert "Diagnostics of new" in text
    assert len(text) < 2_000_000
    table = page.markdown()
    assert f"second by the metric, {'hold' if diagnosis.pair.premises else 'do not hold'}." in table
    for row in diagnosis.changes.most(3):
        assert f"| {row['query']} |" in table


def test_without_training_data_and_another_model(models):
    alone = diagnose(models[1], VALID, every=12, repeats=5, samples=5, max_queries=4)
    assert (alone.gap, alone.changes, alone.pair) == (None, None, None)
    assert len(alone.incoherency) == 1, "there is nothing to extend"
    assert alone.directness[0].queries <= 4
    assert (
        alone.estimators.query_ids.tolist()
        == VALID.queries.ids[np.linspace(0, VALID.n_queries - 1, 4).round().astype(int)].tolist()
    )
    assert len(alone.page().sections) == 3


def test_a_metric_that_selects_is_rejected():
    ranker = quick(metric="dcg-rr", n_estimators=2).fit(TRAIN)
    with pytest.raises(ValueError, match="trained for dcg-rr, which selects documents"):
        diagnose(ranker, VALID)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    path = tmp_path_factory.mktemp("diagnose")
    for name, model in zip(("new", "old"), models, strict=True):
        model.save(path / name)
    rw.write_letor(VALID, path / "test.txt")
    rw.write_letor(TRAIN, path / "train.txt")
    return path


def run(folder, monkeypatch, capsys, *words):
    """Return the exit code, standard output and standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["rankwright-lab", "diagnose", *words])
    code = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    output = capsys.readouterr()
    return code, output.out, output.err


def test_command_writes_a_page(folder, monkeypatch, capsys):
    words = (
        "new",
        "--data",
        "test.txt",
        "--train",
        "train.txt",
        "--against",
        "old",
        "--every",
        "6",
    )
    code, out, err = run(folder, monkeypatch, capsys, *words)
    assert code == 0, err
    assert out.splitlines()[-1] == "wrote diagnose.html"
    assert "directness ..." in err
    assert "Diagnostics of new" in (folder / "diagnose.html").read_text()


def test_command_prints_json_and_writes_nothing_by_default(folder, monkeypatch, capsys):
    (folder / "diagnose.html").unlink(missing_ok=True)
    words = ("new", "--data", "test.txt", "--every", "12", "--queries", "5", "--json", "--quiet")
    code, out, err = run(folder, monkeypatch, capsys, *words)
    assert code == 0
    assert [line for line in err.splitlines() if not line.startswith("rankwright: warning:")] == []
    assert json.loads(out)["names"] == ["new"]
    assert not (folder / "diagnose.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("new", "--data", "none.txt"), 1, "rankwright-lab: .*none.txt"),
        (("nothing", "--data", "test.txt"), 1, "rankwright-lab: .*nothing"),
        (("new", "--data", "test.txt", "--out", "page.pdf"), 2, "must end in .html or .md"),
        (("new", "--data", "test.txt", "--against", "new"), 2, "must be another run"),
        (("new",), 2, "Missing option '--data'"),
    ],
)
def test_wrong_usage_of_the_command(folder, monkeypatch, capsys, words, code, message):
    ended, out, err = run(folder, monkeypatch, capsys, *words)
    assert (ended, out) == (code, "")
    assert re.search(message, err)
    assert not (folder / "page.pdf").exists()
