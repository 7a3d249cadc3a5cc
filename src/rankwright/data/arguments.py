"""Arguments of an estimator's methods as ranking data."""

from __future__ import annotations

from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.encoding import HasColumns, frame_columns


def ranking_data(
    X: Any, y: Any, qid: Any, group: Any, weights: Any, reference: HasColumns | None = None
) -> RankingData:
    """Build the data of ``fit`` and ``score``; X may be a `RankingData` already."""
    if isinstance(X, RankingData):
        if any(argument is not None for argument in (y, qid, group, weights)):
            raise ValueError(
                "X is a RankingData, which has labels, queries and weights; leave out the other arguments."
            )
        if reference is not None:
            X.check_columns(reference)
        return X
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: labels, one per row.")
    return RankingData(X, y, qid=qid, group=group, weights=weights, reference=reference)


def evaluation_sets(eval_set: Any, train: RankingData, y: Any = None, qid: Any = None) -> list[RankingData]:
    """Build the evaluation sets of ``fit``: a list of (X, y, qid), of `RankingData` or of frames, or one of them.

    Frames need the names of their columns, where ``fit`` was given names as ``y`` and ``qid``.
    """
    if eval_set is None:
        return []
    is_set = isinstance(eval_set, RankingData) or (isinstance(eval_set, tuple) and len(eval_set) == 3)
    if is_set or frame_columns(eval_set):
        eval_set = [eval_set]
    if not isinstance(eval_set, list | tuple):
        raise ValueError(f"eval_set must be a list of (X, y, qid) or of RankingData; got a {type(eval_set).__name__}.")
    return [_evaluation_set(item, number, train, y, qid) for number, item in enumerate(eval_set)]


def _evaluation_set(item: Any, number: int, train: RankingData, label_name: Any, qid_name: Any) -> RankingData:
    try:
        if isinstance(item, RankingData):
            return ranking_data(item, None, None, None, None, train)
        if frame_columns(item):
            if not (isinstance(label_name, str) and isinstance(qid_name, str)):
                raise ValueError("a data frame alone needs y and qid of fit as names of columns; give (X, y, qid)")
            return ranking_data(item, label_name, qid_name, None, None, train)
        if not isinstance(item, tuple | list) or len(item) != 3:
            raise ValueError("expected (X, y, qid) or a RankingData")
        X, y, qid = item
        return ranking_data(X, y, qid, None, None, train)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None
