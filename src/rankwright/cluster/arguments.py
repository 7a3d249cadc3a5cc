"""Arguments of a fit on a cluster: files, Dask collections, or data that the client spreads."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from rankwright.cluster.dask import is_collection, names_of
from rankwright.cluster.pieces import Piece
from rankwright.data.arguments import ranking_data
from rankwright.data.base_score import of_sets
from rankwright.data.columns import frame_columns
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles, check_columns_of_files
from rankwright.support.checks import ArgumentError


class SpreadSet(NamedTuple):
    """An evaluation set, and the field and column of its base scores."""

    data: Any
    base_score: tuple[str, str] | None


def column_names(X: Any, y: Any, qid: Any, weight: Any) -> Piece:
    """Return the names of the columns of files and frames, by default ``label`` and ``qid``."""
    if isinstance(X, str | os.PathLike):
        check_columns_of_files(y, qid, weight)
    if isinstance(X, DataFiles):
        return Piece("", None, X.labels, X.qid, X.weight, X.categorical, X.drop)
    query_column = qid if isinstance(qid, str) else "qid"
    weight_column = weight if isinstance(weight, str) else None
    return Piece("", None, names_of(y) or ("label",), query_column, weight_column)


def column_of(value: Any) -> str | list[str] | None:
    """Return the column or columns that an argument of a fit names; None for other values."""
    if isinstance(value, str):
        return value
    return list(names_of(value)) or None


def spread_data(
    X: Any, y: Any, qid: Any, group: Any, weights: Any, start: tuple[str, Any] | None
) -> Any:
    """Return the training data in a form that `rankwright.cluster.dask.loaded_pieces` takes.

    ``start`` are the field of the base scores and these scores, as given to ``fit``.
    """
    base = None if start is None else start[1]
    if isinstance(X, str | os.PathLike):
        check_columns_of_files(y, qid, weights, group, [base])
        return _parquet(DataFiles(os.fspath(X)))
    if isinstance(X, DataFiles):
        return _parquet(X)
    if is_collection(X):
        if group is not None or y is None or qid is None:
            raise ValueError(
                "a Dask collection needs y and qid: names of columns, or collections; and no group."
            )
        return X, y, qid, weights, base
    return _checked(ranking_data(X, y, qid, group, weights, base_score=start))


def _parquet(files: DataFiles) -> DataFiles:
    if not files.format.has_columns:
        raise ValueError(
            f"{files.files[0]} is LETOR text, and workers read Parquet files; convert it first."
        )
    return files


def _checked(data: RankingData) -> RankingData:
    if not data.labels or data.pairs is not None:
        raise ValueError(
            "pairs cannot be used with cluster=; give data with labels, and without pairs."
        )
    return data


def base_column(start: tuple[str, Any] | None) -> tuple[str, str] | None:
    """Return the field of the base scores and the column that has them; None without base scores."""
    if start is None:
        return None
    field, scores = start
    return field, scores if isinstance(scores, str) else field


def spread_sets(
    eval_set: Any, X: Any, y: Any, qid: Any, base_score: str | None, eval_base_score: Any
) -> list[SpreadSet]:
    """Return the evaluation sets in the form of `spread_data`; None is the training set."""
    if eval_set is None:
        eval_set = []
    # A single evaluation set is allowed without a list around it.
    is_triple = isinstance(eval_set, tuple) and len(eval_set) == 3
    is_data = isinstance(eval_set, RankingData | DataFiles | str | os.PathLike)
    if is_triple or is_data or is_collection(eval_set) or frame_columns(eval_set):
        eval_set = [eval_set]
    if not isinstance(eval_set, list | tuple):
        raise ArgumentError(
            "eval_set",
            f"must be a list of (X, y, qid) or of RankingData; got a {type(eval_set).__name__}.",
        )
    sets = []
    starts = of_sets(base_score, eval_base_score, len(eval_set))
    for number, (item, start) in enumerate(zip(eval_set, starts, strict=True)):
        data = None if item is X else _evaluation_set(item, number, y, qid, start)
        sets.append(SpreadSet(data, base_column(start)))
    return sets


def _evaluation_set(item: Any, number: int, y: Any, qid: Any, start: Any) -> Any:
    try:
        if isinstance(item, RankingData | DataFiles | str | os.PathLike):
            return spread_data(item, None, None, None, None, start)
        if is_collection(item) or frame_columns(item):
            # A frame alone has labels and queries among its columns, so their names must be known.
            if not (names_of(y) and isinstance(qid, str)):
                raise ValueError(
                    "a data frame alone needs y and qid of fit as names of columns; give (X, y, "
                    "qid)"
                )
            return spread_data(item, y, qid, None, None, start)
        if not isinstance(item, tuple | list) or len(item) != 3:
            raise ValueError("expected (X, y, qid), a RankingData or files")
        X, labels, ids = item
        return spread_data(X, labels, ids, None, None, start)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None
