"""What an objective is: hyper-parameters that bind to labels and then turn scores into gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.labels import Labels, choose_label, grouped_labels
from rankwright.data.pairs import Pairs
from rankwright.data.queries import Queries, as_floats
from rankwright.kernels.arithmetic import finish
from rankwright.kernels.exchange import Chain
from rankwright.kernels.pairs import PairSums
from rankwright.kernels.random import stream_of, uniform_by_key
from rankwright.kernels.scratch import Arrays, Results, Scratch
from rankwright.kernels.threads import LONG_WORK, available_threads, equal_ranges, even_ranges, run_ranges, stop_flag
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.notation import Notation, check_label_name, short_repr, split_factor, written
from rankwright.ranges import Choice, Range

Floats = NDArray[np.float64]

# Curvature is summed in parts of this many rows, but at most this many parts, for any number of threads, so that its
# bits do not depend on threads. Parts much smaller than this would cost more in calls than in sums.
_LEAF_PART_ROWS, _LEAF_PARTS = 8192, 16
_LARGEST = 1e300  # sums over a query of larger scores may overflow
_LABEL_DRAW = 1 << 20  # numbers of the streams that draw labels; those of the terms count from 0
_FLOOR = 1e-12  # least curvature per unit of gradient: a saturated pair still pushes, and Newton divides


@dataclass(frozen=True, eq=False)
class Problem:
    """Labels to learn from, grouped by query, and the metric to optimise.

    Parameters
    ----------
    labels
        In grouped order [documents].
    queries
        Boundaries and keys.
    metric
        What the objective optimises, if it optimises a metric.
    pairs
        Given preferences, for an objective that learns from them instead of labels.
    inverse
        Inverse propensity of each document with a positive label, 1 for the others [documents]; None where propensities
        are not known.
    mixed
        True for queries with at least two different labels: the others have no order to learn [queries].
    """

    labels: Floats
    queries: Queries
    metric: Metric
    pairs: Pairs | None = None
    inverse: Floats | None = None
    mixed: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        starts = self.queries.boundaries[:-1]
        low = np.minimum.reduceat(self.labels, starts)
        object.__setattr__(self, "mixed", np.maximum.reduceat(self.labels, starts) > low)

    @property
    def weights(self) -> Floats:
        """Inverse propensities; empty where they are not known."""
        return np.empty(0) if self.inverse is None else self.inverse

    def weighted_gains(self, chain: Chain) -> Chain:
        """Multiply the gain of each document by its inverse propensity, where it is known."""
        return chain if self.inverse is None else chain._replace(gain=chain.gain * self.inverse)

    def scratch(self, create: Callable[[int], Arrays]) -> Scratch[Arrays]:
        """Memory for a kernel, large enough for any of the queries."""
        return Scratch(create, int(self.queries.sizes.max()))

    def ranking_chain(self, objective: str, *, truncate: bool, signed: bool = False) -> Chain:
        """Bind the metric; queries with no order to learn get scale 0.

        Pair weights use the size of a change only. With ``signed`` a metric of which less is better gets a negative
        scale, so that a higher value of the chain is always better.
        """
        if self.metric.selects:
            raise ValueError(
                f"{self.metric} selects documents instead of ordering them, which {objective} cannot learn; "
                "use stochasticrank."
            )
        chain = self.metric.bind(self.labels, self.queries.boundaries, truncate=truncate)
        sign = -1.0 if signed and not self.metric.higher_is_better else 1.0
        return chain._replace(scale=np.where(self.mixed, sign * chain.scale, 0.0))


class LeafSums(NamedTuple):
    """Where the leaves of a tree are summed: the gradient by document, and the curvature between leaves."""

    query_weight: Floats  # factor of each query's curvature [queries]
    leaf: NDArray[np.int64]  # of each document
    grad: Floats  # [documents]
    between: Floats  # [leaves, leaves]
    rounding: float = 0.0  # (x + rounding) - rounding is added in place of x, so that sums in any order are exact


class Gradient:
    """An objective that knows its labels: what the kernels need, prepared once.

    Subclasses add the sums of their queries [q0, q1) to the arrays they are given.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.bounds = problem.queries.boundaries
        self.keys = problem.queries.keys

    def cached_for_step(self) -> Gradient:
        """Return a gradient for one step, whose `add_between_leaves` may reuse what its `add` computed."""
        return self

    def set_unit_curvature(self, q0: int, q1: int, chain: Chain, hess: Floats) -> None:
        """Set the curvature of a first-order method: 1 in queries with something to learn."""
        sizes = np.diff(self.bounds[q0 : q1 + 1])
        hess[self.bounds[q0] : self.bounds[q1]] = np.repeat(np.sign(np.abs(chain.scale[q0:q1])), sizes)

    def add(self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats) -> None:
        """Add gradient and curvature of queries [q0, q1)."""
        raise TypeError(f"{type(self).__name__} must define add().")

    def add_between_leaves(self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums) -> None:
        """Add the gradient by document, and the curvature between leaves, of queries [q0, q1)."""
        raise TypeError(f"{type(self).__name__} must define add_between_leaves(): its objective has full_curvature.")


