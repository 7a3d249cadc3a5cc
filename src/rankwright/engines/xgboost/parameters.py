"""XGBoost's parameters: the names of the estimator's parameters, and which other parameters may be set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.engines.parameters import ParameterRules, column_groups
from rankwright.support.checks import is_number, is_whole

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
    "monotone_constraints": "monotone=",
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
    "reg_alpha",
)
MOST_BINS = 65_534  # of a column: two bytes, with a number for missing values


def _wrong_value(name: str, value: Any) -> str | None:
    """Return why XGBoost could not use a value, or None."""
    if name == "min_child_weight" and not (is_number(value) and 0 <= value <= 1e300):
        return "give a number from 0."
    if name == "max_bin" and not (is_whole(value) and 2 <= value <= MOST_BINS):
        return f"give a whole number from 2 to {MOST_BINS}."
    return None


RULES = ParameterRules(
    library="XGBoost",
    aliases=_ALIASES,
    set_by_estimator=_SET_BY_ESTIMATOR,
    refused=_REFUSED,
    allowed=_ALLOWED,
    depend_on_scale=("min_split_loss", "reg_alpha", "max_delta_step"),
    act_on_leaf_values=("reg_alpha", "max_delta_step"),
    break_order=(),
    wrong_value=_wrong_value,
)


def decided_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of bins if the parameters set it."""
    return {"max_bin": int(params["max_bin"])} if "max_bin" in params else {}


def check_columns(params: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError if constraints do not fit the columns of the data."""
    by_name = RULES.main_names(params)
    if "interaction_constraints" in by_name:
        column_groups(by_name["interaction_constraints"], len(names))


def xgboost_parameters(
    options: Mapping[str, Any],
    params: Mapping[str, Any],
    names: Sequence[str],
    column_of: Sequence[int],
    threads: int,
    signs: Sequence[int] = (),
) -> dict[str, Any]:
    """Return all parameters of a booster except those that change from tree to tree.

    ``column_of`` has the column of the data that each column of XGBoost's matrix stands for.
    """
    by_name = RULES.main_names(params)
    every: dict[str, Any] = {
        "objective": "reg:squarederror",  # is not used, because gradients are given
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
            for name, value in by_name.items()
            if name not in ("max_bin", "min_child_weight")
        },
    }
    if signs:
        every["monotone_constraints"] = tuple(signs[column] for column in column_of)
    if "interaction_constraints" in by_name:
        groups = column_groups(by_name["interaction_constraints"], len(names))
        # A column that is in no group may still be split twice, by either of the columns that stand for it.
        free = sorted(set(range(len(names))) - {column for group in groups for column in group})
        groups += [[column] for column in free]
        doubled = [
            [number for number, column in enumerate(column_of) if column in group]
            for group in groups
        ]
        every["interaction_constraints"] = str(doubled)  # as text: a list would have to hold names
    return every
