"""The bodies of requests: their bytes are counted and limited."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from rankwright.serve.refusals import Refusal

_DRAIN_SECONDS = 2.0
_DRAIN_BYTES = 64 << 20


class MemoryBudget:
    """Bytes of bodies that all requests together may hold at the same time.

    Examples
    --------
    >>> budget = MemoryBudget(100)
    >>> budget.take(60)
    >>> budget.free
    40
    """

    def __init__(self, total: int) -> None:
        self.free = total

    def take(self, n_bytes: int) -> None:
        """Reserve bytes, or raise Refusal if there are too few."""
        if n_bytes > self.free:
            raise Refusal(503, "too many requests are being read; try again.", {"retry-after": "1"})
        self.free -= n_bytes


class BodyReceiver:
    """The ``receive`` of an ASGI request, which counts the bytes of the body.

    Parameters
    ----------
    receive
        The ``receive`` of the server.
    headers
        Headers of the request. They say whether it has a body.
    """

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        # A client that expects a status 100 sends its body only after it was asked for it.
        self._is_held_back = "expect" in headers
        self.size = 0
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self.complete = not has_body

    async def __call__(self) -> Message:
        """Return the next message of the server."""
        message = await self._receive()
        self.size += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read and drop the rest of a refused request for a while.

        A connection that is closed with bytes unread is reset. The client would then not see why
        its request was refused.
        """
        # Bounded in time and bytes, because a client could send without end.
        limit = self.size + _DRAIN_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not (self.complete or self._is_held_back) and self.size < limit:
                    await self()
