"""Metrics, sums of metrics, and their text form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.kernels.exchange import Chain
from rankwright.support.checks import is_whole
from rankwright.support.notation import Notation, Term, check_label_name, short_repr, written
from rankwright.support.other_libraries import check_other_name

Floats = NDArray[np.floating[Any]]
T = TypeVar("T")


_NOTATION = Notation(
    "metric", "'ndcg@10', 'err(gain=linear)@5' or 'ndcg@10[margin]'", hidden=("at", "label")
)
_LARGEST_CUTOFF = 2**63 - 1  # kernels count no farther
_LONG_QUERY = 1000  # positions that decide a property which must not depend on the data
# Names of metrics in trec_eval, ir_measures and libraries for recommenders.
_OTHER_NAMES = {
    "p": "precision",
    "r": "recall",
    "ap": "map",
    "map_cut": "map",
    "rr": "mrr",
    "recip_rank": "mrr",
    "hit_rate": "success",
    "hits": "success",
    "ndcg_cut": "ndcg",
}


class MetricType(type):
    """The type of metric classes, so that ``NDCG @ 10`` is ``NDCG(at=10)``."""

    def __matmul__(cls: type[T], at: int) -> T:
        return cls(at=at)  # type: ignore[call-arg]  # every metric has a cutoff


@dataclass(frozen=True, kw_only=True)
class Metric(metaclass=MetricType):
    """A ranking metric; subclass it for your own (see the head of `rankwright.metrics`).

    Parameters
    ----------
    at
        Cutoff: positions past it do not count. None for the whole list.
    label
        Name of the label to read, if documents have several labels; None for the main label.

    Examples
    --------
    >>> from rankwright.metrics import NDCG
    >>> str(NDCG(at=10)), NDCG(at=10) == metric("ndcg@10"), isinstance(NDCG(at=10), Metric)
    ('ndcg@10', True, True)
    >>> NDCG @ 10 == NDCG() @ 10 == NDCG(at=10)
    True
    >>> str(NDCG(at=10, label="margin"))
    'ndcg@10[margin]'
    """

    name: ClassVar[str] = ""
    higher_is_better: ClassVar[bool] = True
    selects: ClassVar[bool] = False  # True: documents with a positive score, in input order
    # True: `gains` is given labels with NaN for documents that were not judged. Other metrics never see NaN.
    reads_missing: ClassVar[bool] = False
    start: ClassVar[float] = 1.0  # the user's state before the first position
    # True if Z does not depend on labels; a class that defines `normalisers` must say so itself.
    fixed_normaliser: ClassVar[bool] = True

    at: int | None = field(default=None)
    label: str | None = field(default=None)

    def __init_subclass__(cls) -> None:
        if "normalisers" in vars(cls) and "fixed_normaliser" not in vars(cls):
            cls.fixed_normaliser = False
        if "__repr__" not in vars(cls):  # a dataclass keeps an existing method
            cls.__repr__ = short_repr  # type: ignore[method-assign]
        if vars(cls).get("name"):  # a subclass that inherits its name is not registered under it
            _NOTATION.register(cls.name, cls)

    def __post_init__(self) -> None:
        whole = is_whole(self.at)
        if self.at is not None and not (whole and 1 <= self.at <= _LARGEST_CUTOFF):
            most = " to 2^63 - 1" if whole and self.at >= 1 else ""
            raise ValueError(
                f"the cutoff of {self.name} must be a whole number from 1{most}; got {self.at!r}."
            )
        check_label_name(self.label, self.name)

    def __matmul__(self, at: int) -> Self:
        """Return the same metric with a cutoff, as in ``NDCG(gain="linear") @ 10``."""
        if self.at is not None:
            raise ValueError(f"{self} already has a cutoff; give a single cutoff.")
        return replace(self, at=at)

    def terms(self) -> tuple[tuple[float, Metric], ...]:
        """Return the terms (factor, metric); a metric that is not a sum is its only term."""
        return ((1.0, self),)

    @property
    def first(self) -> Metric:
        """The metric that an objective optimises: the first of a sum."""
        return self.terms()[0][1]

    def weights(self, n: int) -> Floats:
        """Return the position weights w_1 ... w_n, without regard to the cutoff."""
        raise TypeError(
            f"{type(self).__name__} must define weights(n), what each position is worth."
        )

    @property
    def weighs_alike(self) -> bool:
        """Return True if all positions have the same weight, so that the order matters by a cutoff or cascade only."""
        return bool(np.ptp(self.weights(_LONG_QUERY)) == 0)

    def weight_below(self, at: int) -> float:
        """Return the weight of every position past the cutoff ``at``."""
        return 0.0

    def gains(self, labels: Floats) -> Floats:
        """Return the gain of each document."""
        raise TypeError(
            f"{type(self).__name__} must define gains(labels), the gain of each document."
        )

    def relevance(self, labels: Floats) -> Floats:
        """Return the relevance r of each document, by which StochasticRank's mu lowers its score: the label."""
        return labels

    def continuations(self, labels: Floats) -> Floats:
        """Return the probability that the user continues past each document; 1 unless the metric is a cascade."""
        return np.ones_like(labels)

    def carries(self, labels: Floats) -> Floats:
        """Return the amount that each document adds to the user's state: 0 unless relevant documents are counted."""
        return np.zeros_like(labels)

    def normalisers(self, weight: Floats, gain: Floats, boundaries: NDArray[np.int64]) -> Floats:
        """Return Z of each query; ``weight`` is cut off already."""
        return np.ones(len(boundaries) - 1)

    def bind(
        self, labels: Floats, boundaries: NDArray[np.int64], *, truncate: bool = True
    ) -> Chain:
        """Turn the metric into arrays for these labels.

        With ``truncate=False`` positions past the cutoff keep their weight, while Z has the cutoff. This is the usual
        choice for pair weights ("Lambda-eX" paper, section 2.2; Z as in its table 1, although equation (3) prints IDCG
        without a cutoff).
        """
        longest = int(np.max(np.diff(boundaries)))
        full = np.zeros(longest + 2)
        full[:longest] = self.weights(longest)
        cut = full.copy()
        if self.at is not None:
            cut[self.at : longest] = self.weight_below(self.at)
        has_state = [type(self).continuations, type(self).carries] != [
            Metric.continuations,
            Metric.carries,
        ]
        with np.errstate(over="ignore"):  # the check below names the label
            gain = _one_per_label(self, "gains", self.gains(labels), labels)
            cont = carry = np.empty(0)
            if has_state:
                cont = _one_per_label(self, "continuations", self.continuations(labels), labels)
                carry = _one_per_label(self, "carries", self.carries(labels), labels)
            normaliser = np.asarray(self.normalisers(cut, gain, boundaries))
        has_gain = np.logical_or.reduceat(gain != 0, boundaries[:-1])
        for part in (gain, cont, carry, normaliser[has_gain]):
            # The comparisons are false for NaN too.
            if part.size and not (-np.inf < part.min() and part.max() < np.inf):
                raise ValueError(
                    f"{self} has no finite gain for the label {labels.max():g}; rescale the labels or use a linear "
                    "gain."
                )
        counts, stops = bool(np.any(carry)), bool(np.any(cont != 1.0))
        if counts and stops:
            raise ValueError(
                f"{self} has both continuations and carries; a metric may define one of them."
            )
        if not (counts or stops):
            cont = carry = np.empty(0)
        scale = np.zeros(len(boundaries) - 1)
        with np.errstate(over="ignore", divide="ignore"):
            np.divide(1.0, normaliser, out=scale, where=has_gain)
        if not np.isfinite(scale).all():
            smallest = labels[labels > 0].min(initial=np.inf)
            raise ValueError(
                f"{self} cannot be divided by gains of labels as small as {smallest:g}; rescale the labels."
            )
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
        """Return the value for a single query."""
        from rankwright.evaluation.per_query import evaluate

        result = evaluate(
            scores, labels, group=[np.size(labels)], metrics=[self], ties=ties, empty="zero"
        )
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

    A query counts if all of the metrics have a value for it.

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
            raise ValueError(
                "a sum of metrics has no cutoff and no label of its own; give them to its terms."
            )
        if len({term.higher_is_better for _, term in self.parts}) > 1:
            raise ValueError(
                f"{self} adds a metric of which less is better to others; sum metrics of one direction."
            )

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Return the direction of its terms, which is the same for all."""
        return self.first.higher_is_better

    @property
    def selects(self) -> bool:  # type: ignore[override]
        """Return True if its first term selects documents."""
        return self.first.selects

    def terms(self) -> tuple[tuple[float, Metric], ...]:
        """Return the terms."""
        return self.parts

    def bind(
        self, labels: Floats, boundaries: NDArray[np.int64], *, truncate: bool = True
    ) -> Chain:
        """Raise ValueError, because a sum of chains is not a chain."""
        raise ValueError(f"{self} is a sum, which has no arrays of its own; bind its terms.")

    def __str__(self) -> str:
        return " + ".join(
            f"{'' if factor == 1 else f'{_shown(factor)} '}{term}" for factor, term in self.parts
        )


def metric(text: str | Metric) -> Metric:
    """Read a metric from its text form, for example ``ndcg@10``, ``err(gain=linear)@5`` or ``rbp(p=0.8)``.

    ``ndcg@10[margin]`` reads the label ``margin`` of documents with several labels, and
    ``ndcg@10 + 0.3 ndcg@10[margin]`` is a weighted sum.

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
    check_other_name(str(text))
    terms = _NOTATION.read(str(text))
    if any(term.power != 0 for term in terms):
        _NOTATION.refuse(str(text), "it has a power of n")
    if len(terms) == 1 and terms[0].factor != 1:
        _NOTATION.refuse(str(text), "it has a factor and no second term")
    parts = tuple((term.factor, _of_term(term)) for term in terms)
    return parts[0][1] if len(parts) == 1 else MetricSum(parts)


