"""Search spaces: the hyperparameters that are worth tuning, and the values to try.

A space maps names to values to try: a `Range`, a `Choice`, or a fixed value. Names are parameters of `Ranker`,
entries of a parameter after a dot (``langevin.temperature``), or options of an objective after its name, for example
``lambdamart.sigma``. ``queryrmse.factor`` is the factor of a term.
If a term has its own label, or learns from pairs, that is part of its name: ``lambdamart[margin].sigma``. The class of
an objective declares the ranges of its options (`Objective.search`).
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
from rankwright.support import checks
from rankwright.support.notation import nearest
from rankwright.support.ranges import Choice, Range
from rankwright.training.groups import GROUPS, entry_names, plain_groups

Space = Mapping[str, Any]
_SOURCES = ("label", "pairs")  # options of a term that are no hyperparameters


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

# Values that each preset tries for the parameters of the trees.
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
# Ranges of the papers for one objective: parameters of the Ranker, and options.
# - "Which Tricks", appendix A, and "StochasticRank", appendix F, agree on the learning rate, and for StochasticRank on
#   depth, L2, shrink rate, temperature and mu. Only the latter has the strength of noise. The ranges of its baselines
#   for L2 (0.1 to 10) and depth (6 to 10) differ and are not used.
# - "Which Tricks" has no depth for YetiLoss and QueryRMSE: they get the depth of YetiRank.
# - XE-NDCG and Lambda-eX train without L2, so 0 belongs to the range of the others. They have 64 to 400 leaves, and the
#   depths of "Which Tricks" leave no room for so many.
_SHALLOW = {"max_depth": Range(6, 8)}
_MANY_LEAVES = {"num_leaves": Range(16, 400, log=True)}
_PAPER_TRAINING: dict[str, dict[str, Any]] = {
    "lambdamart": _SHALLOW,
    "yetirank": _SHALLOW,
    "yetiloss": _SHALLOW,
    "queryrmse": _SHALLOW,
    "xendcg": _MANY_LEAVES,
    "listnet": _MANY_LEAVES,
    "lambdaloss": _MANY_LEAVES,
    "stochasticrank": {
        "max_depth": Range(6, 10),
        "reg_lambda": 0.0,
        "langevin": True,
        "langevin.temperature": Range(1e8, 1e11, log=True, unless=("langevin", False)),
        "langevin.shrink_rate": Range(1e-5, 1e-2, log=True, unless=("langevin", False)),
    },
}
_NOISE_STRENGTH: dict[str, Range | Choice] = {"strength": Range(0.0, 1.0, unless=("noise", "none"))}
_PAPER_OPTIONS: dict[str, dict[str, Range | Choice]] = {
    "stochasticrank": {"mu": Range(1e-2, 10.0, log=True)},
    "lambdamart": _NOISE_STRENGTH,
    "lambdaloss": _NOISE_STRENGTH,
}
_FACTOR = (0.05, 5.0)  # of a term, relative to the first term
_STEERED = Choice((None, 0.02, 0.05, 0.1))  # None steers the learning rate from tree to tree

# Parameters of the Ranker that the search sets itself, and the argument of `tune` to use instead.
_RESERVED = {
    "objective": "objective",
    "metric": "metric",
    "n_estimators": "n_estimators",
    "random_state": "random_state",
    "n_jobs": "n_jobs",
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

    Options of the objective with values other than their defaults stay as they are, and so do factors other than 1.
    With ``"auto"`` all are searched. With ``preset="paper"`` the options that the papers tune are searched even if the
    objective sets them: mu of StochasticRank, and the strength of noisy lambdas. ``space=`` of `tune` can fix them.

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

    checks.choice("preset", preset, PRESETS)
    papers = preset == "paper"
    target = parse_metric(metric)
    resolved = resolve_objective(objective, target)
    is_auto = isinstance(objective, str) and objective.strip() == "auto"
    names = [term_name(term) for _, _, term in resolved.terms()]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{resolved} has an objective twice for one label, so their options would share names; use each once."
        )
    space: dict[str, Any] = dict(_TREES[preset])
    if not resolved.capabilities.full_curvature:
        space["leaf_values"] = "diagonal"
    if is_auto and not papers:
        space["learning_rate"] = _STEERED
    options: dict[str, Any] = {}
    for number, (factor, _, term) in enumerate(resolved.terms()):
        searched = term.searched_options(target.first)
        if papers:
            space |= _PAPER_TRAINING.get(term.name, {})
            searched = _paper_options(term, searched)
        else:
            if term.capabilities.first_order:
                space["learning_rate"] = _FIRST_ORDER_RATE
            space |= term.search_training
        defaults = _hyperparameters(term)
        for name in {**searched, **defaults}:
            value = getattr(term, name)
            is_set = not is_auto and value != defaults[name]
            if is_set and not (papers and name in searched):
                options[f"{term_name(term)}.{name}"] = value
            elif name in searched:
                options[f"{term_name(term)}.{name}"] = searched[name]
        if number > 0 and not papers:
            first_factor = resolved.terms()[0][0]
            low, high = (end * first_factor for end in _FACTOR)
            is_set = not is_auto and factor != 1
            options[f"{term_name(term)}.factor"] = factor if is_set else Range(low, high, log=True)
    return space | options


def _paper_options(term: Objective, searched: Mapping[str, Any]) -> dict[str, Range | Choice]:
    """Return the ranges of the papers for the options of a term, without options that have no effect."""
    options = {}
    for name, domain in _PAPER_OPTIONS.get(term.name, {}).items():
        has_effect = domain.unless is None or getattr(term, domain.unless[0]) != domain.unless[1]
        if name in searched and has_effect:
            options[name] = domain
    return options


def _hyperparameters(term: Objective) -> dict[str, Any]:
    """Return the defaults of a term's options, by name."""
    return {field.name: field.default for field in fields(term) if field.name not in _SOURCES}


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


