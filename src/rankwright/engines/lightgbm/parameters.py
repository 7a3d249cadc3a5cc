"""LightGBM's parameters: the names of the estimator's parameters, and which other parameters may be set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.engines.lightgbm.aliases import MAIN_NAMES, REFUSED
from rankwright.engines.parameters import ParameterRules, column_groups

# The estimator's tree parameters by LightGBM's names.
NAMES = {
    "num_leaves": "num_leaves",
    "max_depth": "max_depth",
    "min_child_samples": "min_data_in_leaf",
    "reg_lambda": "lambda_l2",
    "subsample": "bagging_fraction",
    "colsample": "feature_fraction",
}
_LARGEST = 2**31 - 1  # LightGBM's whole numbers; a larger depth or count of rows means the same
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
    "monotone_constraints": "monotone=",
    "categorical_feature": "RankingData(..., categorical=...)",
}
# The parameters that shape bins and trees. Others would change nothing, for example those of LightGBM's own objectives,
# or break a promise, for example linear trees, threads, or penalties that look back at earlier trees.
_ALLOWED_FOR = {
    "bins": "max_bin max_bin_by_feature min_data_in_bin bin_construct_sample_cnt forcedbins_filename",
    "memory": "enable_bundle is_enable_sparse feature_pre_filter histogram_pool_size",
    "missing values": "use_missing zero_as_missing",
    "categories": "cat_l2 cat_smooth max_cat_threshold max_cat_to_onehot min_data_per_group",
    "splits": "min_gain_to_split min_sum_hessian_in_leaf forcedsplits_filename extra_trees",
    "columns": "feature_contri feature_fraction_bynode interaction_constraints",
    "costs": "cegb_penalty_split cegb_tradeoff",
    "leaf values": "lambda_l1 max_delta_step path_smooth",
    "monotone columns": "monotone_constraints_method monotone_penalty",
}
_ALLOWED = frozenset(name for names in _ALLOWED_FOR.values() for name in names.split())
_GROUP = re.compile(r"\[([0-9, ]*)\]")
_GROUPS = re.compile(rf" *({_GROUP.pattern} *,? *)*")
_ENDS_A_VALUE = re.compile(r"[\s=\x00]")


def _wrong_value(name: str, value: Any) -> str | None:
    """Return why LightGBM would misread a value, or None."""
    if name == "monotone_constraints_method" and value not in ("basic", "intermediate"):
        return "LightGBM's other methods end the process; 'basic' and 'intermediate' can be used."
    is_file = name.endswith("_filename")
    if not _is_plain(name, value):
        or_file = ", or the name of a file" if is_file else ""
        return (
            "LightGBM takes numbers, text without spaces and equals signs, and lists of them"
            f"{or_file}."
        )
    if is_file and value and not os.path.isfile(value):
        return "which is not a file; LightGBM would ignore it."
    return None


def _is_plain(name: str, value: Any) -> bool:
    """Return True if a value is one word: LightGBM gets all parameters as a text, in which a space ends a value."""
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

    Raises ValueError if constraints or a file name a column that does not exist. LightGBM would end the process.
    """
    for name, path in RULES.main_names(params).items():
        if name.endswith("_filename") and path:
            from rankwright.engines.lightgbm.forced_files import check_forced_file

            check_forced_file(name, path, n_columns, n_leaves)
    groups = params.get("interaction_constraints")
    if groups is None:
        return dict(params)
    if isinstance(groups, str) and _GROUPS.fullmatch(groups):
        groups = [
            [int(column) for column in group.split(",") if column.strip()]
            for group in _GROUP.findall(groups)
        ]
    return {**params, "interaction_constraints": column_groups(groups, n_columns)}


RULES = ParameterRules(
    library="LightGBM",
    aliases=MAIN_NAMES,
    set_by_estimator={
        **{theirs: f"{ours}=" for ours, theirs in NAMES.items()},
        **_SET_BY_ESTIMATOR,
    },
    refused=REFUSED,
    allowed=_ALLOWED,
    depend_on_scale=("lambda_l1", "min_gain_to_split", "max_delta_step", "cegb_penalty_split"),
    act_on_leaf_values=("lambda_l1", "max_delta_step", "path_smooth"),
    break_order=("zero_as_missing", "forcedsplits_filename"),
    wrong_value=_wrong_value,
)


def decided_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of bins if the parameters set it, for all columns or for each."""
    by_name = RULES.main_names(params)
    bins = by_name.get("max_bin_by_feature", by_name.get("max_bin"))
    return {} if bins is None else {"max_bin": bins}


def lightgbm_parameters(
    options: Mapping[str, Any], params: Mapping[str, Any], threads: int, signs: Sequence[int] = ()
) -> dict[str, Any]:
    """Return all parameters of a booster except the seeds."""
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
        **RULES.main_names(params),
    }
    if signs:
        every["monotone_constraints"] = list(signs)
    if options["subsample"] < 1:
        every["bagging_freq"] = 1
    if not decided_options(params):
        every["max_bin"] = options["max_bin"]
    return every


def samples_at_nodes(params: Mapping[str, Any]) -> bool:
    """Return True if each node of a tree draws columns or thresholds of its own."""
    by_name = RULES.main_names(params)
    return by_name.get("feature_fraction_bynode", 1) < 1 or bool(by_name.get("extra_trees"))
