"""Checks of files of forced splits and bins, because LightGBM reads these files unchecked."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from rankwright.support.checks import is_number, is_whole
from rankwright.support.files import read_plain

_EXAMPLES = {
    "forcedsplits_filename": '{"feature": 0, "threshold": 0.5, "left": {...}, "right": {...}}',
    "forcedbins_filename": '[{"feature": 0, "bin_upper_bound": [0.3, 0.6]}]',
}
_LARGEST = 1 << 24  # bytes
_DEEPEST = 100  # LightGBM ignores a file that is nested more deeply


def check_forced_file(
    name: str, path: str | os.PathLike[str], n_columns: int, n_leaves: int
) -> None:
    """Raise ValueError unless a file names columns that exist, finite thresholds or bounds, and splits that fit a tree.

    Otherwise LightGBM would end the process, for example because of a column below zero, or ignore the file.
    """
    try:
        content = json.loads(read_plain(path, _LARGEST))
    except (ValueError, RecursionError):
        content = None
    splits = 0 if isinstance(content, list) else _count_splits(content, n_columns)
    sound = splits > 0 if name == "forcedsplits_filename" else _are_bins(content, n_columns)
    if not sound:
        raise ValueError(
            f"engine_params has {name}={str(path)!r}, whose content LightGBM would misread; give JSON such as "
            f"{_EXAMPLES[name]}, with column numbers from 0 to {n_columns - 1} and finite numbers."
        )
    if splits >= n_leaves:
        raise ValueError(
            f"engine_params has {name}={str(path)!r} with {splits} splits, and a tree has room for {n_leaves - 1}; "
            "take splits out, or raise num_leaves and max_depth."
        )


def _count_splits(node: Any, n_columns: int) -> int:
    """Count the splits of a document, 0 if it is not valid. A loop, because a document may be nested deeply."""
    nodes, count = [(node, 1)], 0
    while nodes:
        node, depth = nodes.pop()
        if (
            not isinstance(node, dict)
            or not _is_column(node.get("feature"), n_columns)
            or depth > _DEEPEST
        ):
            return 0
        if not _is_finite(node.get("threshold")):
            return 0
        count += 1
        nodes += [(node[side], depth + 1) for side in ("left", "right") if side in node]
    return count


def _are_bins(columns: Any, n_columns: int) -> bool:
    return isinstance(columns, list) and all(
        isinstance(column, dict)
        and _is_column(column.get("feature"), n_columns)
        and isinstance(bounds := column.get("bin_upper_bound"), list)
        and all(map(_is_finite, bounds))
        for column in columns
    )


def _is_column(value: Any, n_columns: int) -> bool:
    return is_whole(value) and bool(0 <= value < n_columns)


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
