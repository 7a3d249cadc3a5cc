"""Memory and time of a training from files: streamed, and with the same rows in memory.

    python benchmarks/memory.py [--documents 200000] [--trees 20] [--engines lightgbm xgboost] [--folder FOLDER]
        [--skip-in-memory] [--out results.json]

Generated documents of 136 columns are written as Parquet of float64, in files of 100 000 rows. Each training runs in a
process of its own, which looks at its resident memory every 20 ms: its own, and pages of files, which the operating
system takes back when memory is short. The first line is a process with all libraries imported and a tiny model
trained. Both ways must give the same model. This needs Linux.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_ROWS_PER_FILE = 100_000
_COLUMNS = 136


class PeakMemory:
    """The largest resident memory of this process so far, by kind, in megabytes."""

    def __init__(self) -> None:
        self.own = self.files = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text()
            sizes = dict(line.split(":", 1) for line in status.splitlines())
            self.own = max(self.own, int(sizes["RssAnon"].split()[0]) / 1024)
            self.files = max(self.files, int(sizes["RssFile"].split()[0]) / 1024)
            time.sleep(0.02)


def write_files(folder: Path, documents: int) -> None:
    """Write files of generated documents."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries = 0
    for number in range(-(-documents // _ROWS_PER_FILE)):
        rows = min(_ROWS_PER_FILE, documents - number * _ROWS_PER_FILE)
        random = np.random.default_rng(number)
        X = random.standard_normal((rows, _COLUMNS))
        X[:, 1::3] = np.maximum(0.0, X[:, 1::3])  # a third of the columns is 0 in half of the rows
        X[:, 2::3] = np.floor(np.exp(1.5 * X[:, 2::3]))  # and a third counts
        useful = X[:, 0] + X[:, 1] + 0.3 * X[:, 2] * (X[:, 3] > 0) + random.standard_normal(rows)
        qid = queries + np.repeat(np.arange(rows), random.integers(20, 180, rows))[:rows]
        queries = int(qid[-1]) + 1
        columns = {"label": np.digitize(useful, [1.0, 2.0, 3.0, 4.0]).astype(np.int64), "qid": qid}
        columns |= {f"f{column}": X[:, column] for column in range(_COLUMNS)}
        path = folder / f"{number:04}.parquet"
        pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)


def train(folder: str, engine: str, way: str, trees: int) -> dict[str, Any]:
    """Train in this process, and describe what it took."""
    import rankwright as rw

    ranker = rw.Ranker(engine=engine, n_estimators=trees, verbose=0)
    rows = 0
    peak = PeakMemory()
    start, start_of_processor = time.perf_counter(), time.process_time()
    if way == "alone":
        ranker.fit(rw.make_web_search(5, n_features=_COLUMNS, random_state=1))
    elif way == "streamed":
        ranker.fit(f"{folder}/*.parquet")
    else:
        import pyarrow.parquet as pq

        data = rw.RankingData(pq.read_table(folder), "label", qid="qid")
        rows = data.n_rows
        ranker.fit(data)
    return {
        "engine": engine,
        "way": way,
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - start_of_processor,
        "preparation": ranker.times_["preparation"],
        "megabytes": peak.own,
        "megabytes_of_files": peak.files,
        "sha256": hashlib.sha256(ranker.forest_.dump()).hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--engines", nargs="+", default=["lightgbm", "xgboost"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--skip-in-memory", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "ENGINE", "WAY"))
    arguments = parser.parse_args()
    if arguments.child is not None and arguments.child[2] == "write":
        write_files(Path(arguments.child[0]), arguments.documents)
        return
    if arguments.child is not None:
        print(json.dumps(train(*arguments.child, arguments.trees)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            size_of = ["--documents", str(arguments.documents)]
            subprocess.run(
                [sys.executable, __file__, *size_of, "--child", str(folder), "-", "write"],
                check=True,
            )
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        print(f"{size:.0f} MB of files", flush=True)
        results = []
        for engine in arguments.engines:
            hashes = {}
            for way in ("alone", "streamed", *(() if arguments.skip_in_memory else ("in memory",))):
                command = [
                    sys.executable,
                    __file__,
                    "--trees",
                    str(arguments.trees),
                    "--child",
                    str(folder),
                ]
                output = subprocess.run(
                    [*command, engine, way], check=True, capture_output=True, text=True
                ).stdout
                row = json.loads(output.splitlines()[-1])
                results.append(row)
                hashes[way] = row["sha256"]
                print(
                    f"{engine:<9} {way:<10} {row['megabytes']:7.0f} MB at most, {row['megabytes_of_files']:7.0f} MB of "
                    f"files, {row['seconds']:6.1f} s, {row['processor_seconds']:6.1f} s of the processor, of which "
                    f"preparation {row['preparation']:.1f} s, {row['sha256'][:12]}",
                    flush=True,
                )
            assert arguments.skip_in_memory or hashes["streamed"] == hashes["in memory"], (
                "the models differ"
            )
        if arguments.out is not None:
            arguments.out.write_text(
                json.dumps({"megabytes_of_files": size, "trainings": results}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
