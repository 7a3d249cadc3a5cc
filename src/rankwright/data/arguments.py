"""Turn the arguments of an estimator's methods into ranking data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.data.base_score import of_sets, with_base_score
from rankwright.data.columns import (
    HasColumns,
    drop_columns,
    frame_columns,
    named_column,
    names_columns,
)
from rankwright.data.dataset import RankingData
from rankwright.support.checks import ArgumentError
from rankwright.support.files import is_path
from rankwright.support.other_libraries import refuse_other_table

if TYPE_CHECKING:
    from rankwright.data.formats.contract import Show


def ranking_data(
    X: Any,
    y: Any = None,
    qid: Any = None,
    group: Any = None,
    weights: Any = None,
    reference: HasColumns | None = None,
    pairs: Any = None,
    document: Any = None,
    fields: Mapping[str, Any] | None = None,
    show: Show | None = None,
    base_score: tuple[str, Any] | None = None,
    categorical: Sequence[str | int] | None = None,
) -> RankingData:
    """Build the data of ``fit`` and ``score``; X may be a `RankingData` already, or paths of files to stream.

    ``fields`` are added to the fields of the data. They are arrays or names of columns of a frame, which
    are then not features; for a `RankingData`, arrays in its order or names of its fields.
    ``base_score`` is the name of the field for the scores to start from, and these scores: an array or
    the name of a column. It may also name a feature, which then stays a feature. ``categorical`` are
    columns of categories by name or number, in files by name.
    """
    fields = fields or {}
    if base_score is not None:
        name, values = base_score
        if not _is_feature(X, values, reference):
            # The scores are grouped with the rows, like all values that are not features.
            column = values if isinstance(values, str) else name
            fields = {**fields, column: values}
            values = column
        data = ranking_data(
            *(X, y, qid, group, weights, reference, pairs, document, fields, show),
            categorical=categorical,
        )
        return with_base_score(data, name, values)
    # Files are streamed, so their columns can only be named.
    if is_path(X):
        from rankwright.data.files import check_columns_of_files

        check_columns_of_files(y, qid, weights, group, [*fields.values(), document])
        names = list(fields.values())
        if document is not None:
            names.append(document)
        data = _streamed(X, y, qid, weights, names, (), reference, show, categorical or ())
        renamed = {name: data.fields[column] for name, column in fields.items() if name != column}
        data = data.with_fields(renamed)
        if pairs is None:
            return data
        # Pairs number the rows as they are in the files, not as they are grouped.
        return data.with_pairs(pairs, document, as_given=True)
    if isinstance(X, RankingData):
        # The data was checked when it was created, so a second label or query would
        # contradict it.
        if any(argument is not None for argument in (y, qid, group, weights)):
            raise ValueError(
                "X is a RankingData, which has labels, queries and weights; leave out the other "
                "arguments."
            )
        if reference is not None:
            X.check_columns(reference)
        data = X
        if categorical is not None:
            data = X.with_categorical(categorical)
        if fields:
            data = data.with_fields({name: _field_of(X, value) for name, value in fields.items()})
        if pairs is not None:
            data = data.with_pairs(pairs, document)
        return data
    refuse_other_table(X)
    if y is None and pairs is None:
        raise ValueError("requires y to be passed, but the target y is None: labels, one per row.")
    # Fields that are given by name are taken out of the features, because a model must not
    # see them.
    arrays = {name: np.asarray(named_column(X, value, name)) for name, value in fields.items()}
    return RankingData(
        drop_columns(X, [value for value in fields.values() if isinstance(value, str)]),
        y,
        qid=qid,
        group=group,
        sample_weight=weights,
        categorical=categorical,
        reference=reference,
        fields=arrays,
        pairs=pairs,
        document=document,
    )


def _is_feature(X: Any, values: Any, reference: HasColumns | None) -> bool:
    """Return True if base scores are found in the data once it is made: in a feature or a field."""
    if isinstance(X, RankingData):
        return True
    if not isinstance(values, str):
        return False
    if reference is not None and values in reference.feature_names:
        return True
    if is_path(X):
        from rankwright.data.files import DataFiles

        # Columns of LETOR text have no names, and generated names are names of features.
        return not DataFiles.of(X).format.has_columns
    return values not in frame_columns(X)


def _streamed(
    path: Any,
    y: Any,
    qid: Any,
    weight: Any,
    fields: Sequence[str],
    drop: Sequence[str],
    reference: HasColumns | None,
    show: Show | None,
    categorical: Sequence[Any] = (),
) -> RankingData:
    """Stream data from files, whose columns the arguments name."""
    # Most data is in memory, and then the readers of files are not loaded.
    from rankwright.data.files import DataFiles
    from rankwright.data.formats.contract import silent
    from rankwright.data.streaming import stream_data

    label = y
    # A list with a single name is the same as the name, so that the label keeps its plain
    # form.
    if isinstance(y, list | tuple):
        label = tuple(y) or None
        if len(y) == 1:
            label = y[0]
    files = DataFiles.of(
        path,
        label=label,
        qid=qid,
        weight=weight,
        fields=tuple(dict.fromkeys(fields)),
        drop=tuple(drop),
        categorical=tuple(map(str, categorical)),
    )
    return stream_data(files, reference=reference, show=show or silent)


def _field_of(data: RankingData, value: Any) -> Any:
    """Return a field that is given by its name, or the value itself."""
    if not isinstance(value, str):
        return value
    if value not in data.fields:
        known = "it has none"
        if data.fields:
            known = f"it has {', '.join(map(repr, data.fields))}"
        raise ValueError(
            f"{value!r} is not a field of the RankingData ({known}); create it with "
            f"fields=[{value!r}], or give an array."
        )
    return data.fields[value]


def by_column(argument: str, values: Any) -> dict[str, Any]:
    """Read an argument of ``fit`` that gives columns, arrays or names, and return them by their new names.

    An array gets the name of the argument. A list of texts names columns.

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
    n_columns = 1
    shape: tuple[int, ...] = getattr(values, "shape", ())
    # A table of several columns has no names, so it cannot be told which column is which.
    if len(shape) == 2:
        n_columns = int(shape[1])
    elif isinstance(values, list | tuple) and values:
        if all(isinstance(value, str) for value in values):
            return {name: name for name in values}
        if all(len(getattr(value, "shape", ())) == 1 for value in values):
            n_columns = len(values)
    if n_columns > 1 or len(shape) == 2:
        raise ValueError(
            f"{argument} has {n_columns} columns; give several as arrays by name, such as "
            f"{argument}={{'first': ..., 'second': ...}}, or as a list of names of columns."
        )
    return {argument: values}