class PairGradient(Gradient):
    """A gradient whose kernel sums over pairs of documents, and between leaves where it is given any."""

    def add(self, q0: int, q1: int, scores: Floats, stream: np.uint64, grad: Floats, hess: Floats) -> None:
        """Sum without leaves."""
        self.run(q0, q1, scores, stream, without_leaves(grad, hess))

    def add_between_leaves(self, q0: int, q1: int, scores: Floats, stream: np.uint64, into: LeafSums) -> None:
        """Sum with leaves."""
        hess = np.zeros_like(into.grad)
        into_sums = (into.query_weight, into.leaf, into.between, stop_flag(), into.rounding)
        self.run(q0, q1, scores, stream, PairSums(into.grad, hess, *into_sums))

    def run(self, q0: int, q1: int, scores: Floats, stream: np.uint64, sums: PairSums) -> None:
        """Call the kernel."""
        raise TypeError(f"{type(self).__name__} must define run().")


def without_leaves(grad: Floats, hess: Floats) -> PairSums:
    """Sums over pairs that are not wanted between leaves."""
    return PairSums(grad, hess, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0)), stop_flag())


NOTATION = Notation("objective", "'yetiloss(neighbours=3)' or 'yetiloss + 0.5 n^-0.5 queryrmse'", reserved=("auto",))


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A source of gradients. Objectives are values: compare, print, parse, add and scale them.

    Subclass it for your own: a frozen dataclass of its options, with a `name` and a method `prepare` that returns a
    `Gradient`. It can then be used as text wherever an objective can. Declare what it is capable of, where that is not
    what the properties below say; in ``search`` give the options worth tuning, each with a `Range` or a `Choice`. One
    that can learn from given pairs has an option ``pairs``, which is False by default, and finds them in the `Problem`.

    Parameters
    ----------
    label
        Where documents have several labels, the name of the one to learn: ``"margin"``. None is that of the first
        metric. ``"relevance | margin"`` draws one for each query and iteration, ``"0.7 relevance | 0.3 margin"`` with
        these probabilities (as shares of their sum).

    Examples
    --------
    >>> from rankwright.objectives import QueryRMSE, YetiLoss, gradients, objective
    >>> print(YetiLoss(neighbours=3) + 0.5 * QueryRMSE().per_length())
    yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse

    One of your own, the squared error of scores and scaled labels:

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
    search: ClassVar[Mapping[str, Range | Choice]] = {}  # options worth tuning
    search_training: ClassVar[Mapping[str, Any]] = {}  # and parameters of the `Ranker`, in place of the usual ranges

    label: str | None = field(default=None)

    def __init_subclass__(cls) -> None:
        if "label" in vars(cls).get("__annotations__", {}):
            raise ValueError(f"{cls.__qualname__} has an option label, which every objective has; rename the option.")
        if "__repr__" not in vars(cls):  # a dataclass keeps the one that is there
            cls.__repr__ = short_repr  # type: ignore[method-assign]
        if vars(cls).get("name"):  # a subclass that inherits its name does not take it over
            NOTATION.register(cls.name, cls)

    @property
    def stochastic(self) -> bool:
        """Whether the gradient changes from iteration to iteration at the same scores."""
        return False

    @property
    def varies(self) -> bool:
        """Whether the gradient changes from iteration to iteration, by itself or because its label is drawn."""
        return self.stochastic or len(self.label_shares()) > 1

    @property
    def from_pairs(self) -> bool:
        """Whether it learns from given pairs instead of labels."""
        return bool(getattr(self, "pairs", False))

    def label_shares(self) -> dict[str | None, float]:
        """Return the labels it learns, each with the probability that it is drawn.

        Examples
        --------
        >>> from rankwright.objectives import objective
        >>> objective("queryrmse(label=3 relevance | margin)").label_shares()
        {'relevance': 0.75, 'margin': 0.25}
        """
        return _label_shares(self.name, self.label)

    @property
    def first_order(self) -> bool:
        """Whether it has no curvature: 1 stands in for it, and a step is as long as the gradient."""
        return False

    @property
    def full_curvature(self) -> bool:
        """Whether it has curvature between documents, so that the leaves of a tree can be solved together."""
        return False

    @property
    def uses_metric(self) -> bool:
        """Whether the gradient depends on the metric."""
        return False

    @property
    def additive_only(self) -> bool:
        """Whether the metric must add up over positions, as NDCG does and MAP does not."""
        return False

    @property
    def absolute(self) -> bool:
        """Whether the level of scores matters: a shift of a query changes the loss, and equal labels teach too."""
        return False

    @property
    def uses_propensity(self) -> bool:
        """Whether the gradient makes use of `Problem.inverse`, where propensities are known."""
        return False

    @property
    def preconditioned(self) -> bool:
        """Whether the gradient is that of the loss times a matrix, chosen for engines that divide by the curvature."""
        return False

    def searched_options(self, metric: Metric) -> dict[str, Range | Choice]:
        """Return the options worth tuning for a metric."""
        return dict(self.search)

    def prepare(self, problem: Problem) -> Gradient:
        """Bind to labels."""
        raise TypeError(f"{type(self).__name__} must define prepare().")

    def work(self, sizes: Floats) -> Floats:
        """Estimate the relative cost of each query, for sharing queries between threads."""
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
        own_first = sorted(fields(self), key=lambda f: f.kw_only is True)
        values = ((f.name, getattr(self, f.name), f.default) for f in own_first)
        options = [f"{name}={written(value)}" for name, value, default in values if value != default]
        return self.name + (f"({', '.join(options)})" if options else "")


