"""The metrics of the package, each with its formula, its reference and an example."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.evaluate import ideal_values
from rankwright.metrics.base import Floats, Metric
from rankwright.support.checks import is_number


def _two_to(labels: Floats) -> Floats:
    """Return 2^r, from a table if the labels are small whole numbers, because that is faster."""
    if not labels.size or not labels.max() < 64:
        return np.exp2(labels)
    grades = labels.astype(np.intp)
    if np.any(grades != labels):
        return np.exp2(labels)
    powers: Floats = np.exp2(np.arange(grades.max() + 1.0))[grades]
    return powers


def _choose(owner: Metric, option: str, *allowed: str) -> None:
    value = getattr(owner, option)
    if value not in allowed:
        raise ValueError(
            f"{owner.name} has no {option}={value!r}; choose one of {', '.join(allowed)}."
        )


def _check_range(owner: Metric, option: str, low: float, high: float) -> None:
    number = getattr(owner, option)
    # Python can compare whole numbers that are too large for a float, but NumPy fails with them.
    most = min(high, sys.float_info.max)
    if not is_number(number) or not low < number < high or number > most:
        raise ValueError(
            f"{owner.name} needs {option} strictly between {low} and {high}; got {number!r}."
        )


class _Reciprocal:
    """Metrics with the position weights 1 / i."""

    def weights(self, n: int) -> Floats:
        """Return 1 / i."""
        return 1 / np.arange(1, n + 1)


class _Decaying:
    """Metrics with the position weights decay^(i-1)."""

    decay: float

    def weights(self, n: int) -> Floats:
        """Return decay^(i-1)."""
        weights: Floats = self.decay ** np.arange(n)
        return weights


class _Cascade(Metric):
    """Metrics of a user who stops at a document with the probability of its gain."""

    def continuations(self, labels: Floats) -> Floats:
        """Return 1 - g."""
        return 1 - self.gains(labels)


@dataclass(frozen=True)
class DCG(Metric):
    r"""Discounted cumulative gain: w_i = 1 / log2(1 + i), g(r) = 2^r - 1.

    Reference: Järvelin and Kekäläinen, TOIS 2002; gain of Burges et al., ICML 2005.

    Parameters
    ----------
    gain
        "exponential" (2^r - 1) or "linear" (r).
    discount
        "log2" (1 / log2(1 + i)) or "reciprocal" (1 / i).

    Examples
    --------
    >>> DCG(at=2).of(scores=[3, 2, 1], labels=[1, 2, 3])     # 1 / log2(2) + 3 / log2(3)
    2.89278...
    """

    name: ClassVar[str] = "dcg"
    gain: str = "exponential"
    discount: str = "log2"

    def __post_init__(self) -> None:
        super().__post_init__()
        _choose(self, "gain", "exponential", "linear")
        _choose(self, "discount", "log2", "reciprocal")

    def weights(self, n: int) -> Floats:
        """Return 1 / log2(1 + i) or 1 / i."""
        position = np.arange(1, n + 1)
        if self.discount == "log2":
            return 1 / np.log2(1 + position)
        return 1 / position

    def gains(self, labels: Floats) -> Floats:
        """Return 2^r - 1 or r."""
        if self.gain == "exponential":
            return _two_to(labels) - 1
        return labels


@dataclass(frozen=True)
class NDCG(DCG):
    """DCG divided by the DCG of the best order, with the same cutoff.

    Examples
    --------
    >>> NDCG().of(scores=[2, 1], labels=[0, 1])      # (1 / log2(3)) / (1 / log2(2))
    0.63092...
    """

    name: ClassVar[str] = "ndcg"

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the DCG of the ideal order."""
        depth = len(weight) if self.at is None else self.at
        return ideal_values(boundaries, weight, depth, gain)


@dataclass(frozen=True)
class ExpDCG(_Decaying, Metric):
    """Exponentially discounted gain, which YetiRank optimises: w_i = decay^(i-1), g(r) = r.

    Reference: "Which Tricks" paper, section 3.

    Examples
    --------
    >>> ExpDCG(decay=0.5).of(scores=[2, 1], labels=[1, 2])       # 1 + 0.5 * 2
    2.0
    """

    name: ClassVar[str] = "expdcg"
    decay: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self, "decay", 0, 1)

    def gains(self, labels: Floats) -> Floats:
        """Return the label."""
        return labels


