"""Losses of a whole list: squared error around the query's mean, and cross entropy of softmax scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.arithmetic import exp_negative, total
from rankwright.kernels.jit import allocating, internal, jit
from rankwright.kernels.random import fill_uniform


@jit
def centred_residuals(
    q0: int, q1: int, bounds: Any, score: Any, label: Any, mixed: Any, grad: Any, hess: Any
) -> None:
    """Add score - label, minus its query mean; curvature 1."""
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        if not mixed[q]:
            continue
        for a in range(start, stop):
            hess[a] = score[a] - label[a]
        mean = total(hess, start, stop) / (stop - start)
        for a in range(start, stop):
            grad[a] += hess[a] - mean
            hess[a] = 1.0


class SoftmaxOptions(NamedTuple):
    """Parameters of `softmax_cross_entropy`."""

    gamma: float  # below 0: drawn uniformly for each document
    epsilon: float  # relative to the largest exp(z), so that a shift of the scores changes nothing
    newton: bool  # multiply the gradient by D H^-1


class SoftmaxTarget(NamedTuple):
    """The target of the scores' softmax; ``weight`` and ``mass`` are empty if all documents weigh the same."""

    value: NDArray[Any]  # numerators of phi [documents]
    weight: NDArray[Any]  # factor of a document's term in the loss [documents]
    # Receives the sum of weight times phi, the factor of the curvature [queries].
    mass: NDArray[Any]


class SoftmaxParts(NamedTuple):
    """Arrays by document for the leaves of a tree; `softmax_cross_entropy` writes them unless they are empty."""

    rho: NDArray[Any]
    grad: NDArray[Any]  # without ``newton``


class SoftmaxScratch(NamedTuple):
    """Memory of `softmax_cross_entropy`, by document [longest query + 1]."""

    rho: NDArray[Any]
    phi: NDArray[Any]

    @classmethod
    def create(cls, longest: int) -> SoftmaxScratch:
        """Allocate for queries of up to ``longest`` documents."""
        return cls(*np.empty((2, longest + 1)))


@jit
def softmax_cross_entropy(
    q0: int,
    q1: int,
    queries: Any,
    score: Any,
    target: Any,
    mixed: Any,
    options: Any,
    stream: Any,
    grad: Any,
    hess: Any,
    parts: Any,
    scratch: Any,
) -> None:
    """Add the gradient of -sum u phi log rho, and m rho (1 - rho) to ``hess``; grad = m rho - u phi, m = sum u phi.

        rho_i = exp(z_i) / (sum_j exp(z_j) + epsilon)        phi_i ~ target_i - gamma_i        u the weight, or 1

    With ``newton``, D H^-1 is approximated as I + S' + S'^2 by Neumann's series ("XE-NDCG" paper, section 4.4), so that
    the engine's division by D = rho (1 - rho) makes it a step of Newton's method.
    """
    bounds = queries.bounds
    gamma, epsilon, newton = options
    rho, phi = scratch
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        if not mixed[q]:
            continue
        top, left_top = _softmax(n, score[start:stop], epsilon, rho)
        value = target.value[start:stop]
        own_grad = grad[start:stop]
        own_hess = hess[start:stop]
        if gamma < 0.0:
            fill_uniform(phi, n, stream, queries.keys[q], 0)
            for a in range(n):
                phi[a] = value[a] - phi[a]
        else:
            for a in range(n):
                phi[a] = value[a] - gamma
        inverse = 1.0 / total(phi, 0, n)
        mass = 1.0
        if target.weight.size > 0:
            for a in range(n):
                mass += inverse * phi[a] * (target.weight[start + a] - 1.0)
                phi[a] *= target.weight[start + a]
            target.mass[q] = mass
        hess_top = own_hess[top] + mass * rho[top] * left_top
        for a in range(n):
            phi[a] = mass * rho[a] - phi[a] * inverse  # from here on, the plain gradient
            own_grad[a] += phi[a]
            own_hess[a] += mass * rho[a] * (1.0 - rho[a])
        own_hess[top] = hess_top
        if parts.rho.size > 0:
            for a in range(n):
                parts.rho[start + a] = rho[a]
                parts.grad[start + a] = phi[a]
        if newton:
            _add_series(n, top, left_top, rho, phi, own_grad)


@internal
def _softmax(n: int, z: Any, epsilon: float, rho: Any) -> tuple[int, float]:
    """Write the softmax into ``rho``; return the highest document and its 1 - rho, with all digits near 0."""
    top = 0
    highest = z[0]
    for a in range(1, n):
        if z[a] > highest:
            highest = z[a]
            top = a
    for a in range(n):
        rho[a] = exp_negative(z[a] - highest)
    rho[top] = 0.0
    rest = total(rho, 0, n) + epsilon
    rho[top] = 1.0
    inverse = 1.0 / (1.0 + rest)
    for a in range(n):
        rho[a] *= inverse
    return top, rest * inverse


@internal
def _add_series(n: int, top: int, left_top: float, rho: Any, term: Any, grad: Any) -> None:
    """Add S' x + S'^2 x to ``grad``, with x in ``term``: (S' x)_i = rho_i sum_(j != i) x_j / (1 - rho_j).

    The highest document may be nearly all of such a sum, and subtracting it again would leave no digits. So it is kept
    apart, with zeros in ``rho`` and ``term``. Both arrays are overwritten.
    """
    rho_top, best = rho[top], term[top] / left_top
    rho[top] = 0.0
    term[top] = 0.0
    for a in range(n):
        term[a] /= 1.0 - rho[a]  # as it stands in the sum
    rest = total(term, 0, n)
    for a in range(n):
        change = rho[a] * (best + (rest - term[a]))
        grad[a] += change
        term[a] = change / (1.0 - rho[a])
    change_top = rho_top * rest
    best = change_top / left_top
    rest = total(term, 0, n)
    for a in range(n):
        grad[a] += rho[a] * (best + (rest - term[a]))
    grad[top] += change_top + rho_top * rest


@allocating
def mass_between_leaves(
    q0: int,
    q1: int,
    bounds: Any,
    rho: Any,
    mixed: Any,
    query_weight: Any,
    leaf: Any,
    rounding: float,
    between: Any,
) -> None:
    """Sum the curvature diag(m) - m m' / M of each query between leaves.

    With softmax m = ``rho`` and M = 1. For squared error around the mean ``rho`` is empty, m = 1 and M = n.
    """
    by_softmax = rho.size > 0
    mass = np.zeros(between.shape[0])
    touched = np.empty(between.shape[0], np.int64)
    for q in range(q0, q1):
        start, stop = bounds[q], bounds[q + 1]
        n = stop - start
        if not mixed[q]:
            continue
        leaves = 0
        for a in range(n):
            here = leaf[start + a]
            if mass[here] == 0.0:
                touched[leaves] = here
                leaves += 1
            mass[here] += rho[start + a] if by_softmax else 1.0
        for x in range(leaves):
            a = touched[x]
            weighted = query_weight[q] * mass[a]
            row = between[a]
            row[a] += (weighted + rounding) - rounding
            if by_softmax:
                for v in range(leaves):
                    row[touched[v]] -= (weighted * mass[touched[v]] + rounding) - rounding
            else:
                for v in range(leaves):
                    row[touched[v]] -= (weighted * mass[touched[v]] / n + rounding) - rounding
        for x in range(leaves):
            mass[touched[x]] = 0.0