def _factors(factor: float, power: float, sizes: Floats) -> Floats:
    """Return factor * size^power of each query."""
    with np.errstate(over="ignore", under="ignore"):
        factors: Floats = factor * sizes**power
    bad = np.flatnonzero(~((factors > 0) & (factors < np.inf)))
    if len(bad):
        n = int(sizes[bad[0]])
        raise ValueError(
            f"the factor {factor:g} n^{power:g} of the objective is {factors[bad[0]]:g} for a query of n = {n} "
            "documents; choose a power for which it is a positive number."
        )
    return factors


def known_objectives() -> dict[str, type[Objective]]:
    """Every objective class that has been defined, yours included, by name."""
    return dict(NOTATION.known)


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
    def stochastic(self) -> bool:
        """Whether the gradient of any term changes from iteration to iteration."""
        return any(term.varies for _, _, term in self.parts)

    @property
    def first_order(self) -> bool:
        """Whether no term has curvature."""
        return all(term.first_order for _, _, term in self.parts)

    @property
    def full_curvature(self) -> bool:
        """Whether all terms have curvature between documents."""
        return all(term.full_curvature for _, _, term in self.parts)

    @property
    def uses_metric(self) -> bool:
        """Whether any term depends on the metric."""
        return any(term.uses_metric for _, _, term in self.parts)

    @property
    def additive_only(self) -> bool:
        """Whether any term needs a metric that adds up over positions."""
        return any(term.additive_only for _, _, term in self.parts)

    @property
    def absolute(self) -> bool:
        """Whether the level of scores matters to any term."""
        return any(term.absolute for _, _, term in self.parts)

    @property
    def uses_propensity(self) -> bool:
        """Whether all terms make use of propensities."""
        return all(term.uses_propensity for _, _, term in self.parts)

    @property
    def preconditioned(self) -> bool:
        """Whether any term has a gradient that is not that of its loss."""
        return any(term.preconditioned for _, _, term in self.parts)

    def terms(self) -> tuple[tuple[float, float, Objective], ...]:
        """Return the terms."""
        return self.parts

    def __str__(self) -> str:
        shown = []
        for factor, power, objective in self.parts:
            scale = "" if factor == 1 else f"{_shown(factor)} "
            length = "" if power == 0 else f"n^{_shown(power)} "
            shown.append(f"{scale}{length}{objective}")
        return " + ".join(shown)


