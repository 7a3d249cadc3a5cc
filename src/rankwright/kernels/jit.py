"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: a check for zero, as Python requires, would prevent loops from being vectorised. So would
indices that might be negative, which count from the end: hence the unsigned ranges in the hot loops. Scalar functions
inside such loops are `inlined`.

Users wait for the first compilation, so it is kept short (`compiler`). Functions that only kernels call are `internal`:
parts of them, without an entry point for Python or a place in the cache. Kernels work in memory that they are given, so
that Numba need not count references to arrays; those that do allocate say so (`allocating`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import config, njit, types
from numba.core import codegen, lowering, options
from numba.core.compiler import Flags
from numba.extending import intrinsic, register_jitable

from rankwright.kernels.cache import enable_cache

# `compiler` rests on parts of Numba that are not public. These versions have them as they are used there; with others,
# kernels are compiled by Numba's plain compiler, which takes longer and gives the same.
_OLDEST, _NEWEST = (0, 61), (0, 68)


def _is_known() -> bool:
    """Whether this version of Numba has the parts that `compiler` rests on."""
    library, lower = getattr(codegen, "JITCodeLibrary", None), lowering.Lower
    return (
        _OLDEST <= numba.version_info.short <= _NEWEST
        and all(
            hasattr(library, name) for name in ("_optimize_functions", "_finalize_final_module")
        )
        and all(
            hasattr(lower, name)
            for name in ("storevar", "delvar", "lower_getitem", "lower_setitem", "_cast_var")
        )
        and hasattr(Flags(), "_values")
    )


KNOWN = _is_known()


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WITHOUT_MEMORY: dict[str, Any] = {
    "_nrt": False
}  # where it is not set, a function has the setting of its caller


def _supported(chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the options that this version of Numba has; those it may lack only make compilation shorter."""
    return {name: value for name, value in chosen.items() if hasattr(options.DefaultOptions, name)}


def _compiler(part: bool = False, **chosen: Any) -> Callable[[Any], Any]:
    chosen = _supported(_COMMON | chosen)
    cached = True
    if KNOWN:
        from rankwright.kernels.compiler import KernelCompiler, PartCompiler

        chosen["pipeline_class"] = PartCompiler if part else KernelCompiler
        cached = not part

    def compile_lazily(function: Any) -> Any:
        dispatcher = njit(**chosen)(function)
        if not cached or not hasattr(
            dispatcher, "enable_caching"
        ):  # NUMBA_DISABLE_JIT leaves the plain function
            return dispatcher
        return dispatcher if enable_cache(dispatcher) else njit(**chosen)(function)

    return compile_lazily


jit: Any = _compiler(**_WITHOUT_MEMORY)
allocating: Any = _compiler(_nrt=True)
internal: Any = _compiler(part=True, **_WITHOUT_MEMORY, no_cpython_wrapper=True)
# What kernels call through a pointer (`shared`), with and without memory of its own:
pointed: Any = _compiler(**_WITHOUT_MEMORY, no_cpython_wrapper=True)
pointed_allocating: Any = _compiler(_nrt=True, no_cpython_wrapper=True)
inlined: Any = _compiler(**_WITHOUT_MEMORY, inline="always")
either: Any = register_jitable(
    **_supported(_COMMON)
)  # compiled where a kernel calls it, plain Python elsewhere


def intrinsic_or(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an intrinsic, or ``plain`` where the kernels run as Python (NUMBA_DISABLE_JIT)."""
    return lambda compiled: plain if config.DISABLE_JIT else intrinsic(compiled)  # type: ignore[attr-defined]


@intrinsic_or(lambda word: np.uint64((int(word) & -int(word)).bit_length() - 1))
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a word of 64 bits that is not 0, as one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], never_zero)

    return types.uint64(types.uint64), generate
