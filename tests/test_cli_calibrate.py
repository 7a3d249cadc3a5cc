"""The command ``calibrate``, ``train --calibrate`` and ``predict --calibrated``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw

QUICK = ["--threads", "1", "--trees", "6", "--set", "min_child_samples=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("calibrate")
    train, rest = rw.make_web_search(90, kind="short", n_features=25, random_state=2).split(0.6)
    valid, test = rest.split(0.5)
    for name, data in (("train", train), ("valid", valid), ("test", test)):
        rw.write_letor(data, place / f"{name}.txt")
    return place


def read(path: Path) -> Any:
    return np.array([float(line) for line in path.read_text().splitlines()])


def test_a_run_is_calibrated_after_training(
    call: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    run, test = tmp_path / "run", folder / "test.txt"
    assert call("train", folder / "train.txt", "--out", run, *QUICK)[0] == 0
    code, _, err = call("predict", run, test, "--calibrated", "--out", tmp_path / "values.txt")
    assert (code, err.count("\n")) == (1, 1)
    assert "is not calibrated; run rankwright calibrate" in err
    assert not (tmp_path / "values.txt").exists()
    code, out, err = call(
        "calibrate", run, folder / "valid.txt", "--target", "relevance", "--method", "logistic"
    )
    assert (code, err) == (0, "")
    assert (
        "calibrated to the probability of a label of at least 1, logistic, from 27 held-out queries."
        in out
    )
    for name, options in (("scores", []), ("values", ["--calibrated"])):
        assert call("predict", run, test, *options, "--out", tmp_path / f"{name}.txt")[0] == 0
    ranker = rw.Run.open(run).ranker
    scores, values = read(tmp_path / "scores.txt"), read(tmp_path / "values.txt")
    assert np.array_equal(values, ranker.calibration_(scores))
    assert 0 < values.min() < values.max() < 1
    # A finished run stays finished and calibrated.
    assert "already finished" in call("train", folder / "train.txt", "--out", run, *QUICK)[1]
    assert rw.Run.open(run).ranker.calibration_.method == "logistic"


def test_training_calibrates_on_validation_or_in_folds(
    call: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    train, valid = folder / "train.txt", folder / "valid.txt"
    code, out, _ = call(
        "train", train, "--valid", valid, "--calibrate", "isotonic", "--out", tmp_path / "a", *QUICK
    )
    assert code == 0
    assert "calibrated to the expected label, isotonic, from 27 held-out queries." in out
    refit = [
        "--valid",
        valid,
        "--early-stopping",
        "3",
        "--set",
        "refit=true",
    ]  # then nothing is held out any more
    code, out, _ = call(
        "train", train, *refit, "--calibrate", "logistic", "--out", tmp_path / "c", *QUICK
    )
    assert code == 0
    assert "calibrated to the expected label, logistic, from 36 cross-fitted queries." in out
    command = ["train", train, "--calibrate", "isotonic", "--out", tmp_path / "b", *QUICK]
    code, out, _ = call(*command, "--calibrate-target", "relevance")
    assert code == 0
    assert "isotonic, from 36 cross-fitted queries." in out
    again = rw.Run.open(tmp_path / "b").ranker
    data = rw.read_data(train)
    expected = (
        rw.Ranker.load(tmp_path / "b" / "model")
        .calibrate(data, target="relevance", folds=5)
        .calibration_
    )
    assert again.calibration_.to_manifest() == expected.to_manifest()
    # The same command finds it done; another target calibrates the finished run anew.
    before = (tmp_path / "b" / "model" / "manifest.json").stat().st_mtime_ns
    assert call(*command, "--calibrate-target", "relevance", "--quiet") == (0, "", "")
    assert (tmp_path / "b" / "model" / "manifest.json").stat().st_mtime_ns == before
    assert call(*command, "--quiet") == (0, "", "")
    assert rw.Run.open(tmp_path / "b").ranker.calibration_.target == "label"


def test_saved_models_and_refusals(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    data = rw.read_data(folder / "train.txt")
    rw.Ranker(n_estimators=4, n_jobs=1, verbose=0).fit(data).save(tmp_path / "model.zip")
    assert call("calibrate", tmp_path / "model.zip", folder / "valid.txt", "--quiet") == (0, "", "")
    assert rw.load(tmp_path / "model.zip").calibration is not None
    rw.write_letor(data.subset(np.arange(5)), tmp_path / "few.txt")
    code, out, err = call("calibrate", tmp_path / "model.zip", tmp_path / "few.txt")
    assert (code, out) == (1, "")
    assert err.startswith("rankwright: there are 5 queries, and a calibration needs at least 20;")
    assert (
        call("calibrate", tmp_path / "model.zip", folder / "valid.txt", "--method", "spline")[0]
        == 2
    )
