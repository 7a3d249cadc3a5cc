"""Groups of parameters of `rankwright.Ranker` that are only used together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rankwright.support import checks
from rankwright.support.checks import ArgumentError
from rankwright.support.notation import nearest


@dataclass(frozen=True, kw_only=True)
class Langevin:
    """Langevin boosting (SGLB): noise in the gradients and shrinking of earlier trees.

    The product of ``shrink_rate``, the learning rate and the number of trees may be up to about 30.

    Parameters
    ----------
    temperature
        The noise of a document of curvature h has the standard deviation
        sqrt(2 h / (learning_rate * temperature)). The temperature is counted as CatBoost does, and
        is not β of the papers: with L the mean loss of N training queries, training tends to
        exp(-β L) with β = N * temperature, so the same value is colder on more data.
    shrink_rate
        γ of SGLB: the share of all earlier trees that each tree takes away, per unit of learning
        rate.
    leaf_noise
        ``"shared"``: splits and leaf values get the same noise. ``"independent"``: leaf values get
        a draw of their own, as in the SGLB algorithm. They are then computed by the training
        instead of the engine.

    Examples
    --------
    >>> import rankwright as rw
    >>> ranker = rw.Ranker("stochasticrank", langevin=rw.Langevin(temperature=1e9))
    >>> ranker.langevin.shrink_rate
    0.001
    """

    temperature: float = 1e8
    shrink_rate: float = 1e-3
    leaf_noise: str = "shared"

    def __post_init__(self) -> None:
        checks.positive("temperature of langevin", self.temperature)
        checks.number("shrink_rate of langevin", self.shrink_rate, least=0)
        checks.choice("leaf_noise of langevin", self.leaf_noise, ("shared", "independent"))

    @property
    def independent(self) -> bool:
        """Whether leaf values get noise of their own."""
        return self.leaf_noise == "independent"


@dataclass(frozen=True, kw_only=True)
class PositionBias:
    """How the position bias that ``fit(position=...)`` learns is regularised.

    Parameters
    ----------
    ridge
        L2 regularisation of the bias, in documents: 1 counts as much as a single document.
    smoothness
        L2 regularisation of the differences between neighbouring positions, in documents.
    limit
        This position and all later positions share a bias.

    Examples
    --------
    >>> import rankwright as rw
    >>> ranker = rw.Ranker(position_bias=rw.PositionBias(smoothness=100, limit=20))
    >>> ranker.position_bias.ridge
    1.0
    """

    ridge: float = 1.0
    smoothness: float = 0.0
    limit: int = 50

    def __post_init__(self) -> None:
        checks.positive("ridge of position_bias", self.ridge)
        checks.number("smoothness of position_bias", self.smoothness, least=0)
        checks.whole("limit of position_bias", self.limit, least=2, most=500)


# The parameters that are groups. Their entries are named with a dot, as in langevin.temperature.
GROUPS: dict[str, type[Langevin] | type[PositionBias]] = {
    "langevin": Langevin,
    "position_bias": PositionBias,
}


def read_langevin(option: Any) -> Langevin | None:
    """Return Langevin boosting as the parameter ``langevin`` describes it; None for none."""
    if option is None or option is False:
        return None
    if option is True:
        return Langevin()
    return _read("langevin", option, "True, False, ")  # type: ignore[return-value]


def read_position_bias(option: Any) -> PositionBias:
    """Return the parameter ``position_bias``; None is the defaults."""
    if option is None:
        return PositionBias()
    return _read("position_bias", option, "None, ")  # type: ignore[return-value]


def entry_names(name: str) -> list[str]:
    """Return the names of a group's entries, with the name of the group before a dot."""
    return [f"{name}.{field.name}" for field in fields(GROUPS[name])]


def plain_groups(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with dicts in the place of groups, for files."""
    kinds = tuple(GROUPS.values())
    return {
        name: asdict(value) if isinstance(value, kinds) else value
        for name, value in parameters.items()
    }


def _read(name: str, option: Any, also: str) -> Langevin | PositionBias:
    kind = GROUPS[name]
    if isinstance(option, kind):
        return option
    names = [field.name for field in fields(kind)]
    if not isinstance(option, Mapping):
        raise ArgumentError(
            name,
            f"must be {also}a {kind.__name__} or a dict of {', '.join(names)}; got {option!r}.",
        )
    for key in option:
        if key not in names:
            raise ArgumentError(
                name, f"has no entry {key!r}{nearest(str(key), names)} It has {', '.join(names)}."
            )
    return kind(**option)
