"""Importing the package is fast and loads no engine and no data frame library."""

from __future__ import annotations

import subprocess
import sys

LIBRARIES = ["lightgbm", "xgboost", "catboost", "sklearn", "pandas", "polars", "dask"]


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_loads_no_engine_and_no_data_frame() -> None:
    code = f"import sys, rankwright; print([name for name in {LIBRARIES} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_a_gradient_loads_no_data_frame_library() -> None:
    gradient = "rankwright.gradients('queryrmse', [0.5, 1.0], [0, 1], group=[2])"
    code = f"import sys, rankwright; {gradient}; print({{*{[*LIBRARIES, 'narwhals']}}} & {{*sys.modules}})"
    assert run(code).strip() == "set()"


def test_import_takes_less_than_half_a_second_beyond_numpy_and_numba() -> None:
    # Processor time, interleaved, the minimum of each: other work on the machine hardly changes it.
    clock = "import time; start = time.process_time(); {}; print(time.process_time() - start)"
    with_package, without = [], []
    for _ in range(4):
        without.append(float(run(clock.format("import numpy, numba"))))
        with_package.append(float(run(clock.format("import numpy, numba, rankwright"))))
    assert min(with_package) - min(without) < 0.5
