"""The result of a training: the model and its provenance."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.matching import Columns, HasColumns
from rankwright.data.within_query import Recipe
from rankwright.engines import load_engine
from rankwright.model import Model
from rankwright.objectives.base import Sum
from rankwright.support.notation import UnknownName
from rankwright.training.examination import describe_biases
from rankwright.training.settings import Plan
from rankwright.training.state import State
from rankwright.training.stopping import describe_stopping


def last_iteration(state: State, plan: Plan) -> int:
    """The iteration of this training that the model ends with: with early stopping the rule's, otherwise the last."""
    return (
        state.choices[-1]
        if plan.settings.patience is not None and state.choices
        else state.iteration
    )


def stopping(state: State, plan: Plan) -> dict[str, Any] | None:
    """What decided about the number of trees, and how flat the curve is; None without early stopping."""
    best = state.best(plan.target)
    if plan.settings.patience is None or best is None:
        return None
    choice, curve = last_iteration(state, plan), next(iter(state.history[0].values()))
    settings = plan.settings
    return describe_stopping(
        settings.stopping_rule, best, choice, curve, state.errors, settings.stopping_errors
    )


def chosen_settings(state: State, plan: Plan) -> dict[str, Any]:
    """What was used where the estimator's parameters left the choice to the data, by their names."""
    settings, options = plan.settings, plan.settings.tree_options
    rate = options["learning_rate"]
    later = [rate] * state.iteration if settings.steering is None else state.rates
    return {
        "learning_rate": rate,
        "learning_rates": [rate, *later][: last_iteration(state, plan)],
        "num_leaves": options["num_leaves"],
        "max_bin": options["max_bin"],
        "subsample": options["subsample"],
        "colsample": options["colsample"],
        "bagging_temperature": settings.bagging_temperature,
        "leaf_values": "full" if settings.full_leaves else "diagonal",
    }


def foreign_classes(plan: Plan) -> dict[str, str]:
    """Modules and names of the metrics and objectives of the user's own, by the names they have in text."""
    terms = (
        [term for _, _, term in plan.objective.parts]
        if isinstance(plan.objective, Sum)
        else [plan.objective]
    )
    kinds: dict[str, type] = {metric.name: type(metric) for metric in plan.metrics.values()}
    kinds |= {term.name: type(term) for term in terms}
    return {
        name: f"{kind.__module__}.{kind.__qualname__}"
        for name, kind in kinds.items()
        if not kind.__module__.startswith("rankwright.")
    }


def _parameters(plan: Plan) -> dict[str, Any]:
    """The estimator's parameters as text and numbers, but for where it writes checkpoints."""
    parameters = {name: value for name, value in plan.parameters.items() if name != "checkpoint"}
    names = [str(metric) for metric in plan.metrics.values()]
    parameters |= {
        "objective": str(parameters["objective"]),
        "metric": names[0] if len(names) == 1 else names,
    }
    if isinstance(parameters["random_state"], np.random.RandomState):
        parameters["random_state"] = plan.settings.seed
    return parameters


@contextmanager
def naming_classes(model: Model | None) -> Iterator[None]:
    """Say which class to import where a model's metric or objective is not known in this process."""
    try:
        yield
    except UnknownName as error:
        classes = {} if model is None else model.manifest.get("classes", {})
        if not classes:
            raise
        names = [f"{kind} ({name!r})" for name, kind in classes.items()]
        raise UnknownName(
            f"the model was trained with {' and '.join(names)}, which is not defined in this process; import it "
            "to score or to train on (predict works without)."
        ) from error


def position_bias_of(
    state: State, plan: Plan, train: RankingData, recipe: Recipe
) -> dict[str, Any]:
    """Describe the biases of the iteration that the model ends with, for its manifest."""
    if plan.settings.bias is None:
        return {}
    last = last_iteration(state, plan) - 1

    def scores() -> NDArray[np.float64]:
        assert state.forest is not None
        return state.forest.first(state.trees[last]).predict(train.X, threads=plan.settings.threads)

    own_features = len(train.feature_names) - len(recipe.names)
    return describe_biases(plan.settings.bias, train, state.biases[last], own_features, scores)


def model_of(
    state: State, plan: Plan, train: HasColumns, fingerprint: str, recipe: Recipe, **more: Any
) -> Model:
    """Build the model with its manifest; ``fingerprint`` is that of the training data, ``more`` is added to it.

    ``train`` has the columns of the data and, behind them, those of the recipe.
    """
    engine = load_engine(plan.settings.engine)
    assert state.forest is not None
    last = last_iteration(state, plan) - 1
    names = train.feature_names[: len(train.feature_names) - len(recipe.names)]
    forest = state.forest.first(state.trees[last]).scaled(state.factors[last])
    manifest = {
        "rankwright": version("rankwright"),
        "engine": {"name": engine.name, "version": engine.version},
        "versions": {name: version(name) for name in ("numpy", "numba", "scikit-learn")},
        "python": platform.python_version(),
        "parameters": _parameters(plan),
        "chosen": chosen_settings(state, plan),
        "objective": str(plan.objective),
        "metrics": [str(metric) for metric in plan.metrics.values()],
        "classes": foreign_classes(plan),
        "ties": "worst",
        "feature_names": names,
        "within_query": recipe.table,
        "named": train.named,
        "first_index": train.first_index,
        "categories": {k: None if v is None else list(v) for k, v in train.categories.items()},
        "seed": plan.settings.seed,
        "data_fingerprint": fingerprint,
        "best_iteration": forest.n_trees,
        "initial_trees": state.initial_trees,
        "stopping": stopping(state, plan),
        "times": dict(state.times),
        "evals_result": {f"valid_{number}": curves for number, curves in enumerate(state.history)},
        **more,
    }
    columns = Columns(names, train.categories, train.named, train.first_index)
    return Model(forest, columns, manifest)
