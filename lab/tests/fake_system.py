"""A system without a library, for tests that train in a separate process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright import RankingData


@dataclass(frozen=True)
class Fake:
    """Scores proportional to the labels; allocates memory while it trains, and counts trainings."""

    name: str
    factor: float = 1.0
    megabytes: int = 0
    by_metric: bool = False
    fits = 0

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Fake:
        type(self).fits += 1
        if train.n_queries == 20:
            return self  # the small training before the measurement
        if self.megabytes < 0:
            raise ValueError("out of order")
        held = np.ones(self.megabytes * 2**20, dtype=np.uint8)
        assert held.all()
        return self

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Any]:
        yield self.factor * data.y
