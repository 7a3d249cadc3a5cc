"""Propensities: how likely each position is examined, relative to the first, estimated from a click log."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.clicks.cells import Cells, Floats, by_document, by_randomised_positions, limited
from rankwright.clicks.log import ClickLog
from rankwright.clicks.multiplicative import fit_curve, informative, unreachable
from rankwright.clicks.relevance import curve_given, learn_curve, take_rows
from rankwright.support import checks
from rankwright.support.tables import Table, Tabular, interval_text

_METHODS = {
    "swaps": "randomised positions",
    "harvest": "documents shown at several positions",
    "em": "regression EM",
}


@dataclass(frozen=True, eq=False)
class Propensities(Tabular):
    """Examination of positions relative to the first, with intervals.

    Call it with positions to get their propensities as probabilities. If another position than the first is examined
    most, all propensities are divided by the largest one.

    Parameters
    ----------
    values
        Propensity of position 1, 2, ...; later positions have the last value [positions].
    low, high
        Bounds of the intervals [positions].
    shows, clicks
        Shows and clicks at each position, from which the values are estimated [positions].
    method, confidence
        The arguments of `estimate_propensities`.

    Examples
    --------
    >>> curve = Propensities.known([1.0, 0.5, 0.25])
    >>> curve([1, 3, 9]).tolist()
    [1.0, 0.25, 0.25]
    """

    values: Floats
    low: Floats
    high: Floats
    shows: Floats
    clicks: Floats
    method: str
    confidence: float

    @classmethod
    def known(cls, values: ArrayLike) -> Propensities:
        """Create propensities from probabilities above 0 and up to 1, for position 1, 2, ..."""
        curve = np.asarray(values, dtype=np.float64)
        if curve.ndim != 1 or len(curve) == 0:
            raise ValueError(
                f"give the propensities of position 1, 2, ... as a list; got shape {curve.shape}."
            )
        check_propensities(curve)
        no_counts = np.zeros(len(curve))
        return cls(curve, curve, curve, no_counts, no_counts, "known", 1.0)

    def __call__(self, position: ArrayLike) -> Floats:
        """Return the propensity of each position, counted from 1."""
        places = np.asarray(position)
        if places.size:
            # The remainder of NaN is NaN, so NaN is refused too.
            if places.dtype.kind not in "iuf" or not np.all(places % 1 == 0):
                raise ValueError("positions are whole numbers from 1, and one of them is not.")
            if places.min() < 1:
                raise ValueError(f"positions start at 1; got {places.min()}.")
        # Only ratios are known, so the most examined position may have probability 1.
        curve = self.values / max(1.0, self.values.max())
        values: Floats = curve[np.minimum(places, len(curve)).astype(np.int64) - 1]
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes, arrays as lists."""
        values = asdict(self)
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = value.tolist()
        return values

    def _columns(self) -> dict[str, Any]:
        """Return a row per position."""
        return {
            "position": np.arange(1, len(self.values) + 1),
            "propensity": self.values,
            "low": self.low,
            "high": self.high,
            "shows": self.shows,
            "clicks": self.clicks,
        }

    def _table(self) -> Table:
        interval = f"{100 * self.confidence:g}% interval"
        rows = [
            [str(k), f"{value:.4f}", interval_text(low, high), f"{shows:.0f}", f"{clicks:.0f}"]
            for k, value, low, high, shows, clicks in zip(*self._columns().values(), strict=True)
        ]
        note = f"Relative to position 1, by {_METHODS.get(self.method, self.method)}."
        return Table("", ["position", "propensity", interval, "shows", "clicks"], rows, note)

    def __str__(self) -> str:
        return "\n".join(self._table().lines())


def check_propensities(
    values: NDArray[np.float64], of: Literal["position", "row"] = "position"
) -> None:
    """Raise ValueError unless all are probabilities above 0; positions count from 1, rows from 0."""
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(bad):
        number = bad[0] + (1 if of == "position" else 0)
        raise ValueError(
            f"the propensity of {of} {number} is {values[bad[0]]:g}; it is the probability that "
            "users look there, above 0 and up to 1."
        )


