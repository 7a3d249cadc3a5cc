"""Functions that many kernels call, compiled once.

Numba copies what a kernel calls into the kernel, and LLVM optimises each copy again. That is what makes inner loops
fast, and it is most of the time of a first run where the function is large and is called once per query. A `shared`
function is called through a pointer instead, as functions of dynamic libraries are: each has a cell that is empty
until the first call, in any kernel, which asks `_bind` for the address. So what a process does not call, it does not
compile or load either.

A cell is known to compiled code by a name, under which it is registered again in each process. The name has the
signature in it, and the cache's stamp covers all kernels (`jit`), so that cached code finds what it was compiled for.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import llvmlite.binding
import llvmlite.ir
from numba import config, types
from numba.core import cgutils, sigutils
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import lower_builtin

from rankwright.kernels.jit import KNOWN, allocating, jit, pointed, pointed_allocating

_CELLS: dict[
    int, tuple[Any, ctypes.c_void_p, Any]
] = {}  # by address: the function, its cell and its signature


def shared(signature: Any, allocates: bool = False) -> Callable[[Any], Any]:
    """Compile a function once, with this signature (text or a type), for all kernels that call it.

    A function that creates arrays ``allocates``. Python calls it as any other kernel. Arguments of other types are
    converted where Numba can.
    """
    for_kernels, for_python = (pointed_allocating, allocating) if allocates else (pointed, jit)

    def decorate(function: Any) -> Any:
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        if not KNOWN:
            return for_python(
                function
            )  # copied into each kernel, by a version of Numba that has not been tried
        arguments, result = sigutils.normalize_signature(signature)
        name = f"rankwright.{function.__module__}.{function.__name__}{arguments}".replace(" ", "")
        cell = ctypes.c_void_p()
        address = ctypes.addressof(cell)
        _CELLS[address] = for_kernels(function), cell, arguments
        llvmlite.binding.add_symbol(name, address)
        from_python = FunctionType(
            function.__code__, function.__globals__, f"{function.__name__}_from_python"
        )
        from_python.__qualname__ = (
            from_python.__name__
        )  # a cache of its own: the other has no entry point for Python
        from_python.__module__ = function.__module__
        public = for_python(from_python)

        @wraps(function)
        def called(*values: Any) -> Any:
            return public(*values)

        _teach(called, name, arguments, result)
        return called

    return decorate


def _teach(called: Any, name: str, arguments: Any, result: Any) -> None:
    """Tell Numba how a kernel calls the function: through its cell."""
    template = type(
        called.__name__,
        (ConcreteTemplate,),
        {"key": called, "cases": [typing_signature(result, *arguments)]},
    )
    infer_global(called, types.Function(template))

    @lower_builtin(called, *arguments)
    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        module, pointer = builder.module, cgutils.voidptr_t
        cell = module.globals.get(name) or llvmlite.ir.GlobalVariable(module, pointer, name)
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(cell))):
            binder_type = llvmlite.ir.FunctionType(llvmlite.ir.VoidType(), [pointer])
            binder = cgutils.get_or_insert_function(module, binder_type, _BINDER)
            builder.call(binder, [builder.bitcast(cell, pointer)])
            with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(cell))):
                reason = (f"{called.__name__} could not be compiled; the reason is printed above.",)
                context.call_conv.return_user_exc(builder, RuntimeError, reason)
        form = context.call_conv.get_function_type(result, arguments)
        function = builder.bitcast(builder.load(cell), form.as_pointer())
        status, returned = context.call_conv.call_function(
            builder, function, result, arguments, values
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return returned


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _bind(address: int) -> None:
    """Fill a cell: load the function from the cache or compile it.

    An exception has no way out through compiled code. It is printed, the cell stays empty, and the kernel raises an
    error of its own; Ctrl-C is repeated once the kernel is running again.
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


_BINDER = "rankwright.bind"
llvmlite.binding.add_symbol(_BINDER, ctypes.cast(_bind, ctypes.c_void_p).value)
