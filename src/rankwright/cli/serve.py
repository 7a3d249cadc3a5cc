"""The command ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from rankwright.cli import options
from rankwright.cli.terminal import echo
from rankwright.support.environment import require


def serve(
    run: options.Model,
    host: Annotated[
        str, Option(help="Address to listen on; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 for a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File with the bearer token that requests must carry [the variable RANKWRIGHT_TOKEN].",
        ),
    ] = None,
    max_rows: Annotated[int, Option(help="Most documents of a request.", min=1)] = 1000,
    max_body: Annotated[int, Option(help="Most bytes of a request.", min=1)] = 4 << 20,
    time_limit: Annotated[float, Option(help="Most seconds of a request.", min=0.01)] = 10.0,
    watch: Annotated[
        float, Option(help="Seconds between looks for a new model; 0 never looks.", min=0)
    ] = 2.0,
    log: Annotated[
        str, Option(metavar="FILE", help="Access log, JSON lines; - for stdout, or off.")
    ] = "-",
) -> None:
    """Rank over HTTP with a model.

    POST /rank, described at /docs. The service listens on this machine only unless you name another --host. A new
    model in RUN is taken over without a dropped request; SIGHUP does so at once. SIGTERM and Ctrl-C finish the
    requests under way.

    Example: rankwright serve run --port 8000
    """
    # The next imports need the libraries of the extra, so ask for them with a helpful error first.
    require("the service", "serve", "prometheus_client", "starlette", "uvicorn")

    from rankwright.serve.log import JsonLog
    from rankwright.serve.server import serve as run_service
    from rankwright.serve.settings import ServiceSettings, read_token

    settings = ServiceSettings(
        host, port, read_token(token_file), max_rows, max_body, time_limit, watch
    )
    # Anyone who reaches the port could use the model, so the user should know.
    if not settings.is_loopback and settings.token is None:
        echo(
            f"rankwright: warning: {host} can be reached from other machines, and there is no "
            "token; set RANKWRIGHT_TOKEN or --token-file.",
            err=True,
        )
    # The log may be a file, with lines that are not written before it is closed.
    access_log = JsonLog(log)
    try:
        run_service(
            run, settings, access_log, lambda address: echo(f"rankwright: {address}/docs", err=True)
        )
    finally:
        access_log.close()
