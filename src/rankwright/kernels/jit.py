"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: a check for zero, as Python requires, would prevent loops from being vectorised. So would
indices that might be negative, which count from the end: hence the unsigned ranges in the hot loops. Scalar functions
inside such loops are `inlined`. Functions that only kernels call are `internal`: without an entry point for Python
they compile faster.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

_COMMON: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}

jit: Any = njit(**_COMMON)
internal: Any = njit(**_COMMON | {"no_cpython_wrapper": True})
inlined: Any = njit(**_COMMON | {"inline": "always"})


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a word of 64 bits that is not 0, as one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], never_zero)

    return types.uint64(types.uint64), generate
