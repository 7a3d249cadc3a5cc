"""Ctrl-C, also a second one, two trainings in one folder, and checkpoints that were changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright import Ranker, Run
from rankwright.runs import train_run
from rankwright.support.interrupts import deferred_interrupts
from rankwright.support.locks import locked
from rankwright.training.checkpoint import hash_of
from rankwright.training.loop import Boosting
from small import QUICK, TRAIN, VALID, quick
from waiting import wait_for

TESTS = Path(__file__).parent


@pytest.mark.parametrize(("kind", "trainings"), [("lines", 16), ("timed", 8)])
def test_a_second_ctrl_c_leaves_model_and_checkpoint_in_agreement(
    kind: str, trainings: int
) -> None:
    command = [sys.executable, str(TESTS / "interrupted_trainings.py"), kind, str(trainings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert re.fullmatch(rf"0 of {trainings} wrong, [1-9]\d* interrupted models\n", done.stdout), (
        done.stdout + done.stderr
    )


def test_deferred_interrupts_take_effect_after_the_block() -> None:
    steps = []

    def interrupted_block() -> None:
        with deferred_interrupts() as arrived:
            signal.raise_signal(signal.SIGINT)
            steps.append(len(arrived))
            with deferred_interrupts():  # in another one, they wait for the outer block
                signal.raise_signal(signal.SIGINT)
            steps.append(len(arrived))

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        interrupted_block()
    assert steps == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_takes_effect_at_once_where_it_is_allowed_and_only_the_first() -> None:
    steps: list[Any] = []

    def interrupted_block() -> None:
        with deferred_interrupts() as interrupts:
            try:
                with interrupts.allowed():
                    signal.raise_signal(signal.SIGINT)
                    steps.append("not reached")
            except KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)
                steps.append("dealt with")
            steps.append(len(interrupts))

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        interrupted_block()
    assert steps == ["dealt with", 1]


def test_an_interrupt_that_waited_takes_effect_where_it_is_allowed() -> None:
    steps: list[Any] = []
    with deferred_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match=r"^$"), interrupts.allowed():
            steps.append("not reached")
    assert steps == []


def with_ctrl_c_at_the_first_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, sent = Boosting.snapshot, []

    def signalled(self: Boosting) -> Any:
        if not sent:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        return snapshot(self)

    monkeypatch.setattr(Boosting, "snapshot", signalled)


def test_ctrl_c_after_the_last_tree_takes_effect_when_the_model_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, ranker = quick().fit(TRAIN), quick()
    with_ctrl_c_at_the_first_snapshot(monkeypatch)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        ranker.fit(TRAIN)
    assert not ranker.interrupted_
    assert np.array_equal(ranker.predict(VALID), whole.predict(VALID))


def test_ctrl_c_between_two_passes_keeps_the_model_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {"early_stopping_rounds": 4}
    first = quick(**options).fit(TRAIN, eval_set=VALID)
    with_ctrl_c_at_the_first_snapshot(monkeypatch)
    kept = quick(**options, refit=True).fit(TRAIN, eval_set=VALID)
    assert kept.interrupted_
    assert np.array_equal(kept.predict(VALID), first.predict(VALID))


def test_deferred_interrupts_change_nothing_in_other_threads() -> None:
    seen: list[Any] = []

    def look() -> None:
        with deferred_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


HOLD = """
import sys, time
from pathlib import Path
from rankwright.support.locks import locked
with locked(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(
                ValueError,
                match=rf"run is in use by a test in process {holder.pid} on .*, since 20",
            ),
            locked(folder, "another"),
        ):
            pass
        holder.kill()
    assert (tmp_path / ".run.lock").exists()  # left behind, but nobody's
    with (
        locked(folder, "another"),
        pytest.raises(ValueError, match="in use by another"),
        locked(folder, "a third"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_forked_process_does_not_hold_the_locks_of_its_parent(tmp_path: Path) -> None:
    # The child alone writes, in one piece: then it has run what it does after a fork.
    fork = "import os; os.fork() or os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    code = HOLD.replace("time.sleep(600)", fork)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        child = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
        try:
            with locked(tmp_path, "another"):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_planted_link_is_not_followed_as_a_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"run\.lock"), locked(tmp_path / "run", "a test"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


TRAIN_A_RUN = """
import sys, time
sys.path.insert(0, sys.argv[1])
import rankwright.ranker, rankwright.runs
from small import QUICK, TRAIN
recorder = rankwright.runs.Recorder.__call__
def slow(self, progress):
    recorder(self, progress)
    time.sleep(0.05)
rankwright.runs.Recorder.__call__ = slow
rankwright.runs.train_run(sys.argv[2], TRAIN, parameters={**QUICK, "n_estimators": 400}, verbose=0)
"""


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_training_of_a_run_is_refused_and_harms_nothing(
    tmp_path: Path, overwrite: bool
) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", TRAIN_A_RUN, str(TESTS), str(folder)]) as first:
        wait_for(
            lambda: (
                (folder / "metrics.jsonl").exists()
                and len((folder / "metrics.jsonl").read_bytes()) > 0
            )
        )
        parameters = {**QUICK, "n_estimators": 400}
        with pytest.raises(ValueError, match=rf"in use by a training in process {first.pid} "):
            train_run(folder, TRAIN, parameters=parameters, overwrite=overwrite, verbose=0)
        lines = len((folder / "metrics.jsonl").read_bytes())
        wait_for(lambda: len((folder / "metrics.jsonl").read_bytes()) > lines)
        assert Run.open(folder).manifest["status"] == "training"
        first.kill()


def test_a_second_training_with_the_checkpoint_is_refused(tmp_path: Path) -> None:
    def another(progress: Any) -> None:
        with pytest.raises(
            ValueError, match=rf"save is in use by a training in process {os.getpid()}"
        ):
            quick(checkpoint=tmp_path / "save").fit(TRAIN)

    quick(checkpoint=tmp_path / "save", n_estimators=2).fit(TRAIN, callbacks=[another])
    assert [file.name for file in tmp_path.iterdir()] == ["save"]


def change(folder: Path, name: str, value: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["state"][name] = value
    manifest["state_sha256"] = hash_of(manifest["state"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


CHANGES: dict[str, Any] = {
    "trees": [
        [1, 2, 3, 4, 5],
        [1, 2, 2, 2, 3, 4],
        [1, 2, 4, 4, 5, 6],
        [1, 2, 3, 4, 5, 6.0],
        "123456",
        None,
        [2] * 6,
    ],
    "factors": [[1.0] * 5, [1.0] * 5 + ["1"], [1.0] * 5 + [float("inf")], 1, [True] * 6],
    "rates": [[0.1], [0.0] * 6, [-1.0] * 6, {}, [float("nan")] * 6],
    "history": [
        [],
        [{}],
        [{"map": [0.1] * 6}],
        [{"ndcg@10": [0.1] * 5}],
        [{"ndcg@10": [10**400] * 6}],
        {},
        [[]],
    ],
    "finished": [1, None, "no"],
    "times": [{}, {"gradients": 1}, [1, 2, 3, 4]],
    "initial_trees": [1, -1, None, "0", 10**30],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_state_is_refused(tmp_path: Path, name: str) -> None:
    quick(checkpoint=tmp_path / "whole", n_estimators=6).fit(TRAIN, eval_set=[VALID])
    for number, value in enumerate(CHANGES[name]):
        shutil.copytree(tmp_path / "whole", tmp_path / f"{number}")
        change(tmp_path / f"{number}", name, value)
        with pytest.raises(
            ValueError, match=r"holds a damaged checkpoint: .*; delete the folder to start again\.$"
        ):
            quick(checkpoint=tmp_path / f"{number}", n_estimators=8).fit(TRAIN, eval_set=[VALID])
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text())
    manifest["state"]["history"][0]["ndcg@10"][3] += 0.25  # a valid value, but not what was written
    (tmp_path / "whole" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        ValueError, match="the state does not have the hash that the manifest states"
    ):
        quick(checkpoint=tmp_path / "whole", n_estimators=8).fit(TRAIN, eval_set=[VALID])


def test_a_checkpoint_with_other_trees_than_it_counts_is_refused(tmp_path: Path) -> None:
    from rankwright.persistence import read_model, write_model

    ranker = quick(checkpoint=tmp_path, n_estimators=6).fit(TRAIN)
    _, manifest = read_model(tmp_path)
    rest = {k: manifest[k] for k in ("checkpoint_of", "state", "state_sha256")}
    write_model(tmp_path, ranker.forest_.first(4).dump(), rest, "model.txt")
    with pytest.raises(ValueError, match="it counts 6 trees and has 4"):
        quick(checkpoint=tmp_path, n_estimators=8).fit(TRAIN)


def test_the_first_metric_stays_the_first_when_training_resumes(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "metric": ["ndcg@10", "map"],
        "early_stopping_rounds": 5,
        "n_estimators": 60,
        "learning_rate": 0.3,
    }
    whole = quick(**options).fit(TRAIN, eval_set=[VALID])
    quick(checkpoint=tmp_path, **options).fit(
        TRAIN, eval_set=[VALID], callbacks=[lambda progress: progress.iteration == 2]
    )
    resumed = quick(checkpoint=tmp_path, **options).fit(TRAIN, eval_set=[VALID])
    assert list(resumed.evals_result_["valid_0"]) == ["ndcg@10", "map"]
    assert resumed.n_estimators_ == whole.n_estimators_
    assert np.array_equal(resumed.predict(VALID), whole.predict(VALID))


def test_a_model_does_not_decide_where_a_later_fit_writes(tmp_path: Path) -> None:
    quick(n_estimators=2).fit(TRAIN).save(tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    manifest["parameters"]["checkpoint"] = str(tmp_path / "planted")
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    ranker = Ranker.load(tmp_path / "model")
    assert ranker.checkpoint is None
    ranker.fit(TRAIN)
    assert not (tmp_path / "planted").exists()
