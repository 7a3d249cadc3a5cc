"""Scalar functions against the C library's, and what finishes a gradient."""

import math

import numpy as np
import pytest

from rankwright.kernels.arithmetic import exp_negative, finish, log_positive, round_to, total, turn
from rankwright.kernels.jit import jit


def ulps(value: float, exact: float) -> float:
    return abs(value - exact) / math.ulp(exact)


def test_exponential():
    for x in [-0.0, *-np.geomspace(1e-300, 708, 400)]:
        assert ulps(exp_negative(x), math.exp(x)) <= 2


def test_logarithm():
    random = np.random.default_rng(0)
    near_one = 1 + random.uniform(-0.3, 0.45, 400)
    for x in [1.0, 2.0, 0.5, math.sqrt(0.5), *np.geomspace(1e-300, 1e300, 400), *near_one]:
        assert (
            ulps(log_positive(x), math.log(x)) <= 3 or abs(log_positive(x) - math.log(x)) <= 1e-16
        )


def test_turn():
    for u in [
        0.0,
        0.125,
        0.25,
        0.375,
        0.5,
        0.625,
        0.75,
        0.875,
        1.0,
        *np.random.default_rng(1).uniform(size=400),
    ]:
        cosine, sine = turn(u)
        assert cosine == pytest.approx(
            math.cos(2 * math.pi * u), abs=2e-15
        )  # x^16 / 16! is left out: 1e-15
        assert sine == pytest.approx(
            math.sin(2 * math.pi * u), abs=2e-15
        )  # x^16 / 16! is left out: 1e-15


@jit
def total_of(values, start, stop):
    return total(values, start, stop)


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (2, 5), (3, 5), (3, 9), (1, 10), (0, 11), (3, 11)]
)
def test_total(start, stop):
    values = 2.0 ** np.arange(11)  # sums of different powers of two tell which were added
    assert total_of(values, start, stop) == 2.0**stop - 2.0**start


def test_rounding_to_a_unit():
    out = np.empty(5, dtype=np.float32)
    round_to(np.array([0.0, 0.3, -0.3, 1.0, -1.1]), 0.25, out)
    assert out.tolist() == [0.0, 0.25, -0.25, 1.0, -1.0]


def test_finish():
    grad, hess = np.array([9.0, 2.0, -4.0, 0.0]), np.array([9.0, 5.0, 1.0, 0.0])
    finish(1, 3, 0.5, np.empty(0), grad, hess)
    assert grad.tolist() == [9.0, 2.0, -4.0, 0.0]
    assert hess.tolist() == [9.0, 5.0, 2.0, 0.0]  # at least half the gradient's size
    finish(1, 3, 0.5, np.array([7.0, 2.0, 3.0, 7.0]), grad, hess)
    assert grad.tolist() == [9.0, 4.0, -12.0, 0.0]
    assert hess.tolist() == [9.0, 10.0, 6.0, 0.0]
