"""What is to be trained, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.training.steering import Steering


@dataclass(frozen=True)
class Langevin:
    """Langevin boosting (SGLB).

    Parameters
    ----------
    temperature
        Noise variance is proportional to 1 / temperature. It is β of the paper divided by the number of training
        queries, as CatBoost counts it; see `rankwright.training.boosting`.
    shrink_rate
        γ: the share of all earlier trees that each tree takes away, per unit of learning rate.
    independent
        Whether leaf values get noise of their own instead of that of the splits.
    """

    temperature: float
    shrink_rate: float
    independent: bool


@dataclass(frozen=True)
class BiasSettings:
    """Position bias to learn.

    Parameters
    ----------
    columns
        Fields of the training data whose values have a bias each.
    ridge, smoothness
        Regularisation, in documents; see `rankwright.training.position_bias`.
    limit
        Positions from this one on share one value.
    """

    columns: tuple[str, ...]
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


@dataclass(frozen=True)
class Settings:
    """What the loop needs to know besides data and objective.

    With ``steering`` the learning rate is only that of the first tree.
    """

    engine: str
    n_trees: int
    tree_options: dict[str, Any]
    engine_params: dict[str, Any]
    full_leaves: bool
    steering: Steering | None
    subsample_queries: float
    bagging_temperature: float
    langevin: Langevin | None
    patience: int | None
    stopping_rule: str
    seed: int
    threads: int
    stopping_errors: float = 1.0
    bias: BiasSettings | None = None
    propensity: PropensitySettings | None = None

    @property
    def own_leaves(self) -> bool:
        """Whether leaf values are computed here instead of by the engine."""
        return self.full_leaves or (self.langevin is not None and self.langevin.independent)


class Plan(NamedTuple):
    """What is to be trained: the parameters, and what they mean.

    ``settings`` has None where the data decides; `rankwright.training.defaults.for_data` fills it in.
    """

    parameters: Mapping[str, Any]
    objective: Objective
    metrics: dict[str, Metric]
    settings: Settings

    @property
    def target(self) -> Metric:
        """The metric to optimise."""
        return next(iter(self.metrics.values()))
