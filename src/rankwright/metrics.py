"""Ranking metrics: values that can be printed, parsed and compared, and that bind to labels as arrays.

The formula of a metric stands at the head of `rankwright.kernels.exchange`. A metric of your own is a subclass of
`Metric` that defines the first two of its parts, and the others where the default does not fit:

    weights(n)             w, what each position is worth
    gains(labels)          g, the gain of each document
    continuations(labels)  d, the probability that the user continues past each document: 1
    carries(labels)        e, what each document adds to the user's state: 0. Only one of d and e may be defined
    normalisers(...)       Z, by which the sum of each query is divided: 1

Binding turns these into arrays, and the rest of the package sees nothing else, so your metric works with every
objective:

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

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.kernels.evaluate import ideal_values
from rankwright.kernels.exchange import Chain
from rankwright.notation import Notation, Term, check_label_name, short_repr, written

Floats = NDArray[np.floating[Any]]


_NOTATION = Notation("metric", "'ndcg@10', 'err(gain=linear)@5' or 'ndcg@10[margin]'", hidden=("at", "label"))
_LARGEST_CUTOFF = 2**63 - 1  # what kernels can count to
_SHORT_NAMES = {"p": "precision"}  # as trec_eval's users write it


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A ranking metric; subclass it for your own (see the head of this module).

    Parameters
    ----------
    at
        Cutoff: positions past it do not count. None for the whole list.
    label
        Name of the label that it reads, where documents have several; None for the main one.

    Examples
    --------
    >>> str(NDCG(at=10)), NDCG(at=10) == metric("ndcg@10"), isinstance(NDCG(at=10), Metric)
    ('ndcg@10', True, True)
    >>> str(NDCG(at=10, label="margin"))
    'ndcg@10[margin]'
    """

    name: ClassVar[str] = ""
    higher_is_better: ClassVar[bool] = True
    selects: ClassVar[bool] = False  # True: documents with a positive score, in input order
    start: ClassVar[float] = 1.0  # the user's state before the first position
    fixed_normaliser: ClassVar[bool] = True  # Z does not depend on labels; a class that defines one must say so itself

    at: int | None = field(default=None)
    label: str | None = field(default=None)

    def __init_subclass__(cls) -> None:
        if "normalisers" in vars(cls) and "fixed_normaliser" not in vars(cls):
            cls.fixed_normaliser = False
        if "__repr__" not in vars(cls):  # a dataclass keeps the one that is there
            cls.__repr__ = short_repr  # type: ignore[method-assign]
        if vars(cls).get("name"):  # a subclass that inherits its name does not take it over
            _NOTATION.register(cls.name, cls)

    def __post_init__(self) -> None:
        whole = isinstance(self.at, int | np.integer) and not isinstance(self.at, bool)
        if self.at is not None and not (whole and 1 <= self.at <= _LARGEST_CUTOFF):
            most = " to 2^63 - 1" if whole and self.at >= 1 else ""
            raise ValueError(f"the cutoff of {self.name} must be a whole number from 1{most}; got {self.at!r}.")
        check_label_name(self.label, self.name)

    def terms(self) -> tuple[tuple[float, Metric], ...]:
        """Return the terms (factor, metric): itself, unless it is a sum."""
        return ((1.0, self),)

    @property
    def first(self) -> Metric:
        """The metric that an objective optimises: the first of a sum."""
        return self.terms()[0][1]

    def weights(self, n: int) -> Floats:
        """Position weights w_1 ... w_n, without regard to the cutoff."""
        raise TypeError(f"{type(self).__name__} must define weights(n), what each position is worth.")

    def weight_below(self, at: int) -> float:
        """Weight of every position past the cutoff ``at``."""
        return 0.0

    def gains(self, labels: Floats) -> Floats:
        """Gain of each document."""
        raise TypeError(f"{type(self).__name__} must define gains(labels), the gain of each document.")

    def continuations(self, labels: Floats) -> Floats:
        """Probability that the user continues past each document; 1 unless the metric is a cascade."""
        return np.ones_like(labels)

    def carries(self, labels: Floats) -> Floats:
        """What each document adds to the user's state: 0 except for counts of relevant documents."""
        return np.zeros_like(labels)

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Z of each query; ``weight`` is cut off already."""
        return np.ones(len(boundaries) - 1)

    def bind(self, labels: Floats, boundaries: NDArray[np.int64], *, truncate: bool = True) -> Chain:
        """Turn the metric into arrays for these labels.

        With ``truncate=False`` positions past the cutoff keep their weight while Z stays that of the
        cutoff: the usual choice for pair weights ("Lambda-eX" paper, section 2.2).
        """
        longest = int(np.max(np.diff(boundaries)))
        full = np.zeros(longest + 2)
        full[:longest] = self.weights(longest)
        cut = full.copy()
        if self.at is not None:
            cut[self.at : longest] = self.weight_below(self.at)
        has_state = [type(self).continuations, type(self).carries] != [Metric.continuations, Metric.carries]
        with np.errstate(over="ignore"):  # refused below, where the error names the label
            gain = _one_per_label(self, "gains", self.gains(labels), labels)
            cont = carry = np.empty(0)
            if has_state:
                cont = _one_per_label(self, "continuations", self.continuations(labels), labels)
                carry = _one_per_label(self, "carries", self.carries(labels), labels)
            normaliser = np.asarray(self.normalisers(cut, gain, boundaries))
        has_gain = np.logical_or.reduceat(gain != 0, boundaries[:-1])
        for part in (gain, cont, carry, normaliser[has_gain]):
            if part.size and not (-np.inf < part.min() and part.max() < np.inf):  # false for NaN too
                raise ValueError(
                    f"{self} has no finite gain for the label {labels.max():g}; rescale the labels or use a linear "
                    "gain."
                )
        counts, stops = bool(np.any(carry)), bool(np.any(cont != 1.0))
        if counts and stops:
            raise ValueError(f"{self} has both continuations and carries; a metric may define one of them.")
        if not (counts or stops):
            cont = carry = np.empty(0)
        scale = np.zeros(len(boundaries) - 1)
        np.divide(1.0, normaliser, out=scale, where=has_gain)
        weight = cut if truncate else full
        weighted = np.flatnonzero(weight)
        return Chain(
            weight=weight,
            gain=gain,
            cont=cont,
            carry=carry,
            scale=scale,
            start=float(self.start),
            additive=not (counts or stops),
            depth=int(weighted[-1]) + 1 if len(weighted) else 0,
        )

    def of(self, scores: ArrayLike, labels: ArrayLike, *, ties: str = "worst") -> float:
        """Value for one query."""
        from rankwright.evaluation.per_query import evaluate

        result = evaluate(scores, labels, group=[np.size(labels)], metrics=[self], ties=ties, empty="zero")
        return result.mean[str(self)]

    def __str__(self) -> str:
        options = [
            f"{f.name}={_shown(getattr(self, f.name))}"
            for f in fields(self)
            if f.name not in _NOTATION.hidden and getattr(self, f.name) != f.default
        ]
        text = self.name + (f"({','.join(options)})" if options else "")
        text += "" if self.at is None else f"@{self.at}"
        return text if self.label is None else f"{text}[{self.label}]"


@dataclass(frozen=True)
class MetricSum(Metric):
    """A weighted sum of metrics, for evaluation and early stopping; an objective optimises the first of them.

    A query counts where all of the metrics have a value.

    Parameters
    ----------
    parts
        Terms (factor, metric).

    Examples
    --------
    >>> metric("ndcg@10 + 0.5 mrr")
    MetricSum(at=None, parts=((1.0, NDCG(at=10, ...)), (0.5, MRR(at=None, ...))))
    >>> metric("precision@1 + 0.5 mrr").of(scores=[2, 1], labels=[0, 1])     # 0 + 0.5 * 1/2
    0.25
    """

    parts: tuple[tuple[float, Metric], ...]

    def __post_init__(self) -> None:
        if self.at is not None or self.label is not None:
            raise ValueError("a sum of metrics has no cutoff and no label of its own; give them to its terms.")
        if len({term.higher_is_better for _, term in self.parts}) > 1:
            raise ValueError(f"{self} adds a metric of which less is better to others; sum metrics of one direction.")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """That of all of its terms."""
        return self.first.higher_is_better

    @property
    def selects(self) -> bool:  # type: ignore[override]
        """Whether its first term selects documents."""
        return self.first.selects

    def terms(self) -> tuple[tuple[float, Metric], ...]:
        """Return the terms."""
        return self.parts

    def bind(self, labels: Floats, boundaries: NDArray[np.int64], *, truncate: bool = True) -> Chain:
        """Refuse: a sum of chains is not a chain."""
        raise ValueError(f"{self} is a sum, which has no arrays of its own; bind its terms.")

    def __str__(self) -> str:
        return " + ".join(f"{'' if factor == 1 else f'{_shown(factor)} '}{term}" for factor, term in self.parts)


def metric(text: str | Metric) -> Metric:
    """Read a metric from its text form, such as ``ndcg@10``, ``err(gain=linear)@5`` or ``rbp(p=0.8)``.

    ``ndcg@10[margin]`` reads the label ``margin``, where documents have several; ``ndcg@10 + 0.3 ndcg@10[margin]`` is a
    weighted sum.

    Examples
    --------
    >>> metric("err(gain=linear)@5")
    ERR(at=5, max_label=4, gain='linear')
    >>> str(metric("dcg(discount=reciprocal)@3"))
    'dcg(discount=reciprocal)@3'
    >>> str(metric("p@5"))
    'precision@5'
    """
    if isinstance(text, Metric):
        return text
    terms = _NOTATION.read(str(text))
    if any(term.power != 0 for term in terms):
        _NOTATION.refuse(str(text), "it has a power of n")
    if len(terms) == 1 and terms[0].factor != 1:
        _NOTATION.refuse(str(text), "it has a factor and no second term")
    parts = tuple((term.factor, _of_term(term)) for term in terms)
    return parts[0][1] if len(parts) == 1 else MetricSum(parts)


def _of_term(term: Term) -> Metric:
    if term.name not in _NOTATION.known:
        term = term._replace(name=_SHORT_NAMES.get(term.name, term.name))
    value: Metric = _NOTATION.create(term, at=term.cutoff, label=term.label)
    return value


def metric_texts(texts: str | Metric | Sequence[str | Metric]) -> list[str | Metric]:
    """Return a list of metrics; a text may name several, separated by spaces. A sum is one metric.

    Examples
    --------
    >>> metric_texts("map err(gain=linear, max_label=2)@5")
    ['map', 'err(gain=linear, max_label=2)@5']
    >>> metric_texts("ndcg@10 + 0.3 ndcg@10[margin] mrr")
    ['ndcg@10 + 0.3 ndcg@10[margin]', 'mrr']
    """
    if isinstance(texts, str):
        return list(_NOTATION.split(texts))
    return [texts] if isinstance(texts, Metric) else list(texts)


def known_metrics() -> dict[str, type[Metric]]:
    """Every metric class that has been defined, yours included, by name."""
    return dict(_NOTATION.known)


def _two_to(labels: Floats) -> Floats:
    """2^r; grades are mostly small whole numbers, for which a table is faster."""
    grades = labels.astype(np.intp) if labels.size and labels.max() < 64 else None
    if grades is None or np.any(grades != labels):
        return np.exp2(labels)
    powers: Floats = np.exp2(np.arange(grades.max() + 1.0))[grades]
    return powers


def _shown(value: Any) -> str:
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else written(value)


def _one_per_label(owner: Metric, what: str, values: Floats, labels: Floats) -> NDArray[np.float64]:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != labels.shape:
        raise ValueError(f"{what} of {owner} have shape {array.shape} for {len(labels)} labels; return one per label.")
    return array


def _choose(owner: Metric, option: str, *allowed: str) -> None:
    value = getattr(owner, option)
    if value not in allowed:
        raise ValueError(f"{owner.name} has no {option}={value!r}; choose one of {', '.join(allowed)}.")


def _check_range(owner: Metric, option: str, low: float, high: float) -> None:
    number = getattr(owner, option)
    most = min(high, sys.float_info.max)  # Python compares whole numbers that no float can hold, but NumPy fails
    if isinstance(number, bool) or not (isinstance(number, int | float) and low < number < high and number <= most):
        raise ValueError(f"{owner.name} needs {option} strictly between {low} and {high}; got {number!r}.")


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
        """1 / log2(1 + i) or 1 / i."""
        position = np.arange(1, n + 1)
        return 1 / np.log2(1 + position) if self.discount == "log2" else 1 / position

    def gains(self, labels: Floats) -> Floats:
        """2^r - 1 or r."""
        return _two_to(labels) - 1 if self.gain == "exponential" else labels


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
        """DCG of the ideal order."""
        return ideal_values(boundaries, weight, len(weight) if self.at is None else self.at, gain)


@dataclass(frozen=True)
class ExpDCG(Metric):
    """Exponentially discounted gain: w_i = decay^(i-1), g(r) = r. What YetiRank optimises.

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

    def weights(self, n: int) -> Floats:
        """decay^(i-1)."""
        return self.decay ** np.arange(n)

    def gains(self, labels: Floats) -> Floats:
        """The label itself."""
        return labels


