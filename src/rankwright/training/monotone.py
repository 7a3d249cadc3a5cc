"""Monotone constraints: columns that may only raise, or only lower, the score of a document.

The engine refuses splits on such a column with the wrong order of the two sides. Leaf values that
the loop computes are solved with the order that the tree implies. Two leaves are in order if a
document can move from one to the other by a change of a single constrained column. Pairs of
neighbours suffice, because a longer way passes through the leaves between. A missing value is
neither more nor less than a number: it goes to the side that the training data suggests.

A sum of trees is monotone if each tree is, with the same bits everywhere: scaling by a positive
factor and adding in a fixed order keep the order of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import HasColumns, shown
from rankwright.data.dataset import RankingData
from rankwright.data.matrices import as_dense
from rankwright.data.within_query import Recipe
from rankwright.kernels.cholesky import solve_positive
from rankwright.kernels.tree_arrays import AMONG, MISSING_LEFT, TreeArrays, plain_rules
from rankwright.model import Model
from rankwright.support.checks import ArgumentError
from rankwright.support.reducer import Reducer
from rankwright.training.plan import Plan

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
Solve = Callable[[Any, Any], Any]

_ROWS_AT_ONCE = 65_536
# How a feature within the query of a document changes if the document's own value is raised. Rank
# 1 is the largest value, and the gap is the distance to the maximum.
_SIGN_WITHIN_QUERY = {"rank": -1, "z": 1, "gap": -1, "share": 1, "mean": 1, "max": 1, "rrf": 1}


def constrained(plan: Plan, columns: HasColumns, recipe: Recipe, earlier: Model | None) -> Plan:
    """Return the plan with a sign for each constrained column of the data and within the query.

    Raise ValueError if a column cannot be constrained, or if an earlier model that gets more trees
    was trained without the constraints.
    """
    option: Mapping[str, int] = plan.parameters["monotone"] or {}
    for name in option:
        if name not in columns.feature_names:
            raise ArgumentError(
                "monotone",
                f"must name columns of the data; got {name!r}. The data has "
                f"{shown(list(columns.feature_names))}.",
            )
        if name in columns.categories:
            raise ArgumentError(
                "monotone",
                f"must name columns of numbers; {name!r} holds categories, which have no order.",
            )
    if earlier is not None:
        before = earlier.manifest["parameters"].get("monotone") or {}
        if not option.items() <= before.items():
            raise ValueError(
                f"init_model was trained with monotone={before or None}, so its trees may break "
                f"monotone={dict(option)}; train it with the same constraints."
            )
    signs = {name: option[name] for name in columns.feature_names if name in option}
    kinds_of = dict(recipe.sources)
    for name in option:
        for kind in kinds_of.get(name, ()):
            signs[f"{name} [{kind}]"] = option[name] * _SIGN_WITHIN_QUERY[kind]
    return replace(plan, monotone=signs)


def column_signs(signs: Mapping[str, int], train: RankingData, reducer: Reducer) -> tuple[int, ...]:
    """Return -1, 0 or 1 for each column of the training data; none without constraints.

    Raise ValueError if a constrained column has no values on any machine.
    """
    for name in signs:
        column = train.feature_names.index(name)
        if reducer.max(np.array([float(_has_values(train, column))]))[0] == 0:
            raise ArgumentError(
                "monotone", f"must name columns with values; all values of {name!r} are missing."
            )
    if not signs:
        return ()
    return tuple(signs.get(name, 0) for name in train.feature_names)


def _has_values(train: RankingData, column: int) -> bool:
    for start in range(0, train.n_rows, _ROWS_AT_ONCE):
        values = as_dense(train.X[start : start + _ROWS_AT_ONCE][:, [column]])
        if not np.isnan(values).all():
            return True
    return False


def solver(tree: TreeArrays, signs: Sequence[int]) -> Solve:
    """Return the solver of a leaf system A x = b, whose negative solution -x has the tree's order."""
    # Imported here because few trainings need it, and all would wait for it to be compiled.
    from rankwright.kernels.ordered import solve_ordered

    solve: Solve = solve_positive
    below, above = leaf_order(tree, signs)
    if len(below) > 0:
        # The order is that of leaf values -x, so it is reversed for x.
        solve = partial(solve_ordered, below=above, above=below)
    return solve


def leaf_order(tree: TreeArrays, signs: Sequence[int]) -> Pairs:
    """Return pairs of neighbouring leaves in order: the leaf with the smaller and with the larger value.

    Parameters
    ----------
    tree
        A tree.
    signs
        For each column -1, 0 or 1.
    """
    n_leaves = len(tree.value)
    sides = _leaves_of_sides(tree)
    cells = {column: _cells(tree, column, sides) for column in np.unique(tree.feature).tolist()}
    apart = {column: ~_common(reached, reached) for column, reached in cells.items()}
    n_apart = np.sum(list(apart.values()), axis=0)
    ordered = np.zeros((n_leaves, n_leaves), dtype=bool)
    for column, reached in cells.items():
        if signs[column] == 0:
            continue
        # The last cell is for missing values, which are not neighbours of any number.
        numbers = reached[:, :-1]
        steps = _common(numbers[:, :-1], numbers[:, 1:])
        # A document that moves keeps the values of all other columns.
        steps &= n_apart - apart[column] == 0
        if signs[column] < 0:
            steps = steps.T
        ordered |= steps
    below, above = np.nonzero(ordered)
    return below, above


def _common(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether a row of the first table and a row of the second have a cell in common."""
    common: NDArray[np.bool_] = np.any(first[:, None, :] & second[None, :, :], axis=2)
    return common


def _cells(tree: TreeArrays, column: int, sides: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells of a column each leaf reaches [leaves, cells].

    Cells are the intervals between the thresholds of the tree, in ascending order, or the
    categories; the last cell is for missing values.
    """
    nodes = np.flatnonzero(tree.feature == column)
    bound, kind = plain_rules(
        tree.threshold[nodes],
        tree.decision[nodes].astype(np.int64),
        tree.missing[nodes].astype(np.int64),
        tree.default_left[nodes],
    )
    is_set = tree.decision[nodes] == AMONG
    # A cell is named by its largest number or its category. The cell of infinity has all numbers
    # above the thresholds, or all categories that are in no set.
    categories = [tree.categories[node] for node in nodes]
    names = np.unique(np.concatenate([bound[~is_set], *categories, [np.inf]]))
    missing_left = np.where(is_set, tree.default_left[nodes], kind == MISSING_LEFT)
    reached = np.ones((len(tree.value), len(names) + 1), dtype=bool)
    for number, node in enumerate(nodes):
        goes_left = names <= bound[number]
        if is_set[number]:
            goes_left = np.isin(names, categories[number])
        goes_left = np.append(goes_left, missing_left[number])
        reached[sides[0, node]] &= goes_left
        reached[sides[1, node]] &= ~goes_left
    return reached


def _leaves_of_sides(tree: TreeArrays) -> NDArray[np.bool_]:
    """Return which leaves are on the left and on the right of each node [2, nodes, leaves]."""
    sides = np.zeros((2, len(tree.feature), len(tree.value)), dtype=bool)
    children = np.stack((tree.left, tree.right))
    # The list grows while it is read: every node comes after its parent.
    order = [0]
    for node in order:
        order += [child for child in children[:, node].tolist() if child >= 0]
    for node in reversed(order):
        for side, child in enumerate(children[:, node].tolist()):
            if child < 0:
                sides[side, node, ~child] = True
            else:
                sides[side, node] = sides[:, child].any(axis=0)
    return sides
