"""The order of documents by descending score, ties in input order: exact, and in linear time.

`sort_descending` orders the documents of a query. `shell_sort` sorts short runs in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rankwright.kernels.jit import INDICES, ROW, either, internal, jit, shared

# Up to this many documents, comparing each with all, several at a time, beats sorting by digits.
_SMALL = 64
_DIGIT_VALUES = 256  # of a digit of 8 bits, the longest
_INDEX_MASK = np.uint64(0xFFFFFFFF)


@either
def sort_scratch(longest: int) -> Any:
    """Allocate the memory of `sort_descending`, for queries of up to ``longest`` documents."""
    return np.empty(2 * longest + _DIGIT_VALUES, np.uint64)


@shared(types.void(ROW, types.int64, INDICES, types.uint64[::1]))
def sort_descending(score: Any, n: int, order: Any, scratch: Any) -> None:
    """Write into ``order[:n]`` the documents by descending score, equal scores by index.

    In a short query a document's place is the number of documents before it. In a long query each document becomes a
    64-bit key: the distance of its score from the highest, as an integer of two to four digits, then its index. The
    keys are sorted digit by digit. Runs of documents with the same integer are then sorted by their full scores; the
    digits only have to be fine enough to keep such runs short.
    """
    if n <= _SMALL:
        _place(score, n, order)
        return
    for i in range(n):
        order[i] = i
    highest = score[0]
    lowest = score[0]
    for a in range(n):
        highest = score[a] if score[a] > highest else highest
        lowest = score[a] if score[a] < lowest else lowest
    if highest == lowest:
        return
    digit_bits = 6 if n <= 512 else 8
    n_digits = 2 if n <= 1 << 12 else 3 if n <= 1 << 20 else 4
    step = (float(1 << (digit_bits * n_digits)) - 1.0) / (highest - lowest)
    # Infinite scores, or scores that hardly differ, form a single run instead.
    by_digits = 0.0 < step < np.inf
    keys = scratch[:n]
    spare = scratch[n : 2 * n]
    result = keys if n_digits % 2 == 0 else spare
    if by_digits:
        for a in range(n):
            keys[a] = (np.uint64((highest - score[a]) * step) << np.uint64(32)) | np.uint64(a)
        _count_sort(keys, spare, scratch[2 * n :], n, digit_bits, n_digits)
        for i in range(n):
            order[i] = np.int64(result[i] & _INDEX_MASK)
    start = np.int64(0)  # with a plain 0, shell_sort would be compiled for a second type
    while start < n - 1:
        stop = start + (1 if by_digits else n)
        while stop < n and (result[stop] ^ result[start]) <= _INDEX_MASK:
            stop += 1
        if stop - start > 1:
            shell_sort(score, order, start, stop)
        start = stop


@internal
def shell_sort(score: Any, order: Any, start: int, stop: int) -> None:
    """Sort the documents ``order[start:stop]`` by descending score, equal scores by index, in place."""
    n = stop - start
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, stop):
            a = order[i]
            z = score[a]
            j = i
            while j >= start + gap:
                b = order[j - gap]
                if score[b] > z or (score[b] == z and b < a):
                    break
                order[j] = b
                j -= gap
            order[j] = a
        gap //= 3


@internal
def _place(score: Any, n: int, order: Any) -> None:
    """Put each document at the place given by the number of documents before it."""
    places = np.int64(0)
    for a in range(n):
        place = np.int64(0)
        for b in range(np.uint64(n)):
            place += score[b] > score[a]
        order[place] = a
        places += place
    if 2 * places == n * (n - 1):  # 0 + 1 + ... + (n - 1): no two share a place
        return
    for a in range(n):
        place = np.int64(0)
        for b in range(np.uint64(a)):
            place += score[b] >= score[a]
        for b in range(np.uint64(a), np.uint64(n)):
            place += score[b] > score[a]
        order[place] = a


@internal
def _count_sort(key: Any, spare: Any, count: Any, n: int, digit_bits: int, n_digits: int) -> None:
    """Sort keys by the digits above the index, lowest digit first; indices are ascending already.

    The result is in ``key`` after an even number of digits, in ``spare`` after an odd one.
    """
    source = key
    target = spare
    mask = np.uint64((1 << digit_bits) - 1)
    one = np.uint64(1)
    for number in range(n_digits):
        shift = np.uint64(32 + number * digit_bits)
        for digit in range(1 << digit_bits):
            count[digit] = np.uint64(0)
        for i in range(n):
            count[(source[i] >> shift) & mask] += one
        place = np.uint64(0)
        for digit in range(1 << digit_bits):
            here = count[digit]
            count[digit] = place
            place += here
        for i in range(n):
            digit = (source[i] >> shift) & mask
            target[count[digit]] = source[i]
            count[digit] += one
        source, target = target, source


@jit
def longest_query(q0: int, q1: int, bounds: Any) -> int:
    """Return the number of documents of the longest query in [q0, q1): the size of scratch arrays."""
    longest = 0
    for q in range(q0, q1):
        longest = max(longest, bounds[q + 1] - bounds[q])
    return longest


@internal
def first_at_most(limit: float, n: int, b: Any) -> int:
    """Return the first position whose b, descending, is at most ``limit``."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if b[middle] > limit:
            low = middle + 1
        else:
            high = middle
    return low
