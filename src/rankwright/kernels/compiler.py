"""Numba's compiler, without what kernels do not use: users wait for the first compilation, so it is kept short.

What is shortened here rests on parts of Numba that are not public; `jit` decides whether its version has them. The
code that comes out is the same. What is left out:

- passes over what kernels do not contain;
- LLVM's work on a function before it is seen as a part of the kernels that call it, and on entry points for Python;
- instructions that count references, and all but the few that an element of an array needs. LLVM would remove them;
- typing the same operation again.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering
from numba.np.arrayobj import fix_integer_index, load_item, store_item

# Numba's passes over what kernels do not contain: closures, `with`, errors with arguments, branches and loops that
# depend on literals, expressions of whole arrays, parallel loops.
_UNUSED_PASSES = {
    "DeadBranchPrune",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "RewriteSemanticConstants",
    "WithLifting",
}
_ENTRY_POINT = "_ZN7cpython"  # how the names of entry points for Python begin


class _Options(Flags):
    """The options of one compilation, which Numba compares for each overload of each operator."""

    __slots__ = ("_known",)
    _known: tuple[dict[str, Any], dict[str, Any], int]

    def _lookup(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Return what was set, all values and their hash; they are found again only where another option was set."""
        if not hasattr(self, "_known") or self._known[0] != self._values:
            values = super().values()
            self._known = dict(self._values), values, hash(tuple(sorted(values)))
        return self._known

    def values(self) -> dict[str, Any]:
        """Return the values of all options."""
        return self._lookup()[1]

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __hash__(self) -> int:
        return self._lookup()[2]


class _TypingContext:
    """Numba's knowledge of types, which finds out once what an operation gives for the same types."""

    _signatures: ClassVar[dict[tuple[Any, ...], Any]] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """Return the signature of a call."""
        if keywords or not isinstance(function, types.Function):
            return self._context.resolve_function_type(function, arguments, keywords)
        call = (function, *arguments)
        if call not in self._signatures:
            self._signatures[call] = self._context.resolve_function_type(
                function, arguments, keywords
            )
        return self._signatures[call]


class _Lower(Lower):
    """Numba's translation into LLVM's instructions, with shorter forms of the most frequent ones."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a variable. What was there before matters only where references are counted."""
        if self.context.enable_nrt or argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Forget a variable. It is cleared only where references are counted."""
        if self.context.enable_nrt or self._disable_sroa_like_opt:
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Read what is at an index."""
        array, place = signature.args
        if not self._is_element(array, place):
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(
            self.context, self.builder, array, self._element(array, value, place, index)
        )
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write what is at an index."""
        array, place, _ = signature.args
        if not self._is_element(array, place):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        pointer = self._element(array, target_var, place, index_var)
        store_item(
            self.context, self.builder, array, self._cast_var(value_var, array.dtype), pointer
        )
        return None

    def _is_element(self, array: Any, place: Any) -> bool:
        """Return whether this is a number in a vector without gaps."""
        return (
            isinstance(array, types.Array)
            and (array.ndim, array.layout) == (1, "C")
            and isinstance(array.dtype, types.Number | types.Boolean)
            and isinstance(place, types.Integer)
            and not self.context.enable_boundscheck
        )

    def _element(self, array: Any, array_variable: Any, place: Any, index_variable: Any) -> Any:
        """Return the pointer to an element."""
        fields = self.context.data_model_manager[array]
        value = self.loadvar(array_variable.name)
        size = self.builder.extract_value(value, [fields.get_field_position("shape"), 0])
        data = self.builder.extract_value(value, fields.get_field_position("data"))
        index = self._cast_var(index_variable, place)
        return self.builder.gep(
            data, [fix_integer_index(self.context, self.builder, place, index, size)]
        )


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    """The pass that translates."""

    _name = "kernel_lowering"  # type: ignore[assignment]

    @property
    def lowering_class(self) -> type:
        """Return the class that translates."""
        return _Lower


class _Library(JITCodeLibrary):
    """The code of a kernel, which LLVM optimises once: together with what it calls, and not each function first."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def add_ir_module(self, module: Any) -> None:
        """Add functions. An entry point for Python runs once a call and is not worth optimising."""
        for function in module.functions:
            if function.name.startswith(_ENTRY_POINT) and not function.is_declaration:
                function.attributes.add("noinline")
                function.attributes.add("optnone")
        super().add_ir_module(module)


class _PartLibrary(_Library):
    """The code of a function that only kernels call. Kernels take it in as it is; there is no machine code of it."""

    class codegen:
        """What Numba would tell the machine code."""

        @staticmethod
        def set_env(name: str, environment: Any) -> None:
            """Do nothing."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class KernelCompiler(CompilerBase):
    """The compiler of kernels."""

    library: type = _Library

    def __init__(self, *arguments: Any) -> None:
        typing_context, *others, flags, local_types = arguments
        super().__init__(_TypingContext(typing_context), *others, _Options(flags), local_types)

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes without the unused ones."""
        if self.state.library is None:
            self.state.library = self.library(
                self.state.targetctx.codegen(), self.state.func_id.func_qualname
            )
            self.state.library.enable_object_caching()  # so that it can be written to the cache
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes[:] = [
            (_Lowering if step is NativeLowering else step, description)
            for step, description in manager.passes
            if step.__name__ not in _UNUSED_PASSES
        ]
        return [manager]


class PartCompiler(KernelCompiler):
    """The compiler of functions that only kernels call."""

    library = _PartLibrary
