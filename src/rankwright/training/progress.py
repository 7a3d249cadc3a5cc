"""What a user sees while a model trains: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from rankwright.metrics import Metric
from rankwright.training.state import Progress

_SECONDS_BETWEEN_LINES = 5.0
_LONGEST_NAME = 18  # characters of a metric's name, so that the bar fits 80 columns


class Display:
    """Shows progress on standard error; silent with ``verbose=0``, with more figures with ``verbose=2``.

    The short form fits 80 columns. Names are the user's, so nothing is read as markup.
    """

    def __init__(self, verbose: int, n_estimators: int, metric: Metric) -> None:
        self._console = Console(stderr=True, markup=False)
        self._shown = bool(verbose)
        self._full = verbose >= 2
        self._metric = metric
        self._last = time.perf_counter()
        self._bar: Bar | None = None
        if self._shown and self._console.is_terminal:
            text = TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
            )
            columns = (BarColumn(20), text, TimeRemainingColumn(compact=True))
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
            description = self.describe(progress) if self._full else self.summary(progress)
            self._bar.update(self._task, completed=progress.iteration, description=description)
        elif time.perf_counter() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.perf_counter()
            self._console.print(self.describe(progress), highlight=False, soft_wrap=True)

    def summary(self, progress: Progress) -> str:
        """Describe it in a few words: trees and metric."""
        parts = [_trees(progress)]
        if progress.history:
            name, curve = next(iter(progress.history[0].items()))
            short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
            parts.append(f"{short} {curve[-1]:.4f}")
        return ", ".join(parts)

    def describe(self, progress: Progress) -> str:
        """Describe it in one line: trees, metric, best, speed, time left, share of the objective."""
        parts = [_trees(progress)]
        if progress.history:
            name, curve = next(iter(progress.history[0].items()))
            best = max(curve) if self._metric.higher_is_better else min(curve)
            parts.append(f"{name} {curve[-1]:.4f} (best {best:.4f})")
        if progress.seconds > 0:
            speed = progress.done / progress.seconds
            left = (progress.n_estimators - progress.iteration) / speed if speed else 0.0
            parts.append(f"{speed:.1f} trees/s, {left:.0f} s left, objective {_objective_share(progress.times):.0%}")
        return ", ".join(parts)


def _trees(progress: Progress) -> str:
    stage = f"{progress.stage}: " if progress.stage else ""
    return f"{stage}{progress.iteration}/{progress.n_estimators} trees"


def _objective_share(times: dict[str, float]) -> float:
    """Share of the time spent on gradients and leaf values, not on the engine's trees."""
    return (times["gradients"] + times["leaves"]) / (sum(times.values()) or 1.0)
