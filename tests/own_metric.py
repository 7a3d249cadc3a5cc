"""A metric such as a user writes, for the grids; defined once, since metrics are known by name."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.metrics import Metric


@dataclass(frozen=True)
class Own(Metric):
    """w_i = 1 / i^2, g = sqrt(r), d = 1 / (1 + r), Z = 1 + number of documents."""

    name: ClassVar[str] = "own"

    def weights(self, n):
        return 1 / np.arange(1, n + 1) ** 2

    def gains(self, labels):
        return np.sqrt(labels)

    def continuations(self, labels):
        return 1 / (1 + labels)

    def normalisers(self, weight, gain, boundaries):
        return 1.0 + np.diff(boundaries)
