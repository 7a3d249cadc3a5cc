"""Parts of the operating system that some platforms lack: each is made unavailable, and everything still works."""

from __future__ import annotations

import ctypes
import errno
import logging
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pytest

import rankwright as rw
from rankwright.data.formats.letor_parser import _count_threads
from rankwright.kernels.threads import available_threads
from rankwright.support import environment, files, interrupts, locks, memory
from small import TRAIN, VALID, quick

# Looked up as modules are imported, so a new process lacks them from the start.
WITHOUT = """
import os, signal
for module, names in (
    (os, ("fork", "register_at_fork", "sched_getaffinity", "O_NOFOLLOW")),
    (signal, ("SIGHUP",)),
):
    for name in names:
        delattr(module, name)
"""
WORK = """
import sys
import numpy as np
import rankwright as rw
folder = sys.argv[1]
train, valid = rw.make_web_search(30, kind="short", n_features=20, random_state=3).split(0.3)
for engine in ("lightgbm", "xgboost"):
    ranker = rw.Ranker(engine=engine, n_estimators=3, verbose=0, checkpoint=f"{folder}/{engine}")
    ranker.fit(train, eval_set=[valid])
    ranker.save(f"{folder}/model-{engine}")
    print(rw.load(f"{folder}/model-{engine}").predict(valid).tobytes().hex())
rw.write_letor(train, f"{folder}/train.txt")
run = rw.train_run(f"{folder}/run", train, valid, parameters={"n_estimators": 2}, verbose=0)
data = rw.stream_data(f"{folder}/train.txt")
print(run.ranker.predict(data.X).tobytes().hex())
"""


def test_a_platform_without_them_trains_the_same_models(tmp_path: Path) -> None:
    printed = []
    for name, code in (("with", WORK), ("without", WITHOUT + WORK)):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", code, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert len(printed[0].split()) == 3


SERVICE = """
import _thread, sys, threading, time
from pathlib import Path
from rankwright.serve.log import JsonLog
from rankwright.serve.server import serve
from rankwright.serve.settings import ServiceSettings
model, log = map(Path, sys.argv[1:])
def stop_when_ready():
    while '"ready"' not in log.read_text():
        time.sleep(0.05)
    _thread.interrupt_main()
start = lambda address: threading.Thread(target=stop_when_ready, daemon=True).start()
serve(model, ServiceSettings(port=0), JsonLog(log), start)
"""


def test_the_service_starts_without_the_signal_to_reload(tmp_path: Path) -> None:
    quick(n_estimators=1).fit(TRAIN).save(tmp_path / "model")
    command = [sys.executable, "-c", WITHOUT + SERVICE, *map(str, (tmp_path / "model", "log"))]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    assert '"stop"' in (tmp_path / "log").read_text()


def affinity(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert available_threads(None) == 3
    assert _count_threads(1 << 40) == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_threads(None) == 1


def size_of_memory(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert environment._memory_gb() is None


def description_of_the_processor(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def missing(*_: Any, **__: Any) -> str:
        raise FileNotFoundError("/proc/cpuinfo")

    monkeypatch.setattr(Path, "read_text", missing)
    assert environment._processor()


def memory_to_give_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # a C library without malloc_trim
    memory.release_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", None)
    memory.release_memory()


def refusal_of_links(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW")
    (folder / "precious").write_text("precious")
    (folder / "log.txt").symlink_to(folder / "precious")
    with pytest.raises(OSError, match=r"log\.txt"), files.appending(folder / "log.txt") as file:
        file.write("line")
    assert (folder / "precious").read_text() == "precious"
    with files.appending(folder / "other.txt") as file:
        file.write("line")
    assert (folder / "other.txt").read_text() == "line"


def reading_without_waiting(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delattr(os, "O_NONBLOCK")
    (folder / "file").write_bytes(b"\r\n")
    assert files.read_plain(folder / "file", 10) == b"\r\n"


def locks_of_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    warnings: list[str] = []
    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    monkeypatch.setattr(
        logging.getLogger("rankwright"), "warning", lambda *a: warnings.append(a[0])
    )
    with locks.locked(folder / "run", "a training"):
        pass
    assert warnings == ["%s cannot be locked (%s): let no two processes write to it at once"]


def handlers_of_signals(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(interrupts.signal, "getsignal", lambda number: None)
    with interrupts.deferred_interrupts() as waiting:
        assert waiting == []


def space_for_temporary_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    # On platforms that cannot delete an open file, it is deleted when it is closed.
    rw.write_letor(VALID, folder / "rows.txt")
    expected = np.array(rw.stream_data(folder / "rows.txt").X)
    monkeypatch.setattr(tempfile, "TemporaryFile", tempfile.NamedTemporaryFile)
    streamed = rw.stream_data(folder / "rows.txt").X
    assert np.array_equal(streamed, expected, equal_nan=True)


CHECKS: list[Callable[[pytest.MonkeyPatch, Path], None]] = [
    affinity,
    size_of_memory,
    description_of_the_processor,
    memory_to_give_back,
    refusal_of_links,
    reading_without_waiting,
    locks_of_files,
    handlers_of_signals,
    space_for_temporary_files,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_has_a_fallback(
    check: Callable[[pytest.MonkeyPatch, Path], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    check(monkeypatch, tmp_path)


def predicted(folder: str) -> bytes:
    return rw.load(folder).predict(VALID).tobytes()


def test_processes_that_are_spawned_instead_of_forked_predict_the_same(tmp_path: Path) -> None:
    ranker = quick().fit(TRAIN)
    ranker.save(tmp_path / "model")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(predicted, (str(tmp_path / "model"),)) == ranker.predict(VALID).tobytes()
        assert np.array_equal(pool.apply(ranker.predict, (VALID.X,)), ranker.predict(VALID))
