"""Rows for XGBoost's matrix, block by block: it asks for all of them several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import xgboost as xgb
from numpy.typing import NDArray

from rankwright.data.paged_rows import PagedRows, row_blocks


class Batches(xgb.DataIter):
    """Blocks of a matrix of bins.

    Parameters
    ----------
    codes
        The bins.
    columns
        Makes the columns that XGBoost gets of those of a block.
    kinds
        XGBoost's type of each of its columns.
    """

    def __init__(
        self,
        codes: NDArray[Any] | PagedRows,
        columns: Callable[[NDArray[Any]], NDArray[Any]],
        kinds: list[str],
    ) -> None:
        super().__init__()
        self._codes, self._columns, self._kinds = codes, columns, kinds
        self._blocks: Iterator[NDArray[Any]] = row_blocks(codes)

    def reset(self) -> None:
        """Start again with the first block."""
        self._blocks = row_blocks(self._codes)

    def next(self, input_data: Callable[..., Any]) -> bool:
        """Hand over one block; return False after the last."""
        block = next(self._blocks, None)
        if block is None:
            return False
        input_data(data=self._columns(block), feature_types=self._kinds)
        return True
