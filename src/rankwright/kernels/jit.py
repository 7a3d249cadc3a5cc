"""How kernels are compiled: as plain functions that release the GIL, kept in files for later processes.

There is no ``fastmath``, because it would reorder sums. Division follows IEEE 754, because Python's check for zero
would prevent loops from being vectorised. Indices that might be negative prevent it too, hence the unsigned ranges in
hot loops; scalar functions inside such loops are `inlined`.

Users wait for the first compilation, so it is kept short: functions that only kernels call are `internal`, which have
no entry point for Python and no place in the cache, and large functions that many kernels call are `shared`.
"""

from __future__ import annotations

import _thread
import ctypes
import hashlib
import inspect
import io
import pickle
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

try:
    import llvmlite.binding
    import llvmlite.ir
    from numba import config, njit, types
    from numba.core import event
    from numba.core.caching import FunctionCache, IndexDataCacheFile
    from numba.extending import intrinsic, lower_builtin, register_jitable, type_callable
except ImportError as error:
    # Numba refuses versions of NumPy that are newer than itself.
    raise ImportError(
        f"rankwright compiles its kernels with Numba, which cannot be imported ({error}). Install versions that fit: "
        'pip install --upgrade numba "numpy>=1.26".'
    ) from error

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Numba counts references to arrays, and loops with counts in them are not vectorised. Kernels work in memory that they
# are given, so they need no counts; those that do allocate say so. A function that sets neither would inherit the
# setting of the first kernel that calls it.
_WITHOUT_COUNTS: dict[str, Any] = {"_nrt": False}


def _cached(**options: Any) -> Callable[[Any], Any]:
    def compile_lazily(function: Any) -> Any:
        dispatcher = njit(**_OPTIONS, **options)(function)
        if not config.DISABLE_JIT:  # type: ignore[attr-defined]
            _enable_cache(dispatcher)
        return dispatcher

    return compile_lazily


jit: Any = _cached(**_WITHOUT_COUNTS)
allocating: Any = _cached(_nrt=True)
# LLVM optimises an internal function as a part of the kernel, as if it were written there.
_AS_PART: dict[str, Any] = {"no_cpython_wrapper": True, "forceinline": True}
internal: Any = njit(**_OPTIONS, **_WITHOUT_COUNTS, **_AS_PART)
inlined: Any = njit(**(_OPTIONS | _WITHOUT_COUNTS | {"inline": "always"}))
# Plain Python unless a kernel calls it.
either: Any = register_jitable(**_OPTIONS)


