"""Inverse propensity weights of documents that were clicked.

A document that users saw with probability p, and clicked, stands for 1 / p documents that would have been clicked if
they had all been seen. Objectives use the weights so that the expectation over the documents that users see stays the
same, as far as the objective allows: see `docs/bias.md`.

Reference: Joachims, Swaminathan and Schnabel, "Unbiased Learning-to-Rank with Biased Feedback", WSDM 2017.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.queries import Queries, as_floats
from rankwright.support.checks import is_number

Floats = NDArray[np.float64]


def check_clip(clip: Any) -> None:
    """Raise ValueError unless ``clip`` is None or a propensity."""
    if clip is None or (is_number(clip) and 0 < float(clip) <= 1):
        return
    raise ValueError(
        f"clip is the least propensity to divide by, above 0 and up to 1, or None; got {clip!r}."
    )


def inverse_propensities(
    propensity: ArrayLike,
    labels: Floats,
    queries: Queries,
    *,
    clip: float | None = None,
    self_normalised: bool = False,
) -> Floats:
    """Return the weight of each document: 1 / max(propensity, clip) if its label is positive, otherwise 1 [rows].

    Parameters
    ----------
    propensity
        Probability that users saw the document, above 0 and up to 1, in grouped order [rows].
    labels
        In grouped order [rows].
    queries
        Queries of the rows, to say in errors where a value is wrong.
    clip
        The least propensity. Smaller propensities count as ``clip``, which limits the weights to 1 / clip at the price
        of a bias. None for no limit.
    self_normalised
        Divide the weights by their mean over the documents with a positive label, so that the scale of gradients does
        not depend on the propensities.

    Examples
    --------
    >>> queries = Queries.of(3, None, [3])
    >>> inverse_propensities([1, 0.5, 0.25], np.array([1.0, 1.0, 0.0]), queries).tolist()
    [1.0, 2.0, 1.0]
    >>> inverse_propensities([1, 0.5, 0.25], np.array([1.0, 1.0, 0.0]), queries, self_normalised=True).round(3).tolist()
    [0.667, 1.333, 1.0]
    """
    check_clip(clip)
    values = as_floats(
        propensity, "propensity must hold numbers: the probability that users saw each document."
    )
    if values.shape != labels.shape:
        raise ValueError(
            f"propensity has shape {values.shape} for {len(labels)} rows; give one per row."
        )
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        reason = "is missing" if math.isnan(values[row]) else f"is {float(values[row])!r}"
        raise ValueError(
            f"the propensity {reason} at {queries.where(row)}; it is the probability that users saw the document, "
            "above 0 and up to 1. Leave out documents that nobody could see."
        )
    clicked = labels > 0
    with np.errstate(over="ignore"):
        weights = np.where(clicked, 1.0 / np.maximum(values, clip or 0.0), 1.0)
    if np.isinf(weights).any():
        row = int(np.argmax(np.isinf(weights)))
        raise ValueError(
            f"the propensity is {float(values[row])!r} at {queries.where(row)}, which is too small to divide by; limit "
            "it with clip."
        )
    if self_normalised and clicked.any():
        weights[clicked] /= weights[clicked].mean()
    return weights