def check_names(space: Space, objective: Objective) -> None:
    """Raise ValueError if a name of a space is no parameter of the Ranker and no option of the objective."""
    from rankwright.ranker import Ranker

    parameters = set(inspect.signature(Ranker).parameters)
    for group in GROUPS:
        parameters |= set(entry_names(group))
    options: set[str] = set()
    for _, _, term in objective.terms():
        options |= {f"{term_name(term)}.{name}" for name in _hyperparameters(term)}
        if isinstance(objective, Sum):
            options.add(f"{term_name(term)}.factor")
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
            names = sorted((parameters - _RESERVED.keys()) | options)
            raise ValueError(
                f"unknown parameter {name!r}{nearest(name, names)} Parameters of the Ranker and, for {objective}, "
                f"these options can be tuned: {', '.join(sorted(options)) or 'none'}."
            )


def sample(space: Space, trial: Any) -> dict[str, Any]:
    """Draw values of a space from a trial of Optuna; values that have no effect given the others are left out."""
    values: dict[str, Any] = {}
    for name, domain in space.items():
        if not isinstance(domain, Range | Choice):
            values[name] = domain
            continue
        if domain.unless is not None:
            other, value = domain.unless
            term, dot, _ = name.rpartition(".")
            # An option depends on another option, and an entry of a parameter on the parameter.
            others = {other, f"{term}{dot}{other}"} & values.keys()
            if any(values[name] == value for name in others):
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
    parameters: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    options: dict[str, dict[str, Any]] = {term_name(term): {} for _, _, term in objective.terms()}
    for name, value in values.items():
        owner, _, option = name.rpartition(".")
        if owner in GROUPS:
            groups.setdefault(owner, {})[option] = value
        elif owner:
            options[owner][option] = value
        else:
            parameters[name] = value
    terms = []
    for factor, power, term in objective.terms():
        given = options[term_name(term)]
        terms.append((given.pop("factor", factor), power, replace(term, **given)))
    is_plain = len(terms) == 1 and terms[0][:2] == (1.0, 0.0)
    tuned = terms[0][2] if is_plain else Sum(tuple(terms))
    for name, entries in groups.items():
        # A search may fix some entries of the group, and draw others.
        fixed = plain_groups(parameters).get(name)
        if isinstance(fixed, Mapping):
            entries = {**fixed, **entries}
        parameters[name] = entries
    return parameters | {"objective": str(tuned)}


def default_values(space: Space, objective: Objective, ranker: Any) -> dict[str, Any]:
    """Return the values of a fitted Ranker and its objective, as a trial draws them.

    Numbers outside a range are moved to its nearer end. Values that a choice does not have are left out.
    """
    defaults = dict(ranker.get_params(deep=False))
    for factor, _, term in objective.terms():
        for field in fields(term):
            defaults[f"{term_name(term)}.{field.name}"] = getattr(term, field.name)
        defaults[f"{term_name(term)}.factor"] = factor
    values = {}
    for name, domain in space.items():
        # Entries of a group have no default while the group is not in use.
        if not isinstance(domain, Range | Choice) or name not in defaults:
            continue
        value = defaults[name]
        if value not in domain:
            # The parameter may leave the value to the data, for example None for a learning rate.
            value = getattr(ranker, f"{name}_", value)
        if isinstance(domain, Range):
            if isinstance(value, Real) and value not in domain:
                value = min(max(value, domain.low), domain.high)
            if value in domain:
                values[name] = domain.as_drawn(value)
        elif value in domain:
            values[name] = value
    return values
