"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: a check for zero, as Python requires, would prevent loops from being vectorised. So would
indices that might be negative, which count from the end: hence the unsigned ranges in the hot loops. Scalar functions
inside such loops are `inlined`.

Users wait for the first compilation, so it is kept short (`compiler`). Functions that only kernels call are `internal`:
parts of them, without an entry point for Python or a place in the cache. Kernels work in memory that they are given, so
that Numba need not count references to arrays; those that do allocate say so (`allocating`).

The cache saves time and decides nothing: where it cannot be written, is full or was damaged, kernels are compiled
again, with one warning. A kernel in the cache is valid as long as no file of this folder has changed: Numba looks at
the file of a kernel alone, and what the kernel calls may be in another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import config, njit, types
from numba.core import codegen, lowering, options
from numba.core.compiler import Flags
from numba.extending import intrinsic, register_jitable

_WARNED: list[str] = []
_FALLBACK: list[str] = []  # the user's folder, where the package's cannot be written to
_STAMP = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


# `compiler` rests on parts of Numba that are not public. These versions have them as they are used there; with others,
# kernels are compiled by Numba's plain compiler, which takes longer and gives the same.
_OLDEST, _NEWEST = (0, 60), (0, 68)


def _is_known() -> bool:
    """Whether this version of Numba has the parts that `compiler` rests on."""
    library, lower = getattr(codegen, "JITCodeLibrary", None), lowering.Lower
    return (
        _OLDEST <= numba.version_info.short <= _NEWEST
        and all(hasattr(library, name) for name in ("_optimize_functions", "_finalize_final_module"))
        and all(hasattr(lower, name) for name in ("storevar", "delvar", "lower_getitem", "lower_setitem", "_cast_var"))
        and hasattr(Flags(), "_values")
    )


KNOWN = _is_known()


class _ForgivingCache:
    """Numba's cache of a function, whose failures cost time only."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a compiled function, or None where there is none or it cannot be read."""
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception as error:  # whatever damaged bytes lead to
            _warn_once(error)
            try:
                self._cache.flush()  # the next save replaces what is damaged
            except Exception:  # a folder that cannot be written to either
                self._cache.disable()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Write a compiled function, if that is possible."""
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:  # a full disk, for example
            _warn_once(error)


def _warn_once(reason: object) -> None:
    if not _WARNED:
        _WARNED.append(str(reason))
        warnings.warn(
            f"compiled kernels cannot be cached ({reason}), so each process compiles them again, which may take a "
            "minute. Set NUMBA_CACHE_DIR to a folder that can be written to, or repair the one that is there.",
            RuntimeWarning,
            stacklevel=2,
        )


def cache_folder() -> str | None:
    """Return the user's own folder where kernels are cached, or None if they are cached beside their source."""
    return _FALLBACK[0] if _FALLBACK else None


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WITHOUT_MEMORY: dict[str, Any] = {"_nrt": False}  # where it is not set, a function has the setting of its caller


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
        if not cached or not hasattr(dispatcher, "enable_caching"):  # NUMBA_DISABLE_JIT leaves the plain function
            return dispatcher
        try:
            dispatcher.enable_caching()
            cache = dispatcher._cache
            _ = cache._cache_file._source_stamp  # without it, code could be stale: such a cache is not used
        except (RuntimeError, OSError, AttributeError) as error:  # no folder can be written to, or another Numba
            _warn_once(error)
            return njit(**chosen)(function)
        cache._cache_file._source_stamp = _STAMP
        if type(cache._impl.locator).__name__.endswith("UserWideCacheLocator"):
            _FALLBACK[:] = [cache.cache_path]
        dispatcher._cache = _ForgivingCache(cache)
        return dispatcher

    return compile_lazily


jit: Any = _compiler(**_WITHOUT_MEMORY)
allocating: Any = _compiler(_nrt=True)
internal: Any = _compiler(part=True, **_WITHOUT_MEMORY, no_cpython_wrapper=True)
# What kernels call through a pointer (`shared`), with and without memory of its own:
pointed: Any = _compiler(**_WITHOUT_MEMORY, no_cpython_wrapper=True)
pointed_allocating: Any = _compiler(_nrt=True, no_cpython_wrapper=True)
inlined: Any = _compiler(**_WITHOUT_MEMORY, inline="always")
either: Any = register_jitable(**_supported(_COMMON))  # compiled where a kernel calls it, plain Python elsewhere


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
