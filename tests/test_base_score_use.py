"""Given scores in run folders, on the command line, in tuning, reports, exports and on a cluster."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from commands import Outcome
from rankwright import RankingData, evaluate, export
from rankwright.cluster import dask as dask_room
from rankwright.report import run_report
from rankwright.runs import Run, check_same, run_config, train_run
from small import TRAIN, VALID, quick
from test_base_score import BASE, START, VALID_BASE, VALID_START, frame_of, same
from test_export_runtimes import COMPILE

Call = Callable[..., Outcome]
OPTIONS = {"n_estimators": 5, "n_jobs": 1, "random_state": 1}
FLAGS = ("--trees", 5, "--seed", 1, "--threads", 1, "--label", "y", "--qid", "q", "--quiet")
FEATURE = "f3"  # of LETOR text


def write(folder: Path) -> tuple[Path, Path]:
    """Plain columns, as a user has them: the files do not say which is the start."""
    frame_of(START).to_parquet(folder / "train.parquet")
    frame_of(VALID_START).to_parquet(folder / "valid.parquet")
    return folder / "train.parquet", folder / "valid.parquet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start")
    write(path)
    rw.write_letor(TRAIN, path / "train.txt")
    rw.write_letor(VALID, path / "valid.txt")
    return path


@pytest.fixture
def run(folder: Path, call: Call) -> Path:
    """A run of the command line; training it again does nothing."""
    train, valid = folder / "train.parquet", folder / "valid.parquet"
    given = ("--valid", valid, "--base-score", "production", *FLAGS)
    done = call("train", train, "--out", folder / "run", *given)
    assert done.code == 0, done.err
    return folder / "run"


def expected_model(**options: Any) -> rw.Ranker:
    ranker = rw.Ranker(**OPTIONS, verbose=0, **options)
    return ranker.fit(frame_of(START), "y", qid="q", base_score="production")


# The command line.


@pytest.mark.parametrize("stream", ["--stream", "--in-memory"])
def test_the_command_trains_and_predicts_as_python_does(
    stream: str, folder: Path, run: Path, call: Call, tmp_path: Path
) -> None:
    expected = expected_model()
    opened = Run.open(run)
    assert same(opened.ranker, expected)
    assert opened.config["base_score"] == "production"
    train, valid = folder / "train.parquet", folder / "valid.parquet"
    given = (stream, "--valid", valid, "--base-score", "production", *FLAGS)
    done = call("train", train, "--out", tmp_path / "run", *given)
    assert done.code == 0, done.err
    assert same(Run.open(tmp_path / "run").ranker, expected)
    for system in (run, run / "model"):
        given = ("--out", tmp_path / "scores.txt", "--label", "y", "--qid", "q", stream)
        done = call("predict", system, valid, *given)
        assert done.code == 0, done.err
        scores = np.loadtxt(tmp_path / "scores.txt")
        assert np.array_equal(scores, expected.predict(frame_of(VALID_START)))
    frame = frame_of(VALID_START).rename(columns={"production": "other"})
    frame.to_parquet(tmp_path / "other.parquet")
    given = ("--out", tmp_path / "other.txt", "--base-score", "other", stream)
    done = call("predict", run, tmp_path / "other.parquet", *given)
    assert done.code == 0, done.err
    assert np.array_equal(np.loadtxt(tmp_path / "other.txt"), scores)
    frame.drop(columns="other").to_parquet(tmp_path / "none.parquet")
    done = call("predict", run, tmp_path / "none.parquet", "--out", tmp_path / "x.txt", stream)
    assert done.code != 0
    assert "'production'" in done.err


def test_the_config_of_a_run_has_the_column(
    folder: Path, run: Path, call: Call, tmp_path: Path
) -> None:
    train = folder / "train.parquet"
    flags = ("--label", "y", "--qid", "q", "--quiet")
    done = call("train", train, "--config", run / "config.toml", "--out", tmp_path / "run", *flags)
    assert done.code == 0, done.err
    assert same(Run.open(tmp_path / "run").ranker, expected_model())
    with pytest.raises(ValueError, match="other parameters \\(base_score is 'production'"):
        check_same(Run.open(run), run_config(Run.open(run).ranker.get_params()))


@pytest.mark.parametrize("stream", ["--stream", "--in-memory"])
def test_a_feature_of_letor_text_may_be_the_start(
    stream: str, folder: Path, call: Call, tmp_path: Path
) -> None:
    given = (stream, "--base-score", FEATURE, "--trees", 5, "--seed", 1, "--threads", 1, "--quiet")
    done = call("train", folder / "train.txt", "--out", tmp_path / "run", *given)
    assert done.code == 0, done.err
    text = rw.read_letor(folder / "train.txt")
    expected = rw.Ranker(**OPTIONS, verbose=0).fit(text, base_score=FEATURE)
    assert same(Run.open(tmp_path / "run").ranker, expected)
    done = call(
        "predict", tmp_path / "run", folder / "train.txt", "--out", tmp_path / "s.txt", stream
    )
    assert done.code == 0, done.err
    assert np.array_equal(np.loadtxt(tmp_path / "s.txt"), text.ungroup(expected.predict(text)))
    done = call("evaluate", tmp_path / "run", folder / "valid.txt", "--json")
    assert json.loads(done.out)["base_score"]["ndcg@10"] > 0


def test_evaluate_and_compare_show_the_base_as_a_baseline(
    folder: Path, run: Path, call: Call, tmp_path: Path
) -> None:
    valid = folder / "valid.parquet"
    done = call("evaluate", run, valid, "--metrics", "ndcg@5")
    assert done.code == 0, done.err
    base = evaluate(VALID_BASE, VALID.y, qid=VALID.qid, metrics="ndcg@5").mean["ndcg@5"]
    model = evaluate(
        expected_model().predict(frame_of(VALID_START)), VALID.y, qid=VALID.qid, metrics="ndcg@5"
    ).mean["ndcg@5"]
    before, after = done.out.split("The base scores alone:")
    assert f"{model:.4f}" in before
    assert f"{base:.4f}" in after
    done = call("evaluate", run, valid, "--metrics", "ndcg@5", "--json")
    assert json.loads(done.out)["base_score"] == {"ndcg@5": pytest.approx(base)}
    # A run without a start, and a run file, are compared with scores that are named.
    plain = rw.Ranker(**OPTIONS, verbose=0).fit(TRAIN)
    plain.save(tmp_path / "plain")
    given = (
        "--base-score",
        "production",
        "--metrics",
        "ndcg@5",
        "--json",
        "--label",
        "y",
        "--qid",
        "q",
    )
    done = call("compare", run, tmp_path / "plain", valid, *given)
    assert done.code == 0, done.err
    means = json.loads(done.out)["means"]
    assert list(means) == ["column:production", "run", "plain"]
    assert means["column:production"]["ndcg@5"] == pytest.approx(base)
    assert means["run"]["ndcg@5"] == pytest.approx(model)
    assert call("compare", run, valid, *given).code == 0
    assert call("compare", run, valid, "--json").code != 0


def test_a_column_for_a_model_without_a_start_is_an_error(
    folder: Path, call: Call, tmp_path: Path
) -> None:
    rw.Ranker(**OPTIONS, verbose=0).fit(TRAIN).save(tmp_path / "plain")
    given = ("--out", tmp_path / "x.txt", "--base-score", "production", "--qid", "q")
    done = call("predict", tmp_path / "plain", folder / "valid.parquet", *given)
    assert done.code != 0
    assert "--base-score is for models that were trained with it" in done.err


def test_tuning_starts_from_the_column(folder: Path, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    given = (
        "--base-score",
        "production",
        "--label",
        "y",
        "--qid",
        "q",
        "--trials",
        1,
        "--trees",
        3,
    )
    files = (folder / "train.parquet", "--valid", folder / "valid.parquet")
    done = call("tune", *files, *given, "--threads", 1, "--quiet", "--out", tmp_path / "best.toml")
    assert done.code == 0, done.err
    tuning = rw.tune(
        START, valid=VALID_START, base_score="production", trials=1, n_estimators=3, n_jobs=1
    )
    ranker = rw.Ranker(**tuning.best, verbose=0).fit(START, base_score="production")
    assert ranker.score(VALID_START) == pytest.approx(tuning.best_trial.value)
    best = rw.runs.read_config(tmp_path / "best.toml")
    assert best["n_estimators"] == tuning.best["n_estimators"]


# Runs and reports.


def test_a_run_names_its_column(tmp_path: Path) -> None:
    arguments = {"parameters": {**OPTIONS, "metric": "ndcg@5"}, "verbose": 0}
    first = train_run(tmp_path / "run", START, VALID_START, base_score="production", **arguments)
    again = train_run(tmp_path / "run", START, VALID_START, base_score="production", **arguments)
    assert again.manifest["started"] == first.manifest["started"]
    other = TRAIN.with_fields({"production": -BASE})
    with pytest.raises(ValueError, match="is a run with other train data"):
        train_run(tmp_path / "run", other, VALID_START, base_score="production", **arguments)
    with pytest.raises(ValueError, match="base_score of a run names a field or feature"):
        train_run(tmp_path / "array", TRAIN, base_score=BASE, **arguments)  # type: ignore[arg-type]


def test_a_report_explains_with_the_start(
    run: Path, folder: Path, call: Call, tmp_path: Path
) -> None:
    pytest.importorskip("altair")
    page = run_report([Run.open(run)], VALID_START)
    reasons = next(section for section in page.sections if section.title == "Reasons")
    assert "base score" in str(vars(reasons.blocks[0]))
    data = folder / "valid.parquet"
    done = call("report", run, "--data", data, "--out", tmp_path / "page.html")
    assert done.code == 0, done.err


# Exports.


def compiled(source: Path) -> Any:
    library = source.with_suffix(".so")
    subprocess.run([*COMPILE, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


DOUBLES = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")


@pytest.mark.parametrize("given", ["production", TRAIN.feature_names[3]])
@pytest.mark.parametrize("recipe", [None, "rank gap"])
def test_c_adds_the_trees_to_the_start(given: str, recipe: Any, tmp_path: Path) -> None:
    ranker = quick(within_query=recipe).fit(START, base_score=given)
    source = export(ranker, "c", tmp_path / "model.c")
    library = compiled(source)
    query = VALID_START.subset([0])
    rows = np.nan_to_num(query.X)
    if given == "production":
        rows = np.column_stack([rows, query.fields["production"]])
        assert '"production"' in source.read_text()
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    scores = np.zeros(len(rows))
    function = library.rankwright_score_query if recipe else library.rankwright_score_rows
    function.argtypes = [DOUBLES, ctypes.c_size_t, DOUBLES]
    function(rows, len(rows), scores)
    names = [*TRAIN.feature_names, "production"]
    base = rows[:, names.index(given)]
    X = rows[:, : len(TRAIN.feature_names)]
    expected = ranker.predict(X, group=[len(X)], base_score=base)
    assert np.array_equal(scores, expected)
    if recipe is None:
        library.rankwright_score.argtypes = [DOUBLES]
        library.rankwright_score.restype = ctypes.c_double
        assert library.rankwright_score(rows[2].copy()) == expected[2]


@pytest.mark.parametrize("target", ["opensearch", "vespa", "solr", "json", "xgboost"])
def test_other_targets_have_the_trees_and_say_so(target: str, tmp_path: Path) -> None:
    ranker = quick(n_estimators=2).fit(START, base_score="production")
    with pytest.warns(UserWarning, match=r"start from base scores \(production\), and the file"):
        export(ranker, target, tmp_path / "file")


def test_an_exported_file_is_verified_by_its_trees(
    run: Path, folder: Path, call: Call, tmp_path: Path
) -> None:
    valid = folder / "valid.parquet"
    for target in ("c", "opensearch"):
        done = call("export", run, "--to", target, "--out", tmp_path / target)
        assert ("base scores" in done.err) is (target != "c")
        given = ("--to", target, "--model", run, "--data", valid)
        assert call("verify-export", tmp_path / target, *given).code == 0


# A cluster.


@pytest.fixture(scope="module")
def client() -> Any:
    pytest.importorskip("distributed")
    with dask_room.connect(2, 2) as started:
        yield started


ON_CLUSTER = {"engine": "xgboost", "n_estimators": 5, "random_state": 1}


def test_the_same_bits_on_workers(client: Any, folder: Path) -> None:
    expected = quick(**ON_CLUSTER).fit(
        START, base_score="production", eval_set=[VALID_START, START]
    )
    found = quick(**ON_CLUSTER).fit(
        START, base_score="production", eval_set=[VALID_START, START], cluster=client
    )
    assert same(found, expected)
    assert found.evals_result_ == expected.evals_result_
    assert np.array_equal(found.predict(VALID_START), expected.predict(VALID_START))
    files = quick(**ON_CLUSTER).fit(
        *(folder / "train.parquet", "y"),
        qid="q",
        base_score="production",
        eval_set=[folder / "valid.parquet"],
        cluster=client,
    )
    assert same(files, expected)
    assert files.evals_result_["valid_0"] == expected.evals_result_["valid_0"]
    array = quick(**ON_CLUSTER).fit(
        TRAIN, base_score=BASE, eval_set=[VALID], eval_base_score=[VALID_BASE], cluster=client
    )
    assert same(array, expected)
    assert array.evals_result_["valid_0"] == expected.evals_result_["valid_0"]


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers(workers: int) -> None:
    pytest.importorskip("distributed")
    expected = quick(**ON_CLUSTER).fit(START, base_score="production")
    found = quick(**ON_CLUSTER).fit(START, base_score="production", cluster=workers)
    assert same(found, expected)


def test_collections_of_dask(client: Any) -> None:
    import dask.array as da
    import dask.dataframe as dd

    expected = quick(**ON_CLUSTER).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid, base_score=BASE)
    X, y, qid, base = (
        da.from_array(np.asarray(values), chunks=(200, -1) if values.ndim == 2 else 200)
        for values in (TRAIN.X, TRAIN.y, TRAIN.qid, BASE)
    )
    found = quick(**ON_CLUSTER).fit(X, y, qid=qid, base_score=base, cluster=client)
    assert same(found, expected)
    frame = dd.from_pandas(frame_of(START), npartitions=3)
    found = quick(**ON_CLUSTER).fit(frame, "y", qid="q", base_score="production", cluster=client)
    assert same(found, quick(**ON_CLUSTER).fit(START, base_score="production"))
    feature = quick(**ON_CLUSTER).fit(X, y, qid=qid, base_score="f3", cluster=client)
    assert same(feature, quick(**ON_CLUSTER).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid, base_score="f3"))


def test_bad_scores_on_a_cluster_name_the_part(client: Any, tmp_path: Path) -> None:
    frame: pd.DataFrame = frame_of(START)
    frame.loc[11, "production"] = np.nan
    frame.to_parquet(tmp_path / "broken.parquet")
    options: dict[str, Any] = {"qid": "q", "base_score": "production", "cluster": client}
    with pytest.raises(ValueError, match=r"broken.parquet: base_score is nan at row 11"):
        quick(**ON_CLUSTER).fit(tmp_path / "broken.parquet", "y", **options)
    options["base_score"] = "nowhere"
    with pytest.raises(ValueError, match="no column 'nowhere'"):
        quick(**ON_CLUSTER).fit(tmp_path / "broken.parquet", "y", **options)
    missing = RankingData(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    with pytest.raises(ValueError, match=r"eval_set\[0\]: base_score must be given"):
        quick(**ON_CLUSTER).fit(START, base_score="production", eval_set=[missing], cluster=client)
