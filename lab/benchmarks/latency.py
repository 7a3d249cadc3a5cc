"""Latency of one query: 100 documents, 300 trees of 31 leaves, one thread; ours and other systems.

    python benchmarks/latency.py OUT.json [--documents 100] [--rounds 400]

Systems take turns, one call each; the medians are compared, and the best times, which other processes on the machine
disturb less. All but CatBoost score the same trees, which a Ranker grew,
and their scores are checked against ours. CatBoost's applier scores 300 trees of its own of 5 levels (32 leaves).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import tl2cgen
import treelite

import rankwright as rw
import rankwright_scorer
from rankwright.exporting import c_source, treelite_model
from rankwright.exporting.contract import ExportOptions
from rankwright.support.environment import environment
from rankwright.support.files import replacing

TREES, LEAVES, TARGET = 300, 31, 0.25


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=400)
    args = parser.parse_args()
    data = rw.make_web_search(400, random_state=1)
    ranker = rw.Ranker(n_estimators=TREES, num_leaves=LEAVES, min_child_samples=5, verbose=0).fit(
        data
    )
    X = np.ascontiguousarray(data.X[: args.documents], dtype=np.float64)
    with tempfile.TemporaryDirectory() as folder:
        systems = systems_of(ranker.model_, data, X, Path(folder))
        times: dict[str, list[float]] = {name: [] for name in systems}
        for system in systems.values():
            system()
        for _ in range(args.rounds):
            for name, system in systems.items():
                start = time.perf_counter()
                system()
                times[name].append(time.perf_counter() - start)
    median = {name: 1e6 * statistics.median(each) for name, each in times.items()}
    best = {name: 1e6 * min(each) for name, each in times.items()}
    ratio = median["rankwright"] / median["lightgbm"]
    result = {
        "documents": args.documents,
        "features": X.shape[1],
        "trees": TREES,
        "leaves": LEAVES,
        "rounds": args.rounds,
        "environment": environment(
            ("rankwright", "lightgbm", "treelite", "tl2cgen", "catboost", "numpy", "numba")
        ),
        "median_us": median,
        "best_us": best,
        "ratio_to_lightgbm": ratio,
        "ratio_of_best": best["rankwright"] / best["lightgbm"],
    }
    with replacing(args.out) as file:
        file.write((json.dumps(result, indent=1) + "\n").encode())
    for name in median:
        print(f"{name:24s} median {median[name]:8.1f} us, best {best[name]:8.1f} us")
    of_best = result["ratio_of_best"]
    print(
        f"rankwright / lightgbm: medians {ratio:.3f}, best times {of_best:.3f} (target at most {TARGET})"
    )


def systems_of(model: Any, data: Any, X: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    """Functions that score the rows, checked to give the same scores where they have the same trees."""
    expected = model.predict(X)
    model.save(folder / "model")
    light = rankwright_scorer.load(folder / "model")
    booster = lightgbm.Booster(model_str=model.forest.dump().decode())
    trees = list(model.forest.trees())
    checkpoint = treelite_model.TARGET.write(trees, ExportOptions(model.feature_names)).content
    loaded = treelite.Model.deserialize_bytes(checkpoint)
    tl2cgen.export_lib(
        loaded, toolchain="gcc", libpath=str(folder / "trees.so"), params={"parallel_comp": 2}
    )
    predictor = tl2cgen.Predictor(str(folder / "trees.so"), nthread=1)
    score_rows = compiled(
        c_source.TARGET.write(trees, ExportOptions(model.feature_names)).content, folder
    )
    scores = np.zeros(len(X))
    own = catboost.CatBoost(
        {"iterations": TREES, "depth": 5, "loss_function": "RMSE", "verbose": 0, "thread_count": 2}
    )
    own.fit(data.X, data.y)
    systems: dict[str, Callable[[], Any]] = {
        "rankwright": lambda: model.predict(X, n_jobs=1),
        "rankwright-scorer": lambda: light.predict(X),
        "lightgbm": lambda: booster.predict(X, num_threads=1),
        "treelite gtil": lambda: treelite.gtil.predict(loaded, X, nthread=1),
        "treelite tl2cgen": lambda: predictor.predict(tl2cgen.DMatrix(X)),
        "catboost": lambda: own.predict(X, thread_count=1),
        "exported c": lambda: score_rows(X, len(X), scores),
    }
    for name in ("rankwright", "rankwright-scorer", "lightgbm", "treelite gtil"):
        assert np.array_equal(np.ravel(systems[name]()), expected), name
    np.testing.assert_allclose(np.ravel(systems["treelite tl2cgen"]()), expected, rtol=1e-12)
    systems["exported c"]()
    assert np.array_equal(scores, expected)
    return systems


def compiled(content: bytes, folder: Path) -> Any:
    (folder / "model.c").write_bytes(content)
    command = [
        "cc",
        "-std=c99",
        "-O2",
        "-shared",
        "-fPIC",
        str(folder / "model.c"),
        "-o",
        str(folder / "model.so"),
    ]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(folder / "model.so")).rankwright_score_rows
    doubles = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")
    function.argtypes, function.restype = [doubles, ctypes.c_size_t, doubles], None
    return function


if __name__ == "__main__":
    main()
