"""The order by descending score equals NumPy's stable sort, whatever the scores look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.kernels.ordering import sort_descending, sort_scratch

SIZES = [0, 1, 2, 7, 8, 9, 16, 17, 31, 47, 48, 62, 63, 64, 65, 66, 255, 1000, 5003]


def order_of(scores):
    n = len(scores)
    order = np.full(n + 1, -7)
    sort_descending(scores, n, order, sort_scratch(n))
    assert order[n] == -7  # nothing is written past the end
    return order[:n]


def assert_sorted(scores):
    scores = np.asarray(scores, dtype=np.float64)
    before = scores.copy()
    np.testing.assert_array_equal(order_of(scores), np.argsort(-scores, kind="stable"))
    np.testing.assert_array_equal(scores, before)


def last_bits(base, steps):
    """Numbers a few units in the last place apart."""
    return (np.full(len(steps), base).view(np.int64) + steps).view(np.float64)


MAKERS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few levels": lambda rng, n: rng.integers(-2, 3, n) / 7,
    "constant": lambda rng, n: np.full(n, -0.3),
    "signed zeros": lambda rng, n: rng.choice([0.0, -0.0, 1.0, -1.0], n),
    "last bits": lambda rng, n: last_bits(1.7, rng.integers(0, 9, n)),
    "last bits, negative": lambda rng, n: last_bits(-0.2, rng.integers(0, 1 << 31, n)),
    "around the packed bits": lambda rng, n: last_bits(
        3.1, rng.integers(0, 4, n) << rng.integers(22, 36, n)
    ),
    "runs of shared leading bits": lambda rng, n: (
        last_bits(1.0, rng.integers(0, 50, n)) * rng.choice([1.0, -1.0, 2.0], n)
    ),
    "ascending": lambda rng, n: np.arange(float(n)),
    "descending": lambda rng, n: -np.arange(float(n)),
    "huge and tiny": lambda rng, n: rng.choice([1.0, -1.0], n) * 10.0 ** rng.uniform(-308, 308, n),
    "subnormal": lambda rng, n: rng.integers(-9, 9, n) * 5e-324,
    "infinities": lambda rng, n: rng.choice(
        [np.inf, -np.inf, 1.7976931348623157e308, -1.7976931348623157e308, 0.0, 1.0], n
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("n", SIZES)
def test_equals_a_stable_sort(kind, n):
    assert_sorted(MAKERS[kind](np.random.default_rng(n), n))


def test_every_length_up_to_where_the_method_changes():
    rng = np.random.default_rng(1)
    for n in range(101):
        assert_sorted(rng.integers(0, n // 2 + 1, n))
        assert_sorted(rng.normal(size=n))
        assert_sorted(last_bits(rng.choice([0.7, -0.7]), rng.integers(0, n // 2 + 1, n)))


FLOATS = st.floats(allow_nan=False) | st.sampled_from(
    [0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS, max_size=90))
def test_equals_a_stable_sort_for_any_numbers(scores):
    assert_sorted(scores)


def test_only_the_first_n_are_sorted_in_scratch_that_may_be_larger():
    scores = np.array([1.0, 3.0, 2.0, 9.0])
    order = np.full(9, -7)
    sort_descending(scores, 3, order, sort_scratch(9))
    assert order.tolist() == [1, 2, 0] + [-7] * 6
