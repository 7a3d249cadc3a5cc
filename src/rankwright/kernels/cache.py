"""Compiled kernels in files, for processes to come.

The cache saves time and decides nothing: where it cannot be written, is full or was damaged, kernels are compiled
again, with one warning. A kernel in the cache is valid as long as no file of this folder has changed: Numba looks at
the file of a kernel alone, and what the kernel calls may be in another.

Several processes may use one folder, and any of them may be killed at any moment. Numba keeps an index that says which
file has which kernel, and writes it before that file: in between, others would find the code of an older source or of
other types there, and run it. Here each file says itself what it has.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

_WARNED: list[str] = []
_FALLBACK: list[str] = []  # the user's folder, where the package's cannot be written to
_STAMP = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size)
    for path in sorted(Path(__file__).parent.glob("*.py"))
)
_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # in the names of some types, another one in each process


class _KernelFiles(IndexDataCacheFile):
    """The files of a kernel, one for each of its signatures."""

    def save(self, key: Any, data: Any) -> None:
        """Write a compiled function."""
        code = self._dump(data)
        head = self._dump((_STAMP, key, hashlib.sha256(code).digest()))
        with self._open_for_write(self._path(key)) as file:
            for part in (self._dump(self._version), head, code):
                file.write(part)

    def load(self, key: Any) -> Any:
        """Read a compiled function, or None where there is none of this source, Numba and signature."""
        try:
            content = Path(self._path(key)).read_bytes()
        except FileNotFoundError:
            return None
        file = io.BytesIO(content)
        if pickle.load(file) != self._version:  # what follows may not be readable
            return None
        stamp, known, digest = pickle.load(file)
        if (stamp, known) != (_STAMP, key):
            return None
        code = content[file.tell() :]
        if hashlib.sha256(code).digest() != digest:
            raise ValueError(f"{self._path(key)} is damaged")
        return pickle.loads(code)

    def flush(self) -> None:
        """Do nothing: the next save replaces the file."""

    def _path(self, key: Any) -> str:
        name = hashlib.sha256(_ADDRESS.sub("", repr(key)).encode()).hexdigest()
        return str(self._data_path(self._data_name(int(name[:12], 16))))


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


def enable_cache(dispatcher: Any) -> bool:
    """Keep what is compiled of a function in files; return whether that is possible."""
    try:
        dispatcher.enable_caching()
        cache = dispatcher._cache
        cache._cache_file = _KernelFiles(cache.cache_path, cache._impl.filename_base, _STAMP)
        by_user = type(cache._impl.locator).__name__.endswith("UserWideCacheLocator")
    except (
        RuntimeError,
        OSError,
        AttributeError,
        TypeError,
    ) as error:  # no folder can be written to, or another Numba
        _warn_once(error)
        return False
    if by_user:
        _FALLBACK[:] = [cache.cache_path]
    dispatcher._cache = _ForgivingCache(cache)
    return True


def cache_folder() -> str | None:
    """Return the user's own folder where kernels are cached, or None if they are cached beside their source."""
    return _FALLBACK[0] if _FALLBACK else None
