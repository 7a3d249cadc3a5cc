"""Search spaces: which hyper-parameters are worth tuning, and between which values.

A space maps names to values to try: a `Range`, a `Choice`, or a fixed value. Names are parameters of `Ranker`, or
options of an objective after its name: ``lambdamart.sigma``. ``queryrmse.factor`` is the factor of a term. Where a term
has a label of its own, or learns from pairs, that is part of its name: ``lambdamart[margin].sigma``. The ranges of an
objective's options are declared by its class (`Objective.search`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective, Sum
from rankwright.support.notation import nearest
from rankwright.support.ranges import Choice, Range

Space = Mapping[str, Any]
_SOURCES = ("label", "pairs")  # what a term learns from, which is no hyper-parameter


@dataclass(frozen=True)
class Preset:
    """How to search, apart from the space.

    Parameters
    ----------
    trials, startup
        Number of trials, and how many of them are drawn at random before the search learns from them.
    trees, patience
        Trees at most, and without improvement before training stops; None trains them all.
    pruning
        Whether trials that do worse than half of the earlier ones are stopped.
    from_defaults
        Whether the first trial has the defaults of `Ranker`.
    """

    trials: int
    startup: int
    trees: int
    patience: int | None
    pruning: bool
    from_defaults: bool


PRESETS = {
    "default": Preset(
        trials=50, startup=20, trees=500, patience=50, pruning=True, from_defaults=True
    ),
    "paper": Preset(
        trials=100, startup=20, trees=1000, patience=None, pruning=False, from_defaults=False
    ),
}

# What each preset tries for the trees.
_TREES: dict[str, dict[str, Any]] = {
    "default": {
        "learning_rate": Range(0.01, 0.3, log=True),
        "num_leaves": Range(4, 64, log=True),
        "min_child_samples": Range(5, 200, log=True),
        "reg_lambda": Range(0.01, 100.0, log=True),
        "subsample": Range(0.4, 1.0),
        "colsample": Range(0.2, 1.0),
        "bagging_temperature": Range(0.0, 1.0),
        "leaf_values": Choice(("diagonal", "full")),
    },
    # "Which Tricks" paper, appendix A; trees as it has them for LightGBM, and no sampling.
    "paper": {
        "learning_rate": Range(1e-3, 1.0, log=True),
        "num_leaves": Range(16, 256, log=True),
        "max_depth": Range(6, 16),
        "min_child_samples": Range(1, 1000, log=True),
        "reg_lambda": Range(1e-3, 100.0, log=True, or_zero=True),
        "subsample": 1.0,
        "colsample": 1.0,
        "bagging_temperature": 0.0,
        "leaf_values": "diagonal",
    },
}
# Curvature 1 leaves the scale of the gradient to the learning rate.
_FIRST_ORDER_RATE = Range(0.003, 3.0, log=True)
# What the papers have for one objective: parameters of the Ranker, and options. "Which Tricks", appendix A, and the
# "StochasticRank" paper, appendix F, agree on the learning rate, and for StochasticRank on depth, L2, shrink rate,
# temperature and mu. L2 (0.1 to 10) and depth (6 to 10) of the latter's baselines differ and are not used; the strength
# of noise is in the latter only. "Which Tricks" has no depth for YetiLoss and QueryRMSE: they get that of YetiRank.
# XE-NDCG and Lambda-eX train without L2, so 0 belongs to the range of the others, and with 64 to 400 leaves, which the
# depths of "Which Tricks" leave no room for.
_PAPER_TRAINING: dict[str, dict[str, Any]] = {
    **{
        name: {"max_depth": Range(6, 8)}
        for name in ("lambdamart", "yetirank", "yetiloss", "queryrmse")
    },
    **{
        name: {"num_leaves": Range(16, 400, log=True)}
        for name in ("xendcg", "listnet", "lambdaloss")
    },
    "stochasticrank": {
        "max_depth": Range(6, 10),
        "reg_lambda": 0.0,
        "langevin": True,
        "diffusion_temperature": Range(1e8, 1e11, log=True, unless=("langevin", False)),
        "shrink_rate": Range(1e-5, 1e-2, log=True, unless=("langevin", False)),
    },
}
_NOISE_STRENGTH = {"strength": Range(0.0, 1.0, unless=("noise", "none"))}
_PAPER_OPTIONS: dict[str, dict[str, Range | Choice]] = {
    "stochasticrank": {"mu": Range(1e-2, 10.0, log=True)},
    "lambdamart": dict(_NOISE_STRENGTH),
    "lambdaloss": dict(_NOISE_STRENGTH),
}
_FACTOR = (0.05, 5.0)  # of a term, relative to that of the first
_STEERED = Choice((None, 0.02, 0.05, 0.1))  # None steers the learning rate from tree to tree

# Parameters of the Ranker that the search sets itself, and what to use instead.
_RESERVED = {
    "objective": "objective",
    "metric": "metric",
    "n_estimators": "trees",
    "random_state": "seed",
    "n_jobs": "threads",
    "early_stopping_rounds": "preset",
    "early_stopping": "preset",
    "stopping_rule": "preset",
    "refit": "preset",
    "checkpoint": "study",
    "verbose": "progress",
}


def search_space(
    objective: str | Objective = "auto",
    metric: str | Metric = "ndcg@10",
    *,
    preset: str = "default",
) -> dict[str, Any]:
    """Return the space that `rankwright.tuning.search.tune` searches for an objective.

    Options given with values other than their defaults stay as they are, and so do factors other than 1. With
    ``"auto"`` all are searched. With ``preset="paper"`` the options that the papers tune are searched whatever the
    objective has: mu of StochasticRank, and the strength of noisy lambdas; ``space=`` of `tune` can fix them.

    Parameters
    ----------
    objective, metric
        As in `Ranker`; with several metrics, the first.
    preset
        ``"default"``, or ``"paper"`` for the ranges of the "Which Tricks" and "StochasticRank" papers.

    Examples
    --------
    >>> space = search_space("ranknet")
    >>> space["ranknet.sigma"]
    Range(low=0.3, high=3.0, log=True, unless=None, or_zero=False)
    >>> search_space("ranknet(sigma=2)")["ranknet.sigma"]
    2
    """
    from rankwright.training.defaults import resolve_objective

    check_preset(preset)
    target = parse_metric(metric)
    resolved = resolve_objective(objective, target)
    keep = not isinstance(objective, str) or objective.strip() != "auto"
    names = [term_name(term) for _, _, term in resolved.terms()]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{resolved} has an objective twice for one label, so their options would share names; use each once."
        )
    space: dict[str, Any] = dict(_TREES[preset])
    if not resolved.capabilities.full_curvature:
        space["leaf_values"] = "diagonal"
    if not keep and preset == "default":
        space["learning_rate"] = _STEERED
    options: dict[str, Any] = {}
    for number, (factor, _, term) in enumerate(resolved.terms()):
        searched = term.searched_options(target.first)
        if preset == "paper":
            space |= _PAPER_TRAINING.get(term.name, {})
            searched = {
                name: domain
                for name, domain in _PAPER_OPTIONS.get(term.name, {}).items()
                if name in searched
                and (domain.unless is None or getattr(term, domain.unless[0]) != domain.unless[1])
            }
        else:
            if term.capabilities.first_order:
                space["learning_rate"] = _FIRST_ORDER_RATE
            space.update(term.search_training)
        defaults = {one.name: one.default for one in fields(term) if one.name not in _SOURCES}
        for name in {**searched, **defaults}:
            value = getattr(term, name)
            if keep and value != defaults[name] and not (preset == "paper" and name in searched):
                options[f"{term_name(term)}.{name}"] = value
            elif name in searched:
                options[f"{term_name(term)}.{name}"] = searched[name]
        if number > 0 and preset == "default":
            low, high = (end * resolved.terms()[0][0] for end in _FACTOR)
            options[f"{term_name(term)}.factor"] = (
                factor if keep and factor != 1 else Range(low, high, log=True)
            )
    return space | options


def term_name(term: Objective) -> str:
    """Return the name of a term in a space.

    Examples
    --------
    >>> from rankwright.objectives import objective
    >>> [term_name(objective(text)) for text in ("ranknet", "ranknet(label=margin)", "ranknet(pairs)")]
    ['ranknet', 'ranknet[margin]', 'ranknet[pairs]']
    """
    if term.from_pairs:
        return f"{term.name}[pairs]"
    return term.name if term.label is None else f"{term.name}[{term.label}]"


def check_preset(name: str) -> None:
    """Raise ValueError unless there is such a preset."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}.")


