"""Walking down the trees of an exported file, for evaluators; what a node decides is the evaluator's business."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Decision = tuple[
    NDArray[np.bool_], Any, Any
]  # whether each row goes left; the left child; the right child


def leaf_values(
    root: Any,
    n_rows: int,
    leaf: Callable[[Any], float | None],
    decide: Callable[[Any, Rows], Decision],
) -> NDArray[np.float64]:
    """Return the value of the leaf that each row falls into.

    Parameters
    ----------
    root
        A tree, in whatever form the file has.
    n_rows
        Number of rows.
    leaf
        Value of a node; None if it is not a leaf.
    decide
        For a node and the numbers of the rows that reach it: which of them go left, and the two children.
    """
    values = np.empty(n_rows)
    waiting = [(root, np.arange(n_rows))]
    while waiting:
        node, rows = waiting.pop()
        value = leaf(node)
        if value is not None:
            values[rows] = value
        elif len(rows):
            goes_left, left, right = decide(node, rows)
            waiting += [(left, rows[goes_left]), (right, rows[~goes_left])]
    return values


def single(X: Any) -> NDArray[np.float32]:
    """Round features to 32 bits, as search engines hold them."""
    with np.errstate(over="ignore"):
        return np.asarray(X, dtype=np.float64).astype(np.float32)
