"""Ranking metrics: values that can be printed, parsed and compared, and that bind to labels as arrays.

The formula of a metric stands at the head of `rankwright.kernels.exchange`. A metric of your own is a subclass of
`Metric` that defines the first two of these parts, and the others if the default does not fit:

    weights(n)             w, the weight of each position
    gains(labels)          g, the gain of each document
    continuations(labels)  d, the probability that the user continues past each document: 1
    carries(labels)        e, the amount that each document adds to the user's state: 0. Define d or e, not both
    normalisers(...)       Z, by which the sum of each query is divided: 1

Binding turns these into arrays. The rest of the package uses the arrays only, so your metric works with every
objective:

>>> from dataclasses import dataclass
>>> from typing import ClassVar
>>> import numpy as np
>>> @dataclass(frozen=True)
... class SquaredDiscount(Metric):
...     '''Binary gain, discounted by the square of the position.'''
...     name: ClassVar[str] = "squared"
...     threshold: float = 1
...     def weights(self, n):
...         return 1 / np.arange(1, n + 1) ** 2
...     def gains(self, labels):
...         return (labels >= self.threshold).astype(float)
>>> SquaredDiscount(at=2).of(scores=[3, 2, 1], labels=[0, 1, 1])    # 1 / 2^2
0.25
>>> metric("squared(threshold=2)@5")
SquaredDiscount(at=5, threshold=2)
"""

from rankwright.metrics.base import Metric, MetricSum, known_metrics, metric, metric_texts
from rankwright.metrics.definitions import (
    ARP,
    DCG,
    DCGRR,
    ERR,
    MAP,
    MRR,
    NDCG,
    RBP,
    ExpDCG,
    JudgedShare,
    PFound,
    Precision,
    Recall,
    Success,
)

__all__ = [
    "ARP",
    "DCG",
    "DCGRR",
    "ERR",
    "MAP",
    "MRR",
    "NDCG",
    "RBP",
    "ExpDCG",
    "JudgedShare",
    "Metric",
    "MetricSum",
    "PFound",
    "Precision",
    "Recall",
    "Success",
    "known_metrics",
    "metric",
    "metric_texts",
]