def check_names(space: Space, objective: Objective) -> None:
    """Raise ValueError unless each name of a space is a parameter of the Ranker or an option of the objective."""
    from rankwright.ranker import Ranker

    parameters = set(inspect.signature(Ranker).parameters)
    options = {
        f"{term_name(term)}.{one.name}"
        for _, _, term in objective.terms()
        for one in fields(term)
        if one.name not in _SOURCES
    }
    if isinstance(objective, Sum):
        options |= {f"{term_name(term)}.factor" for _, _, term in objective.terms()}
    for name, domain in space.items():
        if name in _RESERVED:
            raise ValueError(
                f"{name} cannot be searched or set here; use {_RESERVED[name]} instead."
            )
        if isinstance(domain, list | tuple | set):
            raise ValueError(
                f"{name} must be a Range such as Range(8, 64), a Choice such as Choice((1, 2)), or a fixed value; "
                f"got {domain!r}."
            )
        if name not in parameters and name not in options:
            known = sorted((parameters - _RESERVED.keys()) | options)
            raise ValueError(
                f"unknown parameter {name!r}{nearest(name, known)} Parameters of the Ranker and, for {objective}, "
                f"these options can be tuned: {', '.join(sorted(options)) or 'none'}."
            )


def sample(space: Space, trial: Any) -> dict[str, Any]:
    """Draw values for the names of a space from a trial of Optuna, without those that the other values rule out."""
    values: dict[str, Any] = {}
    for name, domain in space.items():
        if not isinstance(domain, Range | Choice):
            values[name] = domain
            continue
        if domain.unless is not None:
            other, value = domain.unless
            beside = f"{name.rpartition('.')[0]}.{other}" if "." in name else other
            if beside in values and values[beside] == value:
                continue
        values[name] = domain.suggest(trial, name)
    return values


