"""Tools of the evaluators of exported files: rows sent down a tree, and matrices as the targets take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import as_dense

Rows = NDArray[np.intp]
# Which rows go left, and the two children; or the value of a leaf.
Decision = tuple[NDArray[np.bool_], Any, Any] | float


def walk(root: Any, n_rows: int, decide: Callable[[Any, Rows], Decision]) -> NDArray[np.float64]:
    """Return the value of the leaf that each row falls into.

    Parameters
    ----------
    root
        The first node, in the form that the file has: a number, or an object.
    n_rows
        Number of rows.
    decide
        For a node and the numbers of the rows that reach it: which of them go left, and the two children; or the value
        of the node if it is a leaf.
    """
    values = np.empty(n_rows)
    # Rows walk together, so that each node is decided once, for all rows that reach it.
    waiting = [(root, np.arange(n_rows), 1)]
    seen: set[int] = set()
    while waiting:
        node, rows, depth = waiting.pop()
        if len(rows) == 0:
            continue
        seen.add(node if isinstance(node, int) else id(node))
        # Nodes may share what is below them, but no path has more nodes than the tree.
        if depth > len(seen):
            raise ValueError(f"node {node} leads back to itself: that is not a tree.")
        decision = decide(node, rows)
        if isinstance(decision, tuple):
            goes_left, left, right = decision
            waiting += [(left, rows[goes_left], depth + 1), (right, rows[~goes_left], depth + 1)]
        else:
            values[rows] = decision
    return values


def single(X: Any) -> NDArray[np.float32]:
    """Round features to 32 bits, as many targets hold them."""
    with np.errstate(over="ignore"):
        return np.asarray(X, dtype=np.float64).astype(np.float32)


def dense(X: Any, n_columns: int) -> NDArray[np.float64]:
    """Return rows as a dense matrix; raise ValueError if they do not have the columns of the file."""
    matrix = np.asarray(as_dense(X))
    if matrix.ndim != 2 or matrix.shape[1] != n_columns:
        raise ValueError(
            f"X has the shape {matrix.shape}; the exported model takes {n_columns} columns."
        )
    return matrix.astype(np.float64)


def columns_by_name(names: list[str], feature_names: Any) -> list[int]:
    """Return the positions of the features of a file among the columns of the rows."""
    position = {name: column for column, name in enumerate(feature_names)}
    missing = [name for name in names if name not in position]
    if missing:
        raise ValueError(
            f"feature {missing[0]!r} of the exported model is not a column of the rows."
        )
    return [position[name] for name in names]
