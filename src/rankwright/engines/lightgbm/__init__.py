"""LightGBM as an engine. Only `grower` and SHAP values import the library; a saved model predicts without it.

This folder is the only place that knows LightGBM's model text and the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankwright.engines.contract import Engine, Growth, Needs
from rankwright.engines.library import loading_problems
from rankwright.engines.lightgbm import parameters
from rankwright.engines.lightgbm.forest import LightGBMForest
from rankwright.support.reducer import ALONE

if TYPE_CHECKING:
    from rankwright.engines.lightgbm.grower import Grower


class LightGBM:
    """The engine; `rankwright.engines.contract.Engine` describes each name."""

    name = "lightgbm"
    file_name = "model.txt"
    several_machines = False

    @property
    def version(self) -> str:
        """Version of the library."""
        # Imported here because it is a tenth of the time that a saved model takes to load.
        from importlib.metadata import version

        return version("lightgbm")

    def check(self, params: Mapping[str, Any], needs: Needs) -> list[str]:
        """Return the reasons why ``engine_params``, or the engine itself, cannot be used."""
        problems = loading_problems("lightgbm", "lightgbm", other_engine="xgboost")
        return problems or parameters.RULES.check(params, needs)

    def decided_options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of bins if the parameters set it."""
        return parameters.decided_options(params)

    def grower(self, growth: Growth) -> Grower:
        """Prepare to grow trees, on one machine: LightGBM's bins and samples are those of its own rows."""
        if growth.reducer is not ALONE:
            raise ValueError(
                "engine='lightgbm' trains on one machine; use engine='xgboost' to train on several."
            )
        from rankwright.engines.lightgbm.grower import Grower

        return Grower(growth)

    def load(self, content: bytes) -> LightGBMForest:
        """Read a model file."""
        return LightGBMForest.load(content)

    def booster(self, content: bytes) -> Any:
        """Return a model of LightGBM itself."""
        import lightgbm

        return lightgbm.Booster(model_str=content.decode())


ENGINE: Engine = LightGBM()
