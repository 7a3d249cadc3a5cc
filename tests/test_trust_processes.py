"""Interrupts inside the gate for thread counts, forked processes, and no place to keep compiled kernels."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rankwright.engines.gate import ThreadCountGate

TESTS = Path(__file__).parent


def lines_of(function: Any) -> int:
    """Count the lines of ours that a call executes."""
    return run_interrupted(function, -1)


def run_interrupted(function: Any, line: int) -> int:
    """Send SIGINT when a call has executed this many lines of the gate's and the interrupts' files."""
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("gate.py", "interrupts.py")):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


def test_an_interrupt_anywhere_in_the_gate_leaks_no_place() -> None:
    def call() -> None:
        with gate.calls_with(2):
            pass

    gate = ThreadCountGate()
    for line in range(1, lines_of(call) + 1):
        gate = ThreadCountGate()
        run_interrupted(call, line)
        assert gate._calls == 0, f"line {line}"
        assert not gate._entrance.locked(), f"line {line}"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, f"line {line}"


def test_an_interrupt_ends_the_wait_for_another_number() -> None:
    gate = ThreadCountGate()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with gate.calls_with(1):
            inside.set()
            leave.wait(60)

    def wait() -> None:
        with gate.calls_with(2):
            pytest.fail("entered beside a call with another number")

    holder = threading.Thread(target=other)
    holder.start()
    inside.wait(60)
    sender = threading.Timer(
        0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    )
    sender.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        wait()
    assert time.monotonic() - began < 30
    leave.set()
    holder.join()
    with gate.calls_with(3):
        pass


def test_a_program_that_handles_ctrl_c_itself_goes_on_waiting() -> None:
    gate = ThreadCountGate()
    inside, leave = threading.Event(), threading.Event()
    steps = []

    def other() -> None:
        with gate.calls_with(1):
            inside.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            leave.wait(60)

    def handle(*_: Any) -> None:
        steps.append("handled")
        leave.set()

    handler = signal.signal(signal.SIGINT, handle)
    try:
        holder = threading.Thread(target=other)
        with gate.calls_with(1):
            holder.start()
            inside.wait(60)
        with gate.calls_with(2):
            steps.append("entered")
        holder.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert steps == ["handled", "entered"]


FORK = """
import os, sys, time
import numpy as np
from rankwright import Ranker, load, make_web_search
from rankwright.engines import gate
from rankwright.kernels.threads import available_threads
gate.VALUES_TO_SHARE = 0
data = make_web_search(60, random_state=1)
fitted = Ranker(n_estimators=6, n_jobs=2, verbose=0).fit(data)  # starts the threads of OpenMP
expected, shares = fitted.predict(data), fitted.predict(data, contributions=True)
fitted.save(sys.argv[1])
model = load(sys.argv[1])
child = os.fork()
if child == 0:
    assert available_threads(None) == 1, available_threads(None)
    assert np.array_equal(model.predict(data), expected)
    for n_jobs in (None, 2):
        assert np.array_equal(Ranker.load(sys.argv[1]).set_params(n_jobs=n_jobs).predict(data), expected)
        assert np.array_equal(Ranker(n_estimators=6, n_jobs=n_jobs, verbose=0).fit(data).predict(data), expected)
    assert np.array_equal(fitted.set_params(n_jobs=2).predict(data, contributions=True), shares)
    os._exit(0)
for _ in range(600):
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        print("ended with", os.waitstatus_to_exitcode(status))
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    print("hangs")
"""


def test_a_forked_process_predicts_and_trains(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "ended with 0\n", done.stderr[-2000:]


def test_a_fork_while_another_thread_is_in_the_gate_leaves_the_gate_free() -> None:
    code = """
import os, threading
from rankwright.engines.gate import GATE
inside = threading.Event()
def stay():
    with GATE.calls_with(2):
        inside.set()
        threading.Event().wait(5)
threading.Thread(target=stay, daemon=True).start()
inside.wait()
child = os.fork()
if child == 0:
    with GATE.calls_with(1):
        os._exit(7)
for _ in range(300):
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        break
    threading.Event().wait(0.1)
else:
    os.kill(child, 9)
print(os.waitstatus_to_exitcode(status) if pid else "hangs", flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "7\n", done.stderr[-2000:]
