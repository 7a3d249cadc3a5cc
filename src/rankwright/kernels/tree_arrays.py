"""Trees as plain arrays. Without Numba, so that a model is loaded before anything is compiled.

An inner node sends a row to its left or right child by one feature x:

    AT_MOST     left if x <= threshold, as doubles; |x| <= ZERO counts as 0
    BELOW       left if x < threshold, both rounded to 32 bits
    AMONG       left if x, a category, is among the node's categories

and a row whose x is missing (NaN) by what the node says of missing values:

    AS_ZERO            NaN is read as 0
    NAN_TO_DEFAULT     NaN goes to the default side
    ZERO_TO_DEFAULT    NaN, and |x| <= ZERO where the decision is AT_MOST, go to the default side

Children are numbers of nodes, or ~leaf for a leaf. The root is node 0; a tree of one leaf has no nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

AT_MOST, BELOW, AMONG = range(3)
AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT = range(3)
ZERO = float(np.float32(1e-35))
WORD = 32  # categories per word of a set
BITS = 64  # leaves per set
MISSING_RIGHT, MISSING_LEFT, SPECIAL = range(3)
LARGEST_CATEGORY = 1 << 20  # of a set, which takes a bit for each number up to its largest
DEEPEST = 1 << 17  # nodes from a root to a leaf
MOST_LEAVES = 2**31 - 1  # of all trees: they are numbered by 32 bits
_LARGEST_GAIN = float(np.finfo(np.float32).max)


class TreeArrays(NamedTuple):
    """One tree."""

    feature: NDArray[np.int32]  # column that a node looks at [nodes]
    threshold: NDArray[np.float64]  # infinite where only missing values go right [nodes]
    decision: NDArray[np.uint8]  # AT_MOST, BELOW or AMONG [nodes]
    missing: NDArray[np.uint8]  # AS_ZERO, NAN_TO_DEFAULT or ZERO_TO_DEFAULT [nodes]
    default_left: NDArray[np.bool_]  # [nodes]
    left: NDArray[np.int32]  # a node, or ~leaf [nodes]
    right: NDArray[np.int32]  # [nodes]
    categories: tuple[
        NDArray[np.int64], ...
    ]  # that go left, ascending; empty if decision is not AMONG [nodes]
    value: NDArray[np.float64]  # [leaves]
    gain: NDArray[np.float64]  # improvement of the loss, as the engine measures it [nodes]


class LeafSets(NamedTuple):
    """The trees of a forest as sets of leaves, to score many rows at once.

    A row that goes right at a node cannot reach the leaves on its left. The leaf of a row is the leftmost leaf that is
    not excluded by any node, in any order of the nodes. Leaves are the bits of a word, from left to right, so this is
    for trees of at most 64 leaves; other trees are walked.

    Nodes come tree by tree, and by kind within a tree: nodes that send missing values right, nodes that send them left,
    and nodes with another rule than ``x <= bound``. Nodes of the first two kinds come in pairs, because two at once are
    faster; if the number is odd, a node that excludes no leaf is added.
    """

    columns: NDArray[np.int64]  # that any node reads, ascending
    starts: NDArray[np.int64]  # nodes of a kind of a tree start here [3 * trees + 1]
    node: NDArray[np.int64]  # number of the node in the packed trees [nodes]
    column: NDArray[np.int64]  # position of its column in `columns` [nodes]
    bound: NDArray[np.float64]  # right if x > bound [nodes]
    # The leaves of the tree that are not on the node's left, and all bits past them [nodes].
    others: NDArray[np.uint64]
    first_leaf: NDArray[np.int64]  # of each tree in `value` [trees]
    value: NDArray[np.float64]  # of the leaves of each tree, from left to right [leaves]
    whole: NDArray[np.bool_]  # whether the tree has at most 64 leaves [trees]


class PackedTrees(NamedTuple):
    """The trees of a forest, concatenated; nodes and leaves are numbered throughout."""

    root: NDArray[np.int32]  # a node, or ~leaf [trees]
    feature: NDArray[np.int32]  # [nodes]
    threshold: NDArray[np.float64]  # [nodes]
    rule: NDArray[np.uint8]  # decision + 4 * missing + 16 * default_left [nodes]
    left: NDArray[np.int32]  # [nodes]
    right: NDArray[np.int32]  # [nodes]
    # A node's categories are the bits of sets[set_start[i]:set_start[i + 1]] [nodes + 1].
    set_start: NDArray[np.int64]
    sets: NDArray[np.uint32]
    value: NDArray[np.float64]  # [leaves]
    bound: NDArray[np.float64]  # to compare x with at a node that is not SPECIAL [nodes]
    kind: NDArray[np.uint8]  # MISSING_RIGHT, MISSING_LEFT or SPECIAL [nodes]
    leaf_sets: LeafSets


def pack(trees: Iterable[TreeArrays], n_features: int) -> PackedTrees:
    """Concatenate trees, or raise ValueError if one of them is not a tree over ``n_features`` columns.

    Scoring does not check the arrays, so a damaged or hostile model is stopped here: children exist, each is the child
    of one node and all are reached from the root (no cycles), columns exist, leaf values and gains are finite.

    Examples
    --------
    >>> stump = TreeArrays(*(np.array([x]) for x in (2, 0.5, AT_MOST, AS_ZERO, False, -1, -2)), (np.empty(0),),
    ...                    np.array([1.0, -1.0]), np.array([3.0]))
    >>> pack([stump, stump], n_features=3).left.tolist()
    [-1, -3]
    >>> pack([stump], n_features=2)
    Traceback (most recent call last):
        ...
    ValueError: tree 0: a node splits column 2 of 2 columns.
    """
    every = list(trees)
    n_nodes = np.array([len(tree.feature) for tree in every], dtype=np.int64)
    n_leaves = np.array([len(tree.value) for tree in every], dtype=np.int64)
    first_node = np.append(0, np.cumsum(n_nodes))
    first_leaf = np.append(0, np.cumsum(n_leaves))
    tree_of = np.repeat(np.arange(len(every)), n_nodes)

    def joined(name: str, dtype: type) -> NDArray[Any]:
        parts = [np.asarray(getattr(tree, name)) for tree in every]
        sizes = n_leaves if name == "value" else n_nodes
        for number, part in enumerate(parts):
            if part.shape != (sizes[number],):
                raise ValueError(
                    f"tree {number}: {name} has {part.size} entries where {sizes[number]} are needed."
                )
        return np.concatenate([*parts, np.empty(0)]).astype(dtype)

    def refuse(wrong: NDArray[np.bool_], reason: str) -> None:
        if wrong.any():
            raise ValueError(f"tree {tree_of[np.flatnonzero(wrong)[0]]}: {reason}.")

    if first_leaf[-1] > MOST_LEAVES:
        raise ValueError(
            f"the trees have {first_leaf[-1]} leaves; at most {MOST_LEAVES} are allowed."
        )
    if np.any(n_leaves != n_nodes + 1):
        tree = int(np.flatnonzero(n_leaves != n_nodes + 1)[0])
        raise ValueError(
            f"tree {tree}: {n_nodes[tree]} nodes have {n_leaves[tree]} leaves, not one more."
        )
    feature, threshold = joined("feature", np.int64), joined("threshold", np.float64)
    value, decision, missing = (
        joined("value", np.float64),
        joined("decision", np.int64),
        joined("missing", np.int64),
    )
    if len(feature) and not 0 <= feature.min() <= feature.max() < n_features:
        column = feature[(feature < 0) | (feature >= n_features)][0]
        refuse(feature == column, f"a node splits column {column} of {n_features} columns")
    refuse(np.isnan(threshold), "a threshold is not a number")
    # Importances are sums of gains, which engines hold in 32 bits.
    refuse(
        ~(np.abs(joined("gain", np.float64)) <= _LARGEST_GAIN),
        "the gain of a node is not a number of 32 bits",
    )
    refuse((decision < 0) | (decision > AMONG), "a node has an unknown kind of decision")
    refuse(
        (missing < 0) | (missing > ZERO_TO_DEFAULT),
        "a node treats missing values in an unknown way",
    )
    if not np.isfinite(value).all():
        leaf = int(np.flatnonzero(~np.isfinite(value))[0])
        raise ValueError(
            f"tree {np.searchsorted(first_leaf, leaf, side='right') - 1}: a leaf value is not finite."
        )
    children = []
    for name in ("left", "right"):
        child = joined(name, np.int64)
        refuse(
            (child >= n_nodes[tree_of]) | (~child >= n_leaves[tree_of]) | (child == 0),
            "a child does not exist",
        )
        children.append(
            np.where(child >= 0, child + first_node[tree_of], ~(~child + first_leaf[tree_of]))
        )
    both = np.concatenate(children)
    twice = np.bincount(both[both >= 0], minlength=len(feature)) > 1
    refuse(twice, "a node is the child of two nodes")
    if np.any(np.bincount(~both[both < 0], minlength=len(value)) > 1):
        raise ValueError("a leaf is the child of two nodes.")
    root = np.where(n_nodes > 0, first_node[:-1], ~first_leaf[:-1])
    levels, reached = _walk(root, *children)
    refuse(~reached, "a node cannot be reached from the root")
    if levels > DEEPEST:
        raise ValueError(
            f"a tree has {levels} nodes from the root to a leaf; at most {DEEPEST} are allowed."
        )
    sets = [bits_of(categories) for tree in every for categories in tree.categories]
    default_left = joined("default_left", np.bool_)
    bound, kind = plain_rules(threshold, decision, missing, default_left)
    return PackedTrees(
        root=root.astype(np.int32),
        feature=feature.astype(np.int32),
        threshold=threshold,
        rule=(decision + 4 * missing + 16 * default_left).astype(np.uint8),
        left=children[0].astype(np.int32),
        right=children[1].astype(np.int32),
        set_start=np.append(0, np.cumsum([len(one) for one in sets])).astype(np.int64),
        sets=np.concatenate([*sets, np.empty(0)]).astype(np.uint32),
        value=value,
        bound=bound,
        kind=kind,
        leaf_sets=_leaf_sets(root, children[0], children[1], feature, bound, kind, value, tree_of),
    )


def plain_rules(
    threshold: NDArray[np.float64],
    decision: NDArray[np.int64],
    missing: NDArray[np.int64],
    default_left: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Reduce the rules of nodes to a bound and a kind: a row goes left if x <= bound, or by the kind if x is NaN.

    What is left over is special: sets of categories, and zeros that go to the other side than the numbers around them.

    Examples
    --------
    >>> rules = plain_rules(np.array([0.0, 0.5]), np.array([AT_MOST] * 2), np.array([AS_ZERO, ZERO_TO_DEFAULT]),
    ...                     np.array([False, False]))
    >>> [one.tolist() for one in rules], (MISSING_LEFT, SPECIAL)
    ([[1.0000000180025095e-35, 0.5], [1, 2]], (1, 2))
    """
    below = decision == BELOW
    bound = threshold.copy()
    # All numbers that count as zero are on the same side.
    bound[(threshold >= 0) & (threshold < ZERO)] = ZERO
    bound[(threshold >= -ZERO) & (threshold < 0)] = np.nextafter(-ZERO, -np.inf)
    bound[below] = largest_that_rounds_below(threshold[below])
    apart = (decision == AT_MOST) & (missing == ZERO_TO_DEFAULT) & ((bound >= 0) != default_left)
    # Zeros at the edge of a side move to the other side with the bound.
    before_zeros, after_zeros = (
        apart & (bound == ZERO),
        apart & (bound == np.nextafter(-ZERO, -np.inf)),
    )
    bound[before_zeros], bound[after_zeros] = np.nextafter(-ZERO, -np.inf), ZERO
    missing_left = np.where(missing == AS_ZERO, bound >= 0, default_left)
    special = (decision == AMONG) | (apart & ~before_zeros & ~after_zeros)
    return bound, np.where(
        special, SPECIAL, np.where(missing_left, MISSING_LEFT, MISSING_RIGHT)
    ).astype(np.uint8)


