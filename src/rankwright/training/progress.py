"""Progress for the user: a bar on a terminal or in a notebook, otherwise a line now and then."""

from __future__ import annotations

import html
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from rankwright.kernels.jit import announcing
from rankwright.metrics import Metric
from rankwright.training.state import Progress

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_UPDATES = 0.1
_SECONDS_BETWEEN_NOTEBOOK_UPDATES = 0.2
_READING_BAR_WIDTH = 20
# A training that should be silent says that it compiles only if this takes long.
_SECONDS_OF_SILENCE = 5.0
# Longer names of metrics are cut, so that the bar fits 80 columns.
_LONGEST_NAME = 18


class Display:
    """Shows the progress of a training on standard error.

    It is silent with ``verbose=0`` and shows more figures with ``verbose=2``. The short form fits
    80 columns. Names come from the user, so no text is read as markup.
    """

    def __init__(self, verbose: int, n_estimators: int, metric: Metric) -> None:
        self._console = Console(stderr=True, markup=False)
        self._verbose = verbose
        self._full = verbose >= 2
        self._metric = metric
        self._last = time.perf_counter()
        self._open = ExitStack()
        self._bar: Bar | None = None
        self._notebook: NotebookBar | None = None
        if verbose and in_notebook():
            self._notebook = NotebookBar(n_estimators)
        # A bar needs a terminal, because it would fill a log file with its updates.
        if verbose and self._notebook is None and self._console.is_terminal:
            text = TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            )
            left = TextColumn("{task.fields[left]}", markup=False, style="progress.remaining")
            self._bar = Bar(BarColumn(20), text, left, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=n_estimators, left="--:--")

    def __enter__(self) -> Self:
        self._open.enter_context(announcing_compilation(self._verbose, self._console))
        if self._bar is not None:
            self._open.enter_context(self._bar)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def update(self, progress: Progress) -> None:
        """Show the current state."""
        if not self._verbose:
            return
        description = self.describe(progress) if self._full else self.summary(progress)
        left = _clock(seconds_left(progress))
        if self._bar is not None:
            self._bar.update(
                self._task, completed=progress.iteration, description=description, left=left
            )
        elif self._notebook is not None:
            self._notebook.update(progress.iteration, f"{description}, {left} left")
        # Elsewhere, for example in a log file, a line now and then is enough.
        elif time.perf_counter() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.perf_counter()
            self._console.print(self.describe(progress), highlight=False, soft_wrap=True)

    def summary(self, progress: Progress) -> str:
        """Describe the progress in a few words: trees and metric."""
        parts = [_trees(progress)]
        if progress.history:
            name, curve = next(iter(progress.history[0].items()))
            if len(name) > _LONGEST_NAME:
                name = f"{name[: _LONGEST_NAME - 1]}…"
            parts.append(f"{name} {curve[-1]:.4f}")
        return ", ".join(parts)

    def describe(self, progress: Progress) -> str:
        """Describe the progress in a line.

        It has the trees, metric, best value, speed, time left and share of the objective.
        """
        parts = [_trees(progress)]
        if progress.history:
            name, curve = next(iter(progress.history[0].items()))
            best = max(curve) if self._metric.higher_is_better else min(curve)
            parts.append(f"{name} {curve[-1]:.4f} (best {best:.4f})")
        left = seconds_left(progress)
        if left is not None:
            # Compiling happens only once, so it does not count for the speed.
            speed = progress.done / (progress.seconds - progress.compile_seconds)
            share = _objective_share(progress.times)
            parts.append(f"{speed:.1f} trees/s, {left:.0f} s left, objective {share:.0%}")
        return ", ".join(parts)


def _trees(progress: Progress) -> str:
    stage = f"{progress.stage}: " if progress.stage else ""
    return f"{stage}{progress.iteration}/{progress.n_estimators} trees"


