"""Test which of two interleaved rankers users prefer, and how many impressions the test needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.clicks.interleaving import Method, click_credit
from rankwright.clicks.log import ClickLog
from rankwright.evaluation.significance import bootstrap_interval, fisher
from rankwright.support import checks


@dataclass(frozen=True)
class InterleavingResult:
    """Preference of clicks in interleaved lists for one of two rankers, as returned by `compare_interleaved`.

    Attributes
    ----------
    wins_a, ties, wins_b : int
        Impressions with more credit for a, the same, and more for b.
    preference : float
        (wins_b - wins_a) / impressions: above 0 if b is preferred.
    low, high : float
        Bootstrap interval of the preference, over queries. NaN for one query, because it has no spread.
    p : float
        Two-sided p-value of Fisher's randomisation test over queries.
    n_impressions, n_queries : int
        Sizes.
    design_effect : float
        Variance of the preference relative to independent impressions: above 1 if the impressions of a query agree,
        below 1 by chance. NaN for one query.
    method, confidence
        The arguments.

    Examples
    --------
    >>> result = InterleavingResult(30, 50, 20, -0.1, -0.2, 0.01, 0.07, 100, 10, 1.0, "team-draft", 0.95)
    >>> print(result)
    team-draft: a won 30, b won 20, 50 ties (100 impressions of 10 queries)
    preference for b -0.1000, 95% interval [-0.2000, +0.0100], p = 0.0700
    >>> result.sample_size(0.1)         # impressions to find such a preference in 8 of 10 tests
    385
    """

    wins_a: int
    ties: int
    wins_b: int
    preference: float
    low: float
    high: float
    p: float
    n_impressions: int
    n_queries: int
    design_effect: float
    method: str
    confidence: float

    def sample_size(self, effect: float, *, power: float = 0.8, level: float = 0.05) -> int:
        """Return the impressions that a test needs if ties and design effect are as in this result.

        A design effect below 1 counts as 1.
        """
        ties = self.ties / self.n_impressions
        if math.isnan(self.design_effect):
            raise ValueError(
                "one query does not tell how much its impressions agree; use "
                "interleaving_sample_size with a design_effect, or a log of several queries."
            )
        # Below 1 is chance: impressions of a query do not disagree on purpose.
        design_effect = max(self.design_effect, 1.0)
        return interleaving_sample_size(
            effect, ties=ties, design_effect=design_effect, power=power, level=level
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes."""
        return dict(vars(self))

    def __str__(self) -> str:
        interval = f"{100 * self.confidence:g}% interval [{self.low:+.4f}, {self.high:+.4f}]"
        return (
            f"{self.method}: a won {self.wins_a}, b won {self.wins_b}, {self.ties} ties "
            f"({self.n_impressions} impressions of {self.n_queries} queries)\n"
            f"preference for b {self.preference:+.4f}, {interval}, p = {self.p:.4f}"
        )


def compare_interleaved(
    log: ClickLog,
    *,
    method: Method = "team-draft",
    confidence: float = 0.95,
    permutations: int = 20_000,
    resamples: int = 2000,
    random_state: int = 0,
) -> InterleavingResult:
    """Test which of two rankers users prefer, from clicks in lists that `interleave` made.

    An impression is won by the ranker with more credit. The test is over queries, because impressions of one query
    are alike: it asks how often a preference of this size appears if chance decides in each query which ranker is a.

    Parameters
    ----------
    log
        A log with the field ``"team"``, ``"a"`` or ``"b"``, for team draft, or ``"rank_a"`` and ``"rank_b"`` for
        balanced interleaving.
    method
        How the lists were made.
    confidence, permutations, resamples, random_state
        Level of the interval; sampled permutations of the test, bootstrap resamples, and their seed.

    Examples
    --------
    >>> from rankwright import make_web_search, simulate_interleaving
    >>> data = make_web_search(50, kind="short", n_features=20)
    >>> result = compare_interleaved(simulate_interleaving(data, -data.y, data.y))
    >>> result.preference > 0, result.p < 0.01
    (True, True)
    """
    checks.fraction("confidence", confidence)
    checks.whole("permutations", permutations, least=1)
    checks.whole("resamples", resamples, least=1)
    # The outcome of an impression is -1, 0 or 1, however many clicks it has.
    for_a, for_b = click_credit(log, method)
    outcome = np.sign(for_b - for_a).astype(np.float64)
    # Impressions of a query are averaged first, because they are not independent.
    query = log.queries.query_of_row[log.first_rows]
    impressions = np.bincount(query).astype(np.float64)
    mean = np.bincount(query, weights=outcome) / impressions
    key = (random_state, 0)
    low, high = bootstrap_interval(mean, impressions, resamples, confidence, key)
    return InterleavingResult(
        wins_a=int((outcome < 0).sum()),
        ties=int((outcome == 0).sum()),
        wins_b=int((outcome > 0).sum()),
        preference=float(outcome.mean()),
        low=low,
        high=high,
        p=fisher(mean, impressions, permutations, key),
        n_impressions=len(outcome),
        n_queries=len(impressions),
        design_effect=_design_effect(outcome, mean, impressions),
        method=method,
        confidence=confidence,
    )


def _design_effect(
    outcome: NDArray[np.float64], mean: NDArray[np.float64], impressions: NDArray[np.float64]
) -> float:
    """Return the variance of the mean outcome over queries, relative to independent impressions."""
    if len(mean) == 1:
        return math.nan
    center = float(outcome.mean())
    between = float((impressions**2 * (mean - center) ** 2).sum()) / len(outcome) ** 2
    independent = float(outcome.var()) / len(outcome)
    return between / independent if independent > 0 else 1.0


def interleaving_sample_size(
    effect: float,
    *,
    ties: float = 0.5,
    design_effect: float = 1.0,
    power: float = 0.8,
    level: float = 0.05,
) -> int:
    """Return the number of impressions with which a test finds a preference.

    n = (z_{1 - level/2} + z_power)² v D / effect², with v = 1 - ties - effect² the variance of an impression's outcome
    (-1, 0 or 1) and D the design effect.

    Parameters
    ----------
    effect
        Preference to find: wins of one ranker minus wins of the other, as a share of all impressions.
    ties
        Share of impressions without a winner. Most lists get no click, so it may be far above 1/2: a small test
        first shows its size.
    design_effect
        Variance relative to independent impressions.
    power
        Probability that the test finds it.
    level
        Level of the two-sided test.

    Examples
    --------
    >>> interleaving_sample_size(0.05, ties=0.6)         # (1.960 + 0.842)² (0.4 - 0.0025) / 0.0025
    1248
    """
    if not (abs(effect) > 0 and 0 <= ties < 1 and abs(effect) <= 1 - ties):
        raise ValueError(
            "effect must not be 0 and at most the share of impressions with a winner, 1 - ties; "
            f"got effect={effect}, ties={ties}."
        )
    checks.fraction("power", power)
    checks.fraction("level", level)
    checks.positive("design_effect", design_effect)
    z = NormalDist().inv_cdf
    variance = 1 - ties - effect**2
    n = (z(1 - level / 2) + z(power)) ** 2 * variance * design_effect / effect**2
    return max(1, math.ceil(n))
