"""A learning rate that follows the agreement of two halves of the queries.

Leaves are solved on half of the queries, chosen at random for each tree. The best step for the
other half along the leaf values v,

    a = -g'v / v'(H + ridge) v,          g, H of the other half,                         (agreement)

shows how much of the tree is signal: it is 1 if the halves agree, and 0 if they have no signal in
common. The rate grows while a is above a target and shrinks while it is below:
rate_{t+1} = rate_t exp(speed (a_t - target)). So data that is easy to learn gets large steps, and
training slows down when only noise is left. (The tree was chosen with both halves, so they agree by
about a half even on noise.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.cholesky import solve_positive

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steering:
    """How the learning rate follows the agreement; docs/defaults.md has the measurements.

    Parameters
    ----------
    speed, target
        As in the formula of the module.
    least, most
        Limits of the rate.
    """

    speed: float = 0.1
    target: float = 0.75
    least: float = 0.005
    most: float = 0.12

    def next(self, rate: float, agreement: float) -> float:
        """Return the learning rate of the next tree.

        Examples
        --------
        >>> Steering(speed=0.1, target=0.75).next(0.05, 0.75)
        0.05
        """
        next_rate = rate * math.exp(self.speed * (agreement - self.target))
        return min(self.most, max(self.least, next_rate))


def agreement(
    gradients: Floats,
    curvatures: Floats,
    ridge: float,
    solve: Callable[[Any, Any], Any] = solve_positive,
) -> float:
    """Return how well leaf values of half of the queries suit the other half, from 0 to 1.

    This is (agreement) of the module, limited to [0, 1].

    Parameters
    ----------
    gradients, curvatures
        Sums over the leaves for both halves: [2, leaves] and [2, leaves, leaves].
    ridge
        The ridge for all queries; each half has half of it.
    solve
        The solver of the leaf systems.

    Examples
    --------
    Two leaves of curvature 1. The halves want the same, and then the opposite:

    >>> curvatures = np.array([np.eye(2), np.eye(2)])
    >>> agreement(np.array([[1.0, -2.0], [1.0, -2.0]]), curvatures, ridge=0.2)
    1.0
    >>> agreement(np.array([[1.0, -2.0], [-1.0, 2.0]]), curvatures, ridge=0.2)
    0.0
    """
    # Each half has half of the ridge, so that both together have all of it.
    systems = curvatures + ridge / 2 * np.eye(gradients.shape[1])
    solved = [solve(*half) for half in zip(systems, gradients, strict=True)]
    values = -np.array(solved)
    # The leaf values of each half meet the gradient and the curvature of the other half.
    decrease = -np.sum(values * gradients[::-1])
    curvature = float(np.einsum("hl,hlm,hm->", values, systems[::-1], values))
    if not curvature > 0:
        return 0.0
    return float(np.clip(decrease / curvature, 0.0, 1.0))
