"""How far SoftRank's surrogate can be from NDCG: theorem 2 of the "Directness" paper (He and Liu).

The theorem as published has errors, which `softrank_bound` lists and corrects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real


@dataclass(frozen=True)
class SoftRankBound:
    """Theorem 2 for one query length, as computed by `softrank_bound`.

    Parameters
    ----------
    bound
        Bound of |NDCG - SoftNDCG|; infinite where the formula has no value.
    holds
        Whether σ meets the theorem's condition.
    largest_sigma
        σ below which it does.
    eps_1, eps_2, eps_3
        The theorem's ε.

    Examples
    --------
    >>> softrank_bound(sigma=0.1, delta=1.0, n=5, classes=2).holds
    True
    """

    bound: float
    holds: bool
    largest_sigma: float
    eps_1: float
    eps_2: float
    eps_3: float


def softrank_bound(
    sigma: float, delta: float, n: int, classes: int, *, version: str = "corrected"
) -> SoftRankBound:
    """Bound the gap between NDCG without a cutoff and its SoftRank surrogate: theorem 2 of the "Directness" paper.

        |NDCG - SoftNDCG| <= 2^(K-1) N (ε1 + ε2)
        ε1 = c (N-1) σ / (2 δ sqrt(π)) exp(-δ^2 / (4 σ^2)),  ε2 = sqrt(ε3 / (1 - 5 ε3)) + 5 ε3

    As published, c = 1 and ε3 = 1 - erf^2(δ / (2 σ)), for σ < δ / (2 erfinv(sqrt((N-2) / (N-1)))). Five errors that
    matter:

    - ε3 bounds the variance of a rank, which the proof shows to be at most (N-1)/4 (1 - erf^2(δ / (2 σ))): the factor
      is missing, and for N > 5 ε3 is too small.
    - The proof needs this variance to be below 1/5, so 1 - erf^2 < 4 / (5 (N-1)). It continues with the weaker
      1 - erf^2 < 1 / (N-1), which follows from this condition but does not imply it. For N < 6 the published
      condition admits σ at which 1 - 5 ε3 is not positive and ε2 has no value; for N = 2 it admits every σ.
    - The slope of 1 / log2(2 + r) is 1 / (ln 2 (2 + r) log2(2 + r)^2), at most 1 / (2 ln 2). The proof omits the factor
      1 / ln 2, so c should be 1 / ln 2.
    - erf is defined as an integral from minus infinity, and σ is called a variance: erf is the usual one, from 0, and
      σ a standard deviation.
    - Section III prints the variance of the difference of two scores as σ^2; it is 2 σ^2, as in the proof and here.

    The corrected version has c = 1 / ln 2, ε3 = (N-1)/4 (1 - erf^2(δ / (2 σ))) and the condition ε3 < 1/5.

    Parameters
    ----------
    sigma
        Standard deviation σ of the scores.
    delta
        Smallest distance δ between two scores of a query.
    n
        Number N of documents, at least 2.
    classes
        Number K of grades, counted from 0: K - 1 is the highest label.
    version
        ``"corrected"`` or ``"published"``.

    Examples
    --------
    >>> published = softrank_bound(0.2, 1.0, 3, 2, version="published")
    >>> corrected = softrank_bound(0.2, 1.0, 3, 2)
    >>> published.bound < 1, corrected.bound < 1
    (True, True)
    >>> softrank_bound(5.0, 1.0, 2, 2, version="published")   # the condition holds, but the formula has no value
    SoftRankBound(bound=inf, holds=True, largest_sigma=inf, ...)
    """
    from scipy.special import erfcinv

    if version not in ("corrected", "published"):
        raise ValueError(f"version must be 'corrected' or 'published'; got {version!r}.")
    whole = all(
        isinstance(count, Integral) and not isinstance(count, bool) for count in (n, classes)
    )
    numbers = isinstance(sigma, Real) and isinstance(delta, Real)
    if not (
        whole and numbers and sigma > 0 and delta >= 0 and 2 <= n <= 2**53 and 1 <= classes <= 1000
    ):
        raise ValueError(
            "softrank_bound needs sigma > 0, delta >= 0, and whole numbers n from 2 and classes from 1 to 1000; got "
            f"sigma={sigma!r}, delta={delta!r}, n={n!r}, classes={classes!r}."
        )
    corrected = version == "corrected"
    # 1 - erf^2 = (1 - erf) (1 + erf): erfc keeps its digits where erf rounds to 1.
    tail = math.erfc(delta / (2 * sigma)) * (1 + math.erf(delta / (2 * sigma)))
    eps_3 = (n - 1) / 4 * tail if corrected else tail
    # The condition 1 - erf^2 < t, solved for σ; t = 1 admits every σ.
    threshold = min(1.0, 4 / (5 * (n - 1)) if corrected else 1 / (n - 1))
    argument = float(erfcinv(threshold / (1 + math.sqrt(1 - threshold))))
    largest = math.inf if argument == 0 else delta / (2 * argument)
    if delta == 0:
        return SoftRankBound(math.inf, False, 0.0, math.inf, math.inf, eps_3)
    slope = 1 / math.log(2) if corrected else 1.0
    eps_1 = (
        slope
        * (n - 1)
        * sigma
        / (2 * delta * math.sqrt(math.pi))
        * math.exp(-((delta / (2 * sigma)) ** 2))
    )
    eps_2 = math.sqrt(eps_3 / (1 - 5 * eps_3)) + 5 * eps_3 if eps_3 < 0.2 else math.inf
    bound = 2.0 ** (classes - 1) * n * (eps_1 + eps_2)
    return SoftRankBound(bound, sigma < largest, largest, eps_1, eps_2, eps_3)
