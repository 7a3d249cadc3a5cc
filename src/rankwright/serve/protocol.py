"""HTTP for impatient servers: uvicorn's protocol with limits on clients that are slow or speak no HTTP.

uvicorn limits idle connections only. Here a request's head must arrive within the time limit, and so must an answer be
read; the application limits the body. What is not HTTP is answered in JSON too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

LARGEST_HEAD = 16 << 10  # bytes of a request's line and headers
LONGEST_IDLE = 75  # seconds that a connection may wait for its next request


def protocol_class(
    time_limit: float, on_broken: Callable[[int, str], None]
) -> type[asyncio.Protocol]:
    """Return the protocol for a time limit; ``on_broken`` gets status and reason of each connection closed by it."""

    class LimitedProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            if not self._serving() and self._head_timer is None:
                self._await_head()
            super().data_received(data)
            if self._serving():
                self._forget_head()

        def on_response_complete(self) -> None:
            self._forget_head()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._write_timer = self.loop.call_later(time_limit, self._abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "the request is not valid HTTP/1.1.")

        def _serving(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _await_head(self) -> None:
            self._head_timer = self.loop.call_later(time_limit, self._head_is_late)

        def _forget_head(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _head_is_late(self) -> None:
            self._refuse(
                408, f"the head of the request did not arrive within {time_limit:g} seconds."
            )

        def _abort(self) -> None:
            on_broken(0, f"the answer was not read within {time_limit:g} seconds.")
            self.transport.abort()

        def _refuse(self, status: int, reason: str) -> None:
            """Answer without the application, and close."""
            self._forget_head()
            if self.transport.is_closing():
                return
            on_broken(status, reason)
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.abort()  # an answer is under way already
                return
            body = json.dumps({"error": reason}).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            answer: Any = h11.Response(
                status_code=status, headers=headers, reason=STATUS_PHRASES[status]
            )
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return LimitedProtocol
