"""Importing the package is quick and loads no engine and no data frame."""

from __future__ import annotations

import subprocess
import sys

LIBRARIES = ["lightgbm", "xgboost", "catboost", "sklearn", "pandas", "polars", "dask"]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_no_engine_and_no_data_frame():
    code = f"import sys, rankwright; print([name for name in {LIBRARIES} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_import_takes_less_than_half_a_second_beyond_numpy_and_numba():
    clock = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
    ours, base = [], []
    for _ in range(4):  # interleaved, and the best of each: other work on the machine only adds
        base.append(float(run(clock.format("import numpy, numba"))))
        ours.append(float(run(clock.format("import numpy, numba, rankwright"))))
    assert min(ours) - min(base) < 0.5
