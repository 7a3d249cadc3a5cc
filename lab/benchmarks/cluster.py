"""Training on workers of this machine: one model for any number of them, workers that are killed, and time.

    python benchmarks/cluster.py hash [--documents 200000] [--trees 20] [--workers 1 2 3 4]
    python benchmarks/cluster.py kill [--times 10] [--documents 60000] [--trees 60] [--workers 3]
    python benchmarks/cluster.py speed [--documents 200000] [--trees 20] [--rounds 3]
    python benchmarks/cluster.py model [--documents 100000] [--trees 10]

`hash` prints the SHA-256 of the trees for each number of workers, for queries as they come, shuffled rows, and Parquet
files of very different sizes, and the tree at which early stopping stops. `kill` ends a random worker with signal 9 at
a random moment, and prints whether the model is the one without. `speed` compares two workers of one thread with one
process of two threads, and exact sums with plain ones. `model` measures the constants of the cost model: seconds of a
tree in each phase for a quarter, a half and all of the documents on one and two workers of one thread, and the network.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Cluster, Ranker, RankingData, make_web_search

OBJECTIVES = ("auto", "lambdamart")


COLUMNS = 30  # of the documents


def data_of(documents: int) -> RankingData:
    per_query = make_web_search(20, n_features=COLUMNS, random_state=1).n_rows / 20
    return make_web_search(round(documents / per_query), n_features=COLUMNS, random_state=1)


def sha(ranker: Ranker) -> str:
    return hashlib.sha256(ranker.forest_.dump()).hexdigest()


def partitions(data: RankingData, folder: Path) -> dict[str, dict[str, Any]]:
    """The same rows in three forms: arguments of fit."""
    order = np.random.default_rng(0).permutation(data.n_rows)
    shuffled = {"X": data.X[order], "y": data.y[order], "qid": data.qid[order]}
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {name: data.X[order, number] for number, name in enumerate(data.feature_names)}
    )
    table = table.append_column("label", pa.array(data.y[order])).append_column(
        "qid", pa.array(data.qid[order])
    )
    cuts = [0, data.n_rows // 100, data.n_rows // 3, data.n_rows // 3, data.n_rows]
    for number in range(
        len(cuts) - 1
    ):  # a small one, an empty one, a large one; queries in all of them
        pq.write_table(
            table.slice(cuts[number], cuts[number + 1] - cuts[number]),
            folder / f"part{number}.parquet",
        )
    return {
        "as they come": {"X": data},
        "shuffled rows": shuffled,
        "Parquet files": {"X": str(folder / "*.parquet")},
    }


def hashes(documents: int, trees: int, workers: list[int], objectives: list[str]) -> None:
    data, valid = data_of(documents).split(0.2)
    print(f"{data}; {trees} trees")
    with tempfile.TemporaryDirectory() as folder:
        forms = partitions(data, Path(folder))
        for objective in objectives:
            found = set()
            for number in workers:
                with started(number) as client:
                    for form, arguments in forms.items():
                        ranker = Ranker(
                            objective,
                            engine="xgboost",
                            n_estimators=trees,
                            early_stopping_rounds=5,
                            verbose=0,
                        )
                        start = time.perf_counter()
                        ranker.fit(**arguments, eval_set=[valid], cluster=client)
                        seconds = time.perf_counter() - start
                        found.add((sha(ranker), ranker.n_estimators_))
                        print(
                            f"{objective:<12} {number} workers  {form:<14} {sha(ranker)[:16]}  "
                            f"best tree {ranker.n_estimators_}  {seconds:.0f} s",
                            flush=True,
                        )
            print(
                f"{objective}: {len(found)} different", *(value for value, _ in found), flush=True
            )


def started(n_workers: int, threads: int = 1) -> Any:
    from rankwright.cluster.dask import connect

    return connect(n_workers, n_workers * threads)


def kill(times: int, documents: int, trees: int, n_workers: int, seed: int) -> None:
    data = data_of(documents)
    expected = sha(Ranker(engine="xgboost", n_estimators=trees, verbose=0, n_jobs=1).fit(data))
    draw = random.Random(seed)
    with started(n_workers) as client:
        start = time.perf_counter()
        Ranker(engine="xgboost", n_estimators=trees, verbose=0, n_jobs=1).fit(data, cluster=client)
        whole = time.perf_counter() - start
        print(
            f"{data}, {trees} trees, {n_workers} workers: {whole:.1f} s without a kill", flush=True
        )
    for _ in range(times):
        with started(n_workers) as client:
            moment = draw.uniform(0.02, 0.95) * whole

            def end(client: Any = client, moment: float = moment) -> None:
                time.sleep(moment)
                victim = draw.choice(sorted(client.run(os.getpid).items()))
                os.kill(victim[1], signal.SIGKILL)

            thread = threading.Thread(target=end)
            thread.start()
            start = time.perf_counter()
            try:
                ranker = Ranker(engine="xgboost", n_estimators=trees, verbose=0, n_jobs=1)
                ranker.fit(data, cluster=Cluster(client, retries=3))
                result = "the same model" if sha(ranker) == expected else "ANOTHER MODEL"
            except Exception as error:  # what a user would see
                result = f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - start
            thread.join()
            print(
                f"killed after {moment:5.1f} s, done after {seconds:5.1f} s: {result}", flush=True
            )


def speed(documents: int, trees: int, rounds: int) -> None:
    data = data_of(documents)
    common: dict[str, Any] = {
        "engine": "xgboost",
        "n_estimators": trees,
        "verbose": 0,
        "num_leaves": 64,
    }
    times: dict[str, list[dict[str, float]]] = {
        "one process, 2 threads": [],
        "2 workers, exact": [],
        "not exact": [],
    }
    with started(2) as client:
        for _ in range(rounds):
            times["one process, 2 threads"].append(Ranker(**common, n_jobs=2).fit(data).times_)
            times["2 workers, exact"].append(Ranker(**common).fit(data, cluster=client).times_)
            times["not exact"].append(
                Ranker(**common).fit(data, cluster=Cluster(client, exact=False)).times_
            )
    print(f"{data}, {trees} trees of 64 leaves; seconds of training, without reading and binning")
    base = statistics.median(sum(one.values()) for one in times["one process, 2 threads"])
    for name, found in times.items():
        median = statistics.median(sum(one.values()) for one in found)
        phases = {
            phase: round(statistics.median(one[phase] for one in found), 2) for phase in found[0]
        }
        print(f"{name:<24} {median:6.2f} s  {median / base:5.2f}  {phases}")


def network(values: int, times: int, place: tuple[Any, int]) -> float:
    """Seconds of a sum of so many doubles over the workers."""
    from rankwright.cluster.collective import Collective, connected

    with connected(*place):
        reducer = Collective(exact=False)
        array = np.ones(values)
        reducer.sum(array)
        start = time.perf_counter()
        for _ in range(times):
            reducer.sum(array)
        return (time.perf_counter() - start) / times


def model(documents: int, trees: int) -> None:
    from rankwright.cluster.dask import Team

    for n_workers in (1, 2):
        with started(n_workers) as client:
            for share in (0.25, 0.5, 1.0):
                data = data_of(round(share * documents))
                ranker = Ranker(engine="xgboost", n_estimators=trees, verbose=0, num_leaves=64)
                start = time.perf_counter()
                ranker.fit(data, cluster=client)
                whole = time.perf_counter() - start
                phases = {
                    phase: round(1000 * seconds / trees, 1)
                    for phase, seconds in ranker.times_.items()
                }
                rest = whole - sum(ranker.times_.values())
                print(
                    f"{n_workers} workers, {data.n_rows} rows: ms per tree {phases}, {rest:.1f} s before",
                    flush=True,
                )
            if n_workers > 1:
                for values, times in ((1, 200), (16_384, 50), (136 * 256 * 2, 50)):
                    arguments = [(values, times)] * n_workers
                    seconds = Team(client).together(network, arguments)
                    print(
                        f"a sum of {8 * values} bytes: {1e6 * seconds:.0f} microseconds", flush=True
                    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("hash", "kill", "speed", "model"))
    parser.add_argument("--documents", type=int)
    parser.add_argument("--trees", type=int)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, nargs="+")
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES))
    arguments = parser.parse_args()
    if arguments.command == "hash":
        workers = arguments.workers or [1, 2, 3, 4]
        hashes(arguments.documents or 200_000, arguments.trees or 20, workers, arguments.objectives)
    elif arguments.command == "kill":
        kill(
            arguments.times,
            arguments.documents or 60_000,
            arguments.trees or 60,
            (arguments.workers or [3])[0],
            arguments.seed,
        )
    elif arguments.command == "model":
        model(arguments.documents or 100_000, arguments.trees or 10)
    else:
        speed(arguments.documents or 200_000, arguments.trees or 20, arguments.rounds)


if __name__ == "__main__":
    main()