def say(text: str, verbose: int) -> None:
    """Print a line about a training on standard error, unless it is silent."""
    if verbose:
        console = Console(stderr=True, markup=False)
        console.print(text, highlight=False, soft_wrap=True)


def announcing_compilation(
    verbose: int, console: Console | None = None
) -> AbstractContextManager[None]:
    """Print a line on standard error when kernels are compiled in the block.

    With ``verbose=0`` the line is printed only after some seconds, in which the training would seem to hang.
    """

    def show(text: str) -> None:
        shown_on = console or Console(stderr=True, markup=False)
        shown_on.print(text, highlight=False, soft_wrap=True)

    after = 0.0
    if not verbose:
        after = _SECONDS_OF_SILENCE
    return announcing(show, after)


def seconds_left(progress: Progress) -> float | None:
    """Estimate the time left from the trees so far, without the time in which kernels were compiled."""
    spent = progress.seconds - progress.compile_seconds
    if spent <= 0 or progress.done == 0:
        return None
    return (progress.n_estimators - progress.iteration) * spent / progress.done


def _clock(seconds: float | None) -> str:
    """Write seconds as on a clock."""
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def _objective_share(times: dict[str, float]) -> float:
    """Return the share of the time for gradients and leaf values, not for the engine's trees."""
    loop = sum(times[phase] for phase in ("gradients", "trees", "leaves", "evaluation"))
    return (times["gradients"] + times["leaves"]) / (loop or 1.0)


class ReadingBar:
    """Shows on standard error how much of the files has been read; silent with ``verbose=0``.

    It is called with the purpose of reading, the bytes so far, and the bytes in all. It needs no
    end, because a pass over the files may break off at any time.

    Examples
    --------
    >>> ReadingBar(0)("rows", 5, 10)
    """

    def __init__(self, verbose: int) -> None:
        self._console = Console(stderr=True, markup=False)
        self._verbose = verbose
        self._notebook: NotebookBar | None = None
        self._last = time.perf_counter()

    def __call__(self, purpose: str, done: int, total: int) -> None:
        """Show the current state."""
        now, finished = time.perf_counter(), done >= total
        if not self._verbose:
            return
        text = f"reading {purpose}: {done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if in_notebook():
            if self._notebook is None:
                self._notebook = NotebookBar(100)
            self._notebook.update(100 * done // max(1, total), text)
        elif not self._console.is_terminal:
            if now - self._last >= _SECONDS_BETWEEN_LINES:
                self._last = now
                self._console.print(text, highlight=False, soft_wrap=True)
        elif finished or now - self._last >= _SECONDS_BETWEEN_UPDATES:
            self._last = now
            # The bar is drawn by hand, because a bar of rich has to be closed, and a pass over the
            # files may break off.
            filled = _READING_BAR_WIDTH * done // max(1, total)
            line = f"{'━' * filled}{'╌' * (_READING_BAR_WIDTH - filled)} {text}"
            self._console.file.write("\r\x1b[K" + ("" if finished else line))
            self._console.file.flush()


def in_notebook() -> bool:
    """Return True if this process is the kernel of a notebook."""
    # In a notebook IPython is loaded already, so it is looked up and not imported.
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    return getattr(ipython.get_ipython(), "kernel", None) is not None


class NotebookBar:
    """A bar with a line of text. It only needs IPython, which every notebook has.

    Parameters
    ----------
    total
        Number of steps.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._handle: Any = None
        self._last = 0.0

    def update(self, completed: int, text: str) -> None:
        """Show the current state, at most a few times a second."""
        if (
            time.perf_counter() - self._last < _SECONDS_BETWEEN_NOTEBOOK_UPDATES
            and completed < self._total
        ):
            return
        self._last = time.perf_counter()
        from IPython.display import HTML, display

        bar = f'<progress max="{self._total}" value="{completed}" style="width: 20em"></progress>'
        content = HTML(f"{bar} <span>{html.escape(text)}</span>")
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)
