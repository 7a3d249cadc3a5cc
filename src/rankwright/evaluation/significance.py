"""Paired tests, effect size and interval of the differences between two rankers, one difference per query.

Fisher's randomisation test asks how often a mean difference as large as the observed one appears if, on
every query, the two systems' values are swapped with probability 1/2:

    p = P(|Σ s_q w_q d_q| >= |Σ w_q d_q|),  s_q = ±1 with equal probability,

where d_q is the difference and w_q the weight of query q.

Reference: Smucker, Allan and Carterette, CIKM 2007, for the three tests; Holm, Scandinavian
Journal of Statistics, 1979, for the correction over several systems.

Departs from it: sampled p-values are (1 + hits) / (1 + permutations), so that they are never 0
and the test keeps its level (Phipson and Smyth, 2010).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-12  # differences up to this are rounding, not another ranking
DECIMALS = 12  # the same for Wilcoxon's ranks: 0.3 - 0.2 and 0.2 - 0.1 share one
_EXACT = 20  # with up to this many differing queries, all 2^20 sums (8 MB) are enumerated
_PERMUTATIONS = 1 << 14  # sampled at a time, so that sums and draws fit into the cache
_BLOCK = 1 << 10  # groups of eight queries tabulated at a time, 2 MB
_DRAWS = 1 << 20  # queries a bootstrap step draws at a time, 8 MB
_SIGNS, _RESAMPLES = 0, 1  # purposes of random streams


def mean(values: Floats, query_weight: Floats | None) -> float:
    """Return the mean, weighted if there are weights."""
    return float(np.average(values, weights=query_weight))


def effect_size(difference: Floats, query_weight: Floats | None) -> float:
    """Return Cohen's d: the mean over the standard deviation."""
    center = mean(difference, query_weight)
    n = len(difference)
    deviation = np.sqrt(mean((difference - center) ** 2, query_weight) * n / (n - 1))
    if center == 0:
        return 0.0
    if deviation <= ROUNDING * abs(center):
        # All differences are equal up to rounding.
        return float(np.sign(center) * np.inf)
    return float(center / deviation)


def student(difference: Floats) -> float:
    """Return the p-value of the paired t test; t is Cohen's d times the square root of n."""
    n = len(difference)
    t = abs(effect_size(difference, None)) * np.sqrt(n)
    from scipy.special import stdtr  # slow to import

    return float(2 * stdtr(n - 1, -t))


def wilcoxon(difference: Floats, key: tuple[int, int]) -> float:
    """Return the p-value of Wilcoxon's signed-rank test; exact if few differences are not 0."""
    nonzero = np.round(difference[difference != 0], DECIMALS)
    from scipy import stats  # slow to import

    # The exact form is Fisher's test of the signed ranks; with ties SciPy needs seconds for it.
    if len(nonzero) <= _EXACT:
        return fisher(np.sign(nonzero) * stats.rankdata(np.abs(nonzero)), None, 0, key)
    return float(stats.wilcoxon(nonzero).pvalue)


def fisher(
    difference: Floats, query_weight: Floats | None, permutations: int, key: tuple[int, int]
) -> float:
    """Return the p-value of Fisher's randomisation test; ``key`` is the seed and the number of the system."""
    terms = difference if query_weight is None else difference * query_weight
    # With sorted sizes the sampled p-value does not depend on the order of queries or on the sign.
    sizes = np.sort(np.abs(terms[terms != 0]))
    # Sums that differ only by rounding must count as equal; rounding grows with the sizes.
    threshold = abs(terms.sum()) - ROUNDING * sizes.sum()
    if len(sizes) <= _EXACT:
        return float(np.mean(np.abs(_signed_sums(sizes[None])) >= threshold))
    bits = np.random.PCG64(_stream(key, _SIGNS))
    hits = 0
    for start in range(0, permutations, _PERMUTATIONS):
        sums = _sampled_sums(sizes, min(_PERMUTATIONS, permutations - start), bits)
        hits += int(np.count_nonzero(np.abs(sums) >= threshold))
    return (1 + hits) / (1 + permutations)


def _sampled_sums(sizes: Floats, count: int, bits: np.random.PCG64) -> Floats:
    """Return sums of the sizes with random signs [count].

    A random byte gives the signs of eight queries: it is an index into their 256 signed sums. Raw
    bits and sums in a fixed order, without BLAS, give the same result on every platform.
    """
    sums = np.zeros(count)
    groups = np.pad(sizes, (0, -len(sizes) % 8)).reshape(-1, 8)
    for first in range(0, len(groups), _BLOCK):
        for table in _signed_sums(groups[first : first + _BLOCK]):
            words = np.asarray(bits.random_raw(-(-count // 8)), dtype="<u8")
            sums += table.take(words.view(np.uint8)[:count])
    return sums


def _signed_sums(groups: Floats) -> Floats:
    """Return the 2^k sums of each row [groups, k] over all choices of signs."""
    sums = np.zeros((len(groups), 1))
    for column in groups.T[:, :, None]:
        sums = np.hstack((sums + column, sums - column))
    return sums


def bootstrap_interval(
    difference: Floats,
    query_weight: Floats | None,
    resamples: int,
    confidence: float,
    key: tuple[int, int],
) -> tuple[float, float]:
    """Return the bootstrap percentile interval of the mean difference; NaN for one query, which has no spread.

    Resamples without any weight have no mean and are left out.
    """
    n = len(difference)
    if n == 1:
        return float("nan"), float("nan")
    rng = np.random.Generator(np.random.PCG64(_stream(key, _RESAMPLES)))
    means = np.empty(resamples)
    step = max(1, _DRAWS // n)
    for start in range(0, resamples, step):
        rows = rng.integers(n, size=(min(step, resamples - start), n))
        if query_weight is None:
            step_means = difference.take(rows).mean(axis=1)
        else:
            weight = query_weight.take(rows)
            total = weight.sum(axis=1)
            sums = (weight * difference.take(rows)).sum(axis=1)
            step_means = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
        means[start : start + step] = step_means
    low, high = np.nanquantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _stream(key: tuple[int, int], purpose: int) -> np.random.SeedSequence:
    seed, number = key
    return np.random.SeedSequence(seed, spawn_key=(number, purpose))


def holm(p_values: list[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method, in the given order.

    Examples
    --------
    >>> holm([0.03, 0.01, 0.04])
    [0.06, 0.03, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