def largest_that_rounds_below(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest doubles that are below the thresholds once both are rounded to 32 bits.

    Examples
    --------
    >>> x = largest_that_rounds_below(np.array([1.0]))
    >>> np.float32(x) < 1, np.float32(np.nextafter(x, 2)) < 1
    (array([ True]), array([False]))
    """
    with np.errstate(over="ignore"):
        rounded = np.asarray(threshold, dtype=np.float64).astype(np.float32)
        before = np.nextafter(rounded, np.float32(-np.inf)).astype(np.float64)
        # Beyond the largest number of 32 bits, rounding acts as if there were another one at the same distance.
        unbounded = [
            np.where(np.isinf(one), np.copysign(2.0**128, one), one)
            for one in (before, rounded.astype(np.float64))
        ]
        middle = (unbounded[0] + unbounded[1]) / 2
        exact = np.where(middle.astype(np.float32) < rounded, middle, np.nextafter(middle, -np.inf))
        return np.where(np.isneginf(rounded), -np.inf, exact)


def _leaf_sets(
    root: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    feature: NDArray[np.int64],
    bound: NDArray[np.float64],
    kind: NDArray[np.uint8],
    value: NDArray[np.float64],
    tree_of: NDArray[np.int64],
) -> LeafSets:
    """Number the leaves of each tree from left to right, and find the leaves that each node excludes."""
    levels = [root[root >= 0]]
    while len(levels[-1]):
        children = np.concatenate([left[levels[-1]], right[levels[-1]]])
        levels.append(children[children >= 0])
    on_left, below = (
        np.ones(len(left), dtype=np.int64),
        np.ones(len(left), dtype=np.int64),
    )  # numbers of leaves
    for level in reversed(levels):
        for child, count in ((left[level], on_left), (right[level], below)):
            inner = child >= 0
            count[level[inner]] = below[child[inner]]
        below[level] += on_left[level]
    n_leaves = np.ones(len(root), dtype=np.int64)
    n_leaves[root >= 0] = below[root[root >= 0]]
    first_leaf = np.cumsum(n_leaves) - n_leaves
    first, place = (
        np.zeros(len(left), dtype=np.int64),
        np.zeros(len(value), dtype=np.int64),
    )  # of leaves in their tree
    for level in levels:
        for child, start in (
            (left[level], first[level]),
            (right[level], first[level] + on_left[level]),
        ):
            inner = child >= 0
            first[child[inner]] = start[inner]
            place[~child[~inner]] = start[~inner]
    in_order = np.empty(len(value))
    in_order[np.repeat(first_leaf, n_leaves) + place] = value
    whole = n_leaves <= BITS
    shift = np.where(whole[tree_of], on_left, 0).astype(
        np.uint64
    )  # at most 63: something is on the right
    lowest = np.where(whole[tree_of], first, 0).astype(np.uint64)
    excluded = ((np.uint64(1) << shift) - np.uint64(1)) << lowest
    key = 3 * tree_of + kind
    groups = np.arange(3 * len(root))
    single = groups[(np.bincount(key, minlength=len(groups)) % 2 == 1) & (groups % 3 != SPECIAL)]
    key = np.append(key, single)
    order = np.argsort(key, kind="stable")
    columns, column = np.unique(feature, return_inverse=True)

    def arranged(values: NDArray[Any], filling: Any) -> NDArray[Any]:
        return np.append(values, np.full(len(single), filling, dtype=values.dtype))[order]

    return LeafSets(
        columns=columns.astype(np.int64),
        starts=np.searchsorted(key[order], np.arange(len(groups) + 1)),
        node=order,
        column=arranged(column.astype(np.int64), 0),
        bound=arranged(bound, np.inf),
        others=arranged(~excluded, ~np.uint64(0)),
        first_leaf=first_leaf,
        value=in_order,
        whole=whole,
    )


def _walk(
    root: NDArray[np.int64], left: NDArray[Any], right: NDArray[Any]
) -> tuple[int, NDArray[np.bool_]]:
    """Walk down all trees at once, if no node is the child of two; return the levels and the nodes reached."""
    reached = np.zeros(len(left), dtype=bool)
    nodes, levels = root[root >= 0], 0
    while len(nodes):
        reached[nodes] = True
        levels += 1
        below = np.concatenate((left[nodes], right[nodes]))
        nodes = below[below >= 0]
    return levels, reached


def depth(trees: PackedTrees) -> int:
    """Number of nodes from a root to the farthest leaf."""
    return _walk(trees.root.astype(np.int64), trees.left, trees.right)[0]


def bits_of(categories: NDArray[np.int64]) -> NDArray[np.uint32]:
    """A set of categories as the bits of words."""
    if len(categories) == 0:
        return np.empty(0, dtype=np.uint32)
    if categories.min() < 0 or categories.max() > LARGEST_CATEGORY:
        raise ValueError(f"a category is not a number from 0 to {LARGEST_CATEGORY}.")
    words = np.zeros(int(categories.max()) // WORD + 1, dtype=np.uint32)
    np.bitwise_or.at(
        words, categories // WORD, np.uint32(1) << (categories % WORD).astype(np.uint32)
    )
    return words
