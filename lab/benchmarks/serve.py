"""Load, soak and bad requests on a ranking service on the loopback interface: 300 trees of 31 leaves, 46 features.

Run: python lab/benchmarks/serve.py                                    all three, with their defaults
     python lab/benchmarks/serve.py load [--rate 300] [--seconds 60]   latencies at a fixed rate, 100 documents each
     python lab/benchmarks/serve.py soak [--rate 20] [--seconds 600]   memory every 10 seconds
     python lab/benchmarks/serve.py bad [--number 2000]                generated bad requests, good ones in between

Requests are sent when they are due, whether or not earlier ones were answered, and latency counts from then: a service
that stalls cannot hide it. Every answer is compared, byte by byte, with the predictions of the model. On a machine with
other work, latencies say little; the processor time of a request (``service_cpu_ms_per_request``) changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import rankwright as rw
from bad_requests import Bad, Shape, bad_requests, exchange, faults, named
from rankwright.support.environment import environment
from rankwright.support.files import replacing
from running_service import Service

DOCUMENTS, FEATURES, TREES, LEAVES = 100, 46, 300, 31
QUERIES = 50  # different ones, sent in turn
LONGEST_LATENCY = 30.0


def make_model(folder: Path) -> tuple[Path, Any]:
    """Train the model; returns its path and rows to score."""
    data = rw.make_web_search(60, n_features=FEATURES, random_state=1)
    ranker = rw.Ranker(
        n_estimators=TREES, num_leaves=LEAVES, min_child_samples=5, n_jobs=1, verbose=0
    ).fit(data)
    ranker.save(folder / "model")
    assert ranker.model_.n_trees == TREES
    return folder / "model", np.nan_to_num(data.X[: QUERIES * DOCUMENTS].astype(np.float64))


def messages(model: rw.Model, X: Any) -> list[tuple[bytes, Any]]:
    """Requests and the results that belong to them."""
    pairs = []
    for rows in X.reshape(QUERIES, DOCUMENTS, FEATURES):
        body = json.dumps({"rows": rows.tolist()}).encode()
        head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        scores = model.predict(rows, n_jobs=1)
        order = np.argsort(-scores, kind="stable")
        results = [{"id": int(i), "score": float(scores[i])} for i in order]
        pairs.append((head % len(body) + body, json.dumps(results).encode()))
    return pairs


class Client:
    """Keeps connections open and sends requests when they are due."""

    def __init__(self, address: tuple[str, int], pairs: list[tuple[bytes, bytes]]) -> None:
        self.address = address
        self.pairs = pairs
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.latencies: list[float] = []
        self.errors: Counter[str] = Counter()

    async def connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return an idle connection that the service has not closed after a long wait, or a new one."""
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self.address)

    async def request(self, number: int, due: float) -> None:
        message, results = self.pairs[number % len(self.pairs)]
        try:
            async with asyncio.timeout(LONGEST_LATENCY):
                reader, writer = await self.connection()
                writer.write(message)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
        except Exception as error:
            self.errors[type(error).__name__] += 1
            return
        self.latencies.append(time.perf_counter() - due)
        self.idle.append((reader, writer))
        if not head.startswith(b"HTTP/1.1 200 "):
            self.errors[head[9:12].decode()] += 1
        elif results not in body:
            self.errors["wrong answer"] += 1

    async def run(self, rate: float, seconds: float) -> float:
        """Send for some time; returns the seconds that it took."""
        start = time.perf_counter()
        tasks = set()
        for number in range(round(rate * seconds)):
            due = start + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(self.request(number, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)
        took = time.perf_counter() - start
        for _, writer in self.idle:
            writer.close()
        return took

    def summary(self) -> dict[str, Any]:
        ms = 1000 * np.array(self.latencies)
        quantiles = {
            f"p{q:g}_ms": round(float(np.percentile(ms, q)), 2) for q in (50, 90, 99, 99.9)
        }
        return {
            "answers": len(ms),
            "errors": dict(self.errors),
            **quantiles,
            "max_ms": round(float(ms.max()), 2),
        }


def load(service: Service, pairs: list[Any], rate: float, seconds: float) -> dict[str, Any]:
    asyncio.run(
        Client(service.address, pairs).run(rate, min(2.0, seconds))
    )  # a start that is not measured
    client = Client(service.address, pairs)
    before = os.times(), process_seconds(service.process.pid)
    took = asyncio.run(client.run(rate, seconds))
    after = os.times(), process_seconds(service.process.pid)
    return {
        "rate": rate,
        "seconds": round(took, 2),
        **client.summary(),
        "service_cpu_ms_per_request": round(
            1000 * (after[1] - before[1]) / len(client.latencies), 3
        ),
        "memory_mb": round(resident_mb(service.process.pid), 1),
        "generator_cpu_share": round(
            (after[0].user + after[0].system - before[0].user - before[0].system) / took, 3
        ),
        "load_average": os.getloadavg(),
    }


def process_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(service: Service, pairs: list[Any], rate: float, seconds: float) -> dict[str, Any]:
    client = Client(service.address, pairs)
    memory: list[float] = []

    async def run() -> None:
        sending = asyncio.create_task(client.run(rate, seconds))
        while not sending.done():
            memory.append(round(resident_mb(service.process.pid), 1))
            print(
                f"{len(memory) * 10 - 10:5d} s  {memory[-1]:.1f} MB  {len(client.latencies)} answers",
                flush=True,
            )
            await asyncio.wait([sending], timeout=10)
        await sending

    asyncio.run(run())
    return {"rate": rate, "seconds": seconds, **client.summary(), "memory_mb": memory}


def bad(
    service: Service, model: rw.Model, number: int, shape: Shape, limit: float
) -> dict[str, Any]:
    """Send bad requests from several threads, every tenth followed by a good one."""
    wrong: list[str] = []
    statuses: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    n_good = 0

    def one(request: Bad) -> None:
        status, reason = exchange(service.address, request, pause=0.75 * limit, timeout=60.0)
        statuses[status] += 1
        kinds[request.kind] += 1
        if (fault := faults(request, status, reason)) is not None:
            wrong.append(fault)

    def one_good(seed: int) -> None:
        body = named(random.Random(seed), shape)
        rows = np.array(
            [[document[name] for name in shape.names] for document in body["documents"]]
        )
        scores = model.predict(rows, n_jobs=1)
        answer = service.rank(**body)["results"]
        if [x["score"] for x in answer] != sorted(scores.tolist(), reverse=True):
            wrong.append(f"good request {seed}: {answer}")

    with ThreadPoolExecutor(16) as pool:
        waiting = []
        for i, request in enumerate(bad_requests(number, shape, seed=7)):
            waiting.append(pool.submit(one, request))
            if i % 10 == 0:
                n_good += 1
                waiting.append(pool.submit(one_good, i))
        for future in waiting:
            future.result()
    return {
        "bad_requests": number,
        "good_requests": n_good,
        "faults": wrong,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "kinds": dict(sorted(kinds.items())),
        "alive": service.process.poll() is None,
        "failures_in_log": len(service.events("failure")) + len(service.events("server")),
    }


def measure(what: str, options: argparse.Namespace) -> dict[str, Any]:
    """Start a service, and do one of the three measurements."""
    rate = options.rate or (20.0 if what == "soak" else 300.0)
    seconds = options.seconds or (600.0 if what == "soak" else 60.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, X = make_model(folder)
        model = rw.load(path)
        limits = ("--time-limit", "1", "--max-body", "200000") if what == "bad" else ()
        with Service(path, folder / "access.log", *limits) as service:
            if what == "bad":
                shape = Shape(model.feature_names, max_rows=1000, max_body=200_000)
                result = bad(service, model, options.number, shape, limit=1.0)
            else:
                run = load if what == "load" else soak
                result = run(service, messages(model, X), rate, seconds)
            result["exit_code"] = service.stop()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["all", "load", "soak", "bad"], default="all")
    parser.add_argument("--rate", type=float, help="requests a second [300, or 20 for soak]")
    parser.add_argument("--seconds", type=float, help="[60, or 600 for soak]")
    parser.add_argument("--number", type=int, default=2000, help="bad requests")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the service is stopped too
    names = ["load", "bad", "soak"] if options.what == "all" else [options.what]
    results: dict[str, Any] = {}
    for what in names:
        results[what] = measure(what, options)
        print(json.dumps({what: results[what]}, indent=1), flush=True)
    results["environment"] = environment(["rankwright", "numpy", "numba", "starlette", "uvicorn"])
    if options.out is not None:
        with replacing(options.out) as file:
            file.write((json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
