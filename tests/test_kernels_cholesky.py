"""Symmetric systems: exact solutions, agreement with NumPy, and unknowns that the equations do not decide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rankwright.kernels.cholesky import solve_positive


def exact_solution(system: list[list[int]], right: list[int]) -> list[Fraction]:
    """Gauss's elimination with fractions."""
    rows = [
        [Fraction(value) for value in row] + [Fraction(b)]
        for row, b in zip(system, right, strict=True)
    ]
    n = len(rows)
    for k in range(n):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def test_a_solution_is_that_of_exact_arithmetic():
    # Hilbert's matrix times 12: integers, and badly conditioned for its size.
    system = [[12, 6, 4], [6, 4, 3], [4, 3, 2 + 1]]
    right = [1, -2, 5]
    expected = [float(value) for value in exact_solution(system, right)]
    found = solve_positive(np.array(system, dtype=float), np.array(right, dtype=float))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 255])
def test_a_solution_is_that_of_numpy(n):
    draw = np.random.default_rng(n)
    factor = draw.normal(size=(n, 2 * n))
    system, right = factor @ factor.T + 0.3 * np.eye(n), draw.normal(size=n)
    before = system.copy()
    np.testing.assert_allclose(
        solve_positive(system, right), np.linalg.solve(system, right), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(system, before)


def test_only_the_upper_triangle_is_read():
    system = np.array([[4.0, 2.0], [np.nan, 2.0]])
    assert solve_positive(system, np.array([2.0, 2.0])).tolist() == [0.0, 1.0]


def test_what_rounding_leaves_undecided_is_zero_and_the_rest_is_solved():
    # The third unknown repeats the first: x0 + x2 = 1, so x0 = 1 and x2 = 0. A ridge of 1e-20 is lost beside 1.
    system = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 1.0]]) + 1e-20 * np.eye(3)
    assert solve_positive(system, np.array([1.0, 3.0, 1.0])).tolist() == [1.0, 1.5, 0.0]


def test_a_system_that_is_not_positive_definite_does_not_move_along_it():
    assert solve_positive(np.array([[2.0, 0.0], [0.0, -1.0]]), np.array([1.0, 1.0])).tolist() == [
        0.5,
        0.0,
    ]
    assert solve_positive(np.zeros((2, 2)), np.ones(2)).tolist() == [0.0, 0.0]