def intrinsic_or(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an intrinsic, or ``plain`` if the kernels run as Python (NUMBA_DISABLE_JIT)."""
    return lambda compiled: plain if config.DISABLE_JIT else intrinsic(compiled)  # type: ignore[attr-defined]


# Functions that are called through a pointer
#
# Numba copies what a kernel calls into the kernel, and LLVM optimises each copy again. This makes inner loops fast,
# but for a large function that is called once per query it is most of the time of a first run. A `shared` function is
# called through a pointer instead, as functions of dynamic libraries are. Each has a cell that is empty until the
# first call in any kernel, which asks `_bind` for the address, so a process compiles and loads only what it calls.
#
# Compiled code knows a cell by a name, under which it is registered again in each process. The name contains the
# signature, and the cache's stamp covers all kernels, so that cached code finds the function it was compiled for.

# By the address of its cell: the function, the cell and the types of the arguments.
_CELLS: dict[int, tuple[Any, ctypes.c_void_p, Any]] = {}
_BINDER = "rankwright.bind"
ROW = types.float64[::1]
INDICES = types.int64[::1]


def shared(signature: Any, allocates: bool = False) -> Callable[[Any], Any]:
    """Compile a function once, with this signature, for all kernels that call it.

    A function that creates arrays ``allocates``. Arguments of other types are converted if Numba can. Python calls the
    function as any other kernel.
    """
    compiled = allocating if allocates else jit

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return dispatcher
        name = f"rankwright.{function.__module__}.{function.__name__}{signature.args}"
        name = name.replace(" ", "")
        cell = ctypes.c_void_p()
        address = ctypes.addressof(cell)
        _CELLS[address] = dispatcher, cell, signature.args
        llvmlite.binding.add_symbol(name, address)

        # Numba would link a dispatcher into the kernel, so kernels see a plain function that it is taught to call.
        @wraps(function)
        def called(*values: Any) -> Any:
            return dispatcher(*values)

        _teach_call(called, name, signature)
        return called

    return decorate


def _teach_call(called: Any, name: str, signature: Any) -> None:
    """Tell Numba the types of a shared function, and how a kernel calls it: through its cell."""

    @type_callable(called)
    def types_of_call(_: Any) -> Any:
        def find_types(*given: Any) -> Any:
            return signature

        find_types.pysig = inspect.signature(called)  # type: ignore[attr-defined]
        return find_types

    @lower_builtin(called, *signature.args)
    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        module, pointer = builder.module, llvmlite.ir.IntType(8).as_pointer()
        cell = module.globals.get(name) or llvmlite.ir.GlobalVariable(module, pointer, name)

        def if_empty() -> Any:
            empty = builder.icmp_unsigned("==", builder.load(cell), pointer(None))
            return builder.if_then(empty, likely=False)

        with if_empty():
            binder_type = llvmlite.ir.FunctionType(llvmlite.ir.VoidType(), [pointer])
            binder = module.globals.get(_BINDER)
            binder = binder or llvmlite.ir.Function(module, binder_type, _BINDER)
            builder.call(binder, [builder.bitcast(cell, pointer)])
            with if_empty():
                reason = (f"{called.__name__} could not be compiled; the reason is printed above.",)
                context.call_conv.return_user_exc(builder, RuntimeError, reason)
        convention, result = context.call_conv, signature.return_type
        form = convention.get_function_type(result, signature.args)
        function = builder.bitcast(builder.load(cell), form.as_pointer())
        status, returned = convention.call_function(
            builder, function, result, signature.args, values
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return returned


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _bind(address: int) -> None:
    """Fill a cell: load the function from the cache or compile it.

    An exception has no way out through compiled code. It is printed, the cell stays empty, and the kernel raises an
    error of its own. Ctrl-C is repeated when the kernel is running again.
    """
    dispatcher, cell, arguments = _CELLS[address]
    interrupted = False
    while cell.value is None:
        try:
            dispatcher.compile(arguments)
            compiled = dispatcher.overloads[arguments]
            cell.value = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        threading.Timer(0.05, _thread.interrupt_main).start()


llvmlite.binding.add_symbol(_BINDER, ctypes.cast(_bind, ctypes.c_void_p).value)


# The cache: compiled kernels in files, for later processes
#
# The cache saves time and decides nothing: if it cannot be written, is full or was damaged, kernels are compiled again
# with one warning. Numba considers a kernel valid as long as its own file has not changed, but the functions that the
# kernel calls may be in another, so here no file of this folder may have changed either.
#
# Several processes may use one folder, and any of them may be killed at any moment. Numba writes an index that says
# which file has which kernel before it writes that file. In between, another process would find the code of an older
# source or of other types there and run it, so here each file names its own content and there is no index.

_STAMP = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size)
    for path in sorted(Path(__file__).parent.glob("*.py"))
)
_ADDRESS = re.compile(
    " at 0x[0-9a-f]+"
)  # in the names of some types, and different in each process
_WARNED: list[str] = []
_USERS_FOLDER: list[str] = []  # used if the package's folder cannot be written to


class _KernelFiles(IndexDataCacheFile):
    """The files of a kernel, one for each of its signatures."""

    def __init__(self, folder: str, filename_base: str, stamp_of_file: Any) -> None:
        super().__init__(folder, filename_base, (_STAMP, stamp_of_file))

    def save(self, key: Any, data: Any) -> None:
        """Write a compiled function."""
        code = self._dump(data)
        head = self._dump((self._source_stamp, key, hashlib.sha256(code).digest()))
        with self._open_for_write(self._path(key)) as file:
            for part in (self._dump(self._version), head, code):
                file.write(part)

    def load(self, key: Any) -> Any:
        """Return a compiled function, or None if there is none of this source, Numba and signature."""
        try:
            content = Path(self._path(key)).read_bytes()
        except FileNotFoundError:
            return None
        file = io.BytesIO(content)
        if pickle.load(file) != self._version:  # another Numba's file may not be readable further
            return None
        stamp, stored_key, digest = pickle.load(file)
        if (stamp, stored_key) != (self._source_stamp, key):
            return None
        code = content[file.tell() :]
        if hashlib.sha256(code).digest() != digest:
            raise ValueError(f"{self._path(key)} is damaged")
        return pickle.loads(code)

    def flush(self) -> None:
        """Do nothing, because the next save replaces the file."""

    def _path(self, key: Any) -> str:
        name = hashlib.sha256(_ADDRESS.sub("", repr(key)).encode()).hexdigest()
        return str(self._data_path(self._data_name(int(name[:12], 16))))


class _KernelCache(FunctionCache):
    """Numba's cache of a function, with failures that cost time only."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _KernelFiles(
            self.cache_path, self._impl.filename_base, locator.get_source_stamp()
        )
        if type(locator).__name__.endswith("UserWideCacheLocator"):
            _USERS_FOLDER[:] = [self.cache_path]

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a compiled function, or None if there is none or it cannot be read."""
        try:
            return super().load_overload(signature, target_context)
        except Exception as error:  # damaged bytes can lead to any error
            _warn_once(error)
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Write a compiled function, if that is possible."""
        try:
            super().save_overload(signature, data)
        except Exception as error:  # for example a full disk
            _warn_once(error)


def _enable_cache(dispatcher: Any) -> None:
    """Keep a function's compiled code in files, if there is a folder that can be written to."""
    try:
        dispatcher._cache = _KernelCache(dispatcher.py_func)
    except (RuntimeError, OSError) as error:
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


# Time: compilation is announced before it begins, and counted apart from training


class _Clock(event.Listener):
    """Seconds that this process has compiled. One thread compiles at a time, a kernel's callees inside it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.show: Callable[[str], None] | None = None
        self.show_after = 0.0
        self.announced = False
        self._depth = 0
        self._began = 0.0

    def on_start(self, _: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            waited = self.seconds >= self.show_after
            if self.show is not None and waited and not self.announced:
                self.announced = True
                self.show(_message())

    def on_end(self, _: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


_CLOCK = _Clock()
event.register("numba:compile", _CLOCK)  # not sent if a kernel is loaded from the cache


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling so far."""
    return _CLOCK.seconds


@contextmanager
def announcing(show: Callable[[str], None], after: float = 0.0) -> Iterator[None]:
    """Call ``show`` with one line before the process compiles its first kernel, if that is in the block.

    With ``after``, call it only if the process has compiled for so many seconds already. In nested blocks the outermost
    ``show`` is called.
    """
    if _CLOCK.show is not None:
        yield
        return
    _CLOCK.show = show
    _CLOCK.show_after = after
    try:
        yield
    finally:
        _CLOCK.show = None


def _message() -> str:
    message = "compiling kernels, first run only"
    if _USERS_FOLDER:
        message += (
            f" (the package's folder cannot be written to; they are cached in {_USERS_FOLDER[0]})"
        )
    return message
