"""Ranking data from files that are larger than memory: features go to a temporary file, the rest to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import HasColumns
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles
from rankwright.data.formats import blocks_of
from rankwright.data.formats.contract import RowBlock, Show, silent
from rankwright.data.joining import joined_ids, joined_weights
from rankwright.data.on_disk import write_rows
from rankwright.data.queries import Queries
from rankwright.support.files import PathLike
from rankwright.support.memory import release_memory

_NO_FEATURES = np.empty((0, 0))


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
    r"""Read ranking data without holding its features in memory.

    The files are read block by block. Labels, queries, weights and fields are kept in memory. Features go to a
    temporary file without a name, of eight bytes a value, and ``data.X`` is a `numpy.memmap` of it. The
    environment variable ``TMPDIR`` names its folder. Everything works with this data as with data in memory, and a
    model has the same bits. Rows may come in any order, and the rows of a query may be in several files.

    Parameters
    ----------
    path
        A folder, in which files are found at any depth, a file, a pattern such as ``data/*.parquet``, or several of
        them: Parquet, Arrow, or LETOR text, plain or ``.gz``.
    label, qid, weight, drop, categorical, fields, zero_based, labelled, reference
        As in `read_data`; all files have the same columns.
    show
        Called with the name of the current step, the bytes read so far, and the bytes in all.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwright import Ranker, make_web_search, read_data, write_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_data(make_web_search(30, n_features=20, random_state=1), folder + "/train.parquet")
    ...     data = stream_data(folder)
    ...     in_memory = Ranker(n_estimators=3, verbose=0).fit(read_data(folder + "/train.parquet"))
    >>> streamed = Ranker(n_estimators=3, verbose=0).fit(data)
    >>> data.n_queries, streamed.forest_.dump() == in_memory.forest_.dump()
    (30, True)
    """
    if not isinstance(path, DataFiles):
        columns: dict[str, Any] = {"label": label, "qid": qid, "weight": weight, "drop": drop}
        columns |= {"categorical": categorical, "fields": fields, "zero_based": zero_based}
        path = DataFiles.of(path, **columns)
    reader = blocks_of(path, reference, labelled, show)
    blocks: list[RowBlock] = []  # without their features
    width = len(reader.columns.feature_names)
    X = write_rows(_features(reader, blocks), (reader.n_rows, width), np.float64)
    data = _joined(X, blocks, reader, labelled)
    release_memory()
    return data


def _features(reader: Any, blocks: list[RowBlock]) -> Iterator[NDArray[np.float64]]:
    """Yield the features of all rows in the order of the files, and append all else of each block to ``blocks``."""
    n_read = 0
    for block in reader.blocks("rows"):
        n_read += len(block.rows)
        if n_read > reader.n_rows:
            break
        blocks.append(block._replace(X=_NO_FEATURES))
        # Rows of a block are sorted by query, and most files already are.
        order = np.argsort(block.rows)
        is_sorted = np.array_equal(order, np.arange(len(order)))
        yield block.X if is_sorted else block.X[order]
    if n_read != reader.n_rows:
        raise ValueError(
            f"the files have changed since they were first read: there are {n_read} rows, and there were "
            f"{reader.n_rows}. Start again once they are complete."
        )


def _joined(X: Any, blocks: Sequence[RowBlock], reader: Any, labelled: bool) -> RankingData:
    """Put together the rows of all blocks."""
    # Blocks are grouped by query, so their rows have to go back to the order of the files.
    order = np.concatenate([block.rows for block in blocks])

    def in_files(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return values of all rows in the order of the files."""
        joined = np.concatenate(values)
        placed = np.empty_like(joined)
        placed[order] = joined
        return placed

    columns = reader.columns
    labels = {name: in_files([block.labels[name] for block in blocks]) for name in blocks[0].labels}
    # Some files may have weights and others not.
    sizes = [len(block.rows) for block in blocks]
    weights = joined_weights([block.weights for block in blocks], sizes)
    data = RankingData(
        X,
        labels or np.zeros(len(order)),
        qid=_queries(blocks, in_files),
        sample_weight=None if weights is None else in_files([weights]),
        feature_names=columns.feature_names,
        fields={
            name: in_files([block.fields[name] for block in blocks]) for name in blocks[0].fields
        },
    )
    data.categories, data.named = columns.categories, columns.named
    data.first_index = columns.first_index
    if not labelled:
        data.label_names = ()
    return data


def _queries(
    blocks: Sequence[RowBlock], in_files: Callable[[Sequence[NDArray[Any]]], NDArray[Any]]
) -> Queries:
    """Bring the queries of all blocks together."""
    ids_of_blocks = [block.queries.ids for block in blocks]
    # The rows of a query may be in several blocks, so the ids of all blocks are grouped once
    # more.
    queries = Queries.from_qid(joined_ids(ids_of_blocks))
    number = queries.ungroup(queries.query_of_row)  # of each id of each block
    ends = np.cumsum([len(array) for array in ids_of_blocks])
    numbers_of_blocks = np.split(number, ends[:-1])
    rows = [
        np.repeat(numbers, block.queries.sizes)
        for numbers, block in zip(numbers_of_blocks, blocks, strict=True)
    ]
    return Queries.of_numbers(queries.ids, in_files(rows))
