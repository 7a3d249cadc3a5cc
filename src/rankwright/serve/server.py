"""Running the service: uvicorn, signals, and regular looks at the model's files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from rankwright.serve.application import Application
from rankwright.serve.log import JsonLog, LogHandler
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Refusal
from rankwright.serve.settings import ServiceSettings

_LARGEST_HEAD = 16 << 10  # bytes of a request's line and headers
_LONGEST_IDLE = 75  # seconds that a connection may wait for its next request


def serve(
    path: Path,
    settings: ServiceSettings,
    log: JsonLog,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a run folder or a saved model until SIGTERM or Ctrl-C. Requests under way are finished first.

    Parameters
    ----------
    path
        Run folder or saved model.
    settings
        Address, token and limits.
    log
        Access log.
    announce
        Is called with the address once the service listens.
    """
    app = Application(ModelHolder(path), settings, log)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_keep_alive=_LONGEST_IDLE,
        timeout_graceful_shutdown=math.ceil(settings.time_limit) + 1,
    )
    server = uvicorn.Server(config)
    with contextlib.ExitStack() as undo:
        undo.callback(app.close)
        listener = undo.enter_context(_listen(settings))
        # uvicorn handles these signals while it serves, and raises them again afterwards. They are
        # handled here too, so that a stop is a success and a signal before the start is not lost.
        for number in (signal.SIGTERM, signal.SIGINT):
            undo.callback(signal.signal, number, signal.signal(number, server.handle_exit))
        handler = LogHandler(log)
        for logger in (logging.getLogger("uvicorn.error"), logging.getLogger("asyncio")):
            logger.addHandler(handler)
            undo.callback(logger.removeHandler, handler)
        asyncio.run(_serve(app, server, listener, announce))


def _listen(settings: ServiceSettings) -> socket.socket:
    """Open the socket here, so that a wrong address is an error and the number of a free port is known."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise OSError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}."
        ) from None
    # Connections inherit this. Without it, the body of an answer waits 40 ms for the
    # acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def _serve(
    app: Application,
    server: uvicorn.Server,
    listener: socket.socket,
    announce: Callable[[str], None],
) -> None:
    hangup = asyncio.Event()
    if hasattr(signal, "SIGHUP"):  # not on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    app.log.event("start", level="info", address=address, model=app.holder.current.version)
    announce(address)
    tasks = [
        asyncio.create_task(_warm_up(app, server)),
        asyncio.create_task(_follow_signal(app, hangup)),
        asyncio.create_task(_watch(app)),
    ]
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        app.log.event("stop", level="info", requests=server.server_state.total_requests)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _warm_up(app: Application, server: uvicorn.Server) -> None:
    try:
        await app.in_worker(app.holder.warm_up)
    except BaseException:
        # There is no reason to wait for a model that cannot score.
        server.should_exit = True
        raise
    app.log.event("ready", level="info", model=app.holder.current.version)


async def _follow_signal(app: Application, hangup: asyncio.Event) -> None:
    """Open the log again and reload the model after each SIGHUP."""
    while True:
        await hangup.wait()
        hangup.clear()
        app.log.reopen()
        await _try_to_reload(app, "signal")


async def _watch(app: Application) -> None:
    """Reload the model after its files have changed."""
    while app.settings.watch:
        await asyncio.sleep(app.settings.watch)
        if app.holder.has_news():
            await _try_to_reload(app, "files")


async def _try_to_reload(app: Application, cause: str) -> None:
    # The application has logged the error, and the current model stays.
    with contextlib.suppress(ValueError, OSError, Refusal):
        await app.reload(cause)
