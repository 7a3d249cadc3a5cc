"""The service as an ASGI application: routes, limits, answers in JSON, metrics and the access log."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from rankwright.serve import openapi, page
from rankwright.serve.bodies import Body, MemoryBudget, Receive
from rankwright.serve.log import JsonLog
from rankwright.serve.metrics import CONTENT_TYPE as METRICS_TYPE
from rankwright.serve.metrics import Metrics
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Disconnected, Refusal, shown
from rankwright.serve.requests import parse_query
from rankwright.serve.settings import ServiceSettings

Send = Callable[[Any], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
T = TypeVar("T")

# Less work than this is done in the event loop: a change of threads would take longer than others have to wait.
_DIRECT_BYTES = 256 << 10
_DIRECT_SECONDS = 0.001
_WORKERS = 2
_MOST_WAITING = 64  # jobs for the workers
_BODIES_AT_ONCE = 16  # of the largest size: the memory that all bodies may take
_REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,64}")
_JSON = b"application/json"
_CLIENT_LEFT = 499  # in the log; nothing is sent


class Answer(NamedTuple):
    """What is sent."""

    status: int
    body: bytes
    content_type: bytes = _JSON
    headers: Headers = ()


class Request:
    """One request with what the log says of it."""

    def __init__(
        self,
        scope: dict[str, Any],
        receive: Receive,
        settings: ServiceSettings,
        budget: MemoryBudget,
    ) -> None:
        self.start = time.perf_counter()
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client = None if scope.get("client") is None else str(scope["client"][0])
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.body = Body(receive, self.headers, settings.max_body, budget)
        name = self.headers.get(b"x-request-id", b"")
        self.id = name.decode() if _REQUEST_ID.fullmatch(name) else secrets.token_hex(8)
        self.details: dict[str, Any] = {}


Handler = Callable[[Request], Awaitable[Answer]]


class Application:
    """Answers requests; `rankwright.serve.server` runs it.

    Parameters
    ----------
    holder
        The model.
    settings
        Limits and the token.
    log
        Where requests are logged.
    """

    def __init__(self, holder: ModelHolder, settings: ServiceSettings, log: JsonLog) -> None:
        self.holder = holder
        self.settings = settings
        self.log = log
        self.metrics = Metrics()
        self._budget = MemoryBudget(_BODIES_AT_ONCE * settings.max_body)
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="rankwright")
        self._waiting = 0
        document = openapi.document(settings)
        self._document = Answer(200, json.dumps(document).encode())
        self._page = Answer(200, page.render(document), b"text/html; charset=utf-8", page.HEADERS)
        self._routes: dict[str, dict[str, Handler]] = {
            "/rank": {"POST": self._rank},
            "/model": {"GET": self._model},
            "/reload": {"POST": self._reload},
            "/metrics": {"GET": self._metrics},
            "/health": {"GET": self._health},
            "/ready": {"GET": self._ready},
            "/openapi.json": {"GET": self._openapi},
            "/docs": {"GET": self._docs},
        }
        self._open = ("/health", "/ready", "/openapi.json", "/docs")  # need no token

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the service speaks HTTP; got {scope['type']}.")
        request = Request(scope, receive, self.settings, self._budget)
        self.metrics.in_progress += 1
        status = _CLIENT_LEFT
        try:
            answer = await self._answer(request)
            status = answer.status
            await self._send(answer, request, send)
        except Disconnected:
            self.metrics.disconnects += 1
        finally:
            self.metrics.in_progress -= 1
            self._record(request, status)

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown(cancel_futures=True)

    async def in_worker(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread; refused if too many calls are waiting."""
        if self._waiting >= _MOST_WAITING:
            raise Refusal(
                503, "too many requests are waiting; try again.", ((b"retry-after", b"1"),)
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._workers, work, *arguments)
        finally:
            self._waiting -= 1

    async def reload(self, cause: str) -> bool:
        """Read the model again, and log the outcome; True if it was replaced."""
        try:
            changed = await self.in_worker(self.holder.reload)
        except (ValueError, OSError) as error:
            self.metrics.swaps["failed"] += 1
            self.log.event(
                "model",
                level="error",
                cause=cause,
                reason=str(error),
                model=self.holder.current.version,
            )
            raise
        if changed:
            self.metrics.swaps["done"] += 1
        self.log.event(
            "model", level="info", cause=cause, changed=changed, model=self.holder.current.version
        )
        return changed

    async def _answer(self, request: Request) -> Answer:
        """Find the answer; everything that goes wrong becomes one."""
        try:
            async with asyncio.timeout(self.settings.time_limit):
                return await self._route(request)
        except Refusal as problem:
            return self._refusal(request, problem)
        except TimeoutError:
            limit = f"{self.settings.time_limit:g} seconds"
            if request.body.complete:
                return self._refusal(
                    request, Refusal(503, f"the answer was not ready within {limit}.")
                )
            return self._refusal(request, Refusal(408, f"the body did not arrive within {limit}."))
        except Disconnected:
            raise
        except Exception as error:
            self.log.event(
                "failure",
                level="error",
                request=request.id,
                reason=f"{type(error).__name__}: {error}",
            )
            return self._refusal(
                request, Refusal(500, f"internal error; the log has it as request {request.id}.")
            )
        finally:
            request.body.release()

    def _refusal(self, request: Request, problem: Refusal) -> Answer:
        request.details["reason"] = problem.reason
        return Answer(problem.status, _dump({"error": problem.reason}), headers=problem.headers)

    async def _route(self, request: Request) -> Answer:
        methods = self._routes.get(request.path)
        if methods is None:
            raise Refusal(404, f"there is nothing at {shown(request.path)}; see /docs.")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            allowed = ", ".join(["GET", "HEAD"] if "GET" in methods else methods)
            reason = f"{request.path} takes {allowed}, not {shown(request.method)}."
            raise Refusal(405, reason, ((b"allow", allowed.encode()),))
        if request.path not in self._open:
            self._authorise(request)
        return await methods[method](request)

    def _authorise(self, request: Request) -> None:
        token = self.settings.token
        if token is None:
            return
        kind, _, guess = request.headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not token.matches(guess.strip()):
            reason = "a valid token is needed: send the header Authorization: Bearer TOKEN."
            raise Refusal(401, reason, ((b"www-authenticate", b"Bearer"),))

    async def _rank(self, request: Request) -> Answer:
        self._check_form(request)
        if not self.holder.ready:
            raise Refusal(503, "the service is starting; try again.", ((b"retry-after", b"1"),))
        body = await request.body.read()
        served = self.holder.current
        parsing = (parse_query, body, served.table, self.settings.max_rows)
        query = await self._run(len(body) <= _DIRECT_BYTES, *parsing)
        request.details.update(rows=len(query.matrix), model=served.version)
        is_quick = (
            len(query.matrix) * served.seconds_per_row <= _DIRECT_SECONDS
            and not query.contributions
        )
        answer = await self._run(is_quick, served.rank, query)
        self.metrics.rows += len(query.matrix)
        self.metrics.unknown_levels += query.unknown_levels
        return Answer(200, _dump(answer))

    async def _run(self, direct: bool, work: Callable[..., T], *arguments: Any) -> T:
        return work(*arguments) if direct else await self.in_worker(work, *arguments)

    @staticmethod
    def _check_form(request: Request) -> None:
        kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _JSON:
            got = shown(kind.decode("latin-1")) if kind else "nothing"
            raise Refusal(415, f"send the header Content-Type: application/json; got {got}.")
        if b"content-encoding" in request.headers:
            raise Refusal(415, "a compressed body is not accepted; leave out Content-Encoding.")

    async def _model(self, request: Request) -> Answer:
        return Answer(200, _dump(self.holder.current.describe()))

    async def _reload(self, request: Request) -> Answer:
        if self.settings.token is None:
            raise Refusal(
                403, "/reload needs a service with a token; start it with one, or send SIGHUP."
            )
        try:
            changed = await self.reload("request")
        except (ValueError, OSError) as error:
            raise Refusal(409, f"the model was kept: {error}") from None
        return Answer(200, _dump({"changed": changed, "model": self.holder.current.version}))

    async def _metrics(self, request: Request) -> Answer:
        return Answer(
            200, self.metrics.render(self.holder.current, self.holder.ready), METRICS_TYPE
        )

    async def _health(self, request: Request) -> Answer:
        return Answer(200, _dump({"status": "alive"}))

    async def _ready(self, request: Request) -> Answer:
        if not self.holder.ready:
            raise Refusal(
                503,
                "the service is starting: its kernels are being compiled.",
                ((b"retry-after", b"1"),),
            )
        return Answer(200, _dump({"status": "ready", "model": self.holder.current.version}))

    async def _openapi(self, request: Request) -> Answer:
        return self._document

    async def _docs(self, request: Request) -> Answer:
        return self._page

    async def _send(self, answer: Answer, request: Request, send: Send) -> None:
        headers = [
            (b"content-type", answer.content_type),
            (b"content-length", str(len(answer.body)).encode()),
            (b"x-request-id", request.id.encode()),
            *answer.headers,
        ]
        if request.body.complete:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
            return
        # The answer is sent whole, but the connection stays open until the client has sent its body.
        headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        if answer.status != 408:
            await request.body.drain()
        await send({"type": "http.response.body", "body": b""})

    def _record(self, request: Request, status: int) -> None:
        seconds = time.perf_counter() - request.start
        path = request.path if request.path in self._routes else "other"
        if status != _CLIENT_LEFT:
            self.metrics.requests[path, status] += 1
            if path == "/rank":
                self.metrics.seconds.add(seconds)
        self.log.event(
            "access",
            request=request.id,
            client=request.client,
            method=request.method[:16],
            path=request.path[:200],
            status=status,
            ms=round(1000 * seconds, 3),
            bytes=request.body.size,
            **request.details,
        )


def _dump(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
