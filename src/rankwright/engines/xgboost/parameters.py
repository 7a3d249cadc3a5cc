"""XGBoost's parameters: the estimator's by XGBoost's names, and which others may be set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.engines.contract import Needs
from rankwright.support.notation import nearest

_ALIASES = {
    "eta": "learning_rate",
    "gamma": "min_split_loss",
    "alpha": "reg_alpha",
    "lambda": "reg_lambda",
    "max_leaf": "max_leaves",
    "monotone_constraint": "monotone_constraints",
    "random_state": "seed",
    "n_jobs": "nthread",
}
_SET_BY_ESTIMATOR = {
    "objective": "objective=",
    "learning_rate": "learning_rate=",
    "eval_metric": "metric=",
    "num_round": "n_estimators=",
    "n_estimators": "n_estimators=",
    "nthread": "n_jobs=",
    "verbosity": "verbose=",
    "seed": "random_state=",
    "max_leaves": "num_leaves=",
    "max_depth": "max_depth=",
    "reg_lambda": "reg_lambda=",
    "subsample": "subsample=",
    "colsample_bytree": "colsample=",
    "enable_categorical": "RankingData(..., categorical=...)",
}
_REFUSED = {
    "tree_method": "trees are grown from bins ('hist') always",
    "booster": "a ranker is a sum of trees ('gbtree')",
    "device": "trees are grown on the processor",
    "base_score": "scores of a ranking have no origin",
    "num_parallel_tree": "one tree is grown at a time",
    "multi_strategy": "a ranker has one score",
    "colsample_bylevel": "its draws depend on the trees so far, and a resumed training would differ; use colsample=",
    "colsample_bynode": "its draws depend on the trees so far, and a resumed training would differ; use colsample=",
    "sampling_method": "rows are drawn by rankwright; use subsample=",
    "scale_pos_weight": "it belongs to objectives of XGBoost; use sample_weight of fit",
    "process_type": "it changes earlier trees",
    "updater": "it belongs to other ways of growing trees",
    "refresh_leaf": "it belongs to other ways of growing trees",
}
_ALLOWED = (
    "grow_policy",
    "interaction_constraints",
    "max_bin",
    "max_cached_hist_node",
    "max_cat_threshold",
    "max_cat_to_onehot",
    "max_delta_step",
    "min_child_weight",
    "min_split_loss",
    "monotone_constraints",
    "reg_alpha",
)
_DEPEND_ON_SCALE = ("min_split_loss", "reg_alpha", "max_delta_step")
_ACT_ON_LEAF_VALUES = ("reg_alpha", "max_delta_step", "monotone_constraints")
MOST_BINS = 65_534  # of a column: two bytes, with a number for missing values


def main_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters by one name each."""
    return {_ALIASES.get(name, name): value for name, value in params.items()}


def check(params: Mapping[str, Any], needs: Needs) -> list[str]:
    """Say why parameters cannot be used: the estimator sets them, they break it, or XGBoost does not know them."""
    reasons = []
    first_names: dict[str, str] = {}
    for given, value in params.items():
        name = _ALIASES.get(given, given)
        if name in first_names:
            reasons.append(
                f"engine_params has {first_names[name]!r} and {given!r}, two names of one parameter; keep one."
            )
        first_names[name] = given
        if name in _SET_BY_ESTIMATOR:
            reasons.append(f"engine_params has {given!r}; use {_SET_BY_ESTIMATOR[name]} instead.")
        elif name in _REFUSED:
            reasons.append(
                f"engine_params has {given!r}, which cannot be used: {_REFUSED[name]}. Leave it out."
            )
        elif name not in _ALLOWED:
            hint = nearest(str(name), _ALLOWED, cutoff=0.6)
            reasons.append(
                f"engine_params has {given!r}, which is not a parameter of XGBoost that can be used here{hint} "
                f"These can: {', '.join(_ALLOWED)}."
            )
        elif needs.any_scale and name in _DEPEND_ON_SCALE and np.any(value):
            reasons.append(
                f"engine_params has {given!r}, which depends on the scale of the gradient and breaks shrinking "
                "(langevin=True with shrink_rate > 0); leave it out or set shrink_rate=0."
            )
        elif needs.own_leaves and name in _ACT_ON_LEAF_VALUES and _is_set(value):
            reasons.append(
                f"engine_params has {given!r}, which acts on XGBoost's own leaf values, and leaf_values='full' and "
                "leaf_noise='independent' replace them; leave it out, or use diagonal leaf values with shared noise."
            )
        elif name == "min_child_weight" and not _is_number(value):
            reasons.append(f"engine_params has {given}={value!r}; give a number from 0.")
        elif name == "max_bin" and not (_is_whole(value) and 2 <= value <= MOST_BINS):
            reasons.append(
                f"engine_params has max_bin={value!r}; give a whole number from 2 to {MOST_BINS}."
            )
    return reasons


