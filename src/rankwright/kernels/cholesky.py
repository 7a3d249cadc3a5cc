"""The solution of a symmetric system by Cholesky's method, in the caller's thread.

NumPy passes such systems to a BLAS library that uses all cores, and its sums depend on the number of threads.
Here A = U'D^-1 U, with the pivots D on the diagonal of U, which needs no square roots. Row i of U is

    A_i. - sum over k < i of (U_ki / U_kk) U_k. ,                                            (row)

computed by subtracting whole rows, which vectorises without reordering a sum. So the bits depend on A and b alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating

_ROUNDING = 2.0**-52  # relative error of a number of 64 bits


@allocating
def solve_positive(system: Any, right: Any) -> Any:
    """Return x with A x = b for a symmetric positive definite A; only its upper triangle is read.

    Where nothing of a pivot is left but rounding (or A is not positive definite), the equations do not decide about
    that unknown: it becomes 0, and the others are solved without it.

    Parameters
    ----------
    system, right
        A [n, n] and b [n].

    Examples
    --------
    >>> solve_positive(np.array([[4.0, 2.0], [2.0, 2.0]]), np.array([2.0, 2.0])).tolist()
    [0.0, 1.0]
    >>> solve_positive(np.ones((2, 2)), np.array([1.0, 1.0])).tolist()
    [1.0, 0.0]
    """
    upper = system.copy()
    decided = np.empty(len(right), np.bool_)
    factorise(upper, decided)
    return substitute(upper, decided, right)


@allocating
def substitute(upper: Any, decided: Any, right: Any) -> Any:
    """Return x with A x = b for a matrix that is factorised already."""
    n = len(right)
    x = right.copy()
    for k in range(n):
        factor = x[k] / upper[k, k] if decided[k] else 0.0
        for j in range(np.uint64(k + 1), np.uint64(n)):
            x[j] -= factor * upper[k, j]
    for k in range(n - 1, -1, -1):
        total = x[k]
        for j in range(np.uint64(k + 1), np.uint64(n)):
            total -= upper[k, j] * x[j]
        x[k] = total / upper[k, k] if decided[k] else 0.0
    return x


@allocating
def factorise(upper: Any, decided: Any) -> None:
    """Replace the upper triangle by U, see (row) above; a row whose pivot is lost takes no part."""
    n = len(upper)
    least = np.empty(n)
    for k in range(n):
        least[k] = n * _ROUNDING * upper[k, k]
    for k in range(n):
        pivot = upper[k, k]
        decided[k] = pivot > least[k] and pivot > 0.0
        if decided[k]:
            for i in range(k + 1, n):
                factor = upper[k, i] / pivot
                if factor != 0.0:
                    for j in range(np.uint64(i), np.uint64(n)):
                        upper[i, j] -= factor * upper[k, j]
