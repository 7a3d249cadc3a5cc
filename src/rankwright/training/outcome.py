"""The result of a training: the model and its provenance."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.encoding import Columns
from rankwright.engines import load_engine
from rankwright.model import Model
from rankwright.training.checkpoint import fingerprint
from rankwright.training.settings import Plan
from rankwright.training.state import State


def best_iteration(state: State, plan: Plan) -> int:
    """The iteration that the model ends with: the best with early stopping, otherwise the last."""
    best = state.best(plan.target) if plan.settings.patience is not None else None
    return state.iteration if best is None else best


def chosen_settings(state: State, plan: Plan) -> dict[str, Any]:
    """What was used where the estimator's parameters left the choice to the data, by their names."""
    settings, options = plan.settings, plan.settings.tree_options
    rate = options["learning_rate"]
    later = [rate] * state.iteration if settings.steering is None else state.rates
    return {
        "learning_rate": rate,
        "learning_rates": [rate, *later][: best_iteration(state, plan)],
        "num_leaves": options["num_leaves"],
        "max_bin": options["max_bin"],
        "subsample": options["subsample"],
        "bagging_temperature": settings.bagging_temperature,
        "leaf_values": "full" if settings.full_leaves else "diagonal",
    }


def model_of(state: State, plan: Plan, train: RankingData, **more: Any) -> Model:
    """Build the model with its manifest; ``more`` is added to it."""
    engine = load_engine(plan.settings.engine)
    manifest = {
        "rankwright": version("rankwright"),
        "engine": {"name": engine.name, "version": engine.version},
        "versions": {name: version(name) for name in ("numpy", "numba", "scikit-learn")},
        "python": platform.python_version(),
        "chosen": chosen_settings(state, plan),
        "objective": str(plan.objective),
        "metrics": [str(metric) for metric in plan.metrics.values()],
        "ties": "worst",
        "feature_names": train.feature_names,
        "named": train.named,
        "categories": {k: None if v is None else list(v) for k, v in train.categories.items()},
        "seed": plan.settings.seed,
        "data_fingerprint": fingerprint(train),
        "best_iteration": best_iteration(state, plan),
        "times": dict(state.times),
        "evals_result": {f"valid_{number}": curves for number, curves in enumerate(state.history)},
        **more,
    }
    assert state.forest is not None
    last = best_iteration(state, plan) - 1
    forest = state.forest.first(state.trees[last]).scaled(state.factors[last])
    return Model(forest, Columns(train.feature_names, train.categories), manifest)