@dataclass(frozen=True)
class _Graded(Metric):
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

    def continuations(self, labels: Floats) -> Floats:
        """Continue unless satisfied."""
        return 1 - self.gains(labels)


@dataclass(frozen=True)
class ERR(_Graded):
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

    def weights(self, n: int) -> Floats:
        """1 / i."""
        return 1 / np.arange(1, n + 1)

    def gains(self, labels: Floats) -> Floats:
        """Probability that the document satisfies the user."""
        self._check(labels)
        if self.gain == "linear":
            return labels / self.max_label
        gains: Floats = (_two_to(labels) - 1) / 2.0**self.max_label
        return gains


@dataclass(frozen=True)
class PFound(_Graded):
    """Probability that the user finds what they look for: w_i = decay^(i-1), g = r / max_label, d = 1 - g.

    Reference: "Which Tricks" paper, section 2; labels in [0, 1] are probabilities with ``max_label=1``.

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

    def weights(self, n: int) -> Floats:
        """decay^(i-1)."""
        return self.decay ** np.arange(n)

    def gains(self, labels: Floats) -> Floats:
        """Probability that the document satisfies the user."""
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
        """1 for relevant documents."""
        return (labels >= self.threshold).astype(np.float64)


@dataclass(frozen=True)
class MRR(_Binary):
    """Reciprocal rank of the first relevant document: w_i = 1 / i, g = relevant, d = 1 - g.

    Examples
    --------
    >>> MRR().of(scores=[3, 2, 1], labels=[0, 1, 1])
    0.5
    """

    name: ClassVar[str] = "mrr"

    def weights(self, n: int) -> Floats:
        """1 / i."""
        return 1 / np.arange(1, n + 1)

    def continuations(self, labels: Floats) -> Floats:
        """Stop at the first relevant document."""
        return 1 - self.gains(labels)


@dataclass(frozen=True)
class MAP(_Binary):
    """Average precision: the mean over the relevant documents of the precision where each stands.

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

    def weights(self, n: int) -> Floats:
        """1 / i."""
        return 1 / np.arange(1, n + 1)

    def carries(self, labels: Floats) -> Floats:
        """Count relevant documents."""
        return self.gains(labels)

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Relevant documents, or as many of them as fit above the cutoff."""
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
        """(1 - p) p^(i-1)."""
        return (1 - self.p) * self.p ** np.arange(n)


class _Counting(_Binary):
    """What counts relevant documents wherever they stand above the cutoff."""

    def weights(self, n: int) -> Floats:
        """1 everywhere."""
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
        """The cutoff, or the length of the list."""
        sizes = np.diff(boundaries).astype(np.float64)
        return sizes if self.at is None else np.full(len(sizes), float(self.at))


@dataclass(frozen=True)
class Recall(_Counting):
    """Share of the relevant documents that stand above the cutoff.

    Examples
    --------
    >>> Recall(at=1).of(scores=[3, 2, 1], labels=[1, 0, 1])
    0.5
    """

    name: ClassVar[str] = "recall"

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """All relevant documents."""
        return np.add.reduceat(gain, boundaries[:-1])


@dataclass(frozen=True)
class Success(_Binary):
    """1 if a relevant document stands above the cutoff: w_i = 1, g = relevant, d = 1 - g.

    Examples
    --------
    >>> Success(at=2).of(scores=[3, 2, 1], labels=[0, 1, 1])
    1.0
    """

    name: ClassVar[str] = "success"

    def weights(self, n: int) -> Floats:
        """1 everywhere."""
        return np.ones(n)

    def continuations(self, labels: Floats) -> Floats:
        """Stop at the first relevant document."""
        return 1 - self.gains(labels)


@dataclass(frozen=True)
class ARP(Metric):
    """Average relevance position: w_i = i, g = r, Z = sum of labels. Lower is better.

    With a cutoff, every document past it counts as standing just past it: w_i = min(i, at + 1). If it did
    not count, burying the relevant documents would be best.

    Reference: Wang et al., CIKM 2018, eq. (1), normalised.

    Examples
    --------
    >>> ARP().of(scores=[2, 1], labels=[1, 3])       # (1 * 1 + 2 * 3) / 4
    1.75
    """

    name: ClassVar[str] = "arp"
    higher_is_better: ClassVar[bool] = False

    def weights(self, n: int) -> Floats:
        """Weigh a position by its number."""
        return np.arange(1.0, n + 1)

    def weight_below(self, at: int) -> float:
        """Weigh all of them like the first one past the cutoff."""
        return at + 1.0

    def gains(self, labels: Floats) -> Floats:
        """The label itself."""
        return labels

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Sum of the labels."""
        return np.add.reduceat(gain, boundaries[:-1])


@dataclass(frozen=True)
class DCGRR(Metric):
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

    def weights(self, n: int) -> Floats:
        """1 / i."""
        return 1 / np.arange(1, n + 1)

    def gains(self, labels: Floats) -> Floats:
        """The label itself."""
        return labels
