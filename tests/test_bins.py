"""Bins of columns: edges that any partitioning agrees on, and numbers that splits decide as they decide values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from rankwright.data.bins import Bins, RowSample
from rankwright.data.on_disk import to_disk
from rankwright.kernels.bins import choose_edges
from rankwright.kernels.tree_arrays import ZERO


def columns(n: int = 3000, seed: int = 0) -> Any:
    """A continuous column, counts, many zeros, missing values, tiny numbers, a constant, only missing, a category."""
    draw = np.random.default_rng(seed)
    X = np.column_stack([draw.normal(size=(n, 5)), np.ones((n, 2)), draw.integers(0, 30, n)])
    X[:, 1] = draw.geometric(0.05, n)
    X[draw.random(n) < 0.7, 2] = 0.0
    X[draw.random(n) < 0.2, 3] = np.nan
    X[:, 4] = draw.choice([-2e-35, -ZERO, -1e-40, 0.0, 5e-36, ZERO, 1.2e-35, 3.0], n)
    X[:, 6] = np.nan
    X[draw.random(n) < 0.1, 7] = np.nan
    return X


X = columns()
KEYS = np.random.default_rng(9).integers(0, 60, len(X)).astype(np.uint64)
BINS = Bins.of(X, 63, categorical=[7])


def searched(column: Any, edges: Any, missing: int) -> list[int]:
    """The bin of each value, by its definition."""
    zeroed = [0.0 if abs(x) <= ZERO else x for x in column]
    return [missing if np.isnan(x) else sum(edge < x for edge in edges) for x in zeroed]


@pytest.mark.parametrize("max_bin", [2, 3, 16, 63, 255, 300])
def test_bins_are_the_number_of_edges_below(max_bin: int) -> None:
    bins = Bins.of(X, max_bin, categorical=[7])
    codes = bins.encode(X[:300])
    assert codes.dtype == (np.uint8 if max_bin <= 255 else np.uint16)
    for column in range(7):
        edges = bins.edges[column]
        assert len(edges) < max_bin
        assert np.all(np.diff(edges) > 0)
        assert codes[:, column].tolist() == searched(X[:300, column], edges, bins.missing)
    expected = [bins.missing if np.isnan(x) else int(x) for x in X[:300, 7]]
    assert codes[:, 7].tolist() == expected
    assert bins.n_bins.tolist() == [len(edges) + 1 for edges in bins.edges[:7]] + [30]


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        # 15 rows in 2 bins of 7.5: the first ends once it has 1 + 4 + 1 + 4 = 10.
        ([1, 4, 1, 4, 1, 4], 2, [3.5]),
        # 15 rows in 3 bins of 5: the 10 stand alone, the others share two bins of 2.5, and the first has 2 before them.
        ([1, 1, 10, 1, 1, 1], 3, [1.5, 2.5]),
        # 30 rows in 4 bins of 7.5: 1 row before the 20 that stand alone is less than half of (30 - 20) / 3.
        ([1, 20, 3, 3, 3], 4, [1.5, 3.5]),
        # Every value stands alone.
        ([5, 5, 5, 5], 4, [0.5, 1.5, 2.5]),
    ],
)
def test_edges_by_hand(counts: list[int], most: int, expected: list[float]) -> None:
    edges = np.full(most, np.nan)
    n_edges = choose_edges(np.arange(float(len(counts))), np.array(counts), most, edges)
    assert edges[:n_edges].tolist() == expected


def test_few_values_have_a_bin_each() -> None:
    values = np.array([3.0, -1.0, 0.5, 3.0, np.nan])[:, None]
    assert Bins.of(values, 3).edges[0].tolist() == [-0.25, 1.75]
    assert Bins.of(values, 2).n_bins.tolist() == [2]
    assert Bins.of(values * np.nan, 5).n_bins.tolist() == [1]


def test_bins_hold_about_as_many_rows_and_frequent_values_stand_alone() -> None:
    draw = np.random.default_rng(3)
    values = np.where(draw.random(50_000) < 0.4, 0.0, draw.normal(size=50_000))[:, None]
    bins = Bins.of(values, 64)
    counts = np.bincount(bins.encode(values)[:, 0])
    zero = int(bins.encode(np.zeros((1, 1)))[0, 0])
    assert counts[zero] == (values == 0).sum()
    assert len(counts) == 64
    others = np.delete(counts, zero)
    mean = others.mean()
    assert others.max() < 1.1 * mean
    assert np.sort(others)[2] > 0.8 * mean  # all but the two beside zero, and the last


@pytest.mark.parametrize("size", [500, 100_000])
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_any_partitioning_gives_the_same_edges(size: int, n_parts: int) -> None:
    expected = Bins.of(RowSample.of(X, KEYS, size=size), 31, categorical=[7])
    part_of = np.random.default_rng(n_parts).integers(0, n_parts, len(X))
    sample: RowSample | None = None
    for part in range(n_parts):
        rows = np.random.default_rng(part).permutation(np.flatnonzero(part_of == part))
        own = RowSample.of(X[rows], KEYS[rows], size=size)
        sample = own if sample is None else sample.joined(own)
    assert sample is not None
    assert len(sample.rows) == min(size, len(X))
    bins = Bins.of(sample, 31, categorical=[7])
    for ours, theirs in zip(bins.edges, expected.edges, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert bins.categories.tolist() == expected.categories.tolist() == [0] * 7 + [30]
    assert bins.has_missing.tolist() == [False] * 3 + [True, False, False, True, True]


def test_the_sample_has_the_shares_of_the_data() -> None:
    values = np.arange(40_000.0)[:, None] % 1000
    sample = RowSample.of(values, np.arange(40_000, dtype=np.uint64), size=4000)
    assert abs((sample.rows < 250).mean() - 0.25) < 0.03


@pytest.mark.parametrize("threads", [1, 3])
def test_the_kind_of_matrix_makes_no_difference(threads: int) -> None:
    tall = np.tile(X, (8, 1))
    expected = BINS.encode(tall, threads=1)
    filled = sp.csr_matrix(tall)
    for same in (tall, np.asfortranarray(tall), filled, to_disk(tall)):
        assert np.array_equal(BINS.encode(same, threads=threads), expected)
    narrow = tall.astype(np.float32)
    assert np.array_equal(
        BINS.encode(narrow, threads=threads), BINS.encode(narrow.astype(np.float64))
    )
    expected = RowSample.of(X, KEYS, size=500)
    for same in (sp.csr_matrix(X), to_disk(X)):
        sample = RowSample.of(same, KEYS, size=500)
        assert np.array_equal(sample.hashes, expected.hashes)
        assert np.array_equal(sample.rows, expected.rows, equal_nan=True)


def test_a_category_past_those_known() -> None:
    code = BINS.encode(np.array([[0.0] * 7 + [99.0]]))[0, 7]
    assert code == 30
    wide = Bins.of(np.arange(255.0)[:, None], 10, categorical=[0])
    assert wide.dtype == np.uint16
    assert wide.encode(np.array([[254.0], [255.0], [np.nan]])).ravel().tolist() == [254, 255, 65535]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="max_bin must be at least 2; got 1"):
        Bins.of(X, 1)
    with pytest.raises(ValueError, match="the rows have 3 columns and the bins 8"):
        BINS.encode(X[:, :3])
