"""Objectives: hyperparameters as values that can be printed, parsed, compared, added and scaled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar

from rankwright.metrics import Metric
from rankwright.objectives.gradient import Floats, Gradient, Problem
from rankwright.support.notation import (
    Notation,
    check_label_name,
    short_repr,
    split_factor,
    written,
)
from rankwright.support.ranges import Choice, Range

_PACKAGE = "rankwright.objectives"
NOTATION = Notation(
    "objective", "'yetiloss(neighbours=3)' or 'yetiloss + 0.5 n^-0.5 queryrmse'", reserved=("auto",)
)


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What an objective can do, and what it needs.

    Parameters
    ----------
    stochastic
        The gradient changes from iteration to iteration at the same scores.
    first_order
        It has no curvature: 1 stands in for it, and a step is as long as the gradient.
    full_curvature
        It has curvature between documents, so that the leaves of a tree can be solved together.
    uses_metric
        The gradient depends on the metric.
    additive_only
        The metric must add up over positions, as NDCG does and MAP does not.
    absolute
        The level of scores matters: a shift of a query changes the loss, and equal labels teach too.
    uses_propensity
        The gradient makes use of `Problem.inverse` if propensities are known.
    preconditioned
        The gradient is multiplied by a matrix, which suits engines that divide by the curvature.

    Examples
    --------
    >>> from rankwright.objectives import objective
    >>> objective("softrank").capabilities.additive_only
    True
    >>> objective("yetiloss + 0.5 queryrmse").capabilities.stochastic
    True
    """

    stochastic: bool = False
    first_order: bool = False
    full_curvature: bool = False
    uses_metric: bool = False
    additive_only: bool = False
    absolute: bool = False
    uses_propensity: bool = False
    preconditioned: bool = False


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A source of gradients. Objectives are values: compare, print, parse, add and scale them.

    Subclass it for your own: a frozen dataclass of its options, with a `name` and a method `prepare` that returns a
    `Gradient`. It can then be used as text wherever an objective can. In ``declared`` say what it can do, as
    `Capabilities`; in ``search`` give the options worth tuning, each with a `Range` or a `Choice`. An objective that
    can learn from given pairs has an option ``pairs``, which is False by default, and finds them in the `Problem`.

    Parameters
    ----------
    label
        If documents have several labels, the name of the label to learn, for example ``"margin"``; None for the first
        metric's label. ``"relevance | margin"`` draws a label for each query and iteration, and
        ``"0.7 relevance | 0.3 margin"`` draws with these probabilities (as shares of their sum).

    Examples
    --------
    >>> from rankwright.objectives import QueryRMSE, YetiLoss, gradients, objective
    >>> print(YetiLoss(neighbours=3) + 0.5 * QueryRMSE().per_length())
    yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse

    An objective of your own, the squared error of scores and scaled labels:

    >>> class SquaredErrors(Gradient):
    ...     def __init__(self, problem, scale):
    ...         super().__init__(problem)
    ...         self.target = scale * problem.labels
    ...     def add(self, q0, q1, scores, stream, grad, hess):
    ...         rows = slice(self.bounds[q0], self.bounds[q1])
    ...         grad[rows] += scores[rows] - self.target[rows]
    ...         hess[rows] += 1
    >>> @dataclass(frozen=True)
    ... class SquaredError(Objective):
    ...     '''Squared error of scores and scaled labels.'''
    ...     name: ClassVar[str] = "squared"
    ...     search: ClassVar[dict[str, Range | Choice]] = {"scale": Range(0.5, 2.0)}
    ...     scale: float = 1.0
    ...     def prepare(self, problem):
    ...         return SquaredErrors(problem, self.scale)
    >>> objective("squared(scale=2) + 0.5 queryrmse").terms()[0]
    (1.0, 0.0, SquaredError(scale=2))
    >>> gradients("squared(scale=2)", scores=[0, 0], labels=[1, 0], group=[2])[0].tolist()
    [-2.0, 0.0]
    """

    name: ClassVar[str] = ""
    # Capabilities with any options; the property `capabilities` adds those that depend on the options.
    declared: ClassVar[Capabilities] = Capabilities()
    search: ClassVar[Mapping[str, Range | Choice]] = {}  # options worth tuning
    # Parameters of the `Ranker` to tune, in place of the usual ranges.
    search_training: ClassVar[Mapping[str, Any]] = {}

    label: str | None = field(default=None)

    def __init_subclass__(cls) -> None:
        if "label" in vars(cls).get("__annotations__", {}):
            raise ValueError(
                f"{cls.__qualname__} has an option label, which every objective has; rename the option."
            )
        if "__repr__" not in vars(cls):  # a dataclass keeps an existing method
            cls.__repr__ = short_repr  # type: ignore[method-assign]
        if vars(cls).get("name"):  # a subclass that inherits its name is not registered under it
            if not cls.__module__.startswith(_PACKAGE):
                # The names of the package's objectives are taken, also before they are used.
                import_module(_PACKAGE).known_objectives()
            NOTATION.register(cls.name, cls)

    @property
    def source(self) -> str:
        """Module and name of the class."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the objective with its options."""
        return self.declared

    @property
    def varies(self) -> bool:
        """Return True if the gradient changes from iteration to iteration, by itself or because its label is drawn."""
        return self.capabilities.stochastic or len(self.label_shares()) > 1

    @property
    def from_pairs(self) -> bool:
        """Return True if it learns from given pairs instead of labels."""
        return bool(getattr(self, "pairs", False))

    def label_shares(self) -> dict[str | None, float]:
        """Return the labels that it learns, each with the probability that it is drawn.

        Examples
        --------
        >>> from rankwright.objectives import objective
        >>> objective("queryrmse(label=3 relevance | margin)").label_shares()
        {'relevance': 0.75, 'margin': 0.25}
        """
        return _label_shares(self.name, self.label)

    def searched_options(self, metric: Metric) -> dict[str, Range | Choice]:
        """Return the options worth tuning for a metric."""
        return dict(self.search)

    def prepare(self, problem: Problem) -> Gradient:
        """Bind the objective to labels."""
        raise TypeError(f"{type(self).__name__} must define prepare().")

    def work(self, sizes: Floats) -> Floats:
        """Estimate the cost of each query in pairs of documents, to share queries between threads and for Ctrl-C."""
        return sizes

    def terms(self) -> tuple[tuple[float, float, Objective], ...]:
        """Return the terms (factor, power of the query's number of documents, objective)."""
        return ((1.0, 0.0, self),)

    def per_length(self, power: float = -0.5) -> Sum:
        """Multiply each query by its number of documents to ``power``."""
        return Sum(tuple((c, p + power, o) for c, p, o in self.terms()))

    def __add__(self, other: Objective) -> Sum:
        return Sum(self.terms() + other.terms()) if isinstance(other, Objective) else NotImplemented

    def __mul__(self, factor: float) -> Sum:
        if not isinstance(factor, int | float) or not math.isfinite(factor) or factor <= 0:
            raise ValueError(f"an objective is multiplied by a positive number; got {factor!r}.")
        return Sum(tuple((factor * c, p, o) for c, p, o in self.terms()))

    __rmul__ = __mul__

    def __str__(self) -> str:
        # The label, which every objective has, comes after the options of the class.
        ordered = sorted(fields(self), key=lambda option: option.kw_only is True)
        changed = [option for option in ordered if getattr(self, option.name) != option.default]
        if not changed:
            return self.name
        options = [f"{option.name}={written(getattr(self, option.name))}" for option in changed]
        return f"{self.name}({', '.join(options)})"


