"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: a check for zero, as Python requires, would prevent loops from being vectorised. So would
indices that might be negative, which count from the end: hence the unsigned ranges in the hot loops. Scalar functions
inside such loops are `inlined`. Functions that only kernels call are `internal`: without an entry point for Python
they compile faster.
"""

from __future__ import annotations

from typing import Any

from numba import njit

_COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}

jit: Any = njit(**_COMMON)
internal: Any = njit(**_COMMON | {"no_cpython_wrapper": True})
inlined: Any = njit(**_COMMON | {"inline": "always"})