def _is_set(value: Any) -> bool:
    return any(value.values()) if isinstance(value, Mapping) else bool(np.any(value))


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and bool(0 <= value <= 1e300)
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def decided_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of bins where the parameters set it."""
    return {"max_bin": int(params["max_bin"])} if "max_bin" in params else {}


def check_columns(params: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError where constraints do not fit the columns of the data."""
    if "monotone_constraints" in (chosen := main_names(params)):
        _signs(chosen["monotone_constraints"], names)
    if "interaction_constraints" in chosen:
        _groups(chosen["interaction_constraints"], len(names))


def xgboost_parameters(
    options: Mapping[str, Any],
    params: Mapping[str, Any],
    names: Sequence[str],
    column_of: Sequence[int],
    threads: int,
) -> dict[str, Any]:
    """Return all parameters of a booster, but for those that change from tree to tree.

    ``column_of`` has the column of the data that each column of XGBoost's matrix stands for.
    """
    chosen = main_names(params)
    every: dict[str, Any] = {
        "objective": "reg:squarederror",  # never asked: gradients are given
        "base_score": 0.0,
        "disable_default_eval_metric": True,
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "verbosity": 0,
        "nthread": threads,
        "learning_rate": 1.0,  # a tree's values are Newton steps; training multiplies them
        "reg_lambda": options["reg_lambda"],
        "max_leaves": options["num_leaves"],
        "max_depth": max(0, options["max_depth"]),
        **{
            name: value
            for name, value in chosen.items()
            if name not in ("max_bin", "min_child_weight")
        },
    }
    if "monotone_constraints" in chosen:
        signs = _signs(chosen["monotone_constraints"], names)
        every["monotone_constraints"] = tuple(signs[column] for column in column_of)
    if "interaction_constraints" in chosen:
        groups = _groups(chosen["interaction_constraints"], len(names))
        # A column that is in no group may still be split twice, by either of the columns that stand for it.
        free = sorted(set(range(len(names))) - {column for group in groups for column in group})
        groups += [[column] for column in free]
        doubled = [
            [number for number, column in enumerate(column_of) if column in group]
            for group in groups
        ]
        every["interaction_constraints"] = str(doubled)  # as text: a list would have to hold names
    return every


def _signs(constraints: Any, names: Sequence[str]) -> list[int]:
    """One of -1, 0 and 1 for each column."""
    signs = constraints
    if isinstance(constraints, Mapping) and set(constraints) <= set(names):
        signs = [constraints.get(name, 0) for name in names]
    is_list = isinstance(signs, list | tuple) and len(signs) == len(names)
    if not is_list or not all(_is_whole(sign) and -1 <= sign <= 1 for sign in signs):
        raise ValueError(
            f"engine_params has monotone_constraints={constraints!r}; give -1, 0 or 1 for each of {len(names)} "
            f"columns, or a dict of names such as {{{names[0]!r}: 1}}."
        )
    return [int(sign) for sign in signs]


def _groups(constraints: Any, n_columns: int) -> list[list[int]]:
    is_list = isinstance(constraints, list | tuple) and all(
        isinstance(group, list | tuple) for group in constraints
    )
    if not is_list or not all(
        _is_whole(c) and 0 <= c < n_columns for group in constraints for c in group
    ):
        raise ValueError(
            f"engine_params has interaction_constraints={constraints!r}; give a list of lists of column numbers from "
            f"0 to {n_columns - 1}, such as [[0, 1], [2]]."
        )
    return [[int(column) for column in group] for group in constraints]
