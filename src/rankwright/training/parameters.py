"""The estimator's parameters: a table of what each may be, and the plan of a training that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.within_query import check_option
from rankwright.engines import load_engine
from rankwright.engines.contract import Needs
from rankwright.kernels.threads import MOST_THREADS, available_threads
from rankwright.metrics import Metric, metric_texts
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.training.defaults import is_auto, resolve_objective
from rankwright.training.settings import Langevin, Plan, Settings
from rankwright.training.stopping import RULES


@dataclass(frozen=True)
class Number:
    """A finite number from ``low`` (or above it) to ``high``, or one of the ``others``, which ``remark`` explains."""

    low: float
    high: float = math.inf
    above: bool = False
    whole: bool = False
    others: tuple[Any, ...] = ()
    remark: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if the value cannot be used."""
        if any(
            value is other or (type(value) is type(other) and value == other)
            for other in self.others
        ):
            return
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        if isinstance(value, kinds) and not isinstance(value, bool):
            number: Any = value if self.whole else _as_float(value)
            if (
                self.low <= number <= self.high
                and number != math.inf
                and not (self.above and number == self.low)
            ):
                return
        kind = "a whole number" if self.whole else "a number"
        least = f"above {self.low:g}" if self.above else f"from {self.low:g}"
        most = f" up to {self.high:g}" if math.isfinite(self.high) else ""
        remark = f", or {self.remark}" if self.remark else ""
        raise ValueError(f"{name} must be {kind} {least}{most}{remark}; got {value!r}.")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number that no float can hold
        return math.inf


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if the value is not one of them."""
        if not any(type(value) is type(allowed) and value == allowed for allowed in self.values):
            raise ValueError(
                f"{name} must be one of {', '.join(map(str, self.values))}; got {value!r}."
            )


_BY_DATA = {"others": (None,), "remark": "None to choose by the data"}
_SHARE = Number(0, 1, above=True)
CONSTRAINTS: dict[str, Number | OneOf] = {
    "n_estimators": Number(1, whole=True),
    "learning_rate": Number(0, above=True, **_BY_DATA),  # type: ignore[arg-type]
    "num_leaves": Number(2, 131072, whole=True, **_BY_DATA),  # type: ignore[arg-type]
    "max_depth": Number(1, whole=True, others=(-1, None), remark="-1 for no limit"),
    "min_child_samples": Number(1, whole=True),
    "reg_lambda": Number(0),
    "subsample_queries": _SHARE,
    "subsample": Number(0, 1, above=True, others=(None,), remark="None to choose"),
    "colsample": Number(0, 1, above=True, others=(None,), remark="None to choose"),
    "bagging_temperature": Number(0, 10, others=(None,), remark="None to choose"),
    "leaf_values": OneOf(("auto", "diagonal", "full")),
    "early_stopping_rounds": Number(1, whole=True, others=(None,), remark="None for no stopping"),
    "early_stopping": OneOf(("valid", "cv")),
    "stopping_rule": OneOf(RULES),
    "refit": OneOf((True, False)),
    "members": Number(1, 1000, whole=True),
    "langevin": OneOf((True, False)),
    "diffusion_temperature": Number(0, above=True, others=(None,)),
    "shrink_rate": Number(0, others=(None,)),
    "leaf_noise": OneOf(("shared", "independent")),
    "position_ridge": Number(0, above=True),
    "position_smoothness": Number(0),
    "position_limit": Number(2, 500, whole=True),
    "verbose": Number(0, whole=True, others=(True, False), remark="False for silence"),
    "n_jobs": Number(
        1, MOST_THREADS, whole=True, others=(None, -1), remark="None or -1 for all cores"
    ),
}


def read_parameters(parameters: Mapping[str, Any]) -> Plan:
    """Check every parameter before any work is done, and plan the training."""
    metrics = read_metrics(parameters["metric"])
    objective = resolve_objective(parameters["objective"], next(iter(metrics.values())))
    for name, constraint in CONSTRAINTS.items():
        constraint.check(name, parameters[name])
    check_option(parameters["within_query"])
    if parameters["refit"] and parameters["early_stopping"] == "cv":
        raise ValueError("early_stopping='cv' trains on all queries already; leave out refit.")
    if parameters["refit"] and parameters["early_stopping_rounds"] is None:
        raise ValueError(
            "refit trains once more with the number of trees that early stopping chose; set early_stopping_rounds and "
            "give an eval_set."
        )
    langevin = _langevin(parameters)
    params = {} if parameters["engine_params"] is None else parameters["engine_params"]
    if not isinstance(params, dict):
        raise ValueError(
            f"engine_params must be a dict of the engine's parameters; got {params!r}."
        )
    engine = load_engine(parameters["engine"])
    any_scale = langevin is not None and langevin.shrink_rate > 0
    full = _full_leaves(
        parameters, objective, not engine.check(params, Needs(own_leaves=True, any_scale=any_scale))
    )
    own_leaves = full or parameters["leaf_noise"] == "independent"
    for reason in engine.check(params, Needs(own_leaves=own_leaves, any_scale=any_scale)):
        raise ValueError(reason)
    names = (
        "learning_rate",
        "num_leaves",
        "max_depth",
        "min_child_samples",
        "reg_lambda",
        "subsample",
        "colsample",
    )
    kinds = {"num_leaves": int, "max_depth": int, "min_child_samples": int}
    options = {
        name: None if parameters[name] is None else kinds.get(name, float)(parameters[name])
        for name in names
    }
    options["max_depth"] = -1 if options["max_depth"] is None else options["max_depth"]
    options |= {"max_bin": None, **engine.decided_options(params)}
    settings = Settings(
        engine=parameters["engine"],
        n_trees=int(parameters["n_estimators"]),
        tree_options=options,
        engine_params=dict(params),
        full_leaves=full,
        steering=None,
        subsample_queries=float(parameters["subsample_queries"]),
        bagging_temperature=0.0,
        langevin=langevin,
        patience=parameters["early_stopping_rounds"],
        stopping_rule=parameters["stopping_rule"],
        seed=_seed(parameters),
        threads=read_threads(parameters["n_jobs"]),
    )
    return Plan(parameters, objective, metrics, settings)


def read_metrics(option: Any) -> dict[str, Metric]:
    """Metrics by the names that the user gave them."""
    wanted = metric_texts(option) if isinstance(option, str) else option
    wanted = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if not wanted:
        raise ValueError("metric is empty: name at least one, such as 'ndcg@10'.")
    for item in wanted:
        if not isinstance(item, str | Metric):
            raise ValueError(
                f"metric must be a name such as 'ndcg@10', a Metric, or a list of them; got {item!r}."
            )
    return {
        item.strip() if isinstance(item, str) else str(item): parse_metric(item) for item in wanted
    }


def read_threads(n_jobs: Any) -> int:
    """Number of threads of the option ``n_jobs``."""
    CONSTRAINTS["n_jobs"].check("n_jobs", n_jobs)
    return available_threads(None) if n_jobs is None or n_jobs == -1 else int(n_jobs)


def _full_leaves(parameters: Mapping[str, Any], objective: Objective, engine_allows: bool) -> bool:
    """Whether all leaves of a tree are solved together."""
    if parameters["leaf_values"] == "full" and parameters["reg_lambda"] == 0:
        raise ValueError(
            "leaf_values='full' needs reg_lambda above 0: the full system has no unique solution."
        )
    if parameters["leaf_values"] != "auto":
        return bool(parameters["leaf_values"] == "full")
    possible = objective.full_curvature and parameters["reg_lambda"] > 0 and engine_allows
    return is_auto(parameters["objective"]) and possible


def _seed(parameters: Mapping[str, Any]) -> int:
    seed = parameters["random_state"]
    if seed is None:
        if parameters["checkpoint"] is not None:
            raise ValueError(
                "checkpoint needs a random_state, or no later fit could resume from it; set one."
            )
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(seed, np.random.RandomState):
        return int(seed.randint(2**31))
    Number(0, whole=True, remark="None for any seed").check("random_state", seed)
    if seed >= 1 << 64:  # random numbers are a function of 64 bits of it
        raise ValueError(f"random_state must be below 2^64; got {seed}.")
    return int(seed)


def _langevin(parameters: Mapping[str, Any]) -> Langevin | None:
    if not parameters["langevin"]:
        for name, unset in (
            ("diffusion_temperature", None),
            ("shrink_rate", None),
            ("leaf_noise", "shared"),
        ):
            if parameters[name] != unset:
                raise ValueError(
                    f"{name} belongs to Langevin boosting; set langevin=True or leave it out."
                )
        return None
    temperature, rate = parameters["diffusion_temperature"], parameters["shrink_rate"]
    return Langevin(
        temperature=1e8 if temperature is None else float(temperature),
        shrink_rate=1e-3 if rate is None else float(rate),
        independent=parameters["leaf_noise"] == "independent",
    )
