"""Peak memory of a training, measured in a separate process."""

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
from rankwright_lab.harness import System

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(
    system: System, train: RankingData, metric: str, *, trees: int, threads: int
) -> dict[str, float | None]:
    """Train in a separate process and return its peak memory in megabytes, ``peak_mb`` and ``added_mb``.

    ``added_mb`` is the peak minus the memory just before the training, which has data, libraries and compiled code. It
    needs Linux; elsewhere it is None.

    Examples
    --------
    >>> from rankwright_lab.harness import RankwrightSystem
    >>> data = make_web_search(20, n_features=20, mean_length=20)
    >>> system = RankwrightSystem("rankwright", {"objective": "queryrmse"})
    >>> peak_memory(system, data, "ndcg@10", trees=2, threads=1)["peak_mb"] > 10
    True
    """
    with tempfile.TemporaryDirectory() as folder:
        if sp.issparse(train.X):
            sp.save_npz(Path(folder, "X.npz"), train.X, compressed=False)
        else:
            np.save(Path(folder, "X.npy"), train.X)
        np.save(Path(folder, "y.npy"), train.y)
        np.save(Path(folder, "group.npy"), train.group)
        # The path comes first: the module of the system may be importable only with the caller's path.
        job = pickle.dumps(sys.path) + pickle.dumps((system, folder, metric, trees, threads))
        command = [
            sys.executable,
            "-c",
            "from rankwright_lab.bench.memory import measure; measure()",
        ]
        process = subprocess.run(command, input=job, capture_output=True, check=False)
    if process.returncode:
        reason = (
            process.stderr.decode(errors="replace").strip() or f"exit code {process.returncode}"
        ).splitlines()[-1]
        raise ValueError(
            f"training {system.name} in a separate process, to measure its memory, failed: {reason}"
        )
    measured: dict[str, float | None] = json.loads(process.stdout.splitlines()[-1])
    return measured


def measure() -> None:
    """Run the job that `peak_memory` wrote to standard input, and write the result to standard output."""
    sys.path[:] = pickle.load(sys.stdin.buffer)
    system, folder, metric, trees, threads = pickle.load(sys.stdin.buffer)
    sparse = Path(folder, "X.npz")
    X = sp.load_npz(sparse) if sparse.exists() else np.load(Path(folder, "X.npy"))
    train = RankingData(X, np.load(Path(folder, "y.npy")), group=np.load(Path(folder, "group.npy")))
    small = make_web_search(20, n_features=20, mean_length=20)
    system.fit(small, metric, trees=2, seed=0, threads=threads)  # load and compile first
    before = _reset_peak()
    system.fit(train, metric, trees=trees, seed=0, threads=threads)
    peak = _peak()
    result = {"peak_mb": peak, "added_mb": None if before is None else peak - before}
    sys.stdout.write(json.dumps(result) + "\n")


def _reset_peak() -> float | None:
    """Reset the peak to the megabytes in use, and return them; None if the system cannot reset it."""
    try:
        _CLEAR.write_text("5")
        return _peak()
    except OSError:
        return None


def _peak() -> float:
    match = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text()) if _STATUS.exists() else None
    if match:
        return int(match.group(1)) / 1024
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
