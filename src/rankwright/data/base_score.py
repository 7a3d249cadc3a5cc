"""Base scores: the scores that a training starts from. Scores of the model are base + forest.

They travel with the rows as a field. Its name is the name of the column, or `FIELD` for an array.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import frame_columns
from rankwright.data.matrices import Matrix, as_dense
from rankwright.data.queries import as_floats
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

Floats = NDArray[np.float64]

# The field of base scores that were given as an array.
FIELD = "base_score"


def field_of(base_score: Any) -> str | None:
    """Return the name of the field that will hold the base scores; None without base scores."""
    if base_score is None or isinstance(base_score, str):
        return base_score
    return FIELD


def of_sets(name: str | None, values: Any, n_sets: int) -> list[tuple[str, Any] | None]:
    """Return the field and the base scores of each evaluation set, an array or the name of a column."""
    if name is None:
        if values is not None:
            raise ArgumentError(
                "eval_base_score", "is for a training with base_score=; give both or neither."
            )
        return [None] * n_sets
    if values is None:
        # The name of the column holds for all sets.
        values = [name] * n_sets
    elif not isinstance(values, list | tuple):
        values = [values]
    if len(values) != n_sets:
        raise ArgumentError(
            "eval_base_score",
            f"must be a list with an entry per evaluation set; got {len(values)} for {n_sets}.",
        )
    return [(name, value) for value in values]


def with_base_score(data: RankingData, name: str, values: Any) -> RankingData:
    """Return the data with the field ``name`` of checked base scores.

    ``values`` are an array in the order of the data, or the name of a field or a column. A column
    stays a feature.

    Examples
    --------
    >>> from rankwright import RankingData
    >>> data = RankingData([[3.0], [4.0]], [0, 1], qid=[5, 5], feature_names=["bm25"])
    >>> with_base_score(data, "bm25", "bm25").fields["bm25"].tolist()
    [3.0, 4.0]
    """
    names, where = data.feature_names, data.queries.where
    scores = _checked(_scores_of(data, data.X, values, names), data.n_rows, where)
    # A model looks among its columns first, so a column of that name must have the same values.
    if name in names and not np.array_equal(scores, _column(data.X, names.index(name))):
        raise ArgumentError(
            "base_score", f"differs from the feature {name!r} of the same name; rename the feature."
        )
    return data.with_fields({name: scores})


def base_scores(
    X: Any,
    matrix: Matrix,
    values: Any,
    names: Sequence[str],
    numbers: NDArray[np.int64] | None = None,
) -> Floats:
    """Return the base score of each row of a matrix that was made from ``X``.

    ``values`` are an array in the order of the rows, or the name of a field or a column. ``names``
    are the columns of the matrix, and ``numbers`` the rows' numbers in errors.
    """

    def where(row: int) -> str:
        return f"row {row if numbers is None else numbers[row]}"

    return _checked(_scores_of(X, matrix, values, names), matrix.shape[0], where)


def _scores_of(X: Any, matrix: Matrix, values: Any, names: Sequence[str]) -> Any:
    if not isinstance(values, str):
        return values
    # This is a RankingData. Its module need not be imported to know.
    if hasattr(X, "check_columns") and values in X.fields:
        return X.fields[values]
    if values in frame_columns(X):
        return X[values]
    if values in names:
        return _column(matrix, list(names).index(values))
    raise ArgumentError(
        "base_score",
        f"must be given: scores start from {values!r}, which is neither a column nor a field of "
        "the data. Give the scores, one per row, or the name of their column (of an evaluation set "
        "as eval_base_score).",
    )


def _column(matrix: Matrix, number: int) -> Any:
    return as_dense(matrix[:, [number]]).ravel()


def _checked(values: Any, n_rows: int, where: Callable[[int], str]) -> Floats:
    scores = as_floats(values, "base_score must hold numbers, one score per row.")
    if scores.shape != (n_rows,):
        raise ArgumentError(
            "base_score", f"has shape {scores.shape} for {n_rows} rows; give one score per row."
        )
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise ArgumentError(
            "base_score",
            f"is {scores[bad[0]]} at {where(int(bad[0]))}; every row needs a finite score to start "
            "from, for example the lowest of its query for a document that was not retrieved.",
        )
    return scores


def base_field(data: RankingData, base_score: str | None) -> list[str]:
    """Return the name of the base scores if they are a field of the data, and not a feature."""
    if base_score is None or base_score not in data.fields:
        return []
    return [base_score]


def warn_if_constant(data: RankingData, name: str) -> None:
    """Warn if base scores are the same for all documents of each query."""
    scores, starts = data.fields[name], data.boundaries[:-1]
    if np.array_equal(np.minimum.reduceat(scores, starts), np.maximum.reduceat(scores, starts)):
        warnings.warn(
            f"the base scores ({name}) are the same for all documents of each query, so they change "
            "no ranking; give scores that differ within queries, or leave base_score out.",
            stacklevel=3,
        )