def _label_shares(owner: str, text: str | None) -> dict[str | None, float]:
    """Read the labels of an objective; factors are read only where there are several."""
    texts = [None] if text is None else [part.strip() for part in str(text).split("|")]
    shares: dict[str | None, float] = {}
    for part in texts:
        factor, name = (1.0, part) if part is None or len(texts) == 1 else split_factor(part)
        check_label_name("" if name is None and text is not None else name, owner)
        if name in shares or not 0 < factor < math.inf:
            raise ValueError(f"{owner}: label={text!r} has {name!r} twice, or with a factor that is not above 0.")
        shares[name] = factor
    return {name: factor / sum(shares.values()) for name, factor in shares.items()}


def _shown(number: float) -> str:
    """Print all digits of a number, and no plus sign, which would separate two terms."""
    return f"{number!r}".removesuffix(".0").replace("e+", "e")


@dataclass(frozen=True)
class Point:
    """An objective at given scores: gradient and curvature [rows], and, for leaf values, `leaf_system`.

    Parameters
    ----------
    grad, hess
        As `BoundObjective` returns them.
    leaf_system
        Function of (leaf_of, n_leaves, query_weight=None, rounding=(0, 0), part=None): `BoundObjective.leaf_system`
        at these scores.
    """

    grad: Floats
    hess: Floats
    leaf_system: Callable[..., tuple[Floats, Floats]]


