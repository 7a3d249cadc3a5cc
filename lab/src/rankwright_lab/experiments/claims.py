"""Claims of the papers, such as "A above B by NDCG@5", and their tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rankwright.evaluation.comparison import PairedResult, compare
from rankwright.evaluation.per_query import Evaluation
from rankwright.evaluation.significance import holm
from rankwright_lab.experiments.base import AGREES, CONTRADICTS, OPEN, Verdict
from rankwright_lab.experiments.published import PublishedValues
from rankwright_lab.harness import OutcomeStore
from rankwright_lab.harness.systems import Floats

_LEVEL = 0.05
_ALIKE = 0.01  # two systems are alike if the interval of their difference is within a point
_NOTHING = PublishedValues()
Measured = str | tuple[str, str]  # a system, or two for the difference of the first and the second


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: ``better`` has a higher ``target`` than ``worse``, or the two are alike.

    Parameters
    ----------
    better, worse
        A system; or two, for the difference of the first and the second.
    target
        The metric.
    alike
        The claim is that there is no relevant difference. It holds if the interval is within a point.
    text
        The claim in words; if empty, it is composed of the names.
    drawn
        Training data are drawn anew for each fold and seed. Tests over queries know nothing of that chance, so the
        claim is only decided if a t-test over the draws is significant too.
    """

    better: Measured
    worse: Measured
    target: str
    alike: bool = False
    text: str = ""
    drawn: bool = False

    def __str__(self) -> str:
        relation = "like" if self.alike else "above"
        return self.text or f"{self.better} {relation} {self.worse} by {self.target}"

    def systems(self) -> set[str]:
        """Return the names of its systems."""
        return {
            name
            for side in (self.better, self.worse)
            for name in ([side] if isinstance(side, str) else side)
        }


def claims(text: str, targets: Iterable[str], *, alike: bool = False) -> tuple[Claim, ...]:
    """Read claims such as ``"a > b > c"`` or ``"a > c"`` on several lines, for each target.

    Examples
    --------
    >>> [str(claim) for claim in claims("a > b > c", ["map"])]
    ['a above b by map', 'b above c by map']
    """
    chains = [
        [name.strip() for name in line.split(" > ")] for line in text.splitlines() if line.strip()
    ]
    pairs = [pair for chain in chains for pair in pairwise(chain)]
    return tuple(
        Claim(better, worse, target, alike) for target in targets for better, worse in pairs
    )


def p_text(p: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.0001)
    ('= 0.031', '< 0.001')
    """
    return f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def judge(
    claims: Sequence[Claim], store: OutcomeStore, published: PublishedValues = _NOTHING
) -> list[Verdict]:
    """Test claims by paired tests over the test queries, with Holm's correction over the claims of each metric.

    Claims about drawn data are tested over the draws too.

    Parameters
    ----------
    claims
        The claims.
    store
        Outcomes of all their systems.
    published
        The paper's figures; the evidence then says on how many of its data sets each claim holds.
    """
    verdicts = []
    for target in dict.fromkeys(claim.target for claim in claims):
        own = [claim for claim in claims if claim.target == target]
        rows = [_paired(claim, store) for claim in own]
        for claim, row, p in zip(own, rows, holm([row.p for row in rows]), strict=True):
            evidence = (
                f"{100 * row.difference:+.2f} points [{100 * row.low:+.2f}, {100 * row.high:+.2f}], "
                f"p {p_text(p)}, {row.n_queries} queries"
            )
            outcome = _outcome(claim, row, p)
            draws = _by_draw(claim, store) if claim.drawn else np.empty(0)
            if len(draws) > 1:
                error = draws.std(ddof=1) / np.sqrt(len(draws))
                evidence += f"; standard error over {len(draws)} draws {100 * error:.2f}"
                if _p_over_draws(draws) > _LEVEL:
                    outcome = OPEN
            verdicts.append(
                Verdict(str(claim), outcome, evidence + _in_the_paper(claim, published))
            )
    return verdicts


def _by_draw(claim: Claim, store: OutcomeStore) -> Floats:
    """Return the difference of the two sides for each fold and seed."""

    def means(name: str) -> dict[tuple[str, str, int], float]:
        own = [
            outcome
            for outcome in store.outcomes
            if (outcome.system, outcome.target) == (name, claim.target)
        ]
        return {(o.data, o.fold, o.seed): float(np.nanmean(o.values[claim.target])) for o in own}

    def side(measured: Measured, draw: tuple[str, str, int]) -> float:
        if isinstance(measured, str):
            return values[measured][draw]
        return values[measured[0]][draw] - values[measured[1]][draw]

    values = {name: means(name) for name in claim.systems()}
    draws = sorted(set.intersection(*(set(own) for own in values.values())))
    return np.array([side(claim.better, draw) - side(claim.worse, draw) for draw in draws])


def _p_over_draws(draws: Floats) -> float:
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(draws, 0.0).pvalue)


def _outcome(claim: Claim, row: PairedResult, p: float) -> str:
    if claim.alike and row.low >= -_ALIKE and row.high <= _ALIKE:
        return AGREES
    if p > _LEVEL:
        return OPEN
    return AGREES if row.difference > 0 and not claim.alike else CONTRADICTS


def _paired(claim: Claim, store: OutcomeStore) -> PairedResult:
    sides = [_values(side, store, claim.target) for side in (claim.worse, claim.better)]
    return compare(*sides, metrics=[claim.target]).rows[0]


def _values(side: Measured, store: OutcomeStore, target: str) -> Evaluation:
    if isinstance(side, str):
        return store.evaluation(side, target)
    first, second = (store.evaluation(name, target) for name in side)
    change = first.per_query[target] - second.per_query[target]
    return replace(first, per_query={target: change}, mean={target: float(np.nanmean(change))})


def _in_the_paper(claim: Claim, published: PublishedValues) -> str:
    """Say on how many of the paper's data sets the first figure is above the second."""
    if not (isinstance(claim.better, str) and isinstance(claim.worse, str)):
        return ""
    sides = (published.of(claim.target, claim.better), published.of(claim.target, claim.worse))
    pairs = [(a, b) for a, b in zip(*sides, strict=True) if a is not None and b is not None]
    if not pairs:
        return ""
    return f"; in the paper above on {sum(a > b for a, b in pairs)} of {len(pairs)} data sets"
