"""How many rows and queries of the training data have no label."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData

_LOG = logging.getLogger("rankwright")


def judged_counts(data: RankingData) -> NDArray[np.int64]:
    """Count rows, judged rows, queries, and queries with a judged row; counts of machines add up."""
    judged = data.judged
    in_query = np.logical_or.reduceat(judged, data.boundaries[:-1])
    return np.array([data.n_rows, judged.sum(), data.n_queries, in_query.sum()], dtype=np.int64)


def report_unjudged(counts: NDArray[np.int64]) -> bool:
    """Log how many rows are unjudged, and return True if there are any."""
    rows, judged_rows, queries, judged_queries = counts.tolist()
    if rows == judged_rows:
        return False
    text = f"{rows - judged_rows:,} of {rows:,} rows have no label: they count in features within "
    text += "the query, and trees do not learn from them"
    if judged_queries < queries:
        text += f"; {queries - judged_queries:,} of {queries:,} queries have no label at all"
    _LOG.warning("%s.", text)
    return True