def sets_and_groups(
    eval_set: Any, eval_X: Any, eval_y: Any, eval_qid: Any, eval_group: Any, qid: Any = None
) -> tuple[Any, Any]:
    """Return evaluation sets as ``eval_set`` and ``eval_group``, in whichever form they are given.

    Parameters
    ----------
    eval_set, eval_X, eval_y, eval_qid, eval_group
        As given to ``fit``.
    qid
        As given to ``fit``. The name of a column also names the column of ``eval_X``.

    Examples
    --------
    >>> sets_and_groups(None, "X", "y", [1, 1, 2], None)
    ([('X', 'y', [1, 1, 2])], None)
    >>> sets_and_groups(None, ("X1", "X2"), ("y1", "y2"), None, [[2, 1], [3]])
    ([('X1', 'y1'), ('X2', 'y2')], [[2, 1], [3]])
    """
    if eval_qid is not None and eval_group is not None:
        raise ArgumentError("eval_qid", "and eval_group both say the queries; give one of them.")
    if eval_X is not None or eval_y is not None:
        if eval_set is not None:
            raise ArgumentError(
                "eval_X", "and eval_set are two forms of the same; give one of them."
            )
        several = isinstance(eval_X, tuple)
        if eval_X is None or eval_y is None or several != isinstance(eval_y, tuple):
            raise ArgumentError(
                "eval_X", "and eval_y belong together: give two arrays, or two tuples of arrays."
            )
        if several and len(eval_X) != len(eval_y):
            raise ArgumentError(
                "eval_y",
                f"has {len(eval_y)} entries for {len(eval_X)} of eval_X; give one for each.",
            )
        if eval_qid is None and eval_group is None:
            if not isinstance(qid, str):
                raise ArgumentError("eval_X", "needs its queries: give eval_qid or eval_group too.")
            eval_qid = [qid] * len(eval_X) if several else qid
        eval_set = list(zip(eval_X, eval_y, strict=True)) if several else [(eval_X, eval_y)]
        # The queries of a single set may be given without a list.
        if not several:
            eval_qid, eval_group = _in_list(eval_qid), _in_list(eval_group)
    if eval_qid is None:
        return eval_set, eval_group
    pairs = isinstance(eval_set, list) and all(len(item) == 2 for item in eval_set)
    if not pairs or not isinstance(eval_qid, list | tuple) or len(eval_qid) != len(eval_set):
        raise ArgumentError(
            "eval_qid", "must be a list with the query ids of each (X, y) of a list eval_set."
        )
    return [(*item, ids) for item, ids in zip(eval_set, eval_qid, strict=True)], None


