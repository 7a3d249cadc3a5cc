"""Scores of packed trees, against a walk by the rules that `rankwright.kernels.tree_arrays` states."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hand_made_trees import leaf, probe_rows, random_tree, stump
from rankwright.engines.scoring import score
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    BELOW,
    LARGEST_CATEGORY,
    NAN_TO_DEFAULT,
    ZERO_TO_DEFAULT,
    TreeArrays,
    depth,
    largest_that_rounds_below,
    pack,
)
from test_engine_contract import score_by_walking


@pytest.mark.parametrize("n_leaves", [2, 3, 12, 63, 64, 65, 200])
def test_scores_of_random_trees_are_those_of_a_walk(n_leaves: int) -> None:
    trees = [random_tree(seed, n_leaves) for seed in range(9)]
    trees.insert(4, leaf(0.25))
    X = probe_rows(trees)[:700]
    expected = [score_by_walking(trees, row) for row in X]
    packed = pack(trees, 4)
    assert len(set(expected)) > min(n_leaves, 20)
    for threads in (1, 3):
        assert score(packed, X, 0, 10, threads).tolist() == expected
    assert score(packed, X[:1], 0, 10, 1).tolist() == expected[:1]
    single = X.clip(-3e38, 3e38).astype(np.float32)
    assert score(packed, single, 0, 10, 1).tolist() == [
        score_by_walking(trees, row) for row in single
    ]


def test_small_and_large_trees_in_one_forest() -> None:
    sizes = [200, 12, 65, 64, 1, 80, 63, 2, 200, 200, 3]
    trees = [leaf(0.5) if n == 1 else random_tree(seed, n) for seed, n in enumerate(sizes)]
    X = probe_rows(trees)[:300]
    expected = [score_by_walking(trees, row) for row in X]
    assert score(pack(trees, 4), X, 0, len(trees), 1).tolist() == expected


def test_leaves_of_one_sided_trees_fill_a_word() -> None:
    """The leftmost and the rightmost of 64 leaves are reached; every bit is a leaf."""
    chain = random_tree(0, 64, [AT_MOST], [NAN_TO_DEFAULT])
    order = np.arange(63, dtype=np.int32)
    for to_the_right in (True, False):
        ends = np.append(order[1:], ~63).astype(np.int32)
        sides = {"left": ~order, "right": ends} if to_the_right else {"left": ends, "right": ~order}
        tree = chain._replace(
            **sides,
            feature=np.zeros(63, dtype=np.int32),
            threshold=np.where(to_the_right, order, -order).astype(float),
            value=np.arange(64.0),
        )
        X = np.linspace(-70, 70, 281)[:, None]
        expected = [score_by_walking([tree], row) for row in X]
        assert set(expected) == set(range(64))
        assert score(pack([tree], 1), X, 0, 1, 1).tolist() == expected


@pytest.mark.parametrize("missing", [AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT])
@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("decision", [AT_MOST, BELOW, AMONG])
def test_every_rule(decision: int, missing: int, default_left: bool) -> None:
    trees = [
        stump(threshold, decision, missing, default_left, [0, 3, 33] if decision == AMONG else ())
        for threshold in (
            0.5,
            -0.5,
            0.0,
            1e-35,
            -1e-35,
            1e-40,
            -1e-40,
            1e300,
            -1e300,
            np.inf,
            -np.inf,
        )
    ]
    numbers = [
        np.nan,
        0.0,
        -0.0,
        1e-36,
        -1e-36,
        1e-34,
        -1e-34,
        0.5,
        -0.5,
        3.0,
        33.0,
        40.0,
        1e305,
        -1e305,
    ]
    X = np.array(numbers)[:, None]
    for tree in trees:
        assert score(pack([tree], 1), X, 0, 1, 1).tolist() == [
            score_by_walking([tree], row) for row in X
        ]


def test_the_largest_number_that_rounds_below() -> None:
    largest = float(np.finfo(np.float32).max)
    draw = np.random.default_rng(0).normal(size=200)
    special = [0.0, -0.0, 1e-45, -1e-45, 1e-46, largest, -largest, 3.5e38, np.inf, 1.0, 2**-126]
    threshold = np.concatenate([draw, special, draw.astype(np.float32)])
    x = largest_that_rounds_below(threshold)
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
        assert np.all(x.astype(np.float32) < rounded)
        assert not np.any(np.nextafter(x, np.inf).astype(np.float32) < rounded)
    assert largest_that_rounds_below(np.array([-np.inf, -3.5e38])).tolist() == [-np.inf, -np.inf]


def test_many_threads_score_one_forest_at_once() -> None:
    trees = [random_tree(seed, 31) for seed in range(60)]
    packed, X = pack(trees, 4), probe_rows(trees)
    parts = [X[start : start + 50] for start in range(0, 500, 7)]
    expected = [score(packed, part, 0, 60, 1) for part in parts]
    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            at_once = pool.map(lambda part: score(packed, part, 0, 60, 2), parts)
            assert all(
                np.array_equal(scores, alone)
                for scores, alone in zip(at_once, expected, strict=True)
            )


DAMAGES = {
    "1 nodes have 3 leaves, not one more": {"value": np.zeros(3)},
    "threshold has 2 entries where 1 are needed": {"threshold": np.zeros(2)},
    "right has 0 entries where 1 are needed": {"right": np.empty(0)},
    "a node splits column 2 of 2 columns": {"feature": np.array([2])},
    "a node splits column -1 of 2 columns": {"feature": np.array([-1])},
    "a threshold is not a number": {"threshold": np.array([np.nan])},
    "the gain of a node is not a number of 32 bits": {"gain": np.array([1e39])},
    "a node has an unknown kind of decision": {"decision": np.array([3])},
    "a node treats missing values in an unknown way": {"missing": np.array([3])},
    "a leaf value is not finite": {"value": np.array([0.0, np.inf])},
    "a child does not exist": {"left": np.array([1])},
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_tree_is_named(reason: str) -> None:
    whole = stump(0.5)
    damaged = whole._replace(**DAMAGES[reason])
    for before in (0, 1, 3):
        with pytest.raises(ValueError, match=f"^tree {before}: {reason}.$"):
            pack([*[whole] * before, damaged, whole], 2)


def test_what_is_at_a_limit_is_a_tree() -> None:
    tree = stump(0.5, column=1)._replace(gain=np.array([float(np.finfo(np.float32).max)]))
    assert pack([tree, leaf(1.0)], 2).feature.tolist() == [1]
    for last in (-1, LARGEST_CATEGORY + 1):
        with pytest.raises(ValueError, match="a category is not a number from 0 to"):
            pack([stump(0.0, AMONG, categories=[last])], 1)
    for last in (0, LARGEST_CATEGORY):
        packed = pack([stump(0.0, AMONG, categories=[last])], 1)
        assert score(packed, np.array([[float(last)], [float(last + 1)]]), 0, 1, 1).tolist() == [
            1.0,
            2.0,
        ]


def test_nodes_and_leaves_have_one_parent() -> None:
    def tree(left: list[int], right: list[int]) -> TreeArrays:
        n = len(left)
        same = stump(0.5)
        names = [name for name in same._fields if name not in ("categories", "value")]
        parts = {name: np.repeat(getattr(same, name), n) for name in names}
        parts |= {"left": np.array(left), "right": np.array(right)}
        return TreeArrays(**parts, categories=same.categories * n, value=np.arange(n + 1.0))

    assert depth(pack([leaf(0.0), tree([1, ~0], [~1, ~2]), stump(0.5)], 1)) == 2
    with pytest.raises(ValueError, match=r"^tree 1: a node is the child of two nodes.$"):
        pack([stump(0.5), tree([1, ~0, ~1], [1, ~2, ~3])], 1)
    with pytest.raises(ValueError, match=r"^a leaf is the child of two nodes.$"):
        pack([stump(0.5), tree([1, ~0], [~1, ~1])], 1)
    with pytest.raises(ValueError, match=r"^tree 1: a node cannot be reached from the root.$"):
        pack([stump(0.5), tree([~0, 2, 1], [~1, ~2, ~3])], 1)
