"""What holds for all tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from commands import Outcome
from rankwright import cli


def pytest_configure() -> None:
    """Let Ctrl-C work: the background jobs of a shell ignore it, and processes that tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run a command in this process: its exit code and what it printed."""

    def run(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rankwright", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as ended:
            printed = capsys.readouterr()
            return Outcome(int(ended.code or 0), printed.out, printed.err)
        raise AssertionError("the program did not end")

    return run