def ranker_parameters(objective: Objective, values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn values of a space into parameters of the Ranker, with the options in the text of the objective.

    Examples
    --------
    >>> from rankwright.objectives import objective
    >>> ranker_parameters(objective("ranknet"), {"num_leaves": 8, "ranknet.sigma": 2.0})
    {'num_leaves': 8, 'objective': 'ranknet(sigma=2.0)'}
    """
    terms = []
    for factor, power, term in objective.terms():
        options = {
            name.rpartition(".")[2]: value
            for name, value in values.items()
            if name.rpartition(".")[0] == term_name(term)
        }
        terms.append((options.pop("factor", factor), power, replace(term, **options)))
    alone = len(terms) == 1 and terms[0][:2] == (1.0, 0.0)
    tuned = terms[0][2] if alone else Sum(tuple(terms))
    return {name: value for name, value in values.items() if "." not in name} | {
        "objective": str(tuned)
    }


def default_values(space: Space, objective: Objective, ranker: Any) -> dict[str, Any]:
    """Values of a fitted Ranker and its objective, as a trial draws them.

    Numbers outside a range are moved to its nearer end. What is not among the values of a choice is left out.
    """
    searched = {
        name: domain for name, domain in space.items() if isinstance(domain, Range | Choice)
    }
    own = {
        name: value
        if value in searched.get(name, ())
        else getattr(ranker, f"{name}_", value)  # what the data decided
        for name, value in ranker.get_params(deep=False).items()
    }
    for factor, _, term in objective.terms():
        own |= {f"{term_name(term)}.{one.name}": getattr(term, one.name) for one in fields(term)}
        own[f"{term_name(term)}.factor"] = factor
    values = {}
    for name, domain in searched.items():
        value = own[name]
        if isinstance(domain, Range) and isinstance(value, Real) and value not in domain:
            value = min(max(value, domain.low), domain.high)
        if value in domain:
            values[name] = domain.as_drawn(value) if isinstance(domain, Range) else value
    return values
