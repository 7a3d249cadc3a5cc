"""XGBoost's matrix of bins, which has no missing values.

If any value is missing, XGBoost keeps four bytes a value and is slower. So a column with missing values becomes two
columns: in the first missing values are above all numbers, in the second below. A split of the first column sends them
to the right, a split of the second to the left. In a column of categories, missing is a further category.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.bins import Bins


class Layout:
    """The columns of XGBoost's matrix, and the values in each of them.

    Attributes
    ----------
    column_of : ndarray
        Column of the data that each column stands for.
    missing_below : ndarray
        Whether missing values are below all numbers in it.
    """

    def __init__(self, bins: Bins) -> None:
        twice = np.flatnonzero(bins.has_missing & (bins.categories == 0) & (bins.n_bins > 1))
        self.bins = bins
        self.column_of = np.concatenate([np.arange(len(bins.edges)), twice])
        self.missing_below = np.arange(len(self.column_of)) >= len(bins.edges)

    @property
    def can_split(self) -> bool:
        """True if any column has two different values."""
        return bool(np.any(self.bins.n_bins + self.bins.has_missing > 1))

    def values(self) -> tuple[NDArray[np.float32], list[str]]:
        """Return all values of each column of the matrix, ascending, and the kind of each column in XGBoost's words.

        Columns with fewer values than others repeat the last one.
        """
        values = [self._values(number) for number in range(len(self.column_of))]
        longest = max(len(column) for column in values)
        table = np.empty((longest, len(values)), dtype=np.float32)
        for number, column in enumerate(values):
            table[: len(column), number] = column
            table[len(column) :, number] = column[-1]
        is_category = self.bins.categories[self.column_of] > 0
        return table, np.where(is_category, "c", "q").tolist()

    def columns(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the columns of the matrix for some rows of bins."""
        bins, n = self.bins, len(self.bins.edges)
        if not bins.has_missing.any():
            return codes
        wide = np.empty((len(codes), len(self.column_of)), dtype=codes.dtype)
        wide[:, :n] = codes
        for column in np.flatnonzero(bins.has_missing & (bins.categories > 0)):
            values = wide[:, column]
            values[values == bins.missing] = bins.n_bins[column]
        for number, column in enumerate(self.column_of[n:], start=n):
            values = codes[:, column]
            wide[:, number] = np.where(values == bins.missing, 0, values + 1)
        return wide

    def _values(self, number: int) -> NDArray[np.float64]:
        """Return all values of a column of the matrix, ascending."""
        bins, column = self.bins, self.column_of[number]
        values = np.arange(bins.n_bins[column] + float(bins.has_missing[column]))
        is_number = not bins.categories[column]
        if bins.has_missing[column] and is_number and not self.missing_below[number]:
            values[-1] = bins.missing
        return values
