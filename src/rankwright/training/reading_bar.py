"""What a user sees while files are read: a bar over bytes on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console

from rankwright.training.notebook_bar import NotebookBar, in_notebook

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_UPDATES = 0.1
_WIDTH = 20


class ReadingBar:
    """Shows on standard error how much of the files has been read; silent with ``verbose=0``.

    It is called with what is read, the bytes so far, and the bytes in all, and needs no end: a pass over the files may
    break off at any time.

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
            filled = _WIDTH * done // max(1, total)
            line = f"{'━' * filled}{'╌' * (_WIDTH - filled)} {text}"
            self._console.file.write("\r\x1b[K" + ("" if finished else line))
            self._console.file.flush()
