"""Result files of benchmarks: JSON with a format and a version."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwright.support.files import replacing

BENCH, SCALING = "rankwright bench", "rankwright scaling"
FORMAT_VERSION = 1


def write_result(result: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a result, completely or not at all; NaN and infinities become null.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_result({"format": BENCH, "format_version": 1, "speed": float("nan")}, f"{folder}/a.json")
    ...     read_result(f"{folder}/a.json")["speed"] is None
    True
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(
            (json.dumps(_finite(result), indent=1, allow_nan=False, default=str) + "\n").encode()
        )


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a result that `write_result` wrote."""
    try:
        result = json.loads(Path(path).read_bytes())
    except ValueError:
        raise ValueError(
            f"{path} is not valid JSON; name a file that `rankwright-lab bench` wrote."
        ) from None
    if not isinstance(result, dict) or result.get("format") not in (BENCH, SCALING):
        raise ValueError(
            f"{path} is not a benchmark result; name a file that `rankwright-lab bench` wrote."
        )
    if result.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format {result.get('format_version')!r}; this version reads {FORMAT_VERSION}. Upgrade "
            "rankwright, or run the benchmark again."
        )
    return result


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
