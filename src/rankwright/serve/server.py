"""Running the service: uvicorn, signals, and a look at the model's files from time to time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rankwright.serve.application import Application
from rankwright.serve.log import JsonLog, LogHandler
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Refusal
from rankwright.serve.settings import ServiceSettings

_STOP_SIGNALS = ("SIGTERM", "SIGINT")


def check_library() -> None:
    """Raise ImportError, naming the extra, unless the server can be imported."""
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise ImportError(
            'the service needs uvicorn, which is not installed: pip install "rankwright[serve]".'
        ) from None


def serve(
    path: Path,
    settings: ServiceSettings,
    log: JsonLog,
    announce: Callable[[str], None] = lambda line: None,
) -> None:
    """Serve a run folder or a saved model until SIGTERM or Ctrl-C; requests under way are finished first.

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
    check_library()
    app = Application(ModelHolder(path), settings, log)
    listener = _listen(settings)
    try:
        asyncio.run(_serve(app, listener, announce))
    finally:
        listener.close()
        app.close()


def _listen(settings: ServiceSettings) -> socket.socket:
    """Open the socket here: errors are raised, and the port is known where a free one was asked for."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small packets at once only where a socket says that it is TCP; else each answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}."
        ) from None
    return listener


async def _serve(
    app: Application, listener: socket.socket, announce: Callable[[str], None]
) -> None:
    import uvicorn

    from rankwright.serve.protocol import LARGEST_HEAD, LONGEST_IDLE, protocol_class

    settings, log = app.settings, app.log

    def on_broken(status: int, reason: str) -> None:
        app.metrics.broken_connections += 1
        log.event("connection", level="warning", status=status, reason=reason)

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are handled below: a stop by a signal is a success, not a death by it

    config = uvicorn.Config(
        app,
        http=protocol_class(settings.time_limit, on_broken),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_keep_alive=LONGEST_IDLE,
        timeout_graceful_shutdown=math.ceil(settings.time_limit) + 1,
    )
    server = Server(config)
    loop = asyncio.get_running_loop()
    hangup = asyncio.Event()

    def stop() -> None:
        server.force_exit = server.should_exit  # the second signal does not wait for requests
        server.should_exit = True

    with _logging_to(log), _signals(loop, stop, hangup.set):
        tasks = [
            asyncio.create_task(_warm_up(app, server)),
            asyncio.create_task(_follow_signal(app, hangup)),
            asyncio.create_task(_watch(app)),
            asyncio.create_task(_announce(app, server, listener, announce)),
        ]
        try:
            await server.serve(sockets=[listener])
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            log.event("stop", level="info", requests=sum(app.metrics.requests.values()))
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _warm_up(app: Application, server: Any) -> None:
    try:
        await app.in_worker(app.holder.warm_up)
    except BaseException:
        server.should_exit = True  # a model that cannot score is not worth waiting for
        raise
    app.log.event("ready", level="info", model=app.holder.current.version)


async def _announce(
    app: Application, server: Any, listener: socket.socket, announce: Callable[[str], None]
) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    app.log.event("start", level="info", address=address, model=app.holder.current.version)
    announce(address)


async def _follow_signal(app: Application, hangup: asyncio.Event) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        app.log.reopen()
        with contextlib.suppress(
            ValueError, OSError, Refusal
        ):  # logged, and the current model stays
            await app.reload("signal")


async def _watch(app: Application) -> None:
    while app.settings.watch:
        await asyncio.sleep(app.settings.watch)
        with contextlib.suppress(ValueError, OSError, Refusal):
            if app.holder.has_news():
                await app.reload("files")


@contextlib.contextmanager
def _signals(
    loop: asyncio.AbstractEventLoop, stop: Callable[[], None], hangup: Callable[[], None]
) -> Iterator[None]:
    """Handle signals in the loop, and restore the old handlers afterwards."""
    actions = dict.fromkeys(_STOP_SIGNALS, stop) | {"SIGHUP": hangup}
    numbers = {
        getattr(signal, name): action for name, action in actions.items() if hasattr(signal, name)
    }
    previous: dict[Any, Any] = {}
    for number, action in numbers.items():
        previous[number] = signal.signal(
            number, lambda *_, action=action: loop.call_soon_threadsafe(action)
        )
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _logging_to(log: JsonLog) -> Iterator[None]:
    """Send errors of uvicorn and asyncio to the log."""
    handler = LogHandler(log)
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
