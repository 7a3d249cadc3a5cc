"""Reading the body of a request within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from rankwright.serve.refusals import Disconnected, Refusal

Receive = Callable[[], Awaitable[Any]]

_DRAIN_SECONDS = 2.0  # to read what a client still sends after it was refused
_DRAIN_BYTES = 64 << 20


class MemoryBudget:
    """Bytes of bodies that may be held at the same time by all requests together.

    It counts bytes, not requests: many slow clients that have sent little keep nobody out.
    """

    def __init__(self, total: int) -> None:
        self.free = total

    def take(self, n_bytes: int) -> None:
        """Reserve bytes; raise Refusal where there are too few."""
        if n_bytes > self.free:
            raise Refusal(
                503, "too many requests are being read; try again.", ((b"retry-after", b"1"),)
            )
        self.free -= n_bytes


class Body:
    """The body of one request."""

    def __init__(
        self, receive: Receive, headers: Mapping[bytes, bytes], max_body: int, budget: MemoryBudget
    ) -> None:
        self._receive = receive
        self._headers = headers
        self._max_body = max_body
        self._budget = budget
        self._reserved = 0
        self.size = 0
        self.complete = b"content-length" not in headers and b"transfer-encoding" not in headers
        self.complete = self.complete or headers.get(b"content-length") == b"0"

    async def read(self) -> bytes:
        """Return the body; raise Refusal if it is too large, and Disconnected if the client leaves."""
        declared = int(self._headers.get(b"content-length", b"0"))
        if declared > self._max_body:
            raise self._too_large()
        parts: list[bytes] = []
        while not self.complete:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            self.size += len(part)
            self.complete = not message.get("more_body", False)
            if self.size > self._max_body:
                raise self._too_large()
            self._budget.take(len(part))
            self._reserved += len(part)
            parts.append(part)
        return b"".join(parts)

    async def drain(self) -> None:
        """Read what the client still sends, for a while.

        A connection that is closed with bytes unread is reset, and the client would not see why it was refused.
        """
        if b"expect" in self._headers:  # it waits for the answer before it sends
            return
        n_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self.complete and n_bytes < _DRAIN_BYTES:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        return
                    n_bytes += len(message.get("body", b""))
                    self.complete = not message.get("more_body", False)

    def release(self) -> None:
        """Return the memory to the budget."""
        self._budget.free += self._reserved
        self._reserved = 0

    def _too_large(self) -> Refusal:
        return Refusal(
            413, f"the body is larger than the {self._max_body} bytes that this service takes."
        )
