"""A log of JSON lines: one line per request, and one per event of the service."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO


class JsonLog:
    """Write lines to a file, the standard output (``-``), or drop them (``off``).

    Features and tokens are never logged. A line that cannot be written is dropped, because a full
    disk must not stop the service.
    """

    def __init__(self, target: str = "-") -> None:
        self.target = target
        self._stream = self._open()

    def _open(self) -> TextIO | None:
        if self.target == "off":
            return None
        if self.target == "-":
            return sys.stdout
        return open(self.target, "a", encoding="utf-8")

    def reopen(self) -> None:
        """Open the file again, because a rotation of logs may have renamed it."""
        try:
            stream = self._open()
        except OSError as error:
            self.event("log", level="error", reason=f"the log cannot be opened again: {error}")
            return
        self.close()
        self._stream = stream

    def event(self, event: str, **fields: Any) -> None:
        """Write a line."""
        if self._stream is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields})
        # ValueError: the standard output has been closed.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream not in (None, sys.stdout):
            with contextlib.suppress(OSError):
                self._stream.close()


class LogHandler(logging.Handler):
    """Pass errors of uvicorn and asyncio to the log."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its traceback if it has one."""
        fields = {"level": record.levelname.lower(), "reason": record.getMessage()}
        if record.exc_info is not None:
            fields["trace"] = logging.Formatter().formatException(record.exc_info)
        self._log.event("server", **fields)
