"""Run folders: what is in them, going on after an interruption, and what is refused."""

from __future__ import annotations

import errno
import json
import math
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright import Ranker, RankingData, Run, evaluate, train_run
from rankwright import runs as module
from rankwright.engines.lightgbm.grower import BLOCK_TO_REPEAT as BLOCK
from rankwright.run_history import Recorder
from rankwright.runs import is_run, load_ranker, run_config
from small import QUICK, TRAIN, VALID

PARAMETERS: dict[str, Any] = {**QUICK, "n_estimators": BLOCK + 5, "metric": ["ndcg@10", "map"]}
PARAMETERS["engine_params"] = {"extra_trees": True}  # going on repeats trees
PARAMETERS.pop("verbose")
FILES = ["config.toml", "environment.json", "log.txt", "manifest.json", "metrics.jsonl", "model"]


def train(path: Path, **changes: Any) -> Run:
    options: dict[str, Any] = {"parameters": PARAMETERS, "verbose": 0, **changes}
    return train_run(path, TRAIN, options.pop("valid", VALID), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "whole")
    return Run.open(folder / "whole")


def values(run: Run) -> list[dict[str, Any]]:
    """The history without the times, which are never the same."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in run.history]


def same_outcome(one: Run, other: Run) -> bool:
    return values(one) == values(other) and np.array_equal(
        one.ranker.predict(VALID), other.ranker.predict(VALID)
    )


def stop_at(monkeypatch: pytest.MonkeyPatch, iteration: int, error: BaseException) -> None:
    plain = module.Recorder.__call__

    def stopping(self: Any, progress: Any) -> None:
        plain(self, progress)
        if progress.iteration == iteration:
            raise error

    monkeypatch.setattr(module.Recorder, "__call__", stopping)


def interrupted_run(path: Path, monkeypatch: pytest.MonkeyPatch, iteration: int) -> Run:
    with monkeypatch.context() as patch:
        stop_at(patch, iteration, KeyboardInterrupt())
        return train(path)


def test_a_run_holds_model_manifest_config_metrics_log_and_environment(whole: Run) -> None:
    assert sorted(os.listdir(whole.path)) == FILES
    assert not [path for path in whole.path.rglob("*") if path.suffix in (".part", ".new")]
    assert os.listdir(whole.path.parent) == ["whole"]
    assert whole.name == "whole"
    assert whole.finished
    assert whole.manifest["data"]["train"] | {"fingerprint": ""} == {
        "rows": TRAIN.n_rows,
        "queries": TRAIN.n_queries,
        "features": 25,
        "fingerprint": "",
    }
    assert whole.config["n_estimators"] == BLOCK + 5
    assert whole.config["metric"] == ["ndcg@10", "map"]
    assert "max_depth" in whole.config  # defaults are written down too
    assert whole.environment["packages"]["numpy"] == np.__version__
    assert set(whole.times) == {
        "read",
        "preparation",
        "compilation",
        "gradients",
        "trees",
        "leaves",
        "evaluation",
        "write",
    }
    assert whole.times["trees"] > 0
    log = (whole.path / "log.txt").read_text().splitlines()
    assert log[0].endswith("training starts")
    assert log[-1].endswith(
        f"finished after {BLOCK + 5} iterations; the model has {BLOCK + 5} trees"
    )


def test_the_history_is_that_of_the_model_on_both_data_sets(whole: Run) -> None:
    assert [row["iteration"] for row in whole.history] == list(range(1, BLOCK + 6))
    assert all(list(row) == ["iteration", "seconds", "train", "valid"] for row in whole.history)
    seconds = [row["seconds"] for row in whole.history]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    for part, data in (("train", TRAIN), ("valid", VALID)):
        result = evaluate(
            whole.ranker.predict(data), data.y, qid=data.qid, metrics=["ndcg@10", "map"]
        )
        assert whole.history[-1][part] == result.mean
    plain = Ranker(**PARAMETERS, verbose=0).fit(TRAIN, eval_set=[VALID])
    assert [row["valid"]["map"] for row in whole.history] == plain.evals_result_["valid_0"]["map"]
    assert np.array_equal(plain.predict(VALID), whole.ranker.predict(VALID))


def test_the_config_makes_the_same_run_again(whole: Run, tmp_path: Path) -> None:
    config = tomllib.loads((whole.path / "config.toml").read_text())
    assert same_outcome(train(tmp_path / "again", parameters=config), whole)


def test_without_validation_data(tmp_path: Path) -> None:
    run = train(tmp_path / "run", valid=None, parameters={**PARAMETERS, "n_estimators": 3})
    assert all(list(row) == ["iteration", "seconds", "train"] for row in Run.open(run.path).history)


def test_early_stopping_watches_the_validation_data(tmp_path: Path) -> None:
    parameters = {
        **PARAMETERS,
        "n_estimators": 60,
        "early_stopping_rounds": 3,
        "learning_rate": 0.5,
    }
    run = train(tmp_path / "run", parameters=parameters)
    curve = [row["valid"]["ndcg@10"] for row in run.history]
    assert run.manifest["iterations"] == len(curve) < 60
    assert run.manifest["trees"] == run.ranker.stopping_["kept_iteration"] < len(curve)
    assert run.ranker.score(VALID) == curve[run.manifest["trees"] - 1]


def test_a_finished_run_is_not_trained_again(whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranker, "fit", lambda *_, **__: pytest.fail("trained again"))
    before = {path: path.stat().st_mtime_ns for path in whole.path.rglob("*")}
    again = train(whole.path)
    assert again.finished
    assert same_outcome(again, whole)
    train(whole.path, parameters={**PARAMETERS, "n_jobs": 2})  # threads do not change the model
    assert before == {path: path.stat().st_mtime_ns for path in whole.path.rglob("*")}


@pytest.mark.parametrize("iteration", [1, BLOCK - 3, BLOCK, BLOCK + 3])
def test_an_interrupted_run_has_a_model_and_goes_on(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iteration: int
) -> None:
    half = interrupted_run(tmp_path / "run", monkeypatch, iteration)
    assert half.manifest["status"] == "interrupted"
    assert len(half.history) == iteration
    assert Run.open(half.path).ranker.n_estimators_ == iteration
    finished = train(tmp_path / "run")
    assert finished.finished
    assert same_outcome(Run.open(tmp_path / "run"), whole)
    assert sorted(os.listdir(tmp_path / "run")) == FILES
    seconds = [row["seconds"] for row in finished.history]
    assert seconds == sorted(seconds)
    assert "resuming after" in (tmp_path / "run/log.txt").read_text() or iteration < BLOCK


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_between_a_tree_and_its_line_loses_neither(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    plain = Recorder._write

    def interrupted(self: Recorder, iteration: int, seconds: float | None, history: Any) -> None:
        if iteration == 7 and seconds is not None:
            if not before:
                plain(self, iteration, seconds, history)
            raise KeyboardInterrupt
        plain(self, iteration, seconds, history)

    monkeypatch.setattr(Recorder, "_write", interrupted)
    half = train(tmp_path / "run")
    monkeypatch.undo()
    assert [row["iteration"] for row in half.history] == list(range(1, 8))
    assert half.ranker.n_estimators_ == half.manifest["iterations"] == 7
    train(tmp_path / "run")
    assert same_outcome(Run.open(tmp_path / "run"), whole)


@pytest.mark.parametrize("damage", ["half a line", "a line", "all", "more"])
def test_metrics_are_whole_after_a_crash(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    interrupted_run(tmp_path / "run", monkeypatch, 20)
    file = tmp_path / "run/metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    kept = {
        "half a line": [*lines[:-1], lines[-1][:15]],
        "a line": lines[:-1],
        "all": [],
        "more": [*lines, *lines[-3:]],
    }
    file.write_text("".join(kept[damage]))
    train(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert same_outcome(run, whole)
    lost = {"half a line": [20], "a line": [20], "all": list(range(1, 21)), "more": []}
    assert [row["iteration"] for row in run.history if row["seconds"] is None] == lost[damage]


def test_training_that_died_behind_its_last_tree_is_completed(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Ranker, "save", full)
        with pytest.raises(OSError, match="No space"):
            train(tmp_path / "run")
    unfinished = Run.open(tmp_path / "run")
    assert unfinished.manifest["status"] == "training"
    with pytest.raises(ValueError, match="has no model yet"):
        _ = unfinished.ranker
    assert same_outcome(train(tmp_path / "run"), whole)
    assert sorted(os.listdir(tmp_path / "run")) == FILES


@pytest.mark.parametrize("folder_is_there", [False, True])
def test_a_failure_before_the_first_checkpoint_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_is_there: bool
) -> None:
    stop_at(monkeypatch, 4, OSError(errno.ENOSPC, "No space left on device"))
    if folder_is_there:
        (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="No space"):
        train(tmp_path / "run")
    assert os.listdir(tmp_path) == []


def test_a_failure_while_the_folder_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "environment", full)
    with pytest.raises(OSError, match="No space"):
        train(tmp_path / "run")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"parameters": {**PARAMETERS, "reg_lambda": 5.0}},
            r"parameters \(reg_lambda is 0.3 there and 5.0 here\)",
        ),
        (
            {"parameters": {**PARAMETERS, "max_depth": None}},
            "max_depth is -1 there and not set here",
        ),
        ({"valid": None}, "other valid data"),
        ({"valid": VALID.subset(range(5))}, "other valid data"),
    ],
)
def test_a_run_of_another_training_is_refused(
    whole: Run, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        train(whole.path, **changes)
    assert Run.open(whole.path).finished


def test_other_training_data_is_refused(whole: Run) -> None:
    with pytest.raises(ValueError, match="other train data"):
        train_run(whole.path, TRAIN.subset(range(20)), VALID, parameters=PARAMETERS, verbose=0)


def test_foreign_folders_and_files_are_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("1")
    (tmp_path / "note").write_text("2")
    Ranker(**{**PARAMETERS, "n_estimators": 2}, verbose=0).fit(TRAIN).save(tmp_path / "model")
    for name, reason in (
        ("thesis", "not a run's"),
        ("note", "is a file"),
        ("model", "not a run's"),
    ):
        for overwrite in (False, True):
            with pytest.raises(ValueError, match=reason):
                train(tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "thesis/chapter.txt").read_text() == "1"
    with pytest.raises(ValueError, match="not a run folder"):
        Run.open(tmp_path / "thesis")
    with pytest.raises(FileNotFoundError, match="no run folder at"):
        Run.open(tmp_path / "nothing")


def test_overwriting_replaces_the_run_and_nothing_else(tmp_path: Path) -> None:
    parameters = {**PARAMETERS, "n_estimators": 2}
    train(tmp_path / "run", parameters=parameters)
    run = train(tmp_path / "run", parameters={**parameters, "n_estimators": 3}, overwrite=True)
    assert len(run.history) == 3
    (tmp_path / "run/report.html").write_text("page")
    run = train(tmp_path / "run", parameters=parameters, overwrite=True)
    assert Run.open(run.path).ranker.n_estimators_ == len(run.history) == 2
    assert (tmp_path / "run/report.html").read_text() == "page"


def changed_manifest(whole: Run, tmp_path: Path, content: str) -> Path:
    (tmp_path / "run").mkdir()
    for name in ("config.toml", "metrics.jsonl"):
        (tmp_path / "run" / name).write_bytes((whole.path / name).read_bytes())
    (tmp_path / "run/manifest.json").write_text(content)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"run_version": 2, "rankwright": "9.0"}', r"newer version, rankwright 9\.0 .*Upgrade"),
        ('{"run_version": "1"}', "run_version is '1'"),
        ('{"run_version": 1, "sta', "not valid JSON"),
        ("[1]", "not a JSON object"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_newer_and_damaged_runs_are_refused(
    whole: Run, tmp_path: Path, content: str, reason: str, overwrite: bool
) -> None:
    folder = changed_manifest(whole, tmp_path, content)
    for attempt in (
        lambda: Run.open(folder),
        lambda: train(folder, overwrite=overwrite),
        lambda: load_ranker(folder),
    ):
        with pytest.raises(ValueError, match=reason):
            attempt()
    assert (folder / "manifest.json").read_text() == content


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"iteration": 1}', '{"iteration": 1, "seconds": 2, "train": 3}']
)
def test_damaged_metrics_are_refused_with_the_line(whole: Run, tmp_path: Path, line: str) -> None:
    folder = changed_manifest(whole, tmp_path, '{"run_version": 1}')
    file = folder / "metrics.jsonl"
    file.write_text(file.read_text().split("\n")[0] + f"\n{line}\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2"):
        _ = Run.open(folder).history


def test_a_damaged_config_is_refused(whole: Run, tmp_path: Path) -> None:
    folder = changed_manifest(whole, tmp_path, '{"run_version": 1}')
    (folder / "config.toml").write_text("n_estimators = ")
    with pytest.raises(ValueError, match=r"config\.toml is not valid TOML"):
        _ = Run.open(folder).config


def test_a_metric_without_a_mean_is_null_in_the_file_and_nan_in_python(tmp_path: Path) -> None:
    nothing = RankingData(VALID.X, VALID.y * 0, qid=VALID.qid, reference=TRAIN)
    with pytest.warns(UserWarning, match="no query has a relevant document"):
        run = train(tmp_path / "run", valid=nothing, parameters={**PARAMETERS, "n_estimators": 2})
    assert math.isnan(Run.open(run.path).history[1]["valid"]["map"])
    line = (run.path / "metrics.jsonl").read_text().splitlines()[1]
    assert json.loads(line, parse_constant=lambda _: pytest.fail("not JSON"))["valid"] == {
        "ndcg@10": None,
        "map": None,
    }


@pytest.mark.parametrize("valid", [None, VALID])
def test_weights_of_rows_leave_no_mean_over_queries_to_record(
    tmp_path: Path, valid: RankingData | None
) -> None:
    draw = np.random.default_rng(0)
    for weights, watched in (
        (draw.random(TRAIN.n_rows), False),
        (draw.random(TRAIN.n_queries), True),
    ):
        data = RankingData(
            TRAIN.X,
            TRAIN.y,
            qid=TRAIN.qid,
            sample_weight=weights,
            feature_names=TRAIN.feature_names,
        )
        folder = tmp_path / str(watched)
        run = train_run(
            folder, data, valid, parameters={**PARAMETERS, "n_estimators": 2}, verbose=0
        )
        assert len(run.history) == 2
        assert ("train" in run.history[0]) == watched
        assert ("valid" in run.history[0]) == (valid is not None)


def test_models_of_runs_and_saved_models_are_read_alike(whole: Run, tmp_path: Path) -> None:
    whole.ranker.save(tmp_path / "model")
    whole.ranker.save(tmp_path / "model.zip")
    expected = whole.ranker.predict(VALID)
    for path in (whole.path, tmp_path / "model", tmp_path / "model.zip"):
        assert np.array_equal(load_ranker(path).predict(VALID), expected)
    assert [is_run(path) for path in (whole.path, tmp_path / "model", tmp_path / "model.zip")] == [
        True,
        False,
        False,
    ]


def test_parameters_that_a_run_cannot_have() -> None:
    with pytest.raises(ValueError, match="in its own folder"):
        run_config({"checkpoint": {"path": "elsewhere"}})
    with pytest.raises(ValueError, match="in its own folder"):
        run_config({"checkpoint": "elsewhere"})
    with pytest.raises(ValueError, match="random_state"):
        run_config({"random_state": None})
    with pytest.raises(ValueError, match="num_leaves must be"):
        run_config({"num_leaves": 0})


def test_a_config_holds_plain_values() -> None:
    config = run_config(
        {
            "num_leaves": np.int64(7),
            "learning_rate": np.float32(0.5),
            "engine_params": {"max_bin": 15},
        }
    )
    assert (config["num_leaves"], config["learning_rate"], config["engine_params"]) == (
        7,
        0.5,
        {"max_bin": 15},
    )
    assert {type(value) for value in config.values()} <= {int, float, str, bool, dict}
    assert run_config({"checkpoint": {"trees": 5}})["checkpoint"] == {"trees": 5}
