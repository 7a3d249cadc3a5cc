"""Peak memory of a training, in a process of its own."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from rankwright.data.dataset import RankingData
from rankwright.data.synthetic import make_web_search
from rankwright.research.harness import System

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(
    system: System, train: RankingData, metric: str, *, trees: int, threads: int
) -> dict[str, float | None]:
    """Train in a process of its own and return megabytes: the ``peak_mb`` of the process, and what training added.

    ``added_mb`` is the peak less what the process held just before, with data, libraries and compiled code; it is
    None where the system cannot tell (it needs Linux).

    Examples
    --------
    >>> from rankwright.research.harness import Ours
    >>> data = make_web_search(20, n_features=20, mean_length=20)
    >>> measured = peak_memory(Ours("ours", {"objective": "queryrmse"}), data, "ndcg@10", trees=2, threads=1)
    >>> measured["peak_mb"] > 10
    True
    """
    with tempfile.TemporaryDirectory() as folder:
        if sp.issparse(train.X):
            sp.save_npz(Path(folder, "X.npz"), train.X, compressed=False)
        else:
            np.save(Path(folder, "X.npy"), train.X)
        np.save(Path(folder, "y.npy"), train.y)
        np.save(Path(folder, "group.npy"), train.group)
        # The path comes first: the system may be of a module that only the caller's path leads to.
        job = pickle.dumps(sys.path) + pickle.dumps((system, folder, metric, trees, threads))
        command = [sys.executable, "-c", "from rankwright.research.bench.memory import measure; measure()"]
        done = subprocess.run(command, input=job, capture_output=True, check=False)
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise ValueError(f"training {system.name} in a process of its own, to see its memory, failed: {reason}")
    measured: dict[str, float | None] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure() -> None:
    """Do the job that `peak_memory` left at the standard input, and write the answer to the standard output."""
    sys.path[:] = pickle.load(sys.stdin.buffer)
    system, folder, metric, trees, threads = pickle.load(sys.stdin.buffer)
    sparse = Path(folder, "X.npz")
    X = sp.load_npz(sparse) if sparse.exists() else np.load(Path(folder, "X.npy"))
    train = RankingData(X, np.load(Path(folder, "y.npy")), group=np.load(Path(folder, "group.npy")))
    small = make_web_search(20, n_features=20, mean_length=20)
    system.fit(small, metric, trees=2, seed=0, threads=threads)  # load and compile first
    before = _held_now()
    system.fit(train, metric, trees=trees, seed=0, threads=threads)
    peak = _peak()
    answer = {"peak_mb": peak, "added_mb": None if before is None else peak - before}
    sys.stdout.write(json.dumps(answer) + "\n")


def _held_now() -> float | None:
    """Megabytes in use, from which the peak counts anew; None where only the peak of all times is known."""
    try:
        _CLEAR.write_text("5")
        return _peak()
    except OSError:
        return None


def _peak() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text()) if _STATUS.exists() else None
    if found:
        return int(found.group(1)) / 1024
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
