"""LightGBM's parameters: the estimator's by LightGBM's names, and which others may be set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwright.engines.contract import Needs
from rankwright.engines.lightgbm.aliases import MAIN_NAMES, REFUSED, main_name, main_names
from rankwright.engines.lightgbm.forced_files import check_forced_file
from rankwright.support.notation import nearest

# The estimator's tree parameters by LightGBM's names.
NAMES = {
    "num_leaves": "num_leaves",
    "max_depth": "max_depth",
    "min_child_samples": "min_data_in_leaf",
    "reg_lambda": "lambda_l2",
    "subsample": "bagging_fraction",
    "colsample": "feature_fraction",
}
_LARGEST = (
    2**31 - 1
)  # of LightGBM's whole numbers; a depth or a count of rows beyond it means the same
SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "data_random_seed")
_SET_BY_ESTIMATOR = {
    "objective": "objective=",
    "learning_rate": "learning_rate=",
    "metric": "metric=",
    "num_iterations": "n_estimators=",
    "num_threads": "n_jobs=",
    "verbosity": "verbose=",
    "seed": "random_state=",
    **dict.fromkeys(SEEDS, "random_state="),
    "bagging_by_query": "subsample_queries=",
    "bagging_freq": "subsample=",
    "early_stopping_round": "early_stopping_rounds=",
    "categorical_feature": "RankingData(..., categorical=...)",
}
# What engine_params may hold: what shapes bins and trees. Other parameters would change nothing (those of LightGBM's
# own objectives, metrics and files) or break what is promised (other boosting, linear trees, threads, penalties that
# look back at earlier trees).
_ALLOWED = frozenset(
    {
        "bin_construct_sample_cnt",
        "cat_l2",
        "cat_smooth",
        "cegb_penalty_split",
        "cegb_tradeoff",
        "enable_bundle",
        "extra_trees",
        "feature_contri",
        "feature_fraction_bynode",
        "feature_pre_filter",
        "forcedbins_filename",
        "forcedsplits_filename",
        "histogram_pool_size",
        "interaction_constraints",
        "is_enable_sparse",
        "lambda_l1",
        "max_bin",
        "max_bin_by_feature",
        "max_cat_threshold",
        "max_cat_to_onehot",
        "max_delta_step",
        "min_data_in_bin",
        "min_data_per_group",
        "min_gain_to_split",
        "min_sum_hessian_in_leaf",
        "monotone_constraints",
        "monotone_constraints_method",
        "monotone_penalty",
        "path_smooth",
        "use_missing",
        "zero_as_missing",
    }
)
_GROUP = re.compile(r"\[([0-9, ]*)\]")
_GROUPS = re.compile(rf" *({_GROUP.pattern} *,? *)*")
_ENDS_A_VALUE = re.compile(r"[\s=\x00]")
_DEPEND_ON_SCALE = ("lambda_l1", "min_gain_to_split", "max_delta_step", "cegb_penalty_split")
_ACT_ON_LEAF_VALUES = ("lambda_l1", "max_delta_step", "path_smooth", "monotone_constraints")


def check(params: Mapping[str, Any], needs: Needs) -> list[str]:
    """Say why parameters cannot be used: LightGBM would ignore them, the estimator sets them, or they break it."""
    reasons = []
    estimator_names = {
        theirs: f"the parameter {ours}= of the estimator" for ours, theirs in NAMES.items()
    }
    first_names: dict[str, str] = {}
    for given, value in params.items():
        name = main_name(given)
        instead = _SET_BY_ESTIMATOR.get(name) or estimator_names.get(name)
        if name in first_names:
            reasons.append(
                f"engine_params has {first_names[name]!r} and {given!r}, two names of one parameter; keep one."
            )
        first_names[name] = given
        if instead is not None:
            reasons.append(f"engine_params has {given!r}; use {instead} instead.")
        elif name in REFUSED:
            reasons.append(
                f"engine_params has {given!r}, which cannot be used: {REFUSED[name]}. Leave it out."
            )
        elif name not in _ALLOWED:
            hint = nearest(str(name), [*_ALLOWED, *MAIN_NAMES], cutoff=0.6)
            reasons.append(
                f"engine_params has {given!r}, which is not a parameter of LightGBM that can be used here{hint} "
                f"By their main names, these can: {', '.join(sorted(_ALLOWED))}."
            )
        elif not _is_plain(name, value):
            reasons.append(
                f"engine_params has {given}={value!r}; LightGBM takes numbers, text without spaces and equals signs, "
                f"and lists of them{', or the name of a file' if name.endswith('_filename') else ''}."
            )
        elif needs.any_scale and name in _DEPEND_ON_SCALE and np.any(value):
            reasons.append(
                f"engine_params has {given!r}, which depends on the scale of the gradient and breaks shrinking "
                "(langevin=True with shrink_rate > 0); leave it out or set shrink_rate=0."
            )
        elif needs.own_leaves and name in _ACT_ON_LEAF_VALUES and np.any(value):
            reasons.append(
                f"engine_params has {given!r}, which acts on LightGBM's own leaf values, and leaf_values='full' and "
                "leaf_noise='independent' replace them; leave it out, or use diagonal leaf values with shared noise."
            )
        elif name.endswith("_filename") and value and not os.path.isfile(value):
            reasons.append(
                f"engine_params has {name}={value!r}, which is not a file; LightGBM would ignore it."
            )
    return reasons


def _is_plain(name: str, value: Any) -> bool:
    """Tell whether a value is one: LightGBM gets all parameters as one text, where a space starts another one."""
    if isinstance(value, str) or (name.endswith("_filename") and value):
        is_text = isinstance(value, str | os.PathLike)
        return is_text and (
            name == "interaction_constraints" or not _ENDS_A_VALUE.search(os.fsdecode(value))
        )
    if isinstance(value, list | tuple | set | np.ndarray):
        parts = np.atleast_1d(value).tolist() if isinstance(value, np.ndarray) else value
        return all(part is not None and _is_plain("", part) for part in parts)
    return value is None or isinstance(value, int | float | np.number | np.bool_)


def checked_columns(params: Mapping[str, Any], n_columns: int, n_leaves: int) -> dict[str, Any]:
    """Return the parameters, with constraints in the form that LightGBM does not misread.

    Raises ValueError where constraints or a file name a column that does not exist, which LightGBM would not survive.
    """
    for name, path in main_names(params).items():
        if name.endswith("_filename") and path:
            check_forced_file(name, path, n_columns, n_leaves)
    groups = params.get("interaction_constraints")
    if isinstance(groups, str) and _GROUPS.fullmatch(groups):
        groups = [
            [int(column) for column in group.split(",") if column.strip()]
            for group in _GROUP.findall(groups)
        ]
    if groups is None:
        return dict(params)
    if _is_groups(groups, n_columns):
        return {
            **params,
            "interaction_constraints": [[int(column) for column in group] for group in groups],
        }
    raise ValueError(
        f"engine_params has interaction_constraints={params['interaction_constraints']!r}; give a list of lists of "
        f"column numbers from 0 to {n_columns - 1}, such as [[0, 1], [2]]."
    )


def _is_groups(groups: Any, n_columns: int) -> bool:
    """Tell whether a value is a list of lists of columns."""
    if not isinstance(groups, list | tuple) or not all(
        isinstance(group, list | tuple) for group in groups
    ):
        return False
    columns = [column for group in groups for column in group]
    return all(
        isinstance(column, int | np.integer)
        and not isinstance(column, bool)
        and 0 <= column < n_columns
        for column in columns
    )


def decided_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of bins where the parameters set it, for all columns or for each."""
    chosen = main_names(params)
    bins = chosen.get("max_bin_by_feature", chosen.get("max_bin"))
    return {} if bins is None else {"max_bin": bins}


def lightgbm_parameters(
    options: Mapping[str, Any], params: Mapping[str, Any], threads: int
) -> dict[str, Any]:
    """All parameters of a booster, but for the seeds."""
    every: dict[str, Any] = {
        "objective": "none",
        "metric": "None",
        "verbosity": -1,
        "num_threads": threads,
        "learning_rate": 1.0,  # a tree's values are Newton steps; training multiplies them
        # Without a ridge a leaf needs curvature to divide by, or noise alone would make it huge. With one, the sums
        # must stand out from rounding errors, which LightGBM would otherwise take for rows, and fail.
        "min_sum_hessian_in_leaf": 1e-6 if options["reg_lambda"] > 0 else 1e-3,
        **{theirs: min(options[ours], _LARGEST) for ours, theirs in NAMES.items()},
        **main_names(params),
    }
    if options["subsample"] < 1:
        every["bagging_freq"] = 1
    if not decided_options(params):
        every["max_bin"] = options["max_bin"]
    return every


def samples_at_nodes(params: Mapping[str, Any]) -> bool:
    """Tell whether each node of a tree draws columns or thresholds of its own."""
    chosen = main_names(params)
    return chosen.get("feature_fraction_bynode", 1) < 1 or bool(chosen.get("extra_trees"))
