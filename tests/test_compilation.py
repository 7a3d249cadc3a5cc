"""Compilation of kernels: announced, timed as a phase of its own, once for what kernels share, and ahead of time."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit, types

import rankwright as rw
from rankwright.kernels import evaluate, letor_text, ordering
from rankwright.kernels import jit as compilation
from rankwright.kernels.jit import jit, shared
from rankwright.objectives.base import Objective
from rankwright.objectives.gradient import Gradient
from rankwright.training.progress import Display, seconds_left
from rankwright.training.state import Progress
from small import quick, rows

X, Y, QID = rows(120, 4, 12)
TIMES = {
    "preparation": 9.0,
    "compilation": 30.0,
    "gradients": 0.5,
    "trees": 2.75,
    "leaves": 0.5,
    "evaluation": 0.25,
}


def compile_something() -> float:
    """Compile a function that no cache has."""

    @njit
    def fresh(x: float) -> float:
        return x + 1.0

    return float(fresh(1.0))


@pytest.fixture
def unannounced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation._CLOCK, "announced", False)


# Announced


def test_it_is_announced_once_before_the_first_kernel(unannounced: None) -> None:
    shown: list[tuple[str, float]] = []
    before = compilation.compile_seconds()
    with compilation.announcing(
        lambda message: shown.append((message, compilation.compile_seconds()))
    ):
        compile_something()
        compile_something()
    assert shown == [("compiling kernels, first run only", before)]  # before any of it was done
    assert compilation.compile_seconds() > before


def test_nothing_is_announced_where_nothing_is_compiled(unannounced: None) -> None:
    shown: list[str] = []
    with compilation.announcing(shown.append):
        np.zeros(3).sum()
    compile_something()
    assert shown == []


class CompilingGradient(Gradient):
    """Compiles something at each call."""

    def add(self, q0: int, q1: int, scores: Any, stream: Any, grad: Any, hess: Any) -> None:
        compile_something()
        part = slice(self.bounds[q0], self.bounds[q1])
        grad[part] += scores[part] - self.problem.labels[part]
        hess[part] += 1


class Compiling(Objective):
    """Compiles something for each gradient."""

    def prepare(self, problem: Any) -> Gradient:
        return CompilingGradient(problem)


def test_a_training_announces_it_and_counts_it_as_a_phase(
    unannounced: None, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[Progress] = []
    before = compilation.compile_seconds()
    start = time.perf_counter()
    ranker = quick(objective=Compiling(), verbose=1, n_estimators=3).fit(
        X, Y, qid=QID, callbacks=[seen.append]
    )
    wall = time.perf_counter() - start
    compiled = compilation.compile_seconds() - before
    assert capfd.readouterr().err.count("compiling kernels, first run only\n") == 1
    assert compiled > 0
    assert ranker.times_["compilation"] == pytest.approx(compiled)
    assert ranker.times_["gradients"] < compiled  # a few microseconds of arithmetic
    assert sum(ranker.times_.values()) <= wall
    assert 0 < seen[0].compile_seconds < seen[-1].compile_seconds <= compiled


def test_a_quiet_training_announces_nothing_that_is_short(
    unannounced: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation._CLOCK, "seconds", 4.0)
    quick(objective=Compiling(), verbose=0, n_estimators=1).fit(X, Y, qid=QID)
    assert capfd.readouterr().err == ""


def test_a_quiet_training_announces_once_that_compiling_takes_long(
    unannounced: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation._CLOCK, "seconds", 5.0)
    quick(objective=Compiling(), verbose=0, n_estimators=2).fit(X, Y, qid=QID)
    assert capfd.readouterr().err == "compiling kernels, first run only\n"


def test_the_time_left_does_not_count_it() -> None:
    progress = Progress(2, 12, 2, [], seconds=31.0, times=TIMES, compile_seconds=30.0)
    assert seconds_left(progress) == 10 * 1.0 / 2
    assert "2.0 trees/s, 5 s left, objective 25%" in Display(1, 12, rw.metric("ndcg@10")).describe(
        progress
    )
    assert seconds_left(Progress(0, 12, 0, [], seconds=31.0, times=TIMES)) is None


def test_phases_of_a_run_add_up_to_its_time(tmp_path: Path) -> None:
    data = rw.make_web_search(60, random_state=1)
    start = time.perf_counter()
    run = rw.train_run(
        tmp_path / "run", data, data, parameters={"n_estimators": 60, "n_jobs": 1}, verbose=0
    )
    wall = time.perf_counter() - start
    assert 0.5 * wall < sum(run.times.values()) < wall


# Shared functions


@njit  # without a cache, whose code cannot be inspected
def order_by_kernel(score: Any, order: Any, scratch: Any) -> None:
    ordering.sort_descending(score, score.size, order, scratch)


def test_a_shared_function_is_compiled_once_and_called_by_kernels_and_python() -> None:
    score = np.random.default_rng(1).normal(size=100)
    orders = np.zeros((2, 100), dtype=np.int64)
    order_by_kernel(score, orders[0], ordering.sort_scratch(100))
    ordering.sort_descending(score, 100, orders[1], ordering.sort_scratch(100))
    assert orders.tolist() == [np.argsort(-score, kind="stable").tolist()] * 2
    assert not any(
        "count_sort" in text for text in order_by_kernel.inspect_llvm().values()
    )  # no copy of it
    bound = [
        (function, types)
        for function, cell, types in compilation._CELLS.values()
        if cell.value is not None
    ]
    assert all(types in function.overloads for function, types in bound)


FIRST = """
import sys
import numpy as np
from numba.core import event
from rankwright.objectives import bind
class Names(event.Listener):
    def on_start(self, started):
        print(started.data["dispatcher"].py_func.__name__)
    def on_end(self, ended):
        pass
