"""Models that score in stages, and results as frames, charts and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from rankwright.data.dataset import RankingData

Floats = NDArray[np.float64]


def ranker_of(model: Any) -> Any:
    """Return the ranker of a run, or the ranker itself."""
    ranker = getattr(model, "ranker", model)
    if not hasattr(ranker, "staged_predict"):
        raise ValueError(
            f"expected a fitted Ranker, or a run that holds one; got a {type(model).__name__}."
        )
    return ranker


def threads_of(ranker: Any, threads: int | None) -> int | None:
    """Return the given number of threads, or else that of the ranker; None for all cores."""
    if threads is None and ranker.n_jobs not in (None, -1):
        return int(ranker.n_jobs)
    return threads


def stages(ranker: Any, data: RankingData, every: int) -> Iterator[tuple[int, Floats]]:
    """Yield the number of trees and the scores after ``every`` trees, twice as many, and so on up to all trees."""
    n_trees = ranker.forest_.n_trees
    for number, scores in enumerate(ranker.staged_predict(data, every=every), start=1):
        yield min(number * every, n_trees), scores


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a pandas frame of the rows."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas; run `pip install pandas`.") from error
    return pd.DataFrame(list(rows))


def altair() -> Any:
    """Import Altair, or say how to install it."""
    try:
        import altair
    except ImportError as error:
        raise ImportError('charts need Altair; run `pip install "rankwright[report]"`.') from error
    return altair


def plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinities become None, ids of other types become text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
