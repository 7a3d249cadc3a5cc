"""Why one document is above another: differences of exact contributions, summed by feature.

A score is the expected score plus the contribution of each feature (SHAP values; Lundberg, Erion and Lee, 2018), so the
difference of two scores is the sum of the differences of the contributions. Rounding is settled on the largest
difference: their exact sum, rounded once, is the difference of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.support.tables import Table, Tabular

Floats = NDArray[np.float64]
_SHOWN = 15  # features of a table in a notebook
_LEAST_SHARE = 1e-9  # of the scores: contributions further than this from them are not theirs


@dataclass(frozen=True, eq=False)
class Explanation(Tabular):
    """What makes the difference between the scores of two documents, feature by feature.

    Attributes
    ----------
    a, b : int
        Rows of the two documents.
    score_a, score_b : float
        Their scores.
    features : list of str
        Features, by descending size of their difference.
    differences : ndarray
        By how much each feature puts a above b [features]; ``math.fsum`` of them is ``score_a - score_b``.
    values_a, values_b : list
        Values of the features in the two documents.
    contributions_a, contributions_b : ndarray
        What each feature adds to the two scores [features].

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, seed=1)
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
        """By how much the score of a is above that of b."""
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
        """Return the features of the largest differences, and in one last entry the sum of the others, if any.

        The exact sum stays that of all.
        """
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise ValueError(f"top must be a whole number from 1; got {top!r}.")
        if len(self.features) <= top:
            return self.features, self.differences
        others = len(self.features) - top
        rest = math.fsum([self.difference, *(-self.differences[:top])])
        shown = settle(np.append(self.differences[:top], rest), self.difference)
        return [*self.features[:top], f"{others} others"], shown

    def _table(self) -> Table:
        names, differences = self.largest()
        rows = [
            [name, _text(a), _text(b), f"{difference:+.4f}"]
            for name, a, b, difference in zip(
                names, self.values_a, self.values_b, differences, strict=False
            )
        ]
        if len(self.features) > _SHOWN:
            # The last row is the sum of all other features, which has no value.
            rows[-1][1:3] = ["", ""]
        header = ["feature", f"row {self.a}", f"row {self.b}", "difference"]
        return Table("", header, rows, self._summary())

    def _summary(self) -> str:
        return (
            f"Row {self.a} has the score {self.score_a:.4f}, row {self.b} {self.score_b:.4f}: "
            f"{self.difference:+.4f}."
        )

    def __str__(self) -> str:
        rows = [
            [name, f"{difference:+.4f}"] for name, difference in zip(*self.largest(), strict=True)
        ]
        return str(Table("", ["", ""], rows, self._summary()))


def check_rows(a: Any, b: Any, n_rows: int) -> None:
    """Raise ValueError unless a and b are two different rows of ``n_rows``."""
    for name, row in (("a", a), ("b", b)):
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise ValueError(f"{name} must be the number of a row of X; got {row!r}.")
        if not 0 <= row < n_rows:
            raise ValueError(
                f"{name}={row} is not a row of X, which has the rows 0 to {n_rows - 1}."
            )
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
    differences = first - second
    if len(differences):
        settled = settle(differences, exact)
        size = max(float(np.abs(contributions).sum()), abs(exact))
        if (
            abs(math.fsum(settled) - exact) > 0
            or float(np.abs(settled - differences).max()) > _LEAST_SHARE * size
        ):
            raise RuntimeError(
                f"the contributions of rows {rows[0]} and {rows[1]} add up to {math.fsum(differences)!r} where their "
                f"scores differ by {exact!r}; the engine's contributions are not those of its scores."
            )
        differences = settled
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
    """Return the terms with the rounding taken from the largest, so that ``math.fsum`` of them is the total.

    Examples
    --------
    >>> terms = np.array([0.1, 0.2, 0.7])
    >>> math.fsum(terms) == 0.3 + 0.7, math.fsum(settle(terms, 0.5)) == 0.5
    (True, True)
    """
    settled = terms.copy()
    for place in np.argsort(-np.abs(terms), kind="stable"):
        others = np.delete(settled, place)
        settled[place] = math.fsum([total, *(-others)])
        if math.fsum(settled) == total:
            break
    return settled


def _one_type(values: list[Any]) -> list[Any]:
    """Values of one column of a frame: numbers, or texts where a feature is a category."""
    return (
        values
        if all(isinstance(value, float) for value in values)
        else [_text(value) for value in values]
    )


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
