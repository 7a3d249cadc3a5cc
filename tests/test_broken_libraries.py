"""Libraries that cannot be loaded: one sentence with the remedy, before any work. Stand-ins take their place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankwright.support.environment import require

TRAIN = """
import rankwright as rw
data = rw.make_web_search(20, kind="short", n_features=20, random_state=1)
try:
    rw.Ranker(engine={engine!r}, n_estimators=1, verbose=0).fit(data)
except (ImportError, ValueError) as error:
    print(error)
"""


def said(folder: Path, module: str, content: str, engine: str = "lightgbm") -> str:
    """Return the error of a training in which a module is replaced by a stand-in."""
    package = folder / module
    package.mkdir()
    (package / "__init__.py").write_text(content)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    result = subprocess.run(
        [sys.executable, "-c", TRAIN.format(engine=engine)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr[-2000:]


@pytest.mark.parametrize(("engine", "other"), [("lightgbm", "xgboost"), ("xgboost", "lightgbm")])
def test_a_library_without_openmp_names_it_and_the_other_engine(
    tmp_path: Path, engine: str, other: str
) -> None:
    missing = "libgomp.so.1: cannot open shared object file"
    answer = said(tmp_path, engine, f"raise OSError({missing!r})", engine)
    assert answer.startswith(f"engine='{engine}': {engine} is installed, but a library")
    assert missing in answer
    assert "libgomp1" in answer
    assert f"engine='{other}'" in answer
    assert len(answer.splitlines()) == 1


def test_a_library_that_is_not_installed_names_the_command(tmp_path: Path) -> None:
    answer = said(tmp_path, "lightgbm", "raise ModuleNotFoundError('No module named lightgbm')")
    assert 'pip install "lightgbm", or use engine=' in answer
    assert len(answer.splitlines()) == 1


def test_a_numba_that_refuses_numpy_is_one_sentence(tmp_path: Path) -> None:
    refusal = "Numba needs NumPy 2.2 or less. Got NumPy 2.9."
    answer = said(tmp_path, "numba", f"raise ImportError({refusal!r})")
    assert refusal in answer
    assert "pip install --upgrade numba" in answer


def test_a_broken_library_of_an_extra_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_library.py").write_text("raise ImportError('libproto.so is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ImportError, match=r"which cannot be imported \(libproto.so is too old\): pip"
    ):
        require("an export", "onnx", "broken_library")
    with pytest.raises(ImportError, match="needs no_such_library, which is not installed: pip"):
        require("an export", "onnx", "no_such_library")
