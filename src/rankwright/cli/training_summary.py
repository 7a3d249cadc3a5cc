"""The lines that ``train`` prints about a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankwright import Run


def training_summary(run: Run, out: Path) -> str:
    """Return the number of trees, the time, the values of the metrics, and the next commands."""
    trees = run.manifest["trees"]
    text = f"{out}: {trees} trees in {sum(run.times.values()):.1f} s"
    # A first run is slower than the next, and users would take this for the time of training.
    compiling = run.times.get("compilation", 0.0)
    if compiling >= 1:
        text += f", {compiling:.1f} s of them to compile kernels, in the first run only"
    if values := _metric_values(run):
        text += f"; {values}"
    return (
        f"{text}.\n"
        f"Next: rankwright evaluate {out} DATA, or rankwright predict {out} DATA --out scores.txt"
    )


def _metric_values(run: Run) -> str:
    """Return the metrics at the last tree that was kept; empty if none were recorded."""
    row = run.history[run.ranker._evaluated_iteration - 1]
    values = [
        f"{part} {name} {value:.4f}"
        for part in ("train", "valid")
        for name, value in row.get(part, {}).items()
    ]
    if not values:
        return ""
    text = ", ".join(values)
    manifest = run.ranker.manifest_
    # After a refit, or with several members, the recorded values are not the final model's values.
    if members := manifest.get("members"):
        return f"{text} of the first of {len(members)} members"
    if manifest.get("refit"):
        return f"{text} before the refit"
    return text
