"""Models as files: what is saved comes back, damage is named, and a crash loses nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

from own_metric import Own
from rankwright import Ranker
from rankwright.metrics import known_metrics
from rankwright.objectives import LambdaMART
from rankwright.persistence import read_model, write_model
from small import TRAIN, VALID, quick, rows


@pytest.fixture(scope="module")
def fitted() -> Ranker:
    return quick(metric=["ndcg@5", "map"], objective="yetiloss(neighbours=3) + 0.5 queryrmse").fit(
        TRAIN, eval_set=[VALID]
    )


@pytest.mark.parametrize("name", ["model", "model.zip", "deep/er/model"])
def test_a_model_comes_back_as_it_was(tmp_path: Path, fitted: Ranker, name: str) -> None:
    fitted.save(tmp_path / name)
    loaded = Ranker.load(str(tmp_path / name))
    assert np.array_equal(loaded.predict(VALID), fitted.predict(VALID))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.metrics_ == fitted.metrics_
    assert loaded.objective_ == fitted.objective_
    assert loaded.evals_result_ == fitted.evals_result_
    assert loaded.n_estimators_ == fitted.n_estimators_ == 12
    assert loaded.interrupted_ is False
    assert loaded.n_features_in_ == 25
    assert loaded.feature_names_in_.tolist() == TRAIN.feature_names
    assert np.array_equal(loaded.feature_importances_, fitted.feature_importances_)
    assert loaded.score(VALID) == fitted.score(VALID)
    assert loaded.manifest_ == json.loads(json.dumps(fitted.manifest_))


def test_a_loaded_model_can_be_saved_again_and_trained_on(tmp_path: Path, fitted: Ranker) -> None:
    fitted.save(tmp_path / "one")
    Ranker.load(tmp_path / "one").save(tmp_path / "two")
    for file in ("model.txt", "manifest.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    more = quick(n_estimators=3).fit(TRAIN, init_model=tmp_path / "two")
    assert np.array_equal(
        more.predict(VALID), quick(n_estimators=3).fit(TRAIN, init_model=fitted).predict(VALID)
    )
    refitted = Ranker.load(tmp_path / "one").fit(TRAIN, eval_set=[VALID])
    assert np.array_equal(refitted.predict(VALID), fitted.predict(VALID))


def test_the_manifest_says_what_the_model_is(tmp_path: Path, fitted: Ranker) -> None:
    fitted.save(tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    text = (tmp_path / "model" / "model.txt").read_bytes()
    assert manifest["format_version"] == 1
    assert manifest["model_sha256"] == hashlib.sha256(text).hexdigest()
    assert manifest["metrics"] == ["ndcg@5", "map"]
    assert manifest["ties"] == "worst"
    assert manifest["seed"] == 0
    assert manifest["feature_names"] == TRAIN.feature_names
    assert manifest["engine"] == {"name": "lightgbm", "version": lgb.__version__}
    assert {"rankwright", "versions", "python", "parameters", "data_fingerprint"} <= manifest.keys()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "manifest.json",
        "model.txt",
    ]


def test_the_text_is_a_model_for_plain_lightgbm(tmp_path: Path, fitted: Ranker) -> None:
    fitted.save(tmp_path / "model")
    booster = lgb.Booster(model_file=tmp_path / "model" / "model.txt")
    assert np.array_equal(booster.predict(VALID.X), fitted.predict(VALID))
    assert "\nobjective=lambdarank\n" in (tmp_path / "model" / "model.txt").read_text()


def test_the_fingerprint_tells_data_apart() -> None:
    X, y, qid = rows()

    def print_of(X: Any, y: Any, qid: Any, **more: Any) -> str:
        return str(quick(n_estimators=1).fit(X, y, qid=qid, **more).manifest_["data_fingerprint"])

    same = print_of(X, y, qid)
    assert same == print_of(X.copy(), list(y), qid)
    later = X.copy()
    later[-1, -1] += 1e-9
    others = [
        print_of(later, y, qid),
        print_of(X, 3 - y, qid),
        print_of(X, y, qid + 1),
        print_of(X, y, qid, sample_weight=np.ones(6)),
        print_of(pd.DataFrame(X), y, qid),
    ]
    assert len({same, *others}) == 6


def test_the_fingerprint_does_not_tell_the_signs_of_zeros_apart() -> None:
    X, y, qid = rows()
    X[1], y[0], y[1] = X[0], 0.0, -0.0
    qid[1] = qid[0]
    prints = {
        quick(n_estimators=1)
        .fit(X[order] * sign, y[order], qid=qid[order])
        .manifest_["data_fingerprint"]
        for order in (np.arange(len(y)), np.arange(len(y))[::-1])
        for sign in (np.where(X[order] == 0, -1.0, 1.0), 1.0)
    }
    assert len(prints) == 1


@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_pickle_and_joblib_round_trips(tmp_path: Path, fitted: Ranker, through: str) -> None:
    if through == "pickle":
        back = pickle.loads(pickle.dumps(fitted))
    else:
        joblib.dump(fitted, tmp_path / "model.joblib")
        back = joblib.load(tmp_path / "model.joblib")
    assert np.array_equal(back.predict(VALID), fitted.predict(VALID))
    assert back.get_params() == fitted.get_params()
    back.save(tmp_path / "model")
    assert np.array_equal(Ranker.load(tmp_path / "model").predict(VALID), fitted.predict(VALID))


def test_parameters_that_json_does_not_know(tmp_path: Path) -> None:
    ranker = quick(
        n_estimators=np.int64(2),
        learning_rate=np.float32(0.25),
        random_state=np.random.RandomState(4),
        objective=LambdaMART(sigma=2.0),
        metric=Own(),
        engine_params={"feature_contri": np.array([1, 1, 0.5, 1])},
    )
    X, y, qid = rows()
    ranker.fit(X, y, qid=qid).save(tmp_path / "model.zip")
    loaded = Ranker.load(tmp_path / "model.zip")
    assert loaded.objective_ == LambdaMART(sigma=2.0)
    assert loaded.metrics_ == [Own()]
    assert loaded.random_state == ranker.manifest_["seed"]
    assert np.array_equal(loaded.fit(X, y, qid=qid).predict(X), ranker.predict(X))


def test_a_metric_that_is_not_defined_on_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, qid = rows()
    quick(n_estimators=1, metric=Own()).fit(X, y, qid=qid).save(tmp_path / "model")
    manifest = tmp_path / "model" / "manifest.json"
    assert "own" in known_metrics()
    manifest.write_text(manifest.read_text().replace('"own"', '"theirs"'))
    ranker = Ranker.load(tmp_path / "model")
    assert len(ranker.predict(X)) == len(y)
    with pytest.raises(
        ValueError,
        match=r"own_metric\.Own \('theirs'\), which is not defined in this process; import it",
    ):
        ranker.score(X, y, qid)


def test_categories_come_back(tmp_path: Path) -> None:
    X, y, qid = rows()
    colours = np.array(["red", "green", "blue"])[(y % 3).astype(int)]
    frame = pd.DataFrame(
        {"size": X[:, 0], "colour": pd.Categorical(colours), "is new": X[:, 1] > 0}
    )
    ranker = quick(min_child_samples=1).fit(frame, y, qid=qid)
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(frame), ranker.predict(frame))
    assert len(set(loaded.predict(frame[["is new", "colour", "size"]]))) > 1


def test_categories_that_json_cannot_hold_are_refused_before_training() -> None:
    X, y, qid = rows()
    frame = pd.DataFrame(
        {
            "size": X[:, 0],
            "day": pd.Categorical(pd.to_datetime("2026-01-01") + pd.to_timedelta(y, "D")),
        }
    )
    with pytest.raises(
        ValueError, match=r"column 'day' has categories of the type Timestamp, such as 2026-01-01"
    ):
        quick(n_estimators=1).fit(frame, y, qid=qid)


def change_manifest(path: Path, **changes: Any) -> None:
    file = path / "manifest.json"
    manifest = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in manifest.items() if value is not ...}))


def swap_text(path: Path, text: str) -> None:
    """Other text with the right hash."""
    (path / "model.txt").write_text(text)
    change_manifest(path, model_sha256=hashlib.sha256(text.encode()).hexdigest())


def flip_a_digit(path: Path) -> None:
    text = (path / "model.txt").read_text()
    at = re.search(r"leaf_value=-?0\.0*", text).end()
    (path / "model.txt").write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])


def cut(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a digit of the model": (
        flip_a_digit,
        "model.txt does not have the hash that the manifest states",
    ),
    "cut model": (lambda p: cut(p / "model.txt", 0.5), "does not have the hash"),
    "empty model": (lambda p: (p / "model.txt").write_text(""), "does not have the hash"),
    "binary model": (
        lambda p: (p / "model.txt").write_bytes(b"\xff\xfe\x00"),
        "does not have the hash",
    ),
    "no model": (
        lambda p: (p / "model.txt").unlink(),
        "is not a saved model: it has no 'model.txt'",
    ),
    "no manifest": (lambda p: (p / "manifest.json").unlink(), "it has no manifest.json"),
    "cut manifest": (lambda p: cut(p / "manifest.json", 0.7), "not valid JSON; it was truncated"),
    "empty manifest": (lambda p: (p / "manifest.json").write_text(""), "not valid JSON"),
    "binary manifest": (
        lambda p: (p / "manifest.json").write_bytes(b"\xff\xfe\x81"),
        "not valid JSON",
    ),
    "a list as manifest": (lambda p: (p / "manifest.json").write_text("[1]"), "not a JSON object"),
    "wrong hash": (lambda p: change_manifest(p, model_sha256="0" * 64), "does not have the hash"),
    "no hash": (lambda p: change_manifest(p, model_sha256=...), "does not have the hash"),
    "newer format": (
        lambda p: change_manifest(p, format_version=2),
        "written in format 2 by rankwright .*Upgrade",
    ),
    "no format": (lambda p: change_manifest(p, format_version=...), "no valid format_version"),
    "text as format": (lambda p: change_manifest(p, format_version="1"), "no valid format_version"),
    "no parameters": (
        lambda p: change_manifest(p, parameters=...),
        "lacks or garbles 'parameters'",
    ),
    "unknown parameter": (
        lambda p: change_manifest(p, parameters={"depth": 3}),
        "lacks or garbles .*depth",
    ),
    "garbled categories": (lambda p: change_manifest(p, categories=[1]), "lacks or garbles"),
    "parameters that are none": (
        lambda p: change_manifest(p, parameters=[]),
        "garbles 'parameters'; it was damaged",
    ),
    "an engine without a name": (
        lambda p: change_manifest(p, engine="os"),
        "garbles 'engine'; it was damaged",
    ),
    "no metrics": (lambda p: change_manifest(p, metrics=...), "lacks or garbles 'metrics'"),
    "an unknown objective": (
        lambda p: change_manifest(p, objective="magic"),
        "unknown objective 'magic'",
    ),
    "an unknown engine": (
        lambda p: change_manifest(p, engine={"name": "oracle"}),
        "unknown engine 'oracle'",
    ),
    "other features": (
        lambda p: change_manifest(p, feature_names=["a", "b"]),
        "the model has 25 features and the manifest names 2",
    ),
    "text that is no model": (lambda p: swap_text(p, "tree\nnonsense\n"), "not one of LightGBM"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_model_is_refused_with_the_reason(
    tmp_path: Path, fitted: Ranker, damage: str
) -> None:
    fitted.save(tmp_path / "model")
    change, message = DAMAGE[damage]
    change(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        Ranker.load(tmp_path / "model")


def test_damaged_archives_and_other_files(tmp_path: Path, fitted: Ranker) -> None:
    path = tmp_path / "model.zip"
    fitted.save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:at])
        with pytest.raises(ValueError, match=r"model\.zip is not a saved model, or it is damaged"):
            Ranker.load(path)
        broken = bytearray(whole)
        broken[at] ^= 0x55
        path.write_bytes(bytes(broken))
        try:
            same = np.array_equal(Ranker.load(path).predict(VALID), fitted.predict(VALID))
        except ValueError:
            continue
        assert same, f"byte {at}: a damaged model was loaded"
    path.write_text("not a zip")
    with pytest.raises(ValueError, match="not a saved model"):
        Ranker.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "hello")
    with pytest.raises(ValueError, match=r"not a saved model.*manifest\.json"):
        Ranker.load(path)
    with pytest.raises(FileNotFoundError, match="there is no model at"):
        Ranker.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError,
        match=r"is a file; a model is saved as a folder, or as a file that ends in \.zip",
    ):
        fitted.save(tmp_path / "file")
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(ValueError, match="is a folder; choose another name"):
        fitted.save(tmp_path / "folder.zip")


def test_loading_executes_nothing(
    tmp_path: Path, fitted: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path / "model")
    for file in (tmp_path / "model").iterdir():
        file.read_text("ascii")
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    monkeypatch.setattr("builtins.eval", None)
    monkeypatch.setattr("builtins.exec", None)
    assert np.array_equal(Ranker.load(tmp_path / "model").predict(VALID), fitted.predict(VALID))


@pytest.mark.parametrize("name", ["model", "model.zip"])
@pytest.mark.parametrize("crashes", [[1], [2], [2, 1], [2, 2], [2, 0, 1], [1, 2, 0]])
def test_a_crash_between_two_moves_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, crashes: list[int]
) -> None:
    """In each save the n-th move fails; 0 stands for a crash while the new manifest is being written."""
    path = tmp_path / name
    write_model(path, b"text 0\n", {"number": 0}, "model.txt")
    latest = 0
    real_replace = os.replace
    for number, crash in enumerate(crashes, start=1):
        moves = 0

        def fail(source: Any, target: Any, crash: int = crash) -> None:
            nonlocal moves
            moves += 1
            if moves == crash:
                raise OSError("crash")
            real_replace(source, target)

        def fail_to_write(handle: int) -> None:
            raise OSError("crash")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            if crash == 0:
                patch.setattr(os, "fsync", fail_to_write)
            with contextlib.suppress(OSError):
                write_model(path, f"text {number}\n".encode(), {"number": number}, "model.txt")
            if crash == 0 and path.is_dir():
                (path / "manifest.json.new").write_text('{"model_sha')
        text, manifest = read_model(path)
        assert text == f"text {manifest['number']}\n".encode()
        assert latest <= manifest["number"] <= number
        latest = manifest["number"]
    write_model(path, b"last\n", {"number": 99}, "model.txt")
    assert read_model(path)[1]["number"] == 99
    assert [file.name for file in tmp_path.iterdir()] == [name]
    if path.is_dir():
        assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "model.txt"]


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_a_full_disk_leaves_the_old_model_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_model(tmp_path / name, b"old\n", {"number": 0}, "model.txt")
    before = sorted(tmp_path.rglob("*"))

    def full(handle: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for target in (name, f"new-{name}"):
        with pytest.raises(OSError, match="No space"):
            write_model(tmp_path / target, b"new\n", {"number": 1}, "model.txt")
    assert sorted(tmp_path.rglob("*")) == before
    assert read_model(tmp_path / name)[0] == b"old\n"


SAVE_FOREVER = """
import sys
from rankwright.persistence import write_model
number = 0
while True:
    write_model(sys.argv[1], f"text {number}\\n".encode() * 2000, {"number": number}, "model.txt")
    if number == 0:
        print("first", flush=True)
    number += 1
"""


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_a_killed_process_leaves_a_model(tmp_path: Path, name: str) -> None:
    for pause in (0.0, 0.013, 0.031):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, tmp_path / name], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        text, manifest = read_model(tmp_path / name)
        assert text == f"text {manifest['number']}\n".encode() * 2000
