"""Train for long, and many times in one process, and watch memory, threads and files.

python tools/trust/soak.py --trees 2000 --documents 50000 --fits 200
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from pathlib import Path

import psutil

import rankwright as rw

PROCESS = psutil.Process()


def usage() -> tuple[float, int, int]:
    """Megabytes, threads and open files of this process."""
    gc.collect()
    return PROCESS.memory_info().rss / 2**20, PROCESS.num_threads(), PROCESS.num_fds()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, default=2000)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--fits", type=int, default=200)
    options = parser.parse_args()
    data = rw.make_web_search(options.documents // 100, n_features=40, random_state=0)
    train, valid = data.split(0.2)
    seen: list[tuple[int, float]] = []

    def watch(progress: rw.Progress) -> None:
        if progress.iteration % max(1, options.trees // 20) == 0:
            seen.append((progress.iteration, PROCESS.memory_info().rss / 2**20))

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = {"path": Path(scratch, "checkpoint"), "trees": max(1, options.trees // 20)}
        ranker = rw.Ranker(n_estimators=options.trees, n_jobs=1, verbose=0, checkpoint=checkpoint)
        ranker.fit(train, eval_set=[valid], callbacks=[watch])
        size = (
            sum(file.stat().st_size for file in Path(scratch).rglob("*") if file.is_file()) / 2**20
        )
    print(
        f"{options.trees} trees on {train.n_rows} documents in {time.perf_counter() - start:.0f} s"
    )
    print(
        "MB after trees: "
        + ", ".join(f"{iteration}: {megabytes:.0f}" for iteration, megabytes in seen)
    )
    warm, last = seen[len(seen) // 4][1], seen[-1][1]
    # The trees themselves have to be kept, as text and as arrays: a few times the size of the saved model.
    print(f"growth after a quarter: {last - warm:.0f} MB; the checkpoint has {size:.0f} MB")
    small = rw.make_web_search(30, kind="short", n_features=20, random_state=1)
    figures = []
    for number in range(options.fits):
        rw.Ranker(n_estimators=10, min_child_samples=5, n_jobs=1 + number % 2, verbose=0).fit(
            small
        ).predict(small)
        if number % max(1, options.fits // 10) == 0 or number == options.fits - 1:
            figures.append(usage())
    print("fits, MB/threads/files: " + ", ".join(f"{m:.0f}/{t}/{f}" for m, t, f in figures))
    first, final = figures[len(figures) // 4], figures[-1]
    leaks = final[1] > first[1] or final[2] > first[2] or final[0] > first[0] + 20
    print(f"leak of memory, threads or files: {'yes' if leaks else 'no'}")
    sys.exit(bool(leaks or last - warm > 50 + 6 * size))


if __name__ == "__main__":
    main()
