"""The canonical order of rows, which depends on their content alone.

Equal scores are ranked in the order of rows, and engines sample rows by their number. Without a canonical order, the
order in which rows were stored would change the model.

Rows are sorted by query and then by a hash of their features. Rows with the same features differ at most in labels,
weight, fields and pairs. A hash of the row and of its place among them by these values decides their order, because an
order by label or by a feature would decide every tie in its favour. Labels and weights count by their order alone, so
the order is the same with twice the labels, or with weights of 1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.queries import mix
from rankwright.kernels.row_hash import add_dense, add_sparse
from rankwright.kernels.threads import available_threads, equal_ranges, run_ranges

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.kernels.given_pairs import GivenPairs

_ROWS_PER_THREAD = 10_000


def canonical_order(data: RankingData, threads: int | None) -> NDArray[np.int64] | None:
    """Return the row at each position of the canonical order, or None if the rows are in it already."""
    hashes, query = row_hashes(data.X, threads), data.queries.query_of_row
    # Most rows differ in their features, and then the hashes alone decide the order.
    order = np.lexsort((hashes, query))
    groups = _starts(hashes[order], query[order])
    if not groups.all():
        # Rows with equal features are numbered by their other values, and a hash of the
        # number decides.
        fields = [_sortable(values) for _, values in sorted(data.fields.items())]
        values = [*fields, *([] if data.weights is None else [data.weights]), data.y]
        if data.pairs is not None:
            values.insert(0, _pair_hashes(data.pairs.arrays, hashes))
        by_value = np.lexsort((*values, hashes, query))
        starts = np.flatnonzero(groups)
        number = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        chance = mix(hashes[by_value] + mix(number))
        places = np.lexsort((chance, hashes[by_value], query))
        # Rows that are the same in everything keep their order, so that rows in this order are recognised.
        kind = np.cumsum(groups | _starts(*(value[by_value] for value in values)))
        order = np.empty_like(by_value)
        order[np.argsort(kind[places], kind="stable")] = by_value
    return None if np.array_equal(order, np.arange(len(order))) else order


def _pair_hashes(pairs: GivenPairs, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash the pairs of each row: the rows that it beats or loses against, and the weights."""
    # Sums do not depend on the order of the pairs. A winner is hashed twice, so that both
    # sides differ.
    weight = mix(pairs.weight.view(np.uint64))
    total = np.zeros_like(hashes)
    np.add.at(total, pairs.winner, mix(mix(hashes[pairs.loser]) + weight))
    np.add.at(total, pairs.loser, mix(hashes[pairs.winner] + weight))
    return total


def _sortable(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the order of the values; texts and other objects count as text."""
    if values.dtype.kind in "iufb":
        return values
    return np.unique(values.astype(str), return_inverse=True)[1]


def _starts(*values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True for each sorted row that differs from the row before it."""
    differs = np.ones(len(values[0]), dtype=bool)
    differs[1:] = np.any([value[1:] != value[:-1] for value in values], axis=0)
    return differs


def row_hashes(
    X: Any, threads: int | None = None, *, n_given: int | None = None
) -> NDArray[np.uint64]:
    """Hash each row of a matrix, or the first ``n_given`` columns of each row.

    Examples
    --------
    >>> row_hashes(np.array([[1.0, -0.0]])) == row_hashes(sp.csr_matrix([[1.0, 0.0]]))
    array([ True])
    """
    if n_given is not None:
        X = X[:, :n_given]
    n_rows, n_columns = X.shape
    # A salt for each column keeps equal values in different columns apart.
    salts = mix(np.arange(n_columns))
    hashes = np.zeros(n_rows, dtype=np.uint64)
    if sp.issparse(X):
        # Entries that occur twice are added up first, because only their sum is the
        # value.
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        rows = {"starts": X.indptr, "columns": X.indices, "values": X.data}
        add: Any = partial(add_sparse, **rows, salts=salts, hashes=hashes)
    else:
        add = partial(add_dense, X=X, salts=salts, hashes=hashes)
    n_threads = min(available_threads(threads), 1 + n_rows // _ROWS_PER_THREAD)
    run_ranges(add, equal_ranges(n_rows, n_threads))
    return hashes