def estimate_propensities(
    log: ClickLog,
    method: Literal["swaps", "harvest", "em"] = "harvest",
    *,
    limit: int = 50,
    resamples: int = 100,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Propensities:
    """Estimate how likely each position is examined, relative to the first.

    Parameters
    ----------
    log
        A click log. The methods assume the position-based model: a click needs an examined position and,
        independently, an attractive document.
    method
        ``"swaps"`` uses documents that changed places by chance. The field ``"randomised"`` marks them.
        ``"harvest"`` uses documents that were shown at several positions for reasons other than relevance, for example
        because two rankers answer the same queries. ``"em"`` needs neither, but features: it learns the relevance of
        documents from them, and attributes to position bias the clicks that features do not explain.
    limit
        Positions past this one share a propensity.
    resamples
        Bootstrap resamples of queries for the intervals; 0 for none. "em" takes its model of relevance as given.
    confidence
        Level of the intervals.
    random_state
        Seed of the resamples.

    Returns
    -------
    Propensities
        Values, intervals and counts by position.

    References
    ----------
    Joachims, Swaminathan and Schnabel, WSDM 2017 (swaps); Agarwal et al., WSDM 2019 (harvesting); Wang et al., WSDM
    2018 (regression EM). The first two are fitted by the likelihood in `rankwright.clicks.multiplicative`.

    Examples
    --------
    >>> from rankwright import make_web_search, simulate_clicks
    >>> data = make_web_search(100, kind="short", n_features=20)
    >>> log = simulate_clicks(data, data.X[:, 0], impressions=200, shown=3, randomise="swap")
    >>> print(estimate_propensities(log, "swaps"))        # 1, 1/2 and 1/3
    position  propensity         95% interval  shows  clicks
    ...
    """
    checks.choice("method", method, _METHODS)
    checks.fraction("confidence", confidence)
    checks.whole("limit", limit, least=2)
    checks.whole("resamples", resamples, least=0)
    if resamples == 1:
        raise ValueError(
            "one resample has no spread, so there would be no interval; give more, or 0 for none."
        )
    if log.position.max() == log.position.min():
        raise ValueError(
            "the log has one position only, so position bias and relevance cannot be told apart."
        )
    if method == "em":
        cells, estimate = _by_features(log, limit, random_state)
    else:
        cells, estimate = _by_shows(log, method, limit)
    # Intervals are symmetric for the logarithm, because only ratios of propensities are known.
    log_curve = estimate(None)
    low = high = np.full(cells.n_positions, np.nan)
    if resamples:
        deviation = _deviations(estimate, log.queries.n_queries, resamples, random_state)
        half = NormalDist().inv_cdf((1 + confidence) / 2) * deviation
        low, high = np.exp(log_curve - half), np.exp(log_curve + half)
    shows, clicks = cells.by_position()
    return Propensities(np.exp(log_curve), low, high, shows, clicks, method, confidence)


_Estimate = Callable[[Floats | None], Floats]  # query weights to log propensities


def _by_shows(log: ClickLog, method: str, limit: int) -> tuple[Cells, _Estimate]:
    table_of = by_randomised_positions if method == "swaps" else by_document
    cells = informative(table_of(log, limited(log, limit)))
    lost = unreachable(cells)
    if lost:
        link = "documents shown at both"
        if method == "swaps":
            link = "lists whose places were exchanged"
        use = "Lower limit, or use" if lost[0] > 2 else "Use"
        raise ValueError(
            f"position {lost[0]} is not connected with position 1 by {link} and clicked, so its "
            "bias and the relevance of its documents cannot be told apart: the log has no overlap. "
            f"{use} the method 'em', or log lists of several rankers or with exchanged places."
        )
    _require_clicks(cells)

    def fit(query_weight: Floats | None, start: Floats | None) -> Floats:
        shows, clicks = cells.tables(query_weight)
        # Groups without clicks, for example in a resample, do not change the likelihood.
        used = clicks.sum(axis=1) > 0
        return fit_curve(shows[used], clicks[used], start)

    # The estimate of the whole log is a good start for its resamples.
    return cells, partial(fit, start=fit(None, None))


def _by_features(log: ClickLog, limit: int, seed: int) -> tuple[Cells, _Estimate]:
    data = log.require_data("method='em'")
    cells = by_document(log, limited(log, limit))
    _require_clicks(cells)
    if unreachable(informative(cells)):
        warnings.warn(
            "no document was clicked and shown at several positions: position bias and relevance "
            "are told apart by the features alone, as far as these explain relevance.",
            stacklevel=4,
        )
    # `by_document` numbers documents in the order of their rows.
    shown = take_rows(data, np.unique(log.document))
    if shown.n_queries < 2:
        raise ValueError(
            "method='em' learns relevance from other queries, so it needs at least two."
        )
    gamma, _ = learn_curve(shown, cells, seed)

    def estimate(query_weight: Floats | None) -> Floats:
        weight = np.ones(len(gamma)) if query_weight is None else query_weight[cells.query]
        return np.log(curve_given(cells, gamma, weight))

    return cells, estimate


def _require_clicks(cells: Cells) -> None:
    _, clicks = cells.by_position()
    if not clicks.all():
        raise ValueError(
            f"there is no click at position {int(np.argmin(clicks)) + 1} to learn from; lower "
            "limit, so that late positions share a propensity."
        )


def _deviations(estimate: _Estimate, n_queries: int, resamples: int, seed: int) -> Floats:
    """Return the standard deviation of log propensities over resamples of queries."""
    rng = np.random.default_rng(seed)
    chances = np.full(n_queries, 1 / n_queries)
    draws = []
    for _ in range(resamples):
        # How many times each query is drawn, as its weight.
        times = rng.multinomial(n_queries, chances).astype(np.float64)
        draws.append(estimate(times))
    deviation: Floats = np.std(draws, axis=0, ddof=1)
    return deviation
