"""The order of documents by descending score, ties in input order: exact, and linear in their number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.arithmetic import bits_of
from rankwright.kernels.jit import jit

_SMALL = 48  # below this many documents, insertion beats counting
_INDEX_BITS = 32


@jit
def sort_descending(score: Any, n: int, order: Any, key: Any, spare: Any, count: Any) -> None:
    """Write into ``order[:n]`` the documents by descending score, equal scores by index.

    A document becomes one 64-bit key: the leading bits of its score, turned so that larger scores
    come first, then its index. The keys are sorted as integers; documents that agree in the leading
    bits are put right by their full scores afterwards. Scratch: ``key``, ``spare`` uint64 [n],
    ``count`` int64 [256].
    """
    index_mask = (np.uint64(1) << np.uint64(_INDEX_BITS)) - np.uint64(1)
    sign = np.uint64(1) << np.uint64(63)
    for a in range(n):
        bits = np.uint64(bits_of(score[a] + 0.0))  # + 0.0 makes -0.0 equal to 0.0
        ascending = ~bits if bits & sign else bits | sign
        key[a] = (~ascending & ~index_mask) | np.uint64(a)
    result = key
    if n < _SMALL:
        _insert(key, n)
    else:
        result = _count_sort(key, spare, count, n)
    for i in range(n):
        order[i] = np.int64(result[i] & index_mask)
    start = 0
    while start < n:
        stop = start + 1
        disordered = False
        while stop < n and (result[stop] ^ result[start]) <= index_mask:
            disordered |= score[order[stop - 1]] != score[order[stop]]
            stop += 1
        if disordered:
            merge_by(score, True, order, start, stop)
        start = stop


@jit
def _insert(key: Any, n: int) -> None:
    for i in range(1, n):
        x = key[i]
        j = i - 1
        while j >= 0 and key[j] > x:
            key[j + 1] = key[j]
            j -= 1
        key[j + 1] = x


@jit
def _count_sort(key: Any, spare: Any, count: Any, n: int) -> Any:
    """Sort byte by byte from the end of the index on; the indices ascend already."""
    source = key
    target = spare
    byte = np.uint64(255)
    for bit in range(_INDEX_BITS, 64, 8):
        shift = np.uint64(bit)
        count[:] = 0
        for i in range(n):
            count[(source[i] >> shift) & byte] += 1
        if count[(source[0] >> shift) & byte] == n:
            continue
        place = 0
        for digit in range(256):
            here = count[digit]
            count[digit] = place
            place += here
        for i in range(n):
            digit = (source[i] >> shift) & byte
            target[count[digit]] = source[i]
            count[digit] += 1
        source, target = target, source
    return source


@jit
def merge_by(value: Any, descending: bool, items: Any, start: int, stop: int) -> None:
    """Sort ``items[start:stop]`` by ``value[item]``, equal ones as they are: a bottom-up merge sort."""
    n = stop - start
    source = np.empty(n, np.int64)
    target = np.empty(n, np.int64)
    for k in range(n):
        source[k] = items[start + k]
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            i = low
            middle = min(low + width, n)
            j = middle
            high = min(low + 2 * width, n)
            for k in range(low, high):
                left = i < middle
                if left and j < high:
                    a = value[source[i]]
                    b = value[source[j]]
                    left = a >= b if descending else a <= b
                if left:
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
        source, target = target, source
        width *= 2
    for k in range(n):
        items[start + k] = source[k]


@jit
def longest_query(q0: int, q1: int, bounds: Any) -> int:
    """Return the number of documents of the longest query in [q0, q1): the size of scratch arrays."""
    longest = 0
    for q in range(q0, q1):
        longest = max(longest, bounds[q + 1] - bounds[q])
    return longest
