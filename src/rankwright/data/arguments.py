"""Arguments of an estimator's methods as ranking data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.data.columns import (
    HasColumns,
    drop_columns,
    frame_columns,
    named_column,
    names_columns,
)
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles, check_columns_of_files
from rankwright.data.formats.contract import Show, silent
from rankwright.data.streaming import stream_data
from rankwright.support.files import is_path


def ranking_data(
    X: Any,
    y: Any,
    qid: Any,
    group: Any,
    weights: Any,
    reference: HasColumns | None = None,
    pairs: Any = None,
    document: Any = None,
    fields: Mapping[str, Any] | None = None,
    show: Show = silent,
) -> RankingData:
    """Build the data of ``fit`` and ``score``; X may be a `RankingData` already, or paths of files to stream.

    ``fields`` are added to those of the data: arrays, or names of columns of a frame, which are then not features.
    Of a `RankingData` they are arrays in its own order, or names of its fields. ``show`` reports reading.
    """
    if is_path(X):
        others = [*(fields or {}).values(), *([] if document is None else [document])]
        data = _in_files(X, y, qid, group, weights, reference, others, show)
        return data if pairs is None else data.with_pairs(pairs, document, as_given=True)
    if isinstance(X, RankingData):
        if any(argument is not None for argument in (y, qid, group, weights)):
            raise ValueError(
                "X is a RankingData, which has labels, queries and weights; leave out the other arguments."
            )
        if reference is not None:
            X.check_columns(reference)
        data = (
            X.with_fields({name: _field_of(X, value) for name, value in fields.items()})
            if fields
            else X
        )
        return data if pairs is None else data.with_pairs(pairs, document)
    if y is None and pairs is None:
        raise ValueError("requires y to be passed, but the target y is None: labels, one per row.")
    arrays = {
        name: np.asarray(named_column(X, value, name)) for name, value in (fields or {}).items()
    }
    X = drop_columns(X, [value for value in (fields or {}).values() if isinstance(value, str)])
    return RankingData(
        X,
        y,
        qid=qid,
        group=group,
        weights=weights,
        reference=reference,
        fields=arrays,
        pairs=pairs,
        document=document,
    )


def _in_files(
    X: Any,
    y: Any,
    qid: Any,
    group: Any,
    weights: Any,
    reference: HasColumns | None,
    fields: Sequence[Any],
    show: Show,
    drop: tuple[str, ...] = (),
) -> RankingData:
    """Stream data from files, whose columns the other arguments name."""
    check_columns_of_files(y, qid, weights, group, fields)
    labels = list(y) if isinstance(y, list | tuple) else [] if y is None else [y]
    options: dict[str, Any] = {
        "qid": qid,
        "weight": weights,
        "fields": tuple(dict.fromkeys(fields)),
        "drop": drop,
    }
    options["label"] = labels[0] if len(labels) == 1 else tuple(labels) or None
    return stream_data(DataFiles.of(X, **options), reference=reference, show=show)


def by_column(argument: str, values: Any) -> dict[str, Any]:
    """Read an argument of ``fit`` that gives columns: arrays or names of columns, by the name that each shall have.

    An array gets the name of the argument; a list of texts names columns.

    Examples
    --------
    >>> by_column("position", "rank"), by_column("position", ["rank", "device"]), by_column("position", [1, 2])
    ({'rank': 'rank'}, {'rank': 'rank', 'device': 'device'}, {'position': [1, 2]})
    """
    if values is None:
        return {}
    if isinstance(values, str):
        return {values: values}
    if isinstance(values, Mapping):
        return {str(name): value for name, value in values.items()}
    if (
        isinstance(values, list | tuple)
        and values
        and all(isinstance(value, str) for value in values)
    ):
        return {name: name for name in values}
    if (width := _n_columns(values)) is not None:
        raise ValueError(
            f"{argument} has {width} columns; give several as arrays by name, such as {argument}="
            "{'first': ..., 'second': ...}, or as a list of names of columns."
        )
    return {argument: values}


def _n_columns(values: Any) -> int | None:
    """Return the number of columns of a table or of a list of arrays; None for one column."""
    shape: tuple[int, ...] = getattr(values, "shape", ())
    if len(shape) == 2:
        return int(shape[1])
    arrays = (
        isinstance(values, list | tuple)
        and values
        and all(len(getattr(v, "shape", ())) == 1 for v in values)
    )
    return len(values) if arrays else None


def _field_of(data: RankingData, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in data.fields:
        known = f"it has {', '.join(map(repr, data.fields))}" if data.fields else "it has none"
        raise ValueError(
            f"{value!r} is not a field of the RankingData ({known}); create it with fields=[{value!r}], or give an "
            "array."
        )
    return data.fields[value]


def evaluation_sets(
    eval_set: Any,
    train: RankingData,
    y: Any = None,
    qid: Any = None,
    eval_group: Any = None,
    leave_out: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    show: Show = silent,
) -> list[RankingData]:
    """Build the evaluation sets of ``fit``: a list of (X, y, qid), of `RankingData`, frames or paths, or one of them.

    Frames need the names of their columns, where ``fit`` was given names as ``y`` and ``qid``. With ``eval_group``, the
    sizes of the queries of each set, sets are (X, y). ``leave_out`` names columns of frames that are not features, and
    ``fields`` those of them that the first set, if it has names of columns, must have.
    """
    if eval_group is not None:
        return _sets_by_group(eval_set, eval_group, train)
    sets = _listed(eval_set)
    return [
        _evaluation_set(
            item, number, train, y, qid, leave_out, {} if number else fields or {}, show
        )
        for number, item in enumerate(sets)
    ]


def check_paths(eval_set: Any) -> None:
    """Raise ValueError where an evaluation set names files that do not exist or cannot be streamed.

    They are read after the training data, which takes long to find that out.
    """
    for number, item in enumerate(_listed(eval_set)):
        if is_path(item):
            try:
                DataFiles.of(item).files  # noqa: B018 (found, and thereby checked)
            except ValueError as error:
                raise ValueError(f"eval_set[{number}]: {error}") from None


def _listed(eval_set: Any) -> Sequence[Any]:
    """Return evaluation sets as a list, where one may be given alone."""
    if eval_set is None:
        return []
    is_triple = isinstance(eval_set, tuple) and len(eval_set) == 3 and not is_path(eval_set)
    is_set = isinstance(eval_set, RankingData | str | os.PathLike) or is_triple
    if is_set or frame_columns(eval_set):
        return [eval_set]
    if not isinstance(eval_set, list | tuple):
        raise ValueError(
            f"eval_set must be a list of (X, y, qid) or of RankingData; got a {type(eval_set).__name__}."
        )
    return eval_set


def _sets_by_group(eval_set: Any, eval_group: Any, train: RankingData) -> list[RankingData]:
    """Build evaluation sets of pairs (X, y) and the sizes of their queries, one list of sizes for each."""
    if not isinstance(eval_set, list | tuple) or not isinstance(eval_group, list | tuple):
        raise ValueError(
            "eval_group needs a list of (X, y) as eval_set, and must be a list with the sizes of the queries of each."
        )
    if len(eval_set) != len(eval_group):
        raise ValueError(
            f"eval_group has {len(eval_group)} entries for {len(eval_set)} evaluation sets; give the sizes of queries "
            "of each."
        )
    data = []
    for number, (item, group) in enumerate(zip(eval_set, eval_group, strict=True)):
        try:
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise ValueError("expected (X, y), since eval_group has the queries")
            data.append(ranking_data(item[0], item[1], None, group, None, train))
        except ValueError as error:
            raise ValueError(f"eval_set[{number}]: {error}") from None
    return data


def _evaluation_set(
    item: Any,
    number: int,
    train: RankingData,
    label_name: Any,
    qid_name: Any,
    leave_out: Sequence[str],
    fields: Mapping[str, str],
    show: Show,
) -> RankingData:
    others = [name for name in leave_out if name not in fields.values()]
    try:
        if isinstance(item, RankingData):
            return ranking_data(item, None, None, None, None, train, fields=fields)
        if is_path(item):
            names = (
                label_name
                if names_columns(label_name, label_name)
                else list(train.label_names) or None
            )
            query = qid_name if isinstance(qid_name, str) else None
            return _in_files(
                item,
                names,
                query,
                None,
                None,
                train,
                list(fields.values()),
                show,
                drop=tuple(others),
            )
        if frame_columns(item):
            if not (names_columns(label_name, frame_columns(item)) and isinstance(qid_name, str)):
                raise ValueError(
                    "a data frame alone needs y and qid of fit as names of columns; give (X, y, qid)"
                )
            return ranking_data(
                drop_columns(item, others), label_name, qid_name, None, None, train, fields=fields
            )
        if not isinstance(item, tuple | list) or len(item) != 3:
            raise ValueError("expected (X, y, qid) or a RankingData; (X, y) needs eval_group")
        X, y, qid = item
        if not frame_columns(X):
            return ranking_data(X, y, qid, None, None, train)
        return ranking_data(drop_columns(X, others), y, qid, None, None, train, fields=fields)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None


def named_labels_of(X: Any, y: Any) -> Any:
    """Return the labels that a text names, those by name for a list of texts, or the value itself."""
    if names_columns(y, frame_columns(X)) and not isinstance(y, str):
        return {name: named_column(X, name, "y") for name in y}
    return named_column(X, y, "y")
