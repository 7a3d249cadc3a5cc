"""Training that is killed goes on as if nothing had happened; Ctrl-C keeps the trees so far."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright import Ranker
from rankwright.engines.lightgbm import grower
from rankwright.engines.lightgbm.grower import BLOCK_TO_REPEAT
from rankwright.ranker import Progress
from small import TRAIN, VALID, WHOLE, quick, rows
from waiting import wait_for

LANGEVIN: dict[str, Any] = {"langevin": {"shrink_rate": 1.0}}
KINDS: dict[str, dict[str, Any]] = {
    "diagonal": WHOLE,
    "sampling": {},
    "full": {"leaf_values": "full"},
    "steered": {"leaf_values": "full", "learning_rate": None},
    "langevin": {**LANGEVIN, **WHOLE},
    "random thresholds": {"engine_params": {"extra_trees": True}},
    "columns by node": {"leaf_values": "full", "engine_params": {"feature_fraction_bynode": 0.5}},
    "everything": {
        "langevin": {"shrink_rate": 1.0, "leaf_noise": "independent"},
        "leaf_values": "full",
        "subsample_queries": 0.7,
    },
}
REPEATING = ("random thresholds", "columns by node")  # back to the start of their block
TRAIN_SLOWLY = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from small import TRAIN, VALID, quick
parameters = json.loads(sys.argv[2])
quick(**parameters).fit(TRAIN, eval_set=[VALID], callbacks=[lambda progress: time.sleep(0.02)])
"""


def same_model(one: Ranker, other: Ranker) -> bool:
    return (
        np.array_equal(one.predict(VALID), other.predict(VALID))
        and one.evals_result_ == other.evals_result_
        and one.n_estimators_ == other.n_estimators_
        and one.learning_rates_ == other.learning_rates_
    )


def trees_in(path: Path) -> int:
    try:
        return len(json.loads((path / "manifest.json").read_text())["state"]["trees"])
    except (FileNotFoundError, ValueError):
        return 0


def train_in_another_process(path: Path, **parameters: Any) -> subprocess.Popen[bytes]:
    arguments = [
        str(Path(__file__).parent),
        json.dumps({"checkpoint": {"path": str(path), "trees": 1}, **parameters}),
    ]
    return subprocess.Popen([sys.executable, "-c", TRAIN_SLOWLY, *arguments])


def wait_for_trees(process: subprocess.Popen[bytes], path: Path, trees: int) -> None:
    def enough() -> bool:
        assert process.poll() is None or trees_in(path) >= trees, "training ended too early"
        return trees_in(path) >= trees

    wait_for(enough)