def _of_term(term: Term) -> Metric:
    if term.name not in _NOTATION.known:
        term = _of_other_name(term)
    value: Metric = _NOTATION.create(term, at=term.cutoff, label=term.label)
    return value


def _of_other_name(term: Term) -> Term:
    """Return the term with the name and the cutoff that a metric of another tool has here."""
    name, cutoff, options = term.name, term.cutoff, term.options
    stem, _, digits = name.rpartition("_")
    # trec_eval writes cutoffs as in P_10.
    if cutoff is None and digits.isdigit() and {stem, _OTHER_NAMES.get(stem)} & {*_NOTATION.known}:
        name, cutoff = stem, int(digits)
    if name == "ndcg_cut":
        options = {"gain": "linear"} | options  # trec_eval's gain is the label
    return term._replace(name=_OTHER_NAMES.get(name, name), cutoff=cutoff, options=options)


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
    if isinstance(texts, Metric):
        return [texts]
    if not isinstance(texts, Iterable):
        raise ValueError(f"metrics are text such as 'map ndcg@5', or a list; got {texts!r}.")
    return list(texts)


def known_metrics() -> dict[str, type[Metric]]:
    """Return every metric class that has been defined, yours included, by name."""
    return dict(_NOTATION.known)


def _shown(value: Any) -> str:
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else written(value)


def _one_per_label(owner: Metric, what: str, values: Floats, labels: Floats) -> NDArray[np.float64]:
    # Kernels are compiled for this type of array only.
    array = np.require(values, np.float64, ["C", "W"])
    if array.shape != labels.shape:
        raise ValueError(
            f"{what} of {owner} have shape {array.shape} for {len(labels)} labels; return one per label."
        )
    return array
