"""Scalar pieces that the compiler can turn into vector instructions."""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, which then sits in the low bits


@intrinsic
def bits_of(_context: Any, value: Any) -> Any:
    """Read the 64 bits of a float as an integer."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic
def float_of(_context: Any, bits: Any) -> Any:
    """Read 64 bits of an integer as a float."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@njit(nogil=True, cache=True, inline="always")
def exp_negative(x: float) -> float:
    """Compute e^x for x <= 0 to about one unit in the last place; e^-708 below -708.

    Unlike the C library's function it has no branch and no call, so loops over it vectorise. Taylor's series
    of degree 12 on [-ln 2 / 2, ln 2 / 2], summed as a tree (Estrin) to keep the chain of dependent
    operations short.
    """
    x = x if x > -708.0 else -708.0
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    a = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    b = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    c = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    series = a + r4 * b + (r4 * r4) * (c + r4 * (1 / 479001600))
    return series * float_of((bits_of(shifted) + 1023) << 52)


@njit(nogil=True, cache=True)
def total(values: Any, start: int, stop: int) -> float:
    """Sum ``values[start:stop]`` in four interleaved chains: a fixed order that is still fast."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    blocks = start + (stop - start) // 4 * 4
    for i in range(start, blocks, 4):
        s0 += values[i]
        s1 += values[i + 1]
        s2 += values[i + 2]
        s3 += values[i + 3]
    for i in range(blocks, stop):
        s0 += values[i]
    return (s0 + s1) + (s2 + s3)
