"""The service as an ASGI application: routes, limits, answers in JSON, metrics and the access log."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from rankwright.serve import metrics, openapi
from rankwright.serve.bodies import BodyReceiver, MemoryBudget
from rankwright.serve.log import JsonLog
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Refusal, shown
from rankwright.serve.requests import parse_query
from rankwright.serve.settings import ServiceSettings

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

# Less work than this is done in the event loop, because a change of threads would take longer.
_DIRECT_BYTES = 256 << 10
_DIRECT_SECONDS = 0.001
_WORKERS = 2
_MOST_WAITING = 64  # jobs for the workers
_BODIES_AT_ONCE = 16  # of the largest size: the memory that all bodies may take
_REQUEST_ID = re.compile(r"[\w.:/+=-]{1,64}", re.ASCII)
_CLIENT_LEFT = 499  # in the log; no answer is sent
_LATER = {"retry-after": "1"}


class _Json(JSONResponse):
    """An answer in ASCII, because ids in requests may hold surrogates that UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


class Application:
    """Answers requests; `rankwright.serve.server` runs it.

    Parameters
    ----------
    holder
        The model.
    settings
        Limits and the token.
    log
        Receives a line for each request.
    """

    def __init__(self, holder: ModelHolder, settings: ServiceSettings, log: JsonLog) -> None:
        self.holder = holder
        self.settings = settings
        self.log = log
        self.metrics = metrics.Metrics()
        self._budget = MemoryBudget(_BODIES_AT_ONCE * settings.max_body)
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="rankwright")
        self._waiting = 0
        # A new model must have the same columns, so the description stays true.
        self._description = openapi.document(settings, holder.current.columns)
        routes = [
            Route("/rank", self._protected(self._rank), methods=["POST"]),
            Route("/model", self._protected(self._model)),
            Route("/reload", self._protected(self._reload), methods=["POST"]),
            Route("/metrics", self._protected(self._metrics)),
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/openapi.json", self._openapi),
            Route("/docs", self._docs),
        ]
        self._methods = {route.path: ", ".join(sorted(route.methods or ())) for route in routes}
        errors = (Refusal, HTTPException, ClientDisconnect, Exception)
        self._app = Starlette(
            routes=routes, exception_handlers=dict.fromkeys(errors, self._answer_error)
        )
        # A redirect from /rank/ would make clients send their body twice.
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, count it, and log it."""
        start = time.perf_counter()
        headers = Headers(scope=scope)
        body = BodyReceiver(receive, headers)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        details: dict[str, Any] = {}  # further fields of the line in the log
        scope["state"] = {"request_id": request_id, "body": body, "details": details}
        status = _CLIENT_LEFT

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        self.metrics.in_progress.inc()
        try:
            await self._app(scope, body, send_with_id)
        except Exception as error:
            # Starlette has answered with status 500, and raises the error again for the log.
            reason = f"{type(error).__name__}: {error}"
            self.log.event("failure", level="error", request=request_id, reason=reason)
        finally:
            self.metrics.in_progress.dec()
            seconds = time.perf_counter() - start
            self._count(scope["path"], status, seconds)
            client = scope.get("client")
            self.log.event(
                "access",
                request=request_id,
                client=None if client is None else client[0],
                method=scope["method"][:16],
                path=scope["path"][:200],
                status=status,
                ms=round(1000 * seconds, 3),
                bytes=body.size,
                **details,
            )

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown(cancel_futures=True)

    async def in_worker(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread, or raise Refusal if too many calls are waiting."""
        if self._waiting >= _MOST_WAITING:
            raise Refusal(503, "too many requests are waiting; try again.", _LATER)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._workers, work, *arguments)
        finally:
            self._waiting -= 1

    async def reload(self, cause: str) -> bool:
        """Read the model again, log the outcome, and return True if the model was replaced."""
        try:
            changed = await self.in_worker(self.holder.reload)
        except (ValueError, OSError) as error:
            self.metrics.swaps.labels("failed").inc()
            version = self.holder.current.version
            self.log.event("model", level="error", cause=cause, reason=str(error), model=version)
            raise
        if changed:
            self.metrics.swaps.labels("done").inc()
        version = self.holder.current.version
        self.log.event("model", level="info", cause=cause, changed=changed, model=version)
        return changed

    def _protected(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint behind the token and the time limit."""

        async def protected(request: Request) -> Response:
            self._authorise(request)
            try:
                async with asyncio.timeout(self.settings.time_limit):
                    return await endpoint(request)
            except TimeoutError:
                limit = f"{self.settings.time_limit:g} seconds"
                if not request.state.body.complete:
                    raise Refusal(408, f"the body did not arrive within {limit}.") from None
                raise Refusal(503, f"the answer was not ready within {limit}.") from None

        return protected

    def _authorise(self, request: Request) -> None:
        token = self.settings.token
        if token is None:
            return
        scheme, _, guess = request.headers.get("authorization", "").partition(" ")
        # Headers are bytes, which Starlette decodes as Latin-1.
        if scheme.lower() != "bearer" or not token.matches(guess.strip().encode("latin-1")):
            raise Refusal(
                401,
                "a valid token is needed: send the header Authorization: Bearer TOKEN.",
                {"www-authenticate": "Bearer"},
            )

    async def _rank(self, request: Request) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            got = shown(content_type) if content_type else "nothing"
            raise Refusal(415, f"send the header Content-Type: application/json; got {got}.")
        if "content-encoding" in request.headers:
            raise Refusal(415, "a compressed body is not accepted; leave out Content-Encoding.")
        if not self.holder.ready:
            raise Refusal(503, "the service is starting; try again.", _LATER)
        body = bytearray()
        try:
            await self._read(request, body)
            return _Json(await self._ranking(request, bytes(body)))
        finally:
            self._budget.free += len(body)

    async def _read(self, request: Request, body: bytearray) -> None:
        """Append the body of a request, for which memory is reserved, to an array."""
        max_body = self.settings.max_body
        too_large = Refusal(
            413, f"the body is larger than the {max_body} bytes that this service takes."
        )
        # Without this a client that waits for status 100 would be asked for its whole body.
        if int(request.headers.get("content-length", 0)) > max_body:
            raise too_large
        async for part in request.stream():
            if len(body) + len(part) > max_body:
                raise too_large
            self._budget.take(len(part))
            body += part

    async def _ranking(self, request: Request, body: bytes) -> dict[str, Any]:
        # The whole request is served by one model, also if it is replaced meanwhile.
        served = self.holder.current
        is_quick = len(body) <= _DIRECT_BYTES
        query = await self._run(is_quick, parse_query, body, served.table, self.settings.max_rows)
        n_rows = len(query.matrix)
        request.state.details.update(rows=n_rows, model=served.version)
        # Contributions take far longer than scores.
        is_quick = n_rows * served.seconds_per_row <= _DIRECT_SECONDS and not query.contributions
        ranking = await self._run(is_quick, served.rank, query)
        self.metrics.rows.inc(n_rows)
        self.metrics.unknown_levels.inc(query.unknown_levels)
        return ranking

    async def _run(self, is_quick: bool, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function: in the event loop if it is quick, otherwise in a thread."""
        if is_quick:
            return work(*arguments)
        return await self.in_worker(work, *arguments)

    async def _model(self, request: Request) -> Response:
        return _Json(self.holder.current.describe())

    async def _reload(self, request: Request) -> Response:
        if self.settings.token is None:
            raise Refusal(
                403, "/reload needs a service with a token; start it with one, or send SIGHUP."
            )
        try:
            changed = await self.reload("request")
        except (ValueError, OSError) as error:
            raise Refusal(409, f"the model was kept: {error}") from None
        return _Json({"changed": changed, "model": self.holder.current.version})

    async def _metrics(self, request: Request) -> Response:
        text = self.metrics.render(self.holder.current, self.holder.ready)
        return Response(text, headers={"content-type": metrics.CONTENT_TYPE})

    async def _health(self, request: Request) -> Response:
        return _Json({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        if not self.holder.ready:
            raise Refusal(503, "the service is starting: its kernels are being compiled.", _LATER)
        return _Json({"status": "ready", "model": self.holder.current.version})

    async def _openapi(self, request: Request) -> Response:
        return _Json(self._description)

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(openapi.PAGE, headers=openapi.PAGE_HEADERS)

    async def _answer_error(self, request: Request, error: Exception) -> Response:
        """Return the answer to a request that could not be served."""
        if isinstance(error, ClientDisconnect):
            self.metrics.disconnects.inc()
            return Response(status_code=_CLIENT_LEFT)
        refusal = self._refusal(request, error)
        request.state.details["reason"] = refusal.reason
        body = request.state.body
        # After 408 the client has had its time.
        if refusal.status != 408:
            await body.drain()
        answer = _Json({"error": refusal.reason}, refusal.status, refusal.headers)
        if not body.complete:
            answer.headers["connection"] = "close"
        return answer

    def _refusal(self, request: Request, error: Exception) -> Refusal:
        """Return the reason that a client is told."""
        if isinstance(error, Refusal):
            return error
        if not isinstance(error, HTTPException):
            reason = f"internal error; the log has it as request {request.state.request_id}."
            return Refusal(500, reason)
        # Starlette has found no route for the path, or none for the method.
        path, method = request.scope["path"], request.scope["method"]
        if error.status_code == 404:
            return Refusal(404, f"there is nothing at {shown(path)}; see /docs.")
        allowed = self._methods[path]
        reason = f"{path} takes {allowed}, not {shown(method)}."
        return Refusal(405, reason, {"allow": allowed})

    def _count(self, path: str, status: int, seconds: float) -> None:
        if status == _CLIENT_LEFT:
            return
        # Paths that do not exist share a label, because a client could invent any number.
        label = path if path in self._methods else "other"
        self.metrics.requests.labels(label, status).inc()
        if path == "/rank":
            self.metrics.seconds.observe(seconds)
