"""An objective bound to labels, which training loops call with scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.labels import Labels, choose_label, grouped_labels
from rankwright.data.pairs import Pairs
from rankwright.data.queries import Queries, as_floats
from rankwright.kernels.arithmetic import finish
from rankwright.kernels.random import Stream, stream_of, uniform_by_key
from rankwright.kernels.threads import (
    LONG_WORK,
    available_threads,
    equal_ranges,
    even_ranges,
    run_ranges,
)
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives.base import Capabilities, Objective
from rankwright.objectives.gradient import Floats, Gradient, LeafSums, Problem
from rankwright.support.checks import ArgumentError

# Curvature is summed in parts of this many rows, but at most this many parts, for any number of threads, so that its
# bits do not depend on threads. Parts much smaller than this would cost more in calls than in sums.
_LEAF_PART_ROWS, _LEAF_PARTS = 8192, 16
_LARGEST = 1e300  # sums over a query of larger scores may overflow
# Least curvature per unit of gradient, because a saturated pair still pushes and Newton's step divides by it.
_FLOOR = 1e-12


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
        target = parse_metric(metric).first
        by_name: Labels = {}
        if not (isinstance(labels, Mapping) and not labels):  # no labels if there are pairs alone
            by_name = grouped_labels(labels, queries)
        if inverse is not None and not objective.capabilities.uses_propensity:
            able = _able(lambda declared: declared.uses_propensity)
            raise ArgumentError(
                "propensity",
                f"cannot be used with {objective}; leave it out, or use an objective that weighs "
                f"documents by it: {able}.",
            )
        self._inverse = None if inverse is None else np.ascontiguousarray(queries.group(inverse))
        sizes = queries.sizes.astype(np.float64)
        self._terms: list[Gradient] = []
        # Terms that are prepared for each iteration.
        self._drawn: dict[int, Callable[[int], Gradient]] = {}
        self._factors: list[Floats] = []
        work = np.zeros(len(sizes))
        for factor, power, term in objective.terms():
            self._factors.append(_factors(factor, power, sizes))
            self._terms.append(self._prepare(term, by_name, target, pairs, len(self._terms)))
            work += term.work(sizes)
        self._leaf_ranges = even_ranges(
            work, min(1 + queries.n_rows // _LEAF_PART_ROWS, _LEAF_PARTS)
        )
        self._ranges = even_ranges(work, available_threads(threads))
        self._long = bool(work.sum() > LONG_WORK)
        self._leaf_shares = equal_ranges(len(self._leaf_ranges), len(self._ranges))

    def _prepare(
        self, term: Objective, labels: Labels, metric: Metric, pairs: Pairs | None, number: int
    ) -> Gradient:
        """Prepare a term for its labels or pairs; if its label is drawn, it is prepared again for each iteration."""
        queries = self.queries
        if term.from_pairs:
            if pairs is None:
                raise ArgumentError("pairs", f"must be given, because {term} learns from them.")
            if term.label is not None:
                raise ValueError(
                    f"{term} learns from pairs, which have no label; leave out label=."
                )
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
                uniform_by_key(
                    queries.keys, stream_of(self.seed, iteration, Stream.LABELS + number), 0, draws
                )
                drawn = np.repeat(np.searchsorted(limits, draws, side="right"), queries.sizes)
                mixed = np.select([drawn == choice for choice in range(len(chosen))], chosen)
                return term.prepare(Problem(mixed, queries, metric))

            self._drawn[number] = prepare
        main = chosen[0] is next(iter(labels.values()))
        return term.prepare(
            Problem(chosen[0], queries, metric, inverse=self._inverse if main else None)
        )

    def _terms_at(self, iteration: int) -> list[Gradient]:
        return [
            self._drawn[number](iteration) if number in self._drawn else term
            for number, term in enumerate(self._terms)
        ]

    @property
    def leaf_parts(self) -> list[slice]:
        """Rows in grouped order of each part in which curvature is summed; they depend on the queries alone."""
        rows = self.queries.boundaries
        return [slice(int(rows[q0]), int(rows[q1])) for q0, q1 in self._leaf_ranges]

    def __call__(self, scores: ArrayLike, iteration: int = 0) -> tuple[Floats, Floats]:
        """Return gradient and curvature of the loss at ``scores``, each with a number per row."""
        point = self.at(scores, iteration)
        for name, values in (("gradient", point.grad), ("curvature", point.hess)):
            if not (values.min() > -np.inf and values.max() < np.inf):  # false for NaN too
                row = int(np.flatnonzero(~np.isfinite(values))[0])
                raise ValueError(
                    f"the {name} of {self.objective} at row {row} is {values[row]}; use smaller weights, factors and "
                    "scales of the objective, best around 1."
                )
        return point.grad, point.hess

    def at(
        self,
        scores: ArrayLike,
        iteration: int = 0,
        *,
        leaves: bool = False,
        part: int | None = None,
        out: tuple[Floats, Floats] | None = None,
    ) -> Point:
        """Return gradient, curvature and a leaf system, which is cheaper with ``leaves=True`` (in ``part`` alone).

        ``out`` are two arrays [rows] to overwrite. The result may be these arrays themselves, so a loop that no longer
        needs a gradient when it asks for the next can pass the same two each time. This helps because on large data
        fresh memory costs more than a simple gradient.
        """
        z = self._check(scores)
        terms = self._terms_at(iteration)
        if leaves:
            q0, q1 = (0, self.queries.n_queries) if part is None else self._leaf_ranges[part]
            terms = [term.cached_for_step(q0, q1) for term in terms]
        if out is None:
            out = np.zeros(len(z)), np.zeros(len(z))
        else:
            for array in out:
                array.fill(0.0)
        grad, hess = self._gradient(terms, z, iteration, *out)
        return Point(grad, hess, partial(self._leaf_system, terms, z, iteration))

    def _gradient(
        self, terms: list[Gradient], z: Floats, iteration: int, grad: Floats, hess: Floats
    ) -> tuple[Floats, Floats]:
        """Add the terms to ``grad`` and ``hess``, which are zeros in grouped order; return them by row."""
        alone = len(terms) == 1
        g, h = grad, hess
        if not alone:
            g, h = np.empty(len(z)), np.empty(len(z))
        for number, (query_factor, term) in enumerate(zip(self._factors, terms, strict=True)):
            if not alone:
                g[:] = h[:] = 0.0
            add = partial(
                term.add, scores=z, stream=stream_of(self.seed, iteration, number), grad=g, hess=h
            )
            run_ranges(
                partial(self._add, add, grad=g, hess=h) if alone else add,
                self._ranges,
                long=self._long,
            )
            if not (alone and np.all(query_factor == 1.0)):
                factor = np.repeat(query_factor, self.queries.sizes)
                g *= factor
                h *= factor
                del factor
            if not alone:
                grad += g
                hess += h
        if not alone:
            finish(0, len(z), _FLOOR, self._weights, grad, hess)
        return self.queries.ungroup(grad), self.queries.ungroup(hess)

    def _add(
        self, add: Callable[[int, int], None], q0: int, q1: int, *, grad: Floats, hess: Floats
    ) -> None:
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
        """Return gradient [leaves] and full curvature [leaves, leaves], summed over the leaves of a tree.

        If row i lies in leaf ``leaf_of[i]``, the best leaf values to second order solve (H + ridge) v = -g.
        Weights multiply both; a pair of rows has the weight of its query, so they must be constant within a query.
        ``query_weight`` [queries] are further factors, such as 0 to leave a query out. ``rounding`` of gradient and
        curvature (`rankwright.support.reducer.rounding`) makes the sums independent of the order of the queries. With
        ``part`` only this part of `leaf_parts` is summed.
        """
        z = self._check(scores)
        options: dict[str, Any] = {"query_weight": query_weight, "rounding": rounding, "part": part}
        return self._leaf_system(
            self._terms_at(iteration), z, iteration, leaf_of, n_leaves, **options
        )

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
        if not self.objective.capabilities.full_curvature:
            able = _able(lambda declared: declared.full_curvature)
            raise ValueError(
                f"{self.objective} has no full curvature, so leaves cannot be solved together; use diagonal leaf "
                f"values, or an objective that has it: {able}."
            )
        leaf = np.require(self.queries.group(np.asarray(leaf_of)), np.int64, ["C", "W"])
        if leaf.shape != z.shape or leaf.min() < 0 or leaf.max() >= n_leaves:
            raise ValueError(
                f"leaf_of must hold one leaf from 0 to {n_leaves - 1} for each of {len(z)} rows."
            )
        weight = np.ones(self.queries.n_queries) if query_weight is None else query_weight
        if len(self._weights):
            first_weight = self._weights[self.queries.boundaries[:-1]]
            if np.any(self._weights != np.repeat(first_weight, self.queries.sizes)):
                raise ValueError(
                    "full curvature needs the same weight for all rows of a query; give one weight per query."
                )
            weight = weight * first_weight
        grad: Floats | None = None
        ranges = self._leaf_ranges if part is None else [self._leaf_ranges[part]]
        q0, q1 = ranges[0][0], ranges[-1][1]
        rows = slice(int(self.queries.boundaries[q0]), int(self.queries.boundaries[q1]))
        shares = self._leaf_shares if part is None else [(0, 1)]
        parts = np.zeros((len(ranges), n_leaves, n_leaves))
        for number, (query_factor, term) in enumerate(zip(self._factors, terms, strict=True)):
            stream = stream_of(self.seed, iteration, number)
            factor = query_factor * weight
            of_term, hess = np.zeros(len(z)), np.zeros(len(z))
            sums = [LeafSums(factor, leaf, of_term, hess, into, rounding[1]) for into in parts]
            run_ranges(partial(_add_parts, term, z, stream, ranges, sums), shares, long=self._long)
            of_term = of_term[rows]
            if np.any(factor != 1.0):
                # In place, because memory peaks here.
                of_term *= np.repeat(factor[q0:q1], self.queries.sizes[q0:q1])
            grad = of_term if grad is None else grad + of_term
            del of_term, hess, sums
        assert grad is not None, "an objective has a term"
        grad = (grad + rounding[0]) - rounding[0] if rounding[0] else grad
        return np.bincount(leaf[rows], grad, n_leaves).astype(np.float64), parts.sum(axis=0)

    def _check(self, scores: ArrayLike) -> Floats:
        z = as_floats(scores, "scores must be numbers, one per row.")
        if z.shape != (self.queries.n_rows,):
            raise ValueError(
                f"scores have shape {z.shape} for {self.queries.n_rows} rows; give one per row."
            )
        z = np.ascontiguousarray(self.queries.group(z))
        # The comparisons are false for NaN too, and need no temporary arrays.
        if not (z.min() >= -_LARGEST and z.max() <= _LARGEST):
            row = int(np.flatnonzero(~(np.abs(z) <= _LARGEST))[0])
            raise ValueError(
                f"a score is {z[row]}, and gradients need scores between -1e300 and 1e300: {self.queries.where(row)}. "
                "Lower the learning rate if training diverged."
            )
        return z


class JudgedRows(BoundObjective):
    """An objective bound to the judged rows of a data set, called with the scores of all rows.

    Unjudged rows have no gradient. `at` and `leaf_system` take the judged rows alone.

    Parameters
    ----------
    judged
        Whether a row is judged, in the caller's order [rows].
    arguments, options
        Of `BoundObjective`, for the judged rows.
    """

    def __init__(self, judged: NDArray[np.bool_], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._judged = judged

    def __call__(self, scores: ArrayLike, iteration: int = 0) -> tuple[Floats, Floats]:
        """Return gradient and curvature of the loss at ``scores``, each with a number per row."""
        z = np.asarray(scores)
        if z.shape != self._judged.shape:
            raise ValueError(
                f"scores have shape {z.shape} for {len(self._judged)} rows; give one per row."
            )
        grad, hess = np.zeros(len(z)), np.zeros(len(z))
        grad[self._judged], hess[self._judged] = super().__call__(z[self._judged], iteration)
        return grad, hess


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


def _able(can: Callable[[Capabilities], bool]) -> str:
    """Return the names of the objectives with a capability."""
    # Imported here because the package loads this module, and its objectives on first use.
    from rankwright.objectives import known_objectives

    return ", ".join(sorted(n for n, kind in known_objectives().items() if can(kind.declared)))
