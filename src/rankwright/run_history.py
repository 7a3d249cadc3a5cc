"""The metrics and the log of a run. They grow during the training.

Lines are appended. A training that resumes keeps the lines up to its checkpoint and writes the
later lines again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwright.support.files import appending, read_plain, replacing

if TYPE_CHECKING:
    from rankwright.ranker import Ranker
    from rankwright.training.state import Progress

METRICS, LOG = "metrics.jsonl", "log.txt"
_SECONDS_BETWEEN_LINES = 10.0
_MOST_HISTORY_BYTES = 1 << 31

_History = Sequence[Mapping[str, Sequence[float]]]


class Recorder:
    """A callback that writes the metrics and the log of a run."""

    def __init__(self, folder: Path, parts: Sequence[str]) -> None:
        self.lines = 0
        self._folder = folder
        self._parts = parts
        self._started = False
        # Seconds before this training resumed.
        self._before = 0.0
        self._logged = time.perf_counter()

    def __call__(self, progress: Progress) -> None:
        """Write the metrics after an iteration."""
        trees = f"{progress.iteration}/{progress.n_estimators} trees"
        if progress.stage:
            # The curves of this pass are not the curves of the run.
            self._log_now_and_then(f"{progress.stage}: {trees}")
            return
        if not self._started:
            # The checkpoint may be older than the lines, so lines after it are dropped.
            self._keep(progress.iteration - 1, progress.history)
            if progress.iteration > 1:
                self.log(f"resuming after {progress.iteration - 1} iterations")
        self._write(progress.iteration, self._before + progress.seconds, progress.history)
        latest = [trees]
        for part, curves in zip(self._parts, progress.history, strict=True):
            latest += [f"{part} {name} {curve[-1]:.4f}" for name, curve in curves.items()]
        self._log_now_and_then(", ".join(latest))

    def complete(self, ranker: Ranker) -> None:
        """Write the lines that are missing if Ctrl-C came after a tree and before its line."""
        # If all trees were in the checkpoint, no iteration has checked the lines yet.
        if not self._started or ranker.interrupted_:
            history = list(ranker.evals_result_.values())
            done = len(next(iter(history[0].values()))) if history else len(ranker.learning_rates_)
            self._keep(done, history)

    def log(self, text: str) -> None:
        """Write a line to the log."""
        with appending(self._folder / LOG) as file:
            file.write(f"{now()}  {text}\n")

    def _log_now_and_then(self, text: str) -> None:
        if time.perf_counter() - self._logged >= _SECONDS_BETWEEN_LINES:
            self._logged = time.perf_counter()
            self.log(text)

    def _keep(self, iterations: int, history: _History) -> None:
        """Keep the lines of these iterations, and write lost lines again without their time."""
        # The file is replaced in a single step, so a crash does not lose lines.
        rows = read_history(self._folder / METRICS)[:iterations]
        with replacing(self._folder / METRICS) as file:
            for row in rows:
                file.write((_line(row) + "\n").encode())
        self._started = True
        self.lines = len(rows)
        # Seconds go on from the last line that knows them.
        self._before = max(
            (row["seconds"] for row in rows if row["seconds"] is not None), default=0.0
        )
        for iteration in range(self.lines + 1, iterations + 1):
            self._write(iteration, None, history)

    def _write(self, iteration: int, seconds: float | None, history: _History) -> None:
        # Parts are sorted, so that lines do not depend on the order of the evaluation sets.
        values = {
            part: {name: curve[iteration - 1] for name, curve in curves.items()}
            for part, curves in sorted(zip(self._parts, history, strict=True))
        }
        with appending(self._folder / METRICS) as file:
            file.write(_line({"iteration": iteration, "seconds": seconds, **values}) + "\n")
        self.lines = iteration


def _line(row: Mapping[str, Any]) -> str:
    """A line of the metrics; JSON has no NaN, so a metric without a mean is null."""

    def finite(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: finite(v) for k, v in value.items()}
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    return json.dumps(finite(row), allow_nan=False)


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the metrics of each iteration; a last line that is incomplete is left out."""
    text = read_plain(path, _MOST_HISTORY_BYTES).decode(errors="replace")
    # A last line without an end is incomplete.
    lines = text.split("\n")[:-1]
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            read = {"iteration": row.pop("iteration"), "seconds": row.pop("seconds")}
            for part, values in row.items():
                read[part] = {k: math.nan if v is None else v for k, v in values.items()}
            rows.append(read)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise ValueError(
                f"{path}, line {number}: expected the metrics of an iteration; it was damaged."
            ) from None
    return rows


def now() -> str:
    """Return the time as text, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
