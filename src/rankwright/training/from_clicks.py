"""What ``fit`` knows about clicks: where documents were shown, and how likely they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.arguments import by_column
from rankwright.data.dataset import RankingData
from rankwright.objectives.propensity import check_clip, inverse_propensities
from rankwright.training.bias_columns import read_columns, warn_without_overlap
from rankwright.training.settings import BiasSettings, Plan, PropensitySettings


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
        known = by_column("propensity", propensity)
        if len(known) > 1:
            raise ValueError(
                f"propensity is one column: the probability that a document was seen; got {list(known)}."
            )
        if not known and (clip is not None or self_normalised):
            name = "clip" if clip is not None else "self_normalised"
            raise ValueError(f"{name} belongs to propensity=, which is not given; leave it out.")
        if self_normalised not in (True, False):
            raise ValueError(f"self_normalised must be True or False; got {self_normalised!r}.")
        check_clip(clip)
        return cls(by_column("position", position), known, clip, bool(self_normalised))

    @property
    def fields(self) -> dict[str, Any]:
        """All columns, to be fields of the data."""
        return {**self.position, **self.propensity}

    @property
    def named(self) -> dict[str, str]:
        """Those that are given as names of columns or fields."""
        return {name: value for name, value in self.fields.items() if isinstance(value, str)}

    @property
    def names(self) -> list[str]:
        """Columns of a frame that are not features."""
        return list(self.named.values())

    def add_to(self, plan: Plan, data: RankingData) -> Plan:
        """Add them to the plan of a training on data that has them as fields; raise ValueError where it cannot be."""
        settings, parameters = plan.settings, plan.parameters
        if self.position:
            bias = BiasSettings(
                tuple(self.position),
                float(parameters["position_ridge"]),
                float(parameters["position_smoothness"]),
                int(parameters["position_limit"]),
            )
            read_columns(bias, data)
            warn_without_overlap(bias, data)
            settings = replace(settings, bias=bias)
        for column in self.propensity:
            clip = None if self.clip is None else float(self.clip)
            settings = replace(
                settings, propensity=PropensitySettings(column, clip, self.self_normalised)
            )
            document_weights(settings.propensity, data)
        return plan._replace(settings=settings)


def document_weights(
    settings: PropensitySettings | None, data: RankingData
) -> NDArray[np.float64] | None:
    """Return the inverse propensities of the rows; None where they are not known."""
    if settings is None:
        return None
    values = data.fields[settings.column]
    return inverse_propensities(
        values, data.y, data.queries, clip=settings.clip, self_normalised=settings.self_normalised
    )
