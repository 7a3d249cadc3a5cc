"""Ratios of a benchmark result to an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rankwright_lab.bench.result_files import BENCH

SLOWER, LOWER = (
    1.1,
    0.995,
)  # ratios of time and memory, and of a mean, beyond which a figure counts as worse
_SPEED = ("fit_seconds", "gradient_ms", "predict_seconds", "peak_mb", "added_mb", "reach_seconds")
_Key = tuple[str, ...]


def regressions(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios of a result to an earlier one of the same kind and settings, for all figures in both.

    The result has the ``date`` of the earlier one, ``notes`` on differences of the environment, and ``rows`` with
    ``what``, ``measure``, ``old``, ``new``, ``ratio`` and ``worse``: more than 10 % slower or larger, or a mean lower
    by more than half a percent.

    Examples
    --------
    >>> def result(seconds):
    ...     row = {"data": "web", "target": "map", "system": "rankwright", "fit_seconds": seconds}
    ...     return {"format": "rankwright bench", "date": "2026-01-01", "settings": {}, "environment": {"packages": {}},
    ...             "quality": [], "speed": [row]}
    >>> regressions(result(3.0), result(2.0))["rows"][0]["ratio"]
    1.5
    """
    if new["format"] != old["format"]:
        raise ValueError(
            f"the earlier result is of {old['format']!r}, this one of {new['format']!r}; they cannot be compared."
        )
    for name, value in new["settings"].items():
        earlier = old["settings"].get(name)
        if earlier != value and name not in ("seeds", "targets"):
            raise ValueError(
                f"the earlier result has {name} {earlier!r} and this one {value!r}, so they cannot be compared. Run "
                "with the same settings."
            )
    figures = _bench_figures if new["format"] == BENCH else _scaling_figures
    before = dict(figures(old))
    rows = []
    for (*what, measure, better), value in figures(new):
        earlier = before.get((*what, measure, better))
        if value is None or not earlier:
            continue
        ratio = value / earlier
        worse = ratio > SLOWER if better == "lower" else ratio < LOWER
        rows.append(
            {
                "what": ", ".join(what),
                "measure": measure,
                "old": earlier,
                "new": value,
                "ratio": ratio,
                "worse": worse,
            }
        )
    return {
        "date": old["date"],
        "notes": list(_notes(new["environment"], old["environment"])),
        "rows": rows,
    }


def _bench_figures(result: Mapping[str, Any]) -> Iterator[tuple[_Key, float | None]]:
    for row in result["quality"]:
        yield (
            (row["data"], row["target"], row["system"], "mean", _better(row["target"])),
            row["mean"],
        )
    for row in result["speed"]:
        for measure in _SPEED:
            yield (row["data"], row["target"], row["system"], measure, "lower"), row.get(measure)


def _scaling_figures(result: Mapping[str, Any]) -> Iterator[tuple[_Key, float | None]]:
    for curve in result["curves"]:
        for size, seconds in zip(curve["sizes"], curve["seconds"], strict=True):
            what = (
                curve["what"],
                curve["case"],
                f"{size} {curve['over']}",
                f"{curve['threads']} threads",
            )
            yield (*what, "seconds", "lower"), seconds


def _better(target: str) -> str:
    from rankwright.metrics import metric

    return "higher" if metric(target).higher_is_better else "lower"


def _notes(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    for name in ("processor", "processors", "memory_gb", "system", "python"):
        if old.get(name) != new.get(name):
            yield f"{name} was {old.get(name)} and is {new.get(name)}"
    for name, version in new["packages"].items():
        earlier = old["packages"].get(name)
        if earlier != version:
            yield f"{name} was {earlier or 'absent'} and is {version or 'absent'}"
