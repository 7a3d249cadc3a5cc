"""Pieces of data that workers read, and whole queries brought together from them.

Queries are dealt to buckets by their keys, and buckets to workers by their rows. So all rows of a
query come to the same worker, wherever they were stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.base_score import FIELD, with_base_score
from rankwright.data.columns import Columns, HasColumns, matched_names
from rankwright.data.dataset import RankingData
from rankwright.data.formats.contract import ReadOptions
from rankwright.data.formats.tables import data_of_table, resolved
from rankwright.data.joining import joined_ids, joined_weights, stacked
from rankwright.data.queries import mix
from rankwright.data.reading import read_table
from rankwright.data.row_order import row_hashes

# With many more buckets than workers, the rows of a worker are within a few per cent of their mean.
BUCKETS = 4096


class Piece(NamedTuple):
    """A part of the data before it is read.

    ``source`` is a path of Parquet, a data frame, or (X, y, qid, weights, base scores). Errors name
    the origin of the part and its reader by ``name``. ``base_score`` is the field of the base scores
    and their column.
    """

    name: str
    source: Any
    labels: tuple[str, ...]
    qid: str
    weight: str | None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    base_score: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Loaded:
    """A piece that was read, with the field of base scores; the data is None if it has no rows."""

    data: RankingData | None
    name: str
    base_score: str | None = None


class Description(NamedTuple):
    """The description of a piece for the client, with the number of rows of each bucket."""

    name: str
    columns: Columns | None
    labels: tuple[str, ...]
    rows: NDArray[np.int64]


def load(piece: Piece) -> Loaded:
    """Read a piece; errors name it."""
    try:
        data = _read(piece)
        if piece.base_score is None:
            return Loaded(data, piece.name)
        if data is not None:
            data = with_base_score(data, *piece.base_score)
        return Loaded(data, piece.name, piece.base_score[0])
    except Exception as error:
        # A damaged file may lead to any error.
        raise ValueError(f"{piece.name}: {str(error).strip() or type(error).__name__}") from None


def _read(piece: Piece) -> RankingData | None:
    source = piece.source
    if isinstance(source, RankingData) or source is None:
        return source
    if isinstance(source, tuple):
        X, y, qid, weights, base = source
        if len(y) == 0:
            return None
        fields = {} if base is None else {FIELD: base}
        return RankingData(X, y, qid=qid, sample_weight=weights, fields=fields)
    # A partition may be empty, for example after a filter, and empty data cannot be made.
    if not isinstance(source, str):
        if len(source) == 0:
            return None
        weights = None
        if piece.weight is not None:
            weights = source[piece.weight].to_numpy()
            source = source.drop(columns=piece.weight)
        return RankingData(
            source,
            _label(piece),
            qid=piece.qid,
            sample_weight=weights,
            categorical=piece.categorical or None,
            fields=_field_columns(piece),
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
        fields=_field_columns(piece),
    )
    return data_of_table(table, resolved(options, source, table.schema))


def _field_columns(piece: Piece) -> tuple[str, ...]:
    return () if piece.base_score is None else (piece.base_score[1],)


def _label(piece: Piece) -> str | list[str]:
    if len(piece.labels) == 1:
        return piece.labels[0]
    return list(piece.labels)


def describe(loaded: Loaded) -> Description:
    """Count the rows of each bucket."""
    data = loaded.data
    # Empty pieces have no columns to compare, but they count for no bucket.
    if data is None:
        return Description(loaded.name, None, (), np.zeros(BUCKETS, dtype=np.int64))
    columns = Columns(data.feature_names, data.categories, data.named, data.first_index)
    rows = np.bincount(_buckets(data), data.group, BUCKETS).astype(np.int64)
    return Description(loaded.name, columns, data.label_names, rows)


def _buckets(data: RankingData) -> NDArray[np.int64]:
    """Return the bucket of each query."""
    # Keys are mixed again because random draws depend on their low bits.
    return (mix(data.query_keys) % np.uint64(BUCKETS)).astype(np.int64)


def common_columns(described: Sequence[Description], reference: Columns | None) -> Columns:
    """Return the columns of all pieces, with the levels of all.

    Raise ValueError with the name of a piece that has other columns.
    """
    pieces = [piece for piece in described if piece.columns is not None]
    if not pieces:
        raise ValueError("the data is empty: no part of it has a row.")
    # Columns of an evaluation set must agree with the training data, and columns of training pieces
    # with the first piece.
    first, origin = reference, "the training data"
    if first is None:
        first, origin = pieces[0].columns, pieces[0].name
    assert first is not None
    levels = dict(first.categories)
    for piece in pieces:
        assert piece.columns is not None
        try:
            categories = _by_new_name(piece.columns, first)[1]
            if categories.keys() != levels.keys():
                names = sorted(categories.keys() ^ levels.keys())
                raise ValueError(
                    f"column {names[0]!r} holds categories in one part and numbers in another."
                )
        except ValueError as error:
            raise ValueError(
                f"{piece.name} does not have the columns of {origin}: {error}"
            ) from None
        # Levels of training pieces are joined. Levels of an evaluation set are not added, because
        # no tree knows them.
        for name, of_piece in categories.items():
            if (of_piece is None) != (levels[name] is None):
                raise ValueError(
                    f"{piece.name}: column {name!r} holds codes in one part and texts in another."
                )
            if of_piece is not None and reference is None:
                joined = {*of_piece, *(levels[name] or ())}
                levels[name] = tuple(sorted(joined, key=lambda value: (str(type(value)), value)))
    return Columns(first.feature_names, levels, first.named, first.first_index)


def common_labels(described: Sequence[Description]) -> tuple[str, ...]:
    """Return the names of the labels; raise ValueError with the name of a piece with others."""
    first, *later = [piece for piece in described if piece.columns is not None]
    for piece in later:
        if piece.labels != first.labels:
            raise ValueError(
                f"{piece.name} has the labels {', '.join(piece.labels)}, and {first.name} has "
                f"{', '.join(first.labels)}; give all parts the same."
            )
    return first.labels


def _by_new_name(data: HasColumns, reference: HasColumns) -> tuple[list[int], dict[str, Any]]:
    """Return the number of each column in the order of the reference, and categories by its names.

    Columns are matched by name, in any order, if both sides have names, and otherwise by position.
    """
    names = list(data.feature_names)
    if set(names) == set(reference.feature_names):
        return [names.index(name) for name in reference.feature_names], dict(data.categories)
    new_name = dict(zip(names, matched_names(names, data.named, reference), strict=True))
    return list(range(len(names))), {
        new_name[name]: levels for name, levels in data.categories.items()
    }


def owners(rows: NDArray[np.int64], n_workers: int) -> NDArray[np.int64]:
    """Return the worker of each bucket: the largest first, to the worker with the fewest rows.

    Examples
    --------
    >>> owners(np.array([9, 5, 4, 1]), 2).tolist()
    [0, 1, 1, 0]
    """
    # The heap has the worker with the fewest rows on top.
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
    """Cut a piece into the parts of the workers, with common categories."""
    if loaded.data is None:
        return [None] * n_workers
    # Categories get common codes before the piece is cut, while its own levels are at hand.
    data = _with_columns(loaded.data, columns, loaded.base_score)
    worker = home[_buckets(data)]
    parts = []
    for number in range(n_workers):
        queries = worker == number
        parts.append(data.subset(queries) if queries.any() else None)
    return parts


def _with_columns(data: RankingData, columns: Columns, base_score: str | None) -> RankingData:
    """Put the columns into the common order, and categories into common codes.

    The base scores are the only field that is kept.
    """
    order, categories = _by_new_name(data, columns)
    X = data.X
    if order != list(range(len(order))):
        X = X[:, order]
    for name, levels in columns.categories.items():
        of_piece = categories[name]
        if levels is None or of_piece is None or of_piece == levels:
            continue
        code = {level: number for number, level in enumerate(levels)}
        # The last entry is for missing values.
        table = np.array([code.get(level, np.nan) for level in of_piece] + [np.nan])
        column = columns.feature_names.index(name)
        values = X[:, column]
        # The features may belong to the user, so they are not changed in place.
        X = X.copy()
        X[:, column] = table[np.where(np.isnan(values), len(of_piece), values).astype(np.int64)]
    fields = {} if base_score is None else {base_score: data.fields[base_score]}
    return RankingData(
        X, data.labels, qid=data.qid, sample_weight=data.weights, reference=columns, fields=fields
    )


def assemble(parts: Sequence[RankingData | None], columns: Columns) -> RankingData | None:
    """Join the portions of a worker, with rows in canonical order.

    The rows of a query may be in several portions.
    """
    filled = [part for part in parts if part is not None]
    if not filled:
        return None
    weights = joined_weights([part.weights for part in filled], [part.n_rows for part in filled])
    labels = {}
    for name in filled[0].label_names:
        labels[name] = np.concatenate([part.labels[name] for part in filled])
    fields = {}
    for name in _further_fields(filled[0]):
        fields[name] = np.concatenate([part.fields[name] for part in filled])
    return RankingData(
        stacked([part.X for part in filled]),
        labels,
        qid=joined_ids([part.qid for part in filled]),
        sample_weight=weights,
        reference=columns,
        fields=fields,
    ).canonical(n_jobs=1)


def _further_fields(data: RankingData) -> list[str]:
    """Return the names of the fields that are no labels."""
    return [name for name in data.fields if name not in data.label_names]


def without_rows(columns: Columns, labels: Sequence[str], fields: Sequence[str]) -> RankingData:
    """Return data with a row of weight 0, for a worker without queries of an evaluation set."""
    # All machines take part in each sum, and weight 0 keeps the row out of every metric.
    X = np.full((1, len(columns.feature_names)), np.nan)
    zero, no_scores = ({name: [0.0] for name in names} for names in (labels, fields))
    return RankingData(X, zero, qid=[0], sample_weight=[0.0], reference=columns, fields=no_scores)


def content_hash(data: RankingData) -> int:
    """Hash the rows. The sum over all workers does not depend on which worker has which row."""
    # The hash of a row includes its query, label, base score and weight, so that swapping them
    # changes the sum.
    rows = mix(row_hashes(data.X, 1) ^ mix(np.repeat(data.query_keys, data.group)))
    base = [data.fields[name] for name in _further_fields(data)]
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    for values in (*data.labels.values(), *base, weights):
        rows = mix(rows ^ mix(values.astype(np.float64).view(np.uint64)))
    return int(rows.sum(dtype=np.uint64))