def _in_list(values: Any) -> Any:
    """Put the values of a single set in a list, unless they are in a list already."""
    if values is None or (isinstance(values, list) and len(values) == 1 and np.ndim(values[0])):
        return values
    return [values]


def evaluation_sets(
    eval_set: Any,
    train: RankingData,
    y: Any = None,
    qid: Any = None,
    eval_group: Any = None,
    leave_out: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    show: Show | None = None,
    base_score: str | None = None,
    eval_base_score: Any = None,
    given: Any = None,
) -> list[RankingData]:
    """Build the evaluation sets of ``fit``: a list of (X, y, qid), `RankingData`, frames or paths, or a single set.

    Parameters
    ----------
    eval_set, y, qid, eval_group
        As given to ``fit``. Frames alone need ``y`` and ``qid`` as names of columns. With ``eval_group``,
        the sizes of the queries of each set, sets are (X, y).
    train
        The training data, with the columns that sets must have.
    leave_out
        Names of columns of frames and files that are not features.
    fields
        The columns of ``leave_out`` that the first set must have, if its columns have names.
    base_score, eval_base_score
        The field of base scores in the training data, and the base scores of the sets as given to
        ``fit``.
    given
        The training data as given to ``fit``. A set that is this `RankingData` needs no copy.
    """
    items = _listed(eval_set)
    starts = of_sets(base_score, eval_base_score, len(items))
    if eval_group is not None:
        return _sets_by_group(eval_set, eval_group, train, starts)
    sets = []
    for number, (item, start) in enumerate(zip(items, starts, strict=True)):
        if isinstance(item, RankingData) and item is given:
            sets.append(train)
            continue
        # Position bias is measured on the first set, so only this set needs the fields.
        set_fields = dict(fields or {})
        if number > 0:
            set_fields = {}
        kept = list(set_fields.values())
        if start is not None:
            kept.append(start[1])
        dropped = [name for name in leave_out if name not in kept]
        with _naming_set(number):
            if isinstance(item, RankingData):
                data = ranking_data(item, reference=train, fields=set_fields, base_score=start)
            elif is_path(item):
                from rankwright.data.files import check_columns_of_files

                # The columns are called as in the training data, if these have names.
                labels = y
                if not names_columns(y, y):
                    labels = list(train.label_names)
                query = qid if isinstance(qid, str) else None
                names = list(set_fields.values())
                if start is not None and not _is_feature(item, start[1], train):
                    check_columns_of_files(None, None, None, fields=[start[1]])
                    names.append(start[1])
                data = _streamed(item, labels, query, None, names, dropped, train, show)
                if start is not None:
                    data = with_base_score(data, *start)
            else:
                X, set_y, set_qid = _triple(item, y, qid)
                if not frame_columns(X):
                    set_fields = {}  # arrays have no columns to take fields from
                X = drop_columns(X, dropped)
                data = ranking_data(
                    X, set_y, set_qid, reference=train, fields=set_fields, base_score=start
                )
        sets.append(data)
    return sets


