"""Isotonic regression: the non-decreasing values nearest to given ones in weighted squares.

Reference: Ayer, Brunk, Ewing, Reid and Silverman, Annals of Mathematical Statistics, 1955: neighbours in the wrong
order are pooled until none is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.kernels.jit import allocating


@allocating
def pool_neighbours(value: Any, weight: Any, first: Any, mean: Any) -> int:
    """Write the first position and the mean of each block, and return the number of blocks.

    ``first`` and ``mean`` have room for as many blocks as there are values. Equal means are pooled too, so the means of
    the blocks ascend strictly.
    """
    mass = np.empty(len(value))
    blocks = 0
    for i in range(len(value)):
        first[blocks], mean[blocks], mass[blocks] = i, value[i], weight[i]
        while blocks > 0 and mean[blocks - 1] >= mean[blocks]:
            both = mass[blocks - 1] + mass[blocks]
            mean[blocks - 1] += (mean[blocks] - mean[blocks - 1]) * (mass[blocks] / both)
            mass[blocks - 1] = both
            blocks -= 1
        blocks += 1
    return blocks
