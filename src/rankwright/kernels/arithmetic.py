"""Scalar functions that the compiler can turn into vector instructions, and passes over a whole gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from rankwright.kernels.jit import inlined, internal, intrinsic_or, jit

_LOG2_E = 1.4426950408889634
_LN2 = math.log(2.0)
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, found in the low bits
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_TWO_52 = 0x4330000000000000  # the bits of 2^52; exclusive or with a small integer adds it


@intrinsic_or(lambda value: np.float64(value).view(np.int64))
def bits_of(_context: Any, value: Any) -> Any:
    """Read the 64 bits of a float as an integer."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic_or(lambda bits: np.int64(bits).view(np.float64))
def float_of(_context: Any, bits: Any) -> Any:
    """Read 64 bits of an integer as a float."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@intrinsic_or(lambda word: np.uint64((int(word) & -int(word)).bit_length() - 1))
def lowest_bit(_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a word of 64 bits that is not 0, as one instruction."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(args[0], never_zero)

    return types.uint64(types.uint64), codegen


@inlined
def exp_negative(x: float) -> float:
    """Compute e^x for x <= 0 to two units in the last place; e^-708 below -708.

    Unlike the C library's function it has no branch and no call, so loops over it vectorise. Taylor's series
    of degree 13 on [-ln 2 / 2, ln 2 / 2], summed as a tree (Estrin) to keep the chain of dependent
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
    series = a + r4 * b + (r4 * r4) * (c + r4 * (1 / 479001600 + r * (1 / 6227020800)))
    return series * float_of((bits_of(shifted) + 1023) << 52)


@inlined
def log_positive(x: float) -> float:
    """Compute ln x for normal x > 0 to about one unit in the last place, without branch or call.

    x = 2^k m with m within a factor sqrt(2) of 1, and ln m = 2 artanh((m - 1) / (m + 1)) by its series.
    """
    bits: Any = bits_of(x)
    k = (bits - _SQRT_HALF) >> 52
    m = float_of(bits - (k << 52))
    exponent = float_of((k + 1023) ^ _TWO_52) - (2.0**52 + 1023.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    a = (1 / 3 + z * (1 / 5)) + z2 * (1 / 7 + z * (1 / 9))
    b = (1 / 11 + z * (1 / 13)) + z2 * (1 / 15 + z * (1 / 17))
    series = a + z4 * (b + z4 * (1 / 19 + z * (1 / 21)))
    return exponent * _LN2 + (2.0 * s + 2.0 * s * z * series)


@inlined
def turn(u: float) -> tuple[float, float]:
    """Compute cosine and sine of a share u of a full turn, 0 <= u <= 1, without branch or call."""
    quarter = (u * 4.0 + _ROUND) - _ROUND
    x = (u - 0.25 * quarter) * (2.0 * math.pi)
    z = x * x
    z2 = z * z
    z4 = z2 * z2
    low = (1.0 - z * (1 / 6)) + z2 * (1 / 120 - z * (1 / 5040))
    high = (1 / 362880 - z * (1 / 39916800)) + z2 * (1 / 6227020800 - z * (1 / 1307674368000))
    sine = x * (low + z4 * high)
    low = (1.0 - z * (1 / 2)) + z2 * (1 / 24 - z * (1 / 720))
    high = (1 / 40320 - z * (1 / 3628800)) + z2 * (1 / 479001600 - z * (1 / 87178291200))
    cosine = low + z4 * high
    swapped = quarter == 1.0 or quarter == 3.0
    first = sine if swapped else cosine
    second = cosine if swapped else sine
    first = -first if quarter == 1.0 or quarter == 2.0 else first
    second = -second if quarter == 2.0 or quarter == 3.0 else second
    return first, second


@internal
def total(values: Any, start: int, stop: int) -> float:
    """Sum ``values[start:stop]`` in four interleaved chains: a fixed order that is still fast."""
    low = np.uint64(start)
    high = np.uint64(stop)
    one = np.uint64(1)
    four = np.uint64(4)
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    i = low
    blocks = low + (high - low) // four * four
    while i < blocks:
        s0 += values[i]
        s1 += values[i + one]
        s2 += values[i + np.uint64(2)]
        s3 += values[i + np.uint64(3)]
        i += four
    while i < high:
        s0 += values[i]
        i += one
    return (s0 + s1) + (s2 + s3)


@jit
def finish(start: int, stop: int, floor: float, weights: Any, grad: Any, hess: Any) -> None:
    """Raise curvatures to at least ``floor`` times the gradient's size, and apply weights unless they are empty."""
    for a in range(np.uint64(start), np.uint64(stop)):
        hess[a] = max(hess[a], floor * abs(grad[a]))
    if weights.size > 0:
        for a in range(np.uint64(start), np.uint64(stop)):
            grad[a] *= weights[a]
            hess[a] *= weights[a]


@jit
def round_to(values: Any, unit: float, out: Any) -> None:
    """Write the values, rounded to multiples of ``unit`` (a power of two), into ``out`` in its dtype."""
    inverse = 1.0 / unit
    for a in range(values.size):
        out[a] = ((values[a] * inverse + _ROUND) - _ROUND) * unit
