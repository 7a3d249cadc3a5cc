"""A log of JSON lines: one per request, and one per event of the service. It never holds features or tokens."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO


class JsonLog:
    """Writes lines to a file, the standard output (``-``) or nowhere (``off``).

    A line that cannot be written is dropped: a full disk must not stop the service.
    """

    def __init__(self, target: str = "-") -> None:
        self.target = target
        self.dropped = 0
        self._stream = self._open()

    def _open(self) -> TextIO | None:
        if self.target == "off":
            return None
        return sys.stdout if self.target == "-" else open(self.target, "a", encoding="utf-8")

    def reopen(self) -> None:
        """Open the file again, which a rotation of logs may have renamed."""
        if self.target in ("-", "off"):
            return
        try:
            new = self._open()
        except OSError as error:
            self.event("log", level="error", reason=f"the log cannot be opened again: {error}")
            return
        self.close()
        self._stream = new

    def event(self, event: str, **fields: Any) -> None:
        """Write a line."""
        if self._stream is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._stream.write(json.dumps({"time": now, "event": event, **fields}) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the standard output was closed
            self.dropped += 1

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None and self._stream is not sys.stdout:
            try:
                self._stream.close()
            except OSError:
                self.dropped += 1


class LogHandler(logging.Handler):
    """Passes errors of the server to the log; refused connections are logged by `protocol`."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its traceback where it has one."""
        trace = (
            {}
            if record.exc_info is None
            else {"trace": logging.Formatter().formatException(record.exc_info)}
        )
        self._log.event(
            "server", level=record.levelname.lower(), reason=record.getMessage(), **trace
        )
