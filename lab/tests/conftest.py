"""What holds for all tests of the laboratory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from commands import Outcome
from rankwright_lab import cli


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run a command of the laboratory in this process: its exit code and what it printed."""

    def run(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rankwright-lab", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as ended:
            printed = capsys.readouterr()
            return Outcome(int(ended.code or 0), printed.out, printed.err)
        raise AssertionError("the program did not end")

    return run