def _triple(item: Any, y: Any, qid: Any) -> Sequence[Any]:
    """Return (X, y, qid) for a set that is not a `RankingData` and not in files."""
    columns = frame_columns(item)
    if columns:
        if not names_columns(y, columns) or not isinstance(qid, str):
            raise ValueError(
                "a data frame alone needs y and qid of fit as names of columns; give (X, y, qid)"
            )
        return item, y, qid
    if not isinstance(item, tuple | list) or len(item) != 3:
        raise ValueError("expected (X, y, qid) or a RankingData; (X, y) needs eval_group")
    return item


def _sets_by_group(
    eval_set: Any, eval_group: Any, train: RankingData, starts: Sequence[Any]
) -> list[RankingData]:
    """Build evaluation sets of pairs (X, y) and the sizes of their queries."""
    if not isinstance(eval_set, list | tuple) or not isinstance(eval_group, list | tuple):
        raise ValueError(
            "eval_group needs a list of (X, y) as eval_set, and must be a list with the sizes of "
            "the queries of each."
        )
    if len(eval_set) != len(eval_group):
        raise ValueError(
            f"eval_group has {len(eval_group)} entries for {len(eval_set)} evaluation sets; give "
            "the sizes of queries of each."
        )
    sets = []
    given = zip(eval_set, eval_group, starts, strict=True)
    for number, (item, group, start) in enumerate(given):
        with _naming_set(number):
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise ValueError("expected (X, y), since eval_group has the queries")
            X, y = item
            sets.append(ranking_data(X, y, group=group, reference=train, base_score=start))
    return sets


def check_paths(eval_set: Any) -> None:
    """Raise ValueError if an evaluation set names files that do not exist or cannot be streamed.

    Evaluation sets are read after the training data, so that the error would come late.
    """
    for number, item in enumerate(_listed(eval_set)):
        # The paths are checked here, long before the files are read.
        if is_path(item):
            from rankwright.data.files import DataFiles

            with _naming_set(number):
                DataFiles.of(item).files  # noqa: B018 (the property checks the paths)


def _listed(eval_set: Any) -> Sequence[Any]:
    """Return evaluation sets as a list, because a single set may be given without a list."""
    if eval_set is None:
        return []
    # A tuple of three paths names three files, but a tuple of three arrays is (X, y, qid).
    is_triple = isinstance(eval_set, tuple) and len(eval_set) == 3 and not is_path(eval_set)
    is_set = isinstance(eval_set, RankingData | str | os.PathLike) or is_triple
    if is_set or frame_columns(eval_set):
        return [eval_set]
    if not isinstance(eval_set, list | tuple):
        raise ValueError(
            "eval_set must be a list of (X, y, qid) or of RankingData; got a "
            f"{type(eval_set).__name__}."
        )
    return eval_set


@contextmanager
def _naming_set(number: int) -> Iterator[None]:
    """Let errors about an evaluation set begin with its number."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None


def named_labels_of(X: Any, y: Any) -> Any:
    """Return the labels that a text or a list of texts names, or the value itself."""
    if names_columns(y, frame_columns(X)) and not isinstance(y, str):
        return {name: named_column(X, name, "y") for name in y}
    return named_column(X, y, "y")
