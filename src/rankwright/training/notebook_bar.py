"""A live progress bar in a Jupyter notebook: one output cell that is replaced in place."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

_SECONDS_BETWEEN_UPDATES = 0.2


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar with a line of text; it needs nothing but IPython, which is there in every notebook.

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
        if time.perf_counter() - self._last < _SECONDS_BETWEEN_UPDATES and completed < self._total:
            return
        self._last = time.perf_counter()
        from IPython.display import HTML, display

        bar = f'<progress max="{self._total}" value="{completed}" style="width: 20em"></progress>'
        content = HTML(f"{bar} <span>{html.escape(text)}</span>")
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)
