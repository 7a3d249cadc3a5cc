"""Ranking data as Arrow tables: what describes their columns, and what is read from and written to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwright.data.encoding import take_column
from rankwright.data.labels import UNNAMED
from rankwright.data.matching import HasColumns, Levels
from rankwright.data.queries import as_floats
from rankwright.support.files import require_arrow

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData


def to_arrow(data: RankingData) -> Any:
    """Return a table of the features, the columns ``label``, ``qid`` and ``weight``, and the fields."""
    require_arrow()
    import pyarrow as pa

    if sp.issparse(data.X):
        raise ValueError(
            "Parquet needs dense columns, but this data is sparse; use write_letor, or make X dense first."
        )
    columns = label_columns(data, _plain_ids(data.qid))
    for number, name in enumerate(data.feature_names):
        columns[name] = np.ascontiguousarray(data.X[:, number])
    try:
        described: dict[str, Any] = {
            "categories": data.categories,
            "weighted": data.weights is not None,
        }
        described["fields"] = [name for name in data.fields if name not in data.label_names]
        if len(data.label_names) > 1:
            described["labels"] = data.label_names
        metadata = json.dumps(described)
    except TypeError:
        raise ValueError(
            "the file can hold only categories that are text or numbers; turn others into text."
        ) from None
    return pa.table(columns).replace_schema_metadata({"rankwright": metadata})


def read_arrow(
    table: Any,
    *,
    label: str | Sequence[str] | None,
    qid: str,
    weight: str | None,
    drop: Sequence[str],
    categorical: Sequence[str],
    fields: Sequence[str],
    reference: HasColumns | None,
) -> tuple[dict[str, Any], Levels]:
    """Return the arguments of `RankingData` for a table, and the levels of the columns that hold codes.

    The parameters are those of `RankingData.from_arrow`.
    """
    metadata = table_metadata(table)
    if weight is None and metadata.get("weighted"):
        weight = "weight"
    if label == UNNAMED and UNNAMED not in table.column_names and metadata.get("labels"):
        label = list(metadata["labels"])
    labels = [] if label is None else [label] if isinstance(label, str) else list(label)
    unused = [name for name in _index_columns(table) if name not in (*labels, qid, weight)]
    table = table.drop_columns(list({*unused, *drop}))  # pandas stores row numbers as a column
    weights = None
    if weight is not None:
        frame, weights = take_column(nw.from_native(table, eager_only=True), weight, "weight")
        table = frame.to_native()
    stored = {name: v for name, v in metadata.get("categories", {}).items() if name not in drop}
    levels: Levels = {name: None if v is None else tuple(v) for name, v in stored.items()}
    for name, texts in levels.items():
        if texts is not None:
            _check_levels(table, name, texts)
    if reference is not None:
        for name, texts in levels.items():
            if texts is not None:
                table = _with_levels(table, name, texts)
    categorical = list(dict.fromkeys([*levels, *categorical]))
    y: Any = np.zeros(len(table)) if label is None else label
    fields = [
        name for name in dict.fromkeys([*metadata.get("fields", []), *fields]) if name not in drop
    ]
    arguments = {
        "X": table,
        "y": y,
        "qid": qid,
        "weights": weights,
        "categorical": categorical or None,
    }
    return {**arguments, "reference": reference, "fields": fields}, levels


def label_columns(data: RankingData, ids: Any) -> dict[str, Any]:
    """Return the columns of a file that are not features: ``label``, ``qid``, ``weight`` and the fields."""
    if data.pairs is not None:
        raise ValueError(
            "the data has pairs, which a file of rows cannot hold; write rows without them."
        )
    several = len(data.label_names) > 1
    columns = {data.label_names[0] if several else UNNAMED: data.y, "qid": ids}
    if data.weights is not None:
        columns["weight"] = data.weights
    if reserved := columns.keys() & data.fields.keys():
        raise ValueError(
            f"a field is named {sorted(reserved)[0]!r}, which the file needs itself; rename the field."
        )
    columns |= {name: list(v) if v.dtype == object else v for name, v in data.fields.items()}
    if clash := columns.keys() & set(data.feature_names):
        raise ValueError(
            f"a feature is named {sorted(clash)[0]!r}, which the file needs itself; rename the feature."
        )
    return columns


def table_metadata(table: Any) -> dict[str, Any]:
    """Read what `RankingData.to_parquet` wrote about the columns; raise ValueError where it was changed."""
    try:
        metadata = json.loads((table.schema.metadata or {}).get(b"rankwright", b"{}"))
        categories, fields = metadata.get("categories", {}), metadata.get("fields", [])
        labels = metadata.get("labels") or []
        valid = (
            all(levels is None or isinstance(levels, list) for levels in categories.values())
            and isinstance(fields, list)
            and isinstance(labels, list)
            and all(isinstance(label, str) for label in labels)
            and {*categories, *fields, *labels} <= {*table.column_names}
            and all(
                isinstance(level, str | int | float)
                for levels in categories.values()
                for level in levels or ()
            )
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(
            "the file's description of its columns (the metadata named rankwright) was damaged; write the file again, "
            "or remove the metadata to read its columns as they are."
        )
    return dict(metadata)


def _index_columns(table: Any) -> list[str]:
    """Return the columns that hold the row numbers of a pandas frame."""
    try:
        names = (table.schema.pandas_metadata or {}).get("index_columns", [])
        return [name for name in names if isinstance(name, str) and name in table.column_names]
    except (ValueError, AttributeError, TypeError, RecursionError):  # not what pandas writes
        return []


def _check_levels(table: Any, name: str, levels: tuple[Any, ...]) -> None:
    """Raise ValueError unless a column holds codes of these levels, or is missing."""
    codes = as_floats(
        table[name].to_numpy(),
        f"column {name!r} must hold the codes of its {len(levels)} categories.",
    )
    bad = np.flatnonzero(
        ~(np.isnan(codes) | ((codes >= 0) & (codes < len(levels)) & (codes == np.trunc(codes))))
    )
    if len(bad) or len(set(levels)) < len(levels):
        problem = f"{codes[bad[0]]:g} in row {bad[0]}" if len(bad) else "a category twice"
        raise ValueError(
            f"column {name!r} holds codes of {len(levels)} categories, from 0 to {len(levels) - 1}, and has {problem}; "
            "write the file again."
        )


def _with_levels(table: Any, name: str, levels: tuple[Any, ...]) -> Any:
    """Replace the codes in a column of an Arrow table by the levels they stand for."""
    require_arrow()
    import pyarrow as pa

    codes = table[name].to_numpy()
    values = [None if np.isnan(code) else levels[int(code)] for code in codes]
    try:
        column = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        raise ValueError(
            f"column {name!r} has categories of several types, or very large numbers; write the file with text only."
        ) from None
    return table.set_column(table.column_names.index(name), name, column)


def _plain_ids(qid: NDArray[Any]) -> Any:
    if qid.dtype != object:
        return qid
    kinds = {type(value) for value in qid}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), str | int | bytes):
        raise ValueError(
            "Parquet needs query ids of one plain type; turn them into numbers or strings first."
        )
    return list(qid)
