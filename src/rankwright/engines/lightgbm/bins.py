"""LightGBM's bins of rows that are not in memory, or not all of whose columns are.

LightGBM chooses bins from a sample of rows, drawn by their numbers. The same rows, read from files, give the same bins;
all rows are then kept as numbers of bins, and LightGBM gets a value of each bin. So its trees are those that it would
grow from the rows themselves, bit by bit. Facts this rests on, each held by a test: which rows LightGBM draws depends
on their number and a seed alone; a data set of the drawn rows has the bins of all; a tree on one column can be made to
split between all of its bins, and says where.

Features within the query of rows in memory are computed in blocks of rows, which LightGBM asks for twice: for the rows
that it draws, and for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rankwright.data.bins import BinnedMatrix, Bins
from rankwright.data.extended_rows import ExtendedRows
from rankwright.data.row_stream import batches_of
from rankwright.engines.gate import GATE
from rankwright.engines.lightgbm.forest import Forest
from rankwright.kernels.tree_arrays import ZERO
from rankwright.support.memory import release_memory

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

_ROWS_AT_ONCE = 16_384
_ROWS_TO_SAMPLE = 200_000  # which LightGBM chooses bins from by default
# Parameters that bins depend on, without those of whole data sets; others may break a data set of one column.
_OF_COLUMNS = (
    "bin_construct_sample_cnt",
    "data_random_seed",
    "max_bin",
    "min_data_in_bin",
    "use_missing",
    "zero_as_missing",
    "is_enable_sparse",
)
_LARGEST = 1e300  # LightGBM writes a split of missing values from all numbers as one at this number


class _Drawn(lgb.Sequence):
    """Rows of two values that remember which of them LightGBM asks for."""

    batch_size = 1 << 20

    def __init__(self, n_rows: int) -> None:
        self.rows: list[int] = []
        self._n_rows = n_rows

    def __len__(self) -> int:
        return self._n_rows

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        if isinstance(rows, slice):
            return (np.arange(*rows.indices(self._n_rows))[:, None] % 2).astype(np.float64)
        self.rows.append(int(rows))
        return np.array([rows % 2.0])


class BinnedRows(lgb.Sequence):
    """Rows that are kept as bins, for LightGBM."""

    batch_size = _ROWS_AT_ONCE

    def __init__(self, matrix: BinnedMatrix) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return len(self._matrix)

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        return self._matrix[rows].toarray()


class _Block(lgb.Sequence):
    """Rows whose features within the query are computed when LightGBM asks for them: a block of whole queries."""

    def __init__(self, block: Callable[[int], NDArray[Any]], number: int, n_rows: int) -> None:
        self.batch_size = n_rows
        self._block = block
        self._number = number

    def __len__(self) -> int:
        return self.batch_size

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        chosen: NDArray[Any] = self._block(self._number)[rows]
        return (
            chosen if isinstance(rows, slice) else chosen.astype(np.float64)
        )  # of single rows it takes no others


def sequences(X: ExtendedRows) -> list[lgb.Sequence]:
    """Return the blocks of a matrix for LightGBM, which asks for them one after another: one is held at a time."""
    block = lru_cache(maxsize=1)(X.block)
    return [
        _Block(block, number, n_rows) for number, n_rows in enumerate(np.diff(X.starts).tolist())
    ]


class BlockwiseSet(lgb.Dataset):
    """A data set of blocks from which LightGBM draws rows; those that refer to it have its type.

    LightGBM creates it with the parameters that it states, which would lack the least rows of a leaf, on which the
    columns that are left out depend, and the number of threads.
    """

    def get_params(self) -> dict[str, Any]:
        """Return all parameters."""
        return dict(self.params or {})


def in_blocks(X: ExtendedRows, params: Mapping[str, Any]) -> bool:
    """Tell whether blocks take less memory than the whole matrix, which takes less time.

    Of blocks, LightGBM holds the rows that it draws once more than of a matrix, in 64 bits.
    """
    n_drawn = min(len(X), int(params.get("bin_construct_sample_cnt", _ROWS_TO_SAMPLE)))
    return len(X) * X.dtype.itemsize > 8 * n_drawn


def rows_to_sample(train: RankingData) -> dict[str, int]:
    """Return how many rows LightGBM chooses bins from, where these are fewer than by default.

    With features within the query it sorts as many values as without them.
    """
    n_columns = len(train.feature_names)
    n_drawn = _ROWS_TO_SAMPLE * (n_columns - train.n_derived) // n_columns
    return (
        {"bin_construct_sample_cnt": n_drawn}
        if n_drawn < min(train.n_rows, _ROWS_TO_SAMPLE)
        else {}
    )


def set_threads(threads: int) -> None:
    """Set LightGBM's number of threads, in a block of `GATE` for that number.

    A data set that is made by reference to another one takes the number of whichever call was last. If that were not
    the number of the gate, another call that passes it could change the number before the rows are there, and LightGBM
    would write out of bounds: it has buffers for as many threads as there were at first.
    """
    params = {"num_threads": threads, "min_data_in_leaf": 1, "min_data_in_bin": 1, "verbosity": -1}
    lgb.Dataset(np.array([[0.0], [1.0]]), params=params).construct()


def drawn_rows(n_rows: int, params: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the numbers of the rows that LightGBM chooses bins from, ascending."""
    rows = _Drawn(n_rows)
    with GATE.calls_with(1):
        lgb.Dataset(rows, params=_params_of(0, params)).construct()
    return np.array(rows.rows)


