"""What the evaluators of tree formats share: rows sent down a tree, and matrices as the targets take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def leaves(
    n_rows: int,
    root: int,
    children: Callable[[int], tuple[int, int] | None],
    goes_left: Callable[[int, Rows], NDArray[np.bool_]],
) -> Rows:
    """Return the leaf of each row.

    Parameters
    ----------
    n_rows
        Number of rows.
    root
        Where to start.
    children
        The two nodes below a node, left (or true) first; None for a leaf.
    goes_left
        Which of some rows go to the first child of a node.
    """
    nodes = np.full(n_rows, root, dtype=np.int64)
    waiting = [(root, np.arange(n_rows), 1)]
    reached: set[int] = set()
    while waiting:
        node, rows, depth = waiting.pop()
        reached.add(node)
        if depth > len(
            reached
        ):  # two nodes may share what is below them, but no way has a node twice
            raise ValueError(f"node {node} leads back to itself: that is not a tree.")
        below = children(node)
        if below is None:
            nodes[rows] = node
        elif len(rows):
            left = goes_left(node, rows)
            waiting += [(below[0], rows[left], depth + 1), (below[1], rows[~left], depth + 1)]
    return nodes


def dense(X: Any, n_columns: int, dtype: type) -> NDArray[Any]:
    """Return rows as a dense matrix of a type."""
    matrix = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if matrix.ndim != 2 or matrix.shape[1] != n_columns:
        raise ValueError(
            f"X has the shape {matrix.shape}; the exported model takes {n_columns} columns."
        )
    with np.errstate(over="ignore"):
        return matrix.astype(dtype)


def columns_by_name(names: list[str], feature_names: Any) -> list[int]:
    """Return the positions of the features of a file among those of the rows."""
    position = {name: column for column, name in enumerate(feature_names)}
    missing = [name for name in names if name not in position]
    if missing:
        raise ValueError(
            f"feature {missing[0]!r} of the exported model is not a column of the rows."
        )
    return [position[name] for name in names]