event.register("numba:compile", Names())
bind(sys.argv[1], np.arange(240.0) % 5, group=[20, 220], metric="ndcg@10", n_jobs=1)(np.arange(240.0) % 99, 0)
"""
# What a gradient for NDCG without weights, propensities, leaves or an extension has no use for.
RARE = {
    "_chained_exchanges_apart",
    "_chained_swap_row",
    "_extend",
    "_further_weights",
    "_gather",
    "_gather_chain",
    "_gather_leaves",
    "_store",
    "_sum_apart_between",
    "_sum_between",
    "_weigh_apart",
    "_wide_chances",
    "_wide_pushes",
    "walk",
}


@pytest.mark.parametrize("objective", ["lambdamart", "yetiloss"])
def test_a_first_gradient_compiles_what_it_uses(objective: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST, objective]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    compiled = done.stdout.split()
    assert "sort_descending" in compiled
    assert not RARE & set(compiled)
    assert len([name for name in compiled if name not in ("impl", "_call_allocator")]) <= 14


def test_what_few_files_and_evaluations_need_is_compiled_by_them_alone() -> None:
    # The modules of these functions are loaded by those who need them.
    assert evaluate
    assert letor_text
    shared_names = {function.py_func.__name__ for function, _, _ in compilation._CELLS.values()}
    assert {"expected_value", "_order_ties", "_has_duplicate"} <= shared_names


@shared(types.float64(types.float64))
def broken(x: float) -> float:
    return x.missing  # type: ignore[attr-defined]  # which Numba finds out when it compiles


@jit
def call_broken(x: float) -> float:
    return broken(x)


def test_a_shared_function_that_cannot_be_compiled_is_an_error_of_the_kernel(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reasons.append)
    with pytest.raises(RuntimeError, match="broken could not be compiled"):
        call_broken(1.0)
    assert "missing" in str(reasons[0].exc_value)


def test_ctrl_c_while_a_shared_function_is_compiled_arrives_afterwards() -> None:
    class Interrupted:
        """Stands in for a dispatcher: the first attempt is interrupted."""

        def __init__(self) -> None:
            self.calls = 0
            self.overloads = {(): self}
            self.library = self.fndesc = self
            self.llvm_func_name = ""

        def compile(self, _: Any) -> None:
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt

        def get_pointer_to_function(self, _: str) -> int:
            return 4711

    function, cell = Interrupted(), ctypes.c_void_p()
    address = ctypes.addressof(cell)
    compilation._CELLS[address] = function, cell, ()
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT011, PT012
            compilation._bind(address)
            bound = function.calls, cell.value
            for _ in range(100):
                time.sleep(0.02)
        assert bound == (2, 4711)
    finally:
        del compilation._CELLS[address]


# The cache

USE = """
import numpy as np
from rankwright.kernels.jit import announcing, compile_seconds
with announcing(print):
    from rankwright.kernels.trees import add_leaf_values
    add_leaf_values(0, 3, np.array([0, 1, 0]), np.array([0.5, 2.0]), np.zeros(3))
print(compile_seconds() > 0)
"""


def use(package: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    places = {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        timeout=120,
        env=inherited | places,
        check=True,
    ).stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without compiled kernels."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(rw.__file__).parent, tmp_path / "site" / "rankwright", ignore=ignored)
    return tmp_path / "site"


def test_a_change_of_any_kernel_compiles_again_and_nothing_else_does(
    package: Path, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    assert use(package, NUMBA_CACHE_DIR=cache) == "compiling kernels, first run only\nTrue\n"
    assert use(package, NUMBA_CACHE_DIR=cache) == "False\n"
    with open(
        package / "rankwright" / "kernels" / "random.py", "a"
    ) as file:  # which the kernel does not use
        file.write("# a change\n")
    assert use(package, NUMBA_CACHE_DIR=cache) == "compiling kernels, first run only\nTrue\n"


def test_the_users_cache_folder_is_named_where_it_is_used(package: Path, tmp_path: Path) -> None:
    (package / "rankwright" / "kernels" / "__pycache__").write_text(
        ""
    )  # no folder can be created there
    home = str(tmp_path / "home")
    told = use(package, HOME=home, XDG_CACHE_HOME=home).splitlines()[0]
    assert told.startswith(
        "compiling kernels, first run only (the package's folder cannot be written to; they are"
    )
    assert home in told


# Ahead of time


WARMUP = """
import importlib, pkgutil, sys
from rankwright import cli, kernels
from rankwright.kernels import jit
for module in pkgutil.iter_modules(kernels.__path__):
    importlib.import_module(f"rankwright.kernels.{module.name}")
sys.argv = ["rankwright", "warmup", "--all"]
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code
print([function.py_func.__name__ for function, cell, _ in jit._CELLS.values() if cell.value is None])
"""


def test_warmup_binds_every_shared_function() -> None:
    # In a process of its own: here other tests have bound functions that warmup may have missed.
    done = subprocess.run(
        [sys.executable, "-c", WARMUP], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    first, unbound = done.stdout.splitlines()
    assert first.startswith("warm: ")
    assert unbound == "[]"
