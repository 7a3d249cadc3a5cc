"""Objectives: sources of gradients for ranking, each for every metric that it is defined for.

>>> from rankwright.objectives import bind
>>> gradient = bind("yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse", [2, 0, 1], group=[3], metric="map")
>>> grad, hess = gradient([0.3, 0.2, 0.1], iteration=0)
>>> grad.shape
(3,)
"""

from __future__ import annotations

import difflib
import re
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankwright.data.queries import Queries
from rankwright.metrics import Metric
from rankwright.objectives.base import BoundObjective, Floats, Gradient, Objective, Problem, Sum
from rankwright.objectives.lambdas import LambdaLoss, LambdaMART, RankNet
from rankwright.objectives.pointwise import QueryRMSE
from rankwright.objectives.softmax import XENDCG, ListNet
from rankwright.objectives.softrank import SoftRank
from rankwright.objectives.stochastic import StochasticRank
from rankwright.objectives.yeti import YetiLoss, YetiRank

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        QueryRMSE,
        RankNet,
        LambdaMART,
        LambdaLoss,
        YetiRank,
        YetiLoss,
        StochasticRank,
        SoftRank,
        XENDCG,
        ListNet,
    )
}

__all__ = [
    "OBJECTIVES",
    "XENDCG",
    "BoundObjective",
    "Gradient",
    "LambdaLoss",
    "LambdaMART",
    "ListNet",
    "Objective",
    "Problem",
    "QueryRMSE",
    "RankNet",
    "SoftRank",
    "StochasticRank",
    "Sum",
    "YetiLoss",
    "YetiRank",
    "bind",
    "gradients",
    "objective",
]


def objective(text: str | Objective, **options: Any) -> Objective:
    """Read an objective from text: a name, options in brackets, weighted sums.

    A summand is ``[factor] [n^power] name[(option=value, ...)]``, where n is the query's number of documents.

    Examples
    --------
    >>> objective("lambdamart", truncation="k+3")
    LambdaMART(sigma=1.0, truncation='k+3', extend=None, ...)
    >>> print(objective("yetiloss + 0.5 queryrmse"))
    yetiloss + 0.5 queryrmse
    """
    return _read(text, options)


def _read(text: str | Objective, options: dict[str, Any]) -> Objective:
    if isinstance(text, Objective):
        if options:
            raise ValueError(
                f"options {', '.join(options)} cannot be added to an objective that is made already; "
                "give them where it is made."
            )
        return text
    parts = [_summand(part) for part in _split(str(text), "+")]
    if options and len(parts) > 1:
        raise ValueError("a sum takes its options in the text, such as 'yetiloss(neighbours=3) + queryrmse'.")
    for twice in parts[0][3].keys() & options.keys():
        raise ValueError(f"{parts[0][2]} is given {twice} twice, in the text and beside it.")
    made = [(factor, power, _make(name, {**given, **options})) for factor, power, name, given in parts]
    if len(made) == 1 and made[0][:2] == (1.0, 0.0):
        return made[0][2]
    return Sum(tuple(made))


def bind(
    objective: str | Objective,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    seed: int = 0,
    threads: int | None = None,
    weights: ArrayLike | None = None,
    **options: Any,
) -> BoundObjective:
    """Prepare an objective for labels: a callable ``(scores, iteration) -> (grad, hess)`` for training loops.

    Parameters
    ----------
    objective
        An objective, or its name or text form.
    labels
        Relevance, finite and not negative, one per row.
    qid, group
        Which rows belong together: an id per row in any order, or sizes in row order. Random draws of a query
        depend on its id, or with ``group`` on its number.
    metric
        What to optimise. Objectives with a loss of their own (queryrmse, ranknet, yetirank, xendcg, listnet)
        do not look at it.
    seed
        Draws are a function of (seed, iteration, query, draw).
    threads
        Number of threads; all cores by default. The result does not depend on it.
    weights
        One per row, or one per query in order of first appearance; they multiply gradient and curvature.
    options
        Hyper-parameters of the objective, where it is given by name.

    Examples
    --------
    >>> gradient = bind("queryrmse", [2, 0], group=[2])
    >>> grad, hess = gradient([0.0, 0.0], iteration=0)
    >>> grad.tolist()
    [-1.0, 1.0]
    """
    queries = Queries.of(np.size(labels), qid, group)
    made = _read(objective, options)
    return BoundObjective(made, labels, queries, metric, seed=seed, threads=threads, weights=weights)


def gradients(
    objective: str | Objective,
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    seed: int = 0,
    iteration: int = 0,
    threads: int | None = None,
    weights: ArrayLike | None = None,
    **options: Any,
) -> tuple[Floats, Floats]:
    """Gradient and curvature of an objective at given scores, in one call; parameters as in `bind`.

    Examples
    --------
    Table 2 of the "Lambda-eX" paper (which cuts the digits off where we round).

    >>> grad, hess = gradients("lambdamart", [0.02, 0.01, 0], [4, 0, 1], group=[3])
    >>> (-grad).round(3).tolist()
    [0.398, -0.18, -0.217]
    """
    bound = bind(
        objective,
        labels,
        qid=qid,
        group=group,
        metric=metric,
        seed=seed,
        threads=threads,
        weights=weights,
        **options,
    )
    return bound(scores, iteration)


def _make(name: str, options: dict[str, Any]) -> Objective:
    kind = OBJECTIVES.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, OBJECTIVES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown objective {name!r}; {hint}Known: {', '.join(OBJECTIVES)}.")
    valid = [f.name for f in fields(kind)]
    for option in options:
        if option not in valid:
            near = difflib.get_close_matches(option, valid, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}? " if near else ""
            shown = ", ".join(valid) if valid else "none"
            raise ValueError(f"{name} has no option {option!r}; {hint}Its options: {shown}.")
    return kind(**options)


def _summand(text: str) -> tuple[float, float, str, dict[str, Any]]:
    number = r"(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?"
    times = r"(?:\s*\*\s*|\s+)"
    match = re.fullmatch(
        rf"\s*(?:({number}){times})?(?:n\^(-?{number}){times})?([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*",
        text,
    )
    if match is None:
        raise ValueError(
            f"{text.strip()!r} is not an objective; write it like 'yetiloss(neighbours=3)' or "
            "'yetiloss + 0.5 n^-0.5 queryrmse'."
        )
    factor, power, name, options = match.groups()
    given: dict[str, Any] = {}
    for option in filter(None, (part.strip() for part in (options or "").split(","))):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            raise ValueError(f"option {option!r} of {name} has no value; write {name}(option=value).")
        if key in given:
            raise ValueError(f"{name} is given {key} twice.")
        given[key] = _literal(value)
    weight = float(factor or 1)
    if weight <= 0:
        raise ValueError(f"the factor of {name} must be above 0; got {factor}.")
    return weight, float(power or 0), name.lower(), given


def _literal(text: str) -> Any:
    words = {"True": True, "true": True, "False": False, "false": False, "None": None}
    if text in words:
        return words[text]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text.strip("'\"")


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets."""
    parts = [""]
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
