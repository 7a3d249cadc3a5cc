"""Ranking metrics by their definitions: loops over positions, and all orders of tied documents.

Slow and obvious on purpose; shares no code with the package. Queries without any gain are worth 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

Labels = Sequence[float]


def metric_value(name: str, labels: Labels, at: int | None = None, **options: Any) -> float:
    """Value of a metric for all labels of a query, given from the first position to the last."""
    return DEFINITIONS[name](list(labels), len(labels) if at is None else at, **options)


def ranked_value(
    name: str,
    scores: Sequence[float],
    labels: Labels,
    ties: str,
    at: int | None = None,
    **options: Any,
) -> float:
    """Value of a metric under a tie policy, from the values in every order that the scores allow."""
    values = [
        metric_value(name, [labels[a] for a in order], at, **options) for order in orders(scores)
    ]
    return by_policy(values, lower_is_better=name == "arp")[ties]


def by_policy(values: Sequence[float], lower_is_better: bool = False) -> dict[str, float]:
    """Value under each tie policy, from the values in all orders, that of the input first."""
    low, high = min(values), max(values)
    return {
        "worst": high if lower_is_better else low,
        "best": low if lower_is_better else high,
        "expected": math.fsum(values) / len(values),
        "input": values[0],
    }


def orders(scores: Sequence[float]) -> Iterator[list[int]]:
    """All orders of the documents by descending score; the first one keeps ties in input order."""
    blocks = [
        [a for a, z in enumerate(scores) if z == level]
        for level in sorted(set(scores), reverse=True)
    ]
    for choice in itertools.product(*(itertools.permutations(block) for block in blocks)):
        yield [a for block in choice for a in block]


def gain_of(label: float, gain: str = "exponential") -> float:
    return 2.0**label - 1 if gain == "exponential" else float(label)


def discount_of(position: int, discount: str = "log2") -> float:
    """Discount at a one-based position."""
    return 1 / math.log2(position + 1) if discount == "log2" else 1 / position


def ideal_dcg(labels: Labels, at: int | None = None, **options: Any) -> float:
    """DCG of the best order: the normaliser of NDCG."""
    return metric_value("dcg", sorted(labels, reverse=True), at, **options)


def relevant_count(labels: Labels, threshold: float = 1) -> int:
    """Number of relevant documents: the normaliser of average precision and recall."""
    return sum(label >= threshold for label in labels)


def _dcg(labels: Labels, at: int, gain: str = "exponential", discount: str = "log2") -> float:
    return sum(
        gain_of(r, gain) * discount_of(i, discount) for i, r in enumerate(labels[:at], start=1)
    )


def _ndcg(labels: Labels, at: int, **options: Any) -> float:
    ideal = ideal_dcg(labels, at, **options)
    return _dcg(labels, at, **options) / ideal if ideal > 0 else 0.0


def _cascade(stops: Sequence[float], at: int, worth: Sequence[float]) -> float:
    """Expected worth of the position where the user stops."""
    total = 0.0
    arrives = 1.0
    for stop, here in zip(stops[:at], worth[:at], strict=True):
        total += arrives * stop * here
        arrives *= 1 - stop
    return total


def _err(labels: Labels, at: int, max_label: float = 4, gain: str = "exponential") -> float:
    largest = max_label if gain == "linear" else 2.0**max_label
    stops = [gain_of(r, gain) / largest for r in labels]
    return _cascade(stops, at, [1 / i for i in range(1, len(labels) + 1)])


def _pfound(labels: Labels, at: int, max_label: float = 4, decay: float = 0.85) -> float:
    return _cascade([r / max_label for r in labels], at, [decay**i for i in range(len(labels))])


def _mrr(labels: Labels, at: int, threshold: float = 1) -> float:
    for i, r in enumerate(labels[:at], start=1):
        if r >= threshold:
            return 1 / i
    return 0.0


def _map(labels: Labels, at: int, threshold: float = 1, divisor: str = "relevant") -> float:
    relevant = relevant_count(labels, threshold)
    if relevant == 0:
        return 0.0
    precisions = [
        relevant_count(labels[:i], threshold) / i
        for i, r in enumerate(labels[:at], start=1)
        if r >= threshold
    ]
    return sum(precisions) / (min(relevant, at) if divisor == "attainable" else relevant)


def _rbp(labels: Labels, at: int, threshold: float = 1, p: float = 0.8) -> float:
    return sum((1 - p) * p**i for i, r in enumerate(labels[:at]) if r >= threshold)


def _expdcg(labels: Labels, at: int, decay: float = 0.85) -> float:
    return sum(decay**i * r for i, r in enumerate(labels[:at]))


def _precision(labels: Labels, at: int, threshold: float = 1) -> float:
    return relevant_count(labels[:at], threshold) / at


def _recall(labels: Labels, at: int, threshold: float = 1) -> float:
    relevant = relevant_count(labels, threshold)
    return relevant_count(labels[:at], threshold) / relevant if relevant else 0.0


def _success(labels: Labels, at: int, threshold: float = 1) -> float:
    return 1.0 if relevant_count(labels[:at], threshold) else 0.0


def _judged(labels: Labels, at: int) -> float:
    seen = labels[:at]
    return sum(label == label for label in seen) / len(seen)  # NaN is no label


def _arp(labels: Labels, at: int) -> float:
    """Every document below the cutoff counts as standing just below it."""
    total = sum(labels)
    return sum(min(i, at + 1) * r for i, r in enumerate(labels, start=1)) / total if total else 0.0


DEFINITIONS = {
    "ndcg": _ndcg,
    "dcg": _dcg,
    "err": _err,
    "mrr": _mrr,
    "map": _map,
    "rbp": _rbp,
    "pfound": _pfound,
    "expdcg": _expdcg,
    "precision": _precision,
    "recall": _recall,
    "success": _success,
    "arp": _arp,
    "judged": _judged,
}


def selected_value(scores: Sequence[float], labels: Labels, at: int | None = None) -> float:
    """DCG-RR: documents with a positive score, in input order, each label over its place among them."""
    total = 0.0
    shown = 0
    for z, r in zip(scores, labels, strict=True):
        if z > 0:
            shown += 1
            if at is None or shown <= at:
                total += r / shown
    return total
