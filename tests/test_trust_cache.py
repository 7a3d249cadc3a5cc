"""Kernels where compiled code cannot be kept: a read-only place, a full disk, damaged files."""

from __future__ import annotations

import os
import shutil
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
        env=inherited | place | environment | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stdout == "[0.5, 2.0, 0.5]\n", done.stderr[-3000:]
    return done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without compiled kernels."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(rankwright.__file__).parent, tmp_path / "site" / "rankwright", ignore=ignored)
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


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_kernels_are_compiled_again_and_replaced(package: Path, tmp_path: Path, ending: str) -> None:
    cache = tmp_path / "cache"
    assert use_a_kernel(package, cache) == ""
    files = list(cache.rglob(f"*add_leaf_values*.{ending}"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:40])
    assert use_a_kernel(package, cache).count("compiled kernels cannot be cached") == 1
    assert use_a_kernel(package, cache) == ""
