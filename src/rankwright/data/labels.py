"""Labels by name: documents may have several, one for each goal, of which the first is the main one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries, check_labels
from rankwright.support.frames import as_frame
from rankwright.support.notation import check_label_name, nearest

Labels = Mapping[str, NDArray[np.float64]]
UNNAMED = "label"  # the name of a label that was given without one


def named_labels(labels: Any) -> dict[str, Any] | None:
    """Return the labels of a dict or a data frame by name; None for a single label."""
    if isinstance(labels, Mapping):
        named = dict(labels)
    else:
        frame = as_frame(labels)
        if frame is None:
            return None
        named = {name: frame[name] for name in frame.columns}
    if not named:
        raise ValueError(
            "y holds no labels; give at least one by name, such as {'relevance': [...]}."
        )
    for name in named:
        if name is None:
            raise ValueError("y: a label's name must be text; got None.")
        check_label_name(name, "y")
    return named


def grouped_labels(labels: Any, queries: Queries) -> dict[str, NDArray[np.float64]]:
    """Check one label or several, and put them into grouped order.

    Examples
    --------
    >>> queries = Queries.from_qid(["b", "a", "b"])
    >>> {name: values.tolist() for name, values in grouped_labels({"a": [1, 2, 3]}, queries).items()}
    {'a': [2.0, 1.0, 3.0]}
    >>> list(grouped_labels([1, 2, 3], queries))
    ['label']
    """
    named = named_labels(labels)
    if named is None:
        return {UNNAMED: check_labels(labels, queries)}
    return {name: check_named(name, values, queries) for name, values in named.items()}


def check_named(name: str, values: Any, queries: Queries) -> NDArray[np.float64]:
    """Check a label; an error says which."""
    try:
        return check_labels(values, queries)
    except ValueError as error:
        raise ValueError(f"label {name!r}: {error}") from None


def number_of_rows(labels: Any) -> int:
    """Return the number of rows of one label or several."""
    named = named_labels(labels)
    return int(np.size(labels if named is None else next(iter(named.values()))))


def choose_label(labels: Labels, name: str | None) -> NDArray[np.float64]:
    """Return the label of a name, or the main one without a name."""
    if not labels:
        raise ValueError(
            "there are no labels, only pairs; give labels as y, or use an objective that learns from pairs, such as "
            "'ranknet(pairs)'."
        )
    if name is None:
        return next(iter(labels.values()))
    if name not in labels:
        raise ValueError(
            f"unknown label {name!r}{nearest(name, labels)} The data has {', '.join(map(repr, labels))}: give y as a "
            "dict or frame of labels by name."
        )
    return labels[name]