@dataclass(frozen=True)
class _Graded(_Cascade):
    """Metrics that read a label as the probability of satisfying the user; labels reach ``max_label``."""

    max_label: float = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self, "max_label", 0, 1024)

    def _check(self, labels: Floats) -> None:
        if labels.max() > self.max_label:
            raise ValueError(
                f"{self} reads labels up to {self.max_label:g} as probabilities, but there is a label "
                f"{labels.max():g}; use {self.name}(max_label={labels.max():g})."
            )

    def relevance(self, labels: Floats) -> Floats:
        """Return the label divided by ``max_label``, because cascades are defined on a relevance in [0, 1]."""
        return labels / self.max_label


@dataclass(frozen=True)
class ERR(_Reciprocal, _Graded):
    """Expected reciprocal rank: w_i = 1 / i, g(r) = (2^r - 1) / 2^max_label, d = 1 - g.

    Reference: Chapelle et al., CIKM 2009, eq. (4).

    Parameters
    ----------
    gain
        "exponential", as above, or "linear" (r / max_label).
    max_label
        The largest grade there is.

    Examples
    --------
    >>> ERR(max_label=2).of(scores=[3, 2, 1], labels=[2, 0, 1])      # 3/4 + (1/3) (1/4) (1/4)
    0.77083...
    """

    name: ClassVar[str] = "err"
    gain: str = "exponential"
    max_label: float = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        _choose(self, "gain", "exponential", "linear")

    def gains(self, labels: Floats) -> Floats:
        """Return the probability that the document satisfies the user."""
        self._check(labels)
        if self.gain == "linear":
            return labels / self.max_label
        gains: Floats = (_two_to(labels) - 1) / 2.0**self.max_label
        return gains


@dataclass(frozen=True)
class PFound(_Decaying, _Graded):
    """Probability that the user finds a satisfying document: w_i = decay^(i-1), g = r / max_label, d = 1 - g.

    Reference: CatBoost's documentation, "Ranking: objectives and metrics"; labels in [0, 1] are probabilities with
    ``max_label=1``.

    Examples
    --------
    >>> PFound(decay=0.5, max_label=1).of(scores=[2, 1], labels=[0.5, 1])        # 0.5 + 0.5 * 1 * 0.5
    0.75
    """

    name: ClassVar[str] = "pfound"
    decay: float = 0.85

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self, "decay", 0, 1)

    def gains(self, labels: Floats) -> Floats:
        """Return the probability that the document satisfies the user."""
        self._check(labels)
        return labels / self.max_label


@dataclass(frozen=True)
class _Binary(Metric):
    """Metrics of relevant and not relevant: a label of at least ``threshold`` is relevant."""

    threshold: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self, "threshold", 0, np.inf)

    def gains(self, labels: Floats) -> Floats:
        """Return 1 for relevant documents."""
        return (labels >= self.threshold).astype(np.float64)

    def relevance(self, labels: Floats) -> Floats:
        """Return 1 for relevant documents, because grades above the threshold do not matter."""
        return self.gains(labels)


@dataclass(frozen=True)
class MRR(_Reciprocal, _Binary, _Cascade):
    """Reciprocal rank of the first relevant document: w_i = 1 / i, g = relevant, d = 1 - g.

    Examples
    --------
    >>> MRR().of(scores=[3, 2, 1], labels=[0, 1, 1])
    0.5
    """

    name: ClassVar[str] = "mrr"


@dataclass(frozen=True)
class MAP(_Reciprocal, _Binary):
    """Average precision: the mean over the relevant documents of the precision at their positions.

    As a chain, the user's state counts the relevant documents seen so far, and w_i = 1 / i.

    Parameters
    ----------
    divisor
        With a cutoff: "relevant" divides by the number of relevant documents R (as trec_eval does),
        "attainable" by min(R, cutoff) (as LightGBM and CatBoost do).

    Examples
    --------
    >>> MAP().of(scores=[3, 2, 1], labels=[1, 0, 1])         # (1/1 + 2/3) / 2
    0.83333...
    """

    name: ClassVar[str] = "map"
    start: ClassVar[float] = 0.0
    divisor: str = "relevant"

    def __post_init__(self) -> None:
        super().__post_init__()
        _choose(self, "divisor", "relevant", "attainable")

    def carries(self, labels: Floats) -> Floats:
        """Return 1 for relevant documents, which are counted."""
        return self.gains(labels)

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the number of relevant documents, or of those that fit above the cutoff."""
        relevant = np.add.reduceat(gain, boundaries[:-1])
        if self.divisor == "attainable" and self.at is not None:
            return np.minimum(relevant, self.at)
        return relevant


@dataclass(frozen=True)
class RBP(_Binary):
    """Rank-biased precision: w_i = (1 - p) p^(i-1), g = relevant.

    Reference: Moffat and Zobel, TOIS 2008.

    Examples
    --------
    >>> RBP(p=0.5).of(scores=[3, 2, 1], labels=[1, 0, 1])        # 0.5 * (1 + 0.25)
    0.625
    """

    name: ClassVar[str] = "rbp"
    p: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self, "p", 0, 1)

    def weights(self, n: int) -> Floats:
        """Return (1 - p) p^(i-1)."""
        return (1 - self.p) * self.p ** np.arange(n)


class _Counting(_Binary):
    """Metrics that count relevant documents anywhere above the cutoff."""

    def weights(self, n: int) -> Floats:
        """Return 1 for every position."""
        return np.ones(n)


@dataclass(frozen=True)
class Precision(_Counting):
    """Share of relevant documents in the first ``at`` positions; shorter lists are divided by ``at`` too.

    Examples
    --------
    >>> Precision(at=2).of(scores=[3, 2, 1], labels=[1, 0, 1])
    0.5
    """

    name: ClassVar[str] = "precision"
    fixed_normaliser: ClassVar[bool] = True

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the cutoff, or the length of the list."""
        sizes = np.diff(boundaries).astype(np.float64)
        return sizes if self.at is None else np.full(len(sizes), float(self.at))


