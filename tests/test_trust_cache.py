"""Kernels where compiled code cannot be kept: a read-only place, a full disk, damaged files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rankwright

USE_A_KERNEL = """
import resource, sys
import numpy as np
if len(sys.argv) > 1:  # bytes that a file may have: a disk that is nearly full
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from rankwright.kernels.trees import add_leaf_values
scores = np.zeros(3)
add_leaf_values(0, 3, np.array([0, 1, 0]), np.array([0.5, 2.0]), scores)
print(scores.tolist())
"""


def use_a_kernel(package: Path, cache: Path | None, *arguments: str, **environment: str) -> str:
    """Run it in another process and return its warnings."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    place = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", USE_A_KERNEL, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=inherited
        | place
        | environment
        | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stdout == "[0.5, 2.0, 0.5]\n", done.stderr[-3000:]
    return done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without compiled kernels."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(
        Path(rankwright.__file__).parent, tmp_path / "site" / "rankwright", ignore=ignored
    )
    return tmp_path / "site"


def test_kernels_work_where_nothing_can_be_written(package: Path, tmp_path: Path) -> None:
    # Root may write to read-only folders, but nobody can create a folder where a file is.
    (package / "rankwright" / "kernels" / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    home = str(tmp_path / "home")
    told = use_a_kernel(package, None, HOME=home, XDG_CACHE_HOME=home)
    assert told.count("compiled kernels cannot be cached") == 1
    assert "Set NUMBA_CACHE_DIR" in told


def test_kernels_work_on_a_full_disk(package: Path, tmp_path: Path) -> None:
    told = use_a_kernel(package, tmp_path / "cache", "200")
    assert told.count("compiled kernels cannot be cached") == 1
    assert use_a_kernel(package, tmp_path / "cache") == ""


@pytest.mark.parametrize("damage", ["head", "code", "end"])
def test_damaged_kernels_are_compiled_again_and_replaced(
    package: Path, tmp_path: Path, damage: str
) -> None:
    cache = tmp_path / "cache"
    assert use_a_kernel(package, cache) == ""
    files = list(cache.rglob("*add_leaf_values*.nbc"))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= damage == "code"
        file.write_bytes(content[: {"head": 40, "end": -1}.get(damage)])
    assert use_a_kernel(package, cache).count("compiled kernels cannot be cached") == 1
    assert use_a_kernel(package, cache) == ""


KILLED = """
import os, signal
replace = os.replace
def replace_and_die(source, target):
    replace(source, target)
    if "add_leaf_values" in str(target):
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace_and_die
"""


def test_a_process_killed_as_it_stores_a_kernel_leaves_no_code_of_another_source(
    package: Path, tmp_path: Path
) -> None:
    """Between any two files that it writes, other processes see what it has written so far."""
    cache, source = tmp_path / "cache", package / "rankwright" / "kernels" / "trees.py"
    old, new = (
        source.read_text(),
        source.read_text().replace(" += values[np.uint64(leaf[row])]", " = 7.0"),
    )
    assert old != new
    source.write_text(new)
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", USE_A_KERNEL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[7.0, 7.0, 7.0]\n"
    source.write_text(old)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED + USE_A_KERNEL], env=environment, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    assert use_a_kernel(package, cache) == ""


def test_a_kernel_is_compiled_once_for_all_processes(package: Path, tmp_path: Path) -> None:
    clock = "from rankwright.kernels.jit import compile_seconds\n"
    program = clock + USE_A_KERNEL + "print(compile_seconds() > 0)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for _ in range(2)
    ]
    assert [run.stdout.split()[-1] for run in runs] == ["True", "False"]
    assert len(list(tmp_path.glob("cache/**/*add_leaf_values*"))) == 1
