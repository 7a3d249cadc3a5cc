"""Counters of the service as Prometheus text. Only the event loop changes them, so there are no locks."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from importlib.metadata import version

from rankwright.serve.model_holder import ServedModel

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    r"""Counts of values by upper bounds.

    Examples
    --------
    >>> histogram = Histogram((1.0, 2.0))
    >>> for value in (0.5, 1.0, 7.0):
    ...     histogram.add(value)
    >>> print("\n".join(histogram.lines("seconds")))
    seconds_bucket{le="1.0"} 2
    seconds_bucket{le="2.0"} 2
    seconds_bucket{le="+Inf"} 3
    seconds_sum 8.5
    seconds_count 3
    """

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        """Return the lines of Prometheus: cumulative counts, sum and count."""
        total, lines = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self.sum:.9g}", f"{name}_count {total}"]


class Metrics:
    """What the service counts."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.seconds = Histogram()  # of requests to rank
        self.rows = 0
        self.unknown_levels = 0
        self.disconnects = 0
        self.broken_connections = 0
        self.in_progress = 0
        self.swaps: Counter[str] = Counter({"done": 0, "failed": 0})
        self.started_at = time.time()

    def render(self, served: ServedModel, ready: bool) -> bytes:
        """Return all metrics as text."""
        lines: list[str] = []

        def add(name: str, kind: str, text: str, samples: list[str]) -> None:
            lines.extend([f"# HELP {name} {text}", f"# TYPE {name} {kind}", *samples])

        def one(name: str, kind: str, text: str, value: float) -> None:
            add(name, kind, text, [f"{name} {value!r}"])

        name = "rankwright_requests_total"
        counts = [
            f'{name}{{path="{p}",status="{s}"}} {n}' for (p, s), n in sorted(self.requests.items())
        ]
        add(name, "counter", "Requests that were answered.", counts)
        name = "rankwright_rank_seconds"
        add(name, "histogram", "Time of requests to rank, body included.", self.seconds.lines(name))
        one("rankwright_rows_total", "counter", "Documents that were scored.", self.rows)
        one(
            "rankwright_unknown_levels_total",
            "counter",
            "Values of categorical features that training has not seen.",
            self.unknown_levels,
        )
        one("rankwright_requests_in_progress", "gauge", "Requests under way.", self.in_progress)
        one(
            "rankwright_disconnects_total",
            "counter",
            "Clients that left before the answer.",
            self.disconnects,
        )
        one(
            "rankwright_broken_connections_total",
            "counter",
            "Connections closed because of broken HTTP or a slow client.",
            self.broken_connections,
        )
        name = "rankwright_model_swaps_total"
        add(
            name,
            "counter",
            "Replacements of the model.",
            [f'{name}{{result="{r}"}} {n}' for r, n in self.swaps.items()],
        )
        labels = {
            "model": served.version,
            "engine": served.model.manifest["engine"]["name"],
            "rankwright": version("rankwright"),
        }
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        add(
            "rankwright_model_info",
            "gauge",
            "The model that is served.",
            [f"rankwright_model_info{{{text}}} 1"],
        )
        one("rankwright_model_trees", "gauge", "Trees of the model.", served.model.n_trees)
        one(
            "rankwright_model_loaded_timestamp_seconds",
            "gauge",
            "When the model was read.",
            served.loaded_at,
        )
        one("rankwright_ready", "gauge", "Whether requests to rank are answered.", int(ready))
        one("process_start_time_seconds", "gauge", "When the service was started.", self.started_at)
        memory = resident_memory()
        if memory is not None:
            one("process_resident_memory_bytes", "gauge", "Memory of the process.", memory)
        return ("\n".join(lines) + "\n").encode()


def resident_memory() -> int | None:
    """Return the memory of this process; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
