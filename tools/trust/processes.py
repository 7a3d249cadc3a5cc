"""Use the library in forked and spawned processes, in pools of processes and threads, and twice in one folder.

    python tools/trust/processes.py

Every way must end within its time limit, with the bits of the plain way.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

import rankwright as rw
from kills import PARAMETERS, data

SECONDS = 120


def train(n_jobs: int = 1, seed: int = 0) -> bytes:
    options = {**PARAMETERS, "n_jobs": n_jobs, "random_state": seed, "n_estimators": 10}
    return rw.Ranker(**options, verbose=0).fit(data()).predict(data()).tobytes()


def predict(path: str, n_jobs: int | None = None) -> bytes:
    return rw.load(path).predict(data(), n_jobs=n_jobs).tobytes()


def forked(path: str) -> list[bytes]:
    """Predict and train here with several threads, then in forked processes."""
    predict(path, 2)
    train(2)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        return [*pool.map(predict, [path] * 4), *pool.map(train, [1, 2, 1, 2])]


def spawned(path: str) -> list[bytes]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [*pool.map(predict, [path] * 2), *pool.map(train, [1, 2])]


def by_joblib(path: str) -> list[bytes]:
    from joblib import Parallel, delayed

    jobs = [delayed(predict)(path)] * 2 + [delayed(train)(n_jobs) for n_jobs in (1, 2)]
    return list(Parallel(n_jobs=2, backend="loky")(jobs))


def threads(path: str) -> list[bytes]:
    """Different numbers of threads at once."""
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(train, 1 + number % 3) for number in range(16)]
        jobs += [pool.submit(predict, path, 1 + number % 4) for number in range(64)]
        return [job.result(SECONDS) for job in jobs]


TWICE = """
import sys
sys.path.insert(0, {here!r})
from kills import CHECKPOINTS, data
import rankwright.ranker
from rankwright.runs import train_run
data = data()
print("ready", flush=True)
sys.stdin.readline()
try:
    train_run(sys.argv[1], data, parameters=CHECKPOINTS, verbose=0)
    print("trained")
except ValueError as error:
    print("told" if "is in use by a training in process" in str(error) else error)
"""


def two_in_one_folder(folder: Path) -> str:
    """Start two trainings of one run at the same moment."""
    code = TWICE.format(here=str(Path(__file__).parent))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = sorted(process.communicate(timeout=SECONDS)[0].strip() for process in both)
    finished = rw.Run.open(folder).finished
    # Either the second comes while the first trains and is told so, or it finds a finished run.
    return (
        ""
        if finished and answers in (["told", "trained"], ["trained", "trained"])
        else f"{answers}, {finished}"
    )


def main() -> None:
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch, "model"))
        rw.Ranker(**PARAMETERS, verbose=0).fit(data()).save(path)
        scores, model = predict(path, 1), train()
        ways: dict[str, Callable[[str], list[bytes]]] = {
            "fork after use": forked,
            "spawn": spawned,
            "loky": by_joblib,
            "threads": threads,
        }
        for name, way in ways.items():
            start = time.perf_counter()
            results = way(path)
            bad = [result for result in results if result not in (scores, model)]
            wrong += len(bad)
            print(
                f"{name:<16} {len(results):>4} calls  {len(bad)} wrong  {time.perf_counter() - start:.1f} s",
                flush=True,
            )
        problems = [two_in_one_folder(Path(scratch, f"run{number}")) for number in range(6)]
        wrong += sum(map(bool, problems))
        print(
            f"{'two in a folder':<16} {len(problems):>4} pairs  {sum(map(bool, problems))} wrong  {problems}"
        )
        assert np.frombuffer(scores).size == data().n_rows
    print(f"{wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
