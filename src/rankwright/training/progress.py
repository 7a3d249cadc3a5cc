"""What a user sees while a model trains: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from rankwright.metrics import Metric
from rankwright.training.state import Progress

_SECONDS_BETWEEN_LINES = 5.0


class Display:
    """Shows progress on standard error; silent with ``verbose=0``."""

    def __init__(self, verbose: int, n_estimators: int, metric: Metric) -> None:
        self._console = Console(stderr=True)
        self._shown = bool(verbose)
        self._metric = metric
        self._last = time.perf_counter()
        self._bar: Bar | None = None
        if self._shown and self._console.is_terminal:
            columns = (TextColumn("training"), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=n_estimators)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show the current state."""
        if not self._shown:
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.iteration, description=self.describe(progress))
        elif time.perf_counter() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.perf_counter()
            self._console.print(self.describe(progress), highlight=False, soft_wrap=True)

    def describe(self, progress: Progress) -> str:
        """Describe it in one line: trees, metric, best, speed, time left, share of the objective."""
        parts = [f"{progress.iteration}/{progress.n_estimators} trees"]
        if progress.history:
            name, curve = next(iter(progress.history[0].items()))
            best = max(curve) if self._metric.higher_is_better else min(curve)
            parts.append(f"{name} {curve[-1]:.4f} (best {best:.4f})")
        if progress.seconds > 0:
            speed = progress.done / progress.seconds
            left = (progress.n_estimators - progress.iteration) / speed if speed else 0.0
            parts.append(f"{speed:.1f} trees/s, {left:.0f} s left, objective {_objective_share(progress.times):.0%}")
        return ", ".join(parts)


def _objective_share(times: dict[str, float]) -> float:
    """Share of the time spent on gradients and leaf values, not on the engine's trees."""
    return (times["gradients"] + times["leaves"]) / (sum(times.values()) or 1.0)
