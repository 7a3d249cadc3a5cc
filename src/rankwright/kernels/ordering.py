"""The order of documents by descending score, ties in input order: exact, and linear in their number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.arithmetic import bits_of
from rankwright.kernels.jit import jit

_SMALL = 48  # below this many documents, insertion and merging beat counting
_INDEX_BITS = 32
_SHORT = 16  # runs up to this length are put right by insertion


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
    if n < _SMALL:
        result = _merge_sort(key, spare, n)
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
            _put_right(score, order[start:stop])
        start = stop


@jit
def _merge_sort(key: Any, spare: Any, n: int) -> Any:
    run = 8
    for low in range(0, n, run):
        for i in range(low + 1, min(low + run, n)):
            x = key[i]
            j = i - 1
            while j >= low and key[j] > x:
                key[j + 1] = key[j]
                j -= 1
            key[j + 1] = x
    source = key
    target = spare
    while run < n:
        for low in range(0, n, 2 * run):
            middle = min(low + run, n)
            high = min(low + 2 * run, n)
            i = low
            j = middle
            for k in range(low, high):
                if i < middle and (j >= high or source[i] <= source[j]):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
        source, target = target, source
        run *= 2
    return source


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
def _put_right(score: Any, run: Any) -> None:
    """Sort a run of documents, which are by index now, by descending full score."""
    if run.size > _SHORT:
        place = np.arange(run.size)
        merge_by(-score[run], place)
        run[:] = run[place]
        return
    for i in range(1, run.size):
        a = run[i]
        j = i - 1
        while j >= 0 and score[run[j]] < score[a]:
            run[j + 1] = run[j]
            j -= 1
        run[j + 1] = a


@jit
def merge_by(value: Any, items: Any) -> None:
    """Sort ``items`` in place by ascending ``value[item]``, stably: a bottom-up merge sort."""
    n = items.size
    source = items.copy()
    target = np.empty_like(source)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle = min(low + width, n)
            high = min(low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                if i < middle and (j >= high or value[source[i]] <= value[source[j]]):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
        source, target = target, source
        width *= 2
    items[:] = source