@pytest.mark.parametrize("kind", ["diagonal", "full", "steered", "random thresholds", "everything"])
def test_killed_training_goes_on_to_the_same_model(tmp_path: Path, kind: str) -> None:
    parameters = {"n_estimators": 40, **KINDS[kind]}
    process = train_in_another_process(tmp_path / "save", **parameters)
    wait_for_trees(process, tmp_path / "save", 24)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    saved = trees_in(tmp_path / "save")
    assert 24 <= saved < 40
    seen: list[Progress] = []
    resumed = quick(checkpoint=tmp_path / "save", **parameters)
    resumed.fit(TRAIN, eval_set=[VALID], callbacks=[seen.append])
    assert seen[0].iteration == 1 + (BLOCK_TO_REPEAT if kind in REPEATING else saved)
    assert len(seen) == seen[-1].done == 40 - (BLOCK_TO_REPEAT if kind in REPEATING else saved)
    assert same_model(resumed, quick(**parameters).fit(TRAIN, eval_set=[VALID]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [3, 20, 27])
@pytest.mark.parametrize("block", [grower.BLOCK, 20])
def test_training_goes_on_from_any_tree(
    tmp_path: Path, kind: str, stop: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grower, "BLOCK", block)
    parameters = {"n_estimators": 31, "checkpoint": tmp_path, **KINDS[kind]}

    def interrupt(progress: Progress) -> None:
        if progress.iteration == stop:
            raise KeyboardInterrupt

    first = quick(**parameters).fit(TRAIN, eval_set=[VALID], callbacks=[interrupt])
    assert first.interrupted_
    assert first.n_estimators_ == stop == trees_in(tmp_path)
    whole = quick(n_estimators=31, **KINDS[kind]).fit(TRAIN, eval_set=[VALID])
    assert same_model(quick(**parameters).fit(TRAIN, eval_set=[VALID]), whole)


def test_a_finished_training_is_read_and_not_repeated(tmp_path: Path) -> None:
    first = quick(checkpoint=tmp_path).fit(TRAIN, eval_set=[VALID])
    again = quick(checkpoint=str(tmp_path)).fit(
        TRAIN, eval_set=[VALID], callbacks=[lambda progress: pytest.fail("trained")]
    )
    assert same_model(again, first)
    assert not again.interrupted_


def test_more_trees_are_added_as_if_asked_for_at_once(tmp_path: Path) -> None:
    quick(checkpoint=tmp_path, n_estimators=22).fit(TRAIN, eval_set=[VALID])
    seen: list[Progress] = []
    more = quick(checkpoint=tmp_path, n_estimators=33).fit(
        TRAIN, eval_set=[VALID], callbacks=[seen.append]
    )
    assert len(seen) == 11
    assert same_model(more, quick(n_estimators=33).fit(TRAIN, eval_set=[VALID]))


def test_fewer_trees_than_it_has_are_the_first_of_them(tmp_path: Path) -> None:
    whole = quick(checkpoint=tmp_path, n_estimators=22).fit(TRAIN, eval_set=[VALID])
    fewer = quick(checkpoint=tmp_path, n_estimators=9).fit(TRAIN, eval_set=[VALID])
    assert same_model(fewer, quick(n_estimators=9).fit(TRAIN, eval_set=[VALID]))
    assert trees_in(tmp_path) == 22
    again = quick(checkpoint=tmp_path, n_estimators=22)
    again.fit(TRAIN, eval_set=[VALID], callbacks=[lambda progress: pytest.fail("trained")])
    assert same_model(again, whole)


def test_early_stopping_is_remembered(tmp_path: Path) -> None:
    parameters: dict[str, Any] = {
        "n_estimators": 300,
        "learning_rate": 0.3,
        "early_stopping_rounds": 4,
    }
    first = quick(checkpoint=tmp_path, **parameters).fit(TRAIN, eval_set=[VALID])
    parameters["n_estimators"] = 400
    again = quick(checkpoint=tmp_path, **parameters)
    again.fit(TRAIN, eval_set=[VALID], callbacks=[lambda progress: pytest.fail("trained")])
    assert same_model(again, first)


def test_a_callback_that_stopped_is_asked_again(tmp_path: Path) -> None:
    first = quick(checkpoint=tmp_path).fit(
        TRAIN, callbacks=[lambda progress: progress.iteration == 5]
    )
    assert first.n_estimators_ == 5
    assert same_model(quick(checkpoint=tmp_path).fit(TRAIN), quick().fit(TRAIN))


def test_it_saves_every_so_many_trees_or_seconds(tmp_path: Path) -> None:
    saved: list[int] = []

    def watch(progress: Progress) -> None:
        saved.append(trees_in(tmp_path / "save"))

    n = 22
    quick(checkpoint={"path": tmp_path / "save", "trees": 5}, n_estimators=n).fit(
        TRAIN, callbacks=[watch]
    )
    assert saved == [i // 5 * 5 for i in range(n)]  # callbacks come first
    assert trees_in(tmp_path / "save") == n
    saved.clear()
    quick(checkpoint={"path": tmp_path / "save", "seconds": 0}, n_estimators=n + 2).fit(
        TRAIN, callbacks=[watch]
    )
    assert saved == [n, n + 1]
    assert trees_in(tmp_path / "save") == n + 2


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    quick(checkpoint=tmp_path, n_estimators=2).fit(TRAIN, eval_set=[VALID])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    init = quick(n_estimators=1).fit(TRAIN)
    half = TRAIN.subset(range(10))
    others: list[tuple[Any, Any, dict[str, Any], dict[str, Any]]] = [
        (half, [VALID], {}, {}),
        (TRAIN, [], {}, {}),
        (TRAIN, [half], {}, {}),
        (TRAIN, [VALID, VALID], {}, {}),
        (TRAIN, [VALID], {"init_model": init}, {}),
    ]
    for changes in (
        {"learning_rate": 0.2},
        {"objective": "lambdamart"},
        {"metric": "map"},
        {"metric": ["ndcg@10", "map"]},
        {"random_state": 1},
        {"num_leaves": 7},
        {"subsample": 0.6},
        {"subsample_queries": 0.5},
        {"leaf_values": "diagonal"},
        {"langevin": True},
        {"engine_params": {"max_bin": 15}},
        {"early_stopping_rounds": 9},
    ):
        others.append((TRAIN, [VALID], {}, changes))
    for train, valid, more, changes in others:
        with pytest.raises(
            ValueError, match=r"holds a checkpoint of another training .* delete it"
        ):
            quick(**{"checkpoint": tmp_path, "n_estimators": 2, **changes}).fit(
                train, eval_set=valid, **more
            )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    quick(checkpoint=tmp_path, n_estimators=3, n_jobs=2).fit(TRAIN, eval_set=[VALID])
    assert trees_in(tmp_path) == 3


def test_a_saved_model_is_no_checkpoint(tmp_path: Path) -> None:
    quick(n_estimators=1).fit(TRAIN).save(tmp_path)
    with pytest.raises(ValueError, match="another training"):
        quick(checkpoint=tmp_path).fit(TRAIN)


def test_it_goes_on_with_an_initial_model(tmp_path: Path) -> None:
    init = quick(n_estimators=3).fit(TRAIN)
    parameters: dict[str, Any] = {"n_estimators": 15, "checkpoint": tmp_path}
    quick(**parameters).fit(
        TRAIN, init_model=init, callbacks=[lambda progress: progress.iteration == 4]
    )
    resumed = quick(**parameters).fit(TRAIN, init_model=init)
    assert same_model(resumed, quick(n_estimators=15).fit(TRAIN, init_model=init))
    assert resumed.forest_.n_trees == 18


def test_an_interrupt_keeps_a_valid_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 7:
            raise KeyboardInterrupt

    with caplog.at_level(logging.WARNING, "rankwright"):
        ranker = quick().fit(TRAIN, eval_set=[VALID], callbacks=[interrupt])
    assert [record.getMessage() for record in caplog.records if record.name == "rankwright"] == [
        "training was interrupted after 7 iterations; the model has the trees so far"
    ]
    assert ranker.interrupted_
    assert same_model(ranker, quick(n_estimators=7).fit(TRAIN, eval_set=[VALID]))
    ranker.save(tmp_path / "model")
    assert Ranker.load(tmp_path / "model").interrupted_
    assert not ranker.fit(TRAIN).interrupted_


@pytest.mark.parametrize("where", ["_iterate", "_evaluate"])
@pytest.mark.parametrize("changes", [{}, {"leaf_values": "full", **LANGEVIN}], ids=str)
def test_an_interrupt_within_an_iteration_drops_that_iteration(
    monkeypatch: pytest.MonkeyPatch, where: str, changes: dict[str, Any]
) -> None:
    from rankwright.training.loop import Boosting

    plain = getattr(Boosting, where)
    calls = 0

    def interrupted(self: Boosting, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        result = plain(self, *arguments) if where == "_evaluate" or calls < 7 else None
        if calls == 7:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Boosting, where, interrupted)
        ranker = quick(**changes).fit(TRAIN, eval_set=[VALID])
    assert ranker.interrupted_
    assert same_model(ranker, quick(n_estimators=6, **changes).fit(TRAIN, eval_set=[VALID]))


def test_an_interrupt_before_the_first_tree_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from rankwright.training.loop import Boosting

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt("too early")

    monkeypatch.setattr(Boosting, "_iterate", interrupted)
    with pytest.raises(KeyboardInterrupt, match="too early"):
        quick().fit(TRAIN)


INTERRUPT_ME = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from small import TRAIN, VALID, quick
def tell(progress):
    if progress.iteration == 3:
        print("go", flush=True)
    time.sleep(0.02)
ranker = quick(n_estimators=1000).fit(TRAIN, callbacks=[tell])
print(ranker.interrupted_, ranker.n_estimators_, ranker.score(VALID) > 0.3)
"""


def test_ctrl_c_in_a_real_process() -> None:
    command = [sys.executable, "-c", INTERRUPT_ME, str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    interrupted, trees, useful = out.split()
    assert (interrupted, useful) == ("True", "True"), err
    assert 3 <= int(trees) < 1000


def test_the_folder_is_checked_before_training(tmp_path: Path) -> None:
    X, y, qid = rows()
    (tmp_path / "model.txt").write_text("damaged")
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        quick(checkpoint=tmp_path).fit(X, y, qid=qid)
