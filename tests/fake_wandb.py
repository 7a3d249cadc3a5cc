"""The part of Weights & Biases that the recipe uses: what would be sent is kept here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RUNS: list[dict[str, Any]] = []


@contextmanager
def init(*, project: str, config: dict[str, Any]) -> Iterator[None]:
    RUNS.append({"project": project, "config": config, "logged": []})
    yield


def log(values: dict[str, float], *, step: int) -> None:
    RUNS[-1]["logged"].append({**values, "step": step})
