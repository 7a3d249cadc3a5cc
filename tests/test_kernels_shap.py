"""SHAP values of single trees, against the mean over all orders in which columns become known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from hand_made_trees import leaf, random_tree, stump
from rankwright.kernels.shap import Covers, add_shap_values
from rankwright.kernels.tree_arrays import AMONG, AT_MOST, TreeArrays, depth, pack
from test_engine_contract import score_by_walking


def expected_value(
    tree: TreeArrays, leaf_cover: np.ndarray, row: np.ndarray, known: set[int]
) -> float:
    """The mean value of the leaves that a row may reach: it follows the known columns, and the covers elsewhere."""

    def cover(child: int) -> float:
        if child < 0:
            return float(leaf_cover[~child])
        return cover(int(tree.left[child])) + cover(int(tree.right[child]))

    def below(child: int) -> float:
        if child < 0:
            return float(tree.value[~child])
        left, right = int(tree.left[child]), int(tree.right[child])
        column = int(tree.feature[child])
        if column in known:
            return below(left if goes_left(tree, child, row) else right)
        ours, theirs = cover(left), cover(right)
        share = ours / (ours + theirs) if ours + theirs > 0 else 0.5
        return float(share * below(left) + (1 - share) * below(right))

    if leaf_cover.sum() == 0:
        leaf_cover = np.ones(len(leaf_cover))
    return below(0 if len(tree.feature) else -1)


def goes_left(tree: TreeArrays, node: int, row: np.ndarray) -> bool:
    parts = (tree.feature, tree.threshold, tree.decision, tree.missing, tree.default_left)
    alone = [part[node : node + 1] for part in parts]
    single = TreeArrays(
        *alone,
        np.array([-1]),
        np.array([-2]),
        (tree.categories[node],),
        np.array([1.0, 0.0]),
        np.array([1.0]),
    )
    return score_by_walking([single], row) == 1.0


def shapley(tree: TreeArrays, leaf_cover: np.ndarray, row: np.ndarray) -> np.ndarray:
    n = len(row)
    values = np.zeros(n + 1)
    values[n] = expected_value(tree, leaf_cover, row, set())
    orders = list(itertools.permutations(range(n)))
    for order in orders:
        for place, column in enumerate(order):
            before = set(order[:place])
            gain = expected_value(tree, leaf_cover, row, before | {column})
            gain -= expected_value(tree, leaf_cover, row, before)
            values[column] += gain / len(orders)
    return values


def found(trees: list[TreeArrays], leaf_covers: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    packed = pack(trees, X.shape[1])
    covers = Covers.of_leaves(packed, np.concatenate(leaf_covers))
    out = np.zeros((len(X), X.shape[1] + 1))
    add_shap_values(0, len(X), X, packed, covers, depth(packed), out)
    return out


def cases() -> Iterator[tuple[TreeArrays, np.ndarray]]:
    """Trees with the covers of their leaves, some of which are 0."""
    for seed, n_leaves in enumerate((2, 3, 5, 9, 16)):
        tree = random_tree(seed, n_leaves)
        cover = np.random.default_rng(seed).random(n_leaves) + 0.1
        yield tree, cover
        yield tree, np.where(cover < 0.6, 0.0, cover)
        yield tree, np.where(cover < 0.9, 0.0, cover)
    yield leaf(0.25), np.ones(1)
    yield stump(0.0), np.zeros(2)


def test_values_are_means_over_all_orders() -> None:
    draw = np.random.default_rng(1)
    X = np.round(draw.normal(size=(12, 4)), 1)
    X[:, 3] = draw.integers(0, 40, 12)
    X[draw.random(X.shape) < 0.1] = np.nan
    every = list(cases())
    for tree, covers in every:
        expected = np.array([shapley(tree, covers, row) for row in X])
        np.testing.assert_allclose(found([tree], [covers], X), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            expected.sum(axis=1), [score_by_walking([tree], row) for row in X], atol=1e-12
        )
    whole = found([tree for tree, _ in every], [covers for _, covers in every], X)
    np.testing.assert_allclose(
        whole, sum(found([tree], [covers], X) for tree, covers in every), atol=1e-12
    )


@pytest.mark.parametrize("decision", [AT_MOST, AMONG])
def test_one_split_by_hand(decision: int) -> None:
    """Three quarters of the rows go left, to 1; the others to 2. The mean is 5/4."""
    tree = stump(0.5, decision, categories=[0] if decision == AMONG else ())
    out = found([tree], [np.array([3.0, 1.0])], np.array([[0.0, 9.0], [1.0, 9.0]]))
    np.testing.assert_allclose(out, [[1 - 5 / 4, 0, 5 / 4], [2 - 5 / 4, 0, 5 / 4]], rtol=1e-12)
