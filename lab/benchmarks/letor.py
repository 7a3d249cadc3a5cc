"""Time read_letor against scikit-learn's load_svmlight_file on dense files of 20 000 × 136.

Run: python benchmarks/letor.py [rows]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from rankwright.data.formats.letor import read_letor
from rankwright.data.formats.letor_parser import parse_letor
from rankwright.support.files import read_text

FEATURES = 136
REPEATS = 5


def write(path: Path, rows: int, form: Callable[[float], str]) -> None:
    """Write counts, shares and heavy-tailed numbers, a third each, as in public data sets."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(sigma=3, size=(rows, FEATURES))
    X[:, ::3] = np.floor(X[:, ::3])
    X[:, 1::3] = rng.random((rows, len(range(1, FEATURES, 3))))
    labels = rng.integers(0, 5, rows)
    with path.open("w") as file:
        for row, values in enumerate(X.tolist()):
            words = [f"{j}:{form(v)}" for j, v in enumerate(values, start=1)]
            file.write(f"{labels[row]} qid:{row // 100} {' '.join(words)}\n")


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(path: Path, name: str) -> None:
    X, y, qid = parse_letor(read_text(path))
    expected = load_svmlight_file(path, query_id=True)
    same = (
        np.array_equal(X.view(np.int64), expected[0].toarray().view(np.int64))
        and np.array_equal(y, expected[1])
        and np.array_equal(qid, expected[2])
    )
    own_times, sklearn_times = [], []
    for _ in range(REPEATS):  # in turn, so that a busy moment of the machine affects both
        own_times.append(seconds(lambda: read_letor(path)))
        sklearn_times.append(seconds(lambda: load_svmlight_file(path, query_id=True)))
    own, sklearn = statistics.median(own_times), statistics.median(sklearn_times)
    print(
        f"{name:<22} {path.stat().st_size / 1e6:6.1f} MB   read_letor {own:.3f} s   "
        f"load_svmlight_file {sklearn:.3f} s   ratio {sklearn / own:.1f}   equal bits: {same}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=20_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        for name, form in (("6 digits", "{:.6g}".format), ("all digits (repr)", repr)):
            path = Path(folder, "data.txt")
            write(path, rows, form)
            compare(path, name)


if __name__ == "__main__":
    main()
