"""Objectives: sources of gradients for ranking, each for every metric that it is defined for.

>>> from rankwright.objectives import bind
>>> gradient = bind("yetiloss(neighbours=3) + 0.5 n^-0.5 queryrmse", [2, 0, 1], group=[3], metric="map")
>>> grad, hess = gradient([0.3, 0.2, 0.1], iteration=0)
>>> grad.shape
(3,)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader
import numpy as np
from numpy.typing import ArrayLike

from rankwright.data.labels import check_any_judged, grouped_labels, is_judged, number_of_rows
from rankwright.data.pairs import read_pairs
from rankwright.data.queries import Queries
from rankwright.metrics import Metric
from rankwright.objectives.base import NOTATION, Capabilities, Objective, Sum
from rankwright.objectives.bound import BoundObjective, JudgedRows
from rankwright.objectives.gradient import Floats, Gradient, Problem
from rankwright.objectives.propensity import inverse_propensities
from rankwright.support.other_libraries import check_other_name, library_of

if TYPE_CHECKING:
    from rankwright.objectives.anchors import RMSE, Logistic
    from rankwright.objectives.function import FunctionObjective, check_gradients
    from rankwright.objectives.lambdas import LambdaLoss, LambdaMART, RankNet
    from rankwright.objectives.pointwise import QueryRMSE
    from rankwright.objectives.softmax import XENDCG, ListNet
    from rankwright.objectives.softrank import SoftRank
    from rankwright.objectives.stochastic import StochasticRank
    from rankwright.objectives.yeti import YetiLoss, YetiRank

# The module and the class of each objective. A module is loaded with its kernels when the objective
# is used, because a training needs one or two of them.
OBJECTIVES = {
    "rmse": "anchors:RMSE",
    "logistic": "anchors:Logistic",
    "lambdamart": "lambdas:LambdaMART",
    "lambdaloss": "lambdas:LambdaLoss",
    "ranknet": "lambdas:RankNet",
    "queryrmse": "pointwise:QueryRMSE",
    "xendcg": "softmax:XENDCG",
    "listnet": "softmax:ListNet",
    "softrank": "softrank:SoftRank",
    "stochasticrank": "stochastic:StochasticRank",
    "yetirank": "yeti:YetiRank",
    "yetiloss": "yeti:YetiLoss",
}
_ON_FIRST_USE = {"function": ["FunctionObjective", "check_gradients"]}
for _home in OBJECTIVES.values():
    _module, _, _class = _home.partition(":")
    _ON_FIRST_USE.setdefault(_module, []).append(_class)
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs=_ON_FIRST_USE)

__all__ = [
    "OBJECTIVES",
    "RMSE",
    "XENDCG",
    "BoundObjective",
    "Capabilities",
    "FunctionObjective",
    "Gradient",
    "LambdaLoss",
    "LambdaMART",
    "ListNet",
    "Logistic",
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
    "check_gradients",
    "gradients",
    "known_objectives",
    "load_objective",
    "objective",
]


def load_objective(name: str) -> type[Objective]:
    """Return the class of an objective of the package.

    Examples
    --------
    >>> load_objective("listnet").__name__
    'ListNet'
    """
    module, _, attribute = OBJECTIVES[name].partition(":")
    kind: type[Objective] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return kind


def known_objectives() -> dict[str, type[Objective]]:
    """Return the classes of all objectives by name, also of those that users have defined."""
    for name in OBJECTIVES:
        load_objective(name)
    return dict(NOTATION.known)


def objective(text: str | Objective | Callable[..., Any], **options: Any) -> Objective:
    """Read an objective from text: a name, options in brackets, weighted sums.

    A function of labels, scores and boundaries becomes a `FunctionObjective`.
    A term is ``[factor] [n^power] name[(option=value, ...)]``, where n is the query's number of documents.

    Examples
    --------
    >>> objective("lambdamart", truncation="k+3")
    LambdaMART(sigma=1.0, truncation='k+3', extend=None, ...)
    >>> print(objective("yetiloss + 0.5 queryrmse"))
    yetiloss + 0.5 queryrmse
    >>> objective("yetiloss + 0.3 yetiloss(label=margin)").terms()[1][2].label
    'margin'
    """
    return _read(text, options)


def _read(text: Any, options: dict[str, Any]) -> Objective:
    if isinstance(text, Objective):
        if options:
            raise ValueError(
                f"options {', '.join(options)} cannot be added to an Objective; give them when you create it."
            )
        return text
    if not isinstance(text, str):
        library = library_of(text)
        if callable(text) and not isinstance(text, type) and library is None:
            return _function(text)
        found = repr(text)
        if library is not None:
            found = f"a {type(text).__name__} of {library}"
        raise ValueError(
            f"an objective is a name such as 'yetiloss', or an Objective, or a function of labels, "
            f"scores and boundaries; got {found}."
        )
    check_other_name(text)
    terms = NOTATION.read(text)
    for term in terms:
        if term.name in OBJECTIVES:
            load_objective(term.name)
        elif term.name not in NOTATION.known:
            # The error names all that are known.
            known_objectives()
    if any(term.cutoff is not None for term in terms):
        NOTATION.refuse(text, "it has a cutoff, which belongs to the metric")
    if label := next((term.label for term in terms if term.label is not None), None):
        NOTATION.refuse(text, f"a label is an option of an objective, label={label}")
    if options and len(terms) > 1:
        raise ValueError(
            "a sum takes its options in the text, such as 'yetiloss(neighbours=3) + queryrmse'."
        )
    parts = tuple((term.factor, term.power, NOTATION.create(term, options)) for term in terms)
    for _, _, part in parts:
        part.label_shares()  # raises ValueError if the label cannot be read
    if len(parts) == 1 and parts[0][:2] == (1.0, 0.0):
        alone: Objective = parts[0][2]
        return alone
    return Sum(parts)


def _function(function: Callable[..., Any]) -> Objective:
    from rankwright.objectives.function import FunctionObjective

    return FunctionObjective(function)


def bind(
    objective: str | Objective | Callable[..., Any],
    labels: Any,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    random_state: int = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    pairs: Any = None,
    propensity: ArrayLike | None = None,
    clip: float | None = None,
    self_normalised: bool = False,
    **options: Any,
) -> BoundObjective:
    """Prepare an objective for labels: a callable ``(scores, iteration) -> (grad, hess)`` for training loops.

    Parameters
    ----------
    objective
        An objective, its name or text form, or a function ``(labels, scores, boundaries)``.
    labels
        Relevance of each row, finite and non-negative; several labels as a dict or a data frame, by name. Rows with a
        missing label (NaN) have no gradient, and the others have the gradient of a query without them.
    qid, group
        Which rows belong together: an id per row in any order, or sizes in row order. Random draws of a query
        depend on its id, or with ``group`` on its number.
    metric
        The metric to optimise. Objectives with another loss do not use it (`Capabilities.uses_metric`).
    random_state
        Draws are a function of (seed, iteration, query, draw).
    n_jobs
        Number of threads; all cores by default. The result does not depend on it.
    sample_weight
        Factors of gradient and curvature: a weight per row, or a weight per query in order of first appearance.
    pairs
        Preferences to learn from, by row number, for an objective such as ``"ranknet(pairs)"``; as in `RankingData`.
    propensity, clip, self_normalised
        If labels are clicks: the probability that users saw each document, above 0 and up to 1. Clicked documents
        have the weight 1 / max(propensity, clip), divided by their mean with ``self_normalised`` (docs/bias.md).
    options
        Hyperparameters of the objective, if it is given by name.

    Examples
    --------
    >>> gradient = bind("queryrmse", [2, 0], group=[2])
    >>> grad, hess = gradient([0.0, 0.0], iteration=0)
    >>> grad.tolist()
    [-1.0, 1.0]
    """
    queries = Queries.of(number_of_rows(labels), qid, group)
    judged = queries.ungroup(is_judged(grouped_labels(labels, queries), queries.n_rows))
    if not judged.all():
        check_any_judged(None, judged)
        if pairs is not None:
            raise ValueError("labels are missing, and pairs may need them; leave out one of them.")
        by_name = grouped_labels(labels, queries)
        labels = {name: queries.ungroup(values)[judged] for name, values in by_name.items()}
        if sample_weight is not None:
            sample_weight = queries.ungroup(queries.per_row(sample_weight))[judged]
        if propensity is not None:
            propensity = np.asarray(propensity)[judged]
        # Ids of queries stay the same, and so do their random draws.
        number = queries.ungroup(queries.query_of_row)[judged]
        queries = Queries.from_qid(queries.ids[number])
    value = _read(objective, options)
    given = None if pairs is None else read_pairs(pairs, queries)
    inverse = None
    if propensity is not None:
        if np.shape(propensity) != (queries.n_rows,):
            raise ValueError(
                f"propensity has shape {np.shape(propensity)} for {queries.n_rows} rows; give one per row."
            )
        y = next(iter(grouped_labels(labels, queries).values()))
        seen = queries.group(propensity)
        weight = inverse_propensities(seen, y, queries, clip=clip, self_normalised=self_normalised)
        inverse = queries.ungroup(weight)
    shared: dict[str, Any] = {
        "seed": random_state,
        "threads": n_jobs,
        "weights": sample_weight,
        "pairs": given,
        "inverse": inverse,
    }
    if judged.all():
        return BoundObjective(value, labels, queries, metric, **shared)
    return JudgedRows(judged, value, labels, queries, metric, **shared)


def gradients(
    objective: str | Objective | Callable[..., Any],
    scores: ArrayLike,
    labels: Any,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    metric: str | Metric = "ndcg",
    random_state: int = 0,
    iteration: int = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    pairs: Any = None,
    propensity: ArrayLike | None = None,
    clip: float | None = None,
    self_normalised: bool = False,
    **options: Any,
) -> tuple[Floats, Floats]:
    """Return gradient and curvature of an objective at given scores, in one call; parameters as in `bind`.

    Examples
    --------
    Table 2 of the "Lambda-eX" paper, which truncates digits instead of rounding them.

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
        random_state=random_state,
        n_jobs=n_jobs,
        sample_weight=sample_weight,
        pairs=pairs,
        propensity=propensity,
        clip=clip,
        self_normalised=self_normalised,
        **options,
    )
    return bound(scores, iteration)
