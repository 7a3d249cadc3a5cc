"""The section of a report on runs that shows their files side by side: parameters, data, environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.report.page import Block, Cell, Table, shortened
from rankwright.report.scored_runs import distinct_names
from rankwright.runs import Run

_CELL_LENGTH, _ROWS = 160, 80  # of the tables
# We leave out keys of the manifest that are shown elsewhere or are too long to read.
_HIDDEN_KEYS = ("times", "run_version", "status")


def manifest_tables(runs: Sequence[Run], data: RankingData) -> list[Block]:
    """Show parameters, settings that the data chose, provenance and environment, once if all runs agree."""
    from rankwright.training.checkpoint import fingerprint

    names = distinct_names(runs)
    parts = {
        "Parameters": [run.config for run in runs],
        "Settings that the data chose": [_settings(run) for run in runs],
        "Runs and data": [
            {
                "folder": str(run.path),
                **{key: value for key, value in run.manifest.items() if key not in _HIDDEN_KEYS},
                "test data.fingerprint": fingerprint(data),
            }
            for run in runs
        ],
        "Environment": [run.environment for run in runs],
    }
    return [
        _side_by_side(title, names, [_flat(content) for content in contents])
        for title, contents in parts.items()
    ]


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings that took effect if a parameter left the choice to the data."""
    manifest = run.ranker.manifest_
    settings = {"objective": manifest["objective"], **manifest.get("chosen", {})}
    settings.pop("learning_rates", None)
    return settings


def _side_by_side(title: str, names: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row per key; keys that differ between the runs come first."""
    keys = list(dict.fromkeys(key for content in contents for key in content))
    rows = {key: [_cell_text(content.get(key)) for content in contents] for key in keys}
    differing = [key for key in keys if len(set(rows[key])) > 1]
    # Readers look for differences first.
    ordered = [*differing, *(key for key in keys if key not in differing)]
    if len(names) > 1 and not differing:
        # Once is enough.
        names = ["all runs"]
        rows = {key: cells[:1] for key, cells in rows.items()}
    notes = []
    if len(differing) == 1:
        notes.append("The first row differs between the runs.")
    elif differing:
        notes.append(f"The first {len(differing)} rows differ between the runs.")
    omitted = len(ordered) - _ROWS
    if omitted == 1:
        notes.append("One more row is in the run folders.")
    elif omitted > 1:
        notes.append(f"{omitted} more rows are in the run folders.")
    cells: list[list[Cell]] = [[key, *rows[key]] for key in ordered[:_ROWS]]
    return Table(title, ["", *names], cells, " ".join(notes))


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dictionaries, with dots in the keys."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _cell_text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return shortened(", ".join(map(str, value)), _CELL_LENGTH)
    if isinstance(value, float):
        # A whole number keeps its ".0", which tells it from an integer.
        return f"{value:.6g}" if value % 1 else str(value)
    return shortened(str(value), _CELL_LENGTH)
