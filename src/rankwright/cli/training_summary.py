"""The lines that ``train`` prints about a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankwright import Run


def training_summary(run: Run, out: Path) -> str:
    """Return the number of trees, the time, the values of the metrics, and the next commands."""
    trees = run.manifest["best_iteration"]
    text = f"{out}: {trees} trees in {sum(run.times.values()):.1f} s"
    # A first run is slower than the next, and users would take this for the time of training.
    compiling = run.times.get("compilation", 0.0)
    if compiling >= 1:
        text += f", {compiling:.1f} s of them to compile kernels, in the first run only"
    if values := _metric_values(run):
        text += f"; {values}"
    return (
        f"{text}.\n{_best_tree(run)}"
        f"Next: rankwright evaluate {out} DATA, or rankwright predict {out} DATA --out scores.txt"
    )


def _metric_values(run: Run) -> str:
    """Return the metrics at the tree that was chosen; empty if none were recorded."""
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


def _best_tree(run: Run) -> str:
    """Return a line about early stopping, or about later trees that made validation worse."""
    import numpy as np

    from rankwright import metric
    from rankwright.training.stopping import stopping_sentence

    stopping = run.ranker.stopping_
    if stopping is not None:
        return f"{stopping_sentence(stopping, refit='refit' in run.ranker.manifest_)}\n"
    if run.config.get("early_stopping_rounds") is not None or "valid" not in run.history[0]:
        return ""
    # Without early stopping all trees are kept, so say if fewer trees were better.
    name = next(iter(run.history[0]["valid"]))
    curve = [row["valid"][name] for row in run.history]
    sign = 1 if metric(name).higher_is_better else -1
    values = sign * np.array(curve, dtype=np.float64)
    if np.isnan(values).all():
        return ""
    best = int(np.nanargmax(values))
    if values[best] <= values[-1]:
        return ""
    return (
        f"valid {name} was best after {best + 1} of {len(curve)} trees, {curve[best]:.4f}. That may be luck: "
        f"--early-stopping 50 ends with the last tree that is about as good, --trees {best + 1} with the best.\n"
    )
