"""Calibration: strictly increasing maps from scores to expected labels or to probabilities of relevance.

With u(s) between 0 and 1, the map of a score s is

    value(s) = top ((1 - SLANT) u(s) + SLANT r(s))

where r rises strictly from 0 to 1 over all numbers. We add it because u need not rise strictly, and then documents of
different scores would get equal values. ``top`` is the largest label for expected labels, and 1 for probabilities of
relevance. There are two kinds of u:

    isotonic    piecewise linear through the blocks of an isotonic regression of the targets on the scores
    logistic    1 / (1 + exp(-slope s - intercept)) of the greatest likelihood, slope > 0

Each step of the computation is monotone in floating point as well, so the order is never reversed; two scores may get
the same value only if they differ by less than about 1e-11 of the range of the scores.

References: Zadrozny and Elkan, KDD 2002, for isotonic maps; Platt, Advances in Large Margin Classifiers, 1999, for
logistic maps. Departs from them: the slope r, and targets are drawn to their mean by one document's weight. This keeps
values between 0 and ``top`` if labels separate perfectly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.support import checks
from rankwright.support.checks import is_number

Floats = NDArray[np.float64]

METHODS = ("isotonic", "logistic")
TARGETS = ("label", "relevance")
# With fewer queries the map would describe their peculiarities, which all documents of a query share.
LEAST_QUERIES = 20
# The slope is small enough not to show in values, and far above the rounding of doubles.
SLANT = 1e-4
_STEPS, _SMALLEST_STEP, _RIDGE = 100, 1e-12, 1e-12  # of Newton's method


@dataclass(frozen=True, eq=False)
class Calibration:
    """A strictly increasing map from scores to expected labels or probabilities, made by `fit_calibration`.

    Parameters
    ----------
    method
        ``"isotonic"`` or ``"logistic"``.
    target
        ``"label"``: the expected label. ``"relevance"``: the probability that the label is at least ``threshold``.
    threshold
        Least relevant label; None if the target is the label.
    top
        Upper limit of the values: the largest label, or 1.
    centre, width
        Middle and extent of the scores in the fit.
    n_queries, n_rows
        Size of the data in the fit.
    folds
        Number of folds of the cross-fitting; None if it was fitted on held-out queries.
    scores, values
        Points of an isotonic map, values as shares of ``top``; empty for a logistic map.
    slope, intercept
        Coefficients of a logistic map; 0 for an isotonic map.

    Examples
    --------
    >>> labels = np.tile([0, 0, 1, 0, 1, 1], 20)
    >>> scores = np.tile([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 20)
    >>> calibration = fit_calibration(scores, labels, n_queries=20)
    >>> calibration([1.5, 3.2, 3.8, 7.0]).round(3).tolist()
    [0.004, 0.5, 0.5, 0.996]
    """

    method: str
    target: str
    threshold: float | None
    top: float
    centre: float
    width: float
    n_queries: int
    n_rows: int
    folds: int | None
    scores: Floats = field(default_factory=lambda: np.empty(0))
    values: Floats = field(default_factory=lambda: np.empty(0))
    slope: float = 0.0
    intercept: float = 0.0

    def __call__(self, scores: ArrayLike) -> Floats:
        """Return the values of scores."""
        s = np.asarray(scores, dtype=np.float64)
        share = self._logistic(s) if self.method == "logistic" else self._interpolated(s)
        # Both terms rise with the score, so their sum never reverses an order.
        value: Floats = self.top * ((1 - SLANT) * share + SLANT * self._ramp(s))
        return value

    def _logistic(self, s: Floats) -> Floats:
        with np.errstate(over="ignore"):  # exp of a large number is infinite, and its inverse 0
            share: Floats = 1 / (1 + np.exp(-(self.slope * s + self.intercept)))
        return share

    def _interpolated(self, s: Floats) -> Floats:
        """Interpolate between points.

        Each operation here rounds monotonically. Libraries do not promise that.
        """
        x, y = self.scores, self.values
        if len(x) == 1:
            return np.full(s.shape, y[0])
        slopes = np.diff(y) / np.diff(x)
        # Scores outside the fit get the value of the first or the last point.
        left = np.clip(np.searchsorted(x, s, side="right") - 1, 0, len(x) - 2)
        inside = np.clip(s, x[0], x[-1])
        # Rounding may lift the end of a segment above the start of the next.
        return np.minimum(y[left] + (inside - x[left]) * slopes[left], y[left + 1])

    def _ramp(self, s: Floats) -> Floats:
        """Return 1 - 1 / (2 + 2 t) for t >= 0 and 1 / (2 - 2 t) below.

        Here t is the distance of the score from the centre, in widths.
        """
        t = (s - self.centre) / self.width
        tail = 1 / (2 + 2 * np.abs(t))
        return np.where(t >= 0, 1 - tail, tail)

    def to_manifest(self) -> dict[str, Any]:
        """Return plain values for ``manifest.json``."""
        described = {
            "method": self.method,
            "target": self.target,
            "threshold": self.threshold,
            "top": self.top,
            "centre": self.centre,
            "width": self.width,
            "queries": self.n_queries,
            "rows": self.n_rows,
            "folds": self.folds,
        }
        if self.method == "logistic":
            return {**described, "slope": self.slope, "intercept": self.intercept}
        return {**described, "scores": self.scores.tolist(), "values": self.values.tolist()}

    @classmethod
    def of_manifest(cls, described: Any) -> Calibration:
        """Read the values of `to_manifest`.

        Raise ValueError unless they are an increasing map of finite numbers.
        """
        # A manifest may come from anywhere, so every value is checked.
        try:
            shape: dict[str, Any]
            if _checked(described["method"], METHODS) == "logistic":
                shape = {name: _number(described[name]) for name in ("slope", "intercept")}
            else:
                shape = {name: _numbers(described[name]) for name in ("scores", "values")}
            threshold, folds = described["threshold"], described["folds"]
            map_ = cls(
                method=described["method"],
                target=_checked(described["target"], TARGETS),
                threshold=None if threshold is None else _number(threshold),
                top=_number(described["top"]),
                centre=_number(described["centre"]),
                width=_number(described["width"]),
                n_queries=int(_number(described["queries"])),
                n_rows=int(_number(described["rows"])),
                folds=None if folds is None else int(_number(folds)),
                **shape,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"the calibration in the manifest lacks or garbles {error}; it was damaged."
            ) from None
        is_increasing = map_.slope > 0 or _are_increasing(map_.scores, map_.values)
        if not (is_increasing and map_.top > 0 and map_.width > 0):
            raise ValueError(
                "the calibration in the manifest is not an increasing map; it was damaged."
            )
        return map_

    def describe(self) -> str:
        """Describe the values and the data of the fit in a line."""
        values = "expected label"
        if self.target == "relevance":
            values = f"probability of a label of at least {self.threshold:g}"
        kind = "cross-fitted" if self.folds else "held-out"
        return f"{values}, {self.method}, from {self.n_queries:,} {kind} queries"


def check_options(method: Any, target: Any, threshold: Any) -> None:
    """Raise ValueError if an option of a calibration cannot be used."""
    for name, value, allowed in (("method", method, METHODS), ("target", target, TARGETS)):
        if value not in allowed:
            raise checks.ArgumentError(name, f"must be one of {', '.join(allowed)}; got {value!r}.")
    if threshold is None:
        return
    # A threshold without effect is most likely a mistake about the target.
    if target == "label":
        raise checks.ArgumentError(
            "threshold",
            "is for probabilities of relevance, and the target is the label; leave it out.",
        )
    checks.positive("threshold", threshold)


def targets_of(labels: ArrayLike, target: str, threshold: float | None) -> Floats:
    """Return the targets of values.

    They are the labels, or 1 for labels of at least the threshold and 0 for the rest.
    """
    y = np.asarray(labels, dtype=np.float64)
    if target == "label":
        return y
    return (y >= _least(threshold)).astype(np.float64)


def fit_calibration(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    n_queries: int,
    weights: ArrayLike | None = None,
    method: str = "isotonic",
    target: str = "label",
    threshold: float | None = None,
    folds: int | None = None,
) -> Calibration:
    """Fit a map on scores and labels of queries that the model was not trained on.

    The order of the rows does not matter.

    Parameters
    ----------
    scores, labels
        The score and the label of each row.
    n_queries
        Number of queries that the rows belong to.
    weights
        The weight of each row.
    method, target, threshold
        As in `Calibration`.
    folds
        Number of folds that the scores were cross-fitted with, to be recorded.
    """
    check_options(method, target, threshold)
    least = _least(threshold)
    if n_queries < LEAST_QUERIES:
        raise ValueError(
            f"there are {n_queries} queries, and a calibration needs at least {LEAST_QUERIES}; "
            "give more held-out queries, or cross-fit on the training data in 5 folds."
        )
    s, y = np.asarray(scores, dtype=np.float64), targets_of(labels, target, least)
    w = np.ones(len(s))
    if weights is not None:
        w = np.asarray(weights, dtype=np.float64)
    # Rows without weight must not set the limits of the map.
    s, y, w = (values[w > 0] for values in (s, y, w))
    if not len(y) or y.min() == y.max():
        alike = "alike"
        if target == "relevance":
            alike = f"on one side of the threshold {least:g}"
        raise ValueError(
            f"all labels are {alike}, so there is nothing to calibrate by; "
            "give queries with different labels."
        )
    if s.min() == s.max():
        raise ValueError(
            "all scores are equal, so no map can tell documents apart; train more trees first."
        )
    # Sums must not depend on the order of the rows.
    order = np.lexsort((w, y, s))
    s, y, w = s[order], y[order], w[order] / w.mean()
    top = float(y.max())
    mean, n = float(np.average(y, weights=w)), len(y)
    # One document of the mean label is added to each target, so that no share is 0 or 1.
    share = (n * y + mean) / (top * (n + 1))
    # Documents of equal score are one point, because the map gives them one value.
    distinct, place = np.unique(s, return_inverse=True)
    mass: Floats = np.bincount(place, w).astype(np.float64)
    means = np.bincount(place, w * share) / mass
    shape: dict[str, Any]
    if method == "logistic":
        slope, intercept = _fit_logistic(distinct, means, mass)
        shape = {"slope": slope, "intercept": intercept}
        rises = slope > 0
    else:
        x, values = _fit_isotonic(distinct, means, mass)
        shape = {"scores": x, "values": values}
        rises = values[0] < values[-1]
    # A flat map would increase by its small slope alone, without any meaning.
    if not rises:
        raise ValueError(
            "labels do not rise with the scores, so an increasing map says nothing about them; "
            "check that the data are of the kind that the model was trained on."
        )
    return Calibration(
        method=method,
        target=target,
        threshold=None if target == "label" else least,
        top=top,
        centre=float((distinct[0] + distinct[-1]) / 2),
        width=float(distinct[-1] - distinct[0]),
        n_queries=int(n_queries),
        n_rows=n,
        folds=folds,
        **shape,
    )


def _fit_isotonic(s: Floats, share: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the points of the map: the first and the last score of each block, with the block's mean."""
    from scipy.optimize import isotonic_regression  # slow to import, and not needed to predict

    fitted = isotonic_regression(share, weights=weight)
    first, last = fitted.blocks[:-1], fitted.blocks[1:] - 1
    # A block with a single score is a single point.
    places = np.unique(np.concatenate([first, last]))
    return s[places], np.asarray(fitted.x[places], dtype=np.float64)


def _fit_logistic(s: Floats, share: Floats, weight: Floats) -> tuple[float, float]:
    """Return the slope and intercept with the greatest likelihood of the shares, by Newton's method."""
    # We standardise the scores, so that the same steps and limits fit scores of any scale.
    centre = float(np.average(s, weights=weight))
    spread = float(np.sqrt(np.average((s - centre) ** 2, weights=weight)))
    x = (s - centre) / spread
    # Without a slope the best intercept is the log odds of the mean.
    mean = float(np.average(share, weights=weight))
    beta = np.array([0.0, math.log(mean / (1 - mean))])

    def loss(beta: Floats) -> float:
        z = beta[0] * x + beta[1]
        return float(np.sum(weight * (np.logaddexp(0, z) - share * z)))

    # We use sums of NumPy because the bits of BLAS products may depend on the number of threads.
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-(beta[0] * x + beta[1])))
        residual, curved = weight * (p - share), weight * p * (1 - p)
        gradient = np.array([np.sum(residual * x), np.sum(residual)])
        a, b, c = np.sum(curved * x * x), np.sum(curved * x), np.sum(curved)
        # The ridge keeps the matrix invertible if all probabilities are near 0 or 1.
        ridge = _RIDGE * (a + c)
        a, c = a + ridge, c + ridge
        step = np.array([c * gradient[0] - b * gradient[1], a * gradient[1] - b * gradient[0]]) / (
            a * c - b * b
        )
        size = 1.0
        # Newton's step may overshoot far from the optimum.
        while loss(beta - size * step) > loss(beta) and size > _SMALLEST_STEP:
            size /= 2
        beta = beta - size * step
        if np.abs(size * step).max() < _SMALLEST_STEP * (1 + np.abs(beta).max()):
            break
    # The coefficients go back to the scale of the scores.
    slope = float(beta[0] / spread)
    return slope, float(beta[1] - slope * centre)


def _least(threshold: float | None) -> float:
    """Return the least relevant label."""
    return 1.0 if threshold is None else float(threshold)


def _checked(value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"one of {', '.join(allowed)}")
    return str(value)


def _number(value: Any) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise ValueError("a finite number")
    return float(value)


def _numbers(values: Any) -> Floats:
    if not isinstance(values, list):
        raise ValueError("a list of numbers")
    return np.array([_number(value) for value in values], dtype=np.float64)


def _are_increasing(x: Floats, y: Floats) -> bool:
    """Return True if the points of an isotonic map rise, with values from 0 to 1."""
    if not len(x) == len(y) > 0:
        return False
    is_rising = bool(np.all(np.diff(x) > 0) and np.all(np.diff(y) >= 0))
    return is_rising and y[0] >= 0 and y[-1] <= 1
