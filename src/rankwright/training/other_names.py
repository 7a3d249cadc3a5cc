"""Names of arguments in other libraries, and how they are called here.

The tables agree with docs/migrating.md. Names of the engines' own parameters are in the engines' rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from typing import NoReturn, ParamSpec, TypeVar

from rankwright.objectives import known_objectives
from rankwright.support.notation import nearest

P = ParamSpec("P")
R = TypeVar("R")

# Names by the argument that has their meaning here.
_MEANINGS = {
    "base_score": "init_score base_margin baseline",
    "bagging_temperature": "sampling_unit",
    "categorical": "cat_features categorical_feature enable_categorical feature_types",
    "colsample": "rsm",
    "contributions": "pred_contrib pred_contribs",
    "early_stopping_rounds": "od_wait od_type",
    "engine": "booster",
    "engine_params": "border_count",
    "eval_base_score": "eval_init_score base_margin_eval_set",
    "eval_set": "evals valid_sets validation_data",
    "init_model": "xgb_model",
    "langevin": "diffusion_temperature model_shrink_rate",
    "max_depth": "depth",
    "metric": "eval_metric custom_metric eval_at label_gain ndcg_exp_gain",
    "min_child_samples": "min_child_weight",
    "n_estimators": "iterations trees",
    "n_jobs": "thread_count threads",
    "estimations": "num_estimations",
    "neighbours": "num_neighbors",
    "normalize": "lambdarank_norm lambdarank_normalization lambdarank_score_normalization",
    "objective": "loss_function",
    "position": "lambdarank_unbiased",
    "position_bias": "lambdarank_bias_norm",
    "qid": "group_id groups query_id",
    "reg_lambda": "l2_leaf_reg",
    "sample_weight": "weight weights group_weight",
    "staged_predict": "iteration_range num_iteration ntree_end ntree_limit ntree_start start_iteration",
    "sigma": "sigmoid",
    "strength": "noise_power",
    "truncation": "lambdarank_num_pair_per_sample lambdarank_pair_method lambdarank_truncation_level",
    "verbose": "logging_level silent verbose_eval",
}
_HERE = {name: ours for ours, names in _MEANINGS.items() for name in names.split()}
# Names of things that there are not.
_MISSING = {
    "task_type": "gradients and trees are computed on the processor",
    "text_features": "turn texts into numbers first, such as scores of a text model",
    "embedding_features": "turn vectors into numbers first, such as a cosine",
    "output_margin": "predict returns raw scores always",
    "raw_score": "predict returns raw scores always",
    "pred_leaf": "the leaves of rows are not returned",
}
# Words in the names of classes of callbacks, and what takes their place here.
_CALLBACKS = {
    "Stopping": "Ranker(early_stopping_rounds=...)",
    "LogEvaluation": "Ranker(verbose=1)",
    "Monitor": "Ranker(verbose=1)",
    "Record": "evals_result_, which every training with an eval_set has",
    "CheckPoint": "Ranker(checkpoint=...)",
}
# Names of the arguments of decorated functions, by function.
_ARGUMENTS: dict[str, list[str]] = {}


def explaining_names(owner: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function refuse unknown keywords, and say which argument has their meaning."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        arguments = [
            item for item in signature(function).parameters.values() if item.name != "self"
        ]
        names = _ARGUMENTS[owner] = [item.name for item in arguments]
        n_positional = sum(item.kind is Parameter.POSITIONAL_OR_KEYWORD for item in arguments)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            # The first argument is self.
            if len(args) > 1 + n_positional:
                raise TypeError(
                    f"{owner} takes {', '.join(names[:n_positional])} by position; name the other "
                    f"arguments, such as {names[n_positional]}=."
                )
            for name in kwargs:
                if name not in names:
                    raise TypeError(f"{owner} has no argument {name!r}{remedy(name, owner)}")
            return function(*args, **kwargs)

        return checked

    return decorated


def remedy(name: str, owner: str = "Ranker") -> str:
    """End the sentence about an unknown argument with the argument that was meant, or a similar one.

    Examples
    --------
    >>> remedy("task_type")
    '; gradients and trees are computed on the processor.'
    """
    known = meaning(name, owner)
    if known is not None:
        return f"; {known}"
    names = _ARGUMENTS.get(owner, [])
    near = nearest(name, names, cutoff=0.6)
    if near == ".":
        return f". It has {', '.join(names)}."
    return near


def meaning(name: str, owner: str = "Ranker") -> str | None:
    """Say what a name of another function or library means here; None for an unknown name."""
    if name in _HERE:
        return f"{name} is {_place(_HERE[name], owner)} here."
    if name in _MISSING:
        return f"{_MISSING[name]}."
    place = _place(name, owner)
    if place != name:
        return f"it is {place}."
    # The rules of both engines are only needed for errors, so a training does not load them.
    from rankwright.engines.lightgbm.parameters import RULES as lightgbm
    from rankwright.engines.xgboost.parameters import RULES as xgboost

    for rules in (lightgbm, xgboost):
        main = rules.main_name(name)
        if main in rules.set_by_estimator:
            return f"{name} is {_place(rules.set_by_estimator[main].rstrip('='), owner)} here."
        if main in rules.refused:
            return f"{rules.refused[main]}."
        if main in rules.allowed:
            return f"it is a parameter of {rules.library}: engine_params={{{name!r}: ...}}."
    return None


def refuse_callback(callback: object, library: str) -> NoReturn:
    """Raise ValueError for a callback of another library, and name what takes its place."""
    name = type(callback).__name__.strip("_")
    instead = "a function of a Progress (docs/callbacks.md)"
    for word, replacement in _CALLBACKS.items():
        if word in name:
            instead = replacement
    raise ValueError(f"callbacks has {name} of {library}; use {instead} in its place.")


def _place(ours: str, owner: str) -> str:
    """Return the name of an argument, with its function or objective if it is not the caller's."""
    if ours in _ARGUMENTS.get(owner, ()):
        return ours
    for other, arguments in _ARGUMENTS.items():
        if ours in arguments:
            return f"{ours} of {other}"
    for objective, kind in known_objectives().items():
        if ours in [item.name for item in fields(kind)]:
            return f"an option of an objective: objective='{objective}({ours}=...)'"
    return ours
