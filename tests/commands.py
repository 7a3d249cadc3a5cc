"""What a command of the command line gave."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
