"""The one way in which kernels are compiled.

Plain functions that release the GIL and are cached on disk. No ``fastmath``, which would reorder sums.
Division follows IEEE 754: a check for zero, as Python requires, would prevent loops from being vectorised. So would
indices that might be negative, which count from the end: hence the unsigned ranges in the hot loops. Scalar functions
inside such loops are `inlined`. Functions that only kernels call are `internal`: without an entry point for Python
they compile faster.

The cache saves time and decides nothing: where it cannot be written, is full or was damaged, kernels are compiled
again, with one warning. A kernel in the cache is valid as long as no file of this folder has changed: Numba looks at
the file of a kernel alone, and what the kernel calls may be in another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import intrinsic, register_jitable

_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_WARNED: list[str] = []
_FALLBACK: list[str] = []  # the user's folder, where the package's cannot be written to
_STAMP = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


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


def _compiler(**options: Any) -> Callable[[Any], Any]:
    def compile_lazily(function: Any) -> Any:
        dispatcher = njit(**_COMMON | options)(function)
        if not hasattr(dispatcher, "enable_caching"):  # NUMBA_DISABLE_JIT leaves the plain function
            return dispatcher
        try:
            dispatcher.enable_caching()
        except (RuntimeError, OSError) as error:  # neither the package's folder nor the user's can be written to
            _warn_once(error)
        else:
            cache = dispatcher._cache
            cache._cache_file._source_stamp = _STAMP
            if type(cache._impl.locator).__name__.endswith("UserWideCacheLocator"):
                _FALLBACK[:] = [cache.cache_path]
            dispatcher._cache = _ForgivingCache(cache)
        return dispatcher

    return compile_lazily


jit: Any = _compiler()
internal: Any = _compiler(no_cpython_wrapper=True)
inlined: Any = _compiler(inline="always")
either: Any = register_jitable(**_COMMON)  # compiled where a kernel calls it, plain Python elsewhere


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a word of 64 bits that is not 0, as one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], never_zero)

    return types.uint64(types.uint64), generate
