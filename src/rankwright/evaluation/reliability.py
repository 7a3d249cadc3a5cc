"""How well predicted values agree with targets: the reliability curve and the expected calibration error.

Documents are divided by their values into bins of about equal numbers. In a perfect bin b, with weight w_b, the mean
value equals the mean target:

    expected calibration error = sum_b w_b |mean value - mean target| / sum_b w_b

Reference: Naeini, Cooper and Hauskrecht, AAAI 2015. Departs from it: bins of equal numbers instead of equal widths, and
documents of equal value are never divided between bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, as_floats
from rankwright.support import checks
from rankwright.support.tables import Cell, Table, Tabular, interval_text

Floats = NDArray[np.float64]
_NORMAL = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True, eq=False)
class Reliability(Tabular):
    """Mean values and mean targets of documents, bin by bin.

    Attributes
    ----------
    predicted, observed : ndarray
        Mean value and mean target of each bin [bins], in ascending order of the values.
    low, high : ndarray
        95 % interval of the mean target; the documents of a query count as dependent [bins].
    documents : ndarray
        Documents in each bin [bins].
    error : float
        Expected calibration error, in the units of the targets.
    largest : float
        Largest difference between mean value and mean target.

    Examples
    --------
    >>> curve = reliability([0.1, 0.1, 0.7, 0.7], [0, 0, 1, 1], group=[2, 2], bins=2)
    >>> curve.predicted.tolist(), curve.observed.tolist(), round(curve.error, 3)
    ([0.1, 0.7], [0.0, 1.0], 0.2)
    """

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    documents: NDArray[np.int64]
    error: float
    largest: float

    def _columns(self) -> dict[str, Any]:
        """Return a row per bin."""
        names = ("predicted", "observed", "low", "high", "documents")
        return {name: getattr(self, name) for name in names}

    def points(self) -> list[dict[str, float]]:
        """Return the bins as dictionaries of plain numbers."""
        columns = self._columns()
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, point, strict=True)) for point in values]

    def _table(self) -> Table:
        rows: list[list[Cell]] = [
            [
                point["predicted"],
                point["observed"],
                interval_text(point["low"], point["high"]),
                f"{point['documents']:,}",
            ]
            for point in self.points()
        ]
        header = ["mean value", "mean target", "95% interval", "documents"]
        return Table("", header, rows, str(self))

    def __str__(self) -> str:
        return (
            f"expected calibration error {self.error:.4f}, "
            f"at most {self.largest:.4f} in {len(self.predicted)} bins"
        )


def reliability(
    values: ArrayLike,
    targets: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    bins: int = 15,
) -> Reliability:
    """Compare predicted values with their targets.

    Parameters
    ----------
    values
        Predictions, one per row: expected labels, or probabilities of relevance.
    targets
        Observed labels, or 1 for relevant and 0 for not relevant.
    qid, group
        Which rows belong together: an id per row in any order, or sizes in row order.
    sample_weight
        One per row, or one per query in order of first appearance.
    bins
        Number of bins; fewer are used if values are equal.

    Examples
    --------
    >>> print(reliability([0.5, 0.5, 0.5, 0.5], [1, 0, 0, 1], group=[2, 2]))
    expected calibration error 0.0000, at most 0.0000 in 1 bins
    """
    bins = checks.whole("bins", bins, least=1)
    v = as_floats(values, "values must be numbers, one per row.")
    queries = Queries.of(v.size, qid, group)
    t = as_floats(targets, "targets must be numbers, one per row.")
    for name, array in (("values", v), ("targets", t)):
        if array.shape != (queries.n_rows,):
            raise ValueError(
                f"{name} have shape {array.shape} for {queries.n_rows} rows; give one per row."
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"{name}[{row}] is {array[row]}; give finite numbers.")
    w = np.ones(queries.n_rows) if sample_weight is None else queries.per_row(sample_weight)
    v, t = queries.group(v), queries.group(t)
    if w.sum() == 0:
        raise ValueError("all weights are 0, so there is no mean; give positive weights.")
    # Equal values share a place, so that they are never divided between bins.
    _, place = np.unique(v, return_inverse=True)
    counts = np.bincount(place)
    middle = np.cumsum(counts) - counts / 2
    _, of_row = np.unique(np.floor(middle * bins / len(v))[place], return_inverse=True)
    mass = np.bincount(of_row, w)
    # Bins without weight have no mean and are left out.
    used = mass > 0
    with np.errstate(invalid="ignore"):
        predicted, observed = (np.bincount(of_row, w * column) / mass for column in (v, t))
    # The sum of a query's deviations in a bin is one observation, because its documents are not independent.
    cell = queries.query_of_row * len(mass) + of_row
    sums = np.bincount(cell, w * (t - observed[of_row]), queries.n_queries * len(mass))
    sums = sums.reshape(-1, len(mass))
    with np.errstate(invalid="ignore"):
        half = _NORMAL * np.sqrt((sums**2).sum(axis=0)) / mass
    difference = np.abs(predicted - observed)[used]
    return Reliability(
        predicted=predicted[used],
        observed=observed[used],
        low=(observed - half)[used],
        high=(observed + half)[used],
        documents=np.bincount(of_row)[used],
        error=float(np.average(difference, weights=mass[used])),
        largest=float(difference.max()),
    )