class BoundObjective:
    """Gradients for one set of labels: call it with scores and the number of the iteration.

    Created by `rankwright.objectives.bind`; rows are in the caller's order throughout.
    """

    def __init__(
        self,
        objective: Objective,
        labels: Any,
        queries: Queries,
        metric: str | Metric,
        *,
        seed: int = 0,
        threads: int | None = None,
        weights: ArrayLike | None = None,
        pairs: Pairs | None = None,
        inverse: Floats | None = None,
    ) -> None:
        self.objective = objective
        self.queries = queries
        self.seed = int(seed)
        self._weights = np.empty(0) if weights is None else queries.per_row(weights)
        self._results = Results()
        target = parse_metric(metric).first
        none = isinstance(labels, Mapping) and not labels  # where there are pairs alone
        by_name = {} if none else grouped_labels(labels, queries)
        if inverse is not None and not objective.uses_propensity:
            able = sorted(name for name, kind in NOTATION.known.items() if kind.uses_propensity is True)
            raise ValueError(
                f"{objective} cannot weigh documents by propensities; leave out propensity=, or use an objective that "
                f"can: {', '.join(able)}."
            )
        self._inverse = None if inverse is None else np.ascontiguousarray(queries.group(inverse))
        sizes = queries.sizes.astype(np.float64)
        self._terms: list[Gradient] = []
        self._drawn: dict[int, Callable[[int], Gradient]] = {}  # terms that are prepared for each iteration
        self._factors: list[Floats] = []
        work = np.zeros(len(sizes))
        for factor, power, term in objective.terms():
            self._factors.append(_factors(factor, power, sizes))
            self._terms.append(self._prepare(term, by_name, target, pairs, len(self._terms)))
            work += term.work(sizes)
        self._leaf_ranges = even_ranges(work, min(1 + queries.n_rows // _LEAF_PART_ROWS, _LEAF_PARTS))
        self._ranges = even_ranges(work, available_threads(threads))
        self._long = bool(np.maximum(work, sizes**2).sum() > LONG_WORK)
        self._leaf_shares = equal_ranges(len(self._leaf_ranges), len(self._ranges))

    def _prepare(self, term: Objective, labels: Labels, metric: Metric, pairs: Pairs | None, number: int) -> Gradient:
        """Prepare a term for its labels or pairs; one whose label is drawn is prepared again for each iteration."""
        queries = self.queries
        if term.from_pairs:
            if pairs is None:
                raise ValueError(f"{term} learns from pairs, and there are none; give them as pairs=.")
            if term.label is not None:
                raise ValueError(f"{term} learns from pairs, which have no label; leave out label=.")
            return term.prepare(Problem(np.zeros(queries.n_rows), queries, metric, pairs))
        shares = term.label_shares()
        chosen = [choose_label(labels, metric.label if name is None else name) for name in shares]
        if len(chosen) > 1:
            if self._inverse is not None:
                raise ValueError(
                    f"propensities belong to the first label, and {term} draws one; leave one of them out."
                )
            limits = np.cumsum(list(shares.values()))[:-1]

            def prepare(iteration: int) -> Gradient:
                draws = np.empty(queries.n_queries)
                uniform_by_key(queries.keys, stream_of(self.seed, iteration, _LABEL_DRAW + number), 0, draws)
                drawn = np.repeat(np.searchsorted(limits, draws, side="right"), queries.sizes)
                mixed = np.select([drawn == choice for choice in range(len(chosen))], chosen)
                return term.prepare(Problem(mixed, queries, metric))

            self._drawn[number] = prepare
        main = chosen[0] is next(iter(labels.values()))
        return term.prepare(Problem(chosen[0], queries, metric, inverse=self._inverse if main else None))

    def _terms_at(self, iteration: int) -> list[Gradient]:
        return [
            self._drawn[number](iteration) if number in self._drawn else term for number, term in enumerate(self._terms)
        ]

    @property
    def leaf_parts(self) -> list[slice]:
        """Rows, in grouped order, of the parts in which curvature is summed; they depend on the queries alone."""
        rows = self.queries.boundaries
        return [slice(int(rows[q0]), int(rows[q1])) for q0, q1 in self._leaf_ranges]

    def __call__(self, scores: ArrayLike, iteration: int = 0) -> tuple[Floats, Floats]:
        """Gradient and curvature of the loss at ``scores``, one each per row."""
        point = self.at(scores, iteration)
        return point.grad, point.hess

    def at(self, scores: ArrayLike, iteration: int = 0, *, leaves: bool = False) -> Point:
        """Gradient and curvature, and a leaf system, which is cheaper with ``leaves=True``."""
        z = self._check(scores)
        terms = self._terms_at(iteration)
        terms = [term.cached_for_step() for term in terms] if leaves else terms
        return Point(*self._gradient(terms, z, iteration), partial(self._leaf_system, terms, z, iteration))

    def _gradient(self, terms: list[Gradient], z: Floats, iteration: int) -> tuple[Floats, Floats]:
        grad, hess = self._results.take(len(z)), self._results.take(len(z))
        alone = len(terms) == 1
        for number, (query_factor, term) in enumerate(zip(self._factors, terms, strict=True)):
            g, h = (grad, hess) if alone else (np.zeros(len(z)), np.zeros(len(z)))
            add = partial(term.add, scores=z, stream=stream_of(self.seed, iteration, number), grad=g, hess=h)
            run_ranges(partial(self._add, add, grad=g, hess=h) if alone else add, self._ranges, long=self._long)
            if not (alone and np.all(query_factor == 1.0)):
                factor = np.repeat(query_factor, self.queries.sizes)
                g *= factor
                h *= factor
            if not alone:
                grad += g
                hess += h
        if not alone:
            finish(0, len(z), _FLOOR, self._weights, grad, hess)
        return self.queries.ungroup(grad), self.queries.ungroup(hess)

    def _add(self, add: Callable[[int, int], None], q0: int, q1: int, *, grad: Floats, hess: Floats) -> None:
        """Sum and finish the queries [q0, q1) in one thread, while their rows are in its cache."""
        add(q0, q1)
        rows = self.queries.boundaries
        finish(int(rows[q0]), int(rows[q1]), _FLOOR, self._weights, grad, hess)

    def leaf_system(
        self,
        scores: ArrayLike,
        leaf_of: ArrayLike,
        n_leaves: int,
        iteration: int = 0,
        *,
        query_weight: Floats | None = None,
        rounding: tuple[float, float] = (0.0, 0.0),
        part: int | None = None,
    ) -> tuple[Floats, Floats]:
        """Gradient [leaves] and full curvature [leaves, leaves] summed over the leaves of a tree.

        If row i lies in leaf ``leaf_of[i]``, the best leaf values to second order solve (H + ridge) v = -g.
        Weights multiply both; a pair of rows has the weight of its query, so they must be constant within a query.
        ``query_weight`` [queries] are further factors, such as 0 to leave a query out. ``rounding`` of gradient and
        curvature (`rankwright.reducer.rounding`) makes the sums independent of the order of the queries. With ``part``
        only that one of `leaf_parts` is summed.
        """
        z = self._check(scores)
        options: dict[str, Any] = {"query_weight": query_weight, "rounding": rounding, "part": part}
        return self._leaf_system(self._terms_at(iteration), z, iteration, leaf_of, n_leaves, **options)

    def _leaf_system(
        self,
        terms: list[Gradient],
        z: Floats,
        iteration: int,
        leaf_of: ArrayLike,
        n_leaves: int,
        *,
        query_weight: Floats | None = None,
        rounding: tuple[float, float] = (0.0, 0.0),
        part: int | None = None,
    ) -> tuple[Floats, Floats]:
        if not self.objective.full_curvature:
            solvable = sorted(name for name, kind in NOTATION.known.items() if kind.full_curvature is True)
            raise ValueError(
                f"{self.objective} has no full curvature, so leaves cannot be solved together; use diagonal leaf "
                f"values, or an objective that has it: {', '.join(solvable)}."
            )
        leaf = np.ascontiguousarray(self.queries.group(np.asarray(leaf_of)), dtype=np.int64)
        if leaf.shape != z.shape or leaf.min() < 0 or leaf.max() >= n_leaves:
            raise ValueError(f"leaf_of must hold one leaf from 0 to {n_leaves - 1} for each of {len(z)} rows.")
        weight = np.ones(self.queries.n_queries) if query_weight is None else query_weight
        if len(self._weights):
            own_weight = self._weights[self.queries.boundaries[:-1]]
            if np.any(self._weights != np.repeat(own_weight, self.queries.sizes)):
                raise ValueError(
                    "full curvature needs the same weight for all rows of a query; give one weight per query."
                )
            weight = weight * own_weight
        grad = np.zeros(len(z))
        ranges = self._leaf_ranges if part is None else [self._leaf_ranges[part]]
        shares = self._leaf_shares if part is None else [(0, 1)]
        parts = np.zeros((len(ranges), n_leaves, n_leaves))
        for number, (query_factor, term) in enumerate(zip(self._factors, terms, strict=True)):
            stream = stream_of(self.seed, iteration, number)
            factor = query_factor * weight
            own = np.zeros(len(z))
            sums = [LeafSums(factor, leaf, own, into, rounding[1]) for into in parts]
            run_ranges(partial(_add_parts, term, z, stream, ranges, sums), shares, long=self._long)
            grad += own * np.repeat(factor, self.queries.sizes)
        grad = (grad + rounding[0]) - rounding[0] if rounding[0] else grad
        return np.bincount(leaf, grad, n_leaves).astype(np.float64), parts.sum(axis=0)

    def _check(self, scores: ArrayLike) -> Floats:
        z = as_floats(scores, "scores must be numbers, one per row.")
        if z.shape != (self.queries.n_rows,):
            raise ValueError(f"scores have shape {z.shape} for {self.queries.n_rows} rows; give one per row.")
        z = np.ascontiguousarray(self.queries.group(z))
        if not (z.min() >= -_LARGEST and z.max() <= _LARGEST):  # false for NaN too, and without temporary arrays
            row = int(np.flatnonzero(~(np.abs(z) <= _LARGEST))[0])
            raise ValueError(
                f"a score is {z[row]}, and gradients need scores between -1e300 and 1e300: {self.queries.where(row)}. "
                "Lower the learning rate if training diverged."
            )
        return z


def _add_parts(
    term: Gradient,
    z: Floats,
    stream: np.uint64,
    ranges: list[tuple[int, int]],
    sums: list[LeafSums],
    p0: int,
    p1: int,
) -> None:
    for part in range(p0, p1):
        term.add_between_leaves(*ranges[part], z, stream, sums[part])
