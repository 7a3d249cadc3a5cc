"""A service in a process of its own, as a user starts it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import wait_for

_PROGRAM = "from rankwright.cli import main; main()"


class Service:
    """``rankwright serve`` on a free port of the loopback interface; a context manager that stops it.

    Parameters
    ----------
    path
        Run folder or saved model.
    log
        File of the access log.
    arguments
        Further arguments of the command.
    token
        Token of the environment, which requests then carry.
    """

    def __init__(self, path: Path, log: Path, *arguments: str, token: str | None = None) -> None:
        self.log = log
        self.token = token
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            "serve",
            str(path),
            "--port",
            "0",
            "--log",
            str(log),
            *arguments,
        ]
        environment = {key: value for key, value in os.environ.items() if key != "RANKWRIGHT_TOKEN"}
        self.errors = log.with_suffix(".stderr")
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stderr=errors,
                env=environment | ({} if token is None else {"RANKWRIGHT_TOKEN": token}),
            )
        self.address = ("127.0.0.1", 0)

    def __enter__(self) -> Service:
        try:
            (start,) = wait_for(lambda: self.events("start") or self._check_alive())
            self.address = ("127.0.0.1", int(start["address"].rpartition(":")[2]))
            wait_for(lambda: self.events("ready") or self._check_alive())
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _check_alive(self) -> list[Any]:
        assert self.process.poll() is None, self.errors.read_text()
        return []

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Lines of the log, of one kind of event or of all."""
        text = self.log.read_text() if self.log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if kind in (None, line["event"])]

    def connect(self, timeout: float = 60.0) -> http.client.HTTPConnection:
        """Open a connection."""
        return http.client.HTTPConnection(*self.address, timeout=timeout)

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Send one request; returns status, body (parsed where it is JSON) and headers."""
        connection = self.connect()
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(
                method, path, data, {"Content-Type": "application/json", **self.headers, **given}
            )
            answer = connection.getresponse()
            content = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            is_json = found.get("content-type") == "application/json" and method != "HEAD"
            return answer.status, json.loads(content) if is_json else content.decode(), found
        finally:
            connection.close()

    def rank(self, **body: Any) -> Any:
        """Rank, and return the answer."""
        status, answer, _ = self.call("POST", "/rank", body)
        assert status == 200, answer
        return answer

    def refused(self, body: Any, status: int = 422) -> str:
        """Send a request to rank that must be refused, and return the reason."""
        got, answer, _ = self.call("POST", "/rank", body)
        assert (got, set(answer)) == (status, {"error"}), answer
        return str(answer["error"])

    def metric(self, name: str) -> float:
        """Return one value of /metrics, by name and labels."""
        status, text, _ = self.call("GET", "/metrics")
        assert status == 200
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return float(values.get(name, 0))

    def stop(self, timeout: float = 60.0) -> int:
        """Ask for a graceful stop, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)
