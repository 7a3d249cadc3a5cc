"""Why a document is above another: differences of exact contributions, summed by feature.

A score is the expected score plus the contribution of each feature (SHAP values; Lundberg, Erion
and Lee, 2018), so the difference of two scores is the sum of the differences of the contributions.
The largest difference takes the rounding: the exact sum of the differences, rounded once, is the
difference of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.support import checks
from rankwright.support.tables import Cell, Table, Tabular

Floats = NDArray[np.float64]
_SHOWN = 15  # features of a table in a notebook
_ROUNDING = 1e-9  # share of the scores: a larger difference is no rounding


@dataclass(frozen=True, eq=False)
class Explanation(Tabular):
    """Why the scores of two documents differ, feature by feature.

    Attributes
    ----------
    a, b : int
        Rows of the two documents.
    score_a, score_b : float
        Their scores.
    features : list of str
        Features, by descending size of their difference.
    differences : ndarray
        By how much each feature puts a above b [features]; their ``math.fsum`` is
        ``score_a - score_b``.
    values_a, values_b : list
        Values of the features in the two documents.
    contributions_a, contributions_b : ndarray
        The part of each feature in the two scores [features].

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, random_state=1)
    >>> why = rw.Ranker(n_estimators=5, verbose=0).fit(data).explain(data, 0, 1)
    >>> math.fsum(why.differences) == why.score_a - why.score_b == why.difference
    True
    """

    a: int
    b: int
    score_a: float
    score_b: float
    features: list[str]
    differences: Floats
    values_a: list[Any]
    values_b: list[Any]
    contributions_a: Floats
    contributions_b: Floats

    @property
    def difference(self) -> float:
        """The score of a minus the score of b."""
        return self.score_a - self.score_b

    def _columns(self) -> dict[str, Any]:
        """Return a row per feature: its values, its contributions and their difference."""
        return {
            "feature": self.features,
            "value_a": _one_type(self.values_a),
            "value_b": _one_type(self.values_b),
            "contribution_a": self.contributions_a,
            "contribution_b": self.contributions_b,
            "difference": self.differences,
        }

    def largest(self, top: int = _SHOWN) -> tuple[list[str], Floats]:
        """Return the features of the largest differences; a last entry is the sum of all others.

        The exact sum of the entries is the difference of the scores.
        """
        top = checks.whole("top", top, least=1)
        if len(self.features) <= top:
            return self.features, self.differences
        # We subtract from the exact difference, because a sum of the rest would be rounded once more.
        rest = math.fsum([self.difference, *(-self.differences[:top])])
        shown = settle(np.append(self.differences[:top], rest), self.difference)
        return [*self.features[:top], f"{len(self.features) - top} others"], shown

    def _table(self) -> Table:
        names, differences = self.largest()
        rows: list[list[Cell]] = []
        for place, (name, difference) in enumerate(zip(names, differences, strict=True)):
            values = [_text(self.values_a[place]), _text(self.values_b[place])]
            if place == _SHOWN:
                # The last row is the sum of all other features, which has no value.
                values = ["", ""]
            rows.append([name, *values, f"{difference:+.4f}"])
        header = ["feature", f"row {self.a}", f"row {self.b}", "difference"]
        note = (
            f"Row {self.a} has the score {self.score_a:.4f}, row {self.b} {self.score_b:.4f}: "
            f"{self.difference:+.4f}."
        )
        return Table("", header, rows, note)


def check_rows(a: Any, b: Any, n_rows: int) -> None:
    """Raise ValueError unless a and b are two different rows of ``n_rows``."""
    checks.whole("a", a, least=0, most=n_rows - 1)
    checks.whole("b", b, least=0, most=n_rows - 1)
    if a == b:
        raise ValueError(f"a and b are the same row, {a}; give two different documents to compare.")


def explain_pair(
    names: Sequence[str],
    values: tuple[list[Any], list[Any]],
    contributions: Floats,
    scores: Floats,
    rows: tuple[int, int],
) -> Explanation:
    """Build an explanation from the contributions [2, features + 1] and scores of two documents."""
    first, second = contributions[0, :-1], contributions[1, :-1]
    exact = float(scores[0] - scores[1])
    # The expected score, in the last column, is the same for both documents.
    differences = first - second
    if len(differences):
        settled = settle(differences, exact)
        size = max(float(np.abs(contributions).sum()), abs(exact))
        # Rounding moves a term by far less than this. More means that the contributions are wrong.
        moved = float(np.abs(settled - differences).max())
        if math.fsum(settled) != exact or moved > _ROUNDING * size:
            raise RuntimeError(
                f"the contributions of rows {rows[0]} and {rows[1]} add up to "
                f"{math.fsum(differences)!r}, but their scores differ by {exact!r}; the "
                "contributions do not belong to these scores."
            )
        differences = settled
    # Readers want the largest reasons first, and ties in the order of the columns.
    order = np.argsort(-np.abs(differences), kind="stable")
    return Explanation(
        a=int(rows[0]),
        b=int(rows[1]),
        score_a=float(scores[0]),
        score_b=float(scores[1]),
        features=[names[i] for i in order],
        differences=differences[order],
        values_a=[values[0][i] for i in order],
        values_b=[values[1][i] for i in order],
        contributions_a=first[order],
        contributions_b=second[order],
    )


def settle(terms: Floats, total: float) -> Floats:
    """Return the terms, the largest changed by the rounding so that their ``math.fsum`` is the total.

    Examples
    --------
    >>> terms = np.array([0.1, 0.2, 0.7])
    >>> math.fsum(terms) == 0.3 + 0.7, math.fsum(settle(terms, 0.5)) == 0.5
    (True, True)
    """
    settled = terms.copy()
    # The largest term has the coarsest digits. If they are too coarse for the total, a smaller term
    # takes the rest.
    for place in np.argsort(-np.abs(terms), kind="stable"):
        settled[place] = math.fsum([total, *(-np.delete(settled, place))])
        if math.fsum(settled) == total:
            break
    return settled


def _one_type(values: list[Any]) -> list[Any]:
    """Return numbers unchanged, or all values as text if any feature is a category.

    A column of a data frame has a single type.
    """
    if all(isinstance(value, float) for value in values):
        return values
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
