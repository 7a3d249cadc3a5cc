"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: the check for zero that Python's rules ask for would keep loops from being
vectorised. So would indices that might be negative, which count from the end: hence the unsigned ranges
in the hot loops. Scalar functions inside such loops are `inlined`.
"""

from __future__ import annotations

from numba import njit

jit = njit(nogil=True, cache=True, error_model="numpy")
inlined = njit(nogil=True, cache=True, error_model="numpy", inline="always")