def choose_bins(
    X: Any, params: Mapping[str, Any], names: Sequence[str], categorical: Sequence[int]
) -> tuple[Bins, lgb.Dataset]:
    """Choose bins; also returns a data set with them, which others refer to."""
    n_rows, n_columns = X.shape
    release_memory()
    drawn = drawn_rows(n_rows, params)
    number = np.full(n_rows, -1)
    number[drawn] = np.arange(len(drawn))
    sample = np.empty((len(drawn), n_columns))
    largest, has_missing = np.zeros(n_columns), np.zeros(n_columns, dtype=bool)
    for places, rows in batches_of(X, "sample of rows"):
        chosen = number[places] >= 0
        sample[number[places[chosen]]] = rows[chosen]
        np.fmax(largest, np.fmax.reduce(rows, axis=0), out=largest)
        has_missing |= np.isnan(rows).any(axis=0)
    # LightGBM leaves out columns that cannot be split, and asks for leaves of so many rows among those that it draws.
    least = int(params["min_data_in_leaf"] * len(drawn) / n_rows)
    with GATE.calls_with(params["num_threads"]):
        whole = lgb.Dataset(
            sample,
            np.zeros(len(drawn), dtype=np.float32),
            feature_name=list(names),
            categorical_feature=list(categorical),
            params={**params, "min_data_in_leaf": least},
            free_raw_data=True,
        ).construct()
    categories = np.zeros(n_columns, dtype=np.int64)
    categories[list(categorical)] = largest[list(categorical)].astype(np.int64) + 1
    edges = []
    for column in range(n_columns):
        usable = whole.feature_num_bin(column) > 1 and not categories[column]
        with GATE.calls_with(1):  # several threads would spend their time waiting for each other
            edges.append(
                _edges(sample[:, column], _params_of(column, params)) if usable else np.empty(0)
            )
    del sample
    release_memory()
    return Bins(tuple(edges), categories, has_missing), whole


def _params_of(column: int, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a data set of one column."""
    own = {name: value for name, value in params.items() if name in _OF_COLUMNS}
    own |= {"min_data_in_leaf": 0, "feature_pre_filter": False, "verbosity": -1, "num_threads": 1}
    if "max_bin_by_feature" in params:
        own["max_bin"] = params["max_bin_by_feature"][column]
    return own


def _edges(values: NDArray[np.float64], params: dict[str, Any]) -> NDArray[np.float64]:
    """Return the edges between LightGBM's bins of a column: a tree splits at all of them.

    Around 0 there may be one more: finer bins change nothing, as all values of a finer one are in one of LightGBM's.
    """
    rows = lgb.Dataset(
        values[:, None], np.zeros(len(values), dtype=np.float32), params=params
    ).construct()
    distinct, number = np.unique(values, return_inverse=True)
    gradient = (number - len(distinct) // 2).astype(
        np.float32
    )  # whole numbers, so that sums are exact
    grown = {"objective": "none", "num_leaves": rows.feature_num_bin(0) + 1, "min_data_in_leaf": 1}
    booster = lgb.Booster(
        {**params, **grown, "min_sum_hessian_in_leaf": 0.0, "lambda_l2": 0.0}, rows
    )
    booster.update(fobj=lambda *_: (gradient, np.ones(len(values), dtype=np.float32)))
    tree = next(Forest.of_text(str(booster.model_to_string())).trees())
    edges: NDArray[np.float64] = np.unique(tree.threshold[tree.threshold < _LARGEST])
    known = len(edges) + 1 + bool(np.isnan(values).any())
    if known < rows.feature_num_bin(0) or params.get(
        "zero_as_missing"
    ):  # 0 has a bin even where no value is 0
        around = [
            edge
            for edge, exists in ((-ZERO, np.nanmin(values) < 0), (ZERO, np.nanmax(values) > 0))
            if exists
        ]
        edges = np.union1d(edges, around)
    return edges
