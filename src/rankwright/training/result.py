"""The result of a training: the model and its provenance."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.columns import Columns, HasColumns
from rankwright.data.dataset import RankingData
from rankwright.data.within_query import Recipe
from rankwright.engines import load_engine
from rankwright.model import Model
from rankwright.objectives.base import Sum
from rankwright.support.notation import UnknownName
from rankwright.training.ending import describe_ending
from rankwright.training.groups import plain_groups
from rankwright.training.plan import Plan
from rankwright.training.state import State, total_scores
from rankwright.training.stopping import describe_stopping


def last_iteration(state: State, plan: Plan) -> int:
    """Return the iteration that the model ends with: kept by early stopping, or the last."""
    if plan.patience is not None and state.kept:
        return state.kept[-1]
    return state.iteration


def model_of(
    state: State,
    plan: Plan,
    data: HasColumns,
    data_fingerprint: str,
    recipe: Recipe,
    *,
    interrupted: bool,
    held_out: bool,
    **more: Any,
) -> Model:
    """Build the model of a training, with its manifest.

    Parameters
    ----------
    state, plan
        The end of the training, and its plan with the settings that the data decided.
    data
        The columns of the training data and, behind them, the columns of the recipe.
    data_fingerprint
        Fingerprint of the training data.
    recipe
        The features within the query.
    interrupted
        Whether Ctrl-C ended the training.
    held_out
        Whether there is an evaluation set, and the first has other queries than the training data.
    more
        Further entries of the manifest.
    """
    engine = load_engine(plan.engine)
    assert state.forest is not None
    last = last_iteration(state, plan) - 1
    # Features within the query are computed from the given columns when the model scores, so the
    # model's columns are the given columns.
    names = data.feature_names[: len(data.feature_names) - len(recipe.names)]
    # Trees after the kept iteration are dropped, and the common factor goes into the leaf values.
    forest = state.forest.first(state.trees[last]).scaled(state.factors[last])
    categories = {}
    for name, levels in data.categories.items():
        categories[name] = None if levels is None else list(levels)
    manifest = {
        "rankwright": version("rankwright"),
        "engine": {"name": engine.name, "version": engine.version},
        "versions": {name: version(name) for name in ("numpy", "numba", "scikit-learn")},
        "python": platform.python_version(),
        "parameters": _parameters(plan),
        "chosen": _chosen_settings(state, plan),
        "objective": str(plan.objective),
        "metrics": [str(metric) for metric in plan.metrics.values()],
        "classes": _foreign_classes(plan),
        "ties": "worst",
        "feature_names": names,
        "within_query": recipe.table,
        "named": data.named,
        "first_index": data.first_index,
        "categories": categories,
        "other_columns": [],
        "position_bias": {},
        "base_score": plan.base_score,
        "linear_start": [] if plan.linear is None else [plan.linear.to_manifest()],
        "seed": plan.seed,
        "data_fingerprint": data_fingerprint,
        "n_trees": forest.n_trees,
        "initial_trees": state.initial_trees,
        "stopping": _stopping(state, plan),
        "ending": describe_ending(state, plan, interrupted=interrupted, held_out=held_out),
        "interrupted": interrupted,
        "times": dict(state.times),
        "evals_result": {f"valid_{number}": curves for number, curves in enumerate(state.history)},
        **more,
    }
    return Model(forest, Columns(names, data.categories, data.named, data.first_index), manifest)


def describe_position_bias(
    state: State, plan: Plan, train: RankingData, recipe: Recipe
) -> dict[str, Any]:
    """Describe the biases of the iteration that the model ends with, for its manifest."""
    if not plan.bias.columns:
        return {}
    from rankwright.training.examination import describe_biases

    last = last_iteration(state, plan) - 1

    # Scores of all rows take time, so they are computed only if the estimate asks for them.
    def scores() -> NDArray[np.float64]:
        assert state.forest is not None
        sums = state.forest.first(state.trees[last]).predict(train.X, threads=plan.threads)
        return total_scores(plan.base_scores(train), state.factors[last], sums)

    n_given = len(train.feature_names) - len(recipe.names)
    return describe_biases(plan.bias, train, state.biases[last], n_given, scores)


@contextmanager
def naming_classes(model: Model | None) -> Iterator[None]:
    """Name the class to import if a model's metric or objective is not defined in this process."""
    try:
        yield
    except UnknownName as error:
        if model is None or not model.manifest["classes"]:
            raise
        classes = model.manifest["classes"]
        names = [f"{kind} ({name!r})" for name, kind in classes.items()]
        remedy = "import it"
        if any(name.startswith("function-") for name in classes):
            remedy = "give the function again as objective="
        raise UnknownName(
            f"the model was trained with {' and '.join(names)}, which is not defined in this "
            f"process; {remedy} to score or to train on (predict works without)."
        ) from error


def _stopping(state: State, plan: Plan) -> dict[str, Any] | None:
    """Describe early stopping and how flat the curve is; None without early stopping."""
    if plan.patience is None or not state.kept:
        return None
    return describe_stopping(
        next(iter(state.history[0].values())),
        state.errors,
        last_iteration(state, plan),
        rule=plan.stopping_rule,
        allowed=plan.stopping_errors,
        patience=plan.patience,
        higher_is_better=plan.target.higher_is_better,
    )


def _chosen_settings(state: State, plan: Plan) -> dict[str, Any]:
    """Return the settings that parameters may leave to the data, by the names of the parameters."""
    options, rate = plan.tree_options, plan.first_rate
    # The state holds the rate of the tree after each iteration, so the first rate is missing there.
    rates = [rate, *state.rates]
    if plan.steering is None:
        rates = [rate] * state.iteration
    return {
        "learning_rate": rate,
        "learning_rates": rates[: last_iteration(state, plan)],
        "num_leaves": options.num_leaves,
        "max_bin": options.max_bin,
        "subsample": options.subsample,
        "colsample": options.colsample,
        "bagging_temperature": plan.bagging_temperature,
        "leaf_values": "full" if plan.full_leaves else "diagonal",
    }


def _foreign_classes(plan: Plan) -> dict[str, str]:
    """Return the classes of metrics and objectives that are not this package's, by their names."""
    # A sum is a class of this package, but its terms need not be.
    terms = [plan.objective]
    if isinstance(plan.objective, Sum):
        terms = [term for _, _, term in plan.objective.parts]
    sources = {
        value.name: f"{type(value).__module__}.{type(value).__qualname__}"
        for value in plan.metrics.values()
    }
    # A function has no name of its own, and its text is its name.
    sources |= {term.name or str(term): term.source for term in terms}
    return {name: text for name, text in sources.items() if not text.startswith("rankwright.")}


def _parameters(plan: Plan) -> dict[str, Any]:
    """Return the parameters as text and numbers, without the place of checkpoints."""
    parameters = plain_groups(plan.parameters)
    del parameters["checkpoint"]
    metrics = [str(metric) for metric in plan.metrics.values()]
    if not isinstance(parameters["objective"], str):  # a function has no text of its own
        parameters["objective"] = str(plan.objective)
    parameters["metric"] = metrics[0] if len(metrics) == 1 else metrics
    # A generator has no text, but the seed that was drawn from it has.
    if isinstance(parameters["random_state"], np.random.RandomState):
        parameters["random_state"] = plan.seed
    return parameters
