"""Importing the package is fast and loads no engine and no data frame library."""

from __future__ import annotations

import json
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


FIT_AND_SAVE = """
import json, sys, tempfile
from pathlib import Path
import rankwright

root = str(Path(rankwright.__file__).parent)
train, _ = rankwright.make_web_search(60, random_state=1).split(0.3)
touched = set()

def fit_and_save():
    ranker = rankwright.Ranker(metric="ndcg@10", n_estimators=5, verbose=0).fit(train)
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(folder + "/model")

def note(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(root) and frame.f_code.co_name != "<module>":
        touched.add(name)

fit_and_save()  # imports modules and compiles kernels
sys.setprofile(note)
fit_and_save()
sys.setprofile(None)
loaded = [name for name in sys.modules if name.split(".")[0] == "rankwright"]
print(json.dumps({"loaded": loaded, "touched": sorted(touched)}))
"""


def test_a_plain_fit_and_save_uses_a_small_part_of_the_package() -> None:
    """A newcomer who follows a training reads these files; raise the numbers only for a reason."""
    used = json.loads(run(FIT_AND_SAVE))
    folders = ("clicks", "cluster", "cli", "exporting", "report", "serve", "tuning")
    modules = ("training.bias", "training.examination", "calibration", "explanation", "runs")
    unused = tuple(f"rankwright.{name}" for name in (*folders, *modules))
    assert [name for name in used["loaded"] if name.startswith(unused)] == []
    assert len(used["loaded"]) <= 90
    assert len(used["touched"]) <= 70