@dataclass(frozen=True)
class Sum(Objective):
    """A weighted sum of objectives, created by ``+`` and ``*``.

    Parameters
    ----------
    parts
        Terms (factor, power of the query's number of documents, objective).
    """

    parts: tuple[tuple[float, float, Objective], ...]

    def __post_init__(self) -> None:
        if self.label is not None:
            raise ValueError("a sum has no label of its own; give label= to its terms.")

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the sum, derived from its terms."""
        terms = [term.capabilities for _, _, term in self.parts]
        return Capabilities(
            stochastic=any(term.varies for _, _, term in self.parts),
            first_order=all(term.first_order for term in terms),
            full_curvature=all(term.full_curvature for term in terms),
            uses_metric=any(term.uses_metric for term in terms),
            additive_only=any(term.additive_only for term in terms),
            absolute=any(term.absolute for term in terms),
            uses_propensity=all(term.uses_propensity for term in terms),
            preconditioned=any(term.preconditioned for term in terms),
        )

    def terms(self) -> tuple[tuple[float, float, Objective], ...]:
        """Return the terms."""
        return self.parts

    def __str__(self) -> str:
        shown = []
        for factor, power, objective in self.parts:
            text = str(objective)
            if power != 0:
                text = f"n^{_shown(power)} {text}"
            if factor != 1:
                text = f"{_shown(factor)} {text}"
            shown.append(text)
        return " + ".join(shown)


def _label_shares(owner: str, text: str | None) -> dict[str | None, float]:
    """Read the labels of an objective; factors are read only if there are several labels."""
    texts = [None] if text is None else [part.strip() for part in str(text).split("|")]
    shares: dict[str | None, float] = {}
    for part in texts:
        factor, name = (1.0, part) if part is None or len(texts) == 1 else split_factor(part)
        check_label_name("" if name is None and text is not None else name, owner)
        if name in shares or not 0 < factor < math.inf:
            raise ValueError(
                f"{owner}: label={text!r} has {name!r} twice, or with a factor that is not above 0."
            )
        shares[name] = factor
    return {name: factor / sum(shares.values()) for name, factor in shares.items()}


def _shown(number: float) -> str:
    """Print all digits of a number, and no plus sign, which would separate two terms."""
    return f"{number!r}".removesuffix(".0").replace("e+", "e")
