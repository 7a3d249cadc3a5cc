"""Ranking data that stays in files: labels and queries are in memory, features are read when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.blocks import RowBlock, Show, blocks_of, silent
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles
from rankwright.data.matching import HasColumns
from rankwright.data.queries import Queries, plain_ids
from rankwright.data.row_order import row_hashes
from rankwright.data.row_stream import RowStream, Source
from rankwright.support.files import PathLike
from rankwright.support.memory import release_memory

_NOTHING = np.empty((0, 0))


def stream_data(
    path: PathLike | Sequence[PathLike] | DataFiles,
    *,
    label: str | Sequence[str] = "label",
    qid: str = "qid",
    weight: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    fields: Sequence[str] = (),
    zero_based: bool = False,
    labelled: bool = True,
    reference: HasColumns | None = None,
    show: Show = silent,
) -> RankingData:
    r"""Use ranking data without holding its features in memory.

    The files are read in blocks now, for labels and queries, and again whenever ``Ranker.fit``, ``predict`` or
    ``score`` needs the features: a training keeps one byte of each value. The model is that of `read_data`, bit by bit.
    Rows may come in any order, those of a query from several files.

    Parameters
    ----------
    path
        A folder, whose files are found at any depth, a file, a pattern such as ``data/*.parquet``, or several of them:
        Parquet, or LETOR text, plain or ``.gz``.
    label, qid, weight, drop, categorical, fields, zero_based, labelled, reference
        As in `read_data`; all files have the same columns.
    show
        Is called with what is being done, the bytes read so far, and the bytes in all.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwright import Ranker, make_web_search, read_data, write_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_data(make_web_search(30, n_features=20, seed=1), folder + "/train.parquet")
    ...     data = stream_data(folder)
    ...     streamed = Ranker(n_estimators=3, verbose=0).fit(data)
    ...     in_memory = Ranker(n_estimators=3, verbose=0).fit(read_data(folder + "/train.parquet"))
    >>> data.n_queries, streamed.forest_.dump() == in_memory.forest_.dump()
    (30, True)
    """
    if not isinstance(path, DataFiles):
        columns: dict[str, Any] = {"label": label, "qid": qid, "weight": weight, "drop": drop}
        columns |= {"categorical": categorical, "fields": fields, "zero_based": zero_based}
        path = DataFiles.of(path, **columns)
    reader = blocks_of(path, reference, labelled, show)
    parts = [
        _Part(block._replace(X=_NOTHING), row_hashes(block.X)) for block in reader.blocks("rows")
    ]
    data = _joined(parts, reader, labelled)
    release_memory()
    return data


class _Part(NamedTuple):
    """What stays in memory of a block: everything but its features, of which there is a hash."""

    block: RowBlock
    hashes: NDArray[np.uint64]


def _joined(parts: Sequence[_Part], reader: Any, labelled: bool) -> RankingData:
    blocks = [part.block for part in parts]
    order = np.concatenate(
        [block.rows for block in blocks]
    )  # rows of the files, as they are in the blocks

    def in_files(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return values of all rows in the order of the files."""
        joined = np.concatenate(values)
        placed = np.empty_like(joined)
        placed[order] = joined
        return placed

    hashes = in_files([part.hashes for part in parts])
    queries = _queries(blocks, in_files)
    columns = reader.columns
    stream = RowStream([Source(reader, hashes)], None, len(columns.feature_names))
    labels = {name: in_files([block.labels[name] for block in blocks]) for name in blocks[0].labels}
    y: Any = labels or np.zeros(len(order))
    weighted = any(block.weights is not None for block in blocks)
    weights = [
        np.ones(len(block.rows)) if block.weights is None else block.weights for block in blocks
    ]
    fields = {name: in_files([block.fields[name] for block in blocks]) for name in blocks[0].fields}
    data = RankingData(
        stream,
        y,
        qid=queries,
        weights=in_files(weights) if weighted else None,
        feature_names=columns.feature_names,
        fields=fields,
    )
    data.categories, data.named, data.first_index = (
        columns.categories,
        columns.named,
        columns.first_index,
    )
    if not labelled:
        data.label_names = ()
    return data


def _queries(blocks: Sequence[RowBlock], in_files: Any) -> Queries:
    """Bring the queries of all blocks together."""
    arrays = [block.queries.ids for block in blocks]
    one_kind = len({ids.dtype.kind for ids in arrays}) == 1 and arrays[0].dtype.kind in "iufbU"
    ids = (
        np.concatenate(arrays)
        if one_kind
        else [value for array in arrays for value in plain_ids(array)]
    )
    every = Queries.from_qid(ids)
    number = np.empty(every.n_rows, dtype=np.int64)  # of each id of each block
    number[slice(None) if every.order is None else every.order] = every.query_of_row
    ends = np.cumsum([len(array) for array in arrays]).tolist()
    own = [number[end - len(array) : end] for end, array in zip(ends, arrays, strict=True)]
    rows = [
        np.repeat(numbers, block.queries.sizes) for numbers, block in zip(own, blocks, strict=True)
    ]
    return Queries.of_numbers(every.ids, in_files(rows))
