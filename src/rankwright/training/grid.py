"""Gradients on a grid, so that sums of them are exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import round_to
from rankwright.support.reducer import Reducer

_LARGEST = 1e30  # sums and squares of larger ones leave the range of float32


def to_grid(values: NDArray[np.float64], n_rows: int, reducer: Reducer) -> NDArray[np.float32]:
    """Round to whole multiples of a small unit, so that an engine's sums in double precision are exact.

    Exact sums do not depend on their order: trees are the same for any number of threads, and whichever way the
    engine builds its histograms. The unit is 2^-28 of the largest value, or as fine as the number of rows, on all
    machines, allows.
    """
    largest = float(reducer.max(np.array([np.abs(values).max()]))[0])
    if not largest <= _LARGEST:  # false for NaN too
        raise ValueError(
            f"a gradient or curvature is {largest:.3g}, more than an engine's numbers of 32 bits can hold; use smaller "
            "weights or factors of the objective, best around 1."
        )
    bits = min(28, 51 - int(np.ceil(np.log2(n_rows))))
    unit = 2.0 ** (np.floor(np.log2(largest)) + 1 - bits) if largest > 0 else 1.0
    rounded = np.empty(len(values), dtype=np.float32)
    round_to(values, unit, rounded)
    return rounded
