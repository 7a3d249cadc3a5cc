# mypy: disable-error-code="untyped-decorator"
"""Pairs of documents that a gradient drives farther apart in the wrong order, counted without visiting each pair.

A pair is incoherent if the better document stands lower and is pushed up less. Take three orders of a query's
documents: A from the top of the ranking down, B by ascending label, C by descending push. The pair is incoherent
exactly if A, B and C put its two documents in the same order. Any other pair has one order that disagrees with
the other two, so it is counted twice among the disagreements between two orders (inversions):

    incoherent = all pairs - (inversions(A, B) + inversions(A, C) + inversions(B, C)) / 2

and each count of inversions is a merge sort: O(n log n). Documents of equal label or push have the opposite order
in B or C to that in A, so that they disagree and do not count ("Lambda-eX" paper, definition 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating, internal
from rankwright.kernels.ordering import longest_query


@allocating
def count_incoherent(
    q0: int,
    q1: int,
    bounds: Any,
    label: Any,
    relevant: Any,
    push: Any,
    order: Any,
    top: int,
    literal: bool,
    misranked: Any,
    incoherent: Any,
    harmful: Any,
) -> None:
    """Count the pairs of each query in [q0, q1): in the wrong order, incoherent, and harmful at the cutoff ``top``.

    ``order`` holds each query's documents from the top down and starts with those of query q0. With ``top`` 0 no pair
    is harmful. Relevant documents have higher labels than others. One that is not ``relevant`` belongs in no top, or,
    read literally, in one whose ideal holds such.
    """
    longest = longest_query(q0, q1, bounds)
    by_label = np.empty(longest, np.int64)
    by_push = np.empty(longest, np.int64)
    rank = np.empty(longest, np.int64)
    false = np.empty(longest, np.int64)
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        y = label[start:stop]
        wanted = relevant[start:stop]
        u = push[start:stop]
        here = order[start - bounds[q0] : stop - bounds[q0]]
        for i in range(
            n
        ):  # B and C are sorted from A upside down, so each inversion is a pair on which they agree
            by_label[i] = here[n - 1 - i]
            by_push[i] = here[n - 1 - i]
        pairs = n * (n - 1) // 2
        misranked[q] = merge_sort(y, False, by_label, 0, n)
        disagreements = pairs - misranked[q]
        disagreements += pairs - merge_sort(u, True, by_push, 0, n)
        least = 0.0
        if 0 < top < n:
            first = n - top  # where the ideal top begins, lowest label first
            while not literal and first < n - 1 and not wanted[by_label[first]]:
                first += 1
            least = y[by_label[first]]
        for i in range(n):
            rank[by_push[i]] = i
        disagreements += merge_sort(rank, False, by_label, 0, n)  # B is not needed afterwards
        incoherent[q] = pairs - disagreements // 2
        harmful[q] = 0
        if 0 < top < n:
            harmful[q] = _harmful(y, wanted, u, here, top, least, false)


@internal
def _harmful(y: Any, relevant: Any, u: Any, order: Any, top: int, least: float, false: Any) -> int:
    """Count pairs of a false document in the top that is pushed up more than a missed one below it.

    ``least`` is the lowest label that belongs in the top: documents of lower labels are false. Missed ones have this
    label or a higher one, and are relevant.
    """
    n_false = 0
    for i in range(top):
        if y[order[i]] < least:
            false[n_false] = order[i]
            n_false += 1
    merge_sort(u, False, false, 0, n_false)
    count = 0
    for i in range(top, order.size):
        a = order[i]
        if y[a] >= least and relevant[a]:
            low, high = 0, n_false  # search the first false document that is pushed up more than a
            while low < high:
                middle = (low + high) // 2
                if u[false[middle]] > u[a]:
                    high = middle
                else:
                    low = middle + 1
            count += n_false - low
    return count


@allocating
def merge_sort(value: Any, descending: bool, items: Any, start: int, stop: int) -> int:
    """Sort ``items[start:stop]`` by ``value[item]``, equal values in input order; return the number of inversions.

    An inversion is a pair of items that the sort puts into the opposite order.
    """
    n = stop - start
    source = np.empty(n, np.int64)
    target = np.empty(n, np.int64)
    for k in range(n):
        source[k] = items[start + k]
    inversions = 0
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
                    inversions += middle - i
        source, target = target, source
        width *= 2
    for k in range(n):
        items[start + k] = source[k]
    return inversions