@dataclass(frozen=True)
class Recall(_Counting):
    """Share of the relevant documents that are above the cutoff.

    Examples
    --------
    >>> Recall(at=1).of(scores=[3, 2, 1], labels=[1, 0, 1])
    0.5
    """

    name: ClassVar[str] = "recall"

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the number of relevant documents."""
        return np.add.reduceat(gain, boundaries[:-1])


@dataclass(frozen=True)
class Success(_Counting, _Cascade):
    """1 if a relevant document is above the cutoff: w_i = 1, g = relevant, d = 1 - g.

    Examples
    --------
    >>> Success(at=2).of(scores=[3, 2, 1], labels=[0, 1, 1])
    1.0
    """

    name: ClassVar[str] = "success"


@dataclass(frozen=True)
class ARP(Metric):
    """Average relevance position: w_i = i, g = r, Z = sum of labels. Lower is better.

    With a cutoff, every document past it counts as if it were just past it: w_i = min(i, at + 1). If these documents
    did not count, burying the relevant ones would be best.

    Reference: Wang et al., CIKM 2018, eq. (1), normalised.

    Examples
    --------
    >>> ARP().of(scores=[2, 1], labels=[1, 3])       # (1 * 1 + 2 * 3) / 4
    1.75
    """

    name: ClassVar[str] = "arp"
    higher_is_better: ClassVar[bool] = False

    def weights(self, n: int) -> Floats:
        """Return the number of each position."""
        return np.arange(1.0, n + 1)

    def weight_below(self, at: int) -> float:
        """Return the weight of the first position past the cutoff."""
        return at + 1.0

    def gains(self, labels: Floats) -> Floats:
        """Return the label."""
        return labels

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the sum of the labels."""
        return np.add.reduceat(gain, boundaries[:-1])


@dataclass(frozen=True)
class JudgedShare(Metric):
    """Share of documents above the cutoff that have a label: w_i = 1, g = 1 unless the label is missing.

    Shorter lists are divided by their length.

    Examples
    --------
    >>> JudgedShare(at=2).of(scores=[3, 2, 1], labels=[float("nan"), 0, 1])
    0.5
    """

    name: ClassVar[str] = "judged"
    reads_missing: ClassVar[bool] = True
    fixed_normaliser: ClassVar[bool] = True

    def weights(self, n: int) -> Floats:
        """Return 1 for every position."""
        return np.ones(n)

    def gains(self, labels: Floats) -> Floats:
        """Return 1 for documents with a label."""
        return (~np.isnan(labels)).astype(np.float64)

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return the cutoff, or the length of a shorter list."""
        sizes = np.diff(boundaries).astype(np.float64)
        return sizes if self.at is None else np.minimum(sizes, self.at)


@dataclass(frozen=True)
class DCGRR(_Reciprocal, Metric):
    """DCG-RR: which documents of a fixed order to show; those with a positive score, w_i = 1 / i, g = r.

    The order is that of the input; scores only select. The metric of learning to select with order (LSO).

    Reference: "StochasticRank" paper, eq. (5).

    Examples
    --------
    >>> DCGRR().of(scores=[1, -1, 2], labels=[1, 0, 3])          # 1 / 1 + 3 / 2
    2.5
    """

    name: ClassVar[str] = "dcg-rr"
    selects: ClassVar[bool] = True

    def gains(self, labels: Floats) -> Floats:
        """Return the label."""
        return labels
