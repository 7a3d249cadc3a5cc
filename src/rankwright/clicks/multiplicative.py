"""The position-based model without a model of relevance: click rate of group g at position k = γ_g θ_k.

Given the clicks of a group, they fall on its positions in proportion to n_gk θ_k, with n_gk the number of shows; γ_g
cancels. So θ maximises

    Σ_g [ Σ_k c_gk log θ_k - c_g log Σ_k n_gk θ_k ],      c_gk the clicks, c_g their sum,

which is concave in log θ, and the estimate is consistent however many groups there are (Wooldridge, Journal of
Econometrics 1999). A position is identified if groups with clicks connect it with the first one.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from rankwright.clicks.cells import Cells, Floats, sums_by

_RIDGE = 1e-6  # clicks; keeps a position without clicks in a resample finite
_STEPS = 60
_TOLERANCE = 1e-9


def fit_curve(shows: Floats, clicks: Floats, start: Floats | None = None) -> Floats:
    """Return log θ, 0 at the first position.

    Examples
    --------
    >>> np.exp(fit_curve(np.array([[10.0, 10.0], [20.0, 10.0]]), np.array([[4.0, 2.0], [8.0, 2.0]]))).round(3)
    array([1. , 0.5])
    """
    log_curve = np.zeros(shows.shape[1]) if start is None else start.copy()
    total, at_position = clicks.sum(axis=1), clicks.sum(axis=0)

    def value(point: Floats) -> float:
        return float(
            at_position @ point - total @ np.log(shows @ np.exp(point)) - _RIDGE / 2 * point @ point
        )

    current = value(log_curve)
    # Newton's method. The value at position 1 stays 0, because only ratios are known.
    for _ in range(_STEPS):
        share = shows * np.exp(log_curve)
        share /= share.sum(axis=1, keepdims=True)
        expected = total @ share
        gradient = at_position - expected - _RIDGE * log_curve
        curvature = np.diag(expected + _RIDGE) - (share * total[:, None]).T @ share
        step = np.zeros_like(log_curve)
        step[1:] = np.linalg.solve(curvature[1:, 1:], gradient[1:])
        size = 1.0
        # Halve a step that goes too far, or so far that the value is not a number.
        reached = value(log_curve + step)
        while not reached >= current - _TOLERANCE and size > _TOLERANCE:
            size /= 2
            reached = value(log_curve + size * step)
        log_curve, current = log_curve + size * step, reached
        if np.abs(step).max() < _TOLERANCE:
            break
    return log_curve


def curve_errors(shows: Floats, clicks: Floats, log_curve: Floats) -> Floats:
    """Return the standard errors of log θ, 0 at the first position; clicks of a group may depend on each other.

    The errors belong to the maximum of a sum over groups: H⁻¹ (Σ_g s_g s_g') H⁻¹, with s_g the gradient of a group
    and H the curvature of the sum.

    Examples
    --------
    >>> shows, clicks = np.full((200, 2), 10.0), np.tile([[3.0, 2.0], [5.0, 2.0]], (100, 1))
    >>> curve_errors(shows, clicks, fit_curve(shows, clicks)).round(4)        # θ = 1/2, s = ±1/3, H = 200 * 6 * 2/9
    array([0.    , 0.0177])
    """
    total = clicks.sum(axis=1)
    share = shows * np.exp(log_curve)
    share /= share.sum(axis=1, keepdims=True)
    curvature = np.diag(total @ share) - (share * total[:, None]).T @ share
    of_groups = clicks - total[:, None] * share
    inverse = np.linalg.pinv(curvature[1:, 1:])
    variance = inverse @ (of_groups.T @ of_groups)[1:, 1:] @ inverse
    errors: Floats = np.sqrt(np.maximum(np.diag(variance), 0.0))
    return np.concatenate(([0.0], errors))


def informative(cells: Cells) -> Cells:
    """Keep groups that were clicked and shown at several positions. No other group informs about θ."""
    n_groups = int(cells.group.max()) + 1
    places = np.unique(cells.group * cells.n_positions + cells.position)
    several = np.bincount(places // cells.n_positions, minlength=n_groups) > 1
    useful = several & (sums_by(cells.group, cells.clicks, n_groups) > 0)
    return cells.subset(useful[cells.group])


def unreachable(cells: Cells) -> list[int]:
    """Return the positions, from 1, that no chain of groups connects with the first one."""
    if not len(cells.group):
        return list(range(2, cells.n_positions + 1))
    # Two positions are connected if a group was shown at both.
    shows, _ = cells.tables()
    _, component = connected_components(shows.T @ shows, directed=False)
    return (np.flatnonzero(component != component[0]) + 1).tolist()
