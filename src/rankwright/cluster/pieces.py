"""Pieces of data that workers read, and whole queries brought together from them.

Queries are dealt to buckets by their keys, and buckets to workers by their rows, so that a query has one home wherever
its rows were stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.columns import Columns, HasColumns, matched_names
from rankwright.data.dataset import RankingData
from rankwright.data.formats.contract import ReadOptions
from rankwright.data.formats.tables import data_of_table, resolved
from rankwright.data.queries import mix, plain_ids
from rankwright.data.reading import read_table
from rankwright.data.row_order import row_hashes

BUCKETS = (
    4096  # more than workers: the rows of a worker are then within a few per cent of their mean
)


class Piece(NamedTuple):
    """A part of the data before it is read; ``name`` says in errors where it came from, and who reads it."""

    name: str
    source: Any  # a path of Parquet, a data frame, or (X, y, qid, weights)
    labels: tuple[str, ...]
    qid: str
    weight: str | None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Loaded:
    """A piece that was read, or None where it has no rows."""

    data: RankingData | None
    name: str


class Description(NamedTuple):
    """What the client learns of a piece: its columns, the names of its labels, and the rows of each bucket."""

    name: str
    columns: Columns | None
    labels: tuple[str, ...]
    rows: NDArray[np.int64]


def load(piece: Piece) -> Loaded:
    """Read a piece; what is wrong with it is an error that names it."""
    try:
        return Loaded(_read(piece), piece.name)
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"{piece.name}: {str(error).strip() or type(error).__name__}") from None


def _read(piece: Piece) -> RankingData | None:
    source = piece.source
    if isinstance(source, RankingData) or source is None:
        return source
    if isinstance(source, tuple):
        X, y, qid, weights = source
        return RankingData(X, y, qid=qid, weights=weights) if len(y) else None
    if not isinstance(source, str):
        if len(source) == 0:
            return None
        weights = None if piece.weight is None else source[piece.weight].to_numpy()
        frame = source if piece.weight is None else source.drop(columns=piece.weight)
        return RankingData(
            frame,
            _label(piece),
            qid=piece.qid,
            weights=weights,
            categorical=piece.categorical or None,
        )
    table = read_table(source)
    if len(table) == 0:
        return None
    options = ReadOptions(
        label=piece.labels,
        qid=piece.qid,
        weight=piece.weight,
        categorical=tuple(piece.categorical),
        drop=tuple(piece.drop),
    )
    return data_of_table(table, resolved(options, source, table.schema))


def _label(piece: Piece) -> str | list[str]:
    return piece.labels[0] if len(piece.labels) == 1 else list(piece.labels)


def describe(loaded: Loaded) -> Description:
    """Count the rows of each bucket."""
    data = loaded.data
    if data is None:
        return Description(loaded.name, None, (), np.zeros(BUCKETS, dtype=np.int64))
    columns = Columns(data.feature_names, data.categories, data.named, data.first_index)
    rows = np.bincount(_buckets(data), data.group, BUCKETS).astype(np.int64)
    return Description(loaded.name, columns, data.label_names, rows)


def _buckets(data: RankingData) -> NDArray[np.int64]:
    """Bucket of each query; keys are mixed again, as draws depend on their low bits."""
    return (mix(data.query_keys) % np.uint64(BUCKETS)).astype(np.int64)


def common_columns(described: Sequence[Description], reference: Columns | None) -> Columns:
    """Return the columns of all pieces, with the levels of all; raise ValueError, by name, where one has others."""
    known = [one for one in described if one.columns is not None]
    if not known:
        raise ValueError("the data is empty: no part of it has a row.")
    first = known[0].columns if reference is None else reference
    assert first is not None
    origin = known[0].name if reference is None else "the training data"
    levels = dict(first.categories)
    for one in known:
        assert one.columns is not None
        try:
            categories = _by_new_name(one.columns, first)[1]
            if categories.keys() != levels.keys():
                names = sorted(categories.keys() ^ levels.keys())
                raise ValueError(
                    f"column {names[0]!r} holds categories in one part and numbers in another."
                )
        except ValueError as error:
            raise ValueError(f"{one.name} does not have the columns of {origin}: {error}") from None
        for name, own in categories.items():
            if (own is None) != (levels[name] is None):
                raise ValueError(
                    f"{one.name}: column {name!r} holds codes in one part and texts in another."
                )
            if own is not None and reference is None:
                joined = {*own, *(levels[name] or ())}
                levels[name] = tuple(sorted(joined, key=lambda value: (str(type(value)), value)))
    return Columns(first.feature_names, levels, first.named, first.first_index)


def common_labels(described: Sequence[Description]) -> tuple[str, ...]:
    """Return the names of the labels of all pieces; raise ValueError, by name, where one has others."""
    known = [one for one in described if one.columns is not None]
    for one in known:
        if one.labels != known[0].labels:
            raise ValueError(
                f"{one.name} has the labels {', '.join(one.labels)}, and {known[0].name} has "
                f"{', '.join(known[0].labels)}; give all parts the same."
            )
    return known[0].labels


def _by_new_name(data: HasColumns, reference: HasColumns) -> tuple[list[int], dict[str, Any]]:
    """Return the number of each column in the order of the reference, and categories by its names.

    Columns are matched by name, in any order, where both sides have names, and otherwise by position.
    """
    names = list(data.feature_names)
    if set(names) == set(reference.feature_names):
        return [names.index(name) for name in reference.feature_names], dict(data.categories)
    new_name = dict(zip(names, matched_names(names, data.named, reference), strict=True))
    return list(range(len(names))), {
        new_name[name]: levels for name, levels in data.categories.items()
    }


def owners(rows: NDArray[np.int64], n_workers: int) -> NDArray[np.int64]:
    """Deal buckets to workers, the largest first, each to the worker with the fewest rows so far [buckets].

    Examples
    --------
    >>> owners(np.array([9, 5, 4, 1]), 2).tolist()
    [0, 1, 1, 0]
    """
    home = np.zeros(len(rows), dtype=np.int64)
    loads = [(0, worker) for worker in range(n_workers)]
    for bucket in np.argsort(-rows, kind="stable").tolist():
        load_so_far, worker = heapq.heappop(loads)
        home[bucket] = worker
        heapq.heappush(loads, (load_so_far + int(rows[bucket]), worker))
    return home


def portions(
    loaded: Loaded, columns: Columns, home: NDArray[np.int64], n_workers: int
) -> list[RankingData | None]:
    """Cut a piece into what each worker gets, with common categories."""
    if loaded.data is None:
        return [None] * n_workers
    data = _with_columns(loaded.data, columns)
    worker = home[_buckets(data)]
    return [
        data.subset(worker == number) if np.any(worker == number) else None
        for number in range(n_workers)
    ]


def _with_columns(data: RankingData, columns: Columns) -> RankingData:
    """Put the columns into the common order, and categories into common codes."""
    order, categories = _by_new_name(data, columns)
    X = data.X if order == list(range(len(order))) else data.X[:, order]
    for name, levels in columns.categories.items():
        own = categories[name]
        if levels is None or own is None or own == levels:
            continue
        code = {level: number for number, level in enumerate(levels)}
        table = np.array([code.get(level, np.nan) for level in own] + [np.nan])
        column = columns.feature_names.index(name)
        values = X[:, column]
        X = X.copy()
        X[:, column] = table[np.where(np.isnan(values), len(own), values).astype(np.int64)]
    return _data(X, data.labels, data.qid, data.weights, columns)


def assemble(parts: Sequence[RankingData | None], columns: Columns) -> RankingData | None:
    """Join the portions of a worker, in which a query may be in several; rows in canonical order."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    sparse = any(sp.issparse(part.X) for part in known)
    X = (
        sp.vstack([part.X for part in known], format="csr")
        if sparse
        else np.concatenate([part.X for part in known])
    )
    kinds = {part.qid.dtype.kind for part in known}
    qid: Any = [value for part in known for value in plain_ids(part.qid)]
    if len(kinds) == 1 and kinds <= set("iufbU"):
        qid = np.concatenate([part.qid for part in known])
    weighted = any(part.weights is not None for part in known)
    weights = [np.ones(part.n_rows) if part.weights is None else part.weights for part in known]
    labels = {
        name: np.concatenate([part.labels[name] for part in known]) for name in known[0].label_names
    }
    return _data(X, labels, qid, np.concatenate(weights) if weighted else None, columns).canonical(
        threads=1
    )


def _data(
    X: Any, labels: Mapping[str, Any], qid: Any, weights: Any, columns: Columns
) -> RankingData:
    data = RankingData(
        X, dict(labels), qid=qid, weights=weights, feature_names=columns.feature_names
    )
    data.categories, data.named, data.first_index = (
        columns.categories,
        columns.named,
        columns.first_index,
    )
    return data


def without_rows(columns: Columns, labels: Sequence[str]) -> RankingData:
    """Stand in for an evaluation set on a worker that has none of its queries: one that counts for nothing."""
    X = np.full((1, len(columns.feature_names)), np.nan)
    return _data(X, {name: [0.0] for name in labels}, [0], [0.0], columns)


def content_hash(data: RankingData) -> int:
    """Hash of the rows, whose sum over all workers does not depend on who has which."""
    rows = mix(row_hashes(data.X, 1) ^ mix(np.repeat(data.query_keys, data.group)))
    for values in (
        *data.labels.values(),
        np.ones(data.n_rows) if data.weights is None else data.weights,
    ):
        rows = mix(rows ^ mix(values.astype(np.float64).view(np.uint64)))
    return int(rows.sum(dtype=np.uint64))
