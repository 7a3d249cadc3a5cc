"""The plan of a training: the parameters of a `rankwright.Ranker`, checked and typed.

`read_plan` makes it once, before any work is done. Entries that are None are left to the data, and
`rankwright.training.defaults.for_data` fills them in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.arguments import by_column
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Folds
from rankwright.data.within_query import Option, check_option
from rankwright.engines import load_engine
from rankwright.engines.contract import Engine, Needs
from rankwright.kernels.threads import MOST_THREADS, available_threads
from rankwright.metrics import Metric, metric_texts
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.objectives.propensity import check_clip, inverse_propensities
from rankwright.support import checks
from rankwright.support.checks import ArgumentError
from rankwright.training.defaults import is_auto, resolve_objective
from rankwright.training.groups import Langevin, read_langevin, read_position_bias
from rankwright.training.steering import Steering
from rankwright.training.stopping import RULES

if TYPE_CHECKING:
    from rankwright.linear_start import LinearStart

# A crash loses at most the work between two saves.
_TREES_BETWEEN_SAVES, _SECONDS_BETWEEN_SAVES = 100, 60.0
_FOLDS = 5
# Linear rankers that boosting can start from.
STARTS = ("linear", "linear-global")


@dataclass(frozen=True)
class Once:
    """Train once, on the queries of training."""


@dataclass(frozen=True)
class AfterFolds:
    """Let folds of the queries choose the number of trees, then train on all queries."""

    folds: Folds


@dataclass(frozen=True)
class Refit:
    """Let the first evaluation set choose the number of trees, then train on its queries too."""


@dataclass(frozen=True)
class Members:
    """Average several models, each trained by a strategy without another part of the queries."""

    number: int
    each: Once | AfterFolds | Refit


Strategy = Once | AfterFolds | Refit | Members


@dataclass(frozen=True)
class TreeOptions:
    """How the engine grows a tree, by the names of the `rankwright.Ranker` parameters."""

    num_leaves: int | None
    max_depth: int
    min_child_samples: int
    reg_lambda: float
    subsample: float | None
    colsample: float | None
    max_bin: int | None = None


@dataclass(frozen=True)
class BiasSettings:
    """Position bias to learn; none if there are no columns.

    Parameters
    ----------
    columns
        Fields of the training data. Each of their values gets a bias.
    ridge, smoothness
        Regularisation, in documents; see `rankwright.training.bias`.
    limit
        Positions from this number on share a value.
    """

    columns: tuple[str, ...] = ()
    ridge: float = 1.0
    smoothness: float = 0.0
    limit: int = 50


@dataclass(frozen=True)
class PropensitySettings:
    """Known propensities.

    Parameters
    ----------
    column
        Field of the training data that holds them.
    clip, self_normalised
        As in `rankwright.objectives.propensity`.
    """

    column: str
    clip: float | None = None
    self_normalised: bool = False

    def document_weights(self, data: RankingData) -> NDArray[np.float64]:
        """Return the inverse propensity of each row."""
        return inverse_propensities(
            data.fields[self.column],
            data.y,
            data.queries,
            clip=self.clip,
            self_normalised=self.self_normalised,
        )


@dataclass(frozen=True)
class CheckpointPlace:
    """A folder to save a training in, and the trees and seconds between two saves."""

    path: Path
    trees: int = _TREES_BETWEEN_SAVES
    seconds: float = _SECONDS_BETWEEN_SAVES

    def inside(self, name: str) -> CheckpointPlace:
        """Return a folder in this folder, for a pass of the training."""
        return replace(self, path=self.path / name.replace(" ", "-"))


@dataclass(frozen=True)
class Plan:
    """The goal of a training, and its settings.

    With ``steering``, the learning rate is only the rate of the first tree. ``parameters`` are the
    parameters as the user gave them, for the manifest of the model. ``base_score`` is the field of
    the scores that training starts from; None if it starts from 0. ``linear`` is the linear start that
    ``start`` asks for, once the data has decided it. ``notice`` says which defaults a parameter
    switched off.
    """

    parameters: Mapping[str, Any]
    strategy: Strategy
    objective: Objective
    auto_objective: bool
    metrics: Mapping[str, Metric]
    within_query: Option
    monotone: Mapping[str, int]
    engine: str
    engine_params: Mapping[str, Any]
    n_trees: int
    learning_rate: float | None
    tree_options: TreeOptions
    subsample_queries: float
    bagging_temperature: float | None
    full_leaves: bool
    full_leaves_required: bool
    langevin: Langevin | None
    patience: int | None
    stopping_rule: str
    bias: BiasSettings
    seed: int
    threads: int
    verbose: int
    checkpoint: CheckpointPlace | None
    propensity: PropensitySettings | None = None
    steering: Steering | None = None
    stopping_errors: float = 1.0
    base_score: str | None = None
    start: Any = None
    linear: LinearStart | None = None
    notice: str = ""

    @property
    def target(self) -> Metric:
        """The metric to optimise."""
        return next(iter(self.metrics.values()))

    @property
    def first_rate(self) -> float:
        """Learning rate of the first tree, after the data has decided."""
        assert self.learning_rate is not None
        return self.learning_rate

    @property
    def own_leaves(self) -> bool:
        """Whether leaf values are computed by the loop instead of by the engine."""
        return self.full_leaves or (self.langevin is not None and self.langevin.independent)

    @property
    def click_fields(self) -> list[str]:
        """Fields of the training data that say how clicks came about."""
        if self.propensity is None:
            return list(self.bias.columns)
        return [*self.bias.columns, self.propensity.column]

    @property
    def start_fields(self) -> list[str]:
        """Fields of every set, training or evaluation, that decide the scores at the start."""
        if self.base_score is None:
            return []
        return [self.base_score]

    def base_scores(self, data: RankingData) -> NDArray[np.float64] | None:
        """Return the score that each row starts from, or None if all start from 0."""
        scores = None
        if self.base_score is not None:
            scores = data.fields[self.base_score]
        if self.linear is not None:
            linear = self.linear.scores(data.X, data.queries.grouped(), self.threads)
            scores = linear if scores is None else scores + linear
        return scores

    def inverse_propensities(self, data: RankingData) -> NDArray[np.float64] | None:
        """Return the inverse propensity of each row, or None if there are no propensities."""
        if self.propensity is None:
            return None
        return self.propensity.document_weights(data)

    def without_stopping(self, n_trees: int) -> Plan:
        """Return the plan of a training with a number of trees that is known."""
        return replace(self, n_trees=n_trees, patience=None)


Check = Callable[[str, Any], object]


def _whole(least: int, most: int | None = None) -> Check:
    return lambda name, value: checks.whole(name, value, least=least, most=most)


def _number(least: float, most: float | None = None) -> Check:
    return lambda name, value: checks.number(name, value, least=least, most=most)


def _share(name: str, value: Any) -> None:
    checks.positive(name, value, most=1)


def _one_of(*allowed: Any) -> Check:
    def check(name: str, value: Any) -> None:
        if not _is_any_of(value, allowed):
            names = ", ".join(map(str, allowed))
            raise ArgumentError(name, f"must be one of {names}; got {value!r}.")

    return check


def _also(check: Check, *allowed: Any, remark: str = "") -> Check:
    """Allow further values, with a remark about them for the error message."""

    def either(name: str, value: Any) -> None:
        if _is_any_of(value, allowed):
            return
        try:
            check(name, value)
        except ArgumentError as error:
            raise ArgumentError(name, f"{error.reason} {remark}".rstrip()) from None

    return either


def _is_any_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    # The types are compared too, because 1 == True.
    return any(type(value) is type(item) and value == item for item in allowed)


def _check_categorical(value: Any) -> None:
    is_list = isinstance(value, list | tuple)
    if value is not None and not (is_list and all(isinstance(name, str | int) for name in value)):
        raise checks.ArgumentError(
            "categorical", f"must be a list of names or numbers of columns; got {value!r}."
        )


_BY_DATA = "None lets the data choose."
# Each check looks at a single parameter. `read_plan` checks combinations afterwards.
_CHECKS: dict[str, Check] = {
    "within_query": lambda _, value: check_option(value),
    "monotone": lambda _, value: _check_monotone(value),
    "start": lambda _, value: _check_start(value),
    "categorical": lambda _, value: _check_categorical(value),
    "n_estimators": _whole(1),
    "learning_rate": _also(checks.positive, None, remark=_BY_DATA),
    "num_leaves": _also(_whole(2, 131072), None, remark=_BY_DATA),
    "max_depth": _also(_whole(1), None, -1, remark="-1 means no limit."),
    "min_child_samples": _whole(1),
    "reg_lambda": _number(0),
    "subsample_queries": _share,
    "subsample": _also(_share, None, remark=_BY_DATA),
    "colsample": _also(_share, None, remark=_BY_DATA),
    "bagging_temperature": _also(_number(0, 10), None, remark=_BY_DATA),
    "leaf_values": _one_of("auto", "diagonal", "full"),
    "early_stopping_rounds": _also(_whole(1), None, remark="None means no early stopping."),
    "early_stopping": _one_of("valid", "cv"),
    "folds": lambda _, value: Folds.of(value, _FOLDS),
    "stopping_rule": _one_of(*RULES),
    "refit": _one_of(True, False),
    "members": _whole(1, 1000),
    "langevin": lambda _, value: read_langevin(value),
    "position_bias": lambda _, value: read_position_bias(value),
    "verbose": _also(_whole(0), True, False, remark="False means silence."),
    "n_jobs": _also(_whole(1, MOST_THREADS), None, -1, remark="None and -1 mean all cores."),
    "random_state": lambda name, value: _check_seed(name, value),
}


def read_plan(parameters: Mapping[str, Any]) -> Plan:
    """Check every parameter before any work is done, and plan the training."""
    metrics = read_metrics(parameters["metric"])
    objective = resolve_objective(parameters["objective"], next(iter(metrics.values())))
    for name, check in _CHECKS.items():
        check(name, parameters[name])
    strategy = _strategy(parameters)
    langevin = read_langevin(parameters["langevin"])
    engine = load_engine(parameters["engine"])
    engine_params = _engine_params(parameters)
    # Shrinking divides gradients by a changing factor, so trees must not depend on their scale.
    any_scale = langevin is not None and langevin.shrink_rate > 0
    needs = Needs(any_scale=any_scale, ordered=bool(parameters["monotone"]))
    full_leaves = _full_leaves(parameters, objective, engine, engine_params, needs)
    own_leaves = full_leaves or (langevin is not None and langevin.independent)
    # The first reason is enough: the user corrects it and tries again.
    for reason in engine.check(engine_params, replace(needs, own_leaves=own_leaves)):
        raise ValueError(reason)
    return Plan(
        parameters=parameters,
        strategy=strategy,
        objective=objective,
        auto_objective=is_auto(parameters["objective"]),
        metrics=metrics,
        within_query=parameters["within_query"],
        monotone=parameters["monotone"] or {},
        start=parameters["start"],
        engine=parameters["engine"],
        engine_params=engine_params,
        n_trees=int(parameters["n_estimators"]),
        learning_rate=_optional(float, parameters["learning_rate"]),
        tree_options=_tree_options(parameters, engine.decided_options(engine_params)),
        subsample_queries=float(parameters["subsample_queries"]),
        bagging_temperature=_optional(float, parameters["bagging_temperature"]),
        full_leaves=full_leaves,
        full_leaves_required=parameters["leaf_values"] == "full",
        langevin=langevin,
        patience=_optional(int, parameters["early_stopping_rounds"]),
        stopping_rule=parameters["stopping_rule"],
        bias=BiasSettings(**asdict(read_position_bias(parameters["position_bias"]))),
        seed=_seed(parameters),
        threads=read_threads(parameters["n_jobs"]),
        verbose=int(parameters["verbose"]),
        checkpoint=_checkpoint_place(parameters["checkpoint"]),
    )


def read_metrics(option: Any) -> dict[str, Metric]:
    """Return metrics by the names that the user gave them."""
    wanted = option
    if isinstance(option, str):
        wanted = metric_texts(option)
    elif not isinstance(option, list | tuple):
        wanted = [option]
    if not wanted:
        raise ValueError("metric is empty: name at least one, such as 'ndcg@10'.")
    metrics = {}
    for item in wanted:
        if not isinstance(item, str | Metric):
            raise ValueError(
                "metric must be a name such as 'ndcg@10', a Metric, or a list of them; got "
                f"{item!r}."
            )
        metrics[str(item).strip()] = parse_metric(item)
    first = next(iter(metrics.values()))
    if first.first.reads_missing:
        raise ValueError(
            f"{first} is about the labels and not about the order, so it cannot be optimised; name "
            "the metric to optimise first."
        )
    return metrics


def read_threads(n_jobs: Any) -> int:
    """Return the number of threads for the option ``n_jobs``."""
    _CHECKS["n_jobs"]("n_jobs", n_jobs)
    if n_jobs is None or n_jobs == -1:
        return available_threads(None)
    return int(n_jobs)


def _optional(kind: type, value: Any) -> Any:
    return None if value is None else kind(value)


def _strategy(parameters: Mapping[str, Any]) -> Strategy:
    after_folds, refit = parameters["early_stopping"] == "cv", parameters["refit"]
    if refit and after_folds:
        raise ValueError("early_stopping='cv' trains on all queries already; leave out refit.")
    if refit and parameters["early_stopping_rounds"] is None:
        raise ValueError(
            "refit trains once more with the number of trees that early stopping chose; set "
            "early_stopping_rounds and give an eval_set."
        )
    each: Once | AfterFolds | Refit = Once()
    folds = parameters["folds"]
    if folds is not None and not after_folds:
        raise ArgumentError("folds", "belongs to early_stopping='cv'; set that or leave it out.")
    if after_folds:
        each = AfterFolds(Folds.of(folds, _FOLDS))
    elif refit:
        each = Refit()
    if parameters["members"] > 1:
        return Members(int(parameters["members"]), each)
    return each


def _engine_params(parameters: Mapping[str, Any]) -> dict[str, Any]:
    params = parameters["engine_params"]
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise ArgumentError(
            "engine_params", f"must be a dict of the engine's parameters; got {params!r}."
        )
    return dict(params)


def _tree_options(parameters: Mapping[str, Any], decided: Mapping[str, Any]) -> TreeOptions:
    options = TreeOptions(
        num_leaves=_optional(int, parameters["num_leaves"]),
        max_depth=int(parameters["max_depth"] or -1),
        min_child_samples=int(parameters["min_child_samples"]),
        reg_lambda=float(parameters["reg_lambda"]),
        subsample=_optional(float, parameters["subsample"]),
        colsample=_optional(float, parameters["colsample"]),
    )
    # Options that engine_params decide win, so that the plan has the values that are used.
    return replace(options, **decided)


def _full_leaves(
    parameters: Mapping[str, Any],
    objective: Objective,
    engine: Engine,
    engine_params: Mapping[str, Any],
    needs: Needs,
) -> bool:
    """Return whether all leaves of a tree are solved together."""
    option = parameters["leaf_values"]
    if option == "full" and parameters["reg_lambda"] == 0:
        raise ValueError(
            "leaf_values='full' needs reg_lambda above 0: the full system has no unique solution."
        )
    if option != "auto":
        return bool(option == "full")
    # The option "auto" falls back to diagonal leaf values if full leaf values are impossible.
    refused = engine.check(engine_params, replace(needs, own_leaves=True))
    possible = (
        objective.capabilities.full_curvature and parameters["reg_lambda"] > 0 and not refused
    )
    return is_auto(parameters["objective"]) and possible


def _check_start(option: Any) -> None:
    if option is None or (isinstance(option, str) and option in STARTS):
        return
    columns = option.get("columns") if isinstance(option, Mapping) else None
    named = isinstance(columns, list | tuple) and all(isinstance(item, str) for item in columns)
    if not named or not columns or set(option) != {"columns"}:
        raise ArgumentError(
            "start",
            "must be None, 'linear', 'linear-global', or a dict with names of columns, for example "
            f"{{'columns': ['bm25', 'age']}}; got {option!r}.",
        )


def _check_monotone(option: Any) -> None:
    is_signs = isinstance(option, Mapping) and all(
        isinstance(name, str) and _is_any_of(sign, (-1, 1)) for name, sign in option.items()
    )
    if option is not None and not is_signs:
        raise ArgumentError(
            "monotone",
            "must be a dict of a sign by column, 1 for a column that may only raise the score and -1 "
            f"for a column that may only lower it, such as {{'price': -1}}; got {option!r}.",
        )


def _check_seed(name: str, seed: Any) -> None:
    if seed is None or isinstance(seed, np.random.RandomState):
        return
    # Random numbers are a function of 64 bits of the seed.
    _also(_whole(0, 2**64 - 1), None, remark="None draws a seed.")(name, seed)


def _seed(parameters: Mapping[str, Any]) -> int:
    seed = parameters["random_state"]
    # A checkpoint belongs to a seed, and a drawn seed would be another in each fit.
    if seed is None and parameters["checkpoint"] is not None:
        raise ValueError(
            "checkpoint needs a random_state, or no later fit could resume from it; set one."
        )
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(seed, np.random.RandomState):
        # Drawing moves the generator on, so that repeated fits differ, as in scikit-learn.
        return int(seed.randint(2**31))
    return int(seed)


def _checkpoint_place(option: Any) -> CheckpointPlace | None:
    """Read the parameter ``checkpoint``: a folder, or a dict of path, trees and seconds."""
    if option is None:
        return None
    place = option if isinstance(option, dict) else {"path": option}
    unknown = place.keys() - {"path", "trees", "seconds"}
    if unknown or not isinstance(place.get("path"), str | os.PathLike):
        raise ArgumentError(
            "checkpoint",
            "must be a folder, or a dict of path and, optionally, trees and seconds; got "
            f"{place!r}.",
        )
    return CheckpointPlace(
        Path(place["path"]),
        checks.whole("trees of checkpoint", place.get("trees", _TREES_BETWEEN_SAVES), least=1),
        checks.number(
            "seconds of checkpoint", place.get("seconds", _SECONDS_BETWEEN_SAVES), least=0
        ),
    )


@dataclass(frozen=True, eq=False)
class ClickColumns:
    """The arguments of ``fit`` about clicks, checked as far as that is possible without data.

    Parameters
    ----------
    position, propensity
        Arrays, or names of columns or fields, by the names they have as fields.
    clip, self_normalised
        About propensities.
    """

    position: Mapping[str, Any]
    propensity: Mapping[str, Any]
    clip: float | None
    self_normalised: bool

    @classmethod
    def of(
        cls, position: Any, propensity: Any, clip: float | None, self_normalised: bool
    ) -> ClickColumns:
        """Read the arguments of ``fit``."""
        columns = by_column("propensity", propensity)
        if len(columns) > 1:
            raise ArgumentError(
                "propensity",
                f"is one column: the probability that a document was seen; got {list(columns)}.",
            )
        if not columns and (clip is not None or self_normalised):
            name = "self_normalised"
            if clip is not None:
                name = "clip"
            raise ArgumentError(name, "is for propensities, and there are none; leave it out.")
        if self_normalised not in (True, False):
            raise ArgumentError(
                "self_normalised", f"must be True or False; got {self_normalised!r}."
            )
        check_clip(clip)
        return cls(by_column("position", position), columns, clip, bool(self_normalised))

    @property
    def fields(self) -> dict[str, Any]:
        """All columns, to be fields of the data."""
        return {**self.position, **self.propensity}

    @property
    def named(self) -> dict[str, str]:
        """The columns that are given as names of columns or fields."""
        return {name: value for name, value in self.fields.items() if isinstance(value, str)}

    def add_to(self, plan: Plan, data: RankingData) -> Plan:
        """Add the columns to the plan of a training on data that has them as fields.

        Raise ValueError if a column cannot be used.
        """
        if self.position and plan.start is not None:
            raise ArgumentError(
                "start",
                "cannot be used with position, because it would fit clicks with their position bias; "
                "leave one of them out.",
            )
        if self.position:
            from rankwright.training.bias import read_columns, warn_without_overlap

            plan = replace(plan, bias=replace(plan.bias, columns=tuple(self.position)))
            # Columns are read here for their errors, before any work is done.
            read_columns(plan.bias, data)
            warn_without_overlap(plan.bias, data)
        for column in self.propensity:
            clip = _optional(float, self.clip)
            propensity = PropensitySettings(column, clip, self.self_normalised)
            # This is done for its errors too; the loop computes the weights again.
            propensity.document_weights(data)
            plan = replace(plan, propensity=propensity)
        return plan
